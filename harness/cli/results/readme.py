"""The command that writes the published page of results."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from deltamark.errors import DeltamarkError, naming
from deltamark.harness.benchmarks.cell import CROSSOVER
from deltamark.harness.cli.commands import command
from deltamark.harness.cli.results.tables import add_machine, directory
from deltamark.harness.cli.sweep_options import add_results
from deltamark.harness.console.console import say
from deltamark.harness.console.table import Table, brief, markdown
from deltamark.harness.engines.registry import DEFAULT_SWEEP
from deltamark.harness.report.chart import Area, Axes, Axis, Frame, Log, Row, drawn, grid, look
from deltamark.harness.report.document import Markup, joined, tag
from deltamark.harness.report.page import UNFOLDED
from deltamark.harness.results import store
from deltamark.harness.results.record import Record, latest, of_queries
from deltamark.harness.suites.reporter import session_header
from deltamark.harness.system import machine
from deltamark.harness.system.machine import Header
from deltamark.harness.tables.tpch import tables

ROOT = machine.ROOT
PAGE, REFERENCE = ROOT / "docs" / "results.md", ROOT / "results" / "reference"
FIGURE = ROOT / "docs" / "figures" / "maintain-or-recompute.svg"
FIGURE_SF = "1"
BEGIN, END = "<!-- tables: made by make readme -->\n", "<!-- end of tables -->\n"

Headers = Mapping[str, Header]


def options(parser: argparse.ArgumentParser) -> None:
    add_results(parser)
    add_machine(parser)
    parser.set_defaults(results=REFERENCE.parent, machine=REFERENCE.name)


@command("readme", options)
def run(args: argparse.Namespace) -> int:
    """Write tables of the reference records into docs/results.md, and draw the README's figure from them.

    The records lie in results/reference; the table of engines and those of the post of 2017 go between the markers of
    the page. `make site` writes all tables.

    `make readme RESULTS=... MACHINE=...` first puts the last records of that directory of results in place of those of
    the same cells.
    """
    measured = directory(args).resolve()
    if measured != REFERENCE:
        _replace(REFERENCE, measured)
    _write(PAGE, with_tables(PAGE.read_text(encoding="utf-8"), section(REFERENCE)))
    if svg := figure(REFERENCE):
        _write(FIGURE, svg)
    return 0


def _write(path: Path, content: str) -> None:
    with naming(path):
        path.write_text(content, encoding="utf-8")
    say(f"written from the reference records: {path}")


def _replace(reference: Path, measured: Path) -> None:
    """Put the last records of a directory of results in place of those of the same cells, with their sessions."""
    new = latest(store.read(measured).records)
    cells = {record.cell for record in new}
    kept = [*(record for record in store.read(reference).records if record.cell not in cells), *new]
    headers = store.sessions(reference) | store.sessions(measured)
    for name in (store.RECORDS, store.SESSIONS):
        (reference / name).unlink(missing_ok=True)
    with store.writing(reference) as writer:
        writer.add(kept)
        for session in _sessions(kept):
            writer.add_session(_without_paths(_header(headers, session)))


def _header(headers: Headers, session: str) -> Header:
    if session not in headers:
        remedy = f"restore {store.SESSIONS} beside the records, or measure again"
        raise DeltamarkError("no header of the session of a record", session, remedy)
    return headers[session]


def _without_paths(header: Header) -> Header:
    """Remove the directories of data and results from a session's command, which do not matter to its numbers."""
    words = shlex.split(header["argv"])
    values = {at + 1 for at, word in enumerate(words) if word in ("--data", "--results")}
    kept = [
        word
        for at, word in enumerate(words)
        if at not in values and not re.match(r"(--data|--results|DATA|RESULTS)(=|$)", word)
    ]
    return {**header, "argv": shlex.join(kept)}


def _sessions(of_records: Iterable[Record]) -> list[str]:
    return list(dict.fromkeys(record.session for record in of_records))


