"""Options of the benchmark: the suite, its settings, and the store of records.

The options have no defaults of their own: those are the defaults of the suite's fields, and only the given options
reach the suite, which refuses the settings of another.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

from deltamark.datagen.graphs.generator import KINDS
from deltamark.datagen.schema import scale_factor
from deltamark.datagen.workloads.registry import NAMES
from deltamark.errors import DeltamarkError
from deltamark.harness.cli.options import (
    MAX_BATCHES,
    Added,
    add_data,
    batch_sizes,
    seconds,
    size,
    sql_files,
    whole,
    words,
    worker_counts,
)
from deltamark.harness.cli.parser import setting_help
from deltamark.harness.compare.trees import resolve
from deltamark.harness.engines.external.named import is_program
from deltamark.harness.engines.registry import ALL as ALL_ENGINES
from deltamark.harness.engines.registry import every_engine, known_engine
from deltamark.harness.suites.rate import NAMES as ARRIVALS
from deltamark.harness.suites.registry import DEFAULT, SUITES
from deltamark.harness.suites.suite import Suite

MAX_RUNS = 1000
MAX_FUEL = 10**9
"""The largest number of units of attachment per batch, each of at most 4,096 rows."""

rmat_scale = whole(1, KINDS["rmat"].max_size)


def add_bench(parser: argparse.ArgumentParser) -> None:
    """Add the options of all suites."""
    parser.argument_default = argparse.SUPPRESS
    add_suite(parser)
    add_results(parser)
    _add_common(parser)
    _add_queries(parser)
    _add_rates(parser)
    _add_graphs(parser)
    for action in parser._actions:  # noqa: SLF001 (set_defaults would set the marker as the value)
        if action.dest in ("benchmark", "sf", "data", "master"):
            action.help = setting_help(action)
            action.default = argparse.SUPPRESS


def suite_of(args: argparse.Namespace) -> Suite:
    """Return the suite with the given settings."""
    others = ("suite", "results", "repo", "debug", "argv")
    suite = SUITES[args.suite].of({name: value for name, value in vars(args).items() if name not in others})
    if args.repo is not None:
        _check_repository(args.repo, getattr(args, "engines", ()))
    return suite


def _check_repository(repository: Path, measured: Sequence[str]) -> None:
    """Raise an error unless a directory has a git repository, and a measured program belongs to it."""
    resolve(repository, "HEAD")
    if not any(map(is_program, measured)):
        problem = ", ".join(measured) or "ENGINES is not given"
        raise DeltamarkError(
            "no engine of the repository", problem, "with REPO, name its program: ENGINES=exec:PROGRAM"
        )


def _add_common(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_data(parser)
    add("--runs", type=whole(1, MAX_RUNS), help="largest number of timed runs of a cell (default: 3)")
    text = "time limit in seconds: of a run for tpch, of a cell for other suites (default: 600)"
    add("--timeout", type=seconds, metavar="S", help=text)
    text = "git repository of the measured programs (exec:), whose commit their records name (default: this project)"
    add("--repo", type=Path, default=None, metavar="DIR", help=text)


def _add_queries(parser: argparse.ArgumentParser) -> None:
    group = "suites tpch, coverage, shared, memory, rate, windows, growth, recovery and attach"
    add = parser.add_argument_group(group).add_argument
    add("--queries", "--query", type=words, action=Added, metavar="Q,Q", help="queries to run (default: all)")
    text = "files of SQL, as queries to run"
    add("--sql", dest="queries", type=sql_files, action=Added, metavar="FILE,FILE", help=text)
    add("--logical", type=batch_sizes, metavar="L,L", help="rounds per logical batch, which share a time")
    text = "logical batches per physical batch"
    add("--physical", type=batch_sizes, metavar="P,P", help=text)
    add("--workload", type=words, metavar="W,W", help=", ".join(NAMES))
    add("--workers", type=worker_counts, metavar="W,W", help="numbers of workers, for tpch and memory")
    text = "units of incremental attachment per batch, for shared (default: 2)"
    add("--fuel", type=whole(1, MAX_FUEL), help=text)
    group = "suites tpch, coverage, shared, memory, rate, windows, growth, recovery and attach"
    add = parser.add_argument_group(group).add_argument
    text = "embedded, spark; duckdb, spark-sql, which recompute; a peer; exec:PROGRAM; all (default: embedded,duckdb)"
    add("--engines", type=engines, metavar="E,E", help=text)
    add = parser.add_argument_group("suites tpch and memory").add_argument
    add("--variants", type=words, metavar="V,V", help="dataflows of a query: first, sql, ..., or all (default: first)")
    add("--product", type=batch_sizes, metavar="N", help="all L x P = N in powers of ten")
    text = "largest number of timed batches, spread over the stream; 0: all (default: 10000, 15 if recomputed)"
    add("--sample", type=whole(0, MAX_BATCHES), metavar="N", help=text)


def _add_rates(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("suite rate").add_argument
    text = f"{', '.join(ARRIVALS)}: rounds at equal intervals, or in bursts of random sizes (default: steady)"
    add("--arrivals", type=words, metavar="A,A", help=text)
    add("--limit", type=seconds, metavar="S", help="largest 99th percentile of the latency, in seconds (default: 1)")
    add("--seconds", type=seconds, metavar="S", help="duration of a trial, unless the stream is shorter (default: 5)")


def _add_graphs(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("suites graph and loops").add_argument
    add("--batches", type=batch_sizes, metavar="N,N", help="changes per batch (default: 1,10,100,1000,10000)")
    add = parser.add_argument_group("suite graph").add_argument
    add("--scale", type=rmat_scale, metavar="S", help="scale of the R-MAT graph (default: 16)")
    add("--vertices", metavar="GRAPH", help="graph that is replayed vertex by vertex (default: zipf:16)")
    add("--hub", type=whole(1, KINDS["hub"].max_size), metavar="N", help="edges of the hub (default: 13127)")
    add = parser.add_argument_group("suite loops").add_argument
    add("--nodes", type=size, metavar="N", help="nodes of the random graph (default: 1M; the post has 10M)")
    add("--edges", type=size, metavar="N", help="edges of the random graph (default: 10M; the post has 100M)")
    add("--roots", type=size, metavar="N", help="nodes from which distances are measured (default: 1)")
    add("--changes", type=size, metavar="N", help="changes of edges per batch size (default: 100K)")
    add = parser.add_argument_group("suites windows and growth").add_argument
    text = (
        "windows: rows of the partition (default: 10,100,1K,10K,100K,1M); "
        "growth: scale factors of the base (default: 0.01,0.02,0.05,0.1,0.2,0.5,1)"
    )
    add("--sizes", type=sizes, metavar="N,N", help=text)


def add_suite(parser: argparse.ArgumentParser) -> None:
    text = (
        "tpch: the queries of a benchmark; coverage: grades of engines; shared: the cost of one more query; "
        "memory: the least memory of a cell; rate: the highest sustained rate; growth: certificates that answers are "
        "maintained; recovery: kills of an engine; attach: a second query beside the first; loops; graph; windows"
    )
    parser.add_argument("--suite", choices=tuple(SUITES), default=DEFAULT, help=f"{text} (default: {DEFAULT})")


RESULTS = Path("results")


def add_results(parser: argparse.ArgumentParser) -> None:
    text = f"directory of records (default: {RESULTS})"
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help=text)


def sizes(text: str) -> tuple[int, ...] | tuple[Decimal, ...]:
    """Read numbers of rows, or scale factors if one has a decimal point."""
    return tuple(map(scale_factor, text.split(","))) if "." in text else batch_sizes(text)


def engines(text: str) -> tuple[str, ...]:
    names = [name for word in words(text) for name in (every_engine() if word == ALL_ENGINES else (word,))]
    return tuple(dict.fromkeys(map(known_engine, names)))
