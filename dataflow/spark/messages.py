"""Values that travel between the processes of a query: inputs, specifications of stages and sources, and messages.

The processes that plan a query import this module, so it must not import the engine: that takes half a second.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

from pyspark import TaskContext
from pyspark.sql.datasource import InputPartition

if TYPE_CHECKING:
    from deltamark.dataflow.batch import Batch
    from deltamark.dataflow.spark.planning.staged_plan import StagedPlan

InputColumns = Mapping[str, tuple[str, ...]]
"""The columns that are read of each input."""


class BatchReader(Protocol):
    """An open source, which hands out pieces of its batches."""

    def take(self, batch: int, piece: int, pieces: int, /) -> Mapping[str, Batch]:
        """Return one piece of a batch. The pieces of a batch are disjoint, complete and each in the order of time."""
        ...


class InputSource(Protocol):
    """The changes of a query's inputs. The source is pickled, sent to every executor, and opened there."""

    @property
    def batches(self) -> int:
        """The number of physical batches."""
        ...

    @property
    def identity(self) -> Mapping[str, str]:
        """The properties of the source that must not change while a checkpoint is in use."""
        ...

    def rows(self, batch: int, /) -> int:
        """Estimate the rows of a batch."""
        ...

    def open(self, columns: InputColumns, /) -> BatchReader: ...


MESSAGE_SCHEMA = "label bigint, edge string, batch bigint, content binary"
"""The columns of the Spark rows between stages: a message, the label of its shard and the number of its batch."""

WAKE_UP = ""
"""The edge of the empty message that makes Spark run a shard in batch 0."""


NET = "net "
"""The prefix of the edge of a message with stored net changes, which are dealt to another number of shards."""

MAX_SPECS = 32
"""The specifications that a process keeps unpacked; a query has at most a few."""


class Message(NamedTuple):
    """Packed changes that an edge carries to one shard of the edge's stage."""

    shard: int
    edge: str
    content: bytes


class Spec:
    """A specification. It travels with every task, as text, and is unpacked once in each process."""

    def to_text(self) -> str:
        return base64.b64encode(pickle.dumps(self)).decode()

    @classmethod
    def from_text(cls, text: str) -> Self:
        spec = _unpacked(text)
        assert isinstance(spec, cls)
        return spec


@lru_cache(maxsize=MAX_SPECS)
def _unpacked(text: str) -> object:
    return pickle.loads(base64.b64decode(text))  # noqa: S301 (the driver of this query wrote it)


@dataclass(frozen=True)
class StageSpec(Spec):
    """One stage of a staged plan, for a number of shards.

    labels: the key of each shard in Spark's shuffles. identity: the properties of the query that its stored state
    depends on. is_final: no batch follows the first one, so shards need not stay alive.
    """

    plan: StagedPlan
    number: int
    labels: tuple[int, ...]
    identity: Mapping[str, str]
    is_final: bool = False

    @property
    def shards(self) -> int:
        return len(self.labels)

    @property
    def is_last(self) -> bool:
        return self.number == len(self.plan.stages) - 1


@dataclass(frozen=True)
class ShardKey:
    """The identity of a shard: `run` is Spark's unique name of one run of a query."""

    run: str
    stage: int
    shard: int


@dataclass(frozen=True)
class SourceSpec(Spec):
    """The source of a stage: the inputs, and the specification of the stage that they enter.

    stage: a `StageSpec` as text, because unpacking it imports the engine. shards: the shards of the stage.
    """

    stage: str
    shards: int
    inputs: InputSource


@dataclass
class SourcePartition(InputPartition):
    """The share of a batch that one task reads: some of the pieces into which the batch is cut."""

    batch: int
    own_pieces: range
    pieces: int


BATCH_PROPERTY = "streaming.sql.batchId"
"""The number of the micro-batch: 0, 1, 2 ... since the checkpoint was new."""

RUN_PROPERTY = "spark.jobGroup.id"
"""A unique name for each start of a query."""


def task_property(name: str) -> str:
    """Return a property that Spark has set for the jobs of a streaming query."""
    context = TaskContext.get()
    assert context is not None
    value = context.getLocalProperty(name)
    assert value is not None
    return value
