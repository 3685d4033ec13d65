"""Tables of the suite of rates: the highest sustained rate of each cell, and all trials."""

from __future__ import annotations

from collections.abc import Sequence

from deltamark.harness.console.formatting import NOTHING, TableEntry, brief, count, rate, words
from deltamark.harness.console.table import Entries, Table
from deltamark.harness.results.table_record import MeasuredRow
from deltamark.harness.tables.entry import why
from deltamark.harness.tables.suites.rows import RowsByTable, least, number, rows, share

REFUSED = "refused: "
"""The beginning of the note of a refused query."""

ON = " on "
"""The words between the stream and the engine in the name of a cell."""


def rate_tables(by_table: RowsByTable) -> list[Table]:
    measured = by_table.get("trials", ())
    return [highest_rates(measured), trials(measured)]


def cells(measured: Sequence[MeasuredRow]) -> dict[str, list[MeasuredRow]]:
    """Group the trials of each cell by its name in records, which has the settings of trials."""
    found: dict[str, list[MeasuredRow]] = {}
    for row in measured:
        found.setdefault(row.record.cell, []).append(row)
    return found


def highest(of_cell: Sequence[MeasuredRow]) -> MeasuredRow | None:
    """Return the trial of a cell with the highest sustained rate."""
    sustained = [row for row in of_cell if row.figures and row.least("sustained")]
    return max(sustained, key=lambda row: row.least("rate"), default=None)


def lowest_above(of_cell: Sequence[MeasuredRow], best: MeasuredRow) -> MeasuredRow:
    """Return the trial with the lowest rate above the highest sustained one."""
    above = [row for row in of_cell if row.least("rate") > best.least("rate")]
    return min(above, key=lambda row: row.least("rate"), default=best)


def highest_rates(measured: Sequence[MeasuredRow]) -> Table:
    """Make the table of cells: the highest sustained rate, with the latency at this rate."""
    columns = {
        "rounds": least("rate", rate), "tuples": share("rows", "seconds", rate), "for": least("seconds"),
        "p50": least("p50"), "p99": least("p99"), "max": least("max"), "recovery": _recovery,
    }  # fmt: skip
    lines: list[Entries] = []
    for of_cell in cells(measured).values():
        best, first = highest(of_cell), of_cell[0]
        if best is None:
            lines.append([words(first.name), _absent(first), *[NOTHING] * (len(columns) + 1)])
            continue
        above = words(lowest_above(of_cell, best).row.note or "-")
        lines.append([words(first.name), *(show(best) for show in columns.values()), above, count(len(of_cell))])
    notes = [
        "rounds: the highest rate of rounds that the engine sustains; 5% above: the reason why it sustains no more",
        "for: the duration of the trial, which ends with the stream; p50, p99, max: latencies from the due times on",
        "recovery: the time from the largest burst until no round waits",
    ]
    header = ["cell", *columns, "5% above", "trials"]
    return Table("rate", "Highest sustained rate", header, lines, notes)


def trials(measured: Sequence[MeasuredRow]) -> Table:
    """Make the table of all trials."""
    columns = {
        "rounds": least("rate", rate), "p50": least("p50"), "p99": least("p99"), "max": least("max"),
        "recovery": _recovery, "batches": number("batches"), "for": least("seconds"),
        "outcome": lambda row: words(row.row.note or "sustained"),
    }  # fmt: skip
    with_figures = [row for row in measured if row.figures]
    return Table("trials", "Trials at fixed rates", ["cell", *columns], rows(with_figures, columns))


def _recovery(measured: MeasuredRow) -> TableEntry:
    return brief(measured.least("recovery")) if "recovery" in measured.figures else NOTHING


def _absent(measured: MeasuredRow) -> TableEntry:
    """Format the reason why a cell has no sustained rate."""
    if not measured.has_numbers:
        return why(measured.record)
    return words("refused" if measured.row.note.startswith(REFUSED) else "none")
