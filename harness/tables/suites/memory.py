"""The table of the suite of memory."""

from __future__ import annotations

from collections.abc import Sequence

from deltamark.harness.console.formatting import TableEntry, megabytes, ratio, words
from deltamark.harness.console.table import Table
from deltamark.harness.results.table_record import MeasuredRow
from deltamark.harness.tables.entry import row_bytes
from deltamark.harness.tables.suites.rows import RowsByTable, least, rows, share

REFUSED = "refused: "
"""The beginning of the note of a refused query."""


def memory_tables(by_table: RowsByTable) -> list[Table]:
    return [least_memory(by_table.get("least", ()))]


def least_memory(measured: Sequence[MeasuredRow]) -> Table:
    """Make the table of cells: the least limit of memory, beside the memory before the first batch and the state."""
    columns = {
        "least MB": _least, "start MB": least("opened_bytes", megabytes), "state MB": least("state_bytes", megabytes),
        "bytes per row": _row_bytes, "slowdown": share("seconds", "free_seconds", ratio),
        "5% below": lambda row: words(row.row.note or "-"),
    }  # fmt: skip
    notes = [
        "least MB: the least limit for all processes of the engine under which the run ends with right answers",
        "start MB: before the first batch; state MB, bytes per row: added by the run",
        "slowdown: the time under the least limit, relative to that without a limit",
    ]
    title = "Least memory in which a cell passes"
    return Table("least", title, ["cell", *columns], rows(measured, columns), notes)


def _least(measured: MeasuredRow) -> TableEntry:
    return words("refused") if measured.row.note.startswith(REFUSED) else megabytes(measured.least("least_bytes"))


def _row_bytes(measured: MeasuredRow) -> TableEntry:
    return row_bytes(measured.least("state_bytes"), measured.least("state_rows"))
