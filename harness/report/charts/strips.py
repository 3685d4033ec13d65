"""A list of strips: one line for each query, all over the same axis.

Positions are shares of the width, so letters and marks have the same size on every screen.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from deltamark.harness.report.charts.marks import Keys, Look, data, point, shape
from deltamark.harness.report.charts.markup import Markup, tag
from deltamark.harness.report.charts.scale import Format, Scale
from deltamark.harness.report.tooltip import Tooltip

HEIGHT, MIDDLE = 24, 12


@dataclass(frozen=True)
class Strip:
    """The marks of one line, and the number at its end."""

    name: str
    marks: Iterable[Markup]
    number: str
    keys: Keys


def strips(scale: Scale, write: Format, rows: Iterable[Strip], *, label: str) -> Markup:
    ticks = [(value, _percent(scale, value)) for value in scale.ticks]
    labels = [tag("text", write(value), class_="tick middle", x=x, y=13) for value, x in ticks]
    title = tag("div", tag("span"), tag("span", label, class_="title"), class_="strip axis", aria_hidden="true")
    axis = tag("div", tag("span"), tag("svg", labels, height=18), tag("span"), class_="strip axis", aria_hidden="true")
    grid = tag("g", [tag("line", class_="grid", x1=x, x2=x, y1=0, y2="100%") for _, x in ticks], aria_hidden="true")
    return tag(
        "div", title, axis, [_strip(row, grid) for row in rows], class_="strips", tabindex=0, role="group",
        data_chart=True, aria_label=f"{label}; arrow keys go from point to point",
    )  # fmt: skip


def dot(look: Look, scale: Scale, value: float, tooltip: Tooltip) -> Markup:
    return point([shape(look, _percent(scale, value), MIDDLE)], tooltip)


def spread(look: Look, scale: Scale, values: tuple[float, float, float], tooltip: Tooltip) -> Markup:
    """Draw a line from the smallest value to the largest, with a mark at the middle one."""
    low, middle, high = (_percent(scale, value) for value in values)
    line = tag("line", class_="range", x1=low, x2=high, y1=MIDDLE, y2=MIDDLE)
    return point([line, shape(look, middle, MIDDLE)], tooltip)


def _strip(row: Strip, grid: Markup) -> Markup:
    name, number = tag("span", row.name, class_="name"), tag("span", row.number, class_="number")
    return tag("div", name, tag("svg", grid, row.marks, height=HEIGHT), number, class_="strip", **data(row.keys))


def _percent(scale: Scale, value: float) -> str:
    return f"{100 * scale.share(value):.2f}%"
