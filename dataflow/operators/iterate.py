"""Iterate: the fixpoint of a body over the rows of a seed; see dataflow.language.iteration.

The nodes inside a loop become operators in the order in which an iteration runs them; `loop` has their blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from deltamark.dataflow.builder.keys import RowCount, key_ids
from deltamark.dataflow.builder.program import BlockAddress, CellAddress, Program, ProgramPart
from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.operators.arrangement import Arrangement
from deltamark.dataflow.operators.by_key import Paired
from deltamark.dataflow.operators.distribution import FIRST, Columns, Distribution, OperatorDistribution, at_first
from deltamark.dataflow.operators.extreme import Extreme
from deltamark.dataflow.operators.input import base_rows
from deltamark.dataflow.operators.linear import Concat, concat
from deltamark.dataflow.operators.loop import Closing, LoopHead, LoopReduction, LoopSide, enter, key_in_loop, loop_join
from deltamark.dataflow.operators.node import Emission, JoinReads, Node, Placing, Requirement, walk
from deltamark.dataflow.operators.threshold import Threshold
from deltamark.dataflow.plan.terms import Term
from deltamark.dataflow.types import Type
from deltamark.errors import DeltamarkError


@dataclass(frozen=True, eq=False)
class Iterate(Node):
    """The fixpoint of a body that begins with the rows of a seed.

    depth: the number of the variable that the loop binds, which is the number of loops around it.
    """

    seed: Node
    body: Node
    depth: int

    consolidated: ClassVar[bool] = True
    parallel: ClassVar[bool] = False

    def description(self, required: Collection[str]) -> str:
        return f"loop {self.depth}"

    def required(self, columns: Sequence[str], reads: JoinReads) -> Iterable[Requirement]:
        return [(each, self.schema.names) for each in self.inputs]

    def determines(self, names: frozenset[str]) -> bool:
        return set(closing(self.body).keys) <= names

    def distributed(self, inputs: Sequence[Distribution], columns: Columns) -> OperatorDistribution:
        return at_first(inputs)

    def wishes(self, placing: Placing) -> list[Distribution]:
        return [FIRST, FIRST]

    def emit(self, emission: Emission, streams: Sequence[Stream]) -> Stream:
        return emission.loop(self)


@dataclass(frozen=True, eq=False)
class Variable(Node):
    """The rows of the current iteration, inside the body of the loop of the same depth."""

    depth: int

    parallel: ClassVar[bool] = False

    @property
    def title(self) -> str:
        return "rows of the loop"

    def description(self, required: Collection[str]) -> str:
        return str(self.depth)

    def required(self, columns: Sequence[str], reads: JoinReads) -> Iterable[Requirement]:
        return ()

    def distributed(self, inputs: Sequence[Distribution], columns: Columns) -> OperatorDistribution:
        return at_first(inputs)

    def emit(self, emission: Emission, streams: Sequence[Stream]) -> Stream:
        raise DeltamarkError("rows of a loop outside of it", self, "use the result of iterate")


def free(root: Node) -> frozenset[int]:
    """Return the depths of the variables that a plan depends on and does not bind."""
    found: dict[Node, frozenset[int]] = {}
    for node in walk(root):
        match node:
            case Variable():
                found[node] = frozenset([node.depth])
            case Iterate():
                found[node] = found[node.seed] | (found[node.body] - {node.depth})
            case _:
                found[node] = frozenset().union(*(found[each] for each in node.inputs))
    return found[root]


def inside(loop: Iterate) -> list[Node]:
    """Return the nodes of a loop's body that depend on its variable, inputs first."""
    depends: dict[Node, bool] = {}

    def visit(node: Node) -> bool:
        if node not in depends:
            inputs = (node.seed,) if isinstance(node, Iterate) else node.inputs
            found = [visit(each) for each in inputs]
            depends[node] = any(found) or (isinstance(node, Variable) and node.depth == loop.depth)
        return depends[node]

    visit(loop.body)
    return [node for node, does in depends.items() if does]


def closing(root: Node) -> Closing:
    """Read the end of a body."""
    match root:
        case Threshold(rows=Extreme() as extreme, least=1) if {*extreme.keys, extreme.column} == set(root.schema.names):
            keys = tuple(name for name in extreme.keys if name != extreme.column)
            return Closing(extreme.rows, keys, extreme.column, extreme.which)
        case Threshold():
            return Closing(root.rows, root.schema.names, least=root.least)
    remedy = "end it by .distinct(), or by .smallest(of, by=all other columns).distinct()"
    raise DeltamarkError("the body of a loop does not end in a reduction", root.operation, remedy)


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
class LoopBody:
    """Compiles one loop. All operators outside of it come before its first one."""

    emission: Emission
    loop: Iterate
    joins: Mapping[Paired, LoopJoin]
    parts: Mapping[Node, ProgramPart]
    _streams: dict[Node, Stream] = field(default_factory=dict)
    _join_blocks: list[BlockAddress] = field(default_factory=list)

    @property
    def program(self) -> Program:
        return self.emission.program

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

    def _enter(self, outside: Callable[[Node], Stream]) -> list[BlockAddress]:
        """Append the entry of the collections from outside that the body concatenates; return their blocks."""
        nodes, blocks = inside(self.loop), []
        for node in nodes:
            for part in node.parts if isinstance(node, Concat) else ():
                if part not in nodes and part not in self._streams:
                    block, self._streams[part] = enter(outside(part), self.emission.columns(part), is_beginning=False)
                    blocks.append(block)
        return blocks

    def _append(self, node: Node, beginning: Stream, end: LoopReduction, now: CellAddress) -> None:
        """Append a node of the body."""
        if node is self.loop.body:
            end.append(self._streams[end.closing.below], base_rows(self.loop))
            return
        match node:
            case Variable():
                again = end.stream(end.feedback)
                self._streams[node] = concat(self.program, [beginning, again], node.schema.names)
            case Paired():
                self._streams[node] = self._join(node, now)
            case Extreme():  # it is below the end of the body, which computes it
                pass
            case _:
                self._streams[node] = node.emit(self.emission, [self._streams[each] for each in node.inputs])

    def _join(self, node: Paired, now: CellAddress) -> Stream:
        joined = self.joins[node]
        stream = self._streams[node.inputs[joined.side]]
        key = key_in_loop(stream, node.keys[joined.side], joined.types)
        keys = key_ids(self.program, key, RowCount(base_rows(self.loop)), stream.size)
        names = [name for name in self.emission.columns(node) if name not in joined.terms]
        block, pairs = loop_join(LoopSide(stream, key, keys, names), joined.arrangement, joined.terms, now)
        self._join_blocks.append(block)
        return pairs
