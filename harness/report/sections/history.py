"""The rates of the same cells in several sessions. They are shown for reading; the gate does not use them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import ceil

from deltamark.harness.console.formatting import ratio
from deltamark.harness.report.charts.marks import keys_of, look
from deltamark.harness.report.charts.markup import Markup
from deltamark.harness.report.charts.panel import Axes, DataPoint, Line, panel
from deltamark.harness.report.charts.scale import Linear
from deltamark.harness.report.section import Section, panels
from deltamark.harness.report.tooltip import Tooltip, tooltip
from deltamark.harness.results.record import MEASURING, QueryRecord

TICKS = 4


def history(records: Iterable[QueryRecord], engines: Sequence[str]) -> Section | None:
    """Draw the rates of cells with several sessions, relative to the first session."""
    cells = _cells(records)
    if not cells:
        return None
    sessions = sorted({record.session for cell in cells for record in cell})
    highest = max(record.rate / cell[0].rate for cell in cells for record in cell)
    step = max(0.5, ceil(highest / TICKS))
    spacing = max(1, ceil((len(sessions) - 1) / TICKS))
    axes = Axes(
        Linear(0, spacing, ceil((len(sessions) - 1) / spacing)), Linear(0, step, ceil((highest + 0.01) / step)),
        lambda number: sessions[min(int(number), len(sessions) - 1)][5:10], lambda value: f"{value:g}x",
        "rate relative to the first session",
    )  # fmt: skip
    by_query: dict[str, list[list[QueryRecord]]] = defaultdict(list)
    for cell in cells:
        by_query[cell[0].query].append(cell)
    charts = [_panel(query, axes, by_query[query], sessions, engines) for query in sorted(by_query)]
    return Section(
        "history", "History",
        "Rates of cells that were measured in several sessions, relative to the first of them, one line for each cell. "
        "They also depend on the state of the machine; make compare judges whether a change is slower.",
        [panels(charts)],
    )  # fmt: skip


def _cells(records: Iterable[QueryRecord]) -> list[list[QueryRecord]]:
    """Return the last record of each session, for each cell with several sessions."""
    cells: dict[str, dict[str, QueryRecord]] = defaultdict(dict)
    for record in records:
        if record.has_numbers and record.measuring == MEASURING:
            cells[record.cell][record.session] = record
    return [
        [by_session[session] for session in sorted(by_session)] for by_session in cells.values() if len(by_session) > 1
    ]


def _panel(
    query: str, axes: Axes, cells: list[list[QueryRecord]], sessions: Sequence[str], engines: Sequence[str]
) -> Markup:
    lines = [
        Line(
            look(engines.index(cell[0].engine)), "solid", keys_of(cell[0]),
            [_point(record, cell[0], sessions) for record in cell],
        )
        for cell in cells
    ]  # fmt: skip
    return panel(query, axes, {"query": query}, lines)


def _point(record: QueryRecord, first: QueryRecord, sessions: Sequence[str]) -> DataPoint:
    usual = tooltip(record)
    change = f"{ratio(record.rate / first.rate).text} of the first session"
    change += f"; commit {record.commit}, {record.finished_at[:16]}"
    text = Tooltip(usual.title, (change, *usual.lines), usual.command)
    return DataPoint(sessions.index(record.session), record.rate / first.rate, text)
