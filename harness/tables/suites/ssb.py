"""The table of the suite of the Star Schema Benchmark."""

from __future__ import annotations

from collections.abc import Sequence

from deltamark.harness.console.formatting import NOTHING, TableEntry, brief, count, megabytes, rate, short, words
from deltamark.harness.console.table import Table
from deltamark.harness.results.table_record import MeasuredRow
from deltamark.harness.tables.suites.rows import RowsByTable, entry_of, least


def ssb_tables(by_table: RowsByTable) -> list[Table]:
    return [star(by_table.get("ssb", ()))]


def star(measured: Sequence[MeasuredRow]) -> Table:
    """Make the table of queries: the rate for each batch size, and the state and DuckDB's time for the largest."""
    by_cell = {_cell(row): row for row in measured}
    sizes = sorted({size for _, size in by_cell})
    rows = []
    for query in sorted({query for query, _ in by_cell}):
        own = [by_cell.get((query, size)) for size in sizes]
        last = next(row for row in reversed(own) if row is not None)
        others = [entry_of(last, each) for each in (least("state_bytes", megabytes), least("oracle_seconds", brief))]
        compared = sum(row.least("compared") for row in own if row is not None and row.has_numbers)
        rows.append([words(query), *map(_rate, own), *others, count(compared)])
    return Table(
        "ssb", "Star Schema Benchmark: tuples per second",
        ["query", *(f"batches of {short(size)}" for size in sizes), "state MB", "DuckDB once", "compared"], rows,
        [
            "the other tables come first, then lineorder in batches; at the end a tenth of each table is retracted",
            "state: at the end, for the largest batches; DuckDB once: one run of the query over all rows, one thread",
            "compared: answers that were compared with DuckDB's over the live rows",
        ],
    )  # fmt: skip


def _cell(measured: MeasuredRow) -> tuple[str, int]:
    query, _, size = measured.name.partition(" ")
    return query, int(size)


def _rate(measured: MeasuredRow | None) -> TableEntry:
    if measured is None:
        return NOTHING
    return entry_of(measured, lambda row: rate(row.least("tuples") / row.least("seconds")))
