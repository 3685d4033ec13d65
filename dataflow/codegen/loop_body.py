"""Loop bodies: the nodes inside a loop become operators, in the order in which an iteration runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from deltamark.dataflow.builder.key_ids import key_ids
from deltamark.dataflow.builder.program import Program
from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.codegen.node_parts import NodePart
from deltamark.dataflow.operators import linear
from deltamark.dataflow.operators.arrangement import Arrangement
from deltamark.dataflow.operators.loop import LoopHead, LoopReduction, LoopSide, enter, key_in_loop, loop_join
from deltamark.dataflow.plan.cardinality import RowCount
from deltamark.dataflow.plan.loops import closing, inside
from deltamark.dataflow.plan.nodes import Concat, Filter, Iterate, Join, Negate, Node, Project, Variable
from deltamark.dataflow.plan.terms import Term
from deltamark.dataflow.plan.traversal import base_rows
from deltamark.dataflow.types import Type


@dataclass(frozen=True)
class LoopJoin:
    """A join inside a loop.

    side: the side that changes in the loop; types: those of the keys; arrangement: that of the other side; terms: the
    columns of the other side, as the arrangement stores them.
    """

    side: int
    types: tuple[Type, ...]
    arrangement: Arrangement
    terms: Mapping[str, Term]


@dataclass
class Body:
    """Compiles one loop. All operators outside of it come before its first one."""

    program: Program
    loop: Iterate
    columns: Mapping[Node, Iterable[str]]
    joins: Mapping[Join, LoopJoin]
    parts: Mapping[Node, NodePart]
    _streams: dict[Node, Stream] = field(default_factory=dict)
    _join_blocks: list[int] = field(default_factory=list)

    def compile(self, outside: Callable[[Node], Stream]) -> Stream:
        """Append the loop; return the stream of its answer. outside: returns the stream of a node outside."""
        program, now, seed = self.program, self.program.cell(), self.loop.seed
        end = LoopReduction.of(program, closing(self.loop.body), now)
        first, beginning = enter(outside(seed), seed.schema.names, is_beginning=True)
        head = LoopHead.of(program, [first, *self._enter(outside)], len(self.joins), end, now)
        for node in inside(self.loop):
            with program.building(self.parts[node]):
                self._append(node, beginning, end, now)
        head.repeat(self._join_blocks[::-1])
        return end.stream(end.answer)

    def _enter(self, outside: Callable[[Node], Stream]) -> list[int]:
        """Append the entry of the collections from outside that the body concatenates; return their blocks."""
        nodes, blocks = inside(self.loop), []
        for node in nodes:
            for part in node.parts if isinstance(node, Concat) else ():
                if part not in nodes and part not in self._streams:
                    block, self._streams[part] = enter(outside(part), tuple(self.columns[part]), is_beginning=False)
                    blocks.append(block)
        return blocks

    def _append(self, node: Node, beginning: Stream, end: LoopReduction, now: int) -> None:
        """Append a node of the body."""
        if node is self.loop.body:
            end.append(self._streams[end.closing.below], base_rows(self.loop))
            return
        match node:
            case Variable():
                again = end.stream(end.feedback)
                self._streams[node] = linear.concat(self.program, [beginning, again], node.schema.names)
            case Filter():
                self._streams[node] = linear.where(self._streams[node.rows], node)
            case Project():
                self._streams[node] = linear.select(self._streams[node.rows], node)
            case Negate():
                self._streams[node] = linear.negate(self._streams[node.rows])
            case Concat():
                parts = [self._streams[each] for each in node.parts]
                self._streams[node] = linear.concat(self.program, parts, tuple(self.columns[node]))
            case Join():
                self._streams[node] = self._join(node, now)
            case _:  # the extreme below the end of the body, which the end computes
                pass

    def _join(self, node: Join, now: int) -> Stream:
        joined = self.joins[node]
        stream = self._streams[node.inputs[joined.side]]
        key = key_in_loop(stream, node.keys[joined.side], joined.types)
        keys = key_ids(self.program, key, RowCount(base_rows(self.loop)), stream.size)
        names = [name for name in self.columns[node] if name not in joined.terms]
        block, pairs = loop_join(LoopSide(stream, key, keys, names), joined.arrangement, joined.terms, now)
        self._join_blocks.append(block)
        return pairs
