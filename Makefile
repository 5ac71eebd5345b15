# One line a verb; `make` alone lists them. Each makes sure first that .venv is up to date.

PYTHON ?= python3
# All cores, for campaigns of the simulator.
WORKERS ?= $(shell nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)
# Tests wait for a third of their time, for leases and for other processes: four keep two cores busy.
TESTERS ?= 4
SEEDS ?= 200
FIRST ?= 0
MINUTES ?= 60
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help setup up web docs test check fmt demo sim fleet chaos hub endurance bench lock clean

help:  ## list the verbs
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/:/' | awk -F': +' '{printf "  make %-9s %s\n", $$1, $$2}'

setup:  ## create .venv with the locked tools and libraries, and holdfast itself
	@$(PYTHON) scripts/setup.py

web: setup  ## build the Control Center (needs Node.js, or brings it)
	@$(BIN)/python scripts/web.py build

docs: setup  ## build the documentation site (build/site/html/index.html)
	@$(BIN)/python scripts/site.py

up: web  ## try it: a server with a living sample, and the Control Center (ARGS="--open")
	$(BIN)/holdfast dev $(ARGS)

test: web  ## run every test
	$(BIN)/pytest -n $(TESTERS) --dist worksteal

check: web  ## lint, format, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python scripts/web.py check

fmt: setup  ## format the code and fix what can be fixed
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .
	$(BIN)/python scripts/web.py fmt

demo: setup  ## run the demo with failures, a killed worker and its recovery
	$(BIN)/holdfast demo

sim: setup  ## run the simulator in virtual time (SEEDS=200 or SIM_MINUTES=60, FIRST=0)
	$(BIN)/holdfast simulate --seed $(FIRST) --processes $(WORKERS) \
		$(if $(SIM_MINUTES),--minutes $(SIM_MINUTES),--seeds $(SEEDS))

fleet: setup  ## 1,000 simulated agents over a bad network, every law checked (FIRST=0, SEEDS=200)
	$(BIN)/python -m proof fleet --seed $(FIRST) --seeds $(SEEDS)

chaos: setup  ## faults on real processes, with peers for comparison (about 25 minutes)
	$(BIN)/python -m proof chaos

hub: setup  ## gateways, workers, watchers and offline nodes under kills and restarts (FIRST=0, SEEDS=1)
	$(BIN)/python -m proof hub --seed $(FIRST) --seeds $(if $(filter file,$(origin SEEDS)),1,$(SEEDS))

endurance: setup  ## long runs with an old reader, memory, sizes, pruning (MINUTES=60, ARGS="--quick")
	$(BIN)/python -m proof endurance --minutes $(MINUTES) $(ARGS)

bench: setup  ## measure Holdfast and its peers
	$(BIN)/python -m proof bench

lock: setup  ## resolve requirements/dev.txt again (UPGRADE=1 takes the newest versions)
	$(BIN)/uv pip compile pyproject.toml --output-file requirements/dev.txt --quiet \
		--universal --python-version 3.11 --generate-hashes \
		--extra postgres --extra redis --extra uvloop --extra metrics \
		--extra gateway --extra grpc --extra client --extra ssh --extra celery --extra ed25519 \
		--extra otel --extra django \
		--group build --group docs --group test --group lint \
		--no-emit-index-url --no-emit-find-links --no-emit-index-annotation \
		--custom-compile-command 'make lock' $(if $(UPGRADE),--upgrade)
	@! grep -nE '://|file:|index-url|find-links' requirements/dev.txt
	$(BIN)/python scripts/web.py lock

clean:  ## remove generated files
	rm -rf .venv build dist src/holdfast/web/dist web/node_modules .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
