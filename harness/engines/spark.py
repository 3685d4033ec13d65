"""The same dataflow on Spark, as one Structured Streaming query that reads the workload by itself.

The times of the parts of a micro-batch come from Spark's report of it and from Spark's records of jobs and stages.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from deltamark.dataflow.batch import Batch
from deltamark.datagen.dataset import Dataset
from deltamark.datagen.spark.session import deaths, scratch
from deltamark.datagen.workloads.workload import Workload
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.console.table import Bar
from deltamark.harness.engines.base import Capabilities, PlanEngine, Sink, feed_of
from deltamark.harness.engines.plans import plan_of
from deltamark.harness.engines.spark_feed import FeedSource, on_master
from deltamark.harness.system import machine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltamark.dataflow.language.collection import Collection
    from deltamark.dataflow.spark.checkpoint import ShardState
    from deltamark.dataflow.spark.query import CompletedBatch, SparkQuery


PHASES = {
    "latestOffset": "input offsets", "walCommit": "offset log", "getBatch": "input frames",
    "queryPlanning": "planning", "addBatch": "execution", "commitOffsets": "commit log",
}  # fmt: skip
"""The phases of a micro-batch in the order of time, by their names in a report."""

EXECUTION = "addBatch"


@dataclass(frozen=True)
class StageRun:
    """A stage of Spark in one micro-batch: its times in milliseconds, and the sums over its tasks."""

    start: float
    end: float
    first_task: float
    tasks: int
    starting: float
    """The time that tasks took to start: to fetch and to deserialize what they run."""
    running: float


def timeline(report: Mapping[str, Any], stages: Sequence[StageRun]) -> Iterator[Bar]:
    """Yield the parts of a micro-batch: its phases, its stages, and the mean task of each stage.

    The parts of a mean task are drawn one after another from the first task of its stage.
    """
    begin = 1000 * datetime.fromisoformat(report["timestamp"]).timestamp()
    durations = report["durationMs"]
    yield Bar(f"micro-batch {report['batchId']}", 0, 0, durations["triggerExecution"])
    at = 0.0
    for phase, name in PHASES.items():
        end = at + durations.get(phase, 0)
        yield Bar(name, 1, at, end)
        if phase == EXECUTION:
            operators = [{}, *reversed(report["stateOperators"])]  # Spark lists the last stage first
            for number, (stage, operator) in enumerate(zip(stages, operators, strict=False)):
                yield Bar(f"stage {number}", 2, stage.start - begin, stage.end - begin)
                yield from _mean_task(stage, operator, stage.first_task - begin)
        at = end


def _mean_task(stage: StageRun, operator: Mapping[str, float], start: float) -> Iterator[Bar]:
    """Yield the parts of a task of a stage. operator: Spark's report of its state, if it has one."""
    starting, running = stage.starting / stage.tasks, stage.running / stage.tasks
    shards = max(operator.get("numShufflePartitions", 1), 1)
    python, commit = (operator.get(name, 0) / shards for name in ("allUpdatesTimeMs", "commitTimeMs"))
    lengths = {"task starts": starting, "Python and state": python, "state commit": commit}
    if not operator:
        lengths = {"task starts": starting, "Python": running}
    for name, length in lengths.items():
        yield Bar(name, 3, start, start + length)
        start += length


def stages_of(spark: SparkSession, report: Mapping[str, Any]) -> list[StageRun]:
    """Return the stages of a micro-batch in the order of their numbers; none if Spark has forgotten the batch."""
    context = spark.sparkContext._jsc.sc()  # noqa: SLF001 (pyspark shows no times of stages)
    context.listenerBus().waitUntilEmpty()  # the events of the batch may come after its report
    store = context.statusStore()
    batch = re.compile(rf"^batch = {report['batchId']}$", re.MULTILINE)
    jobs = store.jobsList(None)
    numbers: set[int] = set()
    for job in map(jobs.apply, range(jobs.size())):
        group, text = job.jobGroup(), job.description()
        if group.isDefined() and group.get() == report["runId"] and text.isDefined() and batch.search(text.get()):
            numbers |= {job.stageIds().apply(each) for each in range(job.stageIds().size())}
    return [_stage_run(store.lastStageAttempt(number)) for number in sorted(numbers)]


def _stage_run(data: Any) -> StageRun:
    start, first, end = (
        float(when.get().getTime())
        for when in (data.submissionTime(), data.firstTaskLaunchedTime(), data.completionTime())
    )
    return StageRun(start, end, first, data.numTasks(), data.executorDeserializeTime(), data.executorRunTime())


PIECE_ROWS = 1 << 20
"""The number of stored changes that are yielded at once. Not tuned."""


