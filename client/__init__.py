"""Wakeful from the outside: an SDK over HTTP, and the daemon that carries out an agent's runs.

`client.api` is what people and agents call, synchronously; `client.daemon` claims and executes on
Trio. Neither knows anything of the server but its HTTP contract.
"""
