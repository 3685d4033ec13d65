"""Staged plans: the outputs of each stage, the edges on which they travel, and the shards that have each row.

Stage 0 does not read texts that it only passes on. Its program passes on the number of the row in the input batch, by
which the text is fetched afterwards. Equal requests for rows share one edge.

Rows are distributed over shards as over workers (`operators/distribution.py`), with three differences: shards never own
ranges of keys, distinct rows may be partitioned by their preferred keys, and an input that only the first shard reads
is sent to it alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Literal, TypeAlias

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.operators.by_key import Merging, Paired
from deltamark.dataflow.operators.distribution import (
    ANYWHERE,
    FIRST,
    WHOLE,
    Distribution,
    Exchange,
    OperatorDistribution,
)
from deltamark.dataflow.operators.input import Input, base_inputs, base_rows
from deltamark.dataflow.operators.join import Join
from deltamark.dataflow.operators.linear import Concat, Filter, Negate, Project, subtracts
from deltamark.dataflow.operators.node import Node, distribute
from deltamark.dataflow.passes.partition import has_many_keys
from deltamark.dataflow.plan.terms import column
from deltamark.dataflow.types import Field, Schema, integer


@dataclass(frozen=True)
class Location:
    """The stage and the shards in which the rows of a node are available.

    placed      in `stage`, as the result of the node `local` over the inputs of that stage, and in later stages
    unplaced    in any stage: computed from inputs and replicated rows wherever they are needed
    replicated  in any stage, with a copy at every shard
    """

    kind: Literal["placed", "unplaced", "replicated"]
    stage: int = 0
    distribution: Distribution = ANYWHERE
    local: Node | None = None


UNPLACED, REPLICATED = Location("unplaced"), Location("replicated")

BY_ROW = Exchange("owner")
"""The exchange that moves equal rows to the same shard, by the widest of their columns."""


def may_cancel(node: Node, at: Location) -> bool:
    """Return whether a row may have a negative weight at one shard, because its other copies are at other shards."""
    return not at.distribution.equal_rows_meet and subtracts(node)


def is_chain(node: Node) -> bool:
    """Return whether a node can be computed from one input row by row, without state, and only copies texts.

    Stage 0 sends a text as the place of the input's row that has it, so it cannot send a computed one.
    """
    match node:
        case Project():
            texts = [name for name, term in node.columns if term.type.kind == "text"]
            return is_chain(node.rows) and node.copied.keys() >= set(texts)
        case Filter() | Negate():
            return is_chain(node.rows)
    return isinstance(node, Input)


def exchange_below(node: Node, below: Node, exchange: Exchange) -> Exchange | None:
    """Return the exchange of the input `below` with the same effect as an exchange of an unplaced node, or None."""
    names = {name: name for name in exchange.by}
    if isinstance(node, Project):
        names = dict(node.copied)
    if isinstance(node, Join) and below is node.right:
        names |= dict(zip(node.left_keys, node.right_keys, strict=True))
    by = tuple(names[name] for name in exchange.by if name in names and names[name] in below.schema)
    return replace(exchange, by=by) if len(by) == len(exchange.by) else None


def can_deal(node: Node, exchange: Exchange) -> bool:
    """Return whether the rows of a replicated node can be sent to the owners of many keys instead of to all shards."""
    return has_many_keys(node, exchange.by) and (is_chain(node) or dealt_input(node, exchange) is not None)


def dealt_input(node: Node, exchange: Exchange) -> Node | None:
    """Return the input of a replicated node that is sent to the owners of the node's keys; None if there is none."""
    if isinstance(node, Join | Project | Filter | Negate):
        for each in node.inputs:
            below = exchange_below(node, each, exchange)
            if below and can_deal(each, below):
                return each
    return None


RANGED = ("int", "date", "code")
"""The kinds of types whose bounds tell the number of values."""


def widest(fields: Iterable[Field]) -> tuple[str, ...]:
    """Return the name of the column with the most possible values, as the only key of a partitioning."""
    by_width = sorted(fields, key=lambda each: each.type.high - each.type.low if each.type.kind in RANGED else 0)
    return (by_width[-1].name,) if by_width else ()


