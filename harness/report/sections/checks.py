"""Sections of what was answered: findings, coverage, consistency, refusals, and times that are not plausible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.benchmark import DEFAULT, benchmark
from deltamark.harness.console.table import TableEntry, count, counted, listed, words
from deltamark.harness.report.cells import command, engine_names, keys_of, title
from deltamark.harness.report.document import Markup, Section, data, folded, of_engines, tag
from deltamark.harness.results.record import Record, Status
from deltamark.harness.suites.registry import CoverageSuite
from deltamark.harness.tables.findings import MARGIN, ScopeFindings, findings
from deltamark.harness.tables.relation import Column, Relations, literal

FAULTS: tuple[Status, ...] = ("wrong", "failed", "timeout", "refused")
"""The outcomes without a number, the worst first."""

GRADED = "The folded tables are those of make tables SUITE=coverage, which grades each engine for every query."

GAP = """CASE WHEN r.id IS NULL THEN 'not measured' ELSE
    CASE WHEN r.status = 'ok' THEN 'not timed' WHEN r.status = 'timeout' AND r.time_limit > 0
        THEN format('timeout of {:g} s', r.time_limit) ELSE r.status END
    || CASE r.problem WHEN '' THEN '' ELSE ': ' || first_line(r.problem) END END"""
"""The recorded reason of a gap: the status, and the first line of the problem."""


def coverage(db: Relations, table_records: Sequence[Record]) -> Section:
    """Count the queries of each engine; the matrix and the refusals of the suite of coverage follow."""
    queries = _queries(db)
    names = ", ".join(map(literal, enumerate(queries)))
    worst = f"coalesce(list_position({[*FAULTS]}, r.status), {len(FAULTS) + 1})"
    outcomes = f"""(
        SELECT engine, short, rank, cells, query, number,
            arg_min(r, (CASE WHEN r.has_numbers THEN 0 ELSE {worst} END, cell)) AS r
        FROM (SELECT engine, short, rank, count(*) AS cells FROM latest GROUP BY ALL)
            CROSS JOIN (VALUES {names}) q (number, query) LEFT JOIN latest r USING (engine, query, short, rank)
        GROUP BY ALL)"""
    by_engine = f"FROM {outcomes} GROUP BY engine, short, rank ORDER BY rank"
    answered = "count(*) FILTER (r.has_numbers)"
    columns: list[Column] = [
        ("engine", "short", words),
        ("queries", answered, lambda number: TableEntry(f"{number} of {len(queries)}", number)),
        ("cells", "any_value(cells)", count),
        *((status, f"count(*) FILTER (r.status = '{status}')", count) for status in FAULTS),
        ("not measured", "count(*) FILTER (r.id IS NULL)", count),
    ]  # fmt: skip
    gaps: list[Column] = [
        ("engine", "short", words), ("queries", "string_agg(query, ' ' ORDER BY number)", words),
        ("reason", GAP, words),
    ]  # fmt: skip
    missing = f"FROM {outcomes} WHERE NOT coalesce(r.has_numbers, false) GROUP BY engine, short, rank, {GAP}"
    own = [
        db.table("queries", "Queries with numbers, by engine", columns, by_engine),
        db.table("gaps", "Queries without numbers", gaps, f"{missing} ORDER BY rank, min(number)"),
    ]
    parts = [f"{number} with {short}" for short, number in db.rows(f"SELECT short, {answered} {by_engine}")]
    graded = [table for table in CoverageSuite.tables(table_records) if not table.name.startswith("consistency")]
    return Section(
        "coverage", "Coverage of the queries",
        f"Of the {len(queries)} queries at scale factor {db.latest[0].sf}, there are numbers for {listed(parts)}.",
        f"A query counts if a cell of it has a number. {GRADED * bool(graded)}",
        [
            *(folded(table, of_engines(engine_names(db)), unfolded=True) for table in own if table.rows),
            *(folded(table, lambda _: {}, unfolded=False) for table in graded),
        ],
    )  # fmt: skip


def _queries(db: Relations) -> Sequence[str]:
    """Return the queries of the benchmark, or those that have records if its folder is gone."""
    name = next((record.benchmark for record in db.latest), DEFAULT)
    try:
        return list(benchmark(name).queries)
    except DeltamarkError:
        return sorted({record.query for record in db.latest})


NOTES = [
    "output: the changes at logical times (stream), those of a batch as a whole (batches), or whole answers",
    "equal to DuckDB: the answers of the cell are those of DuckDB; by digest: its change stream is that of such a cell",
    "streams agree: those with one digest, of the change streams (query, workload and L) that another engine has, too",
]

STREAMS = """(
    SELECT list(DISTINCT engine) AS engines, count(DISTINCT digest) = 1 AS agrees FROM latest
    WHERE digest <> '' AND is_default GROUP BY data, query, workload, logical HAVING count(DISTINCT engine) > 1)"""
"""The change streams of default dataflows that several engines have, and whether they have one digest."""


def consistency(db: Relations, table_records: Sequence[Record]) -> Section:
    """Count the checks of each engine; the grades of the suite of coverage follow."""
    columns: list[Column] = [
        ("engine", "short", words), ("output", "arg_max(output, cell)", words), ("cells", "count(*)", count),
        *(
            (header, f"count(*) FILTER (has_numbers AND verified = '{check}')", count)
            for header, check in (("equal to DuckDB", "oracle"), ("by digest", "digest"), ("not verified", ""))
        ),
        ("streams agree", f"""(
            SELECT CASE WHEN count(*) > 0 THEN [count_if(agrees), count(*)] END FROM {STREAMS}
            WHERE list_contains(engines, any_value(l.engine)))""",
            lambda found: TableEntry(f"{found[0]} of {found[1]}", found[0])),
        *((status, f"count(*) FILTER (status = '{status}')", count) for status in ("wrong", "failed")),
    ]  # fmt: skip
    by_engine = "FROM latest l GROUP BY engine, short, rank ORDER BY rank"
    table = db.table("checks", "Checks, by engine", columns, by_engine, NOTES)
    graded = [table for table in CoverageSuite.tables(table_records) if table.name.startswith("consistency")]
    return Section(
        "consistency", "Consistency of the engines", _consistency_finding(db),
        "The answers of every engine are compared with DuckDB's, and its change streams with those of other engines. "
        f"{GRADED * bool(graded)}",
        [
            folded(table, of_engines(engine_names(db)), unfolded=True),
            *(folded(each, lambda _: {}, unfolded=False) for each in graded),
        ],
    )  # fmt: skip


def _consistency_finding(db: Relations) -> str:
    ((good, verified, bad),) = db.rows("""
        SELECT count_if(has_numbers), count_if(has_numbers AND verified <> ''), count_if(status IN ('wrong', 'failed'))
        FROM latest""")
    ((streams, agreeing),) = db.rows(f"SELECT count(*), count_if(agrees) FROM {STREAMS}")
    parts = [f"{verified:,} of {counted(good, 'cell')} with numbers have a verified answer"]
    if streams:
        parts.append(f"{agreeing:,} of {counted(streams, 'change stream')} of several engines have one digest")
    return f"{', '.join(parts)}, and {counted(bad, 'cell')} {'is' if bad == 1 else 'are'} wrong or failed."


def problems(db: Relations) -> Section | None:
    """List the cells that have failed, if there are any."""
    bad = [record for record in db.latest if record.status not in ("ok", "refused")]
    if not bad:
        return None
    counts = Counter(record.status for record in bad)
    by_status = listed([f"{number} {status}" for status, number in sorted(counts.items())])
    failed = f"{len(bad)} {'has' if len(bad) == 1 else 'have'} failed"
    return Section(
        "problems", "Failures", f"Of {counted(len(db.latest), 'cell')}, {failed}: {by_status}.",
        "They have no number, appear only in this list, and are left out of all means.",
        [_cells((record, f"{record.status}: {title(record)}", record.problem) for record in bad)],
    )  # fmt: skip


def _cells(found: Iterable[tuple[Record, str, str]]) -> Markup:
    """List cells with a problem, each with its command."""
    items = [
        tag("li", name, tag("pre", problem), tag("code", command(record)), **data(keys_of(record)))
        for record, name, problem in found
    ]
    return tag("ul", items, class_="problems")


def plausibility(db: Relations) -> Section | None:
    """List the cells whose times are not plausible, if there are any."""
    doubts = db.rows("SELECT id, doubt FROM latest WHERE is_doubtful ORDER BY cell")
    if not doubts:
        return None
    ((external,),) = db.rows("SELECT count(*) FROM latest WHERE is_external AND has_numbers")
    verb = "is" if len(doubts) == 1 else "are"
    return Section(
        "plausibility", "Times that are not plausible",
        f"Of {counted(external, 'cell')} of external engines, the times of {len(doubts)} {verb} not plausible.",
        "An external engine reports its own time, or works where no clock runs. These times contradict the time that "
        "the harness saw, or the CPU time of the engine. Charts show them like all others; tables mark them with ~.",
        [_cells((db.records[at], title(db.records[at]), doubt) for at, doubt in doubts)],
    )  # fmt: skip


def refusals(db: Relations) -> Section | None:
    """List the refused queries, with one row for each reason of an engine."""
    refused = "FROM latest WHERE status = 'refused' GROUP BY short"
    columns: list[Column] = [
        ("engine", "short", words), ("queries", "string_agg(DISTINCT query, ' ' ORDER BY query)", words),
        ("cells", "count(*)", count), ("reason", "first_line(problem)", words),
    ]  # fmt: skip
    source = f"{refused}, first_line(problem) ORDER BY short, first_line(problem)"
    table = db.table("refused", "Refused queries, by engine and reason", columns, source)
    if not table.rows:
        return None
    by_engine = dict(db.rows(f"SELECT short, count(*) {refused} ORDER BY short"))
    total = sum(by_engine.values())
    numbers = listed([f"{number} by {engine}" for engine, number in by_engine.items()])
    verb = "is" if total == 1 else "are"
    return Section(
        "refusals", "Refusals", f"Of {counted(len(db.latest), 'cell')}, {total:,} {verb} refused: {numbers}.",
        "Queries that an engine says it does not support. They are no failures, and are left out of all means.",
        [folded(table, of_engines(engine_names(db)), unfolded=True)],
    )  # fmt: skip


def finding_sentences(db: Relations) -> Section | None:
    """List the sentences over all queries and those of each query, if there are several engines."""
    found = findings(db.records, db.grades)
    if found is None:
        return None
    return Section(
        "findings", "Findings", found.headline,
        "Cells are compared if several engines have the same query in its default dataflow, data, workload, number of "
        f"workers and batch size (L x P). An engine is faster if its fastest run is more than {MARGIN:.0%} faster, and "
        "its slowest run beats the fastest one of the other; otherwise they tie. Wrong, failed and refused cells, and "
        "times that are not plausible, never win. Whether an engine recomputes is what its certificate of growth says, "
        "or else what the engine declares. The tables named findings have the same facts.",
        [_list(tag("li", text) for text in found.summary), *(each for scope in found.scopes for each in _scope(scope))],
    )  # fmt: skip


def _scope(found: ScopeFindings) -> list[Markup]:
    keys = {"workload": found.scope.workload}
    queries = [tag("li", text, **data({"query": query, **keys})) for query, text in found.queries.items()]
    summary = [tag("li", text, **data(keys)) for text in found.summary]
    by_query = tag("details", tag("summary", f"{found.scope.name}: each query"), _list(queries), **data(keys))
    return [tag("h3", found.scope.name, **data(keys)), _list(summary), by_query]


def _list(items: Iterable[Markup]) -> Markup:
    return tag("ul", items, class_="sentences")
