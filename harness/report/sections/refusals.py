"""The refusals: the queries that an engine says it does not support. They are no failures."""

from __future__ import annotations

from collections import Counter, defaultdict

from deltamark.harness.console.formatting import count, counted, listed, words
from deltamark.harness.console.table import Table
from deltamark.harness.engines.base import short_name
from deltamark.harness.report.document import Section
from deltamark.harness.report.sections.grids import folded, of_engines
from deltamark.harness.results.record import Record
from deltamark.harness.tables.lookup import Lookup


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
