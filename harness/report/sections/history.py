"""How rates of the same cells changed from session to session. It is looked at, and never gated on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import ceil

from deltamark.harness.console.formatting import ratio
from deltamark.harness.report.about import About, about
from deltamark.harness.report.charts.marks import keys_of, look
from deltamark.harness.report.charts.markup import Markup
from deltamark.harness.report.charts.panel import Axes, Line, Place, panel
from deltamark.harness.report.charts.scale import Linear
from deltamark.harness.report.section import Section, panels
from deltamark.harness.results.record import MEASURING, QueryRecord

TICKS = 4


def history(records: Iterable[QueryRecord], engines: Sequence[str]) -> Section | None:
    """Draw the cells that were measured in several sessions, relative to the first."""
    cells = _cells(records)
    if not cells:
        return None
    sessions = sorted({record.session for cell in cells for record in cell})
    most = max(record.rate / cell[0].rate for cell in cells for record in cell)
    step = max(0.5, ceil(most / TICKS))
    every = max(1, ceil((len(sessions) - 1) / TICKS))
    axes = Axes(
        Linear(0, every, ceil((len(sessions) - 1) / every)), Linear(0, step, ceil((most + 0.01) / step)),
        lambda at: sessions[min(int(at), len(sessions) - 1)][5:10], lambda value: f"{value:g}x",
        "rate relative to the first session",
    )  # fmt: skip
    by_query: dict[str, list[list[QueryRecord]]] = defaultdict(list)
    for cell in cells:
        by_query[cell[0].query].append(cell)
    made = [_panel(query, axes, by_query[query], sessions, engines) for query in sorted(by_query)]
    return Section(
        "history", "History",
        "Rates of cells that were measured in several sessions, relative to the first of them: a line a cell. The "
        "machine has a part in it; whether a change is slower is for make compare to say.",
        [panels(made)],
    )  # fmt: skip


def _cells(records: Iterable[QueryRecord]) -> list[list[QueryRecord]]:
    """Return the records of each cell that several sessions have measured, the last of a session each."""
    found: dict[str, dict[str, QueryRecord]] = defaultdict(dict)
    for record in records:
        if record.has_numbers and record.measuring == MEASURING:
            found[record.cell][record.session] = record
    return [[by[session] for session in sorted(by)] for by in found.values() if len(by) > 1]


def _panel(
    query: str, axes: Axes, cells: list[list[QueryRecord]], sessions: Sequence[str], engines: Sequence[str]
) -> Markup:
    lines = [
        Line(
            look(engines.index(cell[0].engine)), "solid", keys_of(cell[0]),
            [Place(sessions.index(each.session), each.rate / cell[0].rate, _told(each, cell[0])) for each in cell],
        )
        for cell in cells
    ]  # fmt: skip
    return panel(query, axes, {"query": query}, lines)


def _told(record: QueryRecord, first: QueryRecord) -> About:
    told = about(record)
    change = f"{ratio(record.rate / first.rate).text} of the first session"
    change += f"; commit {record.commit}, {record.finished_at[:16]}"
    return About(told.title, (change, *told.lines), told.command)
