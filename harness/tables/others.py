"""The table of records that no other table has a column for."""

from __future__ import annotations

from deltamark.harness.console.formatting import words
from deltamark.harness.console.table import Table
from deltamark.harness.engines.registry import DEFAULT
from deltamark.harness.measure.batch_sizes import CROSSOVER, PHYSICAL, PRODUCT, SMALL
from deltamark.harness.results.record import QueryRecord
from deltamark.harness.tables.entry import entries, peak, whole
from deltamark.harness.tables.lookup import Lookup, row_name
from deltamark.harness.tables.post import FASTEST

SHOWN = {*PHYSICAL, *PRODUCT, *SMALL, *CROSSOVER}

OtherColumn = tuple[str, int, int, int]
"""Workload, L, P and workers."""


def others(lookup: Lookup) -> Table:
    by_name: dict[str, dict[OtherColumn, QueryRecord]] = {}
    for record in lookup.records:
        if not _has_column(record):
            name = row_name(lookup.name(record.query, record.variant), record.engine)
            by_name.setdefault(name, {})[_column(record)] = record
    columns = sorted({column for records in by_name.values() for column in records})
    rows = [
        [words(name), *entries(map(records.get, columns), whole), peak(records.values())]
        for name, records in sorted(by_name.items())
    ]
    title = "Other batches and workloads: seconds for the whole stream, or tuples per second"
    return Table("others", title, ["query", *map(_header, columns), "peak rate"], rows, [FASTEST])


def _column(record: QueryRecord) -> OtherColumn:
    return record.workload, record.logical, record.physical, record.workers


def _has_column(record: QueryRecord) -> bool:
    """Return whether another table has a column for the record."""
    batching, is_ours = (record.logical, record.physical), record.engine == DEFAULT
    if record.workload != "insert":
        return False
    if not record.is_default:
        return is_ours and record.workers == 1 and batching in PHYSICAL
    return record.workers > 1 or batching in SHOWN


def _header(column: OtherColumn) -> str:
    workload, logical, physical, workers = column
    before = "" if workload == "insert" else f"{workload} "
    return f"{before}{logical} x {physical}" + (f" -w{workers}" if workers > 1 else "")
