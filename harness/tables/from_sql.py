"""The table of the dataflows that are made of SQL, beside those written by hand."""

from __future__ import annotations

from deltamark.harness.console.formatting import NOTHING, TableEntry, ratio, words
from deltamark.harness.console.table import Table, mean_foot
from deltamark.harness.measure.batch_sizes import COARSE, Batching
from deltamark.harness.results.record import QueryRecord
from deltamark.harness.tables.entry import entries, whole
from deltamark.harness.tables.lookup import Lookup
from deltamark.queries.sql_text import VARIANT

BATCHINGS: tuple[Batching, ...] = ((1, 1), (1, 1000), (1, 100_000), COARSE)


def from_sql(lookup: Lookup) -> Table:
    """Make the table of both dataflows at several batchings, and the ratio of their times."""
    rows = []
    for query in lookup.queries:
        pairs = [(lookup.find(query, *column), lookup.find(query, *column, variant=VARIANT)) for column in BATCHINGS]
        if any(made is not None for _, made in pairs):
            shown = [[*entries(pair, whole), _slower(*pair)] for pair in pairs]
            rows.append([words(query), *(entry for each in shown for entry in each)])
    headers = [f"{logical} x {size:,}{of}" for logical, size in BATCHINGS for of in ("", " from SQL", " ratio")]
    return Table(
        "sql", "Dataflows from SQL, beside those written by hand: seconds for the whole stream, or tuples a second",
        ["query", *headers], rows, ["ratio: how much longer the dataflow from SQL takes"],
        mean_foot(rows, [None, None, ratio] * len(BATCHINGS)),
    )  # fmt: skip


def _slower(written: QueryRecord | None, made: QueryRecord | None) -> TableEntry:
    """Return how much longer the dataflow from SQL takes for a row of input."""
    if written is None or made is None or not (written.has_numbers and made.has_numbers):
        return NOTHING
    return ratio(written.rate / made.rate)
