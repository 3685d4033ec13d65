"""Vertical marks of a panel at positions of its x axis, with labels that do not overlap."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from deltamark.harness.report.charts.marks import point
from deltamark.harness.report.charts.markup import Markup, tag
from deltamark.harness.report.charts.panel import BOTTOM, CHARACTER, LEFT, RIGHT, TOP, Axes
from deltamark.harness.report.tooltip import Tooltip

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
