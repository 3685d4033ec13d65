"""The coverage of the queries: how many each engine answers, and the reasons for gaps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.benchmark import DEFAULT, benchmark
from deltamark.harness.console.formatting import TableEntry, count, listed, words
from deltamark.harness.console.table import Entries, Table
from deltamark.harness.engines.base import short_name
from deltamark.harness.report.document import Section
from deltamark.harness.report.sections.grids import folded, of_engines
from deltamark.harness.results.record import Record, Status
from deltamark.harness.suites.registry import CoverageSuite
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
