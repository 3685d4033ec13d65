"""The few numbers that stand first."""

from __future__ import annotations

from collections.abc import Iterable

from deltamark.harness.console.formatting import TableEntry, brief, rate, ratio
from deltamark.harness.measure.stats import geomean
from deltamark.harness.report.charts.markup import Markup, joined, tag
from deltamark.harness.results.record import QueryRecord
from deltamark.harness.tables.lookup import Lookup

AGAINST = 1000
"""Rounds after which it is recomputed, in the number that compares."""


def tiles(known: Lookup) -> Markup:
    good = [record for record in known.records if record.has_numbers]
    verified = sum(bool(record.verified) for record in good)
    text = f"of {len(known.records):,} cells have a verified answer"
    said = [(f"{verified:,}", text), *((entry.text, text) for entry, text in _numbers(known) if entry.value > 0)]
    made = [tag("div", tag("dt", text), tag("dd", number)) for number, text in said]
    note = tag("p", "* geometric, over the queries that were measured so", class_="star")
    return joined([tag("dl", made, class_="tiles"), note])


def _numbers(known: Lookup) -> Iterable[tuple[TableEntry, str]]:
    """Yield geometric means over the queries that have the number."""
    peaks = [max(rates) for query in known.queries if (rates := _rates(known, query))]
    yield rate(geomean(peaks)), f"tuples at the best batch size, mean* of {len(peaks)} queries"
    ones = _found(known, 1)
    yield rate(geomean(record.rate for record in ones)), "tuples, one at a time, mean*"
    yield brief(geomean(record.latency["p99"] for record in ones)), "99th percentile for one row, mean*"
    pairs = [(known.find(query, AGAINST, 1), known.recomputed(query, AGAINST)) for query in known.queries]
    gains = [one.rate / other.rate for one, other in pairs if one and other and one.has_numbers and other.has_numbers]
    yield ratio(geomean(gains)), f"as fast as recomputing every {AGAINST:,} rounds, mean*"


def _rates(known: Lookup, query: str) -> list[float]:
    return [
        record.rate
        for record in known.records
        if record.query == query
        and record.engine == known.engines[0]
        and record.workload == "insert"
        and record.has_numbers
    ]


def _found(known: Lookup, physical: int) -> list[QueryRecord]:
    found = [known.find(query, 1, physical) for query in known.queries]
    return [record for record in found if record is not None and record.has_numbers]
