"""Other suites than TPC-H: shared against unshared, and the tables of graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from deltamark.harness.console.formatting import brief, megabytes, ratio
from deltamark.harness.console.table import Table
from deltamark.harness.report.about import About
from deltamark.harness.report.charts.marks import Explained, legend, look, series
from deltamark.harness.report.charts.markup import Markup
from deltamark.harness.report.charts.scale import Log, Write, tick
from deltamark.harness.report.charts.strips import Strip, dot, strips
from deltamark.harness.report.section import Section, lists
from deltamark.harness.report.sections.grids import folded
from deltamark.harness.results.table_record import MeasuredRow, TableRecord, latest_rows
from deltamark.harness.suites.graphs.suite import GraphSuite
from deltamark.harness.suites.loops.suite import LoopSuite
from deltamark.harness.suites.sharing.suite import SharingSuite
from deltamark.harness.tables.suites.rows import consistent_figures
from deltamark.harness.tables.suites.sharing import SIDES, paired

MEGABYTE = 1e6


def loops(findings: Iterable[TableRecord]) -> Section | None:
    made = LoopSuite.tables(findings)
    if not made:
        return None
    text = "Distances over a random graph. The same as make tables SUITE=loops prints."
    return Section("loops", "Loops", text, _folded(made))


def graphs(findings: Iterable[TableRecord]) -> Section | None:
    made = GraphSuite.tables(findings)
    if not made:
        return None
    text = "Motifs in graphs that do not change, and in graphs that do. The same as make tables SUITE=graph prints."
    return Section("graphs", "Graphs", text, _folded(made))


def sharing(findings: Sequence[TableRecord]) -> Section | None:
    """Draw what all queries take in one dataflow, beside what each takes alone, added up."""
    made = SharingSuite.tables(findings)
    if not made:
        return None
    loads = [
        each for each in latest_rows(findings, SharingSuite.NAME) if each.record.table == "loads" and each.has_numbers
    ]
    text = (
        "All queries in one dataflow, and the sum of each alone: seconds for the whole stream, and megabytes kept at "
        "its end. The number is together / alone. The tables are those of make tables SUITE=shared."
    )
    with consistent_figures(SharingSuite.NAME):
        charts = list(_charts(loads))
    return Section("sharing", "Shared against unshared", text, [*charts, *_folded(made)])


def kept(measured: MeasuredRow) -> float:
    """Return how many times as much is kept together as alone."""
    together, alone = (measured.least(f"{side}_bytes") for _, side in SIDES)
    return together / alone


@dataclass(frozen=True)
class Drawn:
    """A figure of both sides, and how it is written."""

    figure: str
    label: str
    unit: float
    write: Write
    said: Callable[[MeasuredRow], float]


DRAWN = (
    Drawn("seconds", "seconds of the stream", 1.0, tick, paired),
    Drawn("bytes", "state at its end", MEGABYTE, lambda value: f"{value:g} MB", kept),
)


def _charts(loads: Sequence[MeasuredRow]) -> list[Markup]:
    if not loads:
        return []
    explained = [Explained(look(at), "solid", what) for at, (what, _) in enumerate(SIDES)]
    return [legend(explained), lists(_chart(loads, each) for each in DRAWN)]


def _chart(loads: Sequence[MeasuredRow], drawn: Drawn) -> Markup:
    def value(measured: MeasuredRow, side: str) -> float:
        return measured.least(f"{side}_{drawn.figure}") / drawn.unit

    def dots(measured: MeasuredRow) -> list[Markup]:
        shown = ((look(at), side) for at, (_, side) in enumerate(SIDES))
        return [
            series(of, "solid", {}, dot(of, scale, value(measured, side), _about(measured, side))) for of, side in shown
        ]

    scale = Log.over(value(each, side) for each in loads for _, side in SIDES)
    made = [
        Strip(f"{each.record.dataset}, {each.name}", dots(each), ratio(drawn.said(each)).text, {}) for each in loads
    ]
    return strips(scale, drawn.write, made, label=drawn.label)


def _about(measured: MeasuredRow, side: str) -> About:
    seconds, size = measured.least(f"{side}_seconds"), measured.least(f"{side}_bytes")
    lines = (
        f"{brief(seconds).text} for the whole stream, the fastest of {len(measured.figures[f'{side}_seconds'])} runs",
        f"state {megabytes(size).text} MB",
        "answers equal DuckDB's",
    )
    return About(f"{measured.record.dataset}, {measured.name}, {side}", lines, command(measured))


def command(measured: MeasuredRow) -> str:
    """Return what measures a load again; in a directory of its own, or it would be done already."""
    _, sf, *queries = measured.record.dataset.split()
    logical, _, physical = measured.name.split()
    asked = f" QUERIES={','.join(queries)}" if queries else ""
    return f"make bench SUITE=shared SF={sf}{asked} LOGICAL={logical} PHYSICAL={physical} RESULTS=again"


def _folded(made: Iterable[Table]) -> list[Markup]:
    return [folded(table, lambda _: {}, unfolded=True) for table in made]
