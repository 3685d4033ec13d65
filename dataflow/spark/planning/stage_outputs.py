"""The outputs of the stages, collected while a plan is divided: equal requests for rows share one edge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from deltamark.dataflow.operators.distribution import FIRST, Exchange
from deltamark.dataflow.operators.input import Input, base_rows
from deltamark.dataflow.operators.linear import Filter, Negate, Project
from deltamark.dataflow.operators.node import Node
from deltamark.dataflow.plan.terms import column
from deltamark.dataflow.spark.planning.locations import BY_ROW, Location
from deltamark.dataflow.spark.planning.shard_partitioning import widest
from deltamark.dataflow.spark.planning.staged_plan import ANSWER, ROW, Edge, Place, StageOutput
from deltamark.dataflow.types import Field, Schema, integer

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
