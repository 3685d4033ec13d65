"""A panel: lines over two axes, small enough to stand beside others of its kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deltamark.harness.report.about import About
from deltamark.harness.report.charts.marks import Keys, Kind, Look, data, point, series, shape
from deltamark.harness.report.charts.markup import Markup, tag
from deltamark.harness.report.charts.scale import Scale, Write

WIDTH, HEIGHT = 300, 190
LEFT, RIGHT, TOP, BOTTOM = 40, 288, 10, 166
"""Where the axes are."""


@dataclass(frozen=True)
class Place:
    x: float
    y: float
    told: About


@dataclass(frozen=True)
class Line:
    look: Look
    kind: Kind
    keys: Keys
    places: Sequence[Place]


@dataclass(frozen=True)
class Axes:
    x: Scale
    y: Scale
    write_x: Write
    write_y: Write
    label: str
    """What is shown, in words."""

    def at(self, x: float, y: float) -> tuple[float, float]:
        return LEFT + (RIGHT - LEFT) * self.x.share(x), BOTTOM - (BOTTOM - TOP) * self.y.share(y)


def panel(name: str, axes: Axes, keys: Keys, lines: Iterable[Line]) -> Markup:
    drawn = tag(
        "svg", _grid(axes), [_line(axes, line) for line in lines], viewBox=f"0 0 {WIDTH} {HEIGHT}", tabindex=0,
        role="group", data_chart=True, aria_label=f"{name}: {axes.label}; arrow keys go from point to point",
    )  # fmt: skip
    return tag("figure", tag("figcaption", name), drawn, class_="panel", **data(keys))


def _grid(axes: Axes) -> Markup:
    drawn = []
    for value in axes.y.ticks:
        _, y = axes.at(axes.x.ticks[0], value)
        drawn.append(tag("line", class_="grid", x1=LEFT, x2=RIGHT, y1=y, y2=y))
        drawn.append(tag("text", axes.write_y(value), class_="tick end", x=LEFT - 6, y=y + 3.5))
    for value in axes.x.ticks:
        x, _ = axes.at(value, axes.y.ticks[0])
        drawn.append(tag("line", class_="grid", x1=x, x2=x, y1=TOP, y2=BOTTOM))
        drawn.append(tag("text", axes.write_x(value), class_="tick middle", x=x, y=BOTTOM + 16))
    return tag("g", drawn, aria_hidden="true")


def _line(axes: Axes, line: Line) -> Markup:
    at = [axes.at(place.x, place.y) for place in line.places]
    path = tag("path", class_="line", d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in at))
    marks = [point([shape(line.look, *xy)], place.told) for xy, place in zip(at, line.places, strict=True)]
    return series(line.look, line.kind, line.keys, [path, *marks])
