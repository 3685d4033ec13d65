# deltamark: every target calls the command line; `make` alone prints this help.
#   settings are NAME=value words:  make data SF=0.01 DATA=/big/disk MASTER=local[2]
#   every setting of a target:      .venv/bin/python -m harness TARGET --help
.DEFAULT_GOAL := help
PYTHON ?= python3
IN := .venv/bin/
RUN := $(IN)python -m harness

.PHONY: help setup lock data data-verify answer changes verify golden bench plan tables readme bench-engine bench-feed bench-shared bench-reach report compare clean-results soak chaos fuzz check lint types test format clean

help:  ## this help
	@$(PYTHON) -m harness.bootstrap.makehelp Makefile

setup: .venv/ready  ## make .venv with everything in it (every other target does so by itself)
.venv/ready: requirements.lock requirements-build.lock
	@$(PYTHON) -m harness.bootstrap.setup

bench: .venv/ready  ## the benchmark: make bench SF=1; other suites: SUITE=graph, or SUITE=shared SF=1
	@$(RUN) bench $(MAKEOVERRIDES)

data: .venv/ready  ## generate TPC-H and pre-batch it into Arrow files: make data SF=0.01
	@$(RUN) data $(MAKEOVERRIDES)

data-verify: .venv/ready  ## read every byte of the data again and compare digests
	@$(RUN) data-verify $(MAKEOVERRIDES)

answer: .venv/ready  ## a query's maintained answer: make answer QUERY=q05 SF=0.01
	@$(RUN) answer $(MAKEOVERRIDES)

changes: .venv/ready  ## how it changes, as CSV: make changes QUERY=q05 SF=0.01
	@$(RUN) changes $(MAKEOVERRIDES)

verify: .venv/ready  ## check all queries against DuckDB at many times: make verify SF=0.01 QUERIES=q05,q18
	@$(RUN) verify $(MAKEOVERRIDES)

golden: .venv/ready  ## compare the digests of all change streams with results/golden
	@$(RUN) golden $(MAKEOVERRIDES)

plan: .venv/ready  ## what bench would measure with the same settings, and about how long that takes
	@$(RUN) plan $(MAKEOVERRIDES)

tables: .venv/ready  ## the tables of what is measured: make tables SF=1 FORMAT=markdown TABLE=product; SUITE=graph
	@$(RUN) tables $(MAKEOVERRIDES)

report: .venv/ready  ## charts and tables of what is measured, as one HTML file: make report SF=1
	@$(RUN) report $(MAKEOVERRIDES)

compare: .venv/ready  ## is this slower than another commit, or wrong? make compare BASE=main; the verdict: .compare/verdict-tpch.txt
	@$(RUN) compare $(MAKEOVERRIDES)

readme: .venv/ready  ## write the tables of results/reference into the README; MACHINE=... makes that one's records the reference
	@$(RUN) readme $(MAKEOVERRIDES)

clean-results: .venv/ready  ## remove the records of this machine
	@$(RUN) clean-results $(MAKEOVERRIDES)

bench-engine: .venv/ready  ## the benchmark of our engine, without DuckDB recomputing: make bench-engine SF=1
	@$(RUN) bench ENGINES=embedded $(MAKEOVERRIDES)

bench-feed: .venv/ready  ## what cutting a batch costs
	@$(RUN) bench-feed $(MAKEOVERRIDES)

bench-shared: .venv/ready  ## the suite of sharing: all queries in one dataflow, beside each alone: make bench-shared SF=1
	@$(RUN) bench SUITE=shared $(MAKEOVERRIDES)

bench-reach: .venv/ready  ## the suite of loops: distances, from scratch and attached: make bench-reach NODES=10M EDGES=100M
	@$(RUN) bench SUITE=loops $(MAKEOVERRIDES)

soak: .venv/ready  ## a long sliding window, watching the memory: make soak SF=1 WORKLOAD=window:100000
	@$(RUN) soak q18 $(MAKEOVERRIDES)

chaos: .venv/ready  ## kill data, bench, compare and queries on Spark at random moments: make chaos KINDS=data,bench TIMES=5
	@$(RUN) chaos $(MAKEOVERRIDES)

fuzz: .venv/ready  ## random plans on every engine, in checked kernels: make fuzz SECONDS=600 KINDS=worker,together SEED=1
	@DELTAMARK_CHECKED=1 PYTHONHASHSEED=0 PYTHONPATH=tests $(IN)python -m fuzz $(MAKEOVERRIDES)

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
	@rm -rf .venv .compare .mypy_cache .ruff_cache .pytest_cache .hypothesis
