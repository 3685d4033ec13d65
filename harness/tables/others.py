"""The table of records that no other table has a column for."""

from __future__ import annotations

from deltamark.harness.console.formatting import words
from deltamark.harness.console.table import Table
from deltamark.harness.measure.batch_sizes import CROSSOVER, FINE, PHYSICAL, PRODUCT, SMALL
from deltamark.harness.results.record import QueryRecord
from deltamark.harness.tables.entry import of, peak, whole
from deltamark.harness.tables.lookup import EMBEDDED, Lookup, row_name
from deltamark.harness.tables.post import FASTEST

SHOWN = {*PHYSICAL, *PRODUCT, *SMALL, *CROSSOVER}

Place = tuple[str, int, int, int]
"""Workload, L, P and workers."""


def others(known: Lookup) -> Table:
    rows: dict[str, dict[Place, QueryRecord]] = {}
    for record in known.records:
        if not _shown(record):
            name = row_name(known.name(record.query, record.variant), record.engine)
            rows.setdefault(name, {})[_column(record)] = record
    columns = sorted({column for records in rows.values() for column in records})
    lines = [
        [words(name), *(of(records.get(column), whole) for column in columns), peak(records.values())]
        for name, records in sorted(rows.items())
    ]
    title = "Other batches: seconds for the whole stream"
    return Table("others", title, ["query", *map(_header, columns), "peak rate"], lines, [FASTEST])


def _column(record: QueryRecord) -> Place:
    return record.workload, record.logical, record.physical, record.workers


def _shown(record: QueryRecord) -> bool:
    """Return whether another table has a column for the record."""
    column, ours = (record.logical, record.physical), record.engine == EMBEDDED
    if record.workload != "insert":
        return ours and record.is_default and record.workers == 1 and column == FINE
    if not record.is_default:
        return ours and record.workers == 1 and column in PHYSICAL
    return record.workers > 1 or column in SHOWN


def _header(column: Place) -> str:
    work, logical, physical, workers = column
    before = "" if work == "insert" else f"{work} "
    return f"{before}{logical} x {physical}" + (f" -w{workers}" if workers > 1 else "")
