"""A query over the streaming frames of a caller, as a streaming frame of the changes of its answer."""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.operators.input import base_inputs
from deltamark.dataflow.passes.prune import required_columns
from deltamark.dataflow.runtime.inputs import checked_column
from deltamark.dataflow.spark.chain import chained, shard_count, staged
from deltamark.dataflow.spark.messages import BATCH_PROPERTY, MESSAGE_SCHEMA, WAKE_UP, Message, StageSpec, task_property
from deltamark.dataflow.spark.planning.staged_plan import ROW, Plans, StageOutput, by_answer
from deltamark.dataflow.spark.rescale import rescaled
from deltamark.dataflow.spark.sink import DIFF, QUERY, TIME
from deltamark.dataflow.spark.stage_zero import StageZero, as_arrow
from deltamark.dataflow.sql.arrow_tables import arrow_batch, arrow_table
from deltamark.dataflow.sql.query import sql
from deltamark.dataflow.types import Schema
from deltamark.errors import DeltamarkError, unknown
from deltamark.sources import ship

WEIGHT = "weight of the row"
"""The name of the column with the weights, among the columns of a frame that are read."""

Query: TypeAlias = str | Collection
"""A query: a text of SQL, or a collection."""

MAX_OPEN = 32
"""The inputs whose stage 0 stays alive in a process; a query has at most a few."""


def maintain(  # noqa: PLR0913 (independent settings)
    spark: SparkSession, query: Query | Mapping[str, Query], inputs: Mapping[str, DataFrame], *,
    shards: int | None = None, weight: str | None = None, checkpoint: str | None = None,
) -> DataFrame:  # fmt: skip
    """Maintain a query, or several, over streaming frames; return the streaming frame of the changes of the answers.

    `maintain(spark, "SELECT shop, count(*) AS visits FROM visits GROUP BY shop", {"visits": visits}).writeStream...`

    query: a text of SQL, or a collection over inputs with these names, which may state bounds and keys; or several of
    them by name, whose equal parts are computed and stored once. weight: the column of the frames with the weights of
    changes (1 inserts a row, -1 retracts an equal one); a frame without it only inserts rows. Frames that the query
    does not read are ignored. shards: the parts of the state, by default those of the checkpoint, or one for each core
    of the session. checkpoint: the path of the checkpoint with which the query will be started. If it has another
    number of shards, the state is dealt to these first.

    The columns of the result are `time`, which is the number of the micro-batch, the weight `diff`, and the values. If
    queries have names, there is a struct with the values of each, and `query` has the name of the one that is present.
    The settings in `chain.py` are made in the session; they must be in effect when the query starts.
    """
    if not hasattr(spark, "sparkContext"):
        actual = f"{type(spark).__module__}.{type(spark).__name__}"
        raise DeltamarkError("not a classic session of Spark", actual, "make one by SparkSession.builder.master")
    for name, frame in inputs.items():
        if not frame.isStreaming:
            raise DeltamarkError("not a streaming frame", name, "read it by spark.readStream")
    plans = _plans(query, inputs, weight)
    _check_inputs(plans, inputs)
    count = shard_count(spark, shards)
    ship(spark.sparkContext, Path(spark.sparkContext._temp_dir))  # noqa: SLF001
    if checkpoint is None:
        stages = staged(spark, plans, count, count)
    else:
        stages = rescaled(spark, plans, None if shards is None else count, checkpoint)
    messages = [
        _messages(stages[0], name, schema, inputs[name], weight)
        for name, schema in _schemas_read(stages[0].plan.stages[0]).items()
    ]
    return chained(stages, {1: reduce(DataFrame.union, messages)})


def _schemas_read(outputs: Sequence[StageOutput]) -> dict[str, Schema]:
    """Return the columns that the outputs of stage 0 read of each input."""
    names, inputs = defaultdict[str, set[str]](set), {}
    for output in outputs:
        (node,) = base_inputs(output.node)
        inputs[node.name] = node.schema
        names[node.name] |= {*required_columns(output.node).get(node, ()), *output.texts.values()} - {ROW}
    return {
        name: Schema(tuple(field for field in schema.fields if field.name in names[name]), schema.rows)
        for name, schema in inputs.items()
    }


