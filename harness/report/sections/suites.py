"""The suites beside TPC-H: shared and separate dataflows, loops, graphs, and the least memory of cells."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from deltamark.harness.console.formatting import brief, counted, listed, megabytes, ratio
from deltamark.harness.console.table import Table
from deltamark.harness.measure.stats import geomean
from deltamark.harness.report.charts.marks import Format, LegendEntry, Log, Markup, legend, look, series, tick
from deltamark.harness.report.charts.panel import Strip, dot, strips
from deltamark.harness.report.document import Section, lists
from deltamark.harness.report.sections.grids import folded
from deltamark.harness.report.tooltip import Tooltip
from deltamark.harness.results.record import Record, latest
from deltamark.harness.suites.registry import GraphSuite, LoopSuite, MemorySuite, SharingSuite
from deltamark.harness.tables.suites import SIDES, consistent_figures, paired

MEGABYTE = 1e6


def loops(records: Sequence[Record]) -> Section | None:
    tables = LoopSuite.tables(records)
    if not tables:
        return None
    loads = _measured(records, LoopSuite.NAME, "distances", ("attached", "scratch"))
    times = [
        f"{brief(row.least('attached')).text} if they are attached to an index, and {brief(row.least('scratch')).text} "
        "from scratch"
        for row in loads
    ]
    finding = f"The distances take {listed(times)}." if times else _number_of(tables)
    text = "Distances over a random graph. The tables that make tables SUITE=loops prints."
    return Section("loops", "Loops", finding, text, _folded(tables))


def graphs(records: Sequence[Record]) -> Section | None:
    tables = GraphSuite.tables(records)
    if not tables:
        return None
    static = _measured(records, GraphSuite.NAME, "static", ("seconds_w1", "by_hand"))
    ratios = [f"{ratio(row.least('seconds_w1') / row.least('by_hand')).text} for the {row.row}" for row in static]
    finding = (
        f"The time of BiGJoin relative to that of a hand-written thread is {listed(ratios)}."
        if ratios
        else _number_of(tables)
    )
    text = "Motifs in graphs that do not change, and in graphs that do. The tables that make tables SUITE=graph prints."
    return Section("graphs", "Graphs", finding, text, _folded(tables))


def memory(records: Sequence[Record]) -> Section | None:
    tables = MemorySuite.tables(records)
    if not tables:
        return None
    cells = _measured(records, MemorySuite.NAME, "least", ("least_bytes",))
    sizes = [row.least("least_bytes") for row in cells]
    finding = (
        f"The least memory of {counted(len(sizes), 'cell')} is {megabytes(min(sizes)).text} MB to "
        f"{megabytes(max(sizes)).text} MB."
        if sizes
        else _number_of(tables)
    )
    text = "The least limit of memory under which a cell passes. The table that make tables SUITE=memory prints."
    return Section("memory", "Least memory", finding, text, _folded(tables))


def sharing(records: Sequence[Record]) -> Section | None:
    """Draw the cost of all queries in one dataflow, and the sum of their costs in separate ones."""
    tables = SharingSuite.tables(records)
    if not tables:
        return None
    loads = _measured(records, SharingSuite.NAME, "loads", ())
    text = (
        "All queries in one dataflow, and the sum over separate dataflows: seconds for the whole stream, and megabytes "
        "of state at its end. The number is together / alone. The tables are those of make tables SUITE=shared."
    )
    with consistent_figures(SharingSuite.NAME):
        charts = list(_charts(loads))
        finding = _shared(loads) if loads else _number_of(tables)
    return Section("sharing", "Shared against unshared", finding, text, [*charts, *_folded(tables)])


def _shared(loads: Sequence[Record]) -> str:
    time, size = (ratio(geomean(map(number, loads))).text for number in (time_ratio, bytes_ratio))
    mean = f", in the geometric mean of {counted(len(loads), 'load')}" if len(loads) > 1 else ""
    return f"All queries in one dataflow take {time} of the time and {size} of the state of separate dataflows{mean}."


def _measured(records: Iterable[Record], suite: str, table: str, figures: Collection[str]) -> list[Record]:
    """Return the rows of a table of a suite that have some figures."""
    rows = latest(record for record in records if record.suite == suite)
    return [row for row in rows if row.table == table and row.status == "ok" and {*figures} <= row.figures.keys()]


def _number_of(tables: Sequence[Table]) -> str:
    return f"The suite has {counted(len(tables), 'table')}, without the numbers that are compared here."


def time_ratio(row: Record) -> float:
    """Return the ratio of the time of one dataflow to that of separate ones."""
    return paired(row.figures["together_seconds"], row.figures["alone_seconds"])


def bytes_ratio(row: Record) -> float:
    """Return the ratio of the state of one dataflow to the sum of separate ones."""
    together, alone = (row.least(f"{side}_bytes") for _, side in SIDES)
    return together / alone


@dataclass(frozen=True)
class Chart:
    """A figure of both sides, its format, and the number at the end of a strip."""

    figure: str
    label: str
    unit: float
    format: Format
    number: Callable[[Record], float]


CHARTS = (
    Chart("seconds", "seconds of the stream", 1.0, tick, time_ratio),
    Chart("bytes", "state at its end", MEGABYTE, lambda value: f"{value:g} MB", bytes_ratio),
)


def _charts(loads: Sequence[Record]) -> list[Markup]:
    if not loads:
        return []
    entries = [LegendEntry(look(number), "solid", side) for number, (side, _) in enumerate(SIDES)]
    return [legend(entries), lists(_chart(loads, chart) for chart in CHARTS)]


def _chart(loads: Sequence[Record], chart: Chart) -> Markup:
    def value(row: Record, side: str) -> float:
        return row.least(f"{side}_{chart.figure}") / chart.unit

    def dots(row: Record) -> list[Markup]:
        sides = ((look(number), side) for number, (_, side) in enumerate(SIDES))
        return [
            series(style, "solid", {}, dot(style, scale, value(row, side), _tooltip(row, side)))
            for style, side in sides
        ]

    scale = Log.over(value(row, side) for row in loads for _, side in SIDES)
    rows = [Strip(f"{row.dataset}, {row.row}", dots(row), ratio(chart.number(row)).text, {}) for row in loads]
    return strips(scale, chart.format, rows, label=chart.label)


def _tooltip(row: Record, side: str) -> Tooltip:
    seconds, size = row.least(f"{side}_seconds"), row.least(f"{side}_bytes")
    lines = (
        f"{brief(seconds).text} for the whole stream, the fastest of {len(row.figures[f'{side}_seconds'])} runs",
        f"state {megabytes(size).text} MB",
        "answers equal DuckDB's",
    )
    return Tooltip(f"{row.dataset}, {row.row}, {side}", lines, command(row))


def command(row: Record) -> str:
    """Return the command that measures a load again, in another directory: in the same one the load is done."""
    _, sf, *queries = row.dataset.split()
    logical, _, physical = row.row.split()
    setting = f" QUERIES={','.join(queries)}" if queries else ""
    return f"make bench SUITE=shared SF={sf}{setting} LOGICAL={logical} PHYSICAL={physical} RESULTS=again"


def _folded(tables: Iterable[Table]) -> list[Markup]:
    return [folded(table, lambda _: {}, unfolded=True) for table in tables]
