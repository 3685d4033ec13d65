"""The page: what was measured, in charts, in tables, and as every single point with the command that repeats it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltamark.harness.console.formatting import brief, megabytes, rate, words
from deltamark.harness.console.reporter import session_header
from deltamark.harness.console.table import Table
from deltamark.harness.report.about import command, title
from deltamark.harness.report.charts.marks import data, keys_of
from deltamark.harness.report.charts.markup import Markup, tag
from deltamark.harness.report.charts.tiles import tiles
from deltamark.harness.report.section import Section, shown
from deltamark.harness.report.sections.grids import folded, named
from deltamark.harness.report.sections.history import history
from deltamark.harness.report.sections.latency import latency
from deltamark.harness.report.sections.state import state
from deltamark.harness.report.sections.suites import graphs, loops, sharing
from deltamark.harness.report.sections.throughput import throughput
from deltamark.harness.report.sections.workers import workers
from deltamark.harness.results.machine import warnings
from deltamark.harness.results.record import QueryRecord
from deltamark.harness.results.table_record import TableRecord
from deltamark.harness.tables import tables
from deltamark.harness.tables.entry import of
from deltamark.harness.tables.lookup import Lookup

HERE = Path(__file__).parent

UNFOLDED = ("physical", "product", "workers")

CLOSED = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""The page may load nothing."""

Headers = Mapping[str, Mapping[str, Any]]
"""Of sessions, by their names."""


@dataclass(frozen=True)
class Given:
    """What a report is made of."""

    records: Sequence[QueryRecord]
    sessions: Headers
    machine: str
    sf: str
    findings: Sequence[TableRecord] = ()
    """Of other suites than TPC-H."""


def page(given: Given) -> str:
    known = Lookup(given.records, given.sf)
    sections = [each for each in _sections(given, known) if each is not None]
    body = [
        _top(given, known), _bar(known, sections), tag("main", map(shown, sections)),
        tag("div", id="tip", role="status", hidden=True), tag("script", _asset("report.js")),
    ]  # fmt: skip
    head = [
        tag("meta", charset="utf-8"), tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=CLOSED),
        tag("title", f"deltamark, SF {given.sf}, {given.machine}"), tag("style", _asset("report.css")),
    ]  # fmt: skip
    return f"<!doctype html>\n{tag('html', tag('head', head), tag('body', body), lang='en')}\n"


def _asset(name: str) -> Markup:
    return Markup((HERE / name).read_text(encoding="utf-8"))


def _sections(given: Given, known: Lookup) -> list[Section | None]:
    others = [sharing(given.findings), loops(given.findings), graphs(given.findings)]
    if not known.records:
        return [*others, _machine(given, known)]
    return [
        _problems(known), throughput(known), latency(known), workers(known), state(known), _tables(known), *others,
        history(given.records, known.engines), _points(known), _machine(given, known),
    ]  # fmt: skip


def _top(given: Given, known: Lookup) -> Markup:
    return tag(
        "header",
        tag("h1", "deltamark"),
        tag("p", f"Incremental view maintenance on TPC-H at scale factor {given.sf}", class_="subtitle"),
        *_measured(_sessions(given, known)),
        tiles(known) if known.records else "",
    )


def _measured(sessions: Sequence[Mapping[str, Any]]) -> list[Markup]:
    """Say on what the latest session has measured, and what may have spoiled it."""
    if not sessions:
        return []
    facts = sessions[0]["machine"]
    text = f"{facts['cpu']}, {facts['cores']} cores, {facts['memory_gb']} GB; commit {sessions[0]['commit']}"
    warned = [tag("p", f"Warning at the time: {warning}", class_="warning") for warning in warnings(facts)]
    return [tag("p", text, class_="machine"), *warned]


def _sessions(given: Given, known: Lookup) -> list[Mapping[str, Any]]:
    """Return the headers of the sessions that made what is shown, the latest first."""
    seen = {record.session for record in known.records} | {finding.session for finding in given.findings}
    return [header for name, header in sorted(given.sessions.items(), reverse=True) if name in seen]


def _bar(known: Lookup, sections: Iterable[Section]) -> Markup:
    links = [tag("a", section.name.capitalize(), href=f"#{section.name}") for section in sections]
    workloads = sorted({record.workload for record in known.records})
    choices = {"query": known.queries, "engine": known.engines, "workload": workloads}
    form = tag(
        "form", [_choice(name, values) for name, values in choices.items()],
        tag("button", "Show all", type="reset"), id="filters",
    )  # fmt: skip
    summary = tag("summary", "Filter", tag("span", id="filtered"))
    return tag("nav", tag("div", links, class_="links"), tag("details", summary, form, class_="filter"))


def _choice(name: str, values: Sequence[str]) -> Markup:
    boxes = [
        tag("label", tag("input", type="checkbox", name=name, value=value), tag("span", value), class_="chip")
        for value in values
    ]
    return tag("fieldset", tag("legend", name), tag("div", boxes, class_="chips"))


def _problems(known: Lookup) -> Section | None:
    bad = [record for record in known.records if record.status != "ok"]
    if not bad:
        return None
    listed = [
        tag(
            "li", f"{record.status}: {title(record)}", tag("pre", record.problem), tag("code", command(record)),
            **data(keys_of(record)),
        )
        for record in bad
    ]  # fmt: skip
    text = "Cells without a number: nothing of theirs is shown but this."
    return Section("problems", "What went wrong", text, [tag("ul", listed, class_="problems")])


def _tables(known: Lookup) -> Section:
    made = [
        folded(table, lambda row: named(row, known.engines), unfolded=table.name in UNFOLDED)
        for table in tables(known.records, known.sf)
    ]
    text = "The same as make tables prints. A heading sorts."
    return Section("tables", "Tables", text, made)


def _points(known: Lookup) -> Section:
    headers = ["cell", "rate", "seconds", "p99", "state MB", "verified", "command"]
    rows = [
        [
            words(title(each)), of(each, lambda it: rate(it.rate)), of(each, lambda it: brief(it.best)),
            of(each, lambda it: brief(it.latency["p99"])), of(each, lambda it: megabytes(it.state_bytes)),
            words(each.verified or "-"), words(command(each)),
        ]
        for each in known.records
    ]  # fmt: skip
    table = Table("points", f"{len(rows)} cells", headers, rows)
    keys = dict(zip(map(id, rows), map(keys_of, known.records), strict=True))
    text = (
        "The latest of each, with the command that measures it again. RESULTS=again keeps what it finds apart from "
        "what is here, where the cell would count as done."
    )
    return Section("points", "Every point", text, [folded(table, lambda row: keys[id(row)], unfolded=False)])


def _machine(given: Given, known: Lookup) -> Section:
    made = [
        tag("li", tag("h3", each["started"]), tag("pre", session_header(dict(each))), tag("code", each["argv"]))
        for each in _sessions(given, known)
    ]
    text = (
        "Where each number comes from, the latest session first. Times are the fastest of a few runs on a machine that "
        "may have been shared; how they would differ on another is not known. make compare judges changes."
    )
    return Section("machine", "Machine and versions", text, [tag("ul", made, class_="sessions")])
