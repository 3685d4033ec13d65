"""What is kept at the end of a stream, a strip a query."""

from __future__ import annotations

from collections import defaultdict

from deltamark.harness.console.formatting import megabytes
from deltamark.harness.report.about import about
from deltamark.harness.report.charts.looks import (
    Runner,
    drawn,
    in_order,
    leaving_explained,
    look_of,
    runner,
    runners_explained,
)
from deltamark.harness.report.charts.marks import Kind, keys_of, legend, series
from deltamark.harness.report.charts.markup import Markup
from deltamark.harness.report.charts.scale import Log
from deltamark.harness.report.charts.strips import Strip, dot, strips
from deltamark.harness.report.section import Section, lists
from deltamark.harness.results.record import QueryRecord
from deltamark.harness.tables.lookup import Lookup

MEGABYTE = 1e6
USUAL = 100_000
"""The batch size that is shown where several are there: how a stream is cut hardly matters at its end."""


def state(known: Lookup) -> Section | None:
    found = {query: _of_query(known, query) for query in known.queries}
    every = [record for records in found.values() for record in records]
    if not every:
        return None
    scale = Log.over(record.state_bytes / MEGABYTE for record in every)
    rows = [
        Strip(query, [_drawn(known, scale, record) for record in records], _said(records[0]), {"query": query})
        for query, records in found.items() if records
    ]  # fmt: skip
    explained = [*runners_explained(known, every), *leaving_explained(known, every)]
    return Section(
        "state", "State at the end of the stream",
        "Memory that a run has added, in megabytes; the number is that of the first engine where all rows stay.",
        [legend(explained), lists([strips(scale, lambda value: f"{value:g} MB", rows, label="state")])],
    )  # fmt: skip


def _of_query(known: Lookup, query: str) -> list[QueryRecord]:
    """Return a record for each runner and workload of a query, our engine's first."""
    found: dict[tuple[Runner, str], list[QueryRecord]] = defaultdict(list)
    for record in drawn(known):
        if record.query == query and record.state_bytes:
            found[runner(record), record.workload].append(record)
    chosen = [max(each, key=lambda one: (one.batch_rows == USUAL, one.physical)) for each in found.values()]
    chosen.sort(key=lambda each: (each.workload != "insert", each.workload))
    return in_order(known, chosen)


def _drawn(known: Lookup, scale: Log, record: QueryRecord) -> Markup:
    of = look_of(known, record)
    kind: Kind = "solid" if record.workload == "insert" else "hollow"
    value = record.state_bytes / MEGABYTE
    return series(of, kind, keys_of(record), dot(of, scale, value, about(record)))


def _said(record: QueryRecord) -> str:
    return f"{megabytes(record.state_bytes).text} MB"
