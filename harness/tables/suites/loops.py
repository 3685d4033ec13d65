"""Tables of the suite of loops."""

from __future__ import annotations

from deltamark.harness.console.formatting import NOTHING, TableEntry, brief, count, megabytes, rate, ratio, words
from deltamark.harness.console.table import Row, Table
from deltamark.harness.results import published
from deltamark.harness.results.table_record import MeasuredRow
from deltamark.harness.tables.suites.rows import RowsByTable, least, number, rows, share, shown_or_why

PUBLISHED = "10,000,000 nodes, 100,000,000 edges"
"""The dataset of the published figures."""


def loop_tables(by_table: RowsByTable) -> list[Table]:
    of = by_table.get("distances", ())
    whole = [each for each in of if not each.name.isdigit()]
    return [speed(whole), kept(whole), updates([each for each in of if each.name.isdigit()])]


def speed(measured: list[MeasuredRow]) -> Table:
    """Make the table of times for distances beside published ones."""
    theirs = {each.label: each.value for each in published.figures() if each.source == "arrangements"}
    lines: list[Row] = []
    for each in measured:
        lines.append([words("the index alone"), shown_or_why(each, least("index")), NOTHING, NOTHING])
        for label, figure in (("from scratch", "scratch"), ("attachment", "attached")):
            ours, value = shown_or_why(each, least(figure)), theirs[label]
            alike = each.has_numbers and each.record.dataset.startswith(PUBLISHED)
            lines.append([words(label), ours, brief(value), ratio(value / ours.value) if alike else NOTHING])
    notes = [
        f"theirs: {published.sources()['arrangements'].label}",
        "from scratch: the edges are indexed, in batches of 10M, then the roots are inserted",
        "attachment: the edges are indexed before; the time includes the compilation of the plan",
    ]
    return Table("distances", "Distances", ["", "ours", "theirs", "theirs / ours"], lines, notes)


def kept(measured: list[MeasuredRow]) -> Table:
    lines = rows(
        measured, least("index_bytes", megabytes), least("more_bytes", megabytes),
        share("more_bytes", "reached", count), number("reached"), number("farthest"),
    )  # fmt: skip
    headers = ["", "index MB", "more for distances MB", "bytes per node reached", "nodes reached", "farthest"]
    return Table("distances-kept", "State of distances", headers, lines)


def updates(measured: list[MeasuredRow]) -> Table:
    lines = rows(measured, number("batches"), share("seconds", "batches", brief), _updates)
    notes = ["half of the changes delete an edge, half insert one; the answer is read after each time"]
    headers = ["changes per time", "times", "time of each", "changes per second"]
    return Table("distances-updates", "Distances while edges are inserted and deleted", headers, lines, notes)


def _updates(measured: MeasuredRow) -> TableEntry:
    return rate(int(measured.name) * measured.least("batches") / measured.least("seconds"))
