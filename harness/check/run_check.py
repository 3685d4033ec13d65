"""The check of one run of a cell: its output is compared with the oracle's answers, and a stream is digested."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter

import numpy as np
import pyarrow as pa

from deltamark.dataflow.batch import Batch, concatenated
from deltamark.datagen.feed import Feed, last_time
from deltamark.datagen.schema import TIMES_PER_ROUND
from deltamark.datagen.workloads.workload import Workload
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.check.answers import Snapshot, difference, unordered_difference
from deltamark.harness.check.change_stream import DIFFS, DIGESTED_ROWS, ChangeCsv, Digester, open_sums
from deltamark.harness.check.oracle import Answers
from deltamark.harness.engines.base import AnswerEngine, Engine, Row
from deltamark.harness.engines.plans import plan_of
from deltamark.harness.engines.registry import capabilities

READ_ROUNDS = 100_000
"""The rounds whose times are read at once. Not tuned."""


class InputTimes:
    """Reads the times of the rows of a query beside its changes."""

    def __init__(self, cell: Cell, work: Workload) -> None:
        self._feed = Feed(work, dict.fromkeys(cell.reads, ()), logical=cell.logical)
        self._physical = max(READ_ROUNDS // cell.logical, 1)
        self._read: list[np.ndarray] = []
        """The times of rows that may be later than those of the previous changes."""

    def others(self, times: np.ndarray) -> np.ndarray:
        """Return those of some times at which no row arrives or leaves, except 0: the answer to no rows may have a row.

        times: increasing, and not earlier than those of the previous call.
        """
        last = int(times[-1])
        while not self._feed.done and (not self._feed.round or last_time(self._feed.round, self._feed.logical) < last):
            self._read += [delta.time for delta in self._feed.take(self._physical)]
        found = times == 0
        for read in self._read:
            found |= read[np.minimum(np.searchsorted(read, times), len(read) - 1)] == times
        self._read = [read for read in self._read if read[-1] > last]
        return times[~found]


class RunCheck(ABC):
    """The state of a check. Its method `add`, which takes changes of the engine's class, is the sink of the engine."""

    digest = ""
    problem = ""
    """The first difference; empty if there is none."""
    changes = 0

    def __init__(self, cell: Cell, work: Workload, answers: Answers) -> None:
        self._cell, self._rounds, self._answers = cell, work.rounds, answers
        self._due = sorted(answers)
        """The logical times at which an answer will be compared."""

    @abstractmethod
    def add(self, changes: Batch | pa.Table) -> None:
        """Take the next changes."""

    def _found(self, problem: str) -> None:
        """Keep the first problem."""
        self.problem = self.problem or problem

    def _when(self, time: int) -> str:
        return _when(time, self._cell.logical, self._rounds)

    def before_batch(self, engine: Engine) -> None:  # noqa: B027 (a stream has the answer at any time)
        """Compare the answer that is due before the engine takes its next batch."""

    @abstractmethod
    def finish(self, engine: Engine) -> None:
        """Compare the remaining answers."""

    def close(self) -> None:  # noqa: B027 (most checks hold no resources)
        """Release the resources of the check."""


class StreamCheck(RunCheck):
    """The check of an engine with a stream: a digest of its changes, and snapshots compared with answers.

    A stream that is compared may change only at times at which its input does. Without this law, changes at the ends of
    small batches could pass, since the answer seldom differs within one.
    """

    def __init__(self, cell: Cell, work: Workload, answers: Answers) -> None:
        super().__init__(cell, work, answers)
        self._order = cell.definition.order_by
        self._inputs = InputTimes(cell, work) if answers else None
        schema = plan_of(cell, work).schema
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
        if self._inputs is not None:
            self._check_times(self._inputs, changes.time)
        if self._due and self._sums is not None:
            changes = self._sums.feed({DIFFS: changes})
        while self._due:
            until = self._due[0]
            self._snapshot.add(changes, since=self._compared_time, until=until)
            if not len(changes.time) or changes.time[-1] <= until:
                break
            self._compare()

    def _compare(self) -> None:
        """Compare the next answer, once all changes up to its time were added."""
        self._compared_time = self._due.pop(0)
        wrong = difference(self._snapshot.answer(self._order), self._answers[self._compared_time])
        if wrong:
            command = self._cell.command("answer", "--at", str(self._compared_time))
            self._found(f"{self._when(self._compared_time)}:\n{wrong}\n  {command}")

    def _check_times(self, inputs: InputTimes, times: np.ndarray) -> None:
        """Find the first time at which the answer changes, but no row arrives or leaves."""
        others = inputs.others(np.unique(times))
        if len(others):
            problem = f"the answer changes at time {others[0]}, at which no row arrives or leaves"
            self._found(f"{problem}\n  {self._cell.command('changes')}")


class AnswerCheck(RunCheck):
    """The check of an engine without a stream: answers are compared at logical times at which batches end.

    The answer of an engine with changes of batches is the sum of its changes.
    """

    def __init__(self, cell: Cell, work: Workload, answers: Answers) -> None:
        super().__init__(cell, work, answers)
        self._tolerance = capabilities(cell.engine).tolerance
        self._weights: Counter[Row] = Counter()

    def add(self, changes: pa.Table) -> None:
        """Take the changes of a batch."""
        self.changes += changes.num_rows
        for _, diff, *row in zip(*(column.to_pylist() for column in changes.columns), strict=True):
            self._weights[tuple(row)] += diff

    def before_batch(self, engine: Engine) -> None:
        """Compare the answer that is due between two batches."""
        while self._due and engine.feed.round and self._due[0] <= last_time(engine.feed.round, self._cell.logical):
            self._compare(engine)

    def finish(self, engine: Engine) -> None:
        while self._due:
            self._compare(engine)

    def _compare(self, engine: Engine) -> None:
        time = self._due.pop(0)
        engine.finish()
        answer = engine.answer() if isinstance(engine, AnswerEngine) else self._summed()
        wrong = unordered_difference(answer, self._answers[time], self._tolerance)
        if wrong:
            self._found(f"{self._when(time)} (rows sorted by their columns):\n{wrong}\n  {_bench(self._cell)}")

    def _summed(self) -> list[Row]:
        for row, weight in self._weights.items():
            if weight < 0:
                actual = f"its changes retract a row that they did not insert: {row}, weight {weight}"
                remedy = "docs/protocol.md describes the protocol"
                raise DeltamarkError(f"{self._cell.engine} failed to feed", actual, remedy)
        return list(self._weights.elements())


def _when(time: int, logical: int, rounds: int) -> str:
    """Describe a logical time by the rounds of a workload."""
    batch, rank = divmod(time, TIMES_PER_ROUND)
    first, stop = batch * logical, min((batch + 1) * logical, rounds)
    if rank == TIMES_PER_ROUND - 1:
        return f"after {stop} rounds"
    return f"at time {time}, within " + (f"round {first}" if logical == 1 else f"rounds {first} to {stop - 1}")


def _bench(cell: Cell) -> str:
    """Return the command that measures a cell again."""
    return (
        f"python -m harness bench --sf {cell.sf} --queries {cell.query} --workload {cell.workload} "
        f"--logical {cell.logical} --physical {cell.physical} --workers {cell.workers} --engines '{cell.engine}'"
    )


def open_check(cell: Cell, work: Workload, answers: Answers) -> RunCheck:
    """Open the check of a run of a cell. answers: the oracle's; empty: a stream is digested only."""
    kind = StreamCheck if capabilities(cell.engine).has_stream else AnswerCheck
    return kind(cell, work, answers)
