"""Logical against physical batches: the rate of each batching of one size, relative to the best of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deltamark.harness.benchmarks.cell import COARSE, FINE, PRODUCT, Batching
from deltamark.harness.console.formatting import ratio
from deltamark.harness.report.charts.marks import (
    LegendEntry,
    Linear,
    Look,
    Markup,
    keys_of,
    legend,
    look,
    runner_words,
    series,
    tag,
)
from deltamark.harness.report.charts.panel import Strip, dot, strips
from deltamark.harness.report.document import Section, lists
from deltamark.harness.report.findings import over, side_by_side
from deltamark.harness.report.tooltip import tooltip
from deltamark.harness.results.record import Record
from deltamark.harness.tables.lookup import Lookup

Records = dict[Batching, Record]
ByEngine = Mapping[str, Mapping[str, Records]]
"""The records of each query, by engine."""

MEANINGS = {FINE: " (an answer in every round)", COARSE: " (one answer for the whole batch)"}

SCALE = Linear(0, 0.25, 4)


def batching(lookup: Lookup) -> Section | None:
    """Draw a strip for each query with several batchings of 100,000 rounds, and a list of strips for each engine."""
    streaming = [engine for engine in lookup.engines if lookup.capabilities(engine).has_stream]
    by_engine = {engine: found for engine in streaming if (found := _by_query(lookup, engine))}
    if not by_engine:
        return None
    of_queries = [records for by_query in by_engine.values() for records in by_query.values()]
    measured = [each for each in PRODUCT if any(each in records for records in of_queries)]
    entries = [LegendEntry(_look(each), "solid", _name(each)) for each in measured]
    return Section(
        "batching", "Logical against physical batches", _finding(lookup, by_engine, measured),
        "A batch of 100,000 rounds, cut as L x P: the more rounds share a logical time (L), the fewer answers are due. "
        "Rates are relative to the best batching of a query, whose name ends its line.",
        [legend(entries), lists(_list(lookup, engine, by_query) for engine, by_query in by_engine.items())],
    )  # fmt: skip


def _by_query(lookup: Lookup, engine: str) -> dict[str, Records]:
    return {query: found for query in lookup.queries if len(found := _records(lookup, query, engine)) > 1}


def _records(lookup: Lookup, query: str, engine: str) -> Records:
    found = {each: lookup.find(query, *each, engine=engine) for each in PRODUCT}
    return {each: record for each, record in found.items() if record is not None and record.has_numbers}


def _list(lookup: Lookup, engine: str, by_query: Mapping[str, Records]) -> Markup:
    rows = [_strip(query, records) for query, records in by_query.items()]
    label = "rate relative to the query's best batching"
    chart = strips(SCALE, lambda value: f"{value:g}x", rows, label=label)
    return tag("div", tag("h3", runner_words(lookup, engine, 1)), chart)


def _strip(query: str, records: Records) -> Strip:
    best = max(records, key=lambda each: records[each].rate)
    marks: list[Markup] = []
    for each, record in records.items():
        mark = dot(_look(each), SCALE, record.rate / records[best].rate, tooltip(record))
        marks.append(series(_look(each), "solid", keys_of(record), mark))
    return Strip(query, marks, _name(best), {"query": query})


def _look(each: Batching) -> Look:
    return look(PRODUCT.index(each))


def _name(each: Batching) -> str:
    return f"{each[0]} x {each[1]}"


def _finding(lookup: Lookup, by_engine: ByEngine, measured: Sequence[Batching]) -> str:
    """State the cost of the most answers, and the gain of the fewest."""
    parts, queries = [], ""
    for each in (measured[0], measured[-1]):
        found = {(engine, 1): shares for engine, by_query in by_engine.items() if (shares := _shares(by_query, each))}
        parts.append(f"{side_by_side(lookup, found, ratio)} for {_name(each)}{MEANINGS.get(each, '')}")
        queries = queries or over(found)
    return f"Relative to the best batching, the rate is {', and '.join(parts)}, {queries}."


def _shares(by_query: Mapping[str, Records], each: Batching) -> dict[str, float]:
    """Return the rate of a batching relative to the best one of each query."""
    return {
        query: records[each].rate / max(record.rate for record in records.values())
        for query, records in by_query.items()
        if each in records
    }
