"""Charts: one function draws a table, whose rows are the points of series.

A chart with two axes has a panel for each frame of its rows, small enough for several panels side by side. A chart
without an x axis has a strip for each frame, all over the same axis: positions on a strip are shares of its width, so
letters and marks have the same size on every screen. A look is a color and an outline, mostly of an engine; the kind of
a series distinguishes batchings and workloads. Each point has a tooltip, which the script shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from deltamark.harness.report.document import Keys, Markup, MarkupChild, data, tag

Format = Callable[[float], str]


@dataclass(frozen=True)
class Log:
    """A logarithmic scale over whole decades, from 10^low to 10^high."""

    low: int
    high: int

    @classmethod
    def over(cls, values: Iterable[float]) -> Log:
        """Return the scale of the decades with all positive values."""
        powers = [math.log10(value) for value in values if value > 0] or [0.0]
        low, high = math.floor(min(powers) + 1e-9), math.ceil(max(powers) - 1e-9)
        return cls(low, max(high, low + 1))

    def share(self, value: float) -> float:
        power = math.log10(value) if value > 0 else self.low
        return (max(power, self.low) - self.low) / (self.high - self.low)

    @property
    def ticks(self) -> list[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]


@dataclass(frozen=True)
class Linear:
    """A linear scale from `low`, with a number of steps."""

    low: float
    step: float
    steps: int

    @classmethod
    def around(cls, values: Iterable[float]) -> Linear:
        """Return a scale of about four round steps around positive values; it need not begin at zero.

        It spans at least a fifth of the values, so that noise of a few percent looks small.
        """
        ordered = sorted(values)
        low, high = ordered[0], ordered[-1]
        margin = max(0.0, 0.1 * (low + high) - (high - low)) / 2
        step = _round_step((high - low + 2 * margin) / 4)
        first = math.floor((low - margin) / step + 1e-9)
        return cls(first * step, step, math.ceil((high + margin) / step - 1e-9) - first)

    def share(self, value: float) -> float:
        return (value - self.low) / (self.step * self.steps)

    @property
    def ticks(self) -> list[float]:
        return [self.low + self.step * number for number in range(self.steps + 1)]


Scale = Log | Linear


def _round_step(least: float) -> float:
    """Return the smallest of 1, 2 or 5 times a power of ten that is at least a positive value."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least * (1 - 1e-9))


def tick(value: float) -> str:
    """Format a power of ten of seconds, with its unit where one begins."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("\u00b5s", 1e-6), ("ns", 1e-9)):
        if value >= size * (1 - 1e-9):
            times = round(value / size)
            return f"1 {unit}" if times == 1 else str(times)
    return f"{value:g}"


def short(value: float) -> str:
    """Format a power of ten, or a small number."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("K", 1e3)):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def _polygon(*corners: tuple[float, float]) -> str:
    return "M" + "L".join(f"{x * SIZE:.2f} {y * SIZE:.2f}" for x, y in corners) + "Z"


SIZE = 3.5
"""Half the width of a mark, in pixels."""
OUTLINES = (
    "",
    _polygon((-1, -1), (1, -1), (1, 1), (-1, 1)),
    _polygon((0, -1.3), (1.2, 0.9), (-1.2, 0.9)),
    _polygon((0, -1.4), (1.4, 0), (0, 1.4), (-1.4, 0)),
    _polygon((0, 1.3), (1.2, -0.9), (-1.2, -0.9)),
    _polygon(
        (-1.4, -0.5),
        (-0.5, -0.5),
        (-0.5, -1.4),
        (0.5, -1.4),
        (0.5, -0.5),
        (1.4, -0.5),
        (1.4, 0.5),
        (0.5, 0.5),
        (0.5, 1.4),
        (-0.5, 1.4),
        (-0.5, 0.5),
        (-1.4, 0.5),
    ),
    _polygon((-1.4, -0.7), (1.4, -0.7), (1.4, 0.7), (-1.4, 0.7)),
    _polygon((-1.3, -1.3), (0, -0.5), (1.3, -1.3), (0.5, 0), (1.3, 1.3), (0, 0.5), (-1.3, 1.3), (-0.5, 0)),
)
LOOKS = len(OUTLINES)
COLORS = 8
"""The number of colors in report.css."""


@dataclass(frozen=True)
class Look:
    """The numbers of a color and of an outline."""

    color: int
    outline: int


