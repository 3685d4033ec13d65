"""The body of a loop -> operators, in the order in which an iteration runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from deltamark.dataflow.codegen.columns import Stream
from deltamark.dataflow.codegen.compiled import Built
from deltamark.dataflow.codegen.program import Program
from deltamark.dataflow.language.iteration import closing, inside
from deltamark.dataflow.operators import linear
from deltamark.dataflow.operators.arrangement import Arrangement
from deltamark.dataflow.operators.loop import LoopHead, LoopReduction, LoopSide, enter, key_in_loop, loop_join
from deltamark.dataflow.plan.nodes import Node, base_rows
from deltamark.dataflow.plan.terms import Term
from deltamark.dataflow.types import Type


@dataclass(frozen=True)
class Joined:
    """A join inside a loop: which side changes there, the types of its keys, and the other side's arrangement."""

    side: int
    types: tuple[Type, ...]
    arrangement: Arrangement
    terms: Mapping[str, Term]
    """What the columns of the other side are in the arrangement."""


@dataclass
class Body:
    """Compiles one loop. Everything outside is there before its first operator is."""

    program: Program
    loop: Node
    owed: Mapping[Node, Iterable[str]]
    joins: Mapping[Node, Joined]
    parts: Mapping[Node, Built]
    _streams: dict[Node, Stream] = field(default_factory=dict)
    _join_blocks: list[int] = field(default_factory=list)

    def compile(self, outside: Callable[[Node], Stream]) -> Stream:
        """Append the loop; return the stream of its answer. outside: of a node that enters."""
        program, now, begin = self.program, self.program.cell(), self.loop.inputs[0]
        end = LoopReduction.of(program, closing(self.loop.inputs[1]), now)
        first, beginning = enter(outside(begin), begin.schema.names, is_beginning=True)
        head = LoopHead.of(program, [first, *self._enter(outside)], len(self.joins), end, now)
        for each in inside(self.loop):
            with program.building(self.parts[each]):
                self._append(each, beginning, end, now)
        head.repeat(self._join_blocks[::-1])
        return end.stream(end.answer)

    def _enter(self, outside: Callable[[Node], Stream]) -> list[int]:
        """Let enter what the body adds from outside."""
        nodes, blocks = inside(self.loop), []
        for each in nodes:
            for other in each.inputs if each.op == "concat" else ():
                if other not in nodes and other not in self._streams:
                    block, self._streams[other] = enter(outside(other), tuple(self.owed[other]), is_beginning=False)
                    blocks.append(block)
        return blocks

    def _append(self, at: Node, beginning: Stream, end: LoopReduction, now: int) -> None:
        """Append a node of the body."""
        if at is self.loop.inputs[1]:
            end.append(self._streams[end.closing.below], base_rows(self.loop))
            return
        inputs = [self._streams[each] for each in at.inputs if each in self._streams]
        match at.op:
            case "variable":
                again = end.stream(end.feedback)
                self._streams[at] = linear.concat(self.program, [beginning, again], at.schema.names)
            case "where":
                self._streams[at] = linear.where(inputs[0], at)
            case "select":
                self._streams[at] = linear.select(inputs[0], at)
            case "negate":
                self._streams[at] = linear.negate(inputs[0])
            case "concat":
                inputs = [self._streams[each] for each in at.inputs]
                self._streams[at] = linear.concat(self.program, inputs, tuple(self.owed[at]))
            case "join":
                self._streams[at] = self._join(at, now)

    def _join(self, at: Node, now: int) -> Stream:
        joined = self.joins[at]
        stream = self._streams[at.inputs[joined.side]]
        key = key_in_loop(stream, at.params[joined.side], joined.types)
        keys = self.program.keys(key, base_rows(self.loop), stream.size)
        names = [name for name in self.owed[at] if name not in joined.terms]
        block, made = loop_join(LoopSide(stream, key, keys, names), joined.arrangement, joined.terms, now)
        self._join_blocks.append(block)
        return made
