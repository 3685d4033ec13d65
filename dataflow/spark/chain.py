"""The stages of a plan as a chain of stateful operators of Spark.

The stages form a chain rather than a graph, because Spark computes a streaming frame, and keeps a copy of its state,
once for each frame that reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from hashlib import blake2b

from pyspark.sql import DataFrame, SparkSession

from deltamark.dataflow.spark.messages import MESSAGE_SCHEMA, StageSpec
from deltamark.dataflow.spark.planning.stage_planner import plan_stages
from deltamark.dataflow.spark.planning.staged_plan import Plans, by_answer
from deltamark.dataflow.spark.sink import sent_schema, stored_columns
from deltamark.dataflow.spark.stage import StageProcessor
from deltamark.dataflow.spark.state_log import PLANNED_SHARDS, SHARDS, format_identity
from deltamark.errors import DeltamarkError

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
ROWS_PER_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    ROWS_PER_BATCH: "100000",
}
"""The settings that every query needs when it starts, besides one shuffle partition per shard."""


def identity_of(plans: Plans) -> dict[str, str]:
    """Return what must not change while a checkpoint is in use: the plan, and the format of the stored state."""
    names = [f"{name} {each.node.digest.hex()}" for name, each in by_answer(plans).items()]
    plan = blake2b("\n".join(names).encode(), digest_size=16).hexdigest()
    return {"plan": plan, **format_identity()}


def staged(spark: SparkSession, plans: Plans, shards: int, planned: int) -> list[StageSpec]:
    """Divide a plan into stages for a number of shards, and make the settings of the session that they need.

    planned: the number of shards for which the plan is made, from which those that run it may differ.
    """
    plan = plan_stages(plans, planned)
    identity = {**identity_of(plans), SHARDS: str(shards), PLANNED_SHARDS: str(planned), "edges": plan.digest}
    for name, value in {**SETTINGS, SHUFFLE_PARTITIONS: str(shards)}.items():
        spark.conf.set(name, value)
    labels = shard_labels(spark, shards)
    return [StageSpec(plan, number, labels, identity) for number in range(1, len(plan.stages))]


def shard_count(spark: SparkSession, shards: int | None) -> int:
    """Return a number of shards as it is given, or one for each core of the session."""
    count = spark.sparkContext.defaultParallelism if shards is None else shards
    if not isinstance(count, int) or count < 1:
        raise DeltamarkError("not a number of shards", repr(count), "give at least 1")
    return count


def chained(stages: Sequence[StageSpec], entering: Mapping[int, DataFrame]) -> DataFrame:
    """Return the streaming frame of the changes of all answers. entering: the messages that enter at each stage."""
    chain: list[DataFrame] = []
    for stage in stages:
        if stage.number in entering:
            chain.append(entering[stage.number])
        rows = reduce(DataFrame.union, chain).groupBy("label")
        schema = sent_schema(stage.plan.answers) if stage.is_last else MESSAGE_SCHEMA
        chain = [rows.transformWithStateInPandas(StageProcessor(stage), schema, "append", "none")]
    return chain[0].select(*stored_columns(stages[-1].plan.answers))


def shard_labels(spark: SparkSession, shards: int) -> tuple[int, ...]:
    """Choose the grouping key of each shard, so that shard i is alone in shuffle partition i.

    `groupBy("label")` sends a row to partition `pmod(hash(label), shards)`. With the labels 0, 1, 2 ... two shards may
    hash to one partition: a task would then run both, one after the other, while another task has nothing to do. So
    Spark hashes the first few thousand numbers, and the label of shard i is the least number that hashes to i. Each
    shard has 64 candidates on average, and 1024 more are tried for the sake of a few shards: with S shards the chance
    that a given shard has none is (1 - 1/S)**(64 * S + 1024), less than 1e-27.
    """
    candidates = 64 * shards + 1024
    query = f"SELECT transform(sequence(0L, {candidates}L), label -> pmod(hash(label), {shards})) AS partitions"
    row = spark.sql(query).first()
    assert row is not None
    return tuple(row["partitions"].index(shard) for shard in range(shards))
