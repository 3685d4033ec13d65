"""The page of the field: all engines, first whether their answers are right, then their rates, latency and memory.

`first_page` is one HTML file, which the script `site.js` draws again for other choices of machine, benchmark, workload,
workers, batch and query. The texts and shares of all numbers are those of tables/field.py, so that neither this module
nor the script computes a number. Without scripts the page shows its first choice. Each number links to its record in a
report, which has the command that measures it again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from deltamark.harness.console.table import Table, count, counted, listed, words
from deltamark.harness.engines.base import Capabilities
from deltamark.harness.engines.duckdb import DuckDBEngine
from deltamark.harness.engines.peers import FOLDER, PEERS, peer
from deltamark.harness.engines.registry import BUILT_IN, DEFAULT
from deltamark.harness.engines.spark import SparkEngine
from deltamark.harness.engines.spark_sql import SparkSqlEngine
from deltamark.harness.report.chart import Axes, Axis, Frame, Log, Row, Tooltip, chart, legend, look, short
from deltamark.harness.report.document import Markup, Section, document, grid, joined, lists, script, tag
from deltamark.harness.system.machine import ROOT
from deltamark.harness.tables.field import ALL_QUERIES, METRICS, Answers, Cell, CommitPoint, Field, Scope
from deltamark.harness.tables.relation import recorded_capabilities


@dataclass(frozen=True)
class Known:
    """The facts about a built-in engine that no record has. package: that whose version records have."""

    title: str
    package: str
    language: str
    licence: str
    folder: str


BUILT_IN_FACTS = {
    DEFAULT: Known("deltamark", "deltamark", "Python", "Apache-2.0", "dataflow"),
    DuckDBEngine.name: Known("DuckDB", "duckdb", "C++", "MIT", "harness/engines/duckdb.py"),
    SparkEngine.name: Known("deltamark on Spark", "pyspark", "Python", "Apache-2.0", "dataflow/spark"),
    SparkSqlEngine.name: Known("Spark SQL", "pyspark", "Scala", "Apache-2.0", "harness/engines/spark_sql.py"),
}


@dataclass(frozen=True)
class EngineRow:
    """An engine as a row of the first table."""

    name: str
    version: str
    language: str
    licence: str
    recomputes: bool
    """Whether the engine runs each query again, as it declares or as its certificates say."""
    folder: str
    clock: str
    """The text of its page about the clock; empty if there is none."""
    faults: Sequence[str] = ()
    """The reasons of the answers that its manifest knows to be wrong."""
    refuses: int = 0
    """The number of queries that its manifest expects it to refuse."""
    deletions: bool = True


def engine_rows(field: Field) -> list[EngineRow]:
    """Return the engines of the records, and all peers."""
    names = dict.fromkeys([*field.engines, *field.answers, *PEERS])
    return [_engine_row(field, name) for name in names]


def _engine_row(field: Field, name: str) -> EngineRow:
    record = field.engines.get(name)
    if name in PEERS:
        of = peer(name).manifest
        version = record.external.name if record and record.external else of.name
        return EngineRow(
            name, version, of.language, of.licence, not of.maintains, f"peers/{name}/README.md",
            _clock(FOLDER / name / "README.md"), list(dict.fromkeys(of.wrong.values())), len(of.refuses), of.deletions,
        )  # fmt: skip
    known = BUILT_IN_FACTS.get(name)
    if known is None:
        version = record.external.name if record and record.external else name
        able = recorded_capabilities(record) if record else Capabilities(output="batches")
        return EngineRow(name, version, "", "", able.recomputes, "", "")
    able = BUILT_IN[name].capabilities
    version = f"{known.title} {_version(record.versions if record else '', known.package)}".strip()
    return EngineRow(
        name, version, known.language, known.licence, able.recomputes, known.folder,
        _clock_of_method(name),
    )  # fmt: skip


def _version(versions: str, package: str) -> str:
    """Return the version of a package from a list of versions."""
    found = re.search(rf"\b{re.escape(package)} (\S+?)(,|$)", versions)
    return found[1] if found else ""


def _clock(page: Path) -> str:
    """Return what the page of a peer says about its clock: an entry of a list, or a paragraph."""
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    entry = re.search(r"^- \*\*Clock:\*\* (.*?)(?=^- |^$)", text, re.MULTILINE | re.DOTALL)
    paragraph = re.search(r"^(The clock of .*?)(?=^$)", text, re.MULTILINE | re.DOTALL)
    found = entry or paragraph
    return _plain(found[1]) if found else ""


def _clock_of_method(name: str) -> str:
    """Return what the page of the method says about the clock of a built-in engine."""
    page = ROOT / "docs" / "method.md"
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    rows = (line.split("|")[1:3] for line in text.splitlines() if line.startswith("| `"))
    return next((_plain(inside) for classes, inside in rows if f"`{name}`" in classes), "")


def _plain(markdown: str) -> str:
    """Remove the marks of Markdown, and fold the lines."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", markdown).replace("`", "").replace("**", "")
    folded = " ".join(text.split())
    return folded[:1].upper() + folded[1:]


