"""The marks of charts, their tooltips, and legends.

A look is a color and an outline, mostly of an engine. The kind of a line distinguishes batchings and workloads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from deltamark.harness.report.charts.markup import Attribute, Markup, MarkupChild, tag
from deltamark.harness.report.tooltip import Tooltip
from deltamark.harness.results.record import Record

LineKind = Literal["solid", "hollow", "dotted"]
Keys = Mapping[str, str]
"""The values of the filters: query, engine, workload."""

SIZE = 3.5
"""Half the width of a mark, in pixels."""


def keys_of(record: Record) -> dict[str, str]:
    return {"query": record.query, "engine": record.engine, "workload": record.workload}


def choices(records: Iterable[Record], engines: Sequence[str]) -> dict[str, Sequence[str]]:
    """Return the values of the filters that some record has."""
    records = list(records)
    return {
        "query": sorted({record.query for record in records}), "engine": engines,
        "workload": sorted({record.workload for record in records}),
    }  # fmt: skip


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


def shape(look: Look, x: str | float, y: float) -> Markup:
    """Draw a mark at a position; x may be a share of the width (`12%`)."""
    if look.outline == 0:
        return tag("circle", cx=x, cy=y, r=SIZE + 0.3)
    return tag("svg", tag("path", d=OUTLINES[look.outline]), x=x, y=y, width=1, height=1, overflow="visible")


def point(marks: Iterable[Markup], tooltip: Tooltip) -> Markup:
    """Give marks a tooltip."""
    lines = "\n".join(tooltip.lines)
    return tag("g", marks, class_="point", data_title=tooltip.title, data_lines=lines, data_command=tooltip.command)


def series(look: Look, kind: LineKind, keys: Keys, marks: MarkupChild) -> Markup:
    """Group marks that filters show and hide together."""
    return tag("g", marks, class_=f"series look{look.color} {kind}", **data(keys))


@dataclass(frozen=True)
class LegendEntry:
    """A line and a mark with their meaning."""

    look: Look
    kind: LineKind
    text: str


def legend(entries: Iterable[LegendEntry]) -> Markup:
    return tag("ul", (_entry(entry) for entry in entries), class_="legend")


def _entry(entry: LegendEntry) -> Markup:
    line = tag("line", class_="line", x1=1, x2=27, y1=8, y2=8)
    sample = series(entry.look, entry.kind, {}, [line, shape(entry.look, 14, 8)])
    return tag("li", tag("svg", sample, width=28, height=16, aria_hidden="true"), entry.text)
