"""What is kept at the end of a stream, a strip a query."""

from __future__ import annotations

from collections import defaultdict

from harness.record import Record
from harness.report.about import about
from harness.report.looks import engines_explained, leaving_explained, look_of
from harness.report.marks import Kind, keys_of, legend, series
from harness.report.markup import Markup
from harness.report.scale import Log
from harness.report.section import Section, lists
from harness.report.strips import Strip, dot, strips
from harness.tables.entry import megabytes
from harness.tables.lookup import Lookup

MEGABYTE = 1e6
USUAL = 100_000
"""The batch size that is shown where several are there: how a stream is cut hardly matters at its end."""


def state(known: Lookup) -> Section | None:
    found = {query: _of_query(known, query) for query in known.queries}
    drawn = [record for records in found.values() for record in records]
    if not drawn:
        return None
    scale = Log.over(record.state_bytes / MEGABYTE for record in drawn)
    rows = [
        Strip(query, [_drawn(known, scale, record) for record in records], _said(records[0]), {"query": query})
        for query, records in found.items() if records
    ]  # fmt: skip
    explained = [*engines_explained(known), *leaving_explained(known, drawn)]
    return Section(
        "state", "State at the end of the stream",
        "Memory that a run has added, in megabytes; the number is that of the first engine where all rows stay.",
        [legend(explained), lists([strips(scale, lambda value: f"{value:g} MB", rows, label="state")])],
    )  # fmt: skip


def _of_query(known: Lookup, query: str) -> list[Record]:
    """Return a record for each engine and workload of a query, our engine's first."""
    found: dict[tuple[int, bool, str], list[Record]] = defaultdict(list)
    for record in known.records:
        if record.query == query and record.shown and record.default and record.workers == 1 and record.state_bytes:
            at = known.engines.index(record.engine), record.workload != "insert", record.workload
            found[at].append(record)
    return [max(found[at], key=lambda each: (each.batch_rows == USUAL, each.physical)) for at in sorted(found)]


def _drawn(known: Lookup, scale: Log, record: Record) -> Markup:
    of = look_of(known, record.engine, record.workload)
    kind: Kind = "solid" if record.workload == "insert" else "hollow"
    value = record.state_bytes / MEGABYTE
    return series(of, kind, keys_of(record), dot(of, scale, value, about(record)))


def _said(record: Record) -> str:
    return f"{megabytes(record.state_bytes).text} MB"
