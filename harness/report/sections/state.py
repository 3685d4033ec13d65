"""The state at the end of a stream, one strip for each query."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from deltamark.harness.console.formatting import TableEntry, megabytes
from deltamark.harness.report.charts.marks import (
    EngineThreads,
    LineKind,
    Log,
    Markup,
    chart_records,
    in_order,
    keys_of,
    legend,
    look_of,
    retraction_legend,
    runner,
    runner_legend,
    series,
)
from deltamark.harness.report.charts.panel import Strip, dot, strips
from deltamark.harness.report.document import Section, lists
from deltamark.harness.report.findings import over, side_by_side
from deltamark.harness.report.tooltip import tooltip
from deltamark.harness.results.record import Record
from deltamark.harness.tables.lookup import Lookup

MEGABYTE = 1e6
PREFERRED_ROUNDS = 100_000
"""The batch size to show if several were measured: it hardly changes the state at the end of a stream."""


def state(lookup: Lookup) -> Section | None:
    by_query = {query: _query_records(lookup, query) for query in lookup.queries}
    everything = [record for records in by_query.values() for record in records]
    if not everything:
        return None
    scale = Log.over(record.state_bytes / MEGABYTE for record in everything)
    rows = [
        Strip(
            query, [_mark(lookup, scale, record) for record in records], _entry(records[0].state_bytes).text,
            {"query": query},
        )
        for query, records in by_query.items() if records
    ]  # fmt: skip
    entries = [*runner_legend(lookup, everything), *retraction_legend(lookup, everything)]
    return Section(
        "state", "State at the end of the stream", _finding(lookup, everything),
        "Memory that a run adds, in megabytes; the number is that of the first engine without retractions.",
        [legend(entries), lists([strips(scale, lambda value: f"{value:g} MB", rows, label="memory added by the run")])],
    )  # fmt: skip


def _finding(lookup: Lookup, records: Sequence[Record]) -> str:
    """State the memory of each engine without retractions, or with them if there is nothing else."""
    found: dict[EngineThreads, dict[str, float]] = defaultdict(dict)
    for record in in_order(lookup, [each for each in records if each.is_plain] or records):
        found[runner(record)][record.query] = record.state_bytes
    return f"A run adds {side_by_side(lookup, found, _entry)}, {over(found)}."


def _entry(size: float) -> TableEntry:
    entry = megabytes(size)
    return replace(entry, text=f"{entry.text} MB")


def _query_records(lookup: Lookup, query: str) -> list[Record]:
    """Return one record for each runner and workload of a query, those of our engine first."""
    groups: dict[tuple[EngineThreads, str], list[Record]] = defaultdict(list)
    for record in chart_records(lookup):
        if record.query == query and record.state_bytes:
            groups[runner(record), record.workload].append(record)
    preference = lambda record: (record.batch_rounds == PREFERRED_ROUNDS, record.physical)  # noqa: E731
    records = [max(group, key=preference) for group in groups.values()]
    records.sort(key=lambda record: (not record.is_plain, record.workload))
    return in_order(lookup, records)


def _mark(lookup: Lookup, scale: Log, record: Record) -> Markup:
    look = look_of(lookup, record)
    kind: LineKind = "solid" if record.is_plain else "hollow"
    value = record.state_bytes / MEGABYTE
    return series(look, kind, keys_of(record), dot(look, scale, value, tooltip(record)))
