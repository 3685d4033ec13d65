"""Tables beyond those of the post: small batches, deletions, latency, state and memory."""

from __future__ import annotations

import math
from functools import partial

from deltamark.harness.console.formatting import NOTHING, TableEntry, brief, count, megabytes, rate, ratio, words
from deltamark.harness.console.table import Table, mean_foot
from deltamark.harness.measure.batch_sizes import COARSE, FINE, PHYSICAL, SMALL
from deltamark.harness.results import published
from deltamark.harness.results.record import QueryRecord
from deltamark.harness.tables.entry import of, whole
from deltamark.harness.tables.lookup import Lookup, row_name

LATENCY = (SMALL[0], PHYSICAL[0], FINE)
SPREAD = "batches of the fastest run; at 1, those of windows spread over the stream"
MIN_STATE_ROWS = 1000
"""Fewer rows of state say nothing about bytes per row."""


def small(known: Lookup) -> Table:
    """Make the table of rates at P = 1, 10 and 100 beside the hot dog column."""
    hot_dog = published.hot_dog()
    rows = []
    for query, engine in known.rows(SMALL):
        records = [known.find(query, *column, engine=engine) for column in SMALL]
        one, theirs = records[0], hot_dog.get(query, math.nan)
        rows.append([
            words(row_name(query, engine)), *(of(record, lambda each: rate(each.rate)) for record in records),
            rate(theirs), of(one, partial(_against, theirs)),
        ])  # fmt: skip
    return Table(
        "small", "Small batches: tuples a second, L = 1",
        ["query", *(f"{size:,}" for _, size in SMALL), "hot dog", "ratio"], rows,
        [
            "only windows spread over the stream are timed",
            published.sources()["hot-dog"].label + "; ratio: ours at 1 to theirs",
        ],
        mean_foot(rows, [rate] * 4 + [ratio]),
    )  # fmt: skip


def _against(theirs: float, record: QueryRecord) -> TableEntry:
    return ratio(record.rate / theirs)


def deletions(known: Lookup) -> Table:
    """Make the table of workloads with deletions."""
    works = sorted({record.workload for record in known.records} - {"insert"}, reverse=True)
    rows = []
    for query in known.queries:
        row = [words(query)]
        for work in works:
            record = known.find(query, *FINE, workload=work)
            row += [of(record, whole), of(record, lambda each: rate(each.rate)), of(record, _state)]
        if any(entry is not NOTHING for entry in row[1:]):
            rows.append(row)
    headers = [f"{work}{what}" for work in works for what in ("", " rate", " state rows")]
    return Table(
        "deletions", "Deletions: rows that are inserted and deleted, 1 x 100000", ["query", *headers], rows,
        [
            "window:N keeps the last N orders; refresh:K loads all rows, then runs TPC-H's refresh functions",
            "rates count deletions like insertions",
        ],
        mean_foot(rows, [None, rate, None] * len(works)),
    )  # fmt: skip


def _state(record: QueryRecord) -> TableEntry:
    return count(record.state_rows)


def latency(known: Lookup) -> Table:
    """Make the table of batch latencies."""
    rows = []
    for query, engine in known.rows(LATENCY):
        row = [words(row_name(query, engine))]
        for column in LATENCY:
            record = known.find(query, *column, engine=engine)
            row += [of(record, partial(_latency, at)) for at in ("p50", "p95", "p99", "max")]
        rows.append(row)
    headers = [f"{part} {size:,}" for _, size in LATENCY for part in ("p50", "p95", "p99", "max")]
    return Table(
        "latency", "Latency of a batch of 1, 1,000 and 100,000 rounds, L = 1", ["query", *headers], rows, [SPREAD],
        mean_foot(rows, [brief] * len(headers)),
    )  # fmt: skip


def _latency(at: str, record: QueryRecord) -> TableEntry:
    return brief(record.latency[at])


def state(known: Lookup) -> Table:
    """Make the table of state at the end of the stream."""
    rows = []
    pairs = [(query, engine) for engine in known.engines for query in known.queries]
    for query, engine in pairs:
        record = known.find(query, *FINE, engine=engine) or known.find(query, *COARSE, engine=engine)
        if record is None:
            continue
        rows.append([
            words(row_name(query, engine)), of(record, lambda each: count(each.tuples)), of(record, _state),
            of(record, lambda each: megabytes(each.state_bytes)), of(record, _a_row),
            of(record, lambda each: megabytes(each.peak_bytes)), of(record, lambda each: count(each.changes)),
        ])  # fmt: skip
    return Table(
        "state", "State and memory at the end of the stream, 1 x 100000 (or 100000 x 1 if that was not measured)",
        ["query", "tuples in", "state rows", "state MB", "bytes a row", "peak MB", "changes out"], rows,
        [
            "state MB: memory added by the run; changes out: if recomputed, the rows of all answers",
            "peak MB: the peak memory of the process, including Python, kernels and pages of mapped files",
        ],
    )  # fmt: skip


def _a_row(record: QueryRecord) -> TableEntry:
    return count(record.state_bytes / record.state_rows) if record.state_rows >= MIN_STATE_ROWS else NOTHING
