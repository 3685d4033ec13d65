"""The consistency of the engines: which outputs were checked, and whether they agree with DuckDB and each other."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from deltamark.harness.console.formatting import NOTHING, TableEntry, count, counted, words
from deltamark.harness.console.table import Entries, Table
from deltamark.harness.engines.base import short_name
from deltamark.harness.report.document import Section
from deltamark.harness.report.sections.coverage import GRADED
from deltamark.harness.report.sections.grids import folded, of_engines
from deltamark.harness.results.record import Record
from deltamark.harness.suites.registry import CoverageSuite
from deltamark.harness.tables.lookup import Lookup

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
