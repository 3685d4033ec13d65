"""Throughput against the size of a batch, a panel a query."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from deltamark.harness.engines.registry import has_stream
from deltamark.harness.report.about import about
from deltamark.harness.report.charts.looks import Runner, drawn, look_of, runner, runner_words
from deltamark.harness.report.charts.marks import Explained, Kind, keys_of, legend
from deltamark.harness.report.charts.markup import Markup
from deltamark.harness.report.charts.panel import Axes, Line, Place, panel
from deltamark.harness.report.charts.scale import Log, short
from deltamark.harness.report.section import Section, panels
from deltamark.harness.results.record import QueryRecord
from deltamark.harness.tables.lookup import Lookup

Name = tuple[Runner, str, Kind]
"""A runner, a workload, and how batches are made."""


def throughput(known: Lookup) -> Section | None:
    found = {query: _lines(known, query) for query in known.queries}
    every = [record for lines in found.values() for records in lines.values() for record in records]
    if not every:
        return None
    axes = Axes(
        Log.over(float(record.batch_rows) for record in every), Log.over(record.rate for record in every), short, short,
        "tuples a second by rounds in a batch",
    )  # fmt: skip
    made = [_panel(known, query, axes, lines) for query, lines in found.items() if lines]
    names = {name: records[0] for lines in found.values() for name, records in lines.items()}
    return Section(
        "throughput", "Throughput against batch size",
        "Tuples a second over rounds in a batch, both in powers of ten, with the same axes for every query. Where the "
        "line of recomputing lies above, it is better to run the query again than to maintain its answer.",
        [legend(_explained(known, name, record) for name, record in names.items()), panels(made)],
    )  # fmt: skip


def _lines(known: Lookup, query: str) -> dict[Name, list[QueryRecord]]:
    """Return what a query's panel shows, in order of size."""
    lines = defaultdict(list)
    for record in sorted(drawn(known), key=lambda each: each.batch_rows):
        kind = _kind(record)
        if kind and record.query == query:
            lines[runner(record), record.workload, kind].append(record)
    return lines


def _kind(record: QueryRecord) -> Kind | None:
    """Return how a record's batches are made; None where of both L and P."""
    if record.workload != "insert":
        return "dotted"
    if record.logical == 1 or not has_stream(record.engine):
        return "solid"
    return "hollow" if record.physical == 1 else None


def _panel(known: Lookup, query: str, axes: Axes, lines: dict[Name, list[QueryRecord]]) -> Markup:
    made = [
        Line(look_of(known, records[0]), kind, keys_of(records[0]), list(_places(records)))
        for (_, _, kind), records in lines.items()
    ]
    return panel(query, axes, {"query": query}, made)


def _places(records: Iterable[QueryRecord]) -> Iterable[Place]:
    return (Place(record.batch_rows, record.rate, about(record)) for record in records)


def _explained(known: Lookup, name: Name, record: QueryRecord) -> Explained:
    of, workload, kind = name
    batches = {"solid": "L = 1, so a batch is P", "hollow": "P = 1, so a batch is L", "dotted": workload}[kind]
    text = f"{runner_words(*of)}: {batches}" if has_stream(record.engine) else runner_words(*of)
    return Explained(look_of(known, record), kind, text)
