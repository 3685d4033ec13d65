"""Checks of engines that say their answer, and not at which times it changes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any, Protocol

from deltamark.datagen.feed import TIMES_PER_ROUND, Delta
from deltamark.harness.check import verify
from deltamark.harness.check.checked_run import Answers, Row
from deltamark.harness.measure.cell import Cell
from deltamark.harness.measure.timing import Subject


class Answering(Subject, Protocol):
    """An engine that can say its answer."""

    def answer(self) -> list[Row]: ...


class AnswerCheck:
    """An engine whose answers are compared where batches end after so many rounds, and at the end.

    differ: describes how two answers differ, if they do.
    """

    def __init__(
        self, cell: Cell, engine: Answering, answers: Answers, differ: Callable[[list[Row], list[Row]], str]
    ) -> None:
        self._cell, self._engine, self._answers, self._differ = cell, engine, answers, differ
        self.inputs, self.state_rows = engine.inputs, engine.state_rows
        self._left = sorted(answers)
        self._round = 0
        self.digest = self.wrong = ""

    def prepare(self, deltas: list[Delta]) -> Any:
        first = min(int(delta.time[0]) for delta in deltas)
        self._round = first // TIMES_PER_ROUND * self._cell.logical
        return self._engine.prepare(deltas)

    def push(self, batch: Any) -> int:
        self._catch_up()
        return self._engine.push(batch)

    def advance(self, batch: Any) -> None:
        self._catch_up()
        self._engine.advance(batch)

    def close(self) -> None:
        with closing(self._engine):
            while self._left:
                self._compare()

    def _catch_up(self) -> None:
        while self._left and self._left[0] <= self._round:
            self._compare()

    def _compare(self) -> None:
        rounds = self._left.pop(0)
        wrong = self._differ(self._engine.answer(), self._answers[rounds])
        if wrong and not self.wrong:
            self.wrong = f"after {rounds} rounds (rows in no order):\n{wrong}\n  {_again(self._cell)}"


def _again(cell: Cell) -> str:
    """Return the command that measures a cell again."""
    return (
        f"python -m harness bench --sf {cell.sf} --queries {cell.query} --workload {cell.workload} "
        f"--logical {cell.logical} --physical {cell.physical} --workers {cell.workers} --engines '{cell.engine}'"
    )


def difference(mine: list[Row], theirs: list[Row], tolerance: float = verify.TOLERANCE) -> str:
    """Describe how answers differ whose rows are in no order. Doubles come last in it: their last digits may differ."""
    doubles = {at for row in (*mine, *theirs) for at, value in enumerate(row) if isinstance(value, float)}

    def key(row: Row) -> list[tuple[bool, Any]]:
        order = sorted(range(len(row)), key=lambda at: at in doubles)
        return [(row[at] is None, 0 if row[at] is None else row[at]) for at in order]

    return verify.difference(sorted(mine, key=key), sorted(theirs, key=key), tolerance)
