"""Tables of engines side by side: rates, latency and memory in the batchings that several engines were measured in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from deltamark.harness.console.formatting import TableEntry, brief, megabytes, rate, ratio, words
from deltamark.harness.console.table import Entries, Table
from deltamark.harness.engines.external.named import short_name
from deltamark.harness.measure.stats import geomean, median
from deltamark.harness.results.record import QueryRecord
from deltamark.harness.tables.entry import entry_of, speed
from deltamark.harness.tables.lookup import Lookup

Place = tuple[int, int, int, str]
"""The L, P, number of workers and workload of a table."""


def side_by_side(lookup: Lookup) -> list[Table]:
    """Make a table for each place in which an external engine was measured beside another engine."""
    return [table for place in _places(lookup) for table in _tables(lookup, place)]


def _places(lookup: Lookup) -> list[Place]:
    engines: dict[Place, set[str]] = {}
    for record in lookup.records:
        if record.is_default:
            place = record.logical, record.physical, record.workers, record.workload
            engines.setdefault(place, set()).add(record.engine)
    external = {record.engine for record in lookup.records if record.external}
    return sorted(place for place, names in engines.items() if len(names) > 1 and names & external)


def _tables(lookup: Lookup, place: Place) -> Iterator[Table]:
    logical, physical, workers, workload = place
    engines = [engine for engine in lookup.engines if any(_at(lookup, engine, place))]
    names = [_name(lookup, engine) for engine in engines]
    by_query = {query: [_find(lookup, query, engine, place) for engine in engines] for query in lookup.queries}
    by_query = {query: records for query, records in by_query.items() if any(records)}
    slug = (
        f"{logical}x{physical}"
        + f"-w{workers}" * (workers > 1)
        + f"-{workload.replace(':', '')}" * (workload != "insert")
    )
    at = f"{logical} x {physical}" + f", {workers} workers" * (workers > 1) + f", {workload}" * (workload != "insert")
    rows = [[words(query), *_rates(records)] for query, records in by_query.items()]
    headers = ["query", *(header for name in names for header in (name, "to the fastest"))]
    foot = _foot(list(by_query.values()), lambda record: record.rate, rate, with_ratio=True)
    notes = [
        "to the fastest: the rate relative to that of the fastest engine for the query",
        *_clocks(lookup, engines, place),
    ]
    yield Table(f"engines-{slug}", f"Engines side by side: tuples per second, {at}", headers, rows, notes, foot)
    rows = [[words(query), *_latencies(records)] for query, records in by_query.items()]
    headers = ["query", *(f"{name} {part}" for name in names for part in ("p50", "p99"))]
    yield Table(f"engines-latency-{slug}", f"Engines side by side: latency of a batch, {at}", headers, rows)
    rows = [[words(query), *(entry_of(record, _peak) for record in records)] for query, records in by_query.items()]
    title = f"Engines side by side: peak memory in MB, {at}"
    yield Table(
        f"engines-memory-{slug}", title, ["query", *names], rows, ["memory of the process, and of those it starts"]
    )


def _at(lookup: Lookup, engine: str, place: Place) -> list[QueryRecord]:
    found = (_find(lookup, query, engine, place) for query in lookup.queries)
    return [record for record in found if record is not None]


def _find(lookup: Lookup, query: str, engine: str, place: Place) -> QueryRecord | None:
    logical, physical, workers, workload = place
    return lookup.find(query, logical, physical, workers=workers, engine=engine, workload=workload)


def _name(lookup: Lookup, engine: str) -> str:
    return short_name(engine) + ", recomputing" * lookup.capabilities(engine).recomputes


def _rates(records: Sequence[QueryRecord | None]) -> Entries:
    fastest = max((record.rate for record in records if record and record.has_numbers), default=1.0)
    shows = (speed, lambda record: ratio(record.rate / fastest))
    return [entry_of(record, show) for record in records for show in shows]


def _latencies(records: Sequence[QueryRecord | None]) -> Entries:
    shows = [partial(_latency, part) for part in ("p50", "p99")]
    return [entry_of(record, show) for record in records for show in shows]


def _latency(part: str, record: QueryRecord) -> TableEntry:
    return brief(record.latency[part])


def _peak(record: QueryRecord) -> TableEntry:
    return megabytes(record.peak_bytes)


def _foot(
    rows: Sequence[Sequence[QueryRecord | None]],
    figure: Callable[[QueryRecord], float],
    show: Callable[[float], TableEntry],
    *,
    with_ratio: bool,
) -> Entries | None:
    """Return the geometric means over the queries that every engine has answered; None for fewer than two."""
    complete = [[record for record in row if record and record.has_numbers] for row in rows]
    complete = [row for row, whole in zip(complete, rows, strict=True) if len(row) == len(whole)]
    if len(complete) < 2:
        return None
    columns = list(zip(*complete, strict=True))
    means = [geomean([figure(record) for record in column]) for column in columns]
    foot = [words("geomean")]
    for mean in means:
        foot += [show(mean), *([ratio(mean / max(means))] if with_ratio else [])]
    return foot


def _clocks(lookup: Lookup, engines: Sequence[str], place: Place) -> Iterator[str]:
    """Describe the engines that take their own times, with the share of the harness's time that these leave out."""
    for engine in engines:
        shares = [
            1 - record.best / record.outside[record.seconds.index(record.best)]
            for record in _at(lookup, engine, place)
            if record.has_numbers and len(record.outside) == len(record.seconds)
        ]
        version = next((record.external.name for record in _at(lookup, engine, place) if record.external), "")
        if shares:
            share = f"{median(shares):.1%}"
            yield f"{short_name(engine)} ({version}): by its own clock, which leaves out {share} (the pipe)"
        elif version:
            yield f"{short_name(engine)} ({version}): by the clock of the harness, with the pipe"
