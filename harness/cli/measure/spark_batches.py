"""Run a query on Spark batch by batch, maintained and recomputed: what each batch takes as rows are loaded, from which
one on maintaining takes less, and where a micro-batch spends its time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import closing
from statistics import median
from typing import Any

from tabulate import tabulate

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.workload import workload
from deltamark.errors import DeltamarkError
from deltamark.harness.cli.data.data import quietly
from deltamark.harness.cli.options import MOST_BATCHES, add_cell, cell_of, whole
from deltamark.harness.engines.base import Engine
from deltamark.harness.engines.spark import SparkEngine
from deltamark.harness.engines.spark_sql import SparkSqlEngine
from deltamark.harness.measure import child
from deltamark.harness.measure.cell import Cell

LONGEST = 86_400.0
"""Seconds that all batches may take."""

Times = list[tuple[int, float]]
"""Rows that have come with each batch, and what it took."""


def options(parser: argparse.ArgumentParser) -> None:
    add_cell(parser)
    parser.set_defaults(physical=1_000_000, workers=2, engine=SparkEngine.name)
    parser.add_argument("--batches", type=whole(2, MOST_BATCHES), default=4, metavar="N", help="how many (default 4)")


def run(chosen: argparse.Namespace) -> int:
    cell = cell_of(chosen)
    if cell.engine != SparkEngine.name or cell.checkpoint:
        actual = f"--engine {cell.engine}{' --checkpoint' if cell.checkpoint else ''}"
        raise DeltamarkError("spark-batches runs on Spark and keeps no checkpoint", actual, "leave that setting out")
    dataset = quietly(chosen)
    stages, reports, maintained = child.run_in_child(lambda _: _maintaining(cell, dataset, chosen.batches), LONGEST)
    again = child.run_in_child(lambda _: _recomputing(cell, dataset, chosen.batches), LONGEST)
    lines = [
        (number, rows, f"{mine:.2f}", f"{theirs:.2f}", f"{theirs / mine:.2f}")
        for number, ((rows, mine), (_, theirs)) in enumerate(zip(maintained, again, strict=True), 1)
    ]
    print(f"{cell}: {stages} stages; seconds of a batch\n")
    print(tabulate(lines, ["batch", "rows loaded", "maintained", "recomputed", "gain"], intfmt=","))
    won = next((number for number, *_, gain in lines if float(gain) >= 1), None)
    print(f"\nmaintaining takes less from batch {won} on" if won else "\nrecomputing takes less in all of them")
    print(f"\nwhere a micro-batch spends its time, median ms\n\n{tabulate(_spent(reports[1:]))}")
    return 0


def _maintaining(cell: Cell, dataset: Dataset, batches: int) -> tuple[int, list[dict[str, Any]], Times]:
    """Return how many stages there are, what Spark reports of batches, and their times."""
    with closing(SparkEngine.open(cell, dataset, workload(dataset, cell.workload))) as engine:
        return engine.stages, engine.reports, list(_timed(engine, cell, batches))


def _recomputing(cell: Cell, dataset: Dataset, batches: int) -> Times:
    with closing(SparkSqlEngine(cell, dataset, workload(dataset, cell.workload))) as engine:
        return list(_timed(engine, cell, batches))


def _timed(engine: Engine, cell: Cell, batches: int) -> Iterator[tuple[int, float]]:
    """Yield how many rows there are after each batch, and what it took."""
    loaded = 0
    while batches > 0 and not engine.feed.done:
        loaded += engine.take(cell.physical)
        started = time.perf_counter()
        engine.apply()
        batches -= 1
        yield loaded, time.perf_counter() - started


def _spent(reports: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Divide the time of micro-batches. What tasks do at once counts as often as they are."""

    def over(*names: str) -> float:
        return median(sum(report["durationMs"].get(name, 0) for name in names) for report in reports)

    def of_state(name: str) -> float:
        return median(sum(each[name] for each in report["stateOperators"]) for report in reports)

    found = {
        "planning": over("latestOffset", "getBatch", "queryPlanning"),
        "offset and commit logs": over("walCommit", "commitOffsets"),
        "jobs (the rest of these lines, tasks side by side)": over("addBatch"),
        "  stages: Python, and what it asks of the state": of_state("allUpdatesTimeMs"),
        "  state: commit of the changelog": of_state("commitTimeMs"),
        "all": over("triggerExecution"),
    }
    return [(name, f"{value:,.0f}") for name, value in found.items()]
