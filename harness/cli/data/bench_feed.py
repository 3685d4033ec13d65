"""Measure the cost of cutting batches.

The batches have the columns of q05 in TPC-H, and all columns of another benchmark, for several workloads and batch
sizes.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import Feed
from deltamark.datagen.workloads.registry import workload
from deltamark.datagen.workloads.workload import Workload
from deltamark.harness.benchmarks.benchmark import DEFAULT, benchmark
from deltamark.harness.cli.data.data import ensure
from deltamark.harness.cli.options import add_data as options
from deltamark.harness.console.console import say
from deltamark.harness.console.table import Entries, Table, brief, count, text, words
from deltamark.harness.measure.stats import median
from deltamark.harness.system.clock import Stopwatch

__all__ = ["options", "run"]

COLUMNS: dict[str, list[str]] = {
    "customer": ["custkey", "nationkey"],
    "lineitem": ["orderkey", "suppkey", "extendedprice", "discount"],
    "nation": ["nationkey", "name", "regionkey"],
    "orders": ["orderkey", "custkey", "orderdate"],
    "region": ["regionkey", "name"],
    "supplier": ["suppkey", "nationkey"],
}
WORKLOADS = ("insert", "window:500", "refresh:10", "late:500")
BATCHES = ((1, 1), (1, 1000), (1, 100_000), (100_000, 1))
MAX_BATCHES = 20_000
"""The largest number of timed batches for each workload and batch size; not measured."""


def run(args: argparse.Namespace) -> int:
    dataset = ensure(args)
    works = [workload(dataset, name) for name in _workloads(args.benchmark)]
    rows = [_measure(work, _columns(args.benchmark, dataset), *sizes) for work in works for sizes in BATCHES]
    headers = ["workload", "L", "P", "batches", "rows", "p50", "p99", "time per row"]
    say(f"\n{text(Table('feed', 'Time to cut a batch', headers, rows))}")
    return 0


def _workloads(name: str) -> Sequence[str]:
    return WORKLOADS if name == DEFAULT else (benchmark(name).workload,)


def _columns(name: str, dataset: Dataset) -> Mapping[str, list[str]]:
    if name == DEFAULT:
        return COLUMNS
    return {name: [column.name for column in each.columns] for name, each in dataset.relations.items()}


def _measure(work: Workload, columns: Mapping[str, list[str]], logical: int, physical: int) -> Entries:
    feed = Feed(work, columns, logical=logical)
    watch, rows = Stopwatch(), 0
    while not feed.done and len(watch.laps) < MAX_BATCHES:
        with watch:
            deltas = feed.take(physical)
        rows += sum(len(delta.time) for delta in deltas)
    p99 = sorted(watch.laps)[len(watch.laps) * 99 // 100]
    times = (median(watch.laps), p99, watch.seconds / rows)
    numbers = (logical, physical, len(watch.laps), rows)
    return [words(work.name), *map(count, numbers), *map(brief, times)]
