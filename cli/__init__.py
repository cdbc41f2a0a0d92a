"""The command `wakeful`: one module a command group; `cli.main` finds them.

Only `cli.serve` loads the engine. Data goes to standard output, everything else to standard error;
the exit code is 0 or 1 (W-204).
"""
