"""The page of the report: charts, tables, and every record with the command that measures it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from deltamark.harness.console.table import Entries, Table, brief, counted, megabytes, rate, ratio, words
from deltamark.harness.engines.registry import DEFAULT
from deltamark.harness.measure.stats import geomean
from deltamark.harness.report.cells import choices, command, engine_names, keys_of, report_relations, title
from deltamark.harness.report.document import Markup, Section, document, folded, joined, named, tag
from deltamark.harness.report.sections.checks import (
    consistency,
    coverage,
    finding_sentences,
    plausibility,
    problems,
    refusals,
)
from deltamark.harness.report.sections.history import history
from deltamark.harness.report.sections.queries import (
    batching,
    break_even,
    engines,
    latency,
    state,
    throughput,
    workers,
)
from deltamark.harness.report.sections.suites import (
    attachments,
    graphs,
    growth,
    loops,
    memory,
    rates,
    recovery,
    sharing,
)
from deltamark.harness.results.commits import KnownCommit
from deltamark.harness.results.plausibility import doubt_of
from deltamark.harness.results.record import PROJECT, Record
from deltamark.harness.suites.reporter import session_header
from deltamark.harness.system.machine import Header, warnings
from deltamark.harness.tables.field import row_id, table_id
from deltamark.harness.tables.growth import recorded_grades
from deltamark.harness.tables.history import commit_history, relation
from deltamark.harness.tables.relation import Relations, literal, marked, why
from deltamark.harness.tables.tpch import made_tables

UNFOLDED = ("engines", "physical", "product", "workers")
"""The table of engines, and those with the columns of the post of 2017."""


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
    of_scale = (record for record in report.records if record.sf == report.sf)
    db = report_relations(of_scale, recorded_grades(report.table_records))
    sections = [section for section in _sections(report, db) if section is not None]
    of_data = [f"SF {report.sf}"] if db.latest else []  # the sections of other suites name their data
    header = _top(report, db)
    return document(
        ", ".join(["deltamark", *of_data, report.machine]), header, sections, choices(db.latest, engine_names(db))
    )


OTHERS = (growth, recovery, rates, memory, sharing, attachments, loops, graphs)
"""The sections of the suites other than throughput."""


def _sections(report: ReportData, db: Relations) -> list[Section | None]:
    others = [make(report.table_records) for make in OTHERS]
    if not db.latest:
        return [*others, _machine(report, db)]
    return [
        engines(db), throughput(db), break_even(db), latency(db), workers(db), state(db), batching(db),
        coverage(db, report.table_records), consistency(db, report.table_records), finding_sentences(db),
        problems(db), plausibility(db), refusals(db), _tables(db, report.sf), *others, *_histories(report),
        _points(db), _machine(report, db),
    ]  # fmt: skip


def _histories(report: ReportData) -> list[Section | None]:
    """Draw the cells that were measured at several commits, in a section for each repository, this project's first."""
    db = relation([(report.records, report.sessions)])
    names = [name for (name,) in db.rows("SELECT DISTINCT repository FROM comparable ORDER BY repository")]
    return [_history(report, db, name) for name in sorted(names, key=lambda name: name != PROJECT)]


def _history(report: ReportData, db: Relations, repository: str) -> Section | None:
    known = report.known_commits if repository == PROJECT else {}
    whole = commit_history(db, known, f"repository = {literal(repository)}")
    cells = {
        cell: series
        for cell, series in whole.cells.items()
        if len({point.position for each in series for point in each.points}) > 1
    }
    return history(replace(whole, cells=cells), repository) if cells else None


def _top(report: ReportData, db: Relations) -> Markup:
    of_data = f" on TPC-H at scale factor {report.sf}" if db.latest else ""
    return tag(
        "header",
        tag("h1", "deltamark"),
        tag("p", f"Incremental view maintenance{of_data}", class_="subtitle"),
        *_machine_facts(_sessions(report, db)),
        tiles(db) if db.latest else "",
        _terms() if db.latest else "",
    )


RECOMPUTED_ROUNDS = 1000
"""The batch size, in rounds, of the comparison with recomputing."""


