"""Stage planning: a plan is divided into stages, with exchanges between them.

Stage 0 has no state: it filters and projects each input where it is read. A later stage holds all operators whose rows
are together after that number of exchanges; an edge that crosses several stages passes through the stages between. The
inputs of a stage are the edges that end in it. Its operators form ordinary plans over these inputs, which an ordinary
worker runs.

Inputs that are small beside the largest one are replicated to every shard, and so are nodes computed from these alone.
Rows joined only with replicated nodes have no fixed location: they are sent to the shards where their next operator
needs them, and joined there.

Edges and columns that no later stage reads do not travel.

A node may have readers in several stages, which read different columns of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from deltamark.dataflow.operators.aggregate import Aggregate
from deltamark.dataflow.operators.by_key import Paired
from deltamark.dataflow.operators.distribution import (
    ANYWHERE,
    FIRST,
    WHOLE,
    Distribution,
    Exchange,
    OperatorDistribution,
)
from deltamark.dataflow.operators.extreme import Extreme
from deltamark.dataflow.operators.input import Input, base_inputs
from deltamark.dataflow.operators.iterate import Iterate
from deltamark.dataflow.operators.join import Join
from deltamark.dataflow.operators.linear import Concat, Filter, Negate, Project
from deltamark.dataflow.operators.node import Node, distribute, walk
from deltamark.dataflow.passes.partition import has_many_keys, preferred_keys
from deltamark.dataflow.passes.prune import prune
from deltamark.dataflow.passes.rewrite import rewrite
from deltamark.dataflow.passes.share import share
from deltamark.dataflow.plan.terms import column
from deltamark.dataflow.spark.planning.staged_plan import (
    BY_ROW,
    REPLICATED,
    ROW_NUMBERS,
    SUM,
    UNPLACED,
    Edge,
    Location,
    Plans,
    StagedPlan,
    StageOutput,
    StageOutputs,
    by_answer,
    can_deal,
    dealt_input,
    distribute_over_shards,
    exchange_below,
    is_chain,
    may_cancel,
    select,
)
from deltamark.dataflow.types import Field, Schema
from deltamark.errors import DeltamarkError


def without_unread_columns(stages: Sequence[Sequence[StageOutput]]) -> list[list[StageOutput]]:
    """Drop the edges, and the columns of edges, that no later stage reads, from the last stage to the first."""
    answers = {each.edge.name: set[str]() for outputs in stages for each in outputs if each.edge.to == "sink"}
    read = defaultdict[str, set[str]](set, answers)
    kept: list[list[StageOutput]] = []
    for outputs in reversed(stages):
        kept.append([_with_columns(each, read[each.edge.name]) for each in outputs if each.edge.name in read])
        on_other_shards = [output for output in kept[-1] if not output.first_shard_only]
        for edge, names in (*_columns_read(kept[-1]), *_columns_read(on_other_shards)):
            read[edge] |= {*names}
    return kept[::-1]


def _columns_read(outputs: Sequence[StageOutput]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the columns that the program of some outputs reads, for each of its inputs."""
    pruned = prune(rewrite({output.edge.name: output.node for output in outputs}))
    for node, names in share(pruned, lambda *_: None, 1).pruned.columns.items():
        if isinstance(node, Input):
            yield node.name, names


def _with_columns(output: StageOutput, names: Iterable[str]) -> StageOutput:
    """Keep the columns of an output with some names, and those by which its rows find their shards."""
    edge = output.edge
    if edge.to == "sink":
        return output
    fields = tuple(field for field in edge.fields if field.name in {*names, *edge.by})
    texts = {field.name: output.texts[field.name] for field in fields if field.name in output.texts}
    computed = [field for field in fields if field.name not in texts]
    node = select(output.node, [*computed, ROW_NUMBERS] if texts else computed)
    return replace(output, edge=replace(edge, fields=fields), node=node, texts=texts)


MAX_REPLICATED_ROWS = 1 << 18
"""The most rows of an input that is replicated to every shard; not measured."""

MIN_REPLICATED_SHARE = 8
"""The least ratio of the rows of the largest input to the rows of all copies of a replicated input; not measured."""


