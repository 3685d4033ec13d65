# deltamark: make COMMAND [NAME=value ...] calls the command line; `make` alone prints this help.
#   example:                make data SF=0.01 DATA=/big/disk MASTER=local[2]
#   settings of a command:  .venv/bin/python -m harness COMMAND --help
.DEFAULT_GOAL := help
PYTHON ?= python3
IN := .venv/bin/
RUN := $(IN)python -m harness
SETTINGS = $(subst ',\',$(subst ",\",$(MAKEOVERRIDES)))

COMMANDS := $(shell sed -n 's/^@command."\([a-z-]*\)".*/\1/p' harness/cli/*/*.py)
.PHONY: help setup lock $(COMMANDS) bench-engine bench-shared bench-ssb bench-nexmark bench-reach bench-memory rate fuzz ibis check lint types test format clean

help:  ## this help
	@$(PYTHON) -m harness.cli.commands Makefile

setup: .venv/ready  ## make .venv with everything in it (every other target does so by itself)
.venv/ready: requirements.lock requirements-build.lock
	@$(PYTHON) -m harness.bootstrap.setup

$(COMMANDS): .venv/ready
	@$(RUN) $@ $(SETTINGS)

bench-engine: .venv/ready  ## the benchmark of our engine, without DuckDB recomputing: make bench-engine SF=1
	@$(RUN) bench ENGINES=embedded $(SETTINGS)

bench-shared: .venv/ready  ## the suite of sharing: all queries in one dataflow, beside each alone: make bench-shared SF=1
	@$(RUN) bench SUITE=shared $(SETTINGS)

bench-ssb: .venv/ready  ## the Star Schema Benchmark, 13 queries from their SQL: make bench-ssb SF=1
	@$(RUN) bench BENCHMARK=ssb $(SETTINGS)

bench-nexmark: .venv/ready  ## Nexmark, 22 queries from their SQL over SF million events of auctions: make bench-nexmark SF=1
	@$(RUN) bench BENCHMARK=nexmark $(SETTINGS)

bench-reach: .venv/ready  ## the suite of loops: distances, from scratch and attached: make bench-reach NODES=10M EDGES=100M
	@$(RUN) bench SUITE=loops $(SETTINGS)

bench-memory: .venv/ready  ## the suite of memory: the least memory of a cell, under limits: make bench-memory QUERIES=q05,q18 SF=0.1
	@$(RUN) bench SUITE=memory $(SETTINGS)

rate: .venv/ready  ## the suite of rates: the highest rate that an engine sustains: make rate QUERY=q05 SF=0.1 ENGINES=embedded,duckdb
	@$(RUN) bench SUITE=rate $(SETTINGS)

fuzz: .venv/ready  ## random plans on every engine, in checked kernels: make fuzz SECONDS=600 KINDS=worker,together SEED=1, or random SQL on an engine of others: ENGINE=turso
	@DELTAMARK_CHECKED=1 PYTHONHASHSEED=0 PYTHONPATH=tests $(IN)python -m fuzz $(SETTINGS)

ibis: .venv/ready  ## ibis' own tests of backends, run against databases (a few minutes)
	@PYTHONPATH=tests $(IN)python -m ibis_suite

check: lint types test  ## what continuous integration runs

lint: .venv/ready  ## style and format
	@$(IN)ruff check
	@$(IN)ruff format --check

types: .venv/ready  ## strict types
	@$(IN)mypy

test: .venv/ready  ## the tests, in random order
	@$(IN)pytest

format: .venv/ready  ## rewrite the sources in the house format
	@$(IN)ruff check --fix
	@$(IN)ruff format

lock: .venv/ready  ## pin the newest versions that pyproject.toml allows
	@$(IN)python -m harness.bootstrap.lock

clean:  ## remove .venv and caches; data and results stay
	@for tree in .compare/*/; do git -C "$$tree" worktree remove --force --force . 2>/dev/null; done; true
	@rm -rf .venv .compare .mypy_cache .ruff_cache .pytest_cache .hypothesis
