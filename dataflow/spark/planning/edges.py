"""What goes between the stages of a cut plan, and as what.

Texts travel as bytes: of those that stage 0 only passes on, its program knows no more than their place in the batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from deltamark.dataflow.plan.nodes import Filter, Input, Negate, Node, Project
from deltamark.dataflow.plan.terms import column
from deltamark.dataflow.plan.traversal import base_inputs
from deltamark.dataflow.types import Field, Schema, Type, integer

ANSWER = "answer"

ROW = "place in the batch"
"""The name of a column that no schema has: by it a text that is only passed on is found again."""

PLACE, SUM = integer(0, 1 << 31), "sum\0"
"""The type of that column; and how the columns of an edge are named that are only summed."""


@dataclass(frozen=True)
class Edge:
    """Rows that go from a stage to a later one, where they are the input `name`.

    to: the owners of the values of the columns `by`, the first shard, all of them, or the shard where they are.
    summed: columns named SUM are only summed, by the others, so that of what came nothing but sums need be kept.
    """

    name: str
    stage: int
    to: Literal["owner", "first", "all", "here"]
    by: tuple[str, ...]
    fields: tuple[Field, ...]
    summed: bool = False

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.fields if each.type.kind == "text")


@dataclass(frozen=True)
class Output:
    """What a stage computes for an edge; `first`: at the first shard alone."""

    edge: Edge
    node: Node
    first: bool
    texts: Mapping[str, str] = field(default_factory=dict)
    """In stage 0: of which columns of the input the texts of the edge are."""

    @property
    def input(self) -> str:
        """Return the input of an output of stage 0."""
        return base_inputs(self.node)[0].name


@dataclass(frozen=True)
class Cut:
    schema: Schema
    stages: Sequence[Sequence[Output]]

    def arriving(self, stage: int) -> dict[str, Edge]:
        """Return the edges that end in a stage."""
        edges = [output.edge for outputs in self.stages[:stage] for output in outputs]
        return {edge.name: edge for edge in edges if edge.stage == stage}


def computed(edge: Edge, local: Node, columns: Mapping[str, Type], *, first: bool) -> Output:
    """Say how a stage computes an edge: its columns alone."""
    return Output(edge, _picked(local, columns), first)


def read(edge: Edge, local: Node, columns: Mapping[str, Type]) -> Output:
    """Say how stage 0 does: for texts it has a row's place."""
    kept = {name: type_ for name, type_ in columns.items() if type_.kind != "text"}
    texts = {name: _origin(local, name) for name in edge.texts}
    return Output(edge, _picked(_placed(local), kept | ({ROW: PLACE} if texts else {})), first=False, texts=texts)


def _picked(node: Node, columns: Mapping[str, Type]) -> Node:
    if node.schema.names == tuple(columns):
        return node
    fields = tuple(Field(name, type_) for name, type_ in columns.items())
    pairs = tuple((name, column(name, type_)) for name, type_ in columns.items())
    return Project(node, pairs, schema=Schema(fields, node.schema.rows))


def _placed(chain: Node) -> Node:
    """Carry a row's place through a chain of stateless operators."""
    schema = replace(chain.schema, fields=(*chain.schema.fields, Field(ROW, PLACE)))
    match chain:
        case Input():
            return replace(chain, schema=schema)
        case Project():
            columns = (*chain.columns, (ROW, column(ROW, PLACE)))
            return replace(chain, rows=_placed(chain.rows), columns=columns, schema=schema)
        case Filter() | Negate():
            return replace(chain, rows=_placed(chain.rows), schema=schema)
        case _:
            raise AssertionError(chain)


def _origin(chain: Node, name: str) -> str:
    """Return the column of the input that a text of a chain of stateless operators is."""
    while not isinstance(chain, Input):
        name = chain.copied[name] if isinstance(chain, Project) else name
        (chain,) = chain.inputs
    return name
