"""The untimed run of a cell: the digest of its change stream, and its answers beside DuckDB's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol

from deltamark.dataflow.batch import Batch, concatenated
from deltamark.dataflow.types import Schema
from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import TIMES_PER_ROUND, Delta
from deltamark.datagen.workload import Workload
from deltamark.harness.check import verify
from deltamark.harness.check.change_csv import Digester, Lines
from deltamark.harness.check.oracle import Oracle
from deltamark.harness.check.snapshot import Snapshot
from deltamark.harness.engines.duckdb_tables import reads
from deltamark.harness.engines.embedded import open_engine, open_sums
from deltamark.harness.engines.inputs import batches
from deltamark.harness.measure.cell import Cell
from deltamark.harness.measure.timing import Drive
from deltamark.queries.catalogue import query

GATHERED = 1 << 15
"""Changes that are digested at once."""

Row = tuple[Any, ...]
Answers = Mapping[int, list[Row]]
"""DuckDB's, after so many rounds."""


@dataclass(frozen=True)
class Asked:
    """What DuckDB says."""

    answers: Answers
    once: float
    """Seconds that the query takes it over all rows, with one thread; 0 where a workload does not end with all."""


def ask(cell: Cell, dataset: Dataset, work: Workload, rounds: Sequence[int]) -> Asked:
    """Have DuckDB answer a query over the rows that are live after some numbers of rounds, in order."""
    answers = {}
    with closing(Oracle(dataset, work, reads(cell.sql, query(cell.query).relations), 1)) as oracle:
        for each in rounds:
            oracle.at(TIMES_PER_ROUND * each - 1)
            answers[each] = oracle.answer(cell.sql)
        return Asked(answers, oracle.seconds(cell.sql) if cell.workload == "insert" else 0.0)


class Told:
    """What an engine says of a cell, digested; where there are answers, also added up and compared with them."""

    def __init__(self, cell: Cell, schema: Schema, answers: Answers) -> None:
        self._digester, self.digest = Digester(Lines(schema)), ""
        self._sums = open_sums(cell, schema)
        self._snapshot, self._since = Snapshot(self._sums.schema if self._sums else schema), -1
        self._order, self._answers, self._cell = query(cell.query).order, answers, cell
        self._left = [(rounds, _last_time(rounds, cell.logical)) for rounds in sorted(answers)]
        self.changes = 0
        self.wrong = ""

    def add(self, changes: Batch) -> None:
        """Take changes that come after all before."""
        self.changes += len(changes.time)
        self._digester.add(changes)
        if self._left and self._sums is not None:
            changes = self._sums.feed({"diffs": changes})
        while self._left:
            until = self._left[0][1]
            self._snapshot.add(changes, since=self._since, until=until)
            if not len(changes.time) or changes.time[-1] <= until:
                break
            self._compare()

    def close(self) -> None:
        """Compare what is left, and make the digest."""
        while self._left:
            self._compare()
        self.digest = str(self._digester.close())
        if self._sums is not None:
            self._sums.close()

    def _compare(self) -> None:
        """Compare the answer, now that all changes up to it are there."""
        rounds, self._since = self._left.pop(0)
        wrong = verify.difference(self._snapshot.answer(self._order), self._answers[rounds])
        if wrong and not self.wrong:
            self.wrong = f"after {rounds} rounds:\n{wrong}\n  {self._cell.command('answer', '--rounds', str(rounds))}"


class StreamCheck:
    """An engine that is fed, and what it says."""

    def __init__(self, cell: Cell, dataset: Dataset, work: Workload, answers: Answers) -> None:
        self._engine = open_engine(cell, dataset, work)
        self.inputs = self._engine.inputs
        self._told = Told(cell, self._engine.schema, answers)
        self._waiting: list[Batch] = []
        self._held = 0

    @property
    def digest(self) -> str:
        return self._told.digest

    @property
    def wrong(self) -> str:
        return self._told.wrong

    def prepare(self, deltas: list[Delta]) -> dict[str, Batch]:
        return batches(deltas)

    def push(self, batch: dict[str, Batch]) -> int:
        out = self._engine.feed(batch)
        if len(out.time):
            self._waiting.append(out)
            self._held += len(out.time)
        if self._held >= GATHERED:
            self._take()
        return len(out.time)

    def advance(self, batch: dict[str, Batch]) -> None:
        self.push(batch)

    def state_rows(self) -> int:
        return self._engine.state_rows()

    def close(self) -> None:
        """Take what is left."""
        self._take()
        self._told.close()
        self._engine.close()

    def _take(self) -> None:
        if self._waiting:
            self._told.add(concatenated(self._waiting))
            self._waiting, self._held = [], 0


class Saying(Drive, Protocol):
    """An engine that feeds itself, and stores what it says."""

    def said(self) -> Iterator[Batch]: ...


class StoredCheck:
    """An engine that feeds itself: what it has stored is checked at the end of its stream, when it is closed."""

    def __init__(self, engine: Saying, told: Told) -> None:
        self._engine, self.told = engine, told
        self.feed = engine.feed
        self.take, self.push, self.advance = engine.take, engine.push, engine.advance
        self.state_rows = engine.state_rows

    def close(self) -> None:
        with closing(self._engine):
            if self.feed.done:
                with closing(self.told):
                    for changes in self._engine.said():
                        self.told.add(changes)


def _last_time(rounds: int, logical: int) -> int:
    return -(-rounds // logical) * TIMES_PER_ROUND - 1
