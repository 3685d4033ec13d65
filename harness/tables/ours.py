"""Tables beyond those of the post: small batches, latency, state and memory."""

from __future__ import annotations

import math
from functools import partial

from deltamark.harness.console.formatting import TableEntry, brief, count, megabytes, rate, ratio, words
from deltamark.harness.console.table import Table, mean_foot
from deltamark.harness.measure.batch_sizes import COARSE, FINE, PHYSICAL, SMALL
from deltamark.harness.results import published
from deltamark.harness.results.record import SPREAD, QueryRecord
from deltamark.harness.tables.entry import entries, entry_of, row_bytes, speed
from deltamark.harness.tables.lookup import Lookup, row_name

LATENCY = (SMALL[0], PHYSICAL[0], FINE)


def small(lookup: Lookup) -> Table:
    """Make the table of rates at P = 1, 10 and 100 beside the hot dog column."""
    hot_dog = published.hot_dog()
    rows = []
    for row in lookup.rows(SMALL):
        theirs = hot_dog.get(row.query, math.nan)
        against = partial(_against, theirs)
        rows.append([
            words(row.name), *entries(row.records, speed), rate(theirs), entry_of(row.records[0], against),
        ])  # fmt: skip
    return Table(
        "small", "Small batches: tuples per second, L = 1",
        ["query", *(f"{size:,}" for _, size in SMALL), "hot dog", "ratio"], rows,
        [
            "only windows spread over the stream are timed",
            published.sources()["hot-dog"].label + "; ratio: ours at 1 to theirs",
        ],
        mean_foot(rows, [rate] * 4 + [ratio]),
    )  # fmt: skip


def _against(theirs: float, record: QueryRecord) -> TableEntry:
    return ratio(record.rate / theirs)


def latency(lookup: Lookup) -> Table:
    """Make the table of batch latencies."""
    shows = [partial(_latency, part) for part in SPREAD]
    rows = [
        [words(row.name), *(entry_of(record, show) for record in row.records for show in shows)]
        for row in lookup.rows(LATENCY)
    ]
    headers = [f"{part} {size:,}" for _, size in LATENCY for part in SPREAD]
    return Table(
        "latency", "Latency of a batch of 1, 1,000 and 100,000 rounds, L = 1", ["query", *headers], rows,
        ["batches of the fastest run; at 1, those of windows spread over the stream"],
        mean_foot(rows, [brief] * len(headers)),
    )  # fmt: skip


def _latency(part: str, record: QueryRecord) -> TableEntry:
    return brief(record.latency[part])


def state(lookup: Lookup) -> Table:
    """Make the table of state at the end of the stream."""
    shows = (
        lambda record: count(record.tuples), lambda record: count(record.state_rows),
        lambda record: megabytes(record.state_bytes), _row_bytes,
        lambda record: megabytes(record.peak_bytes), lambda record: count(record.changes),
    )  # fmt: skip
    rows = []
    for engine in lookup.engines:
        for query in lookup.queries:
            record = lookup.find(query, *FINE, engine=engine) or lookup.find(query, *COARSE, engine=engine)
            if record is not None:
                rows.append([words(row_name(query, engine)), *(entry_of(record, show) for show in shows)])
    return Table(
        "state", "State and memory at the end of the stream, 1 x 100000 (or 100000 x 1 if that was not measured)",
        ["query", "tuples in", "state rows", "state MB", "bytes per row", "peak MB", "changes out"], rows,
        [
            "state MB: memory added by the run; changes out: if recomputed, the rows of all answers",
            "peak MB: the peak memory of the process, including Python, kernels and pages of mapped files",
        ],
    )  # fmt: skip


def _row_bytes(record: QueryRecord) -> TableEntry:
    return row_bytes(record.state_bytes, record.state_rows)