class SparkEngine(PlanEngine):
    """The engine on Spark: the workers of a cell are shards, and Spark starts each batch by itself.

    The time of a batch runs from the end of the previous batch to its own end.
    """

    name = "spark"
    capabilities = Capabilities(
        output="stream", has_variants=True, reads_input=True, has_session=True, resumes=True, has_master=True
    )

    def __init__(self, cell: Cell, dataset: Dataset, work: Workload, sink: Sink | None = None) -> None:
        self._cell, self._dataset, self._work, self._sink = cell, dataset, work, sink
        self._plan = plan_of(cell, work)
        self.schema = self._plan.schema
        self.feed = feed_of(cell, work, dict.fromkeys(cell.reads, ()))
        self._scratch = "" if cell.checkpoint else str(scratch())
        self._query: SparkQuery | None = None
        self._progress: Iterator[CompletedBatch]
        self._pending: int
        """The changes of finished batches that no call of `apply` has returned."""
        self.reports: list[dict[str, object]] = []
        """Spark's reports of the finished batches."""

    @classmethod
    def open(cls, cell: Cell, dataset: Dataset, work: Workload, sink: Sink | None = None) -> SparkEngine:
        """Start the query, and wait for its first batch."""
        engine = cls(cell, dataset, work, sink)
        engine._query = engine.start(work.rounds)
        engine._progress = engine._query.progress()
        engine._pending = engine._next()
        return engine

    def start(self, rounds: int) -> SparkQuery:
        """Start the query up to a number of rounds, or resume it from its checkpoint."""
        from deltamark.dataflow.spark.query import SparkQuery  # noqa: PLC0415 (most commands need no Spark)

        cell = self._cell
        source = FeedSource(
            str(self._dataset.directory.resolve()), machine.data(self._dataset.directory), cell.workload, cell.logical,
            cell.physical, rounds, cell.reads,
        )  # fmt: skip
        session, directory = on_master(cell.master, cell.workers), cell.checkpoint or self._scratch
        return SparkQuery(session, self._plan, source, shards=cell.workers, directory=directory)

    def take(self, physical: int) -> int:
        if physical != self._cell.physical:
            remedy = "time all of them: SAMPLE=0"
            raise DeltamarkError(
                "Spark's batches are all of one size", f"{physical}, not {self._cell.physical}", remedy
            )
        rows = sum(len(delta.time) for delta in self.feed.take(physical))
        if not rows:
            self._pending += self._next()
        return rows

    def apply(self) -> int:
        changes, self._pending = self._pending + self._next(), 0
        return changes

    def load(self) -> None:
        self._pending += self._next()

    def _next(self) -> int:
        """Wait for the next batch; return the number of its changes."""
        done = next(self._progress)
        self.reports.append(done.report)
        return done.changes

    def state(self) -> list[ShardState]:
        """Return the stored state of each shard."""
        assert self._query
        return self._query.state()

    def timeline(self, report: Mapping[str, Any]) -> list[Bar]:
        """Return the parts of the micro-batch of a report. Spark keeps records of about a thousand micro-batches."""
        spark = on_master(self._cell.master, self._cell.workers)
        return list(timeline(report, stages_of(spark, report)))

    def state_rows(self) -> int:
        """Return the rows in the logs of all shards. A row that several shards need counts several times."""
        return sum(each.rows for each in self.state())

    def stored_bytes(self) -> int:
        return sum(each.size for each in self.state())

    def finish(self) -> None:
        if self._sink is None:
            return
        assert self._query
        self._query.wait()
        for changes in _pieces(self._query.changes()):
            self._sink(changes)

    def changes(self, rounds: int) -> Iterator[Batch]:
        with deaths():
            running = self.start(rounds)
            try:
                running.wait()
            finally:
                running.stop()
            changes = running.changes()
        yield from _pieces(changes)

    @staticmethod
    def explain(plan: Collection, workers: int) -> str:
        """Describe the stages of a plan."""
        from deltamark.dataflow.spark.planning.explain import explain_stages  # noqa: PLC0415
        from deltamark.dataflow.spark.planning.stage_planner import plan_stages  # noqa: PLC0415

        return explain_stages(plan_stages(plan, workers))

    def close(self) -> None:
        if self._query is not None:
            self._query.stop()
        if self._scratch:
            shutil.rmtree(self._scratch, ignore_errors=True)


def _pieces(stored: Batch) -> Iterator[Batch]:
    """Cut changes into pieces of whole times."""
    first = 0
    while first < len(stored.time):
        last = min(first + PIECE_ROWS, len(stored.time))
        last = int(np.searchsorted(stored.time, stored.time[last - 1], side="right"))
        columns = {name: values[first:last] for name, values in stored.columns.items()}
        yield Batch(stored.time[first:last], stored.diff[first:last], columns)
        first = last
