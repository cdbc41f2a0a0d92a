"""Pure decisions: no await, no I/O, no clock, no randomness.

Everything here is a function of its arguments, so that dispatch, preview, explain and the pages can
all call it.
"""