def tiles(db: Relations) -> Markup:
    """Show the most important numbers, which are geometric means over the queries that have them."""
    ((cells, verified),) = db.rows("SELECT count(*), count_if(has_numbers AND verified <> '') FROM latest")
    best, single, p99, gains = (
        [value for (value,) in db.rows(sql)]
        for sql in (
            """SELECT max(rate) FROM latest WHERE ours AND plain(workload) AND has_numbers GROUP BY query""",
            "SELECT rate FROM single WHERE ours AND (L, P) = (1, 1) AND has_numbers",
            "SELECT p99 FROM single WHERE ours AND (L, P) = (1, 1) AND has_numbers",
            f"""SELECT c.rate / r.rate FROM single c JOIN recomputed r USING (query)
                WHERE c.ours AND (c.L, c.P) = ({RECOMPUTED_ROUNDS}, 1) AND r.rounds = {RECOMPUTED_ROUNDS}
                AND c.has_numbers AND r.has_numbers""",
        )
    )
    numbers = [
        (rate(geomean(best)), f"{DEFAULT}: tuples at the best batch size, mean* of {len(best)} queries"),
        (rate(geomean(single)), f"{DEFAULT}: tuples, one at a time, mean*"),
        (brief(geomean(p99)), f"{DEFAULT}: 99th percentile for one row, mean*"),
        (ratio(geomean(gains)), f"{DEFAULT}: as fast as DuckDB recomputing every {RECOMPUTED_ROUNDS:,} rounds, mean*"),
    ]
    shown = [(entry.text, text) for entry, text in numbers if entry.value > 0]
    entries = [
        tag("div", tag("dt", text), tag("dd", number))
        for number, text in [(f"{verified:,}", f"of {cells:,} cells have a verified answer"), *shown]
    ]
    note = tag("p", "* geometric mean over the measured queries", class_="star")
    return joined([tag("dl", entries, class_="tiles"), note])


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


def _sessions(report: ReportData, db: Relations) -> list[Header]:
    """Return the headers of the sessions with shown results, the latest first."""
    shown = {record.session for record in [*db.latest, *report.table_records]}
    return [header for name, header in sorted(report.sessions.items(), reverse=True) if name in shown]


def _tables(db: Relations, sf: str) -> Section:
    engines = engine_names(db)
    folded_tables = [
        folded(table, lambda row: named(row, engines), unfolded=table.name in UNFOLDED) for table in made_tables(db, sf)
    ]
    number = counted(len(folded_tables), "table")
    finding = f"The numbers of {counted(len(db.latest), 'cell')} are in {number}."
    text = "The tables that make tables prints. Click a heading to sort."
    return Section("tables", "Tables", finding, text, folded_tables)


def _points(db: Relations) -> Section:
    """List all records in a table for each engine, workload, batching and number of workers, as the site links to."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in db.latest:
        variant = "" if record.is_default else f" {record.variant}"
        name = table_id(record.engine + variant, record.workload, record.logical, record.physical, record.workers)
        groups.setdefault((name, title(record).partition(" ")[2]), []).append(record)
    tables = [_group(name, words_of, records) for (name, words_of), records in groups.items()]
    text = (
        "The latest record of each cell, with the command that measures it again. RESULTS=again writes to another "
        "directory, because the cell is already done in this one."
    )
    good = sum(record.has_numbers for record in db.latest)
    finding = f"{counted(len(db.latest), 'cell')} were measured, and {good:,} have numbers."
    return Section("points", "All cells", finding, text, tables)


HEADERS = ("query", "rate", "runs", "p50", "p99", "slowest", "CPU", "peak MB", "state MB", "verified", "commit", "date")


def _group(name: str, title: str, records: Sequence[Record]) -> Markup:
    rows = [
        [words(record.query), *_numbers(record), words(record.verified or "-"), words(record.commit or "-"),
         words(record.finished_at[:10] or "-"), words(command(record))]
        for record in records
    ]  # fmt: skip
    queries = ",".join(dict.fromkeys(record.query for record in records))
    table = Table(
        name.removeprefix("table-"), f"{title.strip(' ,')}: {counted(len(rows), 'cell')}", [*HEADERS, "command"], rows,
        [f"measure them again: {command(records[0], queries)}"], has_units_by_row=True,
    )  # fmt: skip
    keys = dict(zip(map(id, table.rows), map(keys_of, records), strict=True))
    ids = [row_id(record.key) for record in records]
    return folded(table, lambda row: keys[id(row)], unfolded=False, ids=ids)


def _numbers(record: Record) -> Entries:
    if not record.has_numbers:
        return [words(why(record) or "-")] * 8
    latency, cpu = record.latency, record.of_fastest(record.timed_cpu if record.external else record.cpu)
    times = [
        rate(record.rate), words(", ".join(brief(each).text for each in record.seconds)),
        *(brief(latency[part]) for part in ("p50", "p99", "max")),
    ]  # fmt: skip
    sizes = [megabytes(size) if size else words("-") for size in (record.peak_bytes, record.state_bytes)]
    entries = list(map(marked, times)) if doubt_of(record) else times
    return [*entries, words("-") if cpu is None else brief(cpu), *sizes]


def _machine(report: ReportData, db: Relations) -> Section:
    shown = _sessions(report, db)
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
