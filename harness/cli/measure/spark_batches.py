"""Compare maintaining and recomputing a query on Spark, batch by batch.

The output shows the time of each batch while rows are loaded, the first batch in which maintaining is faster, the
parts of a micro-batch's time as a table and, for one of median length, as bars, and the state that each shard has
stored after the last batch.

Example: make spark-batches QUERY=q03 SF=1
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import closing
from statistics import median
from typing import TYPE_CHECKING, TypedDict, cast

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.workloads.registry import workload
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.cli.data.data import quietly
from deltamark.harness.cli.options import MAX_BATCHES, add_cell, cell_of, whole
from deltamark.harness.console.console import say
from deltamark.harness.console.table import Bar, Entries, Table, brief, count, flame, megabytes, ratio, text, words
from deltamark.harness.engines.base import Engine
from deltamark.harness.engines.spark import SparkEngine
from deltamark.harness.engines.spark_sql import SparkSqlEngine
from deltamark.harness.measure import child
from deltamark.harness.system.clock import timed

if TYPE_CHECKING:
    from deltamark.dataflow.spark.query import ShardState

TIMEOUT_S = 86_400.0
"""The time limit for all batches: a day; not measured."""

Timings = list[tuple[int, float]]
"""The rows loaded so far and the seconds of each batch."""


class BatchReport(TypedDict):
    """The parts of Spark's report of a micro-batch that are shown."""

    durationMs: dict[str, float]
    stateOperators: list[dict[str, float]]


def options(parser: argparse.ArgumentParser) -> None:
    add_cell(parser)
    parser.set_defaults(physical=1_000_000, workers=2, engine=SparkEngine.name)
    parser.add_argument("--batches", type=whole(2, MAX_BATCHES), default=4, metavar="N", help="number of batches")


def run(args: argparse.Namespace) -> int:
    cell = cell_of(args)
    if cell.engine != SparkEngine.name or cell.checkpoint:
        actual = f"--engine {cell.engine}{' --checkpoint' if cell.checkpoint else ''}"
        raise DeltamarkError("spark-batches runs on Spark and keeps no checkpoint", actual, "leave that setting out")
    dataset = quietly(args)
    state, reports, bars, maintained = child.run_in_child(lambda _: _maintain(cell, dataset, args.batches), TIMEOUT_S)
    recomputed = child.run_in_child(lambda _: _recompute(cell, dataset, args.batches), TIMEOUT_S)
    say(text(_batches(f"{cell}: {state[-1].stage} stages", maintained, recomputed)))
    say(text(Table("parts", "Parts of a micro-batch's time", ["part", "median"], _parts(reports[1:]))))
    say(flame(bars))
    say("")
    say(text(_state(state)))
    return 0


def _batches(title: str, maintained: Timings, recomputed: Timings) -> Table:
    rows, gains = [], []
    for number, ((loaded, ours), (_, theirs)) in enumerate(zip(maintained, recomputed, strict=True), 1):
        gains.append(theirs / ours)
        rows.append([count(number), count(loaded), brief(ours), brief(theirs), ratio(gains[-1])])
    first = next((number for number, gain in enumerate(gains, 1) if gain >= 1), None)
    note = f"maintaining is faster for the first time in batch {first}" if first else "recomputing is always faster"
    return Table("batches", title, ["batch", "rows loaded", "maintained", "recomputed", "gain"], rows, [note])


def _state(state: list[ShardState]) -> Table:
    """Show the stored state of each shard, and for each stage how uneven it is."""
    by_stage = {each.stage: [other for other in state if other.stage == each.stage] for each in state}
    rows: list[Entries] = []
    for stage, shards in by_stage.items():
        mean = sum(each.rows for each in shards) / len(shards)
        rows += [
            [count(stage), count(each.shard), count(each.rows), megabytes(each.size), ratio(each.rows / (mean or 1))]
            for each in shards
        ]
    note = "skew: the rows of a shard / the mean of all shards of its stage"
    return Table("state", "Stored state of the shards", ["stage", "shard", "rows", "MB", "skew"], rows, [note])


def _maintain(
    cell: Cell, dataset: Dataset, batches: int
) -> tuple[list[ShardState], list[BatchReport], list[Bar], Timings]:
    """Return the state of the shards, Spark's reports of the micro-batches, the bars of one, and the timings."""
    with closing(SparkEngine.open(cell, dataset, workload(dataset, cell.workload))) as engine:
        timings = list(_timed(engine, cell, batches))
        reports = cast("list[BatchReport]", engine.reports)
        by_length = sorted(reports[1:], key=lambda report: report["durationMs"]["triggerExecution"])
        bars = engine.timeline(by_length[len(by_length) // 2])
        return engine.state(), reports, bars, timings


def _recompute(cell: Cell, dataset: Dataset, batches: int) -> Timings:
    with closing(SparkSqlEngine(cell, dataset, workload(dataset, cell.workload))) as engine:
        return list(_timed(engine, cell, batches))


def _timed(engine: Engine, cell: Cell, batches: int) -> Iterator[tuple[int, float]]:
    """Feed batches; yield for each the rows loaded so far and its seconds."""
    loaded = 0
    while batches > 0 and not engine.feed.done:
        loaded += engine.take(cell.physical)
        seconds, _ = timed(engine.apply)
        batches -= 1
        yield loaded, seconds


def _parts(reports: list[BatchReport]) -> list[Entries]:
    """List the parts of a micro-batch's time. The times of concurrent tasks are added up."""

    def duration(*names: str) -> float:
        return median(sum(report["durationMs"].get(name, 0) for name in names) for report in reports)

    def state_duration(name: str) -> float:
        return median(sum(operator[name] for operator in report["stateOperators"]) for report in reports)

    parts = {
        "planning": duration("latestOffset", "getBatch", "queryPlanning"),
        "offset and commit logs": duration("walCommit", "commitOffsets"),
        "jobs (the two lines below add up concurrent tasks)": duration("addBatch"),
        "  stages: Python, and its requests to the state": state_duration("allUpdatesTimeMs"),
        "  state: commit of the changelog": state_duration("commitTimeMs"),
        "all": duration("triggerExecution"),
    }
    return [[words(name), brief(milliseconds / 1e3)] for name, milliseconds in parts.items()]
