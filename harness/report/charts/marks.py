"""What is drawn in charts: marks that tell what they are. A look is a color and a shape, of an engine mostly; a kind
tells apart what it does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from deltamark.harness.report.about import About
from deltamark.harness.report.charts.markup import Attribute, Child, Markup, tag
from deltamark.harness.results.record import QueryRecord

Kind = Literal["solid", "hollow", "dotted"]
Keys = Mapping[str, str]
"""What filters go by: query, engine, workload."""

SIZE = 3.5


def keys_of(record: QueryRecord) -> dict[str, str]:
    return {"query": record.query, "engine": record.engine, "workload": record.workload}


def data(keys: Keys) -> dict[str, Attribute]:
    return {f"data_{name}": value for name, value in keys.items()}


def _polygon(*corners: tuple[float, float]) -> str:
    return "M" + "L".join(f"{x * SIZE:.2f} {y * SIZE:.2f}" for x, y in corners) + "Z"


OUTLINES = (
    "",
    _polygon((-1, -1), (1, -1), (1, 1), (-1, 1)),
    _polygon((0, -1.3), (1.2, 0.9), (-1.2, 0.9)),
    _polygon((0, -1.4), (1.4, 0), (0, 1.4), (-1.4, 0)),
)
LOOKS = len(OUTLINES)


@dataclass(frozen=True)
class Look:
    color: int
    outline: int


def look(number: int) -> Look:
    """Return a color with its own outline."""
    return Look(number % LOOKS, number % LOOKS)


def shape(of: Look, x: str | float, y: float) -> Markup:
    """Draw a mark at a place, which may be a share of the width (`12%`)."""
    if of.outline == 0:
        return tag("circle", cx=x, cy=y, r=SIZE + 0.3)
    return tag("svg", tag("path", d=OUTLINES[of.outline]), x=x, y=y, width=1, height=1, overflow="visible")


def point(drawn: Iterable[Markup], told: About) -> Markup:
    """Make something drawn tell what it is."""
    lines = "\n".join(told.lines)
    return tag("g", drawn, class_="point", data_title=told.title, data_lines=lines, data_command=told.command)


def series(of: Look, kind: Kind, keys: Keys, drawn: Child) -> Markup:
    """Put together what filters show and hide."""
    return tag("g", drawn, class_=f"series look{of.color} {kind}", **data(keys))


@dataclass(frozen=True)
class Explained:
    look: Look
    kind: Kind
    text: str


def legend(entries: Iterable[Explained]) -> Markup:
    return tag("ul", (_explained(entry) for entry in entries), class_="legend")


def _explained(entry: Explained) -> Markup:
    line = tag("line", class_="line", x1=1, x2=27, y1=8, y2=8)
    drawn = series(entry.look, entry.kind, {}, [line, shape(entry.look, 14, 8)])
    return tag("li", tag("svg", drawn, width=28, height=16, aria_hidden="true"), entry.text)
