"""The check of an engine without a stream: whole answers, compared with the oracle's between two batches."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any

import pyarrow as pa

from deltamark.errors import DeltamarkError
from deltamark.harness.check.oracle import Answers
from deltamark.harness.check.verify import difference
from deltamark.harness.engines.base import TOLERANCE, AnswerEngine, Engine, Row
from deltamark.harness.measure.cell import Cell


class AnswerCheck:
    """Compares the answers after some numbers of rounds, at which batches must end.

    The answer of an engine with changes of batches is the sum of its changes.
    """

    digest = ""

    def __init__(self, cell: Cell, answers: Answers, tolerance: float = TOLERANCE) -> None:
        self._cell, self._answers, self._tolerance = cell, answers, tolerance
        self._due = sorted(answers)
        self._weights: Counter[Row] = Counter()
        self.changes = 0
        self.problem = ""

    def add(self, changes: pa.Table) -> None:
        self.changes += changes.num_rows
        for _, diff, *row in zip(*(column.to_pylist() for column in changes.columns), strict=True):
            self._weights[tuple(row)] += diff

    def before_batch(self, engine: Engine) -> None:
        while self._due and self._due[0] <= engine.feed.round:
            self._compare(engine)

    def finish(self, engine: Engine) -> None:
        while self._due:
            self._compare(engine)

    def close(self) -> None:
        """Nothing is open."""

    def _compare(self, engine: Engine) -> None:
        rounds = self._due.pop(0)
        answer = engine.answer() if isinstance(engine, AnswerEngine) else self._summed()
        wrong = unordered_difference(answer, self._answers[rounds], self._tolerance)
        if wrong and not self.problem:
            self.problem = f"after {rounds} rounds (rows sorted by their columns):\n{wrong}\n  {_bench(self._cell)}"

    def _summed(self) -> list[Row]:
        for row, weight in self._weights.items():
            if weight < 0:
                actual = f"its changes retract a row that they did not insert: {row}, weight {weight}"
                remedy = "harness/engines/external.py describes the protocol"
                raise DeltamarkError(f"{self._cell.engine} failed to feed", actual, remedy)
        return list(self._weights.elements())


def _bench(cell: Cell) -> str:
    """Return the command that measures a cell again."""
    return (
        f"python -m harness bench --sf {cell.sf} --queries {cell.query} --workload {cell.workload} "
        f"--logical {cell.logical} --physical {cell.physical} --workers {cell.workers} --engines '{cell.engine}'"
    )


def unordered_difference(mine: list[Row], theirs: list[Row], tolerance: float = TOLERANCE) -> str:
    """Describe the first difference between two answers in any order of rows. theirs: the oracle's.

    Decimals are compared as doubles in the columns in which the oracle has doubles. Rows are sorted by these columns
    last, since their last digits may differ.
    """
    doubles = {at for row in (*mine, *theirs) for at, value in enumerate(row) if isinstance(value, float)}

    def key(row: Row) -> list[tuple[bool, Any]]:
        order = sorted(range(len(row)), key=lambda at: at in doubles)
        return [(row[at] is None, 0 if row[at] is None else row[at]) for at in order]

    converted = (
        tuple(float(value) if at in doubles and isinstance(value, Decimal) else value for at, value in enumerate(row))
        for row in mine
    )
    return difference(sorted(converted, key=key), sorted(theirs, key=key), tolerance)
