"""The untimed run of a cell: the digest of its change stream, and its answers beside DuckDB's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol

from dataflow.worker import Batch
from datagen.dataset import Dataset
from datagen.feed import TIMES_A_ROUND, Delta
from datagen.workload import Workload
from harness import stream, verify
from harness.cell import Cell
from harness.duck import reads
from harness.engines import open_engine, open_sums
from harness.lines import Digester, Lines
from harness.measure import Subject
from harness.oracle import Oracle
from harness.snapshot import Snapshot
from harness.sources import batches
from queries.catalogue import query

GATHERED = 1 << 15
"""Changes that are digested at once."""

Row = tuple[Any, ...]
Answers = Mapping[int, list[Row]]
"""DuckDB's, after so many rounds."""


@dataclass(frozen=True)
class Told:
    """What DuckDB says."""

    answers: Answers
    once: float
    """Seconds that the query takes it, over the rows of the last answer, with one thread."""


def ask(cell: Cell, dataset: Dataset, work: Workload, rounds: Sequence[int]) -> Told:
    """Have DuckDB answer a query over the rows that are live after some numbers of rounds, in order."""
    answers = {}
    with closing(Oracle(dataset, work, reads(cell.sql, query(cell.query).relations), 1)) as oracle:
        for each in rounds:
            oracle.at(TIMES_A_ROUND * each - 1)
            answers[each] = oracle.answer(cell.sql)
        return Told(answers, oracle.seconds(cell.sql))


class StreamCheck:
    """An engine whose changes are digested; where there are answers, also added up and compared with them."""

    def __init__(self, cell: Cell, dataset: Dataset, work: Workload, answers: Answers) -> None:
        self._engine = open_engine(cell, dataset, work)
        self.inputs = self._engine.inputs
        self._digester, self.digest = Digester(Lines(self._engine.schema)), ""
        self._sums = open_sums(cell, self._engine.schema)
        self._snapshot, self._since = Snapshot((self._sums or self._engine).schema), -1
        self._order, self._answers, self._cell = query(cell.query).order, answers, cell
        self._left = [(rounds, _last_time(rounds, cell.logical)) for rounds in sorted(answers)]
        self._waiting: list[Batch] = []
        self._held = 0
        self.wrong = ""

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
        while self._left:
            self._compare()
        self.digest = str(self._digester.close())
        self._engine.close()
        if self._sums is not None:
            self._sums.close()

    def _take(self) -> None:
        if not self._waiting:
            return
        changes = stream.together(self._waiting)
        self._waiting, self._held = [], 0
        self._digester.add(changes)
        if self._left and self._sums is not None:
            changes = self._sums.feed({"diffs": changes})
        while self._left:
            until = self._left[0][1]
            self._snapshot.add(changes, since=self._since, until=until)
            if not len(changes.time) or changes.time[-1] <= until:
                break
            self._compare()

    def _compare(self) -> None:
        """Compare the answer, now that all changes up to it are there."""
        rounds, self._since = self._left.pop(0)
        wrong = verify.difference(self._snapshot.answer(self._order), self._answers[rounds])
        if wrong and not self.wrong:
            self.wrong = f"after {rounds} rounds:\n{wrong}\n  {self._cell.command('answer', '--rounds', str(rounds))}"


class Answering(Subject, Protocol):
    """An engine that can say its answer."""

    def answer(self) -> list[Row]: ...


class AnswerCheck:
    """An engine whose answers are compared where batches end after so many rounds, and at the end."""

    def __init__(self, cell: Cell, engine: Answering, answers: Answers) -> None:
        self._cell, self._engine, self._answers = cell, engine, answers
        self.inputs, self.state_rows = engine.inputs, engine.state_rows
        self._left = sorted(answers)
        self._round = 0
        self.digest = self.wrong = ""

    def prepare(self, deltas: list[Delta]) -> Any:
        first = min(int(delta.time[0]) for delta in deltas)
        self._round = first // TIMES_A_ROUND * self._cell.logical
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
        wrong = _difference(self._engine.answer(), self._answers[rounds])
        if wrong and not self.wrong:
            self.wrong = f"after {rounds} rounds (rows in no order):\n{wrong}\n  {_again(self._cell)}"


def _last_time(rounds: int, logical: int) -> int:
    return -(-rounds // logical) * TIMES_A_ROUND - 1


def _again(cell: Cell) -> str:
    """Return the command that measures a cell again."""
    return (
        f"python -m harness bench --sf {cell.sf} --queries {cell.query} --workload {cell.workload} "
        f"--logical {cell.logical} --physical {cell.physical} --workers {cell.workers} --engines '{cell.engine}'"
    )


def _difference(mine: list[Row], theirs: list[Row]) -> str:
    """Describe how answers differ whose rows are in no order. Doubles come last in it: their last digits may differ."""
    doubles = {at for row in (*mine, *theirs) for at, value in enumerate(row) if isinstance(value, float)}

    def key(row: Row) -> list[tuple[bool, Any]]:
        order = sorted(range(len(row)), key=lambda at: at in doubles)
        return [(row[at] is None, 0 if row[at] is None else row[at]) for at in order]

    return verify.difference(sorted(mine, key=key), sorted(theirs, key=key))
