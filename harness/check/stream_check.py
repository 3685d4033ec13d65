"""The check of an engine with a stream: the digest of its changes, and snapshots compared with the oracle's answers."""

from __future__ import annotations

from deltamark.dataflow.batch import Batch, joined
from deltamark.dataflow.types import Schema
from deltamark.datagen.feed import TIMES_A_ROUND
from deltamark.harness.check import verify
from deltamark.harness.check.change_csv import ChangeCsv, Digester
from deltamark.harness.check.change_stream import DIFFS, open_sums
from deltamark.harness.check.oracle import Answers
from deltamark.harness.check.snapshot import Snapshot
from deltamark.harness.engines.base import Engine
from deltamark.harness.measure.cell import Cell
from deltamark.queries.catalogue import query

DIGESTED_ROWS = 1 << 15
"""The number of changes that are digested at once, at least. Not tuned."""


class StreamCheck:
    """Digests the changes of a cell and, if there are answers to compare with, sums them."""

    def __init__(self, cell: Cell, schema: Schema, answers: Answers) -> None:
        self._cell, self._answers = cell, answers
        self._order = query(cell.query).order
        self._due = [(rounds, _last_time(rounds, cell.logical)) for rounds in sorted(answers)]
        self._digester = Digester(ChangeCsv(schema))
        self._sums = open_sums(cell, schema)
        self._snapshot = Snapshot(self._sums.schema if self._sums else schema)
        self._compared_time = -1
        self._waiting: list[Batch] = []
        self._waiting_rows = 0
        self.changes = 0
        self.digest = self.problem = ""

    def add(self, changes: Batch) -> None:
        """Take changes that are later than all before."""
        if len(changes.time):
            self._waiting.append(changes)
            self._waiting_rows += len(changes.time)
        if self._waiting_rows >= DIGESTED_ROWS:
            self._take(joined(self._waiting))
            self._waiting, self._waiting_rows = [], 0

    def before_batch(self, engine: Engine) -> None:
        """Do nothing: the times of the changes decide what a snapshot contains."""

    def finish(self, engine: Engine) -> None:
        del engine
        if self._waiting:
            self._take(joined(self._waiting))
        while self._due:
            self._compare()
        self.digest = str(self._digester.digest())

    def close(self) -> None:
        self._digester.close()
        if self._sums is not None:
            self._sums.close()

    def _take(self, changes: Batch) -> None:
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
        wrong = verify.difference(self._snapshot.answer(self._order), self._answers[rounds])
        if wrong and not self.problem:
            command = self._cell.command("answer", "--rounds", str(rounds))
            self.problem = f"after {rounds} rounds:\n{wrong}\n  {command}"


def _last_time(rounds: int, logical: int) -> int:
    return -(-rounds // logical) * TIMES_A_ROUND - 1
