"""The rescaling of a query: its checkpoint continues with another number of shards, after its state has been dealt.

The plan remains that of the first number of shards, because the stored changes are those of its edges. All files that
are made lie beside the checkpoint, in `NAME.rescaling/`, until the last step:

1. Deal. A batch job reads the log of each old shard as of the last committed batch, and writes its net changes as
   messages to the new shards, as Parquet (`dealing.py`).
2. Settle. A query of one micro-batch, without a sink, reads these messages. The new shards apply them as the stages of
   the plan apply any batch, and write their logs. So they have the state that they would have if they had been there
   from the beginning.
3. Build. The checkpoint is copied without its state. Spark's `StateRewriter` copies the settled state to it, under the
   number of the last committed batch. A batch that is planned but not committed is planned in the copy, too.
4. Replace. The old checkpoint is renamed, and then the new one.

A rescaling that was killed is continued by the next one to the same number of shards: steps 1 and 2 at the part that
lacks, and step 3 from its beginning. Until step 4 the old checkpoint is as it was, so the query can also continue with
the old number. A kill between the two renamings is made up for by `recover`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from deltamark.dataflow.spark.chain import ROWS_PER_BATCH, SETTINGS, chained, staged
from deltamark.dataflow.spark.checkpoint import COMMITS, METADATA, STATE, Checkpoint
from deltamark.dataflow.spark.dealing import DealTask, dealt_edges
from deltamark.dataflow.spark.directory import Directory
from deltamark.dataflow.spark.failures import explained, repeated
from deltamark.dataflow.spark.messages import MESSAGE_SCHEMA, StageSpec
from deltamark.dataflow.spark.planning.staged_plan import Plans
from deltamark.dataflow.spark.stage import STATE_VARIABLE
from deltamark.dataflow.spark.state_log import SHARDS
from deltamark.errors import DeltamarkError

SUFFIX = ".rescaling"
JOB, DEALT, SETTLED, BUILDING, BUILT, REPLACED = "job.json", "dealt", "settled", "building", "built", "replaced"
"""The names in the directory of a rescaling, in the order in which they are made."""

RUNNING = "a running query cannot be rescaled"

MESSAGES_PER_BATCH = "64"
"""The rows of a batch of Arrow while state is dealt, which bounds its size: a row has at most 64 MB. Not measured."""


def rescaled(spark: SparkSession, plans: Plans, shards: int | None, path: str) -> list[StageSpec]:
    """Return the stages of a query with a checkpoint; deal its state first if it has another number of shards.

    shards: by default those of the checkpoint, or one for each core of the session.
    """
    rescaling = Rescaling(spark, path)
    rescaling.recover()
    checkpoint = rescaling.checkpoint
    stored = checkpoint.shards
    shards = shards or stored or spark.sparkContext.defaultParallelism
    planned = checkpoint.planned_shards or shards
    if planned == 1 and shards > 1:
        remedy = "start with 2 shards or more, in another directory"
        raise DeltamarkError("one shard cannot become several", f"{shards}, as its plan moves no rows", remedy)
    stages = staged(spark, plans, shards, planned)
    if stored in (None, shards):
        rescaling.discard()
    else:
        rescaling.run(stages)
    return stages


class Rescaling:
    """The rescaling of a checkpoint."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark, self.checkpoint = spark, Checkpoint(spark, path)
        self._name = self.checkpoint.name
        self._parent = Directory(spark, self.checkpoint.parent)
        self._own = Directory(spark, self._parent.path(self._name + SUFFIX))

    def recover(self) -> None:
        """Complete the replacement of the checkpoint if it was killed meanwhile."""
        if not self._own.exists(REPLACED):
            return
        if self._own.exists(BUILT):
            if self.checkpoint.exists():
                actual = f"{self.checkpoint.path()} and {self._own.path(BUILT)}"
                raise DeltamarkError("two checkpoints", actual, "the first was begun anew: remove one of them")
            self._own.rename(BUILT, self._parent.path(self._name))
        self.discard()

    def discard(self) -> None:
        """Remove all that a rescaling has left. A directory without the file of its job is never continued."""
        self._own.delete(JOB)
        self._own.delete()

    def run(self, stages: Sequence[StageSpec]) -> None:
        """Deal the state to the shards of some stages."""
        self._refuse_running()
        job = _Job(self.checkpoint.committed_batch, self.checkpoint.planned_batch, stages)
        self._refuse_another_plan(job)
        self._begin(job)
        if not self._own.exists(BUILT):
            self._make(job)
        self._replace(job)

    def _refuse_running(self) -> None:
        """Refuse to rescale a query that runs in this session."""
        if self.checkpoint.exists(METADATA):
            query = self.checkpoint.query
            if any(each.id == query for each in self._spark.streams.active):
                raise DeltamarkError(RUNNING, self.checkpoint.path(), "stop it first")

    def _refuse_another_plan(self, job: _Job) -> None:
        """Refuse a plan with another number of stages. Other plans are refused by the logs of the shards."""
        stored, stages = len(self.checkpoint.numbers(STATE)), len(job.stages)
        if job.committed >= 0 and stored != stages:
            remedy = "repeat the options of the first run, or give another directory"
            raise DeltamarkError("the checkpoint does not match", f"it has {stored} stages, not {stages}", remedy)

    def _begin(self, job: _Job) -> None:
        """Continue an earlier rescaling if it had the same job; otherwise remove it."""
        if self._own.exists(JOB) and self._own.read(JOB) == job.text:
            return
        self.discard()
        self._own.write(JOB, job.text)

    def _make(self, job: _Job) -> None:
        """Make the new checkpoint. If that fails nothing remains; if the process is killed, the next one continues."""
        self._spark.conf.set(ROWS_PER_BATCH, MESSAGES_PER_BATCH)
        try:
            if job.committed >= 0:
                for stage in job.stages:
                    self._deal(stage, job)
                self._settle(job.stages)
            self._build(job)
        except Py4JJavaError as error:
            self.discard()
            raise explained(error) from error
        except DeltamarkError:
            self.discard()
            raise
        finally:
            self._spark.conf.set(ROWS_PER_BATCH, SETTINGS[ROWS_PER_BATCH])

    def _deal(self, stage: StageSpec, job: _Job) -> None:
        if not dealt_edges(stage.plan, stage.number) or self._own.exists(f"{DEALT}/{stage.number}/_SUCCESS"):
            return
        identity = {**stage.identity, SHARDS: str(self.checkpoint.shards)}
        reader = self._spark.read.format("statestore").option("stateVarName", STATE_VARIABLE)
        reader = reader.option("batchId", job.committed).option("operatorId", len(job.stages) - stage.number)
        log = reader.load(self.checkpoint.path()).select(
            f.col("partition_id"), f.col("user_map_key.name"), f.col("user_map_value.content")
        )
        messages = log.mapInArrow(DealTask(stage.to_text(), job.committed, identity), MESSAGE_SCHEMA)
        repeated(lambda: messages.write.mode("overwrite").parquet(self._own.path(f"{DEALT}/{stage.number}")))

    def _settle(self, stages: Sequence[StageSpec]) -> None:
        if self._own.exists(f"{SETTLED}/{COMMITS}/0"):
            return
        final = [replace(stage, is_final=True) for stage in stages]
        entering: dict[int, DataFrame] = {}
        for stage in final:
            if dealt_edges(stage.plan, stage.number):
                source = self._spark.readStream.schema(MESSAGE_SCHEMA)
                entering[stage.number] = source.parquet(self._own.path(f"{DEALT}/{stage.number}"))
        writer = chained(final, entering).writeStream.format("noop").outputMode("append").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", self._own.path(SETTLED))
        repeated(lambda: writer.start().awaitTermination())

    def _build(self, job: _Job) -> None:
        self._own.delete(BUILDING)
        building = Checkpoint(self._spark, self._own.path(BUILDING))
        self.checkpoint.copy_for(job.shards, building)
        if job.committed >= 0:
            context: Any = self._spark.sparkContext
            jvm, option = context._jvm, context._jvm.scala.Option  # noqa: SLF001 (Spark has it for the JVM only)
            jvm.org.apache.spark.sql.execution.streaming.state.StateRewriter(
                self._spark._jsparkSession,  # noqa: SLF001
                0, job.committed, building.path(), building.configuration, option.apply(self._own.path(SETTLED)),
                option.empty(), option.empty(),
            ).run()  # fmt: skip
        self._own.rename(BUILDING, BUILT)

    def _replace(self, job: _Job) -> None:
        if (self.checkpoint.committed_batch, self.checkpoint.planned_batch) != (job.committed, job.planned):
            raise DeltamarkError(RUNNING, self.checkpoint.path(), "stop it first")
        checkpoint = self._parent.path(self._name)
        self._parent.rename(self._name, self._own.path(REPLACED))
        self._own.rename(BUILT, checkpoint)
        self.discard()


@dataclass(frozen=True)
class _Job:
    """The job of a rescaling: the last committed and the last planned batch of the checkpoint, and the new stages."""

    committed: int
    planned: int
    stages: Sequence[StageSpec]

    @property
    def shards(self) -> int:
        return self.stages[0].shards

    @property
    def text(self) -> str:
        return json.dumps([self.committed, self.planned, dict(self.stages[0].identity)])
