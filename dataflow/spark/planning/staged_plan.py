"""A staged plan: the outputs that each stage computes, and the edges on which they travel to later stages.

Stage 0 does not read texts that it only passes on. Its program passes on the number of the row in the input batch, by
which the text is fetched afterwards.

The outputs of the stages, collected while a plan is divided: equal requests for rows share one edge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from deltamark.dataflow.operators.distribution import FIRST, Exchange
from deltamark.dataflow.operators.input import Input, base_inputs, base_rows
from deltamark.dataflow.operators.linear import Filter, Negate, Project
from deltamark.dataflow.operators.node import Node
from deltamark.dataflow.plan.terms import column
from deltamark.dataflow.spark.planning.locations import BY_ROW, Location, widest
from deltamark.dataflow.types import Field, Schema, integer

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


ROW_NUMBERS = Field(ROW, integer(0, 1 << 31))


class StageOutputs:
    """Collects the outputs of all stages. columns: the required columns of each node, which the planner may extend."""

    def __init__(self, columns: Mapping[Node, Iterable[str]], shards: int) -> None:
        self._columns, self._shards = columns, shards
        self._inputs: dict[tuple[Node, int, Exchange | None], Input] = {}
        self._outputs: list[tuple[int, StageOutput]] = []

    def send(self, node: Node, at: Location, exchange: Exchange | None, stage: int, *, is_summed: bool) -> Node:
        """Send the rows of a node from its location to a later stage; return the input that has them there."""
        key = (at.local or node, stage, exchange)
        if key not in self._inputs:
            fields = tuple(Field(name, node.schema[name]) for name in self._columns[node])
            to: Place = "first" if at.distribution == FIRST else "here"
            by: tuple[str, ...] = ()
            if exchange is not None:
                assert exchange.to != "slice"  # shards do not share a feed
                to, by = exchange.to, exchange.by
            if exchange == BY_ROW:
                by = widest(fields)
            name = f"{len(self._inputs)}-{node.digest.hex()[:8]}"
            self._add(Edge(name, stage, to, by, fields, is_summed), at)
            rows = min(node.schema.rows, base_rows(node))
            rows = rows // self._shards + 1 if to == "owner" else rows
            self._inputs[key] = Input(name, schema=Schema(fields, rows))
        return self._inputs[key]

    def send_answer(self, root: Node, at: Location) -> None:
        """Send the answer from its location to the sink."""
        self._add(Edge(ANSWER, at.stage + 1, "here", (), root.schema.fields), at)

    def by_stage(self, stages: int) -> list[list[StageOutput]]:
        return [[output for stage, output in self._outputs if stage == number] for number in range(stages)]

    def _add(self, edge: Edge, at: Location) -> None:
        assert at.local is not None
        if at.stage == 0:
            output = _read_in_stage_zero(edge, at.local)
        else:
            output = StageOutput(edge, select(at.local, edge.fields), first_shard_only=at.distribution == FIRST)
        self._outputs.append((at.stage, output))


def _read_in_stage_zero(edge: Edge, chain: Node) -> StageOutput:
    """Compute an edge by a chain of stateless operators over an input, with row numbers instead of texts."""
    fields = [field for field in edge.fields if field.type.kind != "text"]
    texts = {name: _origin(chain, name) for name in edge.texts}
    numbered = [*fields, ROW_NUMBERS] if texts else fields
    return StageOutput(edge, select(_with_row_numbers(chain), numbered), texts=texts)


def select(node: Node, fields: Iterable[Field]) -> Node:
    """Project a node to some fields, unless it has exactly these."""
    fields = tuple(fields)
    names = tuple(field.name for field in fields)
    if node.schema.names == names:
        return node
    pairs = tuple((field.name, column(field.name, field.type)) for field in fields)
    return Project(node, pairs, schema=Schema(fields, node.schema.rows))


def _with_row_numbers(chain: Node) -> Node:
    """Carry the numbers of the rows of the input through a chain of stateless operators."""
    schema = replace(chain.schema, fields=(*chain.schema.fields, ROW_NUMBERS))
    match chain:
        case Input():
            return replace(chain, schema=schema)
        case Project():
            columns = (*chain.columns, (ROW, column(ROW, ROW_NUMBERS.type)))
            return replace(chain, rows=_with_row_numbers(chain.rows), columns=columns, schema=schema)
        case Filter() | Negate():
            return replace(chain, rows=_with_row_numbers(chain.rows), schema=schema)
        case _:
            raise AssertionError(chain)


def _origin(chain: Node, name: str) -> str:
    """Return the column of the input from which a chain of stateless operators copies a text."""
    while not isinstance(chain, Input):
        name = chain.copied[name] if isinstance(chain, Project) else name
        (chain,) = chain.inputs
    return name
