"""The two forms of charts, and the most important numbers at the top of the page.

A panel has lines over two axes, and is small enough for several in a row; its vertical marks have labels that do not
overlap. A list of strips has one line for each query, all over the same axis. Positions on a strip are shares of its
width, so letters and marks have the same size on every screen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from deltamark.harness.console.table import TableEntry, brief, rate, ratio
from deltamark.harness.measure.stats import geomean
from deltamark.harness.report.marks import (
    Format,
    Keys,
    LineKind,
    Look,
    Markup,
    Scale,
    Tooltip,
    data,
    joined,
    point,
    series,
    shape,
    tag,
)
from deltamark.harness.results.record import Record
from deltamark.harness.tables.lookup import Lookup

ROW = 12
"""The height of a row of labels, in pixels."""

VerticalKind = Literal["slower", "faster", "machine"]


@dataclass(frozen=True)
class Vertical:
    """A line at a position, and its label."""

    x: float
    kind: VerticalKind
    label: str
    tooltip: Tooltip


def verticals(axes: Axes, marks: Iterable[Vertical]) -> Markup:
    """Draw marks, each label in the first row where it does not overlap another."""
    row_ends: list[float] = []
    drawn = [_vertical(axes, mark, row_ends) for mark in sorted(marks, key=lambda mark: mark.x)]
    return tag("g", drawn, class_="verticals")


def _vertical(axes: Axes, mark: Vertical, row_ends: list[float]) -> Markup:
    x, _ = axes.at(mark.x, axes.y.ticks[0])
    half = len(mark.label) * CHARACTER / 2
    middle = min(max(x, LEFT + half), RIGHT - half)
    row = next(_free_rows(row_ends, middle - half))
    row_ends[row : row + 1] = [middle + half + CHARACTER]
    label = tag("text", mark.label, class_="label middle", x=middle, y=TOP + ROW * (row + 0.75))
    line = tag("line", x1=x, x2=x, y1=TOP, y2=BOTTOM)
    return tag("g", point([line, label], mark.tooltip), class_=f"vertical {mark.kind}")


def _free_rows(row_ends: list[float], start: float) -> Iterator[int]:
    """Return the rows whose last label ends before a position, and then a new row."""
    yield from (row for row, end in enumerate(row_ends) if end <= start)
    yield len(row_ends)


STRIP_HEIGHT, MIDDLE = 24, 12


@dataclass(frozen=True)
class DataPoint:
    x: float
    y: float
    tooltip: Tooltip
    interval: tuple[float, float] | None = None
    """The interval that a bar shows."""


@dataclass(frozen=True)
class Line:
    look: Look
    kind: LineKind
    keys: Keys
    points: Sequence[DataPoint]


def single(  # noqa: PLR0913 (the parts of a mark)
    look: Look,
    keys: Keys,
    value: float,
    tooltip: Tooltip,
    *,
    kind: LineKind = "solid",
    interval: tuple[float, float] | None = None,
) -> Line:
    """Return a mark of a strip."""
    return Line(look, kind, keys, [DataPoint(0, value, tooltip, interval)])


@dataclass(frozen=True)
class Strip:
    """The marks of one line, whose values are their y, and the number at its end."""

    name: str
    marks: Iterable[Line]
    number: str
    keys: Keys


def strips(scale: Scale, write: Format, rows: Iterable[Strip], *, label: str) -> Markup:
    ticks = [(value, _percent(scale, value)) for value in scale.ticks]
    labels = [tag("text", write(value), class_="tick middle", x=x, y=13) for value, x in ticks]
    title = tag("div", tag("span"), tag("span", label, class_="title"), class_="strip axis", aria_hidden="true")
    axis = tag("div", tag("span"), tag("svg", labels, height=18), tag("span"), class_="strip axis", aria_hidden="true")
    grid = tag("g", [tag("line", class_="grid", x1=x, x2=x, y1=0, y2="100%") for _, x in ticks], aria_hidden="true")
    return tag(
        "div", title, axis, [_strip(row, scale, grid) for row in rows], class_="strips", tabindex=0, role="group",
        data_chart=True, aria_label=f"{label}; arrow keys go from point to point",
    )  # fmt: skip


def _strip(row: Strip, scale: Scale, grid: Markup) -> Markup:
    name, number = tag("span", row.name, class_="name"), tag("span", row.number, class_="number")
    marks = [
        series(line.look, line.kind, line.keys, [_strip_mark(line.look, scale, datum) for datum in line.points])
        for line in row.marks
    ]
    return tag("div", name, tag("svg", grid, marks, height=STRIP_HEIGHT), number, class_="strip", **data(row.keys))


def _strip_mark(look: Look, scale: Scale, datum: DataPoint) -> Markup:
    """Draw a point, on the line of its interval if it has one."""
    ends = [_percent(scale, value) for value in datum.interval or ()]
    line = [tag("line", class_="range", x1=ends[0], x2=ends[1], y1=MIDDLE, y2=MIDDLE)] if ends else []
    return point([*line, shape(look, _percent(scale, datum.y), MIDDLE)], datum.tooltip)


def _percent(scale: Scale, value: float) -> str:
    return f"{100 * scale.share(value):.2f}%"


RECOMPUTED_ROUNDS = 1000
"""The batch size, in rounds, of the comparison with recomputing."""


def tiles(lookup: Lookup) -> Markup:
    good = [record for record in lookup.records if record.has_numbers]
    verified = sum(bool(record.verified) for record in good)
    text = f"of {len(lookup.records):,} cells have a verified answer"
    numbers = [(f"{verified:,}", text), *((entry.text, text) for entry, text in _numbers(lookup) if entry.value > 0)]
    entries = [tag("div", tag("dt", text), tag("dd", number)) for number, text in numbers]
    note = tag("p", "* geometric mean over the measured queries", class_="star")
    return joined([tag("dl", entries, class_="tiles"), note])


def _numbers(lookup: Lookup) -> Iterable[tuple[TableEntry, str]]:
    """Yield geometric means over the queries for which the number was measured."""
    peaks = [max(rates) for query in lookup.queries if (rates := _rates(lookup, query))]
    yield rate(geomean(peaks)), f"tuples at the best batch size, mean* of {len(peaks)} queries"
    single = _shown(lookup, 1)
    yield rate(geomean(record.rate for record in single)), "tuples, one at a time, mean*"
    yield brief(geomean(record.latency["p99"] for record in single)), "99th percentile for one row, mean*"
    pairs = [
        (lookup.find(query, RECOMPUTED_ROUNDS, 1), lookup.recomputed(query, RECOMPUTED_ROUNDS))
        for query in lookup.queries
    ]
    good = [(ours, theirs) for ours, theirs in pairs if ours and theirs and ours.has_numbers and theirs.has_numbers]
    gains = [ours.rate / theirs.rate for ours, theirs in good]
    yield ratio(geomean(gains)), f"as fast as recomputing every {RECOMPUTED_ROUNDS:,} rounds, mean*"


def _rates(lookup: Lookup, query: str) -> list[float]:
    return [
        record.rate
        for record in lookup.records
        if (record.query, record.engine) == (query, lookup.engines[0]) and record.is_plain and record.has_numbers
    ]


def _shown(lookup: Lookup, physical: int) -> list[Record]:
    records = [lookup.find(query, 1, physical) for query in lookup.queries]
    return [record for record in records if record is not None and record.has_numbers]


WIDTH, HEIGHT = 300, 216
LEFT, RIGHT, TOP, BOTTOM = 44, 288, 22, 178
"""The positions of the axes within a panel, in pixels."""

CHARACTER = 5.6
"""The width of a character of a label, in pixels."""


@dataclass(frozen=True)
class Axes:
    x: Scale
    y: Scale
    format_x: Format
    format_y: Format
    x_title: str
    y_title: str

    def at(self, x: float, y: float) -> tuple[float, float]:
        return LEFT + (RIGHT - LEFT) * self.x.share(x), BOTTOM - (BOTTOM - TOP) * self.y.share(y)


def panel(name: str, axes: Axes, keys: Keys, lines: Iterable[Line], marks: Iterable[Markup] = ()) -> Markup:
    """Draw lines over axes. marks: other marks, which are drawn behind the lines."""
    chart = tag(
        "svg", _grid(axes), marks, [_line(axes, line) for line in lines], viewBox=f"0 0 {WIDTH} {HEIGHT}", tabindex=0,
        role="group", data_chart=True,
        aria_label=f"{name}: {axes.y_title} by {axes.x_title}; arrow keys go from point to point",
    )  # fmt: skip
    return tag("figure", tag("figcaption", name), chart, class_="panel", **data(keys))


def _grid(axes: Axes) -> Markup:
    marks = [
        tag("text", axes.y_title, class_="tick", x=0, y=TOP - 11),
        tag("text", axes.x_title, class_="tick end", x=RIGHT, y=BOTTOM + 31),
    ]
    for value in axes.y.ticks:
        _, y = axes.at(axes.x.ticks[0], value)
        marks.append(tag("line", class_="grid", x1=LEFT, x2=RIGHT, y1=y, y2=y))
        marks.append(tag("text", axes.format_y(value), class_="tick end", x=LEFT - 6, y=y + 3.5))
    for value in axes.x.ticks:
        x, _ = axes.at(value, axes.y.ticks[0])
        marks.append(tag("line", class_="grid", x1=x, x2=x, y1=TOP, y2=BOTTOM))
        label = axes.format_x(value)
        middle = min(x, WIDTH - len(label) * CHARACTER / 2)
        marks.append(tag("text", label, class_="tick middle", x=middle, y=BOTTOM + 16))
    return tag("g", marks, aria_hidden="true")


def _line(axes: Axes, line: Line) -> Markup:
    positions = [axes.at(datum.x, datum.y) for datum in line.points]
    path = tag("path", class_="line", d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in positions))
    return series(line.look, line.kind, line.keys, [path, *(mark(axes, line.look, datum) for datum in line.points)])


def mark(axes: Axes, look: Look, datum: DataPoint) -> Markup:
    """Draw a point with its interval."""
    return point([*_bar(axes, datum), shape(look, *axes.at(datum.x, datum.y))], datum.tooltip)


def _bar(axes: Axes, datum: DataPoint) -> list[Markup]:
    """Draw the interval of a point."""
    if datum.interval is None:
        return []
    (x, low), (_, high) = (axes.at(datum.x, value) for value in datum.interval)
    return [tag("line", class_="range", x1=x, x2=x, y1=low, y2=high)]
