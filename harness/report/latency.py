"""How long single batches take: a list a batch size, a strip a query."""

from __future__ import annotations

from harness.record import Record
from harness.report.about import about
from harness.report.looks import engines_explained
from harness.report.marks import keys_of, legend, look, series
from harness.report.markup import Markup, tag
from harness.report.scale import Log, tick
from harness.report.section import Section, lists
from harness.report.strips import Strip, spread, strips
from harness.tables.entry import brief
from harness.tables.lookup import Lookup

SIZES = (1, 1000, 100_000)


def latency(known: Lookup) -> Section | None:
    found = {size: [record for record in known.records if _is_of(record, size)] for size in SIZES}
    drawn = [record for records in found.values() for record in records]
    if not drawn:
        return None
    scale = Log.over(value for record in drawn for value in _spread(record))
    made = [_list(known, scale, size, records) for size, records in found.items() if records]
    return Section(
        "latency", "Latency of a batch",
        "From the median to the slowest batch of the fastest run, with the mark at the 99th percentile, which is also "
        "the number. One list a batch size, in rounds, over the same axis.",
        [legend(engines_explained(known)), lists(made)],
    )  # fmt: skip


def _is_of(record: Record, size: int) -> bool:
    simple = record.workload == "insert" and record.workers == 1 and record.default and record.shown
    return simple and record.batch_rows == size and 1 in (record.logical, record.physical)


def _list(known: Lookup, scale: Log, size: int, records: list[Record]) -> Markup:
    rows = [_strip(known, scale, query, records) for query in known.queries]
    title = "Batches of one round" if size == 1 else f"Batches of {size:,} rounds"
    drawn = strips(scale, tick, filter(None, rows), label=f"latency, {title}")
    return tag("div", tag("h3", title), drawn)


def _strip(known: Lookup, scale: Log, query: str, records: list[Record]) -> Strip | None:
    """Draw the engines of a query, of each the record at L = 1 if it has one."""
    of_query = sorted((each for each in records if each.query == query), key=lambda each: -each.logical)
    chosen = {record.engine: record for record in of_query}
    ordered = [chosen[engine] for engine in known.engines if engine in chosen]
    if not ordered:
        return None
    drawn = [_drawn(known, scale, record) for record in ordered]
    return Strip(query, drawn, brief(ordered[0].latency["p99"]).text, {"query": query})


def _drawn(known: Lookup, scale: Log, record: Record) -> Markup:
    of = look(known.engines.index(record.engine))
    return series(of, "solid", keys_of(record), spread(of, scale, _spread(record), about(record)))


def _spread(record: Record) -> tuple[float, float, float]:
    return record.latency["p50"], record.latency["p99"], record.latency["max"]
