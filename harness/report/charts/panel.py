"""A panel: lines over two axes, small enough for several panels in a row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deltamark.harness.report.charts.marks import Keys, LineKind, Look, data, point, series, shape
from deltamark.harness.report.charts.markup import Markup, tag
from deltamark.harness.report.charts.scale import Format, Scale
from deltamark.harness.report.tooltip import Tooltip

WIDTH, HEIGHT = 300, 216
LEFT, RIGHT, TOP, BOTTOM = 44, 288, 22, 178
"""The positions of the axes within a panel, in pixels."""

CHARACTER = 5.6
"""The width of a character of a label, in pixels."""


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