@dataclass(frozen=True)
class Site:
    """The page and what it links to. source: the address of the sources, a relative path or a URL."""

    field: Field
    source: str
    history: str = ""
    """The file of the history of all cells; empty if there is none."""
    manual: str = ""
    """The directory of the manual as a site; empty if there is none."""

    def page(self, path: str) -> str:
        """Return the address of a file: a page of the manual if the site has it, otherwise a file of the sources."""
        if not (self.manual and path.endswith(".md")):
            return f"{self.source}/{path}"
        name = path.removesuffix("README.md") + "index.md" if path.endswith("README.md") else path
        return f"{self.manual}/{name.removesuffix('.md')}.html"


def first_page(site: Site) -> str:
    """Return the page of the field."""
    field = site.field
    scope = field.scopes[0]
    batch = scope.first_batch
    rows = sorted(
        engine_rows(field), key=lambda row: _place(scope.cell(row.name, batch), field.answers.get(row.name), row)
    )
    sections = [
        _engines(site, rows, scope, batch), _queries(rows, scope, batch), _break_even(field), _history(site),
        _clocks(site, rows), _repeat(site), _reports(field),
    ]  # fmt: skip
    data = msgspec.json.encode(_data(field.scopes)).decode().replace("<", "\\u003c")
    return document(
        "deltamark: maintained answers", _header(site, rows), [each for each in sections if each],
        scripts=[tag("script", Markup(data), type="application/json", id="numbers"), script("site.js")],
    )  # fmt: skip


def _place(cell: Cell | None, found: Answers | None, row: EngineRow) -> tuple[float, float, str]:
    """Sort engines by their rates, then those with words in place of a rate, then the others by their answers."""
    share = cell[2][0][1] if cell and cell[2][0] else None
    return (1 if cell else 2) if share is None else -share, -(_rightness(found, row) or 0), row.name


def _rightness(found: Answers | None, row: EngineRow) -> float | None:
    """Return the sort key of the answers of an engine: a wrong one weighs more than all refused ones."""
    if found is None:
        return -1.0 if row.faults else None
    return found.right / found.total - found.wrong


def _data(scopes: Sequence[Scope]) -> dict[str, object]:
    """Return the numbers for the script."""
    found = [
        {
            "machine": scope.part.place, "benchmark": scope.part.data, "workload": scope.workload,
            "workers": str(scope.workers), "report": scope.part.report, "words": _words(scope),
            "batches": [[each.name, each.is_usual, each.rounds] for each in scope.batches], "first": scope.first_batch,
            "queries": scope.queries, "cells": scope.cells,
            "leader": [*scope.leader],
        }
        for scope in scopes
    ]  # fmt: skip
    return {"all": ALL_QUERIES, "metrics": [[each.title, each.unit] for each in METRICS], "scopes": found}