def plan_stages(plans: Plans, shards: int) -> StagedPlan:
    """Divide a plan, or several as one, into stages for a number of shards. Equal parts of several are made once."""
    roots = {name: each.node for name, each in by_answer(plans).items()}
    if any(isinstance(each, Iterate) for root in roots.values() for each in walk(root)):
        raise DeltamarkError("a loop cannot run on Spark", "iterate", "run it embedded, on one worker")
    return _StagePlanner(rewrite(roots), shards).plan()


class _StagePlanner:
    def __init__(self, roots: Mapping[str, Node], shards: int) -> None:
        self._roots, self._shards = roots, shards
        self._nodes = list(dict.fromkeys(each for root in roots.values() for each in walk(root)))
        required = prune(roots).columns
        self._columns = {each: dict.fromkeys(required.get(each, ())) for each in self._nodes}
        self._largest = max(each.schema.rows for root in roots.values() for each in base_inputs(root))
        self._preferred = preferred_keys(self._nodes)
        self._locations: dict[Node, Location] = {}
        self._selections: dict[Node, Location] = {}
        """The shards' own selections, from which the first shard completes that of a node."""
        self._exchanges: dict[Node, Exchange] = {}
        """The first exchange of each unplaced node to the owners of its rows."""
        self._summed: set[Node] = set()
        """The projections to the terms of an aggregate, whose rows are only summed."""
        self._outputs = StageOutputs(self._columns, shards)

    def plan(self) -> StagedPlan:
        for each in self._nodes:
            self._locations[each] = self._locate(each)
        answers = {name: self._settled(root) for name, root in self._roots.items()}
        stages = 1 + max(at.stage for at in answers.values())
        for name, at in answers.items():
            self._outputs.send_answer(Edge(name, stages, "sink", (), self._roots[name].schema.fields), at)
        schemas = {name: root.schema for name, root in self._roots.items()}
        return StagedPlan(schemas, without_unread_columns(self._outputs.by_stage(stages)))

    def _settled(self, root: Node) -> Location:
        """Bring equal rows of an answer together; return their location."""
        at = self._not_replicated(root)
        if at.kind == "placed" and at.distribution.equal_rows_meet:
            return at
        at, exchange = self._plan_move(root, at, Exchange("owner", tuple(self._columns[root])))
        return Location("placed", at.stage + 1, ANYWHERE, self._in_stage(root, at, exchange, at.stage + 1))

    # The location of each node, inputs first

    def _locate(self, node: Node) -> Location:
        kinds = {self._locations[each].kind for each in node.inputs}
        if kinds == {"replicated"} or (isinstance(node, Input) and self._is_small(node)):
            return REPLICATED
        if self._is_unplaced(node, kinds):
            return UNPLACED
        if isinstance(node, Paired) and any(self._is_replicated(node.inputs[side]) for side in node.copied_sides):
            return self._joined_in_place(node)
        return self._placed(node)

    def _is_small(self, node: Input) -> bool:
        copies = MIN_REPLICATED_SHARE * self._shards * node.schema.rows
        return self._shards > 1 and node.schema.rows <= MAX_REPLICATED_ROWS and copies <= self._largest

    def _is_unplaced(self, node: Node, kinds: set[Literal["placed", "unplaced", "replicated"]]) -> bool:
        match node:
            case Input():
                return True
            case Filter() | Project() | Negate():
                return kinds == {"unplaced"}
            case Concat():
                return all(self._locations[each].kind == "unplaced" or self._is_movable(each) for each in node.parts)
            case Join():
                return kinds == {"unplaced", "replicated"}
            case _:
                return False

    def _is_movable(self, node: Node) -> bool:
        """Return whether the rows of a replicated node can be sent to any shards from stage 0 instead."""
        return self._is_replicated(node) and is_chain(node)

    def _is_replicated(self, node: Node) -> bool:
        return self._locations[node].kind == "replicated"

    def _joined_in_place(self, node: Paired) -> Location:
        """Leave the rows of one side where they are, and join them with a replicated side."""
        side = 1 if self._is_replicated(node.inputs[0]) else 0
        rows, replicated = node.inputs[side], node.inputs[1 - side]
        at = self._locations[rows]
        at = self._fixed(rows) if at.kind == "unplaced" else at
        if may_cancel(rows, at):
            at = Location("placed", at.stage + 1, ANYWHERE, self._in_stage(rows, at, BY_ROW, at.stage + 1))
        to = Exchange("first" if at.distribution == FIRST else "all")
        by_key = Exchange("owner", tuple(node.keys[1 - side]))
        if isinstance(node, Join) and can_deal(replicated, by_key) and (copied := self._copied(rows, at)):
            at, to = replace(copied, distribution=Distribution("owned", tuple(node.keys[side]))), by_key
        inputs = [self._in_stage(replicated, REPLICATED, to, at.stage)]
        inputs.insert(side, self._in_stage(rows, at, None, at.stage))
        distribution = at.distribution
        if side == 1:  # the result has the names that the keys have on the left
            left_keys, right_keys = node.keys
            names = dict(zip(right_keys, left_keys, strict=True))
            distribution = replace(distribution, by=tuple(names.get(name, name) for name in distribution.by))
        return Location("placed", at.stage, distribution, node.with_inputs(inputs))

    def _placed(self, node: Node) -> Location:
        """Place a node in the first stage where the rows of its inputs can be together."""
        if isinstance(node, Aggregate):
            node = self._with_terms_below(node)
        locations = [self._not_replicated(each) for each in node.inputs]
        if isinstance(node, Paired) and has_many_keys(node.inputs[0], node.keys[0]):
            locations = self._with_copies(node, locations)
        target = self._distribute(node, locations)
        moves = [self._plan_move(*each) for each in zip(node.inputs, locations, target.exchanges, strict=True)]
        stage = max(at.stage + (exchange is not None) for at, exchange in moves)
        local = node.with_inputs(
            [self._in_stage(each, *move, stage) for each, move in zip(node.inputs, moves, strict=True)]
        )
        if target.second is None:
            return Location("placed", stage, target.distribution, local)
        compared = [node.column] if isinstance(node, Extreme) else node.schema.names
        self._columns[node].update(dict.fromkeys(compared))
        self._selections[node] = Location("placed", stage, ANYWHERE, local)
        selected = self._send(node, self._selections[node], target.second, stage + 1)
        return Location("placed", stage + 1, FIRST, node.with_inputs([selected]))

    def _with_copies(self, node: Paired, locations: Sequence[Location]) -> list[Location]:
        """Let every shard complete a selection that is joined with rows of several shards, so that these stay there."""
        several = [each.distribution != FIRST for each in locations]
        pairs = zip(node.inputs, locations, reversed(several), strict=True)
        return [(is_met and self._copied(each, at)) or at for each, at, is_met in pairs]

    def _copied(self, node: Node, at: Location) -> Location | None:
        """Return the location in which every shard has all rows of a selection at the first shard, or None."""
        if at.distribution != FIRST:
            return None
        if node in self._selections:
            own = self._selections[node]
            local = node.with_inputs([self._send(node, own, Exchange("all"), own.stage + 1)])
            return Location("placed", own.stage + 1, WHOLE, local)
        if isinstance(node, Filter | Project | Negate) and (below := self._copied(node.rows, at)):
            return replace(below, local=node.with_inputs([below.local or node]))
        return None

    def _with_terms_below(self, node: Aggregate) -> Aggregate:
        """Compute the terms of an aggregate in a projection at the location of its rows, if these are moved."""
        below = node.rows
        at = self._not_replicated(below)
        if at.kind == "placed" and self._distribute(node, [at]).exchanges == (None,):
            return node
        names = {term: f"{SUM}{number}" for number, term in enumerate(node.terms)}
        terms = {**{key: column(key, below.schema[key]) for key in node.keys}, **{to: of for of, to in names.items()}}
        schema = Schema(tuple(Field(name, term.type) for name, term in terms.items()), below.schema.rows)
        projected = Project(below, tuple(terms.items()), schema=schema)
        if all(term.type.kind == "int" for term in names):  # a log has the sums of these; doubles are no such numbers
            self._summed.add(projected)
        self._columns[projected] = dict.fromkeys(projected.schema.names)
        self._locations[projected] = UNPLACED if at.kind == "unplaced" else self._placed(projected)
        columns = {term: column(name, term.type) for term, name in names.items()}
        return replace(node, rows=projected, sums=tuple(each.of_values(columns) for each in node.sums))

    def _distribute(self, node: Node, locations: Sequence[Location]) -> OperatorDistribution:
        inputs = [each.distribution for each in locations]
        if self._shards == 1:
            return OperatorDistribution(tuple(None if each == FIRST else Exchange("first") for each in inputs), FIRST)
        return distribute_over_shards(node, inputs, self._columns, self._preferred.get(node, ()))

    def _not_replicated(self, node: Node) -> Location:
        """Return the location of a node for an operator that must see its rows once."""
        if not self._is_replicated(node):
            return self._locations[node]
        if is_chain(node):
            return UNPLACED
        return Location("placed", 1, FIRST, self._in_stage(node, REPLICATED, Exchange("first"), 1))

    # The movement of rows between locations

    def _plan_move(self, node: Node, at: Location, exchange: Exchange | None) -> tuple[Location, Exchange | None]:
        """Return the location from which the rows of a node are moved, and the exchange."""
        if at.kind == "placed":
            return at, exchange
        exchange = exchange or BY_ROW
        return (UNPLACED if self._can_exchange(node, exchange) else self._fixed(node)), exchange

    def _can_exchange(self, node: Node, exchange: Exchange) -> bool:
        """Return whether unplaced rows can be exchanged by some columns before they are joined with replicated ones."""
        if is_chain(node) or exchange == BY_ROW or self._shards == 1:
            return True
        if exchange.to != "owner":
            return False
        return all(
            below is not None and self._can_exchange(each, below)
            for each in node.inputs
            if self._locations[each].kind == "unplaced" or isinstance(node, Concat)
            for below in [exchange_below(node, each, exchange)]
        )

    def _fixed(self, node: Node) -> Location:
        """Place unplaced rows where they have been sent already, or where a later operator needs them."""
        if isinstance(node, Project | Filter | Negate) and not is_chain(node):
            below = self._fixed(node.rows)
            distribution = distribute(node, [below.distribution], self._columns).distribution
            return replace(below, distribution=distribution, local=node.with_inputs([below.local or node]))
        keys = self._preferred.get(node, ())
        exchange = self._exchanges.get(node) or (Exchange("owner", keys) if has_many_keys(node, keys) else BY_ROW)
        if not self._can_exchange(node, exchange):
            exchange = BY_ROW
        distribution = Distribution("owned", exchange.by) if exchange.by else ANYWHERE
        return Location("placed", 1, distribution, self._in_stage(node, UNPLACED, exchange, 1))

    def _in_stage(self, node: Node, at: Location, exchange: Exchange | None, stage: int) -> Node:
        """Return the node that has the rows of a node in a stage, after an exchange."""
        if at.kind == "placed":
            if exchange is None and at.stage == stage and at.local is not None:
                return at.local
            return self._send(node, at, exchange, stage)
        if exchange is not None and exchange.to == "owner":
            self._exchanges.setdefault(node, exchange)
        if is_chain(node):
            return self._send(node, Location("placed", 0, ANYWHERE, node), exchange, stage)
        inputs = []
        for each in node.inputs:
            own = self._locations[each]
            below = exchange
            if exchange is not None and (at.kind == "unplaced" or exchange.to == "owner"):
                is_replicated = own.kind == "replicated" and isinstance(node, Join)
                is_copied = is_replicated and not (at.kind == "replicated" and each is dealt_input(node, exchange))
                below = Exchange("all") if is_copied else exchange_below(node, each, exchange)
            inputs.append(self._in_stage(each, own, below, stage))
        return node.with_inputs(inputs)

    def _send(self, node: Node, at: Location, exchange: Exchange | None, stage: int) -> Node:
        return self._outputs.send(node, at, exchange, stage, is_summed=node in self._summed)
