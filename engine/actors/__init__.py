"""Actors order work in time; truth stays in PostgreSQL (architecture, decisions 1 and 2).

An actor may die at any moment and nothing is lost. It handles one message at a time, so that this
process never fights itself for a row lock. `runtime` holds the Pykka actors on Trio and is what
the other modules of this package build on; `residency`, `supervision` and `spawning` are its parts.
"""
