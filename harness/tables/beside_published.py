"""Tables of published rates, with our rates for the same queries and batchings."""

from __future__ import annotations

from deltamark.harness.console.formatting import NOTHING, TableEntry, rate, ratio, short, words
from deltamark.harness.console.table import Table, mean_foot
from deltamark.harness.engines.registry import DEFAULT
from deltamark.harness.results import published
from deltamark.harness.results.published import Figure
from deltamark.harness.results.record import QueryRecord
from deltamark.harness.tables.entry import entry_of, speed
from deltamark.harness.tables.lookup import Lookup

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

PublishedColumn = tuple[int, int, int]
"""L, P and workers."""


def beside_published(lookup: Lookup) -> list[Table]:
    """Make a table for each published one, with our rates beside its rates."""
    return [_beside(lookup, source, table) for source, table in COMPARED]


def _beside(lookup: Lookup, source: str, table: str) -> Table:
    figures = published.rates(source, table)
    columns = sorted({_column(figure) for figure in figures})
    shows_ours = len(columns) <= MAX_COLUMNS_WITH_OURS
    rows = []
    for name, of_row in _by_dataflow(lookup, figures).items():
        row = [words(name)]
        for column in columns:
            theirs, ours, share = _compared(lookup, of_row.get(column))
            row += [theirs, ours, share] if shows_ours else [theirs, share]
        rows.append(row)
    headers = [header for column in columns for header in _headers(lookup, source, column, shows_ours=shows_ours)]
    publication = published.sources()[source]
    notes = [f"theirs: {publication.label}", *publication.notes]
    if publication.sf != lookup.sf:
        notes.append(f"theirs was measured at SF {publication.sf}, ours at SF {lookup.sf}")
    formats = [rate, rate, ratio] if shows_ours else [rate, ratio]
    return Table(
        f"{source}-{table}", f"Against {COMPARED[source, table]}: tuples per second", ["query", *headers],
        rows, notes, mean_foot(rows, formats * len(columns)),
    )  # fmt: skip


def _column(figure: Figure) -> PublishedColumn:
    return figure.logical, figure.physical, figure.workers


def _by_dataflow(lookup: Lookup, figures: list[Figure]) -> dict[str, dict[PublishedColumn, Figure]]:
    """Group figures by dataflow and column, as far as we have measured any cell of the dataflow."""
    rows: dict[str, dict[PublishedColumn, Figure]] = {}
    for figure in figures:
        if figure.query in lookup.queries:
            rows.setdefault(lookup.name(figure.query, figure.variant), {})[_column(figure)] = figure
    return {name: row for name, row in rows.items() if any(_ours(lookup, figure) for figure in row.values())}


def _compared(lookup: Lookup, figure: Figure | None) -> tuple[TableEntry, TableEntry, TableEntry]:
    if figure is None:
        return NOTHING, NOTHING, NOTHING
    ours, theirs = _ours(lookup, figure), figure.value
    return rate(theirs), entry_of(ours, speed), entry_of(ours, lambda record: ratio(record.rate / theirs))


def _ours(lookup: Lookup, figure: Figure) -> QueryRecord | None:
    """Find our cell, with as many workers or with the most that we have measured below that."""
    return lookup.find(figure.query, *figure.ours, workers=_workers(lookup, figure.workers), variant=figure.variant)


def _workers(lookup: Lookup, theirs: int) -> int:
    ours = {record.workers for record in lookup.records if record.engine == DEFAULT}
    return max((workers for workers in ours if workers <= theirs), default=1)


def _headers(lookup: Lookup, source: str, column: PublishedColumn, *, shows_ours: bool) -> list[str]:
    logical, physical, workers = column
    theirs = _batching(logical, physical, workers)
    ours = _batching(*published.ours(source, logical, physical), _workers(lookup, workers))
    return [f"theirs {theirs}", *([f"ours {ours}"] if shows_ours else []), f"ratio {theirs}"]


def _batching(logical: int, physical: int, workers: int) -> str:
    return f"{short(logical)}x{short(physical)}" + (f" -w{workers}" if workers > 1 else "")
