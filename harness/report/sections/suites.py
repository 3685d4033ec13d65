"""The suites beside TPC-H: shared and separate dataflows, loops, and graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from deltamark.harness.report.charts.marks import LegendEntry, legend, look, series
from deltamark.harness.report.charts.markup import Markup
from deltamark.harness.report.charts.scale import Format, Log, tick
from deltamark.harness.report.charts.strips import Strip, dot, strips
from deltamark.harness.report.section import Section, lists
from deltamark.harness.report.sections.grids import folded
from deltamark.harness.report.tooltip import Tooltip
from deltamark.harness.results.finding import Finding, latest, readable
from deltamark.harness.tables import suite_tables
from deltamark.harness.tables.entry import Table, brief, megabytes, ratio
from deltamark.harness.tables.suites.sharing import SIDES, paired

MEGABYTE = 1e6


def loops(findings: Iterable[Finding]) -> Section | None:
    tables = suite_tables(findings, "loops")
    if not tables:
        return None
    text = "Distances over a random graph. The tables that make tables SUITE=loops prints."
    return Section("loops", "Loops", text, _folded(tables))


def graphs(findings: Iterable[Finding]) -> Section | None:
    tables = suite_tables(findings, "graph")
    if not tables:
        return None
    text = "Motifs in graphs that do not change, and in graphs that do. The tables that make tables SUITE=graph prints."
    return Section("graphs", "Graphs", text, _folded(tables))


def sharing(findings: Sequence[Finding]) -> Section | None:
    """Draw the cost of all queries in one dataflow, and the sum of their costs in separate ones."""
    tables = suite_tables(findings, "shared")
    if not tables:
        return None
    loads = [
        finding
        for finding in latest(findings)
        if (finding.suite, finding.table) == ("shared", "loads") and finding.shown
    ]
    text = (
        "All queries in one dataflow, and the sum over separate dataflows: seconds for the whole stream, and megabytes "
        "of state at its end. The number is together / alone. The tables are those of make tables SUITE=shared."
    )
    with readable("shared"):
        charts = list(_charts(loads))
    return Section("sharing", "Shared against unshared", text, [*charts, *_folded(tables)])


def bytes_ratio(finding: Finding) -> float:
    """Return the ratio of the state of one dataflow to the sum of separate ones."""
    together, alone = (finding.least(f"{side}_bytes") for _, side in SIDES)
    return together / alone


@dataclass(frozen=True)
class Chart:
    """A figure of both sides, its format, and the number at the end of a strip."""

    figure: str
    label: str
    unit: float
    format: Format
    number: Callable[[Finding], float]


CHARTS = (
    Chart("seconds", "seconds of the stream", 1.0, tick, paired),
    Chart("bytes", "state at its end", MEGABYTE, lambda value: f"{value:g} MB", bytes_ratio),
)


def _charts(loads: Sequence[Finding]) -> list[Markup]:
    if not loads:
        return []
    entries = [LegendEntry(look(number), "solid", side) for number, (side, _) in enumerate(SIDES)]
    return [legend(entries), lists(_chart(loads, chart) for chart in CHARTS)]


def _chart(loads: Sequence[Finding], chart: Chart) -> Markup:
    def value(finding: Finding, side: str) -> float:
        return finding.least(f"{side}_{chart.figure}") / chart.unit

    def dots(finding: Finding) -> list[Markup]:
        sides = ((look(number), side) for number, (_, side) in enumerate(SIDES))
        return [
            series(style, "solid", {}, dot(style, scale, value(finding, side), _tooltip(finding, side)))
            for style, side in sides
        ]

    scale = Log.over(value(finding, side) for finding in loads for _, side in SIDES)
    rows = [
        Strip(f"{finding.of}, {finding.row}", dots(finding), ratio(chart.number(finding)).text, {}) for finding in loads
    ]
    return strips(scale, chart.format, rows, label=chart.label)


def _tooltip(finding: Finding, side: str) -> Tooltip:
    seconds, size = finding.least(f"{side}_seconds"), finding.least(f"{side}_bytes")
    lines = (
        f"{brief(seconds).text} for the whole stream, the fastest of {len(finding.figures[f'{side}_seconds'])} runs",
        f"state {megabytes(size).text} MB",
        "answers equal DuckDB's",
    )
    return Tooltip(f"{finding.of}, {finding.row}, {side}", lines, command(finding))


def command(finding: Finding) -> str:
    """Return the command that measures a load again, in another directory: in the same one the load is done."""
    _, sf, *queries = finding.of.split()
    logical, _, physical = finding.row.split()
    setting = f" QUERIES={','.join(queries)}" if queries else ""
    return f"make bench SUITE=shared SF={sf}{setting} LOGICAL={logical} PHYSICAL={physical} RESULTS=again"


def _folded(tables: Iterable[Table]) -> list[Markup]:
    return [folded(table, lambda _: {}, unfolded=True) for table in tables]
