"""Tables of engines side by side: means by batching with a line for each engine, and rates by query.

They show the batchings in which an external engine was measured beside another engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from deltamark.harness.console.formatting import MARK, NOTHING, TableEntry, brief, count, megabytes, rate, ratio, words
from deltamark.harness.console.table import Entries, Table
from deltamark.harness.engines.base import short_name
from deltamark.harness.measure.stats import geomean, median
from deltamark.harness.results.plausibility import doubt_of
from deltamark.harness.results.record import QueryRecord
from deltamark.harness.tables.entry import entry_of, speed
from deltamark.harness.tables.lookup import Lookup
from deltamark.harness.tables.marks import marked

FASTEST = "to the fastest"


@dataclass(frozen=True)
class Place:
    """The part of a cell that engines beside each other have in common."""

    workload: str
    workers: int
    logical: int
    physical: int

    @property
    def order(self) -> tuple[bool, str, int, int, int]:
        return self.workload != "insert", self.workload, self.workers, self.logical * self.physical, self.logical

    @property
    def batching(self) -> str:
        return f"{self.logical} x {self.physical}"

    @property
    def suffix(self) -> str:
        """The workers and the workload, unless they are the usual ones."""
        return f", {self.workers} workers" * (self.workers > 1) + f", {self.workload}" * (self.workload != "insert")


class Beside:
    """The records of all engines at one place."""

    def __init__(self, lookup: Lookup, place: Place) -> None:
        self.place = place
        found = {engine: [_find(lookup, query, engine, place) for query in lookup.queries] for engine in lookup.engines}
        self.by_engine = {engine: records for engine, records in found.items() if any(records)}
        rows = zip(lookup.queries, zip(*self.by_engine.values(), strict=True), strict=True)
        self.by_query = {query: records for query, records in rows if any(records)}

    def answered(self, engine: str) -> list[QueryRecord]:
        """Return the records of an engine that have numbers."""
        return [record for record in self.by_engine.get(engine, ()) if record and record.has_numbers]

    def to_fastest(self, record: QueryRecord) -> float:
        """Return the rate of a record relative to that of the fastest engine for its query with a plausible time."""
        known = [other for other in self.by_query[record.query] if other and other.has_numbers]
        plausible = [other for other in known if not doubt_of(other)]
        return record.rate / max(other.rate for other in plausible or known)


def _find(lookup: Lookup, query: str, engine: str, place: Place) -> QueryRecord | None:
    return lookup.find(
        query, place.logical, place.physical, workers=place.workers, engine=engine, workload=place.workload
    )


Figure = Callable[[Beside, QueryRecord], float]


@dataclass(frozen=True)
class Mean:
    """The column of a mean. header: empty for that of the batching."""

    header: str
    figure: Figure
    show: Callable[[float], TableEntry]

    def entry(self, beside: Beside | None, engine: str, queries: int) -> TableEntry:
        """Return the mean, with the number of its queries if it is less than usual."""
        records = beside.answered(engine) if beside else []
        figures = [self.figure(beside, record) for record in records] if beside else []
        known = [figure for figure in figures if figure > 0]
        if not known:
            return NOTHING
        entry = self.show(geomean(known))
        fewer = entry if len(known) == queries else replace(entry, text=f"{entry.text} ({len(known)})")
        return marked(fewer, records)


MEANS = {
    "engines": ("tuples per second", [
        Mean("", lambda _, record: record.rate, rate),
        Mean(FASTEST, lambda beside, record: beside.to_fastest(record), ratio),
    ]),
    "engines-latency": ("latency of a batch, 99th percentile", [
        Mean("", lambda _, record: record.latency["p99"], brief),
    ]),
    "engines-memory": ("peak memory in MB", [Mean("", lambda _, record: record.peak_bytes, megabytes)]),
}  # fmt: skip
"""The tables with a line for each engine: their titles, and the columns of each batching."""


def side_by_side(lookup: Lookup) -> list[Table]:
    all_beside = {place: Beside(lookup, place) for place in _places(lookup)}
    if not all_beside:
        return []
    return [
        *(_means(lookup, all_beside, name) for name in MEANS),
        *(_by_query(lookup, beside) for beside in all_beside.values()),
    ]


def _places(lookup: Lookup) -> list[Place]:
    engines: dict[Place, set[str]] = {}
    for record in lookup.records:
        if record.is_default:
            place = Place(record.workload, record.workers, record.logical, record.physical)
            engines.setdefault(place, set()).add(record.engine)
    external = {record.engine for record in lookup.records if record.external}
    found = (place for place, names in engines.items() if len(names) > 1 and names & external)
    return sorted(found, key=lambda place: place.order)


def _means(lookup: Lookup, all_beside: Mapping[Place, Beside], name: str) -> Table:
    title, means = MEANS[name]
    batchings = {(place.logical, place.physical): place.batching for place in all_beside}
    rows = []
    for workload, workers in dict.fromkeys((place.workload, place.workers) for place in all_beside):
        at = [all_beside.get(Place(workload, workers, *batching)) for batching in batchings]
        for engine in lookup.engines:
            answered = [len(beside.answered(engine)) for beside in at if beside]
            if any(answered):
                label = _name(lookup, engine) + Place(workload, workers, 1, 1).suffix
                entries = [mean.entry(beside, engine, max(answered)) for beside in at for mean in means]
                rows.append([words(label), count(max(answered)), *entries])
    headers = ["engine", "queries", *(mean.header or batching for batching in batchings.values() for mean in means)]
    notes = ["geometric means over the queries that an engine answered; columns are batches of L x P rounds"]
    if any(entry.text.removesuffix(MARK).endswith(")") for row in rows for entry in row[2:]):
        notes.append("(n): a mean over n queries alone, which is not comparable with those over more")
    if len(means) > 1:
        notes += [
            "to the fastest: the rate relative to that of the fastest engine with a plausible time for each query",
            *_clocks(lookup),
        ]
    return Table(name, f"Engines: {title}", headers, rows, notes)


def _by_query(lookup: Lookup, beside: Beside) -> Table:
    rows = [[words(query), *_rates(beside, records)] for query, records in beside.by_query.items()]
    headers = ["query", *(header for engine in beside.by_engine for header in (_name(lookup, engine), FASTEST))]
    place = beside.place
    name = f"engines {place.batching}{place.suffix}".replace(" x ", "x").replace(",", "").replace(" ", "-")
    return Table(name, f"Engines by query: tuples per second, {place.batching}{place.suffix}", headers, rows)


def _rates(beside: Beside, records: Iterable[QueryRecord | None]) -> Entries:
    shows = (speed, lambda record: ratio(beside.to_fastest(record)))
    return [entry_of(record, show) for record in records for show in shows]


def _name(lookup: Lookup, engine: str) -> str:
    return short_name(engine) + ", recomputing" * lookup.capabilities(engine).recomputes


def _clocks(lookup: Lookup) -> Iterator[str]:
    """Describe the external engines: what those with a clock leave out of the time of the harness, and the CPU time
    outside the clock.
    """
    for engine in lookup.engines:
        with_numbers = (record for record in lookup.records if record.engine == engine and record.has_numbers)
        records = [record for record in with_numbers if record.external]
        own = [record for record in records if len(record.outside) == len(record.seconds)]
        name = f"{short_name(engine)} is {records[-1].external.name}" if records and records[-1].external else ""
        if own:
            share = median([1 - record.best / record.outside[record.seconds.index(record.best)] for record in own])
            yield f"{name}, timed by its own clock, which leaves out {share:.1%} (the pipe){_untimed(records)}"
        elif name:
            yield f"{name}, timed by the clock of the harness, with the pipe{_untimed(records)}"


def _untimed(records: Iterable[QueryRecord]) -> str:
    """Describe the CPU time of an external engine outside the clock; empty if it was not taken."""
    pairs = [(record.of_fastest(record.untimed_cpu), record.of_fastest(record.timed_cpu)) for record in records]
    shares = [untimed / timed for untimed, timed in pairs if untimed is not None and timed]
    return f"; its CPU time outside the clock is {ratio(median(shares)).text} that within" if shares else ""
