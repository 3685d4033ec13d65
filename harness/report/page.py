"""The page of the report: charts, tables, and every record with the command that measures it again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from deltamark.harness.console.table import Entries, Table, brief, counted, listed, megabytes, rate, words
from deltamark.harness.history.series import commit_history, with_machines
from deltamark.harness.report.document import Section, document, folded, named
from deltamark.harness.report.marks import Markup, choices, command, data, keys_of, tag, title
from deltamark.harness.report.panel import tiles
from deltamark.harness.report.sections.checks import consistency, coverage, finding_sentences, plausibility, refusals
from deltamark.harness.report.sections.costs import latency, state, workers
from deltamark.harness.report.sections.history import history
from deltamark.harness.report.sections.suites import graphs, loops, memory, rates, sharing
from deltamark.harness.report.sections.throughput import batching, break_even, engines, throughput
from deltamark.harness.results.commits import KnownCommit
from deltamark.harness.results.plausibility import doubt_of
from deltamark.harness.results.record import PROJECT, Record
from deltamark.harness.suites.reporter import session_header
from deltamark.harness.system.machine import Header, warnings
from deltamark.harness.tables.lookup import Lookup
from deltamark.harness.tables.relation import marked, why
from deltamark.harness.tables.tpch import tables

UNFOLDED = ("engines", "physical", "product", "workers")


@dataclass(frozen=True)
class ReportData:
    """The records of one machine and scale factor."""

    records: Sequence[Record]
    sessions: Mapping[str, Header]
    machine: str
    sf: str
    table_records: Sequence[Record] = ()
    """Results of suites other than that of queries."""
    known_commits: Mapping[str, KnownCommit] = field(default_factory=dict)
    """The facts that this project's repository has about its commits in the records."""


def page(report: ReportData) -> str:
    lookup = Lookup(report.records, report.sf)
    sections = [section for section in _sections(report, lookup) if section is not None]
    of_data = [f"SF {report.sf}"] if lookup.records else []  # the sections of other suites name their data
    return document(
        ", ".join(["deltamark", *of_data, report.machine]),
        _top(report, lookup),
        sections,
        choices(lookup.records, lookup.engines),
    )


def _sections(report: ReportData, lookup: Lookup) -> list[Section | None]:
    others = [make(report.table_records) for make in (rates, memory, sharing, loops, graphs)]
    if not lookup.records:
        return [*others, _machine(report, lookup)]
    return [
        finding_sentences(lookup), _problems(lookup), plausibility(lookup), batching(lookup), break_even(lookup),
        engines(lookup), throughput(lookup), latency(lookup), workers(lookup), state(lookup),
        coverage(lookup, report.table_records), refusals(lookup), consistency(lookup, report.table_records),
        _tables(lookup), *others, *_histories(report), _points(lookup), _machine(report, lookup),
    ]  # fmt: skip


def _histories(report: ReportData) -> list[Section | None]:
    """Draw the cells that were measured at several commits, in a section for each repository, this project's first."""
    names = sorted({record.repository for record in report.records}, key=lambda name: (name != PROJECT, name))
    return [_history(report, name) for name in names]


def _history(report: ReportData, repository: str) -> Section | None:
    records = [record for record in report.records if record.repository == repository]
    known = report.known_commits if repository == PROJECT else {}
    whole = commit_history(with_machines(records, report.sessions), known)
    cells = {
        cell: series
        for cell, series in whole.cells.items()
        if len({point.position for each in series for point in each.points}) > 1
    }
    return history(replace(whole, cells=cells), repository) if cells else None


def _top(report: ReportData, lookup: Lookup) -> Markup:
    of_data = f" on TPC-H at scale factor {report.sf}" if lookup.records else ""
    return tag(
        "header",
        tag("h1", "deltamark"),
        tag("p", f"Incremental view maintenance{of_data}", class_="subtitle"),
        *_machine_facts(_sessions(report, lookup)),
        tiles(lookup) if lookup.records else "",
        _terms() if lookup.records else "",
    )