def _plans(query: Query | Mapping[str, Query], inputs: Mapping[str, DataFrame], weight: str | None) -> Plans:
    """Plan a query, or several by name. Texts read frames as tables."""
    queries = query if isinstance(query, Mapping) else {"": query}
    _check_names(queries)
    relations = {}
    if any(isinstance(each, str) for each in queries.values()):
        for name, frame in inputs.items():
            fields = [each for each in to_arrow_schema(frame.schema, timezone="UTC") if each.name != weight]
            relations[name] = arrow_table(name, pa.schema(fields))
    plans = {name: sql(each, relations) if isinstance(each, str) else each for name, each in queries.items()}
    return plans if isinstance(query, Mapping) else plans[""]


def _check_names(queries: Mapping[str, Query]) -> None:
    """Refuse names that cannot be those of columns, which Spark distinguishes by more than their case."""
    taken = {QUERY, TIME, DIFF}
    for name in queries:
        if name.lower() in taken:
            raise DeltamarkError("not the name of a query", name, "give each query a name of its own")
        taken.add(name.lower())
    if not queries:
        raise DeltamarkError("no query", "an empty mapping", "give at least one")


def _check_inputs(plans: Plans, inputs: Mapping[str, DataFrame]) -> None:
    """Refuse inputs without a frame, and those to which two queries give different bounds."""
    schemas: dict[str, Schema] = {}
    for plan in by_answer(plans).values():
        for each in base_inputs(plan.node):
            if each.name not in inputs:
                raise DeltamarkError("an input without a frame", each.name, f"give one of the name {each.name}")
            if schemas.setdefault(each.name, each.schema) != each.schema:
                raise DeltamarkError("an input with two schemas", each.name, "use the same source in all queries")


def _messages(stage: StageSpec, name: str, schema: Schema, frame: DataFrame, weight: str | None) -> DataFrame:
    """Return the messages that stage 0 sends for the rows of a frame."""
    for column in schema.names:
        if column not in frame.columns:
            raise unknown(f"column of {name}", column, frame.columns)
    weights = f.col(f"`{weight}`") if weight in frame.columns else f.lit(1)
    read = frame.select(*(f.col(f"`{column}`") for column in schema.names), weights.cast("bigint").alias(WEIGHT))
    return read.mapInArrow(FrameTask(stage.to_text(), name, schema), MESSAGE_SCHEMA)


@dataclass(frozen=True)
class FrameTask:
    """The task of an executor that sends a part of a frame through stage 0. stage: a `StageSpec` as text."""

    stage: str
    name: str
    schema: Schema

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        labels, stage_zero = _open(self.stage, self.name)
        context, batch = TaskContext.get(), int(task_property(BATCH_PROPERTY))
        if context is not None and context.partitionId() == 0:
            yield as_arrow(Message(0, WAKE_UP, b""), labels, batch)
        for part in rows:
            if part.num_rows:
                for message in stage_zero.process({self.name: self._changes(part, batch)}):
                    yield as_arrow(message, labels, batch)

    def _changes(self, rows: pa.RecordBatch, batch: int) -> Batch:
        changes = arrow_batch(rows, self.schema, batch, WEIGHT)
        columns = {
            column: checked_column(f"{self.name}.{column}", self.schema[column], values)
            for column, values in changes.columns.items()
        }
        return Batch(changes.time, changes.diff, columns)


@lru_cache(maxsize=MAX_OPEN)
def _open(stage_text: str, name: str) -> tuple[tuple[int, ...], StageZero]:
    stage = StageSpec.from_text(stage_text)
    opened = stage.labels, StageZero([each for each in stage.plan.stages[0] if each.input == name], stage.shards)
    gc.freeze()  # Spark collects garbage after every task, and would look at all modules each time
    return opened
