"""The settings of a sweep: which cells, how often, where their records go."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from deltamark.datagen.graphs.generator import KINDS
from deltamark.harness.cli.options import (
    MAX_BATCHES,
    add_data,
    batch_sizes,
    data_request,
    seconds,
    size,
    whole,
    words,
    worker_counts,
)
from deltamark.harness.engines.registry import COMPARED, known_engine
from deltamark.harness.measure import grid
from deltamark.harness.measure.grid import Asked, Task
from deltamark.harness.measure.sweep import Effort, Plan
from deltamark.harness.results import machine
from deltamark.harness.results.record import Origin, Record
from deltamark.harness.suites import SUITES, TPCH

MOST_RUNS = 1000
MOST_FUEL = 10**9
"""Pieces of work of 4,096 rows."""

rmat_scale = whole(1, KINDS["rmat"].max_size)


def add_sweep(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_data(parser)
    add("--queries", type=words, default=(), metavar="Q,Q", help="which (default all 22)")
    add("--variants", type=words, default=(), metavar="V,V", help="dataflows of a query, or all (default the first)")
    add("--logical", type=batch_sizes, default=(), metavar="L,L", help="rounds that share a time")
    add("--physical", type=batch_sizes, default=(), metavar="P,P", help="logical batches at once")
    add("--product", type=batch_sizes, default=(), metavar="N", help="all L x P = N in powers of ten")
    add("--workers", type=worker_counts, default=(), metavar="W,W", help="numbers of workers")
    text = "embedded, spark; duckdb, spark-sql recompute; exec:PROGRAM; default embedded,duckdb"
    add("--engines", type=engines, default=COMPARED, metavar="E,E", help=text)
    add("--workload", type=words, default=(), metavar="W,W", help="insert, window:N, refresh:K")
    text = "time at most N batches, spread over the stream; 0: all (default 10000, and 15 where recomputed)"
    add("--sample", type=whole(0, MAX_BATCHES), metavar="N", help=text)
    add_runs(parser)
    add_results(parser)


def add_bench(parser: argparse.ArgumentParser) -> None:
    """Add all that can be said of a benchmark, and what is usual: see suites.check_settings."""
    add_sweep(parser)
    add_suites(parser)
    parser.set_defaults(usual=vars(parser.parse_args([])))


def add_suites(parser: argparse.ArgumentParser) -> None:
    """Add which suite it is, and what can be said of others than TPC-H."""
    add_suite(parser)
    add = parser.add_argument_group("of the suites of graphs and of loops").add_argument
    sizes = (1, 10, 100, 1000, 10_000)
    add(
        "--batches",
        type=batch_sizes,
        default=sizes,
        metavar="N,N",
        help="changes at a time (default 1,10,100,1000,10000)",
    )
    add = parser.add_argument_group("of the suite of graphs").add_argument
    add("--scale", type=rmat_scale, default=16, metavar="S", help="of the graph rmat:S (default 16)")
    add("--vertices", default="zipf:16", metavar="GRAPH", help="that comes vertex by vertex (default zipf:16)")
    add(
        "--hub",
        type=whole(1, KINDS["hub"].max_size),
        default=13_127,
        metavar="N",
        help="edges of the hub (default 13127)",
    )
    add = parser.add_argument_group("of the suite of loops").add_argument
    add("--nodes", type=size, default=1_000_000, metavar="N", help="of a random graph (default 1M; the post has 10M)")
    add("--edges", type=size, default=10_000_000, metavar="N", help="of it (default 10M; the post has 100M)")
    add("--roots", type=size, default=1, metavar="N", help="that distances are from (default 1)")
    text = "of edges, for each size of batches (default 100K)"
    add("--changes", type=size, default=100_000, metavar="N", help=text)
    add = parser.add_argument_group("of the suite of sharing").add_argument
    text = "pieces of work a batch, where a query comes bit by bit (default 2)"
    add("--fuel", type=whole(1, MOST_FUEL), default=2, help=text)


def add_suite(parser: argparse.ArgumentParser) -> None:
    text = f"{TPCH}, graph, loops, or shared: all queries in one dataflow (default {TPCH})"
    parser.add_argument("--suite", choices=(TPCH, *SUITES), default=TPCH, help=text)


def add_runs(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--runs", type=whole(1, MOST_RUNS), default=3, help="timed runs of a cell; slow ones get fewer (default 3)")
    text = "seconds that a run, of another suite a cell, may take (default 600)"
    add("--timeout", type=seconds, default=600.0, metavar="S", help=text)


def add_results(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--results", type=Path, default=Path("results"), metavar="DIR", help="where records lie (default results)"
    )


def planned(chosen: argparse.Namespace, known: Sequence[Record], session: str = "") -> Plan:
    """Return what the settings ask for, and what of it is known."""
    data = machine.data(data_request(chosen).directory)
    origin = Origin(data, machine.code(), machine.versions(), machine.commit(), session)
    return Plan.of(tasks(chosen), known, origin, Effort(chosen.runs, chosen.timeout))


def tasks(chosen: argparse.Namespace) -> list[Task]:
    """List the cells that the settings ask for. A wrong name is an error here, before any data is made."""
    return grid.tasks(Asked(
        str(chosen.sf), chosen.queries, chosen.variants, chosen.logical, chosen.physical, chosen.product,
        chosen.workers, chosen.engines, chosen.workload, chosen.sample, chosen.master,
    ))  # fmt: skip


def engines(text: str) -> tuple[str, ...]:
    return tuple(map(known_engine, words(text)))
