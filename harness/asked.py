"""The settings of a sweep: which cells, how often, where their records go."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness import machine
from harness.grid import Asked
from harness.options import add_data, at_least_one
from harness.record import Origin
from harness.subjects import DUCKDB, known


def add_sweep(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_data(parser)
    add("--queries", type=words, default=(), metavar="Q,Q", help="which (default all 22)")
    add("--variants", type=words, default=(), metavar="V,V", help="dataflows of a query, or all (default the first)")
    add("--logical", type=numbers, default=(), metavar="L,L", help="rounds that share a time")
    add("--physical", type=numbers, default=(), metavar="P,P", help="logical batches at once")
    add("--product", type=numbers, default=(), metavar="N", help="all L x P = N in powers of ten")
    add("--workers", type=numbers, default=(), metavar="W,W", help="numbers of workers")
    text = "embedded, duckdb (recomputes), exec:PROGRAM (see harness/pipes.py); default embedded,duckdb"
    add("--engines", type=engines, default=("embedded", DUCKDB), metavar="E,E", help=text)
    add("--workload", type=words, default=(), metavar="W,W", help="insert, window:N, refresh:K")
    text = "time at most N batches, spread over the stream; 0: all (default 20000, and 15 where recomputed)"
    add("--sample", type=int, metavar="N", help=text)
    add_runs(parser)
    add_results(parser)


def add_runs(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--runs", type=at_least_one, default=3, help="timed runs of a cell; slow ones get fewer (default 3)")
    add("--timeout", type=float, default=600.0, metavar="S", help="seconds that a run may take (default 600)")


def add_results(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--results", type=Path, default=Path("results"), metavar="DIR", help="where records lie (default results)"
    )


def asked(chosen: argparse.Namespace) -> Asked:
    return Asked(
        str(chosen.sf), chosen.queries, chosen.variants, chosen.logical, chosen.physical, chosen.product,
        chosen.workers, chosen.engines, chosen.workload, chosen.sample,
    )  # fmt: skip


def origin(directory: Path, session: str = "") -> Origin:
    """Return by what records are made, here and now."""
    return Origin(machine.data(directory), machine.code(), machine.versions(), machine.commit(), session)


def words(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")))


def numbers(text: str) -> tuple[int, ...]:
    return tuple(map(at_least_one, words(text)))


def engines(text: str) -> tuple[str, ...]:
    return tuple(map(known, words(text)))