def _words(scope: Scope) -> str:
    return f"{scope.part.data}; workload {scope.workload}; {counted(scope.workers, 'worker')}; {scope.part.place}"


def _header(site: Site, rows: Sequence[EngineRow]) -> Markup:
    """Answer the first questions of a reader."""
    field = site.field
    wrong = [row for row in rows if (of := field.answers.get(row.name)) and of.wrong_after_deletions]
    otherwise = [f"{row.name} ({fault})" for row in rows if (fault := _fault(field.answers.get(row.name), row))]
    refusing = [row.name for row in rows if not row.deletions]
    leader, note = field.scopes[0].leader
    again = [row for row in rows if row.recomputes]
    notes = [f"Otherwise wrong: {listed(otherwise)}." if otherwise else "",
             f"Refuse deletions: {listed(refusing)}." if refusing else ""]  # fmt: skip
    tiles = [
        ("Fastest for small batches", tag("span", leader, id="leader"), tag("span", note, id="leader-note")),
        ("Wrong after deletions", _named(wrong), " ".join(filter(None, notes))),
        ("Only recompute", _named(again), "They run the query again after every batch."),
        ("To repeat a number", "select it", "Its record has the values of all runs, the commit and the command."),
    ]
    return tag(
        "header", tag("h1", "deltamark"),
        tag("p", "Engines that keep the answer of a query right while its data change: first whose answers are right, "
            "then what they cost.", class_="subtitle"),
        tag("p", tag("a", "The manual", href=site.page("README.md")), " and ",
            tag("a", "the rules of measurement", href=site.page("docs/method.md")),
            ". The engine embedded is that of this project.", class_="machine"),
        tag("dl", [
            tag("div", tag("dt", question), tag("dd", answer, tag("small", note))) for question, answer, note in tiles
        ], class_="tiles glance"),
    )  # fmt: skip


def _named(rows: Sequence[EngineRow]) -> Markup | str:
    """List the names of engines, each on one line."""
    names = [tag("span", row.name, "," * (row is not rows[-1]), class_="whole") for row in rows]
    return joined(part for name in names for part in (name, " ")) if names else "none"


def _fault(found: Answers | None, row: EngineRow) -> str:
    """Say which answers of an engine are wrong other than after deletions; empty if none is known to be."""
    if found and found.wrong:
        others = found.wrong - found.wrong_after_deletions
        return f"{others} of {found.total} queries" if others else ""
    return _first(row.faults)


def _first(faults: Sequence[str]) -> str:
    more = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
    return f"{faults[0]}{more}" if faults else ""


# The first table

FIXED = 3
"""The number of columns that do not depend on the choice: the engine, its answers and its certificate."""


def _engines(site: Site, rows: Sequence[EngineRow], scope: Scope, batch: int) -> Section:
    field = site.field
    columns = scope.columns(batch)
    groups = [
        *(tag("th", tag("button", name, type="button"), scope="col", rowspan=2, data_at=at)
          for at, name in enumerate(("Engine", "Right answers", "Certificate"))),
        tag("th", "Tuples per second, by rounds in a batch", scope="colgroup", colspan=len(columns), class_="group"),
        tag("th", f"In batches of {scope.batches[batch].rounds}", scope="colgroup", colspan=len(METRICS) - 1,
            class_="group", id="of-batch"),
    ]  # fmt: skip
    names = [(scope.batches[at].name, "") for at in columns] + [(each.title, each.unit) for each in METRICS[1:]]
    headings = [
        tag("th", tag("button", name, type="button"), tag("small", unit) if unit else "", scope="col", data_at=at)
        for at, (name, unit) in enumerate(names, FIXED)
    ]
    body = [
        tag("tr", _engine(site, row), _answers(field.answers.get(row.name), row), _certificate(field, row),
            _numbers(scope, row.name, columns, batch), data_engine=row.name)
        for row in rows
    ]  # fmt: skip
    table = tag("table", tag("thead", tag("tr", groups), tag("tr", headings)), tag("tbody", body), id="field")
    graded = field.answers.values()
    right = sum(not each.wrong + each.failed + each.refused for each in graded)
    return Section(
        "engines", "Engines",
        f"Of {counted(len(graded), 'graded engine')}, {right} answer every query, and every answer is right.",
        "Answers are compared with DuckDB's over exactly the live rows, with insertions and with deletions. A wrong "
        "answer has no number. A bar is the share of the best in its column, query by query.",
        [
            tag("form", id="choices", class_="choices"),
            tag("p", _words(scope), "; ", ALL_QUERIES, ", geometric means", id="scope"),
            tag("div", table, class_="scroll", tabindex=0, role="region", aria_label="Engines"),
            tag("ul", [tag("li", note) for note in NOTES], class_="notes"),
        ],
    )  # fmt: skip


