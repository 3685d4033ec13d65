"""The tables of workloads: the rate of each one relative to that of `insert`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from deltamark.datagen.workloads.registry import KINDS, meanings
from deltamark.harness.console.formatting import NOTHING, TableEntry, ratio, words
from deltamark.harness.console.table import Entries, Table
from deltamark.harness.engines.base import short_name
from deltamark.harness.measure.batch_sizes import FINE
from deltamark.harness.measure.stats import geomean
from deltamark.harness.results.record import QueryRecord
from deltamark.harness.tables.entry import entry_of, speed
from deltamark.harness.tables.lookup import Lookup, row_name


@dataclass(frozen=True)
class Stream:
    """A workload other than `insert`, in physical batches of some rounds, each with a time of its own."""

    workload: str
    physical: int

    @property
    def _kind(self) -> str:
        return self.workload.partition(":")[0]

    @property
    def order(self) -> tuple[int, str, int]:
        """The position among the columns: kinds that newer code has recorded come last."""
        return [*KINDS, self._kind].index(self._kind), self.workload, self.physical

    @property
    def header(self) -> str:
        """The workload, and the batching unless it is that of `insert`."""
        return self.workload if self.physical == FINE[1] else f"{self.workload}, 1 x {self.physical}"


def workloads(lookup: Lookup) -> Iterator[Table]:
    """Make the tables of workloads: by query, and the means of several engines."""
    streams = sorted({
        Stream(record.workload, record.physical) for record in lookup.records
        if record.workload != "insert" and record.workers == record.logical == 1 and record.is_default
    }, key=lambda stream: stream.order)  # fmt: skip
    rows = {engine: _rows(lookup, engine, streams) for engine in lookup.engines}
    headers = [stream.header for stream in streams]
    notes = [
        meanings(stream.workload for stream in streams),
        "insert: tuples per second, 1 x 100000; others: rates relative to it, which count deletions like insertions",
        "a load is not timed, except that of refresh; -: nothing changes after the load, or not measured",
    ]
    by_query = [row for of_engine in rows.values() for row in of_engine]
    yield Table("workloads", "Workloads: rates relative to insert", ["query", "insert", *headers], by_query, notes)
    means = [[words(short_name(engine)), *_means(of_engine)] for engine, of_engine in rows.items() if of_engine]
    title = "Workloads: rates relative to insert, geometric means over queries"
    yield Table("workload-means", title, ["engine", *headers], means, [notes[0], "over the queries with both rates"])


def _rows(lookup: Lookup, engine: str, streams: list[Stream]) -> list[Entries]:
    rows = []
    for query in lookup.queries:
        insert = lookup.find(query, *FINE, engine=engine)
        records = [
            lookup.find(query, 1, stream.physical, engine=engine, workload=stream.workload) for stream in streams
        ]
        if any(records):
            to_insert = partial(_to_insert, insert)
            shown = [entry_of(record, to_insert) for record in records]
            rows.append([words(row_name(query, engine)), entry_of(insert, speed), *shown])
    return rows


def _means(rows: list[Entries]) -> list[TableEntry]:
    columns = ([entry.value for entry in column if entry.value > 0] for column in [*zip(*rows, strict=True)][2:])
    return [ratio(geomean(values)) if values else NOTHING for values in columns]


def _to_insert(insert: QueryRecord | None, record: QueryRecord) -> TableEntry:
    return ratio(record.rate / insert.rate) if insert is not None and insert.has_numbers else NOTHING
