"""Stage planning: a plan is divided into stages, with exchanges between them.

Stage 0 has no state: it filters and projects each input where it is read. A later stage holds all operators whose rows
are together after that many exchanges; an edge that crosses several stages passes through those between. A stage is a
set of ordinary plans over ordinary inputs, the edges that end in it, so an ordinary `Dataflow` runs it.

Inputs that are small beside the largest one are replicated to every shard, and so are nodes computed from these alone.
Rows that are joined with replicated nodes only have no place yet: they are sent to the shards where their next operator
needs them, and joined there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.plan.distribution import ANYWHERE, FIRST, Distribution, Exchange, OperatorDistribution
from deltamark.dataflow.plan.nodes import (
    Aggregate,
    Concat,
    Consolidate,
    Extreme,
    Filter,
    Input,
    Iterate,
    Join,
    MovingThreshold,
    Negate,
    Node,
    Project,
    Sum,
    Threshold,
    walk,
)
from deltamark.dataflow.plan.partitioning import distribute
from deltamark.dataflow.plan.pruning import required_columns
from deltamark.dataflow.plan.rewriting import rewrite
from deltamark.dataflow.plan.terms import column
from deltamark.dataflow.plan.traversal import base_inputs, base_rows
from deltamark.dataflow.spark.planning.edges import ANSWER, SUM, Cut, Edge, Output, computed, read
from deltamark.dataflow.spark.planning.locations import (
    BY_ROW,
    REPLICATED,
    UNPLACED,
    Location,
    exchange_below,
    is_chain,
    may_cancel,
)
from deltamark.dataflow.spark.planning.preferred_partitioning import has_many_keys, preferred_keys, widest
from deltamark.dataflow.types import Field, Schema, Type
from deltamark.errors import DeltamarkError

MAX_REPLICATED_ROWS = 1 << 18
"""The rows of an input that is replicated to every shard, at most; not measured."""

MIN_REPLICATED_SHARE = 8
"""All copies of a replicated input together have at most the rows of the largest input, divided by this."""


def cut(collection: Collection, shards: int) -> Cut:
    """Divide a plan into stages for some shards."""
    if any(isinstance(each, Iterate) for each in walk(collection.node)):
        raise DeltamarkError("a loop cannot run on Spark", "iterate", "run it embedded, on one worker")
    return _Cutter(rewrite({"": collection.node})[""], shards).cut()


class _Cutter:
    def __init__(self, root: Node, shards: int) -> None:
        self._root, self._shards = root, shards
        self._nodes = list(walk(root))
        required = required_columns(root)
        self._columns = {each: dict.fromkeys(required.get(each, ())) for each in self._nodes}
        self._largest = max(each.schema.rows for each in base_inputs(root))
        self._preferred = preferred_keys(self._nodes)
        self._locations: dict[Node, Location] = {}
        self._sent: dict[Node, Exchange] = {}
        """The first exchange of each unplaced node to the owners of its rows."""
        self._sources: dict[tuple[Node, int, Exchange | None], Node] = {}
        self._sums: set[Node] = set()
        self._outputs: list[tuple[int, Output]] = []

    def cut(self) -> Cut:
        for each in self._nodes:
            self._locations[each] = self._locate(each)
        last = self._answer()
        stages = [[output for stage, output in self._outputs if stage == number] for number in range(last + 1)]
        return Cut(self._root.schema, stages)

    def _locate(self, node: Node) -> Location:
        kinds = {self._locations[each].kind for each in node.inputs}
        if kinds == {"replicated"} or (isinstance(node, Input) and self._is_small(node)):
            return REPLICATED
        if self._is_unplaced(node, kinds):
            return UNPLACED
        if isinstance(node, Join | MovingThreshold) and self._joins_replicated(node):
            return self._joined_in_place(node)
        return self._placed(node)

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

    def _is_small(self, node: Input) -> bool:
        copies = MIN_REPLICATED_SHARE * self._shards * node.schema.rows
        return self._shards > 1 and node.schema.rows <= MAX_REPLICATED_ROWS and copies <= self._largest

    def _is_movable(self, node: Node) -> bool:
        """Return whether the rows of a replicated node can be sent to any shards from stage 0 instead."""
        return self._locations[node].kind == "replicated" and is_chain(node)

    def _joins_replicated(self, node: Join | MovingThreshold) -> bool:
        left, right = (self._locations[each].kind == "replicated" for each in node.inputs)
        return right or (left and isinstance(node, Join))

    def _joined_in_place(self, node: Join | MovingThreshold) -> Location:
        """Leave the rows of one side where they are, and join them with a replicated side."""
        side = 1 if self._locations[node.inputs[0]].kind == "replicated" else 0
        rows, replicated = node.inputs[side], node.inputs[1 - side]
        at = self._locations[rows]
        at = self._fixed(rows) if at.kind == "unplaced" else at
        if may_cancel(rows, at):
            at = Location("placed", at.stage + 1, ANYWHERE, self._at(rows, at, BY_ROW, at.stage + 1))
        to = Exchange("first" if at.distribution == FIRST else "all")
        parts = [self._at(replicated, REPLICATED, to, at.stage)]
        parts.insert(side, self._at(rows, at, None, at.stage))
        distribution = at.distribution
        if side == 1:  # the keys have their names on the left
            left_keys, right_keys = node.keys
            names = dict(zip(right_keys, left_keys, strict=True))
            distribution = replace(distribution, by=tuple(names.get(name, name) for name in distribution.by))
        return Location("placed", at.stage, distribution, node.with_inputs(parts))

    def _placed(self, node: Node) -> Location:
        """Place a node in the first stage where the rows of its inputs can be together."""
        if isinstance(node, Aggregate):
            node = self._with_termsexchange_below(node)
        locations = [self._not_replicated(each) for each in node.inputs]
        found = self._distribute(node, locations)
        moves = [self._move(*each) for each in zip(node.inputs, locations, found.exchanges, strict=True)]
        stage = max(at.stage + (exchange is not None) for at, exchange in moves)
        local = node.with_inputs([self._at(each, *move, stage) for each, move in zip(node.inputs, moves, strict=True)])
        if found.second is None:
            return Location("placed", stage, found.distribution, local)
        more = [node.column] if isinstance(node, Extreme) else node.schema.names
        self._columns[node].update(dict.fromkeys(more))
        selected = self._edge(node, Location("placed", stage, ANYWHERE, local), found.second, stage + 1)
        return Location("placed", stage + 1, FIRST, node.with_inputs([selected]))

    def _with_termsexchange_below(self, node: Aggregate) -> Aggregate:
        """Compute the terms of an aggregate in a projection where its rows come from, if these are moved."""
        below = node.rows
        at = self._not_replicated(below)
        if at.kind == "placed" and self._distribute(node, [at]).exchanges == (None,):
            return node
        names = {term: f"{SUM}{number}" for number, term in enumerate(node.terms)}
        terms = {**{key: column(key, below.schema[key]) for key in node.keys}, **{to: of for of, to in names.items()}}
        schema = Schema(tuple(Field(name, term.type) for name, term in terms.items()), below.schema.rows)
        projected = Project(below, tuple(terms.items()), schema=schema)
        self._sums.add(projected)
        self._columns[projected] = dict.fromkeys(projected.schema.names)
        self._locations[projected] = UNPLACED if at.kind == "unplaced" else self._placed(projected)
        sums = (Sum(each.name, each.kind, each.term and column(names[each.term], each.term.type)) for each in node.sums)
        return replace(node, rows=projected, sums=tuple(sums))

    def _distribute(self, node: Node, locations: Sequence[Location]) -> OperatorDistribution:
        """Distribute a node over the shards, which never own keys in blocks."""
        if self._shards == 1:
            exchanges = tuple(None if each.distribution == FIRST else Exchange("first") for each in locations)
            return OperatorDistribution(exchanges, FIRST)
        found = distribute(node, [each.distribution for each in locations], self._columns)
        keys = self._preferred.get(node, ())
        if isinstance(node, Threshold | Consolidate) and found.exchanges != (None,) and has_many_keys(node, keys):
            return OperatorDistribution((Exchange("owner", keys),), Distribution("owned", keys))
        exchanges = tuple(each and replace(each, low=None) for each in found.exchanges)
        if found.distribution == FIRST:  # the first shard alone needs the rows that would be sent to all
            exchanges = tuple(each and Exchange("first") for each in exchanges)
        elif isinstance(node, Concat):  # rows that the first shard computes alone, like a row of NULL, are moved
            pairs = zip(exchanges, locations, strict=True)
            exchanges = tuple(each or (BY_ROW if at.distribution == FIRST else None) for each, at in pairs)
        return OperatorDistribution(exchanges, replace(found.distribution, low=None), found.second)

    def _not_replicated(self, node: Node) -> Location:
        """Return a node's location for an operator that must see its rows once."""
        if self._locations[node].kind != "replicated":
            return self._locations[node]
        if is_chain(node):
            return UNPLACED
        return Location("placed", 1, FIRST, self._at(node, REPLICATED, Exchange("first"), 1))

    def _move(self, node: Node, at: Location, exchange: Exchange | None) -> tuple[Location, Exchange | None]:
        """Return the location from which a node's rows are moved, and the exchange."""
        if at.kind == "placed":
            return at, exchange
        exchange = exchange or BY_ROW
        return (UNPLACED, exchange) if self._can_go(node, exchange) else (self._fixed(node), exchange)

    def _can_go(self, node: Node, exchange: Exchange) -> bool:
        """Return whether unplaced rows can be exchanged by some columns before they are joined with replicated ones."""
        if is_chain(node) or exchange == BY_ROW or self._shards == 1:
            return True
        if exchange.to != "owner":
            return False
        return all(
            below is not None and self._can_go(each, below)
            for each in node.inputs
            if self._locations[each].kind == "unplaced" or isinstance(node, Concat)
            for below in [exchange_below(node, each, exchange)]
        )

    def _fixed(self, node: Node) -> Location:
        """Place unplaced rows: where they have been sent already, or where a later operator needs them."""
        if isinstance(node, Project | Filter | Negate) and not is_chain(node):
            below = self._fixed(node.rows)
            distribution = distribute(node, [below.distribution], self._columns).distribution
            return replace(below, distribution=distribution, local=node.with_inputs([below.local or node]))
        keys = self._preferred.get(node, ())
        exchange = self._sent.get(node) or (Exchange("owner", keys) if has_many_keys(node, keys) else BY_ROW)
        if not self._can_go(node, exchange):
            exchange = BY_ROW
        distribution = Distribution("owned", exchange.by) if exchange.by else ANYWHERE
        return Location("placed", 1, distribution, self._at(node, UNPLACED, exchange, 1))

    def _at(self, node: Node, at: Location, exchange: Exchange | None, stage: int) -> Node:
        """Return the node that has a node's rows in a stage, after an exchange."""
        if at.kind == "placed":
            if exchange is None and at.stage == stage and at.local is not None:
                return at.local
            return self._edge(node, at, exchange, stage)
        if exchange is not None and exchange.to == "owner":
            self._sent.setdefault(node, exchange)
        if is_chain(node):
            return self._edge(node, Location("placed", 0, ANYWHERE, node), exchange, stage)
        parts = []
        for each in node.inputs:
            own = self._locations[each]
            below = exchange
            if at.kind == "unplaced" and exchange is not None:
                replicated = own.kind == "replicated" and isinstance(node, Join)
                below = Exchange("all") if replicated else exchange_below(node, each, exchange)
            parts.append(self._at(each, own, below, stage))
        return node.with_inputs(parts)

    def _edge(self, node: Node, at: Location, exchange: Exchange | None, stage: int) -> Node:
        """Send a node's rows to a later stage; return the input that has them there."""
        key = (at.local or node, stage, exchange)
        if key not in self._sources:
            columns = {name: node.schema[name] for name in self._columns[node]}
            fields = tuple(Field(name, type_) for name, type_ in columns.items())
            to = exchange.to if exchange else "first" if at.distribution == FIRST else "here"
            by = exchange.by if exchange else ()
            if exchange == BY_ROW:
                by = widest(fields)
            name = f"{len(self._sources)}-{node.digest.hex()[:8]}"
            self._send(Edge(name, stage, to, by, fields, node in self._sums), at, columns)
            rows = min(node.schema.rows, base_rows(node))
            rows = rows // self._shards + 1 if to == "owner" else rows
            self._sources[key] = Input(name, schema=Schema(fields, rows))
        return self._sources[key]

    def _send(self, edge: Edge, at: Location, columns: Mapping[str, Type]) -> None:
        assert at.local is not None
        if at.stage == 0:
            self._outputs.append((0, read(edge, at.local, columns)))
        else:
            first = at.distribution == FIRST
            self._outputs.append((at.stage, computed(edge, at.local, columns, first=first)))

    def _answer(self) -> int:
        """Bring equal rows of the answer together; return the last stage."""
        root = self._root
        at = self._not_replicated(root)
        if at.kind == "unplaced" or not at.distribution.settled:
            at, exchange = self._move(root, at, Exchange("owner", tuple(self._columns[root])))
            at = Location("placed", at.stage + 1, ANYWHERE, self._at(root, at, exchange, at.stage + 1))
        edge = Edge(ANSWER, at.stage + 1, "here", (), root.schema.fields)
        self._send(edge, at, {name: root.schema[name] for name in root.schema.names})
        return at.stage