NOTES = (
    (
        "Right answers: the queries of TPC-H whose answers are right, and the moments at which they are, for the worst "
        "query of the engine. Refused: the engine does not support the query."
    ),
    "Certificate: whether the time of a change grows with the size of the base; without one, the engine declares it.",
    (
        "Round: one step of the stream; with the workload insert, round i adds row i of every relation that has one. "
        "One answer: the rounds of a batch share a logical time, so that an answer in each of them is not due."
    ),
    (
        "CPU time: of the processes of the engine in the clock, if records have it; of embedded, DuckDB and Spark that "
        "of the harness in the clock and of the processes that it starts. ~: the time is not plausible."
    ),
    "Numbers of one directory of records are compared, and of no other machine.",
)


def _engine(site: Site, row: EngineRow) -> Markup:
    name = tag("a", row.name, href=site.page(row.folder), class_="name") if row.folder else row.name
    kind = tag("span", "recomputes" if row.recomputes else "maintains", class_=f"kind {'again' * row.recomputes}")
    facts = " \u00b7 ".join(filter(None, [row.language, row.licence]))
    clock = [" \u00b7 ", tag("a", "clock", href=f"#clock-{row.name}")] if row.clock else []
    return tag("th", tag("div", name, " ", kind), tag("small", row.version), tag("small", facts, clock), scope="row")


def _answers(found: Answers | None, row: EngineRow) -> Markup:
    if found is None:
        return _ungraded(row)
    parts = [("right", found.right), ("wrong", found.wrong), ("failed", found.failed), ("refused", found.refused)]
    bar = [tag("i", class_=name, style=f"--n:{number}") for name, number in parts if number]
    of = f"{found.right} of {found.total}"
    verdict = tag("b", f"WRONG for {found.wrong}", class_="bad") if found.wrong else tag("b", of)
    lines = [
        f"right for {of}" if found.wrong else "", found.grade,
        "under insertions only" if found.only_insertions else "",
        "WRONG after deletions" if found.wrong_after_deletions else "", _refuses(found.refused),
        f"{found.failed} failed" if found.failed else "",
    ]  # fmt: skip
    shown = [verdict, tag("span", bar, class_="parts", aria_hidden="true"), *_lines(lines)]
    return tag("td", shown, data_value=_rightness(found, row), data_label="Right answers")


def _ungraded(row: EngineRow) -> Markup:
    """Show what the manifest of an engine without a grade says."""
    if row.name == DuckDBEngine.name:
        word, lines = "the reference", ["others are compared with it"]
    else:
        word = "WRONG" if row.faults else "not graded"
        lines = [_first(row.faults), "" if row.deletions else "refuses deletions", _refuses(row.refuses)]
        lines.append("as its manifest says" if any(lines) else "no record has its grade")
    shown = [tag("b", word, class_="bad" if row.faults else "none"), *_lines(lines)]
    return tag("td", shown, data_value=_rightness(None, row), data_label="Right answers")


