"""The check of one run of a cell: its output is compared with the oracle's answers, and a stream is digested."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter

import pyarrow as pa

from deltamark.dataflow.batch import Batch, concatenated
from deltamark.dataflow.types import Schema
from deltamark.datagen.feed import last_time
from deltamark.datagen.workloads.workload import Workload
from deltamark.errors import DeltamarkError
from deltamark.harness.check.change_csv import ChangeCsv, Digester
from deltamark.harness.check.change_stream import DIFFS, DIGESTED_ROWS, open_sums
from deltamark.harness.check.difference import difference, unordered_difference
from deltamark.harness.check.oracle import Answers
from deltamark.harness.check.snapshot import Snapshot
from deltamark.harness.engines.base import TOLERANCE, AnswerEngine, Engine, Row
from deltamark.harness.engines.plans import plan_of
from deltamark.harness.engines.registry import capabilities
from deltamark.harness.measure.cell import Cell
from deltamark.queries.catalogue import query


class RunCheck(ABC):
    """The state of a check. Its method `add`, which takes changes of the engine's class, is the sink of the engine."""

    digest = ""
    problem = ""
    """The first difference; empty if there is none."""
    changes = 0

    @abstractmethod
    def add(self, changes: Batch | pa.Table) -> None:
        """Take the next changes."""

    def before_batch(self, engine: Engine) -> None:  # noqa: B027 (a stream has the answer at any time)
        """Compare the answer that is due before the engine takes its next batch."""

    @abstractmethod
    def finish(self, engine: Engine) -> None:
        """Compare the remaining answers."""

    def close(self) -> None:  # noqa: B027 (most checks hold no resources)
        """Release the resources of the check."""


class StreamCheck(RunCheck):
    """The check of an engine with a stream: a digest of its changes, and snapshots compared with answers."""

    def __init__(self, cell: Cell, schema: Schema, answers: Answers) -> None:
        self._cell, self._answers = cell, answers
        self._order = query(cell.query).order_by
        self._due = [(rounds, last_time(rounds, cell.logical)) for rounds in sorted(answers)]
        self._digester = Digester(ChangeCsv(schema))
        self._sums = open_sums(cell, schema)
        self._snapshot = Snapshot(self._sums.schema if self._sums else schema)
        self._compared_time = -1
        self._waiting: list[Batch] = []
        self._waiting_rows = 0

    def add(self, changes: Batch) -> None:
        """Take changes that are later than all previous ones."""
        if len(changes.time):
            self._waiting.append(changes)
            self._waiting_rows += len(changes.time)
        if self._waiting_rows >= DIGESTED_ROWS:
            self._take()

    def finish(self, engine: Engine) -> None:
        """Take the last changes, compare the remaining answers, and set the digest."""
        del engine
        if self._waiting:
            self._take()
        while self._due:
            self._compare()
        self.digest = str(self._digester.digest())

    def close(self) -> None:
        self._digester.close()
        if self._sums is not None:
            self._sums.close()

    def _take(self) -> None:
        changes = concatenated(self._waiting)
        self._waiting, self._waiting_rows = [], 0
        self.changes += len(changes.time)
        self._digester.add(changes)
        if self._due and self._sums is not None:
            changes = self._sums.feed({DIFFS: changes})
        while self._due:
            until = self._due[0][1]
            self._snapshot.add(changes, since=self._compared_time, until=until)
            if not len(changes.time) or changes.time[-1] <= until:
                break
            self._compare()

    def _compare(self) -> None:
        """Compare the next answer, once all changes up to its time were added."""
        rounds, self._compared_time = self._due.pop(0)
        wrong = difference(self._snapshot.answer(self._order), self._answers[rounds])
        if wrong and not self.problem:
            command = self._cell.command("answer", "--rounds", str(rounds))
            self.problem = f"after {rounds} rounds:\n{wrong}\n  {command}"


class AnswerCheck(RunCheck):
    """The check of an engine without a stream: answers are compared after numbers of rounds at which batches end.

    The answer of an engine with changes of batches is the sum of its changes.
    """

    def __init__(self, cell: Cell, answers: Answers, tolerance: float = TOLERANCE) -> None:
        self._cell, self._answers, self._tolerance = cell, answers, tolerance
        self._due = sorted(answers)
        self._weights: Counter[Row] = Counter()

    def add(self, changes: pa.Table) -> None:
        """Take the changes of a batch."""
        self.changes += changes.num_rows
        for _, diff, *row in zip(*(column.to_pylist() for column in changes.columns), strict=True):
            self._weights[tuple(row)] += diff

    def before_batch(self, engine: Engine) -> None:
        """Compare the answer that is due between two batches."""
        while self._due and self._due[0] <= engine.feed.round:
            self._compare(engine)

    def finish(self, engine: Engine) -> None:
        while self._due:
            self._compare(engine)

    def _compare(self, engine: Engine) -> None:
        rounds = self._due.pop(0)
        engine.finish()
        answer = engine.answer() if isinstance(engine, AnswerEngine) else self._summed()
        wrong = unordered_difference(answer, self._answers[rounds], self._tolerance)
        if wrong and not self.problem:
            self.problem = f"after {rounds} rounds (rows sorted by their columns):\n{wrong}\n  {_bench(self._cell)}"

    def _summed(self) -> list[Row]:
        for row, weight in self._weights.items():
            if weight < 0:
                actual = f"its changes retract a row that they did not insert: {row}, weight {weight}"
                remedy = "docs/protocol.md describes the protocol"
                raise DeltamarkError(f"{self._cell.engine} failed to feed", actual, remedy)
        return list(self._weights.elements())


def _bench(cell: Cell) -> str:
    """Return the command that measures a cell again."""
    return (
        f"python -m harness bench --sf {cell.sf} --queries {cell.query} --workload {cell.workload} "
        f"--logical {cell.logical} --physical {cell.physical} --workers {cell.workers} --engines '{cell.engine}'"
    )


def open_check(cell: Cell, work: Workload, answers: Answers) -> RunCheck:
    """Open the check of a run of a cell. answers: the oracle's; empty: a stream is digested only."""
    engine = capabilities(cell.engine)
    if engine.has_stream:
        return StreamCheck(cell, plan_of(cell, work).schema, answers)
    return AnswerCheck(cell, answers, engine.tolerance)
