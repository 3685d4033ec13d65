"""Tables of the suite of loops."""

from __future__ import annotations

from collections.abc import Sequence

from deltamark.harness.console.formatting import NOTHING, TableEntry, brief, count, megabytes, rate, ratio, words
from deltamark.harness.console.table import Entries, Table
from deltamark.harness.results import published
from deltamark.harness.results.table_record import MeasuredRow
from deltamark.harness.tables.suites.rows import RowsByTable, entry_of, least, number, rows, share

PUBLISHED = "10,000,000 nodes, 100,000,000 edges"
"""The dataset of the published figures."""


def loop_tables(by_table: RowsByTable) -> list[Table]:
    distances = by_table.get("distances", ())
    loads = [row for row in distances if not row.name.isdigit()]
    return [speed(loads), state(loads), updates([row for row in distances if row.name.isdigit()])]


def speed(measured: Sequence[MeasuredRow]) -> Table:
    """Make the table of times for distances beside published ones."""
    figures = [figure for figure in published.figures() if figure.source == "arrangements"]
    published_seconds = {figure.label: figure.value for figure in figures}
    lines: list[Entries] = []
    for row in measured:
        lines.append([words("the index alone"), entry_of(row, least("index")), NOTHING, NOTHING])
        for label, figure in (("from scratch", "scratch"), ("attachment", "attached")):
            ours, theirs = entry_of(row, least(figure)), published_seconds[label]
            is_comparable = row.has_numbers and row.record.dataset.startswith(PUBLISHED)
            lines.append([words(label), ours, brief(theirs), ratio(theirs / ours.value) if is_comparable else NOTHING])
    notes = [
        f"theirs: {published.sources()['arrangements'].label}",
        "from scratch: the edges are indexed, in batches of 10M, then the roots are inserted",
        "attachment: the edges are indexed before; the time includes the compilation of the plan",
    ]
    return Table("distances", "Distances", ["", "ours", "theirs", "theirs / ours"], lines, notes)


def state(measured: Sequence[MeasuredRow]) -> Table:
    columns = {
        "index MB": least("index_bytes", megabytes), "distances MB": least("more_bytes", megabytes),
        "bytes per node reached": share("more_bytes", "reached", count), "nodes reached": number("reached"),
        "farthest": number("farthest"),
    }  # fmt: skip
    return Table("distances-state", "State of distances", ["", *columns], rows(measured, columns))


def updates(measured: Sequence[MeasuredRow]) -> Table:
    columns = {
        "times": number("batches"), "time of each": share("seconds", "batches", brief), "changes per second": _rate,
    }  # fmt: skip
    notes = ["half of the changes delete an edge, half insert one; the answer is read after each time"]
    title = "Distances while edges are inserted and deleted"
    return Table("distances-updates", title, ["changes per time", *columns], rows(measured, columns), notes)


def _rate(measured: MeasuredRow) -> TableEntry:
    return rate(int(measured.name) * measured.least("batches") / measured.least("seconds"))
