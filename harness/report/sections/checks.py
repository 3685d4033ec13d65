"""Sections of what was answered: findings, coverage, consistency, refusals, and times that are not plausible."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.benchmark import DEFAULT, benchmark
from deltamark.harness.console.table import NOTHING, Entries, Table, TableEntry, count, counted, listed, words
from deltamark.harness.engines.base import short_name
from deltamark.harness.report.document import Section, folded, of_engines
from deltamark.harness.report.marks import Markup, command, data, keys_of, tag, title
from deltamark.harness.results.plausibility import doubt_of
from deltamark.harness.results.record import Record, Status
from deltamark.harness.suites.registry import CoverageSuite
from deltamark.harness.tables.findings import MARGIN, ScopeFindings, findings
from deltamark.harness.tables.lookup import Lookup

FAULTS: tuple[Status, ...] = ("wrong", "failed", "timeout", "refused")
"""The outcomes without a number, the worst first."""

GRADED = "The folded tables are those of make tables SUITE=coverage, which grades each engine for every query."

Outcomes = Mapping[str, Record | None]
"""For each query a record with numbers, or else the one with the worst outcome, or else None."""


def coverage(lookup: Lookup, table_records: Sequence[Record]) -> Section:
    """Count the queries of each engine; the matrix and the refusals of the suite of coverage follow."""
    queries = _queries(lookup)
    by_engine = {engine: _outcomes(lookup, engine, queries) for engine in lookup.engines}
    answered = [f"{_answered(outcomes)} with {short_name(engine)}" for engine, outcomes in by_engine.items()]
    own = [table for table in (_counts(lookup, by_engine), _gaps(by_engine)) if table.rows]
    graded = [table for table in CoverageSuite.tables(table_records) if not table.name.startswith("consistency")]
    return Section(
        "coverage", "Coverage of the queries",
        f"Of the {len(queries)} queries at scale factor {lookup.sf}, there are numbers for {listed(answered)}.",
        f"A query counts if a cell of it has a number. {GRADED * bool(graded)}",
        [
            *(folded(table, of_engines(lookup.engines), unfolded=True) for table in own),
            *(folded(table, lambda _: {}, unfolded=False) for table in graded),
        ],
    )  # fmt: skip


def _queries(lookup: Lookup) -> Sequence[str]:
    """Return the queries of the benchmark, or those that have records if its folder is gone."""
    name = next((record.benchmark for record in lookup.records), DEFAULT)
    try:
        return list(benchmark(name).queries)
    except DeltamarkError:
        return sorted({record.query for record in lookup.records})


def _outcomes(lookup: Lookup, engine: str, queries: Iterable[str]) -> Outcomes:
    found: dict[str, list[Record]] = defaultdict(list)
    for record in lookup.records:
        if record.engine == engine:
            found[record.query].append(record)
    return {query: min(found[query], key=_rank, default=None) for query in queries}


def _rank(record: Record) -> int:
    if record.has_numbers:
        return -1
    return FAULTS.index(record.status) if record.status in FAULTS else len(FAULTS)


def _answered(outcomes: Outcomes) -> int:
    return sum(record is not None and record.has_numbers for record in outcomes.values())


def _counts(lookup: Lookup, by_engine: Mapping[str, Outcomes]) -> Table:
    rows: list[Entries] = []
    for engine, outcomes in by_engine.items():
        answered = _answered(outcomes)
        statuses = [record.status if record else "" for record in outcomes.values()]
        cells = sum(record.engine == engine for record in lookup.records)
        numbers = [cells, *map(statuses.count, FAULTS), statuses.count("")]
        share = TableEntry(f"{answered} of {len(outcomes)}", answered)
        rows.append([words(short_name(engine)), share, *map(count, numbers)])
    headers = ["engine", "queries", "cells", *FAULTS, "not measured"]
    return Table("queries", "Queries with numbers, by engine", headers, rows)


def _gaps(by_engine: Mapping[str, Outcomes]) -> Table:
    """Make the table of queries without a number, with one row for each reason of an engine."""
    reasons: dict[tuple[str, str], list[str]] = defaultdict(list)
    for engine, outcomes in by_engine.items():
        for query, record in outcomes.items():
            if record is None or not record.has_numbers:
                reasons[engine, _reason(record)].append(query)
    rows = [
        [words(short_name(engine)), words(" ".join(queries)), words(reason)]
        for (engine, reason), queries in reasons.items()
    ]
    return Table("gaps", "Queries without numbers", ["engine", "queries", "reason"], rows)


def _reason(record: Record | None) -> str:
    """Return the recorded reason of a gap: the status, and the first line of the problem."""
    if record is None:
        return "not measured"
    limit = f" of {record.limit:g} s" if record.status == "timeout" and record.limit else ""
    status = "not timed" if record.status == "ok" else f"{record.status}{limit}"
    problem = record.problem.partition("\n")[0]
    return f"{status}: {problem}" if problem else status


HEADERS = [
    "engine", "output", "cells", "equal to DuckDB", "by digest", "not verified", "streams agree", "wrong", "failed",
]  # fmt: skip
NOTES = [
    "output: the changes at logical times (stream), those of a batch as a whole (batches), or whole answers",
    "equal to DuckDB: the answers of the cell are those of DuckDB; by digest: its change stream is that of such a cell",
    "streams agree: those with one digest, of the change streams (query, workload and L) that another engine has, too",
]

Stream = tuple[str, str, str, int]
"""The data, query, workload and L, which decide the change stream of a default dataflow."""
Digests = Mapping[Stream, Mapping[str, set[str]]]
"""The digests of each stream, by engine."""


def consistency(lookup: Lookup, table_records: Sequence[Record]) -> Section:
    """Count the checks of each engine; the grades of the suite of coverage follow."""
    digests = _shared_digests(lookup)
    table = Table(
        "checks", "Checks, by engine", HEADERS, [_row(lookup, each, digests) for each in lookup.engines], NOTES
    )
    graded = [table for table in CoverageSuite.tables(table_records) if table.name.startswith("consistency")]
    return Section(
        "consistency", "Consistency of the engines", _finding(lookup, digests),
        "The answers of every engine are compared with DuckDB's, and its change streams with those of other engines. "
        f"{GRADED * bool(graded)}",
        [
            folded(table, of_engines(lookup.engines), unfolded=True),
            *(folded(each, lambda _: {}, unfolded=False) for each in graded),
        ],
    )  # fmt: skip


def _shared_digests(lookup: Lookup) -> Digests:
    """Return the digests of the streams that several engines have."""
    found: dict[Stream, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for record in lookup.records:
        if record.digest and record.is_default:
            stream = record.data, record.query, record.workload, record.logical
            found[stream][record.engine].add(record.digest)
    return {stream: by_engine for stream, by_engine in found.items() if len(by_engine) > 1}


def _agrees(by_engine: Mapping[str, set[str]]) -> bool:
    return len(set().union(*by_engine.values())) == 1


def _row(lookup: Lookup, engine: str, digests: Digests) -> Entries:
    records = [record for record in lookup.records if record.engine == engine]
    checks = Counter(record.verified for record in records if record.has_numbers)
    statuses = Counter(record.status for record in records)
    streams = [by_engine for by_engine in digests.values() if engine in by_engine]
    agreeing = sum(map(_agrees, streams))
    agree = TableEntry(f"{agreeing} of {len(streams)}", agreeing) if streams else NOTHING
    return [
        words(short_name(engine)), words(lookup.capabilities(engine).output), count(len(records)),
        *(count(checks[check]) for check in ("oracle", "digest", "")), agree,
        *(count(statuses[status]) for status in ("wrong", "failed")),
    ]  # fmt: skip


def _finding(lookup: Lookup, digests: Digests) -> str:
    good = [record for record in lookup.records if record.has_numbers]
    verified = sum(bool(record.verified) for record in good)
    bad = sum(record.is_bad for record in lookup.records)
    parts = [f"{verified:,} of {counted(len(good), 'cell')} with numbers have a verified answer"]
    if digests:
        agreeing = sum(map(_agrees, digests.values()))
        parts.append(f"{agreeing:,} of {counted(len(digests), 'change stream')} of several engines have one digest")
    return f"{', '.join(parts)}, and {counted(bad, 'cell')} {'is' if bad == 1 else 'are'} wrong or failed."


def plausibility(lookup: Lookup) -> Section | None:
    """List the cells whose times are not plausible, if there are any."""
    doubts = [(record, doubt) for record in lookup.records if (doubt := doubt_of(record))]
    if not doubts:
        return None
    items = [
        tag("li", title(record), tag("pre", doubt), tag("code", command(record)), **data(keys_of(record)))
        for record, doubt in doubts
    ]
    external = sum(record.external is not None and record.has_numbers for record in lookup.records)
    verb = "is" if len(doubts) == 1 else "are"
    return Section(
        "plausibility", "Times that are not plausible",
        f"Of {counted(external, 'cell')} of external engines, the times of {len(doubts)} {verb} not plausible.",
        "An external engine reports its own time, or works where no clock runs. These times contradict the time that "
        "the harness saw, or the CPU time of the engine. Charts show them like all others; tables mark them with ~.",
        [tag("ul", items, class_="problems")],
    )  # fmt: skip


def refusals(lookup: Lookup) -> Section | None:
    """List the refused queries, with one row for each reason of an engine."""
    reasons: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in lookup.records:
        if record.status == "refused":
            reasons[short_name(record.engine), record.problem.partition("\n")[0]].append(record)
    if not reasons:
        return None
    rows = [
        [words(engine), words(" ".join(sorted({each.query for each in records}))), count(len(records)), words(reason)]
        for (engine, reason), records in sorted(reasons.items())
    ]
    by_engine = Counter(engine for (engine, _), records in sorted(reasons.items()) for _ in records)
    refused = f"{by_engine.total():,} {'is' if by_engine.total() == 1 else 'are'} refused"
    numbers = listed([f"{number} by {engine}" for engine, number in by_engine.items()])
    table = Table("refused", "Refused queries, by engine and reason", ["engine", "queries", "cells", "reason"], rows)
    return Section(
        "refusals", "Refusals", f"Of {counted(len(lookup.records), 'cell')}, {refused}: {numbers}.",
        "Queries that an engine says it does not support. They are no failures, and are left out of all means.",
        [folded(table, of_engines(lookup.engines), unfolded=True)],
    )  # fmt: skip


def finding_sentences(lookup: Lookup) -> Section | None:
    """List the sentences over all queries and those of each query, if there are several engines."""
    found = findings(lookup.measured, lookup.sf)
    if found is None:
        return None
    return Section(
        "findings", "Findings", found.headline,
        "Cells are compared if several engines have the same query in its default dataflow, data, workload, number of "
        f"workers and batch size (L x P). An engine is faster if its fastest run is more than {MARGIN:.0%} faster, and "
        "its slowest run beats the fastest one of the other; otherwise they tie. Wrong, failed and refused cells, and "
        "times that are not plausible, never win. The tables named findings have the same facts.",
        [_list(tag("li", text) for text in found.summary), *(each for scope in found.scopes for each in _scope(scope))],
    )  # fmt: skip


def _scope(found: ScopeFindings) -> list[Markup]:
    keys = {"workload": found.scope.workload}
    queries = [tag("li", text, **data({"query": query, **keys})) for query, text in found.queries.items()]
    summary = [tag("li", text, **data(keys)) for text in found.summary]
    return [tag("h3", found.scope.name, **data(keys)), _list(summary), _list(queries)]


def _list(items: Iterable[Markup]) -> Markup:
    return tag("ul", items, class_="sentences")
