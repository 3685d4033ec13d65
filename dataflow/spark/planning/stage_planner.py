"""A plan cut into stages: what each shard computes in a stage, and what goes from stage to later stage.

Stage 0 has no state: it filters and projects each input where it is read. A later stage holds all operators whose rows
are together after so many exchanges; an edge that crosses several stages passes through those between. Each stage is a
set of ordinary plans over ordinary inputs, the edges that end in it, so an ordinary `Together` runs it.

What is small beside the largest input goes to every shard, and so does what is computed of nothing else. What has met
only such collections is not anywhere yet: it is sent to where its next operator wants it, and meets them there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from deltamark.dataflow.codegen.compiled import Compiled
from deltamark.dataflow.codegen.compiler import compile_into, key_types
from deltamark.dataflow.codegen.program import Program
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.plan.nodes import Node, base_rows, node, walk
from deltamark.dataflow.plan.partitioning import ANYWHERE, FIRST, Delivery, Layout, Placement, layout
from deltamark.dataflow.plan.terms import column
from deltamark.dataflow.spark.planning.edges import ANSWER, SUM, Cut, Edge, Output, computed, read
from deltamark.dataflow.spark.planning.preferred_partitioning import many, widest, wishes
from deltamark.dataflow.types import Field, Schema, Type
from deltamark.errors import DeltamarkError

SMALL_ROWS, SMALL_SHARE = 1 << 18, 8
"""An input of at most so many rows goes to every shard, if that many copies are a small part of the largest input."""


@dataclass(frozen=True)
class Spot:
    """Where a node's rows are.

    placed      from a stage on, and computed there as `local`
    loose       nowhere yet: wherever somebody wants them
    everywhere  at every shard, in whatever stage
    """

    kind: Literal["placed", "loose", "everywhere"]
    stage: int = 0
    placement: Placement = ANYWHERE
    local: Node | None = None


LOOSE, EVERYWHERE = Spot("loose"), Spot("everywhere")
BY_ROW = Delivery("owner")
"""Of loose rows: equal rows of an input go to one shard, whichever."""


def cut(collection: Collection, shards: int) -> Cut:
    if any(each.op == "iterate" for each in walk(collection.node)):
        raise DeltamarkError("a loop cannot run on Spark", "iterate", "run it embedded, on one worker")
    return _Cutter(collection.node, shards).cut()


class _Cutter:
    def __init__(self, root: Node, shards: int) -> None:
        self._root, self._shards = root, shards
        self._nodes = list(walk(root))
        compiled = Compiled(Program())
        owed = compile_into(compiled, {ANSWER: root}).owed
        compiled.program.memory.close()
        self._owed: dict[Node, dict[str, None]] = {each: dict(owed.get(each, {})) for each in self._nodes}
        self._largest = max(each.schema.rows for each in self._nodes if each.op == "input")
        self._wishes = wishes(self._nodes)
        self._spots: dict[Node, Spot] = {}
        self._sent: dict[Node, Delivery] = {}
        """By what loose nodes have been sent to the owners of their rows."""
        self._sources: dict[tuple[Node, int, Delivery | None], Node] = {}
        self._sums: set[Node] = set()
        self._outputs: list[tuple[int, Output]] = []

    def cut(self) -> Cut:
        for each in self._nodes:
            self._spots[each] = self._spot(each)
        last = self._answer()
        stages = [[output for stage, output in self._outputs if stage == number] for number in range(last + 1)]
        return Cut(self._root.schema, stages)

    def _spot(self, at: Node) -> Spot:
        kinds: set[str] = {self._spots[each].kind for each in at.inputs}
        if kinds == {"everywhere"} or (at.op == "input" and self._is_small(at)):
            return EVERYWHERE
        if self._is_loose(at, kinds):
            return LOOSE
        if at.op in ("join", "bound") and self._meets_everywhere(at):
            return self._met_in_place(at)
        return self._placed(at)

    def _is_loose(self, at: Node, kinds: set[str]) -> bool:
        match at.op:
            case "input":
                return True
            case "where" | "select" | "negate":
                return kinds == {"loose"}
            case "concat":
                return all(self._spots[each].kind == "loose" or self._is_free(each) for each in at.inputs)
            case "join":
                return kinds == {"loose", "everywhere"}
        return False

    def _is_small(self, at: Node) -> bool:
        copies = SMALL_SHARE * self._shards * at.schema.rows
        return self._shards > 1 and at.schema.rows <= SMALL_ROWS and copies <= self._largest

    def _is_free(self, at: Node) -> bool:
        """Can rows that are everywhere be sent to wherever they are wanted instead?"""
        return self._spots[at].kind == "everywhere" and _is_chain(at)

    def _meets_everywhere(self, at: Node) -> bool:
        left, right = (self._spots[each].kind == "everywhere" for each in at.inputs)
        return right or (left and at.op == "join")

    def _met_in_place(self, at: Node) -> Spot:
        """Join rows, where they are, with what is everywhere; or hold them against it."""
        side = 1 if self._spots[at.inputs[0]].kind == "everywhere" else 0
        mine = self._spots[at.inputs[side]]
        mine = self._fixed(at.inputs[side]) if mine.kind == "loose" else mine
        if _may_cancel(at.inputs[side], mine):
            mine = Spot("placed", mine.stage + 1, ANYWHERE, self._at(at.inputs[side], mine, BY_ROW, mine.stage + 1))
        others = Delivery("first" if mine.placement == FIRST else "all")
        parts = [self._at(at.inputs[1 - side], EVERYWHERE, others, mine.stage)]
        parts.insert(side, self._at(at.inputs[side], mine, None, mine.stage))
        placement = mine.placement
        if side == 1:  # the keys keep their names on the left
            names = dict(zip(at.params[1], at.params[0], strict=True))
            placement = replace(placement, by=tuple(names.get(name, name) for name in placement.by))
        return Spot("placed", mine.stage, placement, node(at.op, tuple(parts), at.params, at.schema))

    def _placed(self, at: Node) -> Spot:
        """Place a node where its inputs meet."""
        if at.op == "aggregate":
            at = self._summed(at)
        spots = [self._not_everywhere(each) for each in at.inputs]
        found = self._layout(at, spots)
        moves = [self._move(*each) for each in zip(at.inputs, spots, found.deliveries, strict=True)]
        stage = max(spot.stage + (delivery is not None) for spot, delivery in moves)
        parts = [self._at(each, *move, stage) for each, move in zip(at.inputs, moves, strict=True)]
        local = node(at.op, tuple(parts), at.params, at.schema)
        if found.again is None:
            return Spot("placed", stage, found.placement, local)
        more = at.schema.names if at.op == "top" else at.params[1:2]
        self._owed[at].update(dict.fromkeys(more))
        picked = self._edge(at, Spot("placed", stage, ANYWHERE, local), found.again, stage + 1)
        return Spot("placed", stage + 1, FIRST, node(at.op, (picked,), at.params, at.schema))

    def _summed(self, at: Node) -> Node:
        """Have the terms of an aggregate computed where its rows come from, if they are moved."""
        below = at.inputs[0]
        spot = self._not_everywhere(below)
        if spot.kind == "placed" and self._layout(at, [spot]).deliveries == (None,):
            return at
        keys, sums = at.params
        wanted = dict.fromkeys(term for _, _, term in sums if term is not None)
        terms = {term: f"{SUM}{number}" for number, term in enumerate(wanted)}
        fields = [*(Field(key, below.schema[key]) for key in keys), *(Field(to, of.type) for of, to in terms.items())]
        pairs = [*((key, column(key, below.schema[key])) for key in keys), *((to, of) for of, to in terms.items())]
        picked = node("select", (below,), tuple(pairs), Schema(tuple(fields), below.schema.rows))
        self._sums.add(picked)
        self._owed[picked] = dict.fromkeys(picked.schema.names)
        self._spots[picked] = LOOSE if spot.kind == "loose" else self._placed(picked)
        found = tuple((name, kind, of and column(terms[of], of.type)) for name, kind, of in sums)
        return node("aggregate", (picked,), (keys, found), at.schema)

    def _layout(self, at: Node, spots: Sequence[Spot]) -> Layout:
        """Ask where the inputs of a node must be; here keys are never dealt in blocks."""
        if self._shards == 1:
            return Layout(tuple(None if each.placement == FIRST else Delivery("first") for each in spots), FIRST)
        types = key_types(at) if at.op in ("join", "bound") else ()
        found = layout(at, [each.placement for each in spots], self._owed, types)
        wish = self._wishes.get(at, ())
        if at.op in ("threshold", "consolidate") and found.deliveries != (None,) and many(at, wish):
            return Layout((Delivery("owner", wish),), Placement("owned", wish))
        deliveries = tuple(each and replace(each, low=None) for each in found.deliveries)
        if found.placement == FIRST:  # nobody else needs what is sent to all
            deliveries = tuple(each and Delivery("first") for each in deliveries)
        elif at.op == "concat":  # what the first shard alone may say, like a row of NULL, is not for all to say
            pairs = zip(deliveries, spots, strict=True)
            deliveries = tuple(each or (BY_ROW if spot.placement == FIRST else None) for each, spot in pairs)
        return Layout(deliveries, replace(found.placement, low=None), found.again)

    def _not_everywhere(self, at: Node) -> Spot:
        """Return a node's spot for an operator that must see its rows once."""
        if self._spots[at].kind != "everywhere":
            return self._spots[at]
        if _is_chain(at):
            return LOOSE
        return Spot("placed", 1, FIRST, self._at(at, EVERYWHERE, Delivery("first"), 1))

    def _move(self, at: Node, spot: Spot, delivery: Delivery | None) -> tuple[Spot, Delivery | None]:
        """Say how a node comes to where it is wanted: loose rows go there, or are put somewhere first."""
        if spot.kind == "placed":
            return spot, delivery
        delivery = delivery or BY_ROW
        return (LOOSE, delivery) if self._can_go(at, delivery) else (self._fixed(at), delivery)

    def _can_go(self, at: Node, delivery: Delivery) -> bool:
        """Can loose rows be sent by these columns, before they meet what is everywhere?"""
        if _is_chain(at) or delivery == BY_ROW or self._shards == 1:
            return True
        if delivery.to != "owner":
            return False
        return all(
            below is not None and self._can_go(each, below)
            for each in at.inputs
            if self._spots[each].kind == "loose" or at.op == "concat"
            for below in [_below(at, each, delivery)]
        )

    def _fixed(self, at: Node) -> Spot:
        """Put loose rows somewhere: where they have been sent already, or where a later operator wants them."""
        if at.op in ("select", "where", "negate") and not _is_chain(at):
            below = self._fixed(at.inputs[0])
            placement = layout(at, [below.placement], self._owed, ()).placement
            return replace(below, placement=placement, local=node(at.op, (below.local or at,), at.params, at.schema))
        wish = self._wishes.get(at, ())
        delivery = self._sent.get(at) or (Delivery("owner", wish) if many(at, wish) else BY_ROW)
        if not self._can_go(at, delivery):
            delivery = BY_ROW
        placement = Placement("owned", delivery.by) if delivery.by else ANYWHERE
        return Spot("placed", 1, placement, self._at(at, LOOSE, delivery, 1))

    def _at(self, at: Node, spot: Spot, delivery: Delivery | None, stage: int) -> Node:
        """Return a node as a stage has it that wants its rows delivered."""
        if spot.kind == "placed":
            if delivery is None and spot.stage == stage and spot.local is not None:
                return spot.local
            return self._edge(at, spot, delivery, stage)
        if delivery is not None and delivery.to == "owner":
            self._sent.setdefault(at, delivery)
        if _is_chain(at):
            return self._edge(at, Spot("placed", 0, ANYWHERE, at), delivery, stage)
        parts = []
        for each in at.inputs:
            mine = self._spots[each]
            below = delivery
            if spot.kind == "loose" and delivery is not None:
                alone = mine.kind == "everywhere" and at.op == "join"
                below = Delivery("all") if alone else _below(at, each, delivery)
            parts.append(self._at(each, mine, below, stage))
        return node(at.op, tuple(parts), at.params, at.schema)

    def _edge(self, at: Node, spot: Spot, delivery: Delivery | None, stage: int) -> Node:
        """Send a node's rows to a later stage; return the input that they are there."""
        what = (spot.local or at, stage, delivery)
        if what not in self._sources:
            columns = {name: at.schema[name] for name in self._owed[at]}
            fields = tuple(Field(name, type_) for name, type_ in columns.items())
            to = delivery.to if delivery else "first" if spot.placement == FIRST else "here"
            by = delivery.by if delivery else ()
            if delivery == BY_ROW:
                by = widest(fields)
            edge = Edge(f"{len(self._sources)}-{at.digest.hex()[:8]}", stage, to, by, fields, at in self._sums)
            self._send(edge, spot, columns)
            rows = min(at.schema.rows, base_rows(at))
            rows = rows // self._shards + 1 if to == "owner" else rows
            self._sources[what] = node("input", (), edge.name, Schema(fields, rows))
        return self._sources[what]

    def _send(self, edge: Edge, spot: Spot, columns: Mapping[str, Type]) -> None:
        assert spot.local is not None
        if spot.stage == 0:
            self._outputs.append((0, read(edge, spot.local, columns)))
        else:
            first = spot.placement == FIRST
            self._outputs.append((spot.stage, computed(edge, spot.local, columns, first=first)))

    def _answer(self) -> int:
        """Bring equal rows of the answer together; return the last stage."""
        root = self._root
        spot = self._not_everywhere(root)
        if spot.kind == "loose" or not spot.placement.settled:
            names = tuple(self._owed[root])
            spot, delivery = self._move(root, spot, Delivery("owner", names))
            local = self._at(root, spot, delivery, spot.stage + 1)
            spot = Spot("placed", spot.stage + 1, ANYWHERE, local)
        edge = Edge(ANSWER, spot.stage + 1, "here", (), root.schema.fields)
        self._send(edge, spot, {name: root.schema[name] for name in root.schema.names})
        return spot.stage


def _may_cancel(at: Node, spot: Spot) -> bool:
    """May a shard have less than none of a row, of which others have more?"""
    return not spot.placement.settled and any(each.op == "negate" for each in walk(at))


def _is_chain(at: Node) -> bool:
    """Can a node be computed of an input row by row, without state?"""
    if at.op == "input":
        return True
    return at.op in ("where", "select", "negate") and _is_chain(at.inputs[0])


def _below(at: Node, below: Node, delivery: Delivery) -> Delivery | None:
    """Say by which columns of an input its rows must be sent for those of a loose node to be where they are wanted."""
    names = {name: name for name in delivery.by}
    if at.op == "select":
        terms = dict(at.params)
        names = {name: terms[name].value for name in delivery.by if terms[name].op == "column"}
    if at.op == "join" and below is at.inputs[1]:
        names |= dict(zip(at.params[0], at.params[1], strict=True))
    by = tuple(names[name] for name in delivery.by if name in names and names[name] in below.schema)
    return replace(delivery, by=by) if len(by) == len(delivery.by) else None
