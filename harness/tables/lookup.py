"""Look-up of the last record of each cell of one machine and scale factor, however many batches were timed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from deltamark.harness.engines.base import Capabilities, short_name
from deltamark.harness.engines.duckdb import DuckDBEngine
from deltamark.harness.engines.registry import DEFAULT, recorded_capabilities
from deltamark.harness.measure.batch_sizes import CROSSOVER, Batching
from deltamark.harness.results.record import MEASURING, QueryRecord


@dataclass(frozen=True)
class RecordRow:
    """The records of a query and an engine, by the columns of a table."""

    query: str
    engine: str
    records: Sequence[QueryRecord | None]

    @property
    def name(self) -> str:
        return row_name(self.query, self.engine)


class Lookup:
    def __init__(self, records: Iterable[QueryRecord], sf: str) -> None:
        of_sf = [record for record in records if record.sf == sf and record.measuring == MEASURING]
        self.sf = sf
        self._by_commit = {(_cell(record), record.commit): record for record in of_sf}
        self.records = list({_cell(record): record for record in of_sf}.values())
        self._defaults = {record.query: record.variant for record in self.records if record.is_default}
        self._by_cell: dict[tuple[object, ...], QueryRecord] = {}
        self._by_stream: dict[tuple[object, ...], list[QueryRecord]] = defaultdict(list)
        """The records of cells that take the whole stream in one batch."""
        for record in self.records:
            for variant in {record.variant, *([""] if record.is_default else [])}:
                query, logical, physical, *others, _ = _cell(record)
                self._by_cell[query, logical, physical, *others, variant] = record
                if record.batches == 1 and record.fully_timed:
                    self._by_stream[query, *others, variant].append(record)

    def find(  # noqa: PLR0913 (the parts of a cell)
        self,
        query: str,
        logical: int,
        physical: int,
        *,
        workers: int = 1,
        engine: str = DEFAULT,
        workload: str = "insert",
        variant: str = "",
    ) -> QueryRecord | None:
        """Return the record of a cell, or of one with the same batches; an empty variant means the default one."""
        exact = self._by_cell.get((query, logical, physical, workers, engine, workload, variant))
        if exact is not None:
            return exact
        whole = self._by_stream.get((query, workers, engine, workload, variant), ())
        return next((record for record in whole if _takes_all(record, logical, physical)), None)

    def beside(self, record: QueryRecord | None, other: QueryRecord | None) -> QueryRecord | None:
        """Return the record of the same cell that was measured on the commit of another one, if there is one."""
        if record is None or other is None:
            return record
        return self._by_commit.get((_cell(record), other.commit), record)

    def oracle_seconds(self, query: str) -> float:
        """Return the seconds of DuckDB for a query over all rows; 0 if unknown."""
        of_query = [record for record in self.records if (record.query, record.workload) == (query, "insert")]
        return next((record.oracle_seconds for record in reversed(of_query) if record.oracle_seconds), 0.0)

    def name(self, query: str, variant: str) -> str:
        """Return the name of a dataflow; the default one has the name of its query."""
        return query if variant in ("", self._defaults.get(query)) else f"{query} {variant}"

    def recomputed(self, query: str, rounds: int) -> QueryRecord | None:
        """Return the record of DuckDB recomputing after every `rounds` rounds, whether in L or in P."""
        for logical in (rounds, 1):
            if record := self.find(query, logical, rounds // logical, engine=DuckDBEngine.name):
                return record
        return None

    @cached_property
    def several(self) -> list[QueryRecord]:
        """The records of several workers on the default dataflows."""
        return [
            record
            for record in self.records
            if record.workers > 1 and record.is_default and record.workload == "insert"
        ]

    @cached_property
    def queries(self) -> list[str]:
        return sorted({record.query for record in self.records})

    @cached_property
    def engines(self) -> list[str]:
        """The engines, ours first."""
        return sorted({record.engine for record in self.records}, key=lambda name: (name != DEFAULT, name))

    def capabilities(self, engine: str) -> Capabilities:
        """Return the capabilities of an engine that has records."""
        return next(recorded_capabilities(record) for record in self.records if record.engine == engine)

    def rows(self, columns: Sequence[Batching]) -> list[RecordRow]:
        """List queries and engines with records at these batchings; other engines only outside the crossover."""
        found = []
        for engine in self.engines:
            decisive = [engine == DEFAULT or column not in CROSSOVER for column in columns]
            for query in self.queries:
                records = [self.find(query, *column, engine=engine) for column in columns]
                if any(record for record, counts in zip(records, decisive, strict=True) if counts):
                    found.append(RecordRow(query, engine, records))
        return found


def _takes_all(record: QueryRecord, logical: int, physical: int) -> bool:
    """Return whether a batching takes the whole stream in the same batch as a record that does."""
    if record.physical == 1:  # all rounds have one time
        return logical >= record.logical
    return logical == record.logical and physical >= record.physical


def _cell(record: QueryRecord) -> tuple[object, ...]:
    return (
        record.query, record.logical, record.physical, record.workers, record.engine, record.workload, record.variant,
    )  # fmt: skip


def row_name(query: str, engine: str) -> str:
    return query if engine == DEFAULT else f"{query} {short_name(engine)}"
