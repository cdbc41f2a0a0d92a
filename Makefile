# Every task of the project; `make` alone lists them.
#
#   PYTHON=python3.12   the interpreter that .venv is made with (default: see tools/prerequisites)
#   DATA=/srv/wakeful   where `make run` keeps its data
#   PORT=9000           where `make run` serves, if 8765 is taken
#   ARGS='-k joins -x'  more arguments for pytest or the benchmarks
#   UPGRADE=1           `make lock` takes the newest versions instead of keeping the pinned ones

DATA ?= data
PORT ?=
ARGS ?=
UPGRADE ?=

BIN := .venv/bin
STAMP := .venv/.stamp
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help prerequisites setup run test check format bench schema wheel lock clean

help: ## List the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 24

prerequisites: ## Name what is missing on this machine, with the command that installs it
	@tools/prerequisites

setup: $(STAMP) ## Make .venv with the locked dependencies and the command .venv/bin/wakeful

# Everything that pip fetches is pinned by hash, the build backend included: hence no build isolation.
$(STAMP): requirements.txt pyproject.toml
	@python=$$(tools/prerequisites) || exit 1; \
	$(BIN)/python -m pip --version >/dev/null 2>&1 || "$$python" -m venv --clear .venv
	@echo 'Installing the locked dependencies into .venv (the first time takes a minute)'
	@$(PIP) install --require-hashes --requirement requirements.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

run: setup ## Serve with the data in ./data; Ctrl-C drains and stops
	$(BIN)/wakeful serve --data-dir $(DATA) $(if $(PORT),--port $(PORT))

test: setup ## Run every test
	$(BIN)/pytest $(ARGS)

check: setup ## Lint, format, types, layers and the tidy tests; changes nothing
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest tests/tidy

format: setup ## Format, and fix what the linter can fix
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

bench: setup ## Run the benchmarks (docs/benchmarks.md)
	$(BIN)/python bench/run.py $(ARGS)

schema: setup ## Write migrations/schema.sql and migrations/functions/ anew from the migrations
	$(BIN)/python -m engine.storage.schema_dump

wheel: setup ## Build the wheel into dist/
	$(BIN)/python -m build --wheel --no-isolation

LOCK := $(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-header --no-emit-options

# The second file starts as a copy of the first, so that both hold the same versions.
lock: setup ## Write both lock files anew from pyproject.toml, with hashes and without addresses
	$(LOCK) --extra dev $(if $(UPGRADE),--upgrade) --output-file requirements.txt pyproject.toml
	cp requirements.txt requirements-runtime.txt
	$(LOCK) --output-file requirements-runtime.txt pyproject.toml

clean: ## Remove everything that can be made again; data stays
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
