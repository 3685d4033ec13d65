"""Logical against physical batches: the rate of each batching of one size, relative to the best of them."""

from __future__ import annotations

from deltamark.harness.console.formatting import ratio
from deltamark.harness.measure.batch_sizes import COARSE, FINE, PRODUCT, Batching
from deltamark.harness.measure.stats import geomean
from deltamark.harness.report.charts.marks import LegendEntry, Look, keys_of, legend, look, series
from deltamark.harness.report.charts.markup import Markup
from deltamark.harness.report.charts.scale import Linear
from deltamark.harness.report.charts.strips import Strip, dot, strips
from deltamark.harness.report.section import Section, lists
from deltamark.harness.report.tooltip import tooltip
from deltamark.harness.results.record import QueryRecord
from deltamark.harness.tables.lookup import Lookup

Records = dict[Batching, QueryRecord]

SCALE = Linear(0, 0.25, 4)


def batching(lookup: Lookup) -> Section | None:
    """Draw a strip for each query with several batchings of 100,000 rounds."""
    by_query = {query: found for query in lookup.queries if len(found := _records(lookup, query)) > 1}
    if not by_query:
        return None
    shown = [each for each in PRODUCT if any(each in records for records in by_query.values())]
    rows = [_strip(query, records) for query, records in by_query.items()]
    entries = [LegendEntry(_look(each), "solid", _name(each)) for each in shown]
    chart = strips(SCALE, lambda value: f"{value:g}x", rows, label="rate relative to the query's best batching")
    return Section(
        "batching", "Logical against physical batches",
        "A batch of 100,000 rounds, cut as L x P: the more rounds share a logical time (L), the fewer answers are due. "
        f"Rates are relative to the query's best batching, whose name ends its line. {_finding(by_query)}",
        [legend(entries), lists([chart])],
    )  # fmt: skip


def _records(lookup: Lookup, query: str) -> Records:
    found = {each: lookup.find(query, *each) for each in PRODUCT}
    return {each: record for each, record in found.items() if record is not None and record.has_numbers}


def _strip(query: str, records: Records) -> Strip:
    best = max(records, key=lambda each: records[each].rate)
    marks: list[Markup] = []
    for each, record in records.items():
        mark = dot(_look(each), SCALE, record.rate / records[best].rate, tooltip(record))
        marks.append(series(_look(each), "solid", keys_of(record), mark))
    return Strip(query, marks, _name(best), {"query": query})


def _look(each: Batching) -> Look:
    return look(PRODUCT.index(each))


def _name(each: Batching) -> str:
    return f"{each[0]} x {each[1]}"


def _finding(by_query: dict[str, Records]) -> str:
    """State what an answer in every round costs, and what one answer a batch gains."""
    sentences = []
    for each, meaning in ((FINE, "With an answer in every round"), (COARSE, "With one answer for the whole batch")):
        shares = {
            query: records[each].rate / max(record.rate for record in records.values())
            for query, records in by_query.items() if each in records
        }  # fmt: skip
        if shares:
            worst = min(shares, key=lambda query: shares[query])
            mean = ratio(geomean(shares.values())).text
            lowest = f", and {ratio(shares[worst]).text} for {worst}" if len(shares) > 1 else ""
            sentences.append(f"{meaning} ({_name(each)}) the rate is {mean} of the best in the geometric mean{lowest}.")
    return " ".join(sentences)
