"""When the parts of a micro-batch began and ended, from Spark's report of it and Spark's records of jobs and stages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from deltamark.harness.console.flame import Bar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
