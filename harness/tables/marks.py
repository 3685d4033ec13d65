"""The mark of the cells of external engines whose times are not plausible, and the notes that say why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from deltamark.harness.console.formatting import MARK, TableEntry, counted
from deltamark.harness.console.table import Table
from deltamark.harness.engines.base import short_name
from deltamark.harness.results.plausibility import doubt_of
from deltamark.harness.results.record import QueryRecord


def marked(entry: TableEntry, records: Iterable[QueryRecord]) -> TableEntry:
    """Mark the entry of some records if the time of one of them is not plausible."""
    return replace(entry, text=entry.text + MARK) if any(map(doubt_of, records)) else entry


def with_reasons(table: Table, records: Iterable[QueryRecord]) -> Table:
    """Append the reasons for the marks of a table, with the first cell of each engine."""
    if any(entry.text.endswith(MARK) for row in table.rows for entry in row):
        table.notes += _reasons(records)
    return table


def _reasons(records: Iterable[QueryRecord]) -> Iterator[str]:
    doubtful: dict[str, list[QueryRecord]] = defaultdict(list)
    for record in records:
        if doubt_of(record):
            doubtful[record.engine].append(record)
    yield "~: the time is not plausible; docs/benchmark.md has the rule"
    for engine, found in doubtful.items():
        first = found[0]
        cell = f"{first.query} {first.logical} x {first.physical}"
        yield f"~ {short_name(engine)}, {counted(len(found), 'cell')}, such as {cell}: {doubt_of(first)}"
