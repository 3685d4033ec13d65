"""The dealing of stored net changes to another number of shards.

Only the changes that stage 0 has sent are dealt: each row goes to its owner among the new shards. The changes between
later stages are not, because they may depend on the shards, as the first 20 rows of each shard do. They follow when the
new shards run their stages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext

from deltamark.dataflow.spark.messages import NET, WAKE_UP, Message, StageSpec
from deltamark.dataflow.spark.net_changes import consolidated, dealt, to_bytes
from deltamark.dataflow.spark.planning.staged_plan import Edge, StagedPlan
from deltamark.dataflow.spark.stage_zero import as_arrow
from deltamark.dataflow.spark.state_log import StoredLog


def dealt_edges(plan: StagedPlan, stage: int) -> dict[str, Edge]:
    """Return the edges that lead from stage 0 to a stage."""
    return {output.edge.name: output.edge for output in plan.stages[0] if output.edge.stage == stage}


def dealt_messages(stage: StageSpec, log: StoredLog, shard: int, identity: Mapping[str, str]) -> Iterator[Message]:
    """Yield the messages by which the log of an old shard is dealt to the shards of a stage.

    identity: the properties of the query that has written the log.
    """
    edges = dealt_edges(stage.plan, stage.number)
    for name, table in log.net_changes_after(log.index(identity), -1).items():
        if name in edges and (edges[name].to != "all" or shard == 0):  # else the first shard has a copy of the rows
            for to, piece in dealt(edges[name], consolidated(edges[name], table), stage.shards):
                yield Message(to, NET + name, to_bytes(piece))


class Contents:
    """The contents of a log, in memory."""

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        self._contents = contents

    def getValue(self, key: tuple[str]) -> tuple[bytes] | None:  # noqa: N802 (as Spark names it)
        content = self._contents.get(key[0])
        return None if content is None else (content,)


@dataclass(frozen=True)
class DealTask:
    """The task of an executor that deals the log of an old shard. It is given the shard, the names and the contents.

    stage: a `StageSpec` as text. batch: the number of the last committed batch, which the new shards begin with.
    """

    stage: str
    batch: int
    identity: Mapping[str, str]

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        stage, context = StageSpec.from_text(self.stage), TaskContext.get()
        if stage.number == 1 and context is not None and context.partitionId() == 0:
            yield as_arrow(Message(0, WAKE_UP, b""), stage.labels, self.batch)
        shard, contents = 0, dict[str, bytes]()
        for part in rows:
            shards, names, values = (column.to_pylist() for column in part.columns)
            contents |= zip(names, values, strict=True)
            shard = shards[0] if shards else shard
        for message in dealt_messages(stage, StoredLog(Contents(contents)), shard, self.identity):
            yield as_arrow(message, stage.labels, self.batch)
