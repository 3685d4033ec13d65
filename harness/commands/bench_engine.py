"""Measure the engine on the 22 queries, beside DuckDB recomputing with one thread in the same run.

Every final answer is compared with DuckDB's before anything is timed; a query that is wrong has no times.
"""

from __future__ import annotations

import argparse
import math
import resource
import sys
from typing import Any

from tabulate import tabulate

from dataflow.kernels import compiled_before
from datagen.dataset import Dataset
from datagen.schema import relation
from datagen.workload import workload
from harness.cell import Cell
from harness.commands.data import ensure
from harness.duck import best_seconds, load
from harness.engines import Engine, open_engine
from harness.measure import Record, measure, measure_rounds, measure_workers
from harness.options import add_data, at_least_one, numbers
from harness.verify import check_end
from queries.catalogue import QUERIES, query

GRID = ((100_000, 1), (1, 100_000), (1, 1000))
ROUNDS = 20_000


def options(parser: argparse.ArgumentParser) -> None:
    add_data(parser)
    parser.add_argument("queries", nargs="*", help="which, perhaps with a variant: q15:flat (default all)")
    parser.add_argument(
        "--workers", type=numbers, default=(1,), metavar="W,W",
        help="also compare so many workers with one: 1,2 (default 1: do not)",
    )  # fmt: skip
    parser.add_argument(
        "--runs", type=at_least_one, default=3, help="runs of each cell after one to warm up (default 3)"
    )


def run(chosen: argparse.Namespace) -> int:
    dataset = ensure(chosen)
    if not compiled_before():
        print("compiling the kernels, once on this machine: about a minute", file=sys.stderr, flush=True)
    cells = [_cell(dataset, words) for words in chosen.queries or QUERIES]
    names = sorted({name for cell in cells for name in query(cell.query).relations})
    connection = load(dataset, [relation(name).name for name in names])
    loads, rounds, shared, wrong = [], [], [], []
    several = [workers for workers in chosen.workers if workers > 1]
    for cell in cells:
        found = check_end(cell, dataset, connection)
        if found:
            wrong.append(cell)
            print(f"WRONG {found}", flush=True)
            continue
        duck = best_seconds(connection, cell.sql, chosen.runs)
        records = [_measure(cell.but(logical=each[0], physical=each[1]), dataset, chosen.runs) for each in GRID]
        loads.append(_load_row(cell, duck, records))
        rounds.append(_round_row(cell, dataset))
        shared += [_workers_row(cell, dataset, workers, chosen.runs) for workers in several]
        print(f"{_name(cell)} measured", flush=True)
    if loads:
        _print(loads, rounds)
    if shared:
        _print_workers(shared)
    return 1 if wrong else 0


def _cell(dataset: Dataset, words: str) -> Cell:
    name, _, variant = words.partition(":")
    asked = query(name)
    return Cell(name, dataset.manifest.sf, logical=100_000, physical=1, variant=variant and asked.known(variant))


def _name(cell: Cell) -> str:
    return f"{cell.query}:{cell.variant}" if cell.variant else cell.query


def _engine(cell: Cell, dataset: Dataset) -> Engine:
    return open_engine(cell, dataset, workload(dataset, cell.workload))


def _measure(cell: Cell, dataset: Dataset, runs: int) -> Record:
    return measure(cell, dataset, lambda: _engine(cell, dataset), runs)


def _load_row(cell: Cell, duck: float, records: list[Record]) -> list[Any]:
    coarse, fine, small = records
    a_batch = (small.best - fine.best) / max(small.batches, 1)
    return [
        _name(cell), duck * 1e3, coarse.best * 1e3, coarse.best / duck, fine.best * 1e3, fine.best / duck,
        small.best * 1e3, a_batch * 1e6, fine.tuples / fine.best / 1e6, fine.changes, fine.state_rows,
    ]  # fmt: skip


def _round_row(cell: Cell, dataset: Dataset) -> list[Any]:
    engine = _engine(cell, dataset)
    try:
        rounds = min(ROUNDS, dataset.rows("lineitem") // 4)
        records = measure_rounds(cell.but(logical=1, physical=1), dataset, engine, rounds)
    finally:
        engine.close()
    return [_name(cell), *(record.latency(percent) * 1e6 for record in records for percent in (50, 99))]


def _workers_row(cell: Cell, dataset: Dataset, workers: int, runs: int) -> list[Any]:
    row: list[Any] = [_name(cell), workers]
    for physical in (100_000, 1000):
        at = cell.but(logical=1, physical=physical)
        one, all_of_them = measure_workers([at, at.but(workers=workers)], dataset, runs)
        row += [one.best * 1e3, all_of_them.best * 1e3, one.best / all_of_them.best]
    return row


def _print_workers(rows: list[list[Any]]) -> None:
    print("\nSeveral workers against one by turns, L x P, each worker cutting the mapped data for itself:\n")
    headers = ["query", "workers", "1x100000 ms, one", "all", "ratio", "1x1000 ms, one", "all", "ratio"]
    geomeans = ["geomean", "", *(_geomean([row[at] for row in rows]) for at in range(2, 8))]
    print(tabulate([*rows, geomeans], headers, floatfmt=".2f"))
    print(
        "\nWhat stands in the way at 1x1000: a command to every worker and an answer from it for each batch, and a wait"
        "\nfor the slowest at each exchange of each round, where a worker's share of a batch is but some hundred rows."
    )


def _print(loads: list[list[Any]], rounds: list[list[Any]]) -> None:
    headers = [
        "query", "DuckDB ms", "100000x1 ms", "ratio", "1x100000 ms", "ratio", "1x1000 ms", "us a batch more",
        "M tuples/s", "changes", "state rows",
    ]  # fmt: skip
    geomeans = ["geomean", *(_geomean([row[at] for row in loads]) for at in range(1, 9)), "", ""]
    print("\nThe whole load, L x P, against one full DuckDB query with one thread:\n")
    print(tabulate([*loads, geomeans], headers, floatfmt=".2f", intfmt=","))
    print(
        "\nOne round at a time (L=1, P=1), microseconds p50 and p99 at the start, a quarter and the end of the load:\n"
    )
    print(tabulate(rounds, ["query", "p50", "p99", "p50", "p99", "p50", "p99"], floatfmt=".1f"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(f"\npeak memory of this process, DuckDB's tables included: {peak:,.0f} MB")


def _geomean(values: list[float]) -> float:
    return math.exp(sum(math.log(max(value, 1e-9)) for value in values) / len(values))
