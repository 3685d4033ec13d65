"""Sentences of findings: the same number of every engine, side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from deltamark.harness.console.formatting import TableEntry, listed
from deltamark.harness.measure.stats import geomean
from deltamark.harness.report.charts.marks import EngineThreads, runner_words
from deltamark.harness.tables.lookup import Lookup

ByQuery = Mapping[str, float]
"""A number for each query, or for each cell."""


def engine_name(lookup: Lookup, engine: str, workers: int, *more: str) -> str:
    """Name an engine and its number of workers without a comma: `spark-sql (recomputing, 2 shards)`."""
    name, *others = [*runner_words(lookup, engine, workers).split(", "), *more]
    return f"{name} ({', '.join(others)})" if others else name


def side_by_side(lookup: Lookup, found: Mapping[EngineThreads, ByQuery], show: Callable[[float], TableEntry]) -> str:
    """Return the geometric means of all engines, such as `8M/s with embedded and 1M/s with DuckDB`.

    A mean over fewer queries than usual has their number.
    """
    most = max(map(len, found.values()))
    parts = []
    for each, numbers in found.items():
        fewer = [f"over {len(numbers)}"] if len(numbers) < most else []
        mean = show(geomean(number for number in numbers.values() if number > 0))
        parts.append(f"{mean.text} with {engine_name(lookup, *each, *fewer)}")
    return listed(parts)


def over(found: Mapping[EngineThreads, ByQuery], noun: str = "queries") -> str:
    """Name the queries, or the cells, of the means of `side_by_side`."""
    names = max((list(numbers) for numbers in found.values()), key=len)
    return f"in the geometric mean of {len(names)} {noun}" if len(names) > 1 else f"for {names[0]}"
