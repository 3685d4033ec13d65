"""Every engine, as it is measured and as it is checked."""

from __future__ import annotations

from contextlib import closing
from typing import Any, Protocol

from dataflow.embedded import Embedded
from dataflow.worker import Batch
from datagen.dataset import Dataset
from datagen.feed import Delta, Feed
from datagen.workload import Workload
from deltamark import unknown
from harness import verify
from harness.cell import Cell
from harness.checks import Answers, Row, StreamCheck
from harness.distributed import SPARK, Streamed
from harness.engines import ENGINES, Engine, collection, open_engine, open_taking
from harness.measure import Drive, Handed, Subject
from harness.pipes import PREFIX, Pipe, SummedPipe
from harness.recompute import Recompute
from harness.sources import batches
from harness.sparksql import SPARK_SQL, SparkRecompute

DUCKDB = "duckdb"
MEASURED = (*ENGINES, DUCKDB, SPARK_SQL)


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
    """An engine whose last answer is compared."""

    def __init__(self, engine: Answering, answers: Answers) -> None:
        self._engine, self._answers = engine, answers
        self.inputs, self.prepare, self.push = engine.inputs, engine.prepare, engine.push
        self.advance, self.state_rows = engine.advance, engine.state_rows
        self.digest = self.wrong = ""

    def close(self) -> None:
        with closing(self._engine):
            wanted = self._answers[max(self._answers)]
            self.wrong = verify.difference(_sorted(self._engine.answer()), _sorted(wanted))


def known(engine: str) -> str:
    """Return an engine's name, if there is one."""
    if engine not in MEASURED and not engine.startswith(PREFIX):
        raise unknown("engine", engine, [*MEASURED, f"{PREFIX}PROGRAM"])
    return engine


def has_stream(engine: str) -> bool:
    """Has an engine a change stream at exact times, so that it can be digested?"""
    return engine in ENGINES


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
    return AnswerCheck(_answering(cell, dataset), answers)


def _answering(cell: Cell, dataset: Dataset) -> Any:
    if cell.engine == DUCKDB:
        return Recompute(cell, dataset)
    return SparkRecompute(cell, dataset) if cell.engine == SPARK_SQL else SummedPipe(cell, dataset)


def _sorted(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: [(value is None, str(value)) for value in row])
