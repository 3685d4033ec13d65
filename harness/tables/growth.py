"""The table of growth: the time for a million rows, and the memory, at every scale factor with records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

from deltamark.harness.console.formatting import NOTHING, TableEntry, brief, megabytes, ratio, words
from deltamark.harness.console.table import Table, mean_foot
from deltamark.harness.measure.batch_sizes import FINE
from deltamark.harness.results.record import QueryRecord
from deltamark.harness.tables.entry import entries, entry_of
from deltamark.harness.tables.lookup import Lookup

GROWTH = "growth"

SCALE_FACTORS = ("0.1", "1", "10")
"""The scale factors that a note of the table names while they have no records."""

MIN_SCALE_FACTORS = 2
"""The fewest scale factors that make a table."""


def growth(records: Iterable[QueryRecord]) -> Table:
    """Make the table of our engine at all scale factors; it has no rows if fewer than two have records."""
    by_sf = _records(records)
    measured = [] if len(by_sf) < MIN_SCALE_FACTORS else sorted({query for found in by_sf.values() for query in found})
    rows = []
    for query in measured:
        found = [of_sf.get(query) for of_sf in by_sf.values()]
        peak = entry_of(found[-1], lambda record: megabytes(record.peak_bytes))
        rows.append([words(query), *entries(found, _for_a_million), _growth(found[-2:]), peak])
    names = [f"SF {sf}" for sf in by_sf]
    headers = ["query", *names, " / ".join(names[:-3:-1]), f"peak MB {names[-1]}"] if rows else []
    return Table(
        GROWTH, "Growth with the data: time for a million tuples, one worker, 1 x 100000", headers, rows,
        [
            "a ratio of 1.00x: the time grows in proportion to the rows; peak MB: the peak memory of the process",
            *(_missing(sf) for sf in SCALE_FACTORS if sf not in by_sf),
        ],
        mean_foot(rows, [brief] * len(names) + [ratio, megabytes]),
    )  # fmt: skip


def bench_command(sf: str) -> str:
    """Return the command that measures the cells of the table at a scale factor."""
    return f"make bench SF={sf} ENGINES=embedded PHYSICAL={FINE[1]}"


def _missing(sf: str) -> str:
    return f"no records of SF {sf}: {bench_command(sf)}"


def _records(records: Iterable[QueryRecord]) -> dict[str, dict[str, QueryRecord]]:
    """Find the record of each query, by scale factor in increasing order, and by query."""
    records = list(records)
    by_sf = {}
    for sf in sorted({record.sf for record in records}, key=Decimal):
        lookup = Lookup(records, sf)
        found = {query: record for query in lookup.queries if (record := lookup.find(query, *FINE))}
        by_sf.update({sf: found} if found else {})
    return by_sf


def _for_a_million(record: QueryRecord) -> TableEntry:
    return brief(_seconds_of_a_tuple(record) * 1e6)


def _seconds_of_a_tuple(record: QueryRecord) -> float:
    return record.best / record.tuples


def _growth(pair: Sequence[QueryRecord | None]) -> TableEntry:
    """Return the time of a tuple at the larger of two scale factors, relative to that at the smaller."""
    smaller, larger = pair
    if smaller is None or larger is None or not (smaller.has_numbers and larger.has_numbers):
        return NOTHING
    return ratio(_seconds_of_a_tuple(larger) / _seconds_of_a_tuple(smaller))
