"""`python -m cli` is `wakeful`, for processes that start it with their own interpreter."""

from __future__ import annotations

from cli.main import main

main()
