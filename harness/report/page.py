"""The page of the report: charts, tables, and every record with the command that measures it again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deltamark.harness.console.formatting import brief, megabytes, words
from deltamark.harness.console.reporter import session_header
from deltamark.harness.console.table import Table
from deltamark.harness.report.charts.marks import data, keys_of
from deltamark.harness.report.charts.markup import Markup, tag
from deltamark.harness.report.charts.tiles import tiles
from deltamark.harness.report.section import Section, render
from deltamark.harness.report.sections.engines import engines
from deltamark.harness.report.sections.grids import folded, named
from deltamark.harness.report.sections.history import history
from deltamark.harness.report.sections.latency import latency
from deltamark.harness.report.sections.state import state
from deltamark.harness.report.sections.suites import graphs, loops, sharing
from deltamark.harness.report.sections.throughput import throughput
from deltamark.harness.report.sections.workers import workers
from deltamark.harness.report.tooltip import command, title
from deltamark.harness.results.machine import warnings
from deltamark.harness.results.record import QueryRecord
from deltamark.harness.results.session import Header
from deltamark.harness.results.table_record import TableRecord
from deltamark.harness.tables import tables
from deltamark.harness.tables.entry import entry_of, speed
from deltamark.harness.tables.lookup import Lookup

HERE = Path(__file__).parent

UNFOLDED = ("engines", "physical", "product", "workers")

CONTENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""The page must not load anything."""


@dataclass(frozen=True)
class ReportData:
    """The records of one machine and scale factor."""

    records: Sequence[QueryRecord]
    sessions: Mapping[str, Header]
    machine: str
    sf: str
    table_records: Sequence[TableRecord] = ()
    """Results of suites other than TPC-H."""


def page(report: ReportData) -> str:
    lookup = Lookup(report.records, report.sf)
    sections = [section for section in _sections(report, lookup) if section is not None]
    body = [
        _top(report, lookup), _bar(lookup, sections), tag("main", map(render, sections)),
        tag("div", id="tip", role="status", hidden=True), tag("script", _asset("report.js")),
    ]  # fmt: skip
    head = [
        tag("meta", charset="utf-8"), tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=CONTENT_POLICY),
        tag("title", f"deltamark, SF {report.sf}, {report.machine}"), tag("style", _asset("report.css")),
    ]  # fmt: skip
    return f"<!doctype html>\n{tag('html', tag('head', head), tag('body', body), lang='en')}\n"


def _asset(name: str) -> Markup:
    return Markup((HERE / name).read_text(encoding="utf-8"))


def _sections(report: ReportData, lookup: Lookup) -> list[Section | None]:
    others = [sharing(report.table_records), loops(report.table_records), graphs(report.table_records)]
    if not lookup.records:
        return [*others, _machine(report, lookup)]
    return [
        _problems(lookup), engines(lookup), throughput(lookup), latency(lookup), workers(lookup), state(lookup),
        _tables(lookup), *others, history(report.records, lookup.engines), _points(lookup), _machine(report, lookup),
    ]  # fmt: skip


def _top(report: ReportData, lookup: Lookup) -> Markup:
    return tag(
        "header",
        tag("h1", "deltamark"),
        tag("p", f"Incremental view maintenance on TPC-H at scale factor {report.sf}", class_="subtitle"),
        *_machine_facts(_sessions(report, lookup)),
        tiles(lookup) if lookup.records else "",
    )


def _machine_facts(sessions: Sequence[Header]) -> list[Markup]:
    """Describe the machine of the latest session, with its warnings."""
    if not sessions:
        return []
    facts = sessions[0]["machine"]
    text = f"{facts['cpu']}, {facts['cores']} cores, {facts['memory_gb']} GB; commit {sessions[0]['commit']}"
    notes = [tag("p", f"Warning at the time: {warning}", class_="warning") for warning in warnings(facts)]
    return [tag("p", text, class_="machine"), *notes]


def _sessions(report: ReportData, lookup: Lookup) -> list[Header]:
    """Return the headers of the sessions with shown results, the latest first."""
    shown = {record.session for record in [*lookup.records, *report.table_records]}
    return [header for name, header in sorted(report.sessions.items(), reverse=True) if name in shown]


def _bar(lookup: Lookup, sections: Iterable[Section]) -> Markup:
    links = [tag("a", section.name.capitalize(), href=f"#{section.name}") for section in sections]
    workloads = sorted({record.workload for record in lookup.records})
    choices = {"query": lookup.queries, "engine": lookup.engines, "workload": workloads}
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


def _problems(lookup: Lookup) -> Section | None:
    bad = [record for record in lookup.records if record.status != "ok"]
    if not bad:
        return None
    items = [
        tag(
            "li", f"{record.status}: {title(record)}", tag("pre", record.problem), tag("code", command(record)),
            **data(keys_of(record)),
        )
        for record in bad
    ]  # fmt: skip
    text = "Cells without a number. They appear only in this list."
    return Section("problems", "Failures", text, [tag("ul", items, class_="problems")])


def _tables(lookup: Lookup) -> Section:
    folded_tables = [
        folded(table, lambda row: named(row, lookup.engines), unfolded=table.name in UNFOLDED)
        for table in tables(lookup.records, lookup.sf)
    ]
    text = "The tables that make tables prints. Click a heading to sort."
    return Section("tables", "Tables", text, folded_tables)


def _points(lookup: Lookup) -> Section:
    headers = ["cell", "rate", "seconds", "p99", "state MB", "verified", "command"]
    shows = (
        speed, lambda record: brief(record.best), lambda record: brief(record.latency["p99"]),
        lambda record: megabytes(record.state_bytes),
    )  # fmt: skip
    rows = [
        [
            words(title(record)), *(entry_of(record, show) for show in shows), words(record.verified or "-"),
            words(command(record)),
        ]
        for record in lookup.records
    ]  # fmt: skip
    table = Table("points", f"{len(rows)} cells", headers, rows)
    keys = dict(zip(map(id, rows), map(keys_of, lookup.records), strict=True))
    text = (
        "The latest record of each cell, with the command that measures it again. RESULTS=again writes to another "
        "directory, because the cell is already done in this one."
    )
    return Section("points", "All cells", text, [folded(table, lambda row: keys[id(row)], unfolded=False)])


def _machine(report: ReportData, lookup: Lookup) -> Section:
    sessions = [
        tag("li", tag("h3", each["started"]), tag("pre", session_header(each)), tag("code", each["argv"]))
        for each in _sessions(report, lookup)
    ]
    text = (
        "The sessions that measured the numbers, the latest first. Times are the fastest of a few runs on a machine "
        "that may have been shared; times on other machines are not known. make compare judges changes."
    )
    return Section("machine", "Machine and versions", text, [tag("ul", sessions, class_="sessions")])
