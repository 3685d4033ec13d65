"""Every engine, as it is measured and as it is checked."""

from __future__ import annotations

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.runtime.worker_group import WorkerGroup
from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import Delta, Feed
from deltamark.datagen.workload import Workload
from deltamark.errors import unknown
from deltamark.harness.check.answer_check import AnswerCheck, difference
from deltamark.harness.check.checked_run import Answers, Row, StreamCheck
from deltamark.harness.engines.duckdb import Recompute
from deltamark.harness.engines.embedded import ENGINES, Engine, collection, open_engine, open_taking
from deltamark.harness.engines.external import PREFIX, Pipe, SummedPipe, command
from deltamark.harness.engines.inputs import batches
from deltamark.harness.engines.spark import SPARK, Streamed
from deltamark.harness.engines.spark_sql import DIGITS, SPARK_SQL, SparkRecompute, like
from deltamark.harness.measure.cell import Cell
from deltamark.harness.measure.timing import Drive, Handed, Subject
from deltamark.harness.measure.windows import half_way
from deltamark.queries.catalogue import query

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

    def __init__(self, engine: WorkerGroup, feed: Feed) -> None:
        self.feed = feed
        self.take, self.push = engine.take, engine.push_taken
        self.state_rows, self.close = engine.state_rows, engine.close

    def advance(self) -> None:
        self.push()


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
    if cell.engine == DUCKDB:
        return AnswerCheck(cell, Recompute(cell, dataset), answers, difference)
    if cell.engine == SPARK_SQL:
        return AnswerCheck(cell, SparkRecompute(cell, dataset), answers, _roughly)
    return AnswerCheck(cell, SummedPipe(cell, dataset), answers, difference)


def _roughly(mine: list[Row], wanted: list[Row]) -> str:
    return difference(like(mine, wanted), wanted, DIGITS)
