# Every task of the project; `make` alone lists them.
#
#   PYTHON=python3.12   the interpreter that .venv is made with (default: see tools/prerequisites)
#   DATA=/srv/wakeful   where `make run` keeps its data
#   PORT=9000           where `make run` serves, if 8765 is taken
#   ARGS='-k joins -x'  more arguments for pytest or the benchmarks
#   REQUESTS=1000000    how many requests `make fuzz` sends
#   MODEL_EXAMPLES=9000 how many random histories `make model` lives through (default 1000)
#   UPGRADE=1           `make lock` takes the newest versions instead of keeping the pinned ones
#   PEERS_PYTHON=...    the interpreters that bench/.venv may be made with, best first

DATA ?= data
PORT ?=
ARGS ?=
UPGRADE ?=
REQUESTS ?= 200000
MODEL_EXAMPLES ?= 1000
PEERS_PYTHON ?= python3.13 python3.12 python3.11 python3

BIN := .venv/bin
STAMP := .venv/.stamp
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help prerequisites setup run test chaos check format fuzz bench peers year oracle model schema errors wheel lock lockpeers clean

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
	$(BIN)/pytest --numprocesses auto --dist loadfile --no-loadscope-reorder $(ARGS)

chaos: setup ## Kill servers, daemons and PostgreSQL at 230 moments under load, and let 50 writers fight (eight minutes)
	CHAOS_FACTS=10000 CHAOS_KILLS=75 CHAOS_SECONDS=60 $(BIN)/pytest -s -o faulthandler_timeout=3600 \
	  tests/faults/test_many_servers.py tests/faults/test_kill_nine.py tests/faults/test_engine_crowd.py $(ARGS)

check: setup ## Lint, format, types, layers and the tidy tests; changes nothing
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest tests/tidy

format: setup ## Format, and fix what the linter can fix
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

fuzz: setup ## Send REQUESTS (200,000) hostile requests to the whole API
	WAKEFUL_FUZZ_REQUESTS=$(REQUESTS) $(BIN)/pytest -o faulthandler_timeout=3600 tests/fuzz $(ARGS)

bench: setup ## Run the benchmarks (docs/benchmarks.md)
	@$(MAKE) --no-print-directory peers || echo 'Without the peers: they could not be installed'
	$(BIN)/python bench/run.py $(ARGS)

PEERS := bench/.venv/.stamp
PEERS_PIP := bench/.venv/bin/python -m pip -qq --disable-pip-version-check

peers: $(PEERS) ## Make bench/.venv with the job queues that `make bench` compares with

$(PEERS): bench/peers-requirements.txt
	@python=$$(PYTHON='$(PEERS_PYTHON)' tools/prerequisites) || exit 1; \
	"$$python" -m venv --clear bench/.venv
	@echo 'Installing the locked peers of the benchmarks into bench/.venv'
	@$(PEERS_PIP) install --require-hashes --requirement bench/peers-requirements.txt
	@touch $@

year: setup ## Live a year of 200 rules in virtual time, and other long spans (five minutes)
	$(BIN)/python -m tests.simulation.year

oracle: setup ## Compare a million samples of the cron rule with a walk over minutes (about ten minutes)
	$(BIN)/python -m tests.unit.test_schedule_oracle 1000000 $(ARGS)

model: setup ## Hold the engine against the model of its requirements in random histories (eight minutes)
	MODEL_EXAMPLES=$(MODEL_EXAMPLES) $(BIN)/pytest -s -o faulthandler_timeout=7200 \
	  tests/model/test_wakeup_machine.py -k requirements $(ARGS)

schema: setup ## Write migrations/schema.sql and migrations/functions/ anew from the migrations
	$(BIN)/python -m engine.storage.schema_dump

errors: setup ## Write docs/errors.md anew from the table of errors
	$(BIN)/python -m tests.tidy.error_page

wheel: setup ## Build the wheel into dist/
	$(BIN)/python -m build --wheel --no-isolation

LOCK := $(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-header --no-emit-options

# The second file starts as a copy of the first, so that both hold the same versions.
lock: setup ## Write both lock files anew from pyproject.toml, with hashes and without addresses
	$(LOCK) --extra dev $(if $(UPGRADE),--upgrade) --output-file requirements.txt pyproject.toml
	cp requirements.txt requirements-runtime.txt
	$(LOCK) --output-file requirements-runtime.txt pyproject.toml

# With Python 3.12 or newer in bench/.venv, or Oban-py and what it needs fall out of the file.
lockpeers: peers ## Write the lock file of the peers anew from bench/peers-requirements.in
	bench/.venv/bin/pip-compile $(wordlist 2,99,$(LOCK)) $(if $(UPGRADE),--upgrade) \
	  --output-file bench/peers-requirements.txt bench/peers-requirements.in

clean: ## Remove everything that can be made again; data stays
	rm -rf .venv bench/.venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
