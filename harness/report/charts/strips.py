"""A list of strips: one line a query, all over one axis. Positions are shares of the width, so that letters and marks
keep their size on a screen of any.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from deltamark.harness.report.about import About
from deltamark.harness.report.charts.marks import Keys, Look, data, point, shape
from deltamark.harness.report.charts.markup import Markup, tag
from deltamark.harness.report.charts.scale import Scale, Write

HEIGHT, MIDDLE = 24, 12


@dataclass(frozen=True)
class Strip:
    name: str
    drawn: Iterable[Markup]
    said: str
    """Its number, in words."""
    keys: Keys


def strips(scale: Scale, write: Write, rows: Iterable[Strip], *, label: str) -> Markup:
    places = [(value, _percent(scale, value)) for value in scale.ticks]
    written = [tag("text", write(value), class_="tick middle", x=x, y=13) for value, x in places]
    axis = tag("div", tag("span"), tag("svg", written, height=18), tag("span"), class_="strip axis", aria_hidden="true")
    grid = tag("g", [tag("line", class_="grid", x1=x, x2=x, y1=0, y2="100%") for _, x in places], aria_hidden="true")
    return tag(
        "div", axis, [_strip(row, grid) for row in rows], class_="strips", tabindex=0, role="group", data_chart=True,
        aria_label=f"{label}; arrow keys go from point to point",
    )  # fmt: skip


def dot(look: Look, scale: Scale, value: float, told: About) -> Markup:
    return point([shape(look, _percent(scale, value), MIDDLE)], told)


def spread(look: Look, scale: Scale, values: tuple[float, float, float], told: About) -> Markup:
    """Draw a line from the least value to the greatest, with a mark on the middle one."""
    low, middle, high = (_percent(scale, value) for value in values)
    line = tag("line", class_="range", x1=low, x2=high, y1=MIDDLE, y2=MIDDLE)
    return point([line, shape(look, middle, MIDDLE)], told)


def _strip(row: Strip, grid: Markup) -> Markup:
    name, said = tag("span", row.name, class_="name"), tag("span", row.said, class_="said")
    return tag("div", name, tag("svg", grid, row.drawn, height=HEIGHT), said, class_="strip", **data(row.keys))


def _percent(scale: Scale, value: float) -> str:
    return f"{100 * scale.share(value):.2f}%"