def look(number: int) -> Look:
    """Return the look of an engine: a color with an outline of its own."""
    return Look(number % COLORS, (number + number // COLORS) % LOOKS)


Kind = Literal["solid", "hollow", "dotted", "banded"]
"""The kind of a series. Banded ones show intervals as a band around their line instead of bars."""

Position = tuple[str | float, float]
"""A position in pixels; x may be a share of the width (`12%`)."""


@dataclass(frozen=True)
class Tooltip:
    """The text that the script shows for a point."""

    title: str
    lines: tuple[str, ...]
    command: str


@dataclass(frozen=True)
class Frame:
    """A panel or a strip. number: the text at the end of a strip."""

    name: str
    keys: Keys = field(default_factory=dict)
    number: str = ""


@dataclass(frozen=True)
class Row:
    """A row of a table that a chart draws: a point, its frame, and the series that it belongs to."""

    frame: Frame
    look: Look
    kind: Kind
    series: str
    """The words of the legend."""
    keys: Keys
    value: float
    tooltip: Tooltip | None = None
    x: float = 0
    interval: tuple[float, float] | None = None
    """The values that a bar or a band shows."""
    order: tuple[int, ...] = ()
    """The position of the series in the legend."""


@dataclass(frozen=True)
class Axis:
    title: str
    scale: Scale
    format: Format


@dataclass(frozen=True)
class Area:
    """The size of a picture, and the positions of its axes, in pixels. inset: the room at both ends of the x axis."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    inset: tuple[int, int] = (0, 0)
    letter: float = 1
    """The size of letters, relative to those of a panel."""


PANEL, WIDE = Area(300, 216, 44, 288, 22, 178), Area(520, 300, 44, 508, 22, 262)

CHARACTER = 5.6
"""The width of a character of a label, in pixels."""

LABEL_ROW = 12
"""The height of a row of labels, in pixels."""

STRIP_HEIGHT, MIDDLE = 24, 12


@dataclass(frozen=True)
class Axes:
    """The axes of a chart. x: None for strips, whose values are along their width."""

    y: Axis
    x: Axis | None = None
    area: Area = PANEL

    def at(self, x: float, value: float) -> Position:
        share = self.y.scale.share(value)
        if self.x is None:
            return f"{100 * share:.2f}%", MIDDLE
        area = self.area
        first, last = area.left + area.inset[0], area.right - area.inset[1]
        return first + (last - first) * self.x.scale.share(x), area.bottom - (area.bottom - area.top) * share


def chart(rows: Iterable[Row], axes: Axes, behind: Iterable[Markup] = ()) -> list[Markup]:
    """Draw a table: a panel for each frame, or a list of strips. behind: marks that are drawn behind the series."""
    frames: dict[str, list[Row]] = {}
    for row in rows:
        frames.setdefault(row.frame.name, []).append(row)
    if axes.x is None:
        return [_strips(axes.y, [_strip(axes, of_frame) for of_frame in frames.values()])]
    return [_panel(axes, of_frame, behind) for of_frame in frames.values()]


def drawn(rows: Iterable[Row], axes: Axes) -> list[Markup]:
    """Draw the series of a frame, which filters show and hide."""
    lines: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        lines.setdefault((row.series, row.kind, *row.keys.values()), []).append(row)
    return [series(line[0], [*_line(line, axes), *(point(row, axes) for row in line)]) for line in lines.values()]


def series(row: Row, marks: MarkupChild) -> Markup:
    return tag("g", marks, class_=f"series look{row.look.color} {row.kind}", **data(row.keys))


def _line(line: Sequence[Row], axes: Axes) -> Iterator[Markup]:
    if axes.x is None:
        return
    if line[0].kind == "banded":
        edges = [[axes.at(row.x, row.interval[end]) for row in line if row.interval] for end in (0, 1)]
        yield tag("path", class_="band", d=f"{_path([*edges[0], *reversed(edges[1])])}Z")
    yield tag("path", class_="line", d=_path([axes.at(row.x, row.value) for row in line]))


def _path(positions: Iterable[Position]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in positions)


def point(row: Row, axes: Axes) -> Markup:
    """Draw a point, on the bar of its interval if it has one."""
    bars = []
    if row.interval and row.kind != "banded":
        (x1, y1), (x2, y2) = (axes.at(row.x, value) for value in row.interval)
        bars = [tag("line", class_="range", x1=x1, x2=x2, y1=y1, y2=y2)]
    mark = _shape(row.look, *axes.at(row.x, row.value))
    return with_tooltip([*bars, mark], row.tooltip) if row.tooltip else mark


def _shape(look: Look, x: str | float, y: float) -> Markup:
    if look.outline == 0:
        return tag("circle", cx=x, cy=y, r=SIZE + 0.3)
    return tag("svg", tag("path", d=OUTLINES[look.outline]), x=x, y=y, width=1, height=1, overflow="visible")


def with_tooltip(marks: Iterable[Markup], tooltip: Tooltip) -> Markup:
    lines = "\n".join(tooltip.lines)
    return tag("g", marks, class_="point", data_title=tooltip.title, data_lines=lines, data_command=tooltip.command)


def legend(rows: Iterable[Row]) -> Markup:
    """List the series with their meaning."""
    found = {(row.series, row.kind, row.look): row for row in sorted(rows, key=lambda row: row.order)}
    line = tag("line", class_="line", x1=1, x2=27, y1=8, y2=8)
    entries = [
        tag(
            "li",
            tag(
                "svg",
                tag("g", line, _shape(look, 14, 8), class_=f"series look{look.color} {kind}"),
                width=28, height=16, aria_hidden="true",
            ),
            text,
        )
        for text, kind, look in found
    ]  # fmt: skip
    return tag("ul", entries, class_="legend")


def _panel(axes: Axes, rows: Sequence[Row], behind: Iterable[Markup]) -> Markup:
    assert axes.x is not None
    frame, area = rows[0].frame, axes.area
    picture = tag(
        "svg", grid(axes), behind, drawn(rows, axes), viewBox=f"0 0 {area.width} {area.height}", tabindex=0,
        role="group", data_chart=True,
        aria_label=f"{frame.name}: {axes.y.title} by {axes.x.title}; arrow keys go from point to point",
    )  # fmt: skip
    return tag("figure", tag("figcaption", frame.name), picture, class_="panel", **data(frame.keys))


def grid(axes: Axes) -> Markup:
    """Draw the axes of a panel with their titles, and a line at each tick."""
    assert axes.x is not None
    area, letter = axes.area, axes.area.letter
    marks = [
        *([tag("text", axes.y.title, class_="tick", x=0, y=area.top - 11 * letter)] if axes.y.title else []),
        tag("text", axes.x.title, class_="tick end", x=area.right, y=area.bottom + 31 * letter),
    ]
    for value in axes.y.scale.ticks:
        _, y = axes.at(0, value)
        marks.append(tag("line", class_="grid", x1=area.left, x2=area.right, y1=y, y2=y))
        text = axes.y.format(value)
        marks.append(tag("text", text, class_="tick end", x=area.left - 6 * letter, y=y + 3.5 * letter))
    for value in axes.x.scale.ticks:
        x, _ = axes.at(value, 0)
        marks.append(tag("line", class_="grid", x1=x, x2=x, y1=area.top, y2=area.bottom))
        label = axes.x.format(value)
        middle = min(float(x), area.width - len(label) * CHARACTER * letter / 2)
        marks.append(tag("text", label, class_="tick middle", x=middle, y=area.bottom + 16 * letter))
    return tag("g", marks, aria_hidden="true")


def _strips(axis: Axis, strips: Iterable[Markup]) -> Markup:
    labels = [
        tag("text", axis.format(value), class_="tick middle", x=_percent(axis, value), y=13)
        for value in axis.scale.ticks
    ]
    title = tag("div", tag("span"), tag("span", axis.title, class_="title"), class_="strip axis", aria_hidden="true")
    line = tag("div", tag("span"), tag("svg", labels, height=18), tag("span"), class_="strip axis", aria_hidden="true")
    return tag(
        "div", title, line, strips, class_="strips", tabindex=0, role="group", data_chart=True,
        aria_label=f"{axis.title}; arrow keys go from point to point",
    )  # fmt: skip


def _percent(axis: Axis, value: float) -> str:
    return f"{100 * axis.scale.share(value):.2f}%"


def _strip(axes: Axes, rows: Sequence[Row]) -> Markup:
    frame = rows[0].frame
    lines = [
        tag("line", class_="grid", x1=x, x2=x, y1=0, y2="100%")
        for x in (_percent(axes.y, value) for value in axes.y.scale.ticks)
    ]
    picture = tag("svg", tag("g", lines, aria_hidden="true"), drawn(rows, axes), height=STRIP_HEIGHT)
    name, number = tag("span", frame.name, class_="name"), tag("span", frame.number, class_="number")
    return tag("div", name, picture, number, class_="strip", **data(frame.keys))


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
    return tag(
        "g", [_vertical(axes, mark, row_ends) for mark in sorted(marks, key=lambda mark: mark.x)], class_="verticals"
    )


def _vertical(axes: Axes, mark: Vertical, row_ends: list[float]) -> Markup:
    area, x = axes.area, float(axes.at(mark.x, axes.y.scale.ticks[0])[0])
    half = len(mark.label) * CHARACTER / 2
    middle = min(max(x, area.left + half), area.right - half)
    row = next(_free_rows(row_ends, middle - half))
    row_ends[row : row + 1] = [middle + half + CHARACTER]
    label = tag("text", mark.label, class_="label middle", x=middle, y=area.top + LABEL_ROW * (row + 0.75))
    line = tag("line", x1=x, x2=x, y1=area.top, y2=area.bottom)
    return tag("g", with_tooltip([line, label], mark.tooltip), class_=f"vertical {mark.kind}")


def _free_rows(row_ends: Sequence[float], start: float) -> Iterator[int]:
    """Return the rows whose last label ends before a position, and then a new row."""
    yield from (row for row, end in enumerate(row_ends) if end <= start)
    yield len(row_ends)
