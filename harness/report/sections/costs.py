"""Sections of costs, each with a strip for a query or cell: the latency of a batch, the state, and more workers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from deltamark.harness.console.table import TableEntry, brief, counted, megabytes, ratio
from deltamark.harness.report.document import Section, lists
from deltamark.harness.report.marks import (
    LOOKS,
    EngineThreads,
    LegendEntry,
    Linear,
    LineKind,
    Log,
    Look,
    Markup,
    chart_records,
    in_order,
    keys_of,
    legend,
    look,
    look_of,
    over,
    retraction_legend,
    runner,
    runner_legend,
    runner_words,
    side_by_side,
    tag,
    tick,
    tooltip,
)
from deltamark.harness.report.panel import Line, Strip, single, strips
from deltamark.harness.results.record import Record
from deltamark.harness.tables.lookup import Lookup

SIZES = (1, 1000, 100_000, 1_000_000)


def latency(lookup: Lookup) -> Section | None:
    by_size = {size: [record for record in chart_records(lookup) if _has_size(record, size)] for size in SIZES}
    everything = [record for records in by_size.values() for record in records]
    if not everything:
        return None
    scale = Log.over(value for record in everything for value in _spread(record))
    charts = [_list(lookup, scale, size, records) for size, records in by_size.items() if records]
    return Section(
        "latency", "Latency of a batch", _latency_finding(lookup, by_size),
        "From the median to the slowest batch of the fastest run; the mark and the number are the 99th percentile. One "
        "list for each batch size in rounds, over the same axis.",
        [legend(runner_legend(lookup, everything)), lists(charts)],
    )  # fmt: skip


def _latency_finding(lookup: Lookup, by_size: Mapping[int, Sequence[Record]]) -> str:
    """State the 99th percentile of each engine, for the smallest batches that most engines have."""
    size = max(by_size, key=lambda size: (len({runner(record) for record in by_size[size]}), -size))
    found: dict[EngineThreads, dict[str, float]] = defaultdict(dict)
    for record in _preferred(lookup, by_size[size]):
        found[runner(record)][record.query] = record.latency["p99"]
    batch = f"of {counted(size, 'round')}"
    return f"The 99th percentile of a batch {batch} is {side_by_side(lookup, found, brief)}, {over(found)}."


def _preferred(lookup: Lookup, records: Iterable[Record]) -> list[Record]:
    """Return one record of each query and runner, with L = 1 if possible."""
    ordered = sorted(records, key=lambda record: -record.logical)
    return in_order(lookup, {(record.query, runner(record)): record for record in ordered}.values())


def _has_size(record: Record, size: int) -> bool:
    return record.is_plain and record.batch_rounds == size and 1 in (record.logical, record.physical)


def _list(lookup: Lookup, scale: Log, size: int, records: list[Record]) -> Markup:
    rows = [_latency_strip(lookup, query, records) for query in lookup.queries]
    title = "Batches of one round" if size == 1 else f"Batches of {size:,} rounds"
    return tag(
        "div",
        tag("h3", title),
        strips(scale, tick, filter(None, rows), label="seconds per batch: p50, p99 and the slowest"),
    )


def _latency_strip(lookup: Lookup, query: str, records: list[Record]) -> Strip | None:
    """Draw one record of each runner of a query."""
    ordered = _preferred(lookup, (record for record in records if record.query == query))
    if not ordered:
        return None
    return Strip(
        query,
        [_latency_mark(lookup, record) for record in ordered],
        brief(ordered[0].latency["p99"]).text,
        {"query": query},
    )


def _latency_mark(lookup: Lookup, record: Record) -> Line:
    p50, p99, most = _spread(record)
    return single(look_of(lookup, record), keys_of(record), p99, tooltip(record), interval=(p50, most))


def _spread(record: Record) -> tuple[float, float, float]:
    return record.latency["p50"], record.latency["p99"], record.latency["max"]


MEGABYTE = 1e6
PREFERRED_ROUNDS = 100_000
"""The batch size to show if several were measured: it hardly changes the state at the end of a stream."""


def state(lookup: Lookup) -> Section | None:
    by_query = {query: _query_records(lookup, query) for query in lookup.queries}
    everything = [record for records in by_query.values() for record in records]
    if not everything:
        return None
    scale = Log.over(record.state_bytes / MEGABYTE for record in everything)
    rows = [
        Strip(
            query, [_state_mark(lookup, record) for record in records], _entry(records[0].state_bytes).text,
            {"query": query},
        )
        for query, records in by_query.items() if records
    ]  # fmt: skip
    entries = [*runner_legend(lookup, everything), *retraction_legend(lookup, everything)]
    return Section(
        "state", "State at the end of the stream", _state_finding(lookup, everything),
        "Memory that a run adds, in megabytes; the number is that of the first engine without retractions.",
        [legend(entries), lists([strips(scale, lambda value: f"{value:g} MB", rows, label="memory added by the run")])],
    )  # fmt: skip


def _state_finding(lookup: Lookup, records: Sequence[Record]) -> str:
    """State the memory of each engine without retractions, or with them if there is nothing else."""
    found: dict[EngineThreads, dict[str, float]] = defaultdict(dict)
    for record in in_order(lookup, [each for each in records if each.is_plain] or records):
        found[runner(record)][record.query] = record.state_bytes
    return f"A run adds {side_by_side(lookup, found, _entry)}, {over(found)}."


def _entry(size: float) -> TableEntry:
    entry = megabytes(size)
    return replace(entry, text=f"{entry.text} MB")


def _query_records(lookup: Lookup, query: str) -> list[Record]:
    """Return one record for each runner and workload of a query, those of our engine first."""
    groups: dict[tuple[EngineThreads, str], list[Record]] = defaultdict(list)
    for record in chart_records(lookup):
        if record.query == query and record.state_bytes:
            groups[runner(record), record.workload].append(record)
    preference = lambda record: (record.batch_rounds == PREFERRED_ROUNDS, record.physical)  # noqa: E731
    records = [max(group, key=preference) for group in groups.values()]
    records.sort(key=lambda record: (not record.is_plain, record.workload))
    return in_order(lookup, records)


def _state_mark(lookup: Lookup, record: Record) -> Line:
    kind: LineKind = "solid" if record.is_plain else "hollow"
    value = record.state_bytes / MEGABYTE
    return single(look_of(lookup, record), keys_of(record), value, tooltip(record), kind=kind)


@dataclass(frozen=True)
class Gain:
    """The speed of several workers, relative to that of one worker for the same cell."""

    record: Record
    speed: float

    @property
    def cell(self) -> str:
        """The name of the cell without its engine."""
        record = self.record
        work = "" if record.is_plain else f", {record.workload}"
        return f"{record.query} {record.logical} x {record.physical}{work}"


def workers(lookup: Lookup) -> Section | None:
    gains = list(_gains(lookup))
    if not gains:
        return None
    numbers = sorted({gain.record.workers for gain in gains})
    highest = max(numbers[-1], ceil(max(gain.speed for gain in gains)))
    scale = Linear(0, 0.5, 2 * highest) if highest <= 4 else Linear(0, ceil(highest / 8), 8)
    looks = {runner(gain.record): _look(lookup, numbers, gain.record) for gain in gains}
    entries = [LegendEntry(each, "solid", runner_words(lookup, *key)) for key, each in looks.items()]
    by_cell: dict[str, list[Gain]] = defaultdict(list)
    for gain in sorted(gains, key=_order):
        by_cell[gain.cell].append(gain)
    rows = [_workers_strip(cell, of_cell, looks) for cell, of_cell in by_cell.items()]
    chart = strips(scale, lambda value: f"{value:g}x", rows, label="speed relative to one worker")
    return Section(
        "workers", "Speed-up by workers", _workers_finding(lookup, gains),
        "The speed of the same cell relative to one worker; below 1x it is slower. The number is the best speed of the "
        "first engine.",
        [legend(entries), lists([chart])],
    )  # fmt: skip


def _gains(lookup: Lookup) -> Iterable[Gain]:
    records = [record for record in lookup.records if record.has_numbers and record.is_default]
    for record in in_order(lookup, records):
        one = lookup.find(record.query, record.logical, record.physical, engine=record.engine, workload=record.workload)
        if record.workers > 1 and one is not None and one.has_numbers:
            yield Gain(record, record.rate / one.rate)


def _order(gain: Gain) -> tuple[str, str, int, int]:
    return gain.record.query, gain.record.workload, gain.record.logical, gain.record.physical


def _look(lookup: Lookup, numbers: Sequence[int], record: Record) -> Look:
    """Return the color of the engine, with an outline for the number of workers."""
    own = look(lookup.engines.index(record.engine))
    return Look(own.color, (own.outline + numbers.index(record.workers)) % LOOKS)


def _workers_strip(cell: str, gains: Sequence[Gain], looks: dict[EngineThreads, Look]) -> Strip:
    marks = [
        single(looks[runner(each.record)], keys_of(each.record), each.speed, tooltip(each.record)) for each in gains
    ]
    best = max(gain.speed for gain in gains if gain.record.engine == gains[0].record.engine)
    return Strip(cell, marks, ratio(best).text, {"query": gains[0].record.query})


def _workers_finding(lookup: Lookup, gains: Iterable[Gain]) -> str:
    found: dict[EngineThreads, dict[str, float]] = defaultdict(dict)
    for gain in gains:
        found[runner(gain.record)][gain.cell] = gain.speed
    return f"Relative to one worker, the speed is {side_by_side(lookup, found, ratio)}, {over(found, 'cells')}."