def _lines(texts: Sequence[str]) -> list[Markup]:
    return [tag("small", text) for text in texts if text]


def _refuses(number: int) -> str:
    return f"{number} refused" if number else ""


def _certificate(field: Field, row: EngineRow) -> Markup:
    grades = field.certificates(row.name)
    lines = [f"{number} {grade}" for grade, number in grades.most_common()]
    if not lines:
        lines = ["declared"]
    number = float(grades["maintained"]) if grades else None
    return tag("td", *(tag("small", line) for line in lines), data_value=number, data_label="Certificate")


def _numbers(scope: Scope, engine: str, columns: Sequence[int], batch: int) -> list[Markup]:
    rates = [_number(scope, scope.cell(engine, at), 0, f"Rate, {scope.batches[at].rounds}") for at in columns]
    of_batch = scope.cell(engine, batch)
    return [*rates, *(_number(scope, of_batch, at, each.title) for at, each in enumerate(METRICS) if at)]


def _number(scope: Scope, cell: Cell | None, at: int, label: str) -> Markup:
    """Make the cell of a figure; `number` of site.js makes the same."""
    figure = cell[2][at] if cell and at < len(cell[2]) else None
    if cell is None or figure is None:
        return tag("td", "\u2013", class_="none", data_label=label)
    fragment, note, _ = cell
    text, share, distance = figure
    link = tag("a", text, href=f"{scope.part.report}#{fragment}", class_="bad" if share is None else None)
    bar = tag("i", class_="bar", style=f"--share:{share:g}") if share is not None else ""
    missing = tag("small", note, class_="bad" if "WRONG" in note else None) if note and not at else ""
    return tag(
        "td", link, bar, tag("small", distance), missing, data_value=share, data_label=label,
        class_="best" if distance == "best" else None,
    )  # fmt: skip


# The other sections


def _queries(rows: Sequence[EngineRow], scope: Scope, batch: int) -> Section:
    """Draw the rates of all queries as a heat map."""
    engines = [row.name for row in rows if row.name in scope.cells]
    head = [tag("th", "query", scope="col"), *(tag("th", name, scope="col") for name in engines)]
    body = [
        tag("tr", tag("th", query, scope="row"), [_warm(scope, scope.cell(name, batch, query)) for name in engines])
        for query in scope.queries
    ]
    table = tag("table", tag("thead", tag("tr", head)), tag("tbody", body), id="heat")
    return Section(
        "queries",
        "Query by query",
        f"{counted(len(scope.queries), 'query')} in the batches that are chosen above.",
        "Tuples per second. The stronger the color, the nearer a number is to that of the fastest engine of its query.",
        [tag("div", table, class_="scroll", tabindex=0, role="region", aria_label="Rates by query")],
    )


def _warm(scope: Scope, cell: Cell | None) -> Markup:
    """Make a cell of the heat map; `warm` of site.js makes the same."""
    figure = cell[2][0] if cell else None
    if cell is None or figure is None:
        return tag("td", "\u2013", class_="none")
    text, share, distance = figure
    link = tag("a", text, href=f"{scope.part.report}#{cell[0]}", title=distance or None)
    kind = "bad" if share is None else "best" if distance == "best" else None
    return tag("td", link, class_=kind, style=None if share is None else f"--share:{share:g}")


