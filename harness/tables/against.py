"""Tables that compare our numbers with DuckDB's."""

from __future__ import annotations

import math
from collections.abc import Sequence

from deltamark.harness.console.formatting import NOTHING, TableEntry, brief, count, ratio, words
from deltamark.harness.console.table import Table, mean_foot
from deltamark.harness.measure.batch_sizes import COARSE, CROSSOVER, FINE, PHYSICAL
from deltamark.harness.results.record import QueryRecord
from deltamark.harness.tables.entry import entry_of
from deltamark.harness.tables.lookup import Lookup, row_name

RecordPair = tuple[QueryRecord | None, QueryRecord | None]
"""A cell maintained, and recomputed by DuckDB."""


def crossover(lookup: Lookup) -> Table:
    """Make the table of batch times when maintained and when recomputed, with the batch size at which they cross."""
    rows = []
    for engine in lookup.engines:
        for query in lookup.queries if not lookup.capabilities(engine).recomputes else ():
            pairs = [
                (lookup.find(query, *each, engine=engine), lookup.recomputed(query, each[0])) for each in CROSSOVER
            ]
            if any(ours is not None for ours, _ in pairs):
                shown = [entry_of(record, _mean_batch) for pair in pairs for record in pair]
                rows.append([words(row_name(query, engine)), *shown, _crossover_entry(pairs)])
    headers = [f"{name} {size:,}" for size, _ in CROSSOVER for name in ("maintained", "recomputed")]
    return Table(
        "crossover", "Maintaining against recomputing with DuckDB: time of a batch, P = 1, L = batch size",
        ["query", *headers, "crossover"], rows,
        ["crossover: the batch size in rounds above which recomputing is faster, interpolated on log axes"],
        mean_foot(rows, [brief] * len(headers) + [None]),
    )  # fmt: skip


def batch_seconds(record: QueryRecord) -> float:
    """Return the mean seconds of a batch, in the fastest run."""
    return record.best / max(record.batches, 1)


def _mean_batch(record: QueryRecord) -> TableEntry:
    return brief(batch_seconds(record))


def _crossover_entry(pairs: Sequence[RecordPair]) -> TableEntry:
    points = [
        (float(ours.batch_rounds), batch_seconds(theirs) / batch_seconds(ours))
        for ours, theirs in pairs
        if ours is not None and theirs is not None and ours.has_numbers and theirs.has_numbers
    ]
    return crossover_size(points)


def crossover_size(points: Sequence[tuple[float, float]]) -> TableEntry:
    """Interpolate the size above which a ratio (recomputed / maintained), known at some sizes, stays below 1."""
    if not points:
        return NOTHING
    at = max((index for index, (_, share) in enumerate(points) if share >= 1), default=-1)
    if at == -1:
        return TableEntry(f"below {points[0][0]:,.0f}", 0.0)
    if at == len(points) - 1:
        return TableEntry(f"above {points[-1][0]:,.0f}", math.inf)
    (size, share), (next_size, next_share) = points[at], points[at + 1]
    part = math.log(share) / (math.log(share) - math.log(next_share))
    return count(round(math.exp(math.log(size) + part * math.log(next_size / size)), -1))


def load(lookup: Lookup) -> Table:
    """Make the table of the whole stream beside the query once, with the additional cost of small batches."""
    rows = []
    for query in lookup.queries:
        coarse, fine, small = (lookup.find(query, *column) for column in (COARSE, FINE, PHYSICAL[0]))
        once = lookup.oracle_seconds(query)
        if once and (coarse or fine):
            times = [*_times(coarse, once), *_times(fine, once)]
            rows.append([words(query), brief(once), *times, _batch_cost(fine, small)])
    return Table(
        "load", "Maintaining over the whole stream, against running the query once in DuckDB with one thread",
        ["query", "DuckDB once", "100000 x 1", "ratio", "1 x 100000", "ratio, 1 x 100000", "cost per batch, 1 x 1000"],
        rows,
        [
            "DuckDB once: the query over all rows, already loaded; ratio: the time of all batches relative to it",
            "cost per batch, without that of its rows: (time at 1 x 1000 - time at 1 x 100000) / batches",
        ],
        mean_foot(rows, [brief, brief, ratio, brief, ratio, None]),
    )  # fmt: skip


def _times(record: QueryRecord | None, once: float) -> list[TableEntry]:
    shows = (lambda record: brief(record.best), lambda record: ratio(record.best / once))
    return [entry_of(record, show) for show in shows]


def _batch_cost(fine: QueryRecord | None, small: QueryRecord | None) -> TableEntry:
    """Return the cost of a batch beside the cost of its rows: the difference between two batch sizes."""
    if not (fine and small and fine.has_numbers and small.has_numbers and small.fully_timed and small.best > fine.best):
        return NOTHING
    return brief((small.best - fine.best) / small.batches)
