"""The untimed run of a cell: the digest of its change stream, and its answers beside DuckDB's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from dataflow.types import Schema
from dataflow.worker import Batch
from datagen.dataset import Dataset
from datagen.feed import TIMES_A_ROUND, Delta
from datagen.workload import Workload
from harness import stream, verify
from harness.cell import Cell
from harness.engines import Engine, Whole, open_answer, open_stream
from harness.lines import Digest, Lines
from harness.oracle import Oracle
from harness.snapshot import Snapshot
from harness.sources import batches
from queries.catalogue import query

GATHERED = 1 << 15
"""Changes that are digested at once."""

Row = tuple[Any, ...]
Answers = Mapping[int, list[Row]]
"""DuckDB's, after so many rounds."""


def checkpoints(rounds: int, logical: int) -> list[int]:
    """Return after how many rounds answers are compared: the last boundary in the first half, and the end."""
    half = rounds // 2 // logical * logical
    return [half, rounds] if half else [rounds]


def ask(cell: Cell, dataset: Dataset, work: Workload, rounds: Sequence[int]) -> dict[int, list[Row]]:
    """Have DuckDB answer a query over the rows that are live after some numbers of rounds, in order."""
    oracle = Oracle(dataset, work, query(cell.query).relations, 1)
    answers = {}
    for each in rounds:
        oracle.at(TIMES_A_ROUND * each - 1)
        answers[each] = oracle.answer(cell.sql)
    oracle.close()
    return answers


class Told:
    """What an engine says of a cell, digested; where there are answers, also added up and compared with them."""

    def __init__(self, cell: Cell, schema: Schema, answers: Answers) -> None:
        self._lines, self.digest = Lines(schema), Digest()
        self._snapshot, self._since = Snapshot(schema), -1
        self._order, self._answers, self._cell = query(cell.query).order, answers, cell
        self._left = [(rounds, _last_time(rounds, cell.logical)) for rounds in sorted(answers)]
        self.wrong = ""

    def add(self, changes: Batch) -> None:
        """Take changes that come after all before."""
        self._lines.digest(changes, self.digest)
        while self._left:
            until = self._left[0][1]
            self._snapshot.add(changes, since=self._since, until=until)
            if not len(changes.time) or changes.time[-1] <= until:
                break
            self._compare()

    def end(self) -> None:
        while self._left:
            self._compare()

    def _compare(self) -> None:
        """Compare the answer, now that all changes up to it are there."""
        rounds, self._since = self._left.pop(0)
        wrong = verify.difference(self._snapshot.answer(self._order), self._answers[rounds])
        if wrong and not self.wrong:
            self.wrong = f"after {rounds} rounds:\n{wrong}\n  {self._cell.command('answer', '--rounds', str(rounds))}"


class StreamCheck:
    """An engine that is fed, and what it says."""

    def __init__(self, cell: Cell, dataset: Dataset, work: Workload, answers: Answers) -> None:
        engine = _open(cell, dataset, work, answers)
        assert not isinstance(engine, Whole)
        self._engine = engine
        self.inputs = self._engine.inputs
        self._told = Told(cell, engine.schema, answers)
        self.digest = self._told.digest
        self._waiting: list[Batch] = []
        self._held = 0

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
        self._told.end()
        self._engine.close()

    def _take(self) -> None:
        if self._waiting:
            self._told.add(stream.together(self._waiting))
            self._waiting, self._held = [], 0


def told_whole(cell: Cell, dataset: Dataset, work: Workload, answers: Answers) -> Told:
    """Have an engine that feeds itself say all."""
    with closing(_open(cell, dataset, work, answers)) as engine:
        told = Told(cell, engine.schema, answers)
        for changes in stream.changes(cell, dataset, engine, stream.after(work, cell.logical)):
            told.add(changes)
        told.end()
    return told


def _open(cell: Cell, dataset: Dataset, work: Workload, answers: Answers) -> Engine | Whole:
    """Open an engine; one whose rows are those of the answer, where there are answers."""
    summed = answers and cell.variant in query(cell.query).accumulated
    return open_answer(cell, dataset, work) if summed else open_stream(cell, dataset, work)


def _last_time(rounds: int, logical: int) -> int:
    return -(-rounds // logical) * TIMES_A_ROUND - 1