def _terms() -> Markup:
    """Define what the charts count."""
    return tag(
        "p",
        tag("b", "Round"), ": one step of the stream. With the workload insert, round i adds row i of every relation "
        "that has one. ", tag("b", "L"), ": the number of rounds that share a logical time; the answer is known at "
        "each logical time, so L changes what is computed. ", tag("b", "P"), ": the number of logical times that the "
        "engine gets in one call; P never changes the result. A ", tag("b", "batch"), " L x P has L times P rounds.",
        class_="terms",
    )  # fmt: skip


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


def _problems(lookup: Lookup) -> Section | None:
    bad = [record for record in lookup.records if record.status not in ("ok", "refused")]
    if not bad:
        return None
    items = [
        tag(
            "li", f"{record.status}: {title(record)}", tag("pre", record.problem), tag("code", command(record)),
            **data(keys_of(record)),
        )
        for record in bad
    ]  # fmt: skip
    counts = Counter(record.status for record in bad)
    by_status = listed([f"{number} {status}" for status, number in sorted(counts.items())])
    failed = f"{len(bad)} {'has' if len(bad) == 1 else 'have'} failed"
    finding = f"Of {counted(len(lookup.records), 'cell')}, {failed}: {by_status}."
    text = "They have no number, appear only in this list, and are left out of all means."
    return Section("problems", "Failures", finding, text, [tag("ul", items, class_="problems")])


def _tables(lookup: Lookup) -> Section:
    folded_tables = [
        folded(table, lambda row: named(row, lookup.engines), unfolded=table.name in UNFOLDED)
        for table in tables(lookup.records, lookup.sf)
    ]
    number = counted(len(folded_tables), "table")
    finding = f"The numbers of {counted(len(lookup.records), 'cell')} are in {number}."
    text = "The tables that make tables prints. Click a heading to sort."
    return Section("tables", "Tables", finding, text, folded_tables)


def _numbers(record: Record) -> Entries:
    if not record.has_numbers:
        return [words(why(record) or "-")] * 4
    rates, p99 = rate(record.rate), record.latency["p99"]
    entries = [rates, brief(record.best), brief(p99), megabytes(record.state_bytes)]
    return list(map(marked, entries)) if doubt_of(record) else entries


def _points(lookup: Lookup) -> Section:
    headers = ["cell", "rate", "seconds", "p99", "state MB", "verified", "command"]
    rows = [
        [
            words(title(record)), *_numbers(record), words(record.verified or "-"), words(command(record)),
        ]
        for record in lookup.records
    ]  # fmt: skip
    table = Table("points", f"{len(rows)} cells", headers, rows)
    keys = dict(zip(map(id, table.rows), map(keys_of, lookup.records), strict=True))
    text = (
        "The latest record of each cell, with the command that measures it again. RESULTS=again writes to another "
        "directory, because the cell is already done in this one."
    )
    good = sum(record.has_numbers for record in lookup.records)
    finding = f"{counted(len(rows), 'cell')} were measured, and {good:,} have numbers."
    return Section("points", "All cells", finding, text, [folded(table, lambda row: keys[id(row)], unfolded=False)])


def _machine(report: ReportData, lookup: Lookup) -> Section:
    shown = _sessions(report, lookup)
    sessions = [
        tag("li", tag("h3", each["started"]), tag("pre", session_header(each)), tag("code", each["argv"]))
        for each in shown
    ]
    latest = f", the latest on {shown[0]['started'][:10]}" if shown else ""
    finding = f"The numbers are of {counted(len(shown), 'session')}{latest}."
    text = (
        "The sessions that measured the numbers, the latest first. Times are the fastest of a few runs on a machine "
        "that may have been shared; times on other machines are not known. make compare judges changes."
    )
    return Section("machine", "Machine and versions", finding, text, [tag("ul", sessions, class_="sessions")])
