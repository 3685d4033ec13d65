"""Measure the engine on eight query shapes, beside DuckDB recomputing with one thread in the same run.

Every shape's final answer is compared with DuckDB's before anything is timed; a shape that is wrong has no times.
"""

from __future__ import annotations

import argparse
import math
import resource
import sys
from typing import Any

import duckdb
from tabulate import tabulate

from dataflow.kernels import compiled_before
from dataflow.worker import Worker
from datagen.dataset import Dataset
from datagen.workload import workload
from deltamark import DeltamarkError, unknown
from harness.commands.data import ensure
from harness.duck import answer, best_seconds, load
from harness.measure import Cell, Record, measure, measure_rounds, snapshot
from harness.options import add_data
from harness.shapes import SHAPES, Shape
from harness.sources import relation_source

GRID = ((100_000, 1), (1, 100_000), (1, 1000))
ROUNDS = 20_000


def options(parser: argparse.ArgumentParser) -> None:
    add_data(parser)
    parser.add_argument("--queries", default=",".join(shape.name for shape in SHAPES), help="which (default all eight)")
    parser.add_argument("--runs", type=int, default=3, help="runs of each cell after one to warm up (default 3)")


def run(chosen: argparse.Namespace) -> int:
    dataset = ensure(chosen)
    if not compiled_before():
        print("compiling the kernels, once on this machine: about a minute", file=sys.stderr, flush=True)
    shapes = _chosen(chosen.queries)
    connection = load(dataset, sorted({name for shape in shapes for name in shape.relations}))
    loads, rounds = [], []
    for shape in shapes:
        _verify(dataset, shape, connection)
        duck = best_seconds(connection, shape.sql, chosen.runs)
        records = [_measure(dataset, shape, logical, physical, chosen.runs) for logical, physical in GRID]
        loads.append(_load_row(shape, duck, records))
        rounds.append(_round_row(dataset, shape))
        print(f"{shape.name} measured", flush=True)
    _print(loads, rounds)
    return 0


def _chosen(text: str) -> list[Shape]:
    known = {shape.name: shape for shape in SHAPES}
    for name in text.split(","):
        if name not in known:
            raise unknown("query", name, known)
    return [known[name] for name in text.split(",")]


def _worker(dataset: Dataset, shape: Shape) -> Worker:
    work = workload(dataset, "insert")
    return Worker(shape.plan({name: relation_source(dataset, name, work) for name in shape.relations}))


def _verify(dataset: Dataset, shape: Shape, connection: duckdb.DuckDBPyConnection) -> None:
    worker = _worker(dataset, shape)
    try:
        found = snapshot(Cell(shape.name, dataset.manifest.sf, "insert", 100_000, 1), dataset, worker)
        wanted = answer(connection, shape.sql, worker.schema)
    finally:
        worker.close()
    if found != wanted:
        actual = f"{len(found)} rows, of which DuckDB lacks {sorted((found - wanted).items())[:1]}"
        raise DeltamarkError(f"{shape.name} is WRONG", actual, f"it has {sorted((wanted - found).items())[:1]}")


def _measure(dataset: Dataset, shape: Shape, logical: int, physical: int, runs: int) -> Record:
    cell = Cell(shape.name, dataset.manifest.sf, "insert", logical, physical)
    return measure(cell, dataset, lambda: _worker(dataset, shape), runs)


def _load_row(shape: Shape, duck: float, records: list[Record]) -> list[Any]:
    coarse, fine, small = records
    a_batch = (small.best - fine.best) / max(small.batches, 1)
    return [
        shape.name, duck * 1e3, coarse.best * 1e3, coarse.best / duck, fine.best * 1e3, fine.best / duck,
        small.best * 1e3, a_batch * 1e6, fine.tuples / fine.best / 1e6, fine.changes, fine.state_rows,
    ]  # fmt: skip


def _round_row(dataset: Dataset, shape: Shape) -> list[Any]:
    engine = _worker(dataset, shape)
    try:
        cell = Cell(shape.name, dataset.manifest.sf, "insert", 1, 1)
        rounds = min(ROUNDS, dataset.rows("lineitem") // 4)
        records = measure_rounds(cell, dataset, engine, rounds)
    finally:
        engine.close()
    return [shape.name, *(record.latency(percent) * 1e6 for record in records for percent in (50, 99))]


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
