"""The last record of each cell at one scale factor, however many batches were timed: look-up, and relations.

The relations, for SQL:

- `records`: all records with their parameters, the counts and seconds of their fastest runs, all `figures` by name (a
  list has an entry per timed run), and `why` they have no numbers; `whole` is the time of the whole stream, and `cell`
  the position of the record's cell among all cells.
- `latest`: the last records.
- `cells`: for each batching L x P that a table may ask for, the record that answers it, as `Lookup.find` does. A
  dataflow is a variant, or empty for the query's default one.
- `single`: the cells of default dataflows with one worker and the workload `insert`.
- `recomputed`: those of DuckDB, by rounds of a batch.
- `by_commit`: the last record of each cell at each commit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property

import pyarrow as pa

from deltamark.datagen.workloads.registry import PLAIN
from deltamark.harness.benchmarks.benchmark import DEFAULT as BENCHMARK
from deltamark.harness.benchmarks.cell import CROSSOVER, ON_SPARK, PHYSICAL, PRODUCT, SMALL, Batching
from deltamark.harness.engines.base import Capabilities, short_name
from deltamark.harness.engines.duckdb import DuckDBEngine
from deltamark.harness.engines.registry import BUILT_IN, DEFAULT
from deltamark.harness.results import published
from deltamark.harness.results.plausibility import doubt_of
from deltamark.harness.results.record import MEASURING, SPREAD, Record
from deltamark.harness.tables.relation import Relations, listed, why

VIEWS = f"""
CREATE MACRO plain(name) AS name IN {listed(PLAIN)};
CREATE TABLE records AS SELECT *,
    shown(r, CASE WHEN fully_timed THEN {{'number': best, 'is_time': true}}
        ELSE {{'number': rate, 'is_time': false}} END) AS whole FROM given r;
CREATE TABLE latest AS FROM records WHERE is_last;
CREATE TABLE cells AS FROM asked JOIN latest USING (id);
CREATE TABLE single AS FROM cells WHERE dataflow = '' AND plain(workload) AND workers = 1;
CREATE TABLE recomputed AS SELECT DISTINCT ON (query, rounds) L * P AS rounds, * FROM single
    WHERE engine = '{DuckDBEngine.name}' AND 1 IN (L, P) ORDER BY query, rounds, L DESC;
