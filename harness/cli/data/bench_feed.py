"""Measure what cutting a batch costs, for each workload and batch size: all relations that q05 reads."""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

from tabulate import tabulate

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import Feed
from deltamark.datagen.schema import RelationName
from deltamark.datagen.workload import workload
from deltamark.harness.cli.data.data import ensure
from deltamark.harness.cli.options import add_data as options

__all__ = ["options", "run"]

COLUMNS: dict[RelationName, list[str]] = {
    "customer": ["custkey", "nationkey"],
    "lineitem": ["orderkey", "suppkey", "extendedprice", "discount"],
    "nation": ["nationkey", "name", "regionkey"],
    "orders": ["orderkey", "custkey", "orderdate"],
    "region": ["regionkey", "name"],
    "supplier": ["suppkey", "nationkey"],
}
WORKLOADS = ("insert", "window:500", "refresh:10")
BATCHES = ((1, 1), (1, 1000), (1, 100_000), (100_000, 1))
MOST_BATCHES = 20_000


def run(chosen: argparse.Namespace) -> int:
    dataset = ensure(chosen)
    rows = [_measure(dataset, name, *batch) for name in WORKLOADS for batch in BATCHES]
    headers = ["workload", "L", "P", "batches", "rows", "p50 us/batch", "p99 us/batch", "ns/row"]
    print(tabulate(rows, headers, floatfmt=".1f", intfmt=","))
    return 0


def _measure(dataset: Dataset, name: str, logical: int, physical: int) -> list[Any]:
    feed = Feed(dataset, workload(dataset, name), COLUMNS, logical=logical)
    took: list[int] = []
    rows = 0
    while not feed.done and len(took) < MOST_BATCHES:
        started = time.perf_counter_ns()
        deltas = feed.take(physical)
        took.append(time.perf_counter_ns() - started)
        rows += sum(len(delta.time) for delta in deltas)
    p99 = sorted(took)[len(took) * 99 // 100]
    return [
        name, logical, physical, len(took), rows,
        statistics.median(took) / 1e3, p99 / 1e3, sum(took) / rows,
    ]  # fmt: skip
