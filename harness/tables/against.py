"""Our numbers against those of others: DuckDB recomputing, and what has been published."""

from __future__ import annotations

import math

from harness import published
from harness.record import Record
from harness.tables.entry import Entry, Table, brief, count, mean_foot, of, rate, ratio, words
from harness.tables.lookup import Lookup

SIZES = (1000, 100_000, 1_000_000)

COMPARED = (
    ("post", "physical"),
    ("post", "product"),
    ("dd", "physical"),
    ("dbtoaster", "logical"),
    ("dd-draft", "logical"),
)


def crossover(known: Lookup) -> Table:
    """Make the table of what a batch takes when maintained and when recomputed, and from which size on that is less."""
    rows = []
    for query in known.queries:
        pairs = [(known.find(query, size, 1), known.recomputed(query, size)) for size in SIZES]
        if any(theirs is not None for _, theirs in pairs):
            shown = [of(record, lambda each: brief(a_batch(each))) for pair in pairs for record in pair]
            rows.append([words(query), *shown, _crossing(pairs)])
    headers = [f"{who} {size:,}" for size in SIZES for who in ("maintained", "recomputed")]
    return Table(
        "crossover", "Maintaining against recomputing with DuckDB: what a batch takes, P = 1, L = batch size",
        ["query", *headers, "crossover"], rows,
        ["crossover: the batch size in rounds from which on recomputing takes less, read off on log axes"],
        mean_foot(rows, [brief] * len(headers) + [None]),
    )  # fmt: skip


def a_batch(record: Record) -> float:
    """Return the mean seconds of a batch, in the fastest run."""
    return record.best / max(record.batches, 1)


def _crossing(pairs: list[tuple[Record | None, Record | None]]) -> Entry:
    points = [
        (float(ours.batch_rows), a_batch(theirs) / a_batch(ours))
        for ours, theirs in pairs
        if ours is not None and theirs is not None and ours.shown and theirs.shown
    ]
    return crossing(points)


def crossing(points: list[tuple[float, float]]) -> Entry:
    """Find where a ratio (recomputed / maintained), known at some sizes, falls below 1."""
    if not points:
        return words("-")
    if all(share >= 1 for _, share in points):
        return Entry(f"above {points[-1][0]:,.0f}", math.inf)
    at = max((index for index, (_, share) in enumerate(points) if share >= 1), default=-1)
    if at == -1:
        return Entry(f"below {points[0][0]:,.0f}", 0.0)
    if at == len(points) - 1:
        return Entry(f"above {points[-1][0]:,.0f}", math.inf)
    (size, share), (next_size, next_share) = points[at], points[at + 1]
    part = math.log(share) / (math.log(share) - math.log(next_share))
    return count(round(math.exp(math.log(size) + part * math.log(next_size / size)), -1))


def beside_published(known: Lookup) -> list[Table]:
    """Make a table for each published one: our rate against its rate, cell by cell."""
    return [_beside(known, source, table) for source, table in COMPARED]


def _beside(known: Lookup, source: str, table: str) -> Table:
    rates = {at: pair for at, pair in published.rates(source, table).items() if not pair[0].label.endswith("+")}
    columns = sorted({at[1:] for at in rates})
    label = published.sources()[source]
    rows, writes = [], [write for _ in columns for write in (rate, rate, ratio)]
    for query in sorted({at[0] for at in rates} & set(known.queries)):
        row = [words(query)]
        for column in columns:
            row += _trio(known, query, rates.get((query, *column)))
        rows.append(row)
    headers = [f"{who} {_column(column)}" for column in columns for who in ("theirs", "ours", "ratio")]
    notes = [f"theirs: {label.label}", *label.notes]
    if label.sf != known.sf:
        notes.append(f"theirs is of SF {label.sf}, ours of SF {known.sf}")
    title = f"Against {label.title}{': ' + table if source == 'post' else ''}: tuples a second"
    return Table(f"{source}-{table}", title, ["query", *headers], rows, notes, mean_foot(rows, writes))


def _trio(known: Lookup, query: str, pair: tuple[published.Figure, float] | None) -> list[Entry]:
    if pair is None:
        return [words("-")] * 3
    figure, theirs = pair
    ours = _best_workers(known, query, figure)
    return [
        rate(theirs),
        of(ours, lambda each: rate(each.rate)),
        of(ours, lambda each: ratio(each.rate / theirs)),
    ]


def _best_workers(known: Lookup, query: str, figure: published.Figure) -> Record | None:
    """Find our cell: with as many workers, or where they have more than we, with as many as we have."""
    for workers in sorted({record.workers for record in known.records}, reverse=True):
        found = known.find(query, *figure.ours, workers=workers) if workers <= figure.workers else None
        if found is not None:
            return found
    return None


def _column(column: tuple[int, int, int]) -> str:
    logical, physical, workers = column
    return f"{logical}x{physical}" + (f" -w{workers}" if workers > 1 else "")