CREATE VIEW by_commit AS SELECT cell, commit, arg_max(r, id) AS record FROM records r GROUP BY cell, commit;
"""

ATTRIBUTES = (
    "query", "sf", "variant", "workload", "engine", "commit", "is_default", "has_numbers", "fully_timed", "logical",
    "physical", "workers", "oracle_seconds", "trace_rows", "trace_seconds", "data", "status",
)  # fmt: skip
NUMBERS = ("best", "rate", "tuples", "batches", "changes", "state_rows", "state_bytes", "peak_bytes")
"""The attributes of records that are columns; NUMBERS are NULL for records without numbers."""

TYPES = {
    pa.string(): (
        "query", "sf", "variant", "workload", "engine", "commit", "short", "runner", "name", "dataflow_name", "why",
        "data", "status",
    ),
    pa.bool_(): (
        "is_last", "is_default", "has_numbers", "fully_timed", "ours", "recomputes", "has_master", "is_external",
        "is_doubtful",
    ),
    pa.int64(): (
        "id", "cell", "rank", "logical", "physical", "workers", "tuples", "batches", "changes", "state_rows",
        "state_bytes", "peak_bytes", "runs",
    ),
    pa.float64(): ("oracle_seconds", "best", "slowest", "rate", "batch_seconds", "cut", *SPREAD),
    pa.list_(pa.float64()): ("trace_rows", "trace_seconds"),
    pa.map_(pa.string(), pa.list_(pa.float64())): ("figures",),
}  # fmt: skip
SCHEMA = pa.schema([(name, kind) for kind, names in TYPES.items() for name in names])

CellKey = tuple[str, int, int, int, str, str, str]
"""Query, L, P, workers, engine, workload and variant."""


class Lookup:
    def __init__(self, records: Iterable[Record], sf: str) -> None:
        self.sf = sf
        self.measured = [record for record in records if record.sf == sf and record.measuring == MEASURING]
        self.last = {_cell(record): at for at, record in enumerate(self.measured)}
        """The position of the last record of each cell."""
        self.records = [self.measured[at] for at in self.last.values()]
        self._plain = next((record.workload for record in self.records if record.workload in PLAIN), "insert")
        self._defaults = {record.query: record.variant for record in self.records if record.is_default}
        self._by_cell: dict[CellKey, Record] = {}
        self._by_stream: dict[tuple[str, int, str, str, str], list[Record]] = defaultdict(list)
        """The records of cells that take the whole stream in one batch."""
        for record in self.records:
            for variant in {record.variant, *([""] if record.is_default else [])}:
                query, logical, physical, workers, engine, workload, _ = _cell(record)
                self._by_cell[query, logical, physical, workers, engine, workload, variant] = record
                if record.batches == 1 and record.fully_timed:
                    self._by_stream[query, workers, engine, workload, variant].append(record)

    def find(  # noqa: PLR0913 (the parts of a cell)
        self,
        query: str,
        logical: int,
        physical: int,
        *,
        workers: int = 1,
        engine: str = DEFAULT,
        workload: str = "",
        variant: str = "",
    ) -> Record | None:
        """Return the record of a cell, or of one with the same batches.

        An empty variant means the default one, and an empty workload that of rows which only arrive, or of the data.
        """
        workload = workload or self._plain
        exact = self._by_cell.get((query, logical, physical, workers, engine, workload, variant))
        if exact is not None:
            return exact
        whole = self._by_stream.get((query, workers, engine, workload, variant), ())
        return next((record for record in whole if _takes_all(record, logical, physical)), None)

    def answers(self, batchings: Collection[Batching]) -> Iterator[tuple[int, int, str, Record]]:
        """Return what `find` finds for all cells, and for these batchings: L, P, the variant, and the record."""
        for (_, logical, physical, _, _, _, variant), record in self._by_cell.items():
            yield logical, physical, variant, record
        for query, workers, engine, workload, variant in self._by_stream:
            for logical, physical in batchings:
                if (query, logical, physical, workers, engine, workload, variant) not in self._by_cell:
                    found = self.find(
                        query, logical, physical, workers=workers, engine=engine, workload=workload, variant=variant
                    )
                    if found is not None:
                        yield logical, physical, variant, found

    def name(self, query: str, variant: str) -> str:
        """Return the name of a dataflow; the default one has the name of its query."""
        return query if variant in ("", self._defaults.get(query)) else f"{query} {variant}"

    def recomputed(self, query: str, rounds: int) -> Record | None:
        """Return the record of DuckDB recomputing after every `rounds` rounds, whether in L or in P."""
        for logical in (rounds, 1):
            if record := self.find(query, logical, rounds // logical, engine=DuckDBEngine.name):
                return record
        return None

    @property
    def is_published(self) -> bool:
        """Whether others have published numbers of the benchmark."""
        return all(record.benchmark == BENCHMARK for record in self.records)

    @cached_property
    def queries(self) -> list[str]:
        return sorted({record.query for record in self.records})

    @cached_property
    def engines(self) -> list[str]:
        """The engines, ours first."""
        return sorted({record.engine for record in self.records}, key=lambda name: (name != DEFAULT, name))

    @cached_property
    def _capabilities(self) -> dict[str, Capabilities]:
        """An engine that maintains some queries and recomputes others counts as one that maintains."""
        ordered = sorted(self.records, key=lambda record: record.recomputed, reverse=True)
        return {record.engine: recorded_capabilities(record) for record in ordered}

    def capabilities(self, engine: str) -> Capabilities:
        """Return the capabilities of an engine that has records."""
        return self._capabilities[engine]

    def columns(self, record: Record) -> dict[str, object]:
        """Return the values of a record in the relation."""
        able, short, numbers = self.capabilities(record.engine), short_name(record.engine), record.has_numbers
        ours, dataflow = record.engine == DEFAULT, self.name(record.query, record.variant)
        return {
            "ours": ours, "rank": self.engines.index(record.engine), "short": short,
            "runner": short + ", recomputing" * able.recomputes,
            "recomputes": recorded_capabilities(record).recomputes, "runs": len(record.seconds),
            "slowest": max(record.seconds) if numbers else None,
            "has_master": able.has_master, "is_external": record.external is not None,
            "name": record.query if ours else f"{record.query} {short}",
            "dataflow_name": dataflow if ours else f"{dataflow} {short}",
            "why": why(record), "is_doubtful": bool(doubt_of(record)),
            "batch_seconds": record.best / record.batches if numbers else None,
            "cut": record.least("cut") if record.cut else None,
            "figures": [(name, [*map(float, values)]) for name, values in record.figures.items()],
            **{name: getattr(record, name) for name in ATTRIBUTES},
            **({name: getattr(record, name) for name in NUMBERS} | record.latency if numbers else {}),
        }  # fmt: skip


ASKED = pa.schema([("L", pa.int64()), ("P", pa.int64()), ("dataflow", pa.string()), ("id", pa.int64())])
"""The batchings that tables ask for, and the records that answer them; there may be none of this way of measuring."""


HOT_DOGS = pa.schema([("query", pa.string()), ("hot_dog", pa.float64())])


def relations(lookups: Sequence[Lookup]) -> Relations:
    """Return the relations of records at some scale factors."""
    rows: list[dict[str, object]] = []
    asked: list[dict[str, object]] = []
    for lookup in lookups:
        first, numbers = len(rows), {cell: at for at, cell in enumerate(lookup.last)}
        for at, record in enumerate(lookup.measured):
            cell = _cell(record)
            place = {"id": first + at, "cell": first + numbers[cell], "is_last": lookup.last[cell] == at}
            rows.append({**place, **lookup.columns(record)})
        batchings = sorted(_batchings(lookup.records))
        for logical, size, variant, record in lookup.answers(batchings):
            asked.append({"L": logical, "P": size, "dataflow": variant, "id": first + lookup.last[_cell(record)]})
    of_others = published.hot_dog() if all(lookup.is_published for lookup in lookups) else {}
    hot_dogs = [{"query": query, "hot_dog": rate} for query, rate in of_others.items()]
    tables = {
        "given": pa.Table.from_pylist(rows, SCHEMA), "asked": pa.Table.from_pylist(asked, ASKED),
        "hot_dogs": pa.Table.from_pylist(hot_dogs, HOT_DOGS),
    }  # fmt: skip
    return Relations(tables, VIEWS)


def _batchings(records: Iterable[Record]) -> set[Batching]:
    """Return the batchings that tables ask for."""
    known = {(record.logical, record.physical) for record in records}
    known |= {*PHYSICAL, *PRODUCT, *SMALL, *CROSSOVER, *ON_SPARK, *(figure.ours for figure in published.figures())}
    return known | {batching for logical, size in known for batching in ((logical * size, 1), (1, logical * size))}


def _takes_all(record: Record, logical: int, physical: int) -> bool:
    """Return whether a batching takes the whole stream in the same batch as a record that does."""
    if record.physical == 1:  # all rounds have one time
        return logical >= record.logical
    return logical == record.logical and physical >= record.physical


def _cell(record: Record) -> CellKey:
    return (
        record.query, record.logical, record.physical, record.workers, record.engine, record.workload, record.variant,
    )  # fmt: skip


def recorded_capabilities(record: Record) -> Capabilities:
    """Return the capabilities of the engine of a record, which may not be on this machine."""
    if record.engine in BUILT_IN:
        return BUILT_IN[record.engine].capabilities
    said = record.external
    if said is None:
        return Capabilities(output="batches")
    return Capabilities(
        output=said.output, recomputes=not said.maintains or bool(record.recomputed), has_session=said.session
    )
