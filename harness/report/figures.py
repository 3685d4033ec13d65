"""The figures of the README: SVG files that are drawn from records alone.

A figure has a background of its own and follows the color scheme of the reader, so it is legible on every page.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from deltamark.harness.benchmarks.benchmark import DEFAULT
from deltamark.harness.benchmarks.cell import CROSSOVER
from deltamark.harness.console.table import Table, brief, counted
from deltamark.harness.engines.peers import PEERS, peer
from deltamark.harness.engines.registry import DEFAULT_SWEEP
from deltamark.harness.report.chart import Area, Axes, Axis, Frame, Log, Row, drawn, grid, look
from deltamark.harness.report.document import Markup, joined, tag
from deltamark.harness.report.site import BUILT_IN_FACTS
from deltamark.harness.results.record import Record, dataset_name, latest, of_queries, of_suites
from deltamark.harness.tables.relation import why
from deltamark.harness.tables.suites import GRADES
from deltamark.harness.tables.tpch import tables

STYLE = """
svg { font: 13px system-ui, sans-serif; }
text { fill: #1f2328; } .quiet, .tick { fill: #59636e; } .page { fill: #ffffff; }
.title { font-size: 17px; font-weight: 600; } .name { font-weight: 600; }
.middle { text-anchor: middle; } .end { text-anchor: end; }
.value { stroke: #ffffff; stroke-width: 3; paint-order: stroke; }
.grid { stroke: #d1d9e0; } .gap { stroke: #59636e; stroke-dasharray: 3 4; }
.line { fill: none; stroke-width: 2.5; } .band { opacity: 0.16; }
.look0 .line { stroke: #0969da; } .look0 :not(.line) { fill: #0969da; }
.look1 .line { stroke: #bc4c00; } .look1 :not(.line) { fill: #bc4c00; }
.look2 .line { stroke: #cf222e; } .quiet .line { stroke: #59636e; }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc; } .quiet, .tick { fill: #9198a1; } .page { fill: #0d1117; }
  .value { stroke: #0d1117; }
  .grid { stroke: #3d444d; } .gap { stroke: #9198a1; }
  .look0 .line { stroke: #58a6ff; } .look0 :not(.line) { fill: #58a6ff; }
  .look1 .line { stroke: #f0883e; } .look1 :not(.line) { fill: #f0883e; }
  .look2 .line { stroke: #f85149; } .quiet .line { stroke: #9198a1; }
}
"""
"""Contrast of text with its background is at least 4.5 in both schemes."""


WIDTH, LEFT = 760, 20
"""The width of a figure and of its margins, in pixels."""


@dataclass(frozen=True)
class Words:
    """The texts of a figure. description: the numbers, for readers who do not see it."""

    title: str
    subtitle: str
    description: str


def _figure(words: Words, height: int, parts: Iterable[Markup]) -> str:
    content = [
        tag("title", words.title), tag("desc", words.description), tag("style", Markup(STYLE)),
        tag("rect", class_="page", width=WIDTH, height=height, rx=8),
        tag("text", words.title, class_="title", x=LEFT, y=34),
        tag("text", words.subtitle, class_="quiet", x=LEFT, y=58), *parts,
    ]  # fmt: skip
    figure = tag("svg", content, xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH} {height}", role="img")
    return f"{figure}\n".replace("><", ">\n<")


# Maintaining and recomputing by batch size

CROSSOVER_SF = "1"

AREA = Area(WIDTH, 420, 76, 590, 84, 348, (64, 30), 1.25)
"""Right of the axes are the names of the lines."""

LINES = (("deltamark", "maintains the answer", 20.0), ("DuckDB", "runs the query again", -12.0))
"""The names of the lines, and the distances of the values below them, in pixels."""

X_TITLE = "rounds per batch (a round inserts one row of each relation)"


def crossover(records: Sequence[Record]) -> str:
    """Draw the times of maintaining and of recomputing by batch size; nothing if a batch size has no numbers."""
    compared = [each for each in of_queries(records, CROSSOVER_SF) if each.engine in DEFAULT_SWEEP]
    table = next((table for table in tables(compared, CROSSOVER_SF) if table.name == "crossover"), None)
    if table is None or not table.foot:
        return ""
    maintained, recomputed = (_rows_of_line(table, number) for number in range(len(LINES)))
    seconds = [second for row in (*maintained, *recomputed) if row.interval for second in row.interval]
    axes = Axes(
        Axis("", Log.over(seconds), lambda value: brief(value).text),
        Axis(X_TITLE, Log.over(size for size, _ in CROSSOVER), lambda size: f"{size:,.0f}"),
        AREA,
    )  # fmt: skip
    description = "; ".join(
        f"{ours.x:,} rounds: maintained in {brief(ours.value).text}, recomputed in {brief(theirs.value).text}"
        for ours, theirs in zip(maintained, recomputed, strict=True)
    )
    words = Words(
        "Time to update an answer after a batch of insertions",
        f"TPC-H at scale factor {CROSSOVER_SF}, one thread. Lines: geometric mean of {len(table.rows)} queries; "
        "bands: fastest to slowest query.",
        description,
    )
    parts = [
        grid(axes), *_gaps(axes, maintained, recomputed), *drawn([*maintained, *recomputed], axes),
        _words_of_line(axes, maintained, 0), _words_of_line(axes, recomputed, 1),
    ]  # fmt: skip
    return _figure(words, AREA.height, parts)


def _rows_of_line(table: Table, number: int) -> list[Row]:
    """Return the points of a line: the times of every second column."""
    assert table.foot
    return [
        Row(
            Frame(""), look(number), "banded", LINES[number][0], {}, table.foot[at].value, x=size,
            interval=(min(column), max(column)),
        )
        for (size, _), at in zip(CROSSOVER, range(1 + number, len(table.headers), 2), strict=False)
        for column in [[row[at].value for row in table.rows]]
    ]  # fmt: skip


def _gaps(axes: Axes, maintained: Sequence[Row], recomputed: Sequence[Row]) -> Iterator[Markup]:
    """Draw how many times as long recomputing takes."""
    for ours, theirs in zip(maintained, recomputed, strict=True):
        (x, low), (_, high) = axes.at(ours.x, ours.value), axes.at(theirs.x, theirs.value)
        yield tag("line", class_="gap", x1=x, x2=x, y1=low - 8, y2=high + 8)
        factor = theirs.value / ours.value
        text = f"{factor:,.0f}x" if factor >= 10 else f"{factor:.1f}x"
        yield tag("text", text, class_="name end", x=float(x) - 8, y=(low + high) / 2 + 4.5)


def _words_of_line(axes: Axes, rows: Sequence[Row], number: int) -> Markup:
    """Write the values of a line beside its points, and its name at its end."""
    name, action, below = LINES[number]
    places = [axes.at(row.x, row.value) for row in rows]
    values = [
        tag("text", brief(row.value).text, class_="middle value", x=x, y=y + below)
        for row, (x, y) in zip(rows, places, strict=True)
    ]
    x, y = float(places[-1][0]) + 40, places[-1][1]
    named = tag("g", tag("text", name, class_="name", x=x, y=y - 2), class_=f"look{number}")
    return joined([*values, named, tag("text", action, x=x, y=y + 15)])


# Right answers by engine and query

COVERAGE_SF = "0.1"

Outcome = Literal["times", "batches", "end", "insertions", "recomputed", "refused", "wrong", "failed"]


@dataclass(frozen=True)
class Mark:
    """The mark of an outcome, drawn around the origin in a color of the style. text: the words of the legend."""

    text: str
    color: str
    shape: Markup
    is_right: bool = False


def _line(path: str) -> Markup:
    return tag("path", class_="line", d=path)


RING = tag("circle", class_="line", r=4.75)

MARKS: Mapping[Outcome, Mark] = {
    "times": Mark("right at every logical time", "look0", tag("circle", r=6), is_right=True),
    "batches": Mark("right at the end of every batch", "look0", RING, is_right=True),
    "end": Mark("right only at the end of the stream", "look0", tag("circle", r=2.5), is_right=True),
    "insertions": Mark(
        "right under insertions only", "look0", joined([RING, tag("path", d="M-5 0A5 5 0 0 0 5 0Z")]), is_right=True
    ),
    "recomputed": Mark("right, recomputed", "look1", _line("M0 -5L5 0L0 5L-5 0Z"), is_right=True),
    "refused": Mark("refused", "quiet", _line("M-3 0H3")),
    "wrong": Mark("WRONG", "look2", _line("M-5 -5L5 5M5 -5L-5 5")),
    "failed": Mark("over the limit of time, or failed", "quiet", tag("path", d="M-4.5 -5.5H4.5L-4.5 5.5H4.5Z")),
}  # fmt: skip
"""The marks of all outcomes, from the best to the worst."""

ALWAYS_RIGHT: frozenset[Outcome] = frozenset({"times", "batches", "recomputed"})
"""The outcomes of engines that are right at the end of every batch of all workloads."""


@dataclass(frozen=True)
class EngineOutcomes:
    """The outcomes of an engine by query. how: whether its answers are maintained or recomputed; empty without one."""

    name: str
    how: str
    outcomes: Mapping[str, Outcome]

    @property
    def right(self) -> int:
        return sum(MARKS[each].is_right for each in self.outcomes.values())

    @property
    def place(self) -> tuple[object, ...]:
        """The place among all engines: those that maintain come first, and of these the best ones."""
        counts = Counter(self.outcomes.values())
        return HOW.index(self.how), *(-counts[outcome] for outcome in MARKS), self.name.lower()

    @property
    def description(self) -> str:
        counts = Counter(self.outcomes.values())
        words = ", ".join(f"{counts[each]} {mark.text}" for each, mark in MARKS.items() if counts[each])
        return f"{self.name}{f' ({self.how})' if self.how else ''}: {words}"


HOW = ("maintained", "recomputed", "")


def engines(records: Sequence[Record]) -> str:
    """Draw the outcome of each query in each engine of the suite of coverage; nothing without its records."""
    data = dataset_name(DEFAULT, COVERAGE_SF)
    by_engine: dict[str, dict[str, Record]] = defaultdict(dict)
    for record in latest(of_suites(records)):
        if (record.suite, record.dataset) == ("coverage", data):
            query, _, engine = record.row.partition(" ")
            by_engine[engine][query] = record
    rows = sorted((_outcomes(*each) for each in by_engine.items()), key=lambda row: row.place)
    return _matrix(rows, sorted({query for row in rows for query in row.outcomes})) if rows else ""


def _outcomes(engine: str, graded: Mapping[str, Record]) -> EngineOutcomes:
    again = [each.least("recomputed") > 0 for each in graded.values() if each.figures]
    how = "" if not again else "recomputed" if all(again) else "maintained"
    return EngineOutcomes(_title(engine), how, {query: _outcome(each) for query, each in graded.items()})


def _title(name: str) -> str:
    """Return the name of an engine in words, without versions."""
    if name in BUILT_IN_FACTS:
        return BUILT_IN_FACTS[name].title
    return re.sub(r" \(.*?\)| [\d.]+", "", peer(name).manifest.name) if name in PEERS else name


def _outcome(record: Record) -> Outcome:
    if reason := why(record):
        return "wrong" if reason == "WRONG" else "failed"
    if not record.figures:
        return "refused"
    grade = GRADES[int(record.least("grade"))]
    if grade == "wrong":
        return grade
    if "only_insertions" in record.figures:
        return "insertions"
    return "recomputed" if record.least("recomputed") else grade


TOP = 94
"""The position of the numbers of queries, in pixels."""
FIRST, COLUMN, LINE = 178, 21, 19
"""The position of the first query, and the size of a cell, in pixels."""
SPACE = 11
"""The height above and below the line between groups of engines, in pixels."""
LETTER = 7
"""The width of a letter of the legend, in pixels."""


def _matrix(rows: Sequence[EngineOutcomes], queries: Sequence[str]) -> str:
    used = [outcome for outcome in MARKS if any(outcome in row.outcomes.values() for row in rows)]
    places = {query: FIRST + COLUMN * at for at, query in enumerate(queries)}
    right = FIRST + COLUMN * len(queries) + 16
    parts = [
        tag("defs", [tag("g", MARKS[each].shape, id=each, class_=MARKS[each].color) for each in used]),
        tag("text", "query", class_="tick", x=LEFT, y=TOP), tag("text", "right", class_="tick", x=right - 18, y=TOP),
        *(tag("text", query.lstrip("q0"), class_="tick middle", x=x, y=TOP) for query, x in places.items()),
    ]  # fmt: skip
    y = TOP
    for how, group in groupby(rows, key=lambda row: row.how):
        parts.append(tag("line", class_="grid", x1=LEFT, x2=WIDTH - LEFT, y1=y + SPACE, y2=y + SPACE))
        y += SPACE + 4
        parts.append(tag("text", how, class_="quiet end", x=WIDTH - LEFT, y=y + LINE - 5))
        for row in group:
            y += LINE
            parts.append(_marks(row, places, right, y - LINE / 2))
    legend, bottom = _legend(used, y + 2 * SPACE)
    whole = sum(len(row.outcomes) == len(queries) and {*row.outcomes.values()} <= ALWAYS_RIGHT for row in rows)
    words = Words(
        f"Right answers of {counted(len(rows), 'engine')} to {counted(len(queries), 'query')} of TPC-H",
        f"Scale factor {COVERAGE_SF}: insertions, a sliding window, refreshes. Every answer is compared with DuckDB's.",
        f"{whole} of {counted(len(rows), 'engine')} answer all {counted(len(queries), 'query')} of TPC-H right. "
        f"{'; '.join(row.description for row in rows)}.",
    )
    return _figure(words, bottom + LEFT, [*parts, *legend])


def _marks(row: EngineOutcomes, places: Mapping[str, int], right: int, y: float) -> Markup:
    marks = [tag("use", href=f"#{outcome}", x=places[query], y=y) for query, outcome in row.outcomes.items()]
    name = tag("text", row.name, x=LEFT, y=y + 4.5)
    return joined([name, *marks, tag("text", str(row.right), class_="name end", x=right, y=y + 4.5)])


def _legend(outcomes: Sequence[Outcome], y: int) -> tuple[list[Markup], int]:
    """Draw the meaning of marks in lines; return the position of the last line, too."""
    x, entries = LEFT, []
    for outcome in outcomes:
        text = MARKS[outcome].text
        width = 42 + LETTER * len(text)
        if x + width > WIDTH:
            x, y = LEFT, y + LINE
        entries += [tag("use", href=f"#{outcome}", x=x + 6, y=y), tag("text", text, x=x + 18, y=y + 4.5)]
        x += width
    return entries, y


FIGURES: Mapping[str, Callable[[Sequence[Record]], str]] = {"maintain-or-recompute": crossover, "engines": engines}
"""The figures by the names of their files."""
