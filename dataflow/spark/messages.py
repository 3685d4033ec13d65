"""Values that travel between the processes of a query: specifications of stages and sources, and messages.

The processes that plan a query import this module, so it must not import the engine: that takes half a second.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Self

from pyspark.sql.datasource import InputPartition

from deltamark.dataflow.spark.ingest.input_source import InputSource

if TYPE_CHECKING:
    from deltamark.dataflow.spark.planning.staged_plan import StagedPlan

MESSAGE_SCHEMA = "label bigint, edge string, batch bigint, content binary"
"""The columns of the Spark rows between stages: a message, the label of its shard and the number of its batch."""

WAKE_UP = ""
"""The edge of the empty message that makes Spark run a shard in batch 0."""


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
    depends on.
    """

    plan: StagedPlan
    number: int
    labels: tuple[int, ...]
    identity: Mapping[str, str]

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