def _break_even(field: Field) -> Section | None:
    gains = field.gains()
    if not gains:
        return None
    engines = list(dict.fromkeys(row.engine for row in gains))
    places = list(dict.fromkeys(row.place for row in gains))
    rows = {
        place: [
            Row(Frame(each.title, {}, each.text), look(engines.index(each.engine)), "solid", each.engine,
                {"engine": each.engine}, each.gain, Tooltip(f"{each.engine}, {each.title}", each.lines, each.command),
                order=(engines.index(each.engine),))
            for each in gains if each.place == place
        ]
        for place in places
    }  # fmt: skip
    everything = [row for of in rows.values() for row in of]
    scale = Log.over([*(row.value for row in everything), 1.0])
    axes = Axes(Axis("time of recomputing / time of maintaining", scale, lambda value: f"{short(value)}\u00d7"))
    lost = sum(each.gain < 1 for each in gains)
    return Section(
        "break-even",
        "When maintaining pays",
        f"Maintaining is faster in {len(gains) - lost} of {counted(len(gains), 'comparison')} with recomputing.",
        "The fastest engine that runs the query again, against each engine that maintains the answer: geometric means "
        "over the queries that both have. Left of 1\u00d7, recomputing is faster. The number is that of the first "
        "engine.",
        [legend(everything), lists(tag("div", tag("h3", place), chart(of, axes)) for place, of in rows.items())],
    )


def _history(site: Site) -> Section | None:
    points = site.field.history()
    if not points:
        return None
    table = Table(
        "commits", "Commits and versions",
        ["engine", "version", "commit", "date", "rate", "right cells", "data", "records", "machine"],
        [
            [words(each.engine), words(_version_at(each)), words(each.commit), words(each.date), each.rate,
             count(each.cells), words(each.part.data), words(each.part.directory), words(each.part.machine)]
            for each in points
        ],
    )  # fmt: skip
    link = [tag("p", tag("a", "The history of every cell", href=site.history))] if site.history else []
    return Section(
        "commits",
        "By commit and version",
        f"{counted(len({each.commit for each in points}), 'commit')} and "
        f"{counted(len({each.engine for each in points}), 'engine')} have numbers.",
        f"Rate: tuples per second in batches of {points[0].batch}, the geometric mean over the queries. Compare rates "
        "of one machine alone.",
        [grid(table, [{} for _ in table.rows]), *link],
    )


def _version_at(point: CommitPoint) -> str:
    known = BUILT_IN_FACTS.get(point.engine)
    return _version(point.version, known.package) if known else point.version


def _clocks(site: Site, rows: Sequence[EngineRow]) -> Section:
    entries = [
        tag("div", tag("dt", tag("a", row.name, href=site.page(row.folder))), tag("dd", row.clock),
            id=f"clock-{row.name}")
        for row in sorted(rows, key=lambda row: row.name) if row.clock
    ]  # fmt: skip
    return Section(
        "clocks",
        "What a clock includes",
        f"The pages of {counted(len(entries), 'engine')} say what their time includes.",
        "Data is made and batches are cut before a clock starts. An engine that reports its own time is compared with "
        "the time and the CPU time that the harness sees.",
        [tag("dl", entries, class_="clocks")],
    )


def _repeat(site: Site) -> Section:
    commands = [
        ("Set up", "git clone, then: make setup"),
        ("Engines of others", "make peers; make peer PEER=differential"),
        ("One number", "select it above, and run the command of its record"),
        ("Grades", "make bench SUITE=coverage SF=0.1 ENGINES=all"),
        ("Certificates", "make bench SUITE=growth ENGINES=all"),
        ("This page", "make site"),
    ]
    entries = [tag("div", tag("dt", name), tag("dd", tag("code", command))) for name, command in commands]
    rules = tag("a", "The rules", href=site.page("docs/method.md"))
    return Section(
        "repeat",
        "Repeat it",
        f"{len(commands)} commands make every number of this page.",
        "A record has the values of all timed runs, the commit, the versions, the machine and the command.",
        [tag("dl", entries, class_="clocks"), tag("p", rules, " say how numbers are made, compared and withdrawn.")],
    )


def _reports(field: Field) -> Section:
    cards = [
        tag("li", tag("a", f"{directory}: {data}", href=file), tag("small", machine))
        for directory, data, machine, file in field.reports
    ]
    return Section(
        "reports",
        "Reports",
        f"{counted(len(cards), 'report')} have charts, tables and all records.",
        "One for each directory of records, benchmark and scale factor.",
        [tag("ul", cards, class_="cards")],
    )