def distribute_over_shards(
    node: Node, inputs: Sequence[Distribution], columns: Mapping[Node, Iterable[str]], preferred: tuple[str, ...]
) -> OperatorDistribution:
    """Distribute a node over several shards. preferred: the keys by which later operators need its rows."""
    over_workers = distribute(node, inputs, columns)
    is_moved = over_workers.exchanges != (None,)
    if isinstance(node, Merging) and is_moved and has_many_keys(node, preferred):
        return OperatorDistribution((Exchange("owner", preferred),), Distribution("owned", preferred))
    exchanges = tuple(each and replace(each, low=None) for each in over_workers.exchanges)
    if over_workers.distribution == FIRST and not over_workers.second:  # other shards have no use for the rows
        exchanges = tuple(each and Exchange("first") for each in exchanges)
    elif isinstance(node, Concat):  # a part that the first shard alone computes, like a row of NULL, is moved
        pairs = zip(exchanges, inputs, strict=True)
        exchanges = tuple(each or (BY_ROW if own == FIRST else None) for each, own in pairs)
    elif isinstance(node, Paired) and node.keys[0]:  # a side of which every shard has all rows stays
        exchanges = tuple(None if own == WHOLE else each for each, own in zip(exchanges, inputs, strict=True))
    return OperatorDistribution(exchanges, replace(over_workers.distribution, low=None), over_workers.second)


ANSWER = "answer"
"""The name of the edge to the sink, or of several edges, to which the names of their plans are added."""

Plans: TypeAlias = Collection | Mapping[str, Collection]
"""A plan, or several as one query by their names."""


def by_answer(plans: Plans) -> Mapping[str, Collection]:
    """Return plans by the names of the edges on which their answers leave."""
    if isinstance(plans, Collection):
        return {ANSWER: plans}
    return {f"{ANSWER} {name}": each for name, each in plans.items()}


def query_of(edge: str) -> str:
    """Return the name of one of several plans, given the edge of its answer."""
    return edge.removeprefix(f"{ANSWER} ")


ROW = "place in the batch"
"""The name, unknown to any schema, of the column with the number of the row in the input batch."""

SUM = "sum\0"
"""The prefix of the names of columns that are only summed."""

MAX_SOURCES = 4
"""The most stages with a source of their own, because Spark starts a process for each source; not measured.

Inputs of later stages enter the chain at the last of these stages and pass through the stages between.
"""


Place: TypeAlias = Literal["owner", "first", "all", "here", "sink"]
"""The shards to which rows are sent: to the owners of their keys, to one, to all, or to none but their own.

Rows to the sink stay at their shard, too, and pass through all stages that follow.
"""


@dataclass(frozen=True)
class Edge:
    """Rows that travel from one stage to a later one, where they are the input `name`.

    to: the owners of the values of the columns `by`, the first shard, all shards, or the shard that sends them; or the
    sink, which lies behind the last stage.
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
    """Plans in stages: the schema of each answer by the name of its edge, and the outputs of each stage."""

    answers: Mapping[str, Schema]
    stages: Sequence[Sequence[StageOutput]]

    @property
    def digest(self) -> str:
        """A digest of the edges, whose rows are stored: their names, their ends, and the types of their columns."""
        edges = [f"{number} {output.edge}" for number, outputs in enumerate(self.stages) for output in outputs]
        return blake2b("\n".join(edges).encode(), digest_size=16).hexdigest()

    def arriving(self, stage: int) -> dict[str, Edge]:
        """Return the edges that end in a stage."""
        edges = [output.edge for outputs in self.stages[:stage] for output in outputs]
        return {edge.name: edge for edge in edges if edge.stage == stage}

    def entering(self, stage: int) -> list[StageOutput]:
        """Return the outputs of stage 0 that enter the chain at a stage."""
        return [output for output in self.stages[0] if min(output.edge.stage, MAX_SOURCES) == stage]


def fed_width(field: Field) -> int:
    """Return the bytes of a value in the column of an edge: 8 of a sum, whose parts in a log are beyond its bounds."""
    return 8 if field.name.startswith(SUM) else field.type.width


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
            wide = tuple(each.name for each in fields if each.name.startswith(SUM))
            self._inputs[key] = Input(name, schema=Schema(fields, rows), wide=wide)
        return self._inputs[key]

    def send_answer(self, edge: Edge, at: Location) -> None:
        """Send an answer from its location to the sink."""
        self._add(edge, at)

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
