"""Tables that compare our numbers with DuckDB's and with published ones."""

from __future__ import annotations

import math

from deltamark.harness.console.formatting import NOTHING, TableEntry, brief, count, rate, ratio, seconds, short, words
from deltamark.harness.console.table import Table, mean_foot
from deltamark.harness.measure.batch_sizes import COARSE, CROSSOVER, FINE, PHYSICAL
from deltamark.harness.results import published
from deltamark.harness.results.published import Figure
from deltamark.harness.results.record import QueryRecord
from deltamark.harness.tables.entry import of
from deltamark.harness.tables.lookup import DUCKDB, EMBEDDED, Lookup, row_name

COMPARED = {
    ("post", "physical"): "the post, physical batches",
    ("post", "product"): "the post, L x P = 100,000",
    ("post", "workers"): "the post, workers",
    ("dd", "physical"): "differential dataflow, physical batches",
    ("dbtoaster", "logical"): "DBToaster, logical batches of 100,000",
    ("dd-draft", "logical"): "differential dataflow, logical batches of 100,000",
}

MAX_COLUMNS_WITH_OURS = 4
"""The most published columns for which our rates are shown too; for more, only the ratios are."""


def crossover(known: Lookup) -> Table:
    """Make the table of batch times when maintained and when recomputed, with the batch size at which they cross."""
    rows = []
    for engine in known.engines:
        for query in known.queries if engine != DUCKDB else ():
            pairs = [(known.find(query, *each, engine=engine), known.recomputed(query, each[0])) for each in CROSSOVER]
            if any(ours is not None for ours, _ in pairs):
                shown = [of(record, lambda each: brief(a_batch(each))) for pair in pairs for record in pair]
                rows.append([words(row_name(query, engine)), *shown, _crossing(pairs)])
    headers = [f"{who} {size:,}" for size, _ in CROSSOVER for who in ("maintained", "recomputed")]
    return Table(
        "crossover", "Maintaining against recomputing with DuckDB: time of a batch, P = 1, L = batch size",
        ["query", *headers, "crossover"], rows,
        ["crossover: the batch size in rounds above which recomputing is faster, interpolated on log axes"],
        mean_foot(rows, [brief] * len(headers) + [None]),
    )  # fmt: skip


def a_batch(record: QueryRecord) -> float:
    """Return the mean seconds of a batch, in the fastest run."""
    return record.best / max(record.batches, 1)


def _crossing(pairs: list[tuple[QueryRecord | None, QueryRecord | None]]) -> TableEntry:
    points = [
        (float(ours.batch_rows), a_batch(theirs) / a_batch(ours))
        for ours, theirs in pairs
        if ours is not None and theirs is not None and ours.has_numbers and theirs.has_numbers
    ]
    return crossing(points)


def crossing(points: list[tuple[float, float]]) -> TableEntry:
    """Find the size from which on a ratio (recomputed / maintained), known at some sizes, stays below 1."""
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


def load(known: Lookup) -> Table:
    """Make the table of the whole stream beside the query once, with the additional cost of small batches."""
    rows = []
    for query in known.queries:
        coarse, fine, small = (known.find(query, *column) for column in (COARSE, FINE, PHYSICAL[0]))
        once = known.oracle_seconds(query)
        if once and (coarse or fine):
            rows.append([
                words(query), seconds(once), *_times(coarse, once), *_times(fine, once), _more(fine, small),
            ])  # fmt: skip
    return Table(
        "load", "The whole stream maintained, against the query once in DuckDB with one thread",
        ["query", "DuckDB once", "100000 x 1", "ratio", "1 x 100000", "ratio, 1 x 100000", "a batch more, 1 x 1000"],
        rows,
        [
            "DuckDB once: the query over all rows, already loaded; ratio: the time of all batches relative to it",
            "a batch more: (time at 1 x 1000 - time at 1 x 100000) / batches, the cost of a batch beside its rows",
        ],
        mean_foot(rows, [seconds, seconds, ratio, seconds, ratio, None]),
    )  # fmt: skip


def _times(record: QueryRecord | None, once: float) -> list[TableEntry]:
    return [of(record, lambda each: seconds(each.best)), of(record, lambda each: ratio(each.best / once))]


def _more(fine: QueryRecord | None, small: QueryRecord | None) -> TableEntry:
    if (
        fine is None
        or small is None
        or not (fine.has_numbers and small.has_numbers and small.fully_timed and small.best > fine.best)
    ):
        return NOTHING
    return brief((small.best - fine.best) / small.batches)


def beside_published(known: Lookup) -> list[Table]:
    """Make a table for each published one, with our rates beside its rates."""
    return [_beside(known, source, table) for source, table in COMPARED]


def _beside(known: Lookup, source: str, table: str) -> Table:
    figures = published.rates(source, table)
    columns = sorted({(each.logical, each.physical, each.workers) for each in figures})
    threes = len(columns) <= MAX_COLUMNS_WITH_OURS
    rows = []
    for name, of_row in _named(known, figures).items():
        row = [words(name)]
        for column in columns:
            theirs, ours, share = _compared(known, of_row.get(column))
            row += [theirs, ours, share] if threes else [theirs, share]
        rows.append(row)
    headers = [header for column in columns for header in _headers(known, source, column, threes=threes)]
    label = published.sources()[source]
    notes = [f"theirs: {label.label}", *label.notes]
    if label.sf != known.sf:
        notes.append(f"theirs was measured at SF {label.sf}, ours at SF {known.sf}")
    writes = [rate, rate, ratio] if threes else [rate, ratio]
    return Table(
        f"{source}-{table}", f"Against {COMPARED[source, table]}: tuples a second", ["query", *headers],
        rows, notes, mean_foot(rows, writes * len(columns)),
    )  # fmt: skip


Column = tuple[int, int, int]


def _named(known: Lookup, figures: list[Figure]) -> dict[str, dict[Column, Figure]]:
    """Group figures by dataflow and column, as far as we have measured any cell of the dataflow."""
    rows: dict[str, dict[Column, Figure]] = {}
    for each in figures:
        if each.query in known.queries:
            name = known.name(each.query, each.variant)
            rows.setdefault(name, {})[each.logical, each.physical, each.workers] = each
    return {name: row for name, row in rows.items() if any(_ours(known, each) for each in row.values())}


def _compared(known: Lookup, figure: Figure | None) -> tuple[TableEntry, TableEntry, TableEntry]:
    if figure is None:
        return NOTHING, NOTHING, NOTHING
    ours, theirs = _ours(known, figure), figure.value
    return (rate(theirs), of(ours, lambda each: rate(each.rate)), of(ours, lambda each: ratio(each.rate / theirs)))


def _ours(known: Lookup, figure: Figure) -> QueryRecord | None:
    """Find our cell, with as many workers or with the most that we have measured below that."""
    return known.find(figure.query, *figure.ours, workers=_workers(known, figure.workers), variant=figure.variant)


def _workers(known: Lookup, theirs: int) -> int:
    ours = {record.workers for record in known.records if record.engine == EMBEDDED}
    return max((workers for workers in ours if workers <= theirs), default=1)


def _headers(known: Lookup, source: str, column: Column, *, threes: bool) -> list[str]:
    logical, physical, workers = column
    theirs = _batching(logical, physical, workers)
    ours = _batching(*published.ours(source, logical, physical), _workers(known, workers))
    return [f"theirs {theirs}", *([f"ours {ours}"] if threes else []), f"ratio {theirs}"]


def _batching(logical: int, physical: int, workers: int) -> str:
    return f"{short(logical)}x{short(physical)}" + (f" -w{workers}" if workers > 1 else "")
