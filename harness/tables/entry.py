"""Entries of tables for records: a formatted number, or the reason for its absence."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from deltamark.harness.console.formatting import NOTHING, TableEntry, brief, count, rate
from deltamark.harness.results.record import QueryRecord, Record
from deltamark.harness.tables.marks import marked

Show = Callable[[QueryRecord], TableEntry]

MIN_STATE_ROWS = 1000
"""The fewest rows of state for which bytes per row are shown; not measured."""


def entry_of(record: QueryRecord | None, show: Show) -> TableEntry:
    """Format a number of a record, with a mark if its time is not plausible, or the reason why it has none."""
    if record is None:
        return NOTHING
    if record.status != "ok":
        return why(record)
    return marked(show(record), [record]) if record.has_numbers else NOTHING


def entries(records: Iterable[QueryRecord | None], show: Show) -> list[TableEntry]:
    """Format the same number of several records."""
    return [entry_of(record, show) for record in records]


def why(record: Record) -> TableEntry:
    """Format the reason why a record has no number."""
    return TableEntry(
        {"wrong": "WRONG", "timeout": f">{record.limit:g}s", "refused": "refused"}.get(record.status, "failed")
    )


def whole(record: QueryRecord) -> TableEntry:
    """Format the seconds of a fully timed stream, or the rate of a sampled one."""
    return brief(record.best) if record.fully_timed else rate(record.rate)


def speed(record: QueryRecord) -> TableEntry:
    """Format the rate of a record."""
    return rate(record.rate)


def peak(records: Iterable[QueryRecord | None]) -> TableEntry:
    """Format the best rate of several records."""
    known = [record for record in records if record is not None and record.has_numbers]
    fastest = max(known, key=lambda record: record.rate, default=None)
    return entry_of(fastest, speed)


def row_bytes(state_bytes: float, state_rows: float) -> TableEntry:
    """Format the bytes of a row of state, if there are enough rows."""
    return count(state_bytes / state_rows) if state_rows >= MIN_STATE_ROWS else NOTHING
