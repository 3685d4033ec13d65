"""How long single batches take: a list a batch size, a strip a query."""

from __future__ import annotations

from deltamark.harness.console.formatting import brief
from deltamark.harness.report.about import about
from deltamark.harness.report.charts.looks import drawn, in_order, look_of, runner, runners_explained
from deltamark.harness.report.charts.marks import keys_of, legend, series
from deltamark.harness.report.charts.markup import Markup, tag
from deltamark.harness.report.charts.scale import Log, tick
from deltamark.harness.report.charts.strips import Strip, spread, strips
from deltamark.harness.report.section import Section, lists
from deltamark.harness.results.record import QueryRecord
from deltamark.harness.tables.lookup import Lookup

SIZES = (1, 1000, 100_000, 1_000_000)


def latency(known: Lookup) -> Section | None:
    found = {size: [record for record in drawn(known) if _is_of(record, size)] for size in SIZES}
    every = [record for records in found.values() for record in records]
    if not every:
        return None
    scale = Log.over(value for record in every for value in _spread(record))
    made = [_list(known, scale, size, records) for size, records in found.items() if records]
    return Section(
        "latency", "Latency of a batch",
        "From the median to the slowest batch of the fastest run, with the mark at the 99th percentile, which is also "
        "the number. One list a batch size, in rounds, over the same axis.",
        [legend(runners_explained(known, every)), lists(made)],
    )  # fmt: skip


def _is_of(record: QueryRecord, size: int) -> bool:
    return record.workload == "insert" and record.batch_rows == size and 1 in (record.logical, record.physical)


def _list(known: Lookup, scale: Log, size: int, records: list[QueryRecord]) -> Markup:
    rows = [_strip(known, scale, query, records) for query in known.queries]
    title = "Batches of one round" if size == 1 else f"Batches of {size:,} rounds"
    return tag("div", tag("h3", title), strips(scale, tick, filter(None, rows), label=f"latency, {title}"))


def _strip(known: Lookup, scale: Log, query: str, records: list[QueryRecord]) -> Strip | None:
    """Draw the runners of a query, of each the record at L = 1 if it has one."""
    of_query = sorted((each for each in records if each.query == query), key=lambda each: -each.logical)
    ordered = in_order(known, {runner(record): record for record in of_query}.values())
    if not ordered:
        return None
    return Strip(
        query,
        [_drawn(known, scale, record) for record in ordered],
        brief(ordered[0].latency["p99"]).text,
        {"query": query},
    )


def _drawn(known: Lookup, scale: Log, record: QueryRecord) -> Markup:
    of = look_of(known, record)
    return series(of, "solid", keys_of(record), spread(of, scale, _spread(record), about(record)))


def _spread(record: QueryRecord) -> tuple[float, float, float]:
    return record.latency["p50"], record.latency["p99"], record.latency["max"]
