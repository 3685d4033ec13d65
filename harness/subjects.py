"""Every engine, as it is measured and as it is checked."""

from __future__ import annotations

from contextlib import closing
from typing import Any, Protocol

from dataflow.embedded import Embedded
from dataflow.worker import Batch
from datagen.dataset import Dataset
from datagen.feed import TIMES_A_ROUND, Delta, Feed
from datagen.workload import Workload
from deltamark import unknown
from harness import verify
from harness.cell import Cell
from harness.checks import Answers, Row, StreamCheck
from harness.distributed import SPARK, Streamed
from harness.engines import ENGINES, Engine, collection, open_engine, open_taking
from harness.measure import Drive, Handed, Subject
from harness.pipes import PREFIX, Pipe, SummedPipe, command
from harness.recompute import Recompute
from harness.sources import batches
from harness.sparksql import DIGITS, SPARK_SQL, SparkRecompute, like
from harness.windows import half_way
from queries.catalogue import query

DUCKDB = "duckdb"
RECOMPUTING = (DUCKDB, SPARK_SQL)
MEASURED = (*ENGINES, *RECOMPUTING)


class Maintained:
    """An engine of ours."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.inputs = engine.inputs
        self.push = engine.push
        self.state_rows = engine.state_rows
        self.close = engine.close

    def prepare(self, deltas: list[Delta]) -> dict[str, Batch]:
        return batches(deltas)

    def advance(self, batch: dict[str, Batch]) -> None:
        self._engine.push(batch)


class Taken:
    """Several workers of ours, of which each cuts its batches."""

    def __init__(self, engine: Embedded, feed: Feed) -> None:
        self.feed = feed
        self.take, self.push = engine.take, engine.push_taken
        self.state_rows, self.close = engine.state_rows, engine.close

    def advance(self) -> None:
        self.push()


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
        mine, wanted = self._engine.answer(), self._answers[rounds]
        if self._cell.engine == SPARK_SQL:
            wrong = _difference(like(mine, wanted), wanted, DIGITS)
        else:
            wrong = _difference(mine, wanted)
        if wrong and not self.wrong:
            self.wrong = f"after {rounds} rounds (rows in no order):\n{wrong}\n  {_again(self._cell)}"


def known_engine(engine: str) -> str:
    """Return an engine's name, if there is one."""
    if engine.startswith(PREFIX):
        command(engine)
    elif engine not in MEASURED:
        raise unknown("engine", engine, [*MEASURED, f"{PREFIX}PROGRAM"])
    return engine


def has_stream(engine: str) -> bool:
    """Has an engine a change stream at exact times, so that it can be digested?"""
    return engine in ENGINES


def checkpoints(cell: Cell, sample: int, work: Workload) -> list[int]:
    """Return after how many rounds a cell's answers are compared: near the middle where they are known, and at the end.

    A stream says the answer at every time, a program after a feed. DuckDB would recompute it while it is timed.
    """
    half, step = work.rounds // 2, cell.logical * cell.physical
    if has_stream(cell.engine):
        middle = half // cell.logical * cell.logical
    elif cell.engine.startswith(PREFIX):
        middle = half_way(work, query(cell.query).relations, step, sample)
    else:
        middle = 0
    return [middle, work.rounds] if middle else [work.rounds]


def open_subject(cell: Cell, dataset: Dataset, work: Workload) -> Drive:
    """Open an engine to be timed."""
    if cell.engine == SPARK:
        return Streamed(cell, dataset, collection(cell, dataset, work))
    if has_stream(cell.engine) and cell.workers > 1:
        return Taken(*open_taking(cell, dataset, work))
    return Handed(_subject(cell, dataset, work), cell, dataset, work)


def _subject(cell: Cell, dataset: Dataset, work: Workload) -> Subject:
    if cell.engine == DUCKDB:
        return Recompute(cell, dataset)
    if cell.engine == SPARK_SQL:
        return SparkRecompute(cell, dataset)
    if cell.engine.startswith(PREFIX):
        return Pipe(cell, dataset)
    return Maintained(open_engine(cell, dataset, work))


def open_check(cell: Cell, dataset: Dataset, work: Workload, answers: Answers) -> StreamCheck | AnswerCheck:
    """Open an engine to be checked."""
    if has_stream(cell.engine):
        return StreamCheck(cell, dataset, work, answers)
    return AnswerCheck(cell, _answering(cell, dataset), answers)


def _answering(cell: Cell, dataset: Dataset) -> Any:
    if cell.engine == DUCKDB:
        return Recompute(cell, dataset)
    return SparkRecompute(cell, dataset) if cell.engine == SPARK_SQL else SummedPipe(cell, dataset)


def _again(cell: Cell) -> str:
    """Return the command that measures a cell again."""
    return (
        f"python -m harness bench --sf {cell.sf} --queries {cell.query} --workload {cell.workload} "
        f"--logical {cell.logical} --physical {cell.physical} --workers {cell.workers} --engines '{cell.engine}'"
    )


def _difference(mine: list[Row], theirs: list[Row], tolerance: float = verify.TOLERANCE) -> str:
    """Describe how answers differ whose rows are in no order. Doubles come last in it: their last digits may differ."""
    doubles = {at for row in (*mine, *theirs) for at, value in enumerate(row) if isinstance(value, float)}

    def key(row: Row) -> list[tuple[bool, Any]]:
        order = sorted(range(len(row)), key=lambda at: at in doubles)
        return [(row[at] is None, 0 if row[at] is None else row[at]) for at in order]

    return verify.difference(sorted(mine, key=key), sorted(theirs, key=key), tolerance)
