"""The most important numbers, at the top of the page."""

from __future__ import annotations

from collections.abc import Iterable

from deltamark.harness.console.formatting import TableEntry, brief, rate, ratio
from deltamark.harness.measure.stats import geomean
from deltamark.harness.report.charts.markup import Markup, joined, tag
from deltamark.harness.results.record import Record
from deltamark.harness.tables.lookup import Lookup

RECOMPUTED_ROUNDS = 1000
"""The batch size, in rounds, of the comparison with recomputing."""


def tiles(lookup: Lookup) -> Markup:
    good = [record for record in lookup.records if record.has_numbers]
    verified = sum(bool(record.verified) for record in good)
    text = f"of {len(lookup.records):,} cells have a verified answer"
    numbers = [(f"{verified:,}", text), *((entry.text, text) for entry, text in _numbers(lookup) if entry.value > 0)]
    entries = [tag("div", tag("dt", text), tag("dd", number)) for number, text in numbers]
    note = tag("p", "* geometric mean over the measured queries", class_="star")
    return joined([tag("dl", entries, class_="tiles"), note])


def _numbers(lookup: Lookup) -> Iterable[tuple[TableEntry, str]]:
    """Yield geometric means over the queries for which the number was measured."""
    peaks = [max(rates) for query in lookup.queries if (rates := _rates(lookup, query))]
    yield rate(geomean(peaks)), f"tuples at the best batch size, mean* of {len(peaks)} queries"
    single = _shown(lookup, 1)
    yield rate(geomean(record.rate for record in single)), "tuples, one at a time, mean*"
    yield brief(geomean(record.latency["p99"] for record in single)), "99th percentile for one row, mean*"
    pairs = [
        (lookup.find(query, RECOMPUTED_ROUNDS, 1), lookup.recomputed(query, RECOMPUTED_ROUNDS))
        for query in lookup.queries
    ]
    good = [(ours, theirs) for ours, theirs in pairs if ours and theirs and ours.has_numbers and theirs.has_numbers]
    gains = [ours.rate / theirs.rate for ours, theirs in good]
    yield ratio(geomean(gains)), f"as fast as recomputing every {RECOMPUTED_ROUNDS:,} rounds, mean*"


def _rates(lookup: Lookup, query: str) -> list[float]:
    return [
        record.rate
        for record in lookup.records
        if (record.query, record.engine) == (query, lookup.engines[0]) and record.is_plain and record.has_numbers
    ]


def _shown(lookup: Lookup, physical: int) -> list[Record]:
    records = [lookup.find(query, 1, physical) for query in lookup.queries]
    return [record for record in records if record is not None and record.has_numbers]