def section(reference: Path) -> str:
    """Return the text between the markers."""
    stored = of_queries(store.read(reference).records)
    headers = store.sessions(reference)
    parts: list[str] = []
    for sf in sorted({record.sf for record in stored}):
        shown = [table for table in tables(of_queries(stored, sf), sf) if table.name in UNFOLDED]
        parts += [f"Scale factor {sf}:\n", *map(markdown, shown)]
    parts += [f"{session_header(_header(headers, session))}\n" for session in _sessions(stored)]
    return "\n".join(parts)


def figure(reference: Path) -> str:
    """Draw the README's figure; return nothing if the records do not have its numbers."""
    compared = [each for each in store.read(reference).records if each.engine in DEFAULT_SWEEP]
    named = {table.name: table for table in tables(of_queries(compared, FIGURE_SF), FIGURE_SF)}
    table = named.get("crossover")
    return crossover_figure(table, FIGURE_SF) if table and table.foot else ""


def with_tables(page: str, tables_text: str) -> str:
    """Replace the text between the markers."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise DeltamarkError("no place for tables", f"{PAGE}: {BEGIN.strip()} ... {END.strip()}", "restore it")
    return f"{before}{begin}\n{tables_text}\n{end}{after}"


AREA = Area(760, 420, 76, 590, 84, 348, (64, 30), 1.25)
"""Right of the axes are the names of the lines."""

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
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc; } .quiet, .tick { fill: #9198a1; } .page { fill: #0d1117; }
  .value { stroke: #0d1117; }
  .grid { stroke: #3d444d; } .gap { stroke: #9198a1; }
  .look0 .line { stroke: #58a6ff; } .look0 :not(.line) { fill: #58a6ff; }
  .look1 .line { stroke: #f0883e; } .look1 :not(.line) { fill: #f0883e; }
}
"""
"""Contrast of text with its background is at least 4.5 in both schemes."""

LINES = (("deltamark", "maintains the answer", 20.0), ("DuckDB", "runs the query again", -12.0))
"""The names of the lines, and the distances of the values below them, in pixels."""

X_TITLE = "rounds per batch (a round inserts one row of each relation)"


def crossover_figure(table: Table, sf: str) -> str:
    """Draw the table `crossover` of several queries, which must have numbers at all batch sizes.

    The figure has a background of its own and follows the color scheme of the reader, so it is legible on every page.
    """
    maintained, recomputed = (_rows_of_line(table, number) for number in range(len(LINES)))
    seconds = [second for row in (*maintained, *recomputed) if row.interval for second in row.interval]
    axes = Axes(
        Axis("", Log.over(seconds), lambda value: brief(value).text),
        Axis(X_TITLE, Log.over(size for size, _ in CROSSOVER), lambda size: f"{size:,.0f}"),
        AREA,
    )  # fmt: skip
    title = "Time to update an answer after a batch of insertions"
    text = (
        f"TPC-H at scale factor {sf}, one thread. Lines: geometric mean of {len(table.rows)} queries; "
        "bands: fastest to slowest query."
    )
    description = "; ".join(
        f"{ours.x:,} rounds: maintained in {brief(ours.value).text}, recomputed in {brief(theirs.value).text}"
        for ours, theirs in zip(maintained, recomputed, strict=True)
    )
    parts = [
        tag("title", title), tag("desc", description), tag("style", Markup(STYLE)),
        tag("rect", class_="page", width=AREA.width, height=AREA.height, rx=8),
        tag("text", title, class_="title", x=20, y=34), tag("text", text, class_="quiet", x=20, y=58),
        grid(axes), *_gaps(axes, maintained, recomputed), *drawn([*maintained, *recomputed], axes),
        _words_of_line(axes, maintained, 0), _words_of_line(axes, recomputed, 1),
    ]  # fmt: skip
    size = f"0 0 {AREA.width} {AREA.height}"
    figure = tag("svg", joined(parts), xmlns="http://www.w3.org/2000/svg", viewBox=size, role="img")
    return f"{figure}\n".replace("><", ">\n<")


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
