"""A staged plan: the outputs that each stage computes, and the edges on which they travel to later stages.

Stage 0 does not read texts that it only passes on. Its program passes on the number of the row in the input batch, by
which the text is fetched afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from deltamark.dataflow.operators.input import base_inputs
from deltamark.dataflow.operators.node import Node
from deltamark.dataflow.types import Field, Schema

ANSWER = "answer"
"""The name of the edge to the sink."""

ROW = "place in the batch"
"""The name, unknown to any schema, of the column with the number of the row in the input batch."""

SUM = "sum\0"
"""The prefix of the names of columns that are only summed."""

MAX_SOURCES = 4
"""The most stages with a source of their own, because Spark starts a process for each source; not measured.

Inputs of later stages enter the chain at the last of these stages and pass through the stages between.
"""


Place: TypeAlias = Literal["owner", "first", "all", "here"]
"""The shards to which rows are sent: to the owners of their keys, to one, to all, or to none but their own."""


@dataclass(frozen=True)
class Edge:
    """Rows that travel from one stage to a later one, where they are the input `name`.

    to: the owners of the values of the columns `by`, the first shard, all shards, or the shard that sends them.
    is_summed: the columns named SUM are only summed, by key of all others, so a log needs their sums alone.
    """

    name: str
    stage: int
    to: Place
    by: tuple[str, ...]
    fields: tuple[Field, ...]
    is_summed: bool = False

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.fields if each.type.kind == "text")


@dataclass(frozen=True)
class StageOutput:
    """The plan by which a stage computes the rows of an edge."""

    edge: Edge
    node: Node
    first_shard_only: bool = False
    texts: Mapping[str, str] = field(default_factory=dict)
    """In stage 0: the column of the input for each text of the edge."""

    @property
    def input(self) -> str:
        """The input that an output of stage 0 reads."""
        return base_inputs(self.node)[0].name


@dataclass(frozen=True)
class StagedPlan:
    """A plan in stages: the schema of its answer, and the outputs of each stage."""

    schema: Schema
    stages: Sequence[Sequence[StageOutput]]

    def arriving(self, stage: int) -> dict[str, Edge]:
        """Return the edges that end in a stage."""
        edges = [output.edge for outputs in self.stages[:stage] for output in outputs]
        return {edge.name: edge for edge in edges if edge.stage == stage}

    def entering(self, stage: int) -> list[StageOutput]:
        """Return the outputs of stage 0 that enter the chain at a stage."""
        return [output for output in self.stages[0] if min(output.edge.stage, MAX_SOURCES) == stage]
