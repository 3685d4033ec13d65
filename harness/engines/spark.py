"""The engine on Spark: sessions, and a cell's query there, with the changes of its answer."""

from __future__ import annotations

import atexit
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import Collection
from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import Feed
from deltamark.datagen.schema import RelationName, relation
from deltamark.datagen.spark.session import QUICK, deaths, scratch, session
from deltamark.datagen.workload import workload
from deltamark.errors import DeltamarkError
from deltamark.harness.engines.spark_feed import FeedSource
from deltamark.harness.measure.cell import Cell
from deltamark.harness.results import machine
from deltamark.queries.catalogue import query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltamark.dataflow.spark.query import SparkQuery

SPARK = "spark"
SETTINGS = {"spark.driver.maxResultSize": "0"}
EXECUTOR_MB = 1024
PIECE_ROWS = 1 << 20
"""Changes that are handed on at once."""


class Sessions:
    """The session of this process, which stays for the next query on the same master."""

    def __init__(self) -> None:
        self._master = ""
        self._spark: Any = None
        self._open = ExitStack()
        atexit.register(self.close)

    def on(self, master: str, jvm: str = QUICK) -> SparkSession:
        """Return the session; jvm: options of one that is opened for it."""
        if master != self._master or self._spark.sparkContext._jsc is None:  # noqa: SLF001 (somebody has stopped it)
            self.close()
            self._spark = self._open.enter_context(session(master, SETTINGS, jvm))
            self._master = master
        found: SparkSession = self._spark
        return found

    def close(self) -> None:
        self._master = ""
        self._open.close()


SESSIONS = Sessions()


def on_master(master: str, shards: int, jvm: str = QUICK) -> SparkSession:
    """Open a session: without a master a cluster on this machine, with an executor of one core a shard."""
    return SESSIONS.on(master or f"local-cluster[{shards},1,{EXECUTOR_MB}]", jvm)


def open_query(cell: Cell, dataset: Dataset, plan: Collection, rounds: int, directory: str) -> SparkQuery:
    """Start a cell's query, or let it go on, to the end of so many rounds."""
    from deltamark.dataflow.spark.query import SparkQuery  # noqa: PLC0415 (most commands need no Spark)

    source = FeedSource(
        str(dataset.directory.resolve()), machine.data(dataset.directory), cell.workload, cell.logical,
        cell.physical, rounds, _relations(cell),
    )  # fmt: skip
    return SparkQuery(on_master(cell.master, cell.workers), plan, source, shards=cell.workers, directory=directory)


class Distributed:
    """A query's change stream, computed on Spark as a whole."""

    def __init__(self, cell: Cell, dataset: Dataset, plan: Collection) -> None:
        self._cell, self._dataset, self._plan = cell, dataset, plan
        self._scratch = "" if cell.checkpoint else str(scratch())
        self.schema = plan.schema

    def changes(self, rounds: int) -> Iterator[Batch]:
        """Run to the end of so many rounds; yield all changes, in order of time."""
        directory = self._cell.checkpoint or self._scratch
        with deaths():
            running = open_query(self._cell, self._dataset, self._plan, rounds, directory)
            try:
                running.wait()
            finally:
                running.stop()
            changes = running.changes()
        yield from pieces(changes)

    def close(self) -> None:
        if self._scratch:
            shutil.rmtree(self._scratch, ignore_errors=True)


def pieces(whole: Batch) -> Iterator[Batch]:
    """Cut changes into pieces of whole times."""
    first = 0
    while first < len(whole.time):
        last = min(first + PIECE_ROWS, len(whole.time))
        last = int(np.searchsorted(whole.time, whole.time[last - 1], side="right"))
        columns = {name: values[first:last] for name, values in whole.columns.items()}
        yield Batch(whole.time[first:last], whole.diff[first:last], columns)
        first = last


class Streamed:
    """A query that Spark maintains, batch by batch, as it is measured.

    Spark goes from batch to batch by itself: a batch takes from the end of the one before to its own.
    """

    def __init__(self, cell: Cell, dataset: Dataset, plan: Collection) -> None:
        work = workload(dataset, cell.workload)
        self._physical = cell.physical
        self._scratch = str(scratch())
        self.feed = Feed(dataset, work, dict.fromkeys(_relations(cell), ()), logical=cell.logical)
        self._query = open_query(cell, dataset, plan, work.rounds, self._scratch)
        self._done = self._query.progress()
        self.stages = self._query.stages
        self.reports: list[dict[str, Any]] = []
        """Spark's, of the batches that are done."""
        self._changes = self._next()

    def take(self, physical: int) -> int:
        if physical != self._physical:
            remedy = "time all of them: SAMPLE=0"
            raise DeltamarkError("Spark's batches are all of one size", f"{physical}, not {self._physical}", remedy)
        rows = sum(len(delta.time) for delta in self.feed.take(physical))
        if not rows:
            self._changes += self._next()
        return rows

    def push(self) -> int:
        found, self._changes = self._changes + self._next(), 0
        return found

    def advance(self) -> None:
        self._changes += self._next()

    def _next(self) -> int:
        done = next(self._done)
        self.reports.append(done.report)
        return done.changes

    def said(self) -> Iterator[Batch]:
        """Wait for the end; yield all changes that are stored, in order of time."""
        self._query.wait()
        yield from pieces(self._query.changes())

    def state_rows(self) -> int:
        """Return 0: what the executors keep is not counted."""
        return 0

    def close(self) -> None:
        self._query.stop()
        shutil.rmtree(self._scratch, ignore_errors=True)


def _relations(cell: Cell) -> tuple[RelationName, ...]:
    return tuple(relation(name).name for name in query(cell.query).relations)
