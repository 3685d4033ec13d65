"""The README's figure as SVG: the time of a batch when answers are maintained, and when they are recomputed.

The figure has a background of its own and follows the color scheme of the reader, so it is legible on every page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deltamark.harness.benchmarks.cell import CROSSOVER
from deltamark.harness.console.table import Table, brief
from deltamark.harness.report.marks import Log, Markup, joined, tag

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 76, 590, 84, 348
FIRST, LAST = LEFT + 64, RIGHT - 30
"""The positions of the axes, and of the first and the last batch size, in pixels. Right of them are the labels."""

STYLE = """
svg { font: 13px system-ui, sans-serif; }
text { fill: #1f2328; } .quiet { fill: #59636e; } .page { fill: #ffffff; }
.title { font-size: 17px; font-weight: 600; } .name { font-weight: 600; }
.grid { stroke: #d1d9e0; } .gap { stroke: #59636e; stroke-dasharray: 3 4; }
.line { fill: none; stroke-width: 2.5; } .band { opacity: 0.16; }
.maintained .line { stroke: #0969da; } .maintained .band, .maintained .mark, .maintained .name { fill: #0969da; }
.recomputed .line { stroke: #bc4c00; } .recomputed .band, .recomputed .mark, .recomputed .name { fill: #bc4c00; }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc; } .quiet { fill: #9198a1; } .page { fill: #0d1117; }
  .grid { stroke: #3d444d; } .gap { stroke: #9198a1; }
  .maintained .line { stroke: #58a6ff; } .maintained .band, .maintained .mark, .maintained .name { fill: #58a6ff; }
  .recomputed .line { stroke: #f0883e; } .recomputed .band, .recomputed .mark, .recomputed .name { fill: #f0883e; }
}
"""
"""Contrast of text with its background is at least 4.5 in both schemes."""

Position = tuple[float, float]


@dataclass(frozen=True)
class BatchTimes:
    """The seconds of a batch of one size: the geometric mean, and those of the fastest and the slowest query."""

    size: int
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Curve:
    name: str
    """The class of the curve in the style sheet."""
    label: tuple[str, str]
    times: Sequence[BatchTimes]
    value_offset: float
    """The distance of the values below the curve, in pixels."""


@dataclass(frozen=True)
class FigureAxes:
    x: Log
    y: Log

    def at(self, size: float, seconds: float) -> Position:
        return FIRST + (LAST - FIRST) * self.x.share(size), BOTTOM - (BOTTOM - TOP) * self.y.share(seconds)


def crossover_figure(table: Table, sf: str) -> str:
    """Draw the table `crossover` of several queries, which must have numbers at all batch sizes."""
    curves = (
        Curve("maintained", ("deltamark", "maintains the answer"), _times(table, 1), 20.0),
        Curve("recomputed", ("DuckDB", "runs the query again"), _times(table, 2), -12.0),
    )
    axes = FigureAxes(
        Log.over(size for size, _ in CROSSOVER),
        Log.over(second for curve in curves for times in curve.times for second in (times.low, times.high)),
    )
    title = "Time to update an answer after a batch of insertions"
    text = (
        f"TPC-H at scale factor {sf}, one thread. Lines: geometric mean of {len(table.rows)} queries; "
        "bands: fastest to slowest query."
    )
    parts = [
        tag("title", title), tag("desc", _description(*curves)), tag("style", Markup(STYLE)),
        tag("rect", class_="page", width=WIDTH, height=HEIGHT, rx=8),
        tag("text", title, class_="title", x=20, y=34), tag("text", text, class_="quiet", x=20, y=58),
        *_grid(axes), *_gaps(axes, *curves), *(_curve(axes, curve) for curve in curves),
    ]  # fmt: skip
    figure = tag("svg", joined(parts), xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img")
    return f"{figure}\n".replace("><", ">\n<")


def _times(table: Table, first: int) -> list[BatchTimes]:
    """Read the times of every second column, beginning with `first`."""
    assert table.foot
    return [
        BatchTimes(size, table.foot[at].value, min(column), max(column))
        for (size, _), at in zip(CROSSOVER, range(first, len(table.headers), 2), strict=False)
        for column in [[row[at].value for row in table.rows]]
    ]


def _description(maintained: Curve, recomputed: Curve) -> str:
    pairs = zip(maintained.times, recomputed.times, strict=True)
    return "; ".join(
        f"{ours.size:,} rounds: maintained in {_brief(ours.mean)}, recomputed in {_brief(theirs.mean)}"
        for ours, theirs in pairs
    )


def _grid(axes: FigureAxes) -> Iterator[Markup]:
    for value in axes.y.ticks:
        _, y = axes.at(axes.x.ticks[0], value)
        yield tag("line", class_="grid", x1=LEFT, x2=RIGHT, y1=y, y2=y)
        yield tag("text", _brief(value), class_="quiet", x=LEFT - 10, y=y + 4.5, text_anchor="end")
    for value in axes.x.ticks:
        x, _ = axes.at(value, axes.y.ticks[0])
        yield tag("text", f"{value:,.0f}", class_="quiet", x=x, y=BOTTOM + 20, text_anchor="middle")
    text = "rounds per batch (a round inserts one row of each relation)"
    yield tag("text", text, class_="quiet", x=(FIRST + LAST) / 2, y=BOTTOM + 46, text_anchor="middle")


def _gaps(axes: FigureAxes, maintained: Curve, recomputed: Curve) -> Iterator[Markup]:
    """Draw how many times as long recomputing takes."""
    for ours, theirs in zip(maintained.times, recomputed.times, strict=True):
        (x, low), (_, high) = axes.at(ours.size, ours.mean), axes.at(theirs.size, theirs.mean)
        yield tag("line", class_="gap", x1=x, x2=x, y1=low - 8, y2=high + 8)
        text = _factor_text(theirs.mean / ours.mean)
        yield tag("text", text, class_="name", x=x - 8, y=(low + high) / 2 + 4.5, text_anchor="end")


def _curve(axes: FigureAxes, curve: Curve) -> Markup:
    positions = [axes.at(times.size, times.mean) for times in curve.times]
    edge = [axes.at(times.size, times.low) for times in curve.times]
    edge += [axes.at(times.size, times.high) for times in reversed(curve.times)]
    x, y = positions[-1]
    name, action = curve.label
    return tag(
        "g",
        tag("path", class_="band", d=f"{_path(edge)}Z"), tag("path", class_="line", d=_path(positions)),
        [tag("circle", class_="mark", cx=x, cy=y, r=4) for x, y in positions],
        [
            tag("text", _brief(times.mean), x=x, y=y + curve.value_offset, text_anchor="middle")
            for (x, y), times in zip(positions, curve.times, strict=True)
        ],
        tag("text", name, class_="name", x=x + 40, y=y - 2), tag("text", action, x=x + 40, y=y + 15),
        class_=curve.name,
    )  # fmt: skip


def _path(positions: Sequence[Position]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in positions)


def _factor_text(factor: float) -> str:
    return f"{factor:,.0f}x" if factor >= 10 else f"{factor:.1f}x"


def _brief(seconds: float) -> str:
    return brief(seconds).text.replace("us", "\u00b5s")
