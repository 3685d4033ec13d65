"""Compiled plans: a program, its inputs and answers, its parts, and the arrangements that its operators share.

Each part belongs to a node, or to an arrangement, index or exchange of its rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from deltamark.dataflow.builder.idle import idle_table
from deltamark.dataflow.builder.keys import Interner
from deltamark.dataflow.builder.program import CellAddress, Op, OperatorState, Program, ProgramPart, Schedule
from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.kernels.hashing.interner import INTERN, InternBlock
from deltamark.dataflow.kernels.parallel.meeting import Meeting
from deltamark.dataflow.operators.arrangement import Arrangement
from deltamark.dataflow.operators.collect import Root
from deltamark.dataflow.operators.distribution import Exchange
from deltamark.dataflow.operators.index import Indexed
from deltamark.dataflow.operators.input import Input, InputReader
from deltamark.dataflow.operators.linear import Filter, Project
from deltamark.dataflow.operators.node import Node
from deltamark.dataflow.passes.prune import Pruned, prune
from deltamark.dataflow.passes.share import ArrangementKey, Choice
from deltamark.dataflow.plan.terms import Term
from deltamark.dataflow.types import Type

ANSWER = "answer"
"""The name of the plan of a dataflow that has only one."""


@dataclass(frozen=True)
class Answer:
    """The collection of the changes of an answer, by the name of its plan."""

    name: str


@dataclass(eq=False, kw_only=True)
class NodePart(ProgramPart):
    """The part of a program that belongs to a node, or to an arrangement (by key columns), index or exchange of it.

    columns: the required columns; rows_cell: the number of rows that it emits of a slice, if it emits any; reads: for
    each input the part that is read, after the projections and residual filters that a join applies as it reads.
    """

    node: Node
    role: tuple[str, ...] | Indexed | Exchange | Answer | None
    columns: tuple[str, ...]
    rows_cell: CellAddress | None = None
    reads: list[tuple[NodePart, ...]] = field(default_factory=list)
    remark: str = ""
    """A note for `explain` on an operator that works in an unusual way."""

    def read(self, *path: NodePart) -> None:
        """Record that the part reads the last part of a path, and applies the others to its rows."""
        self.uses.add(path[-1])
        self.reads.append(path)


@dataclass
class NodeParts:
    """The parts of nodes: of those that have operators, and of those that joins apply as they read arrangements."""

    pruned: Pruned
    _parts: dict[Node, NodePart] = field(default_factory=dict)

    def __getitem__(self, node: Node) -> NodePart:
        return self._parts[node]

    def add(self, node: Node) -> NodePart:
        """Make the part of a node that has an operator."""
        part = self._parts[node] = NodePart(node=node, role=None, columns=self.pruned.columns[node])
        return part

    def applied(self, node: Node, arranged: Node) -> Iterator[NodePart]:
        """Yield the projections and residual filters between the input of a join and the node that is arranged."""
        while isinstance(node, Filter | Project) and node is not arranged:
            if node not in self._parts:
                self._parts[node] = NodePart(node=node, role=None, columns=self._all_columns[node])
            yield self._parts[node]
            node = node.rows

    @cached_property
    def _all_columns(self) -> dict[Node, tuple[str, ...]]:
        """The required columns of all nodes, also of those that have no operator."""
        return dict(prune(self.pruned.plans).columns)


@dataclass(frozen=True, eq=False)
class SharedArrangement:
    """An arrangement that all joins of equal keys read."""

    key: ArrangementKey
    arrangement: Arrangement
    part: NodePart


@dataclass
class Compiled:
    """A program with its inputs, its answers by the names of their dataflows, and the operators of each node.

    interners: those of the keys of joins, by key types, since both sides must number rows alike.
    """

    program: Program
    inputs: dict[str, InputReader] = field(default_factory=dict)
    roots: dict[str, Root] = field(default_factory=dict)
    arrangements: list[SharedArrangement] = field(default_factory=list)
    interners: dict[tuple[Type, ...], Interner] = field(default_factory=dict)
    node_parts: list[NodePart] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)
    lent: set[ProgramPart] = field(default_factory=set)
    """Parts that a backfill reads, which stay even if no answer uses them."""

    def arrangement(
        self, key: ArrangementKey, stored: Iterable[Term], condition: Term | None
    ) -> SharedArrangement | None:
        """Return an arrangement that stores some terms, and has the bitmap of a condition, if there is one."""
        required = set(stored)
        for each in self.arrangements:
            arrangement = each.arrangement
            has_bitmap = condition is None or arrangement.has_bitmap(condition)
            if each.key == key and required <= arrangement.stored.keys() and has_bitmap:
                return each
        return None

    def schedule(self, without: Container[Op] = ()) -> Schedule:
        """Make the schedule of all operators except some, over all inputs."""
        ops = [op for op in self.program.ops if op not in without]
        return self.program.schedule([reader.block for reader in self.inputs.values()], ops, idle_table)

    def states(self) -> dict[ProgramPart, list[OperatorState]]:
        """Return the operators that keep rows or can fail, by the part that they belong to."""
        found: dict[ProgramPart, list[OperatorState]] = defaultdict(list)
        for each in self.program.ops:
            state = self.program.states.get(each.block)
            if state is not None and not any(state is other for other in found[each.part]):
                found[each.part].append(state)
        return found

    def retire(self, name: str) -> None:
        """Remove an answer, if its compilation came so far, and all parts that no other answer uses."""
        self.roots.pop(name, None)
        self.drop_unused()

    def drop_unused(self) -> None:
        """Remove all parts that no answer uses, and that are not lent."""
        alive = reachable([*(root.part for root in self.roots.values()), *self.lent])
        self.program.drop(self.program.parts() - alive - {self.program.base})
        self.node_parts = [each for each in self.node_parts if each in alive]
        self.arrangements = [each for each in self.arrangements if each.part in alive]
        self.interners = {types: each for types, each in self.interners.items() if each.part in alive}
        read = {each.node.name for each in self.node_parts if isinstance(each.node, Input)}
        self.inputs = {each: reader for each, reader in self.inputs.items() if each in read}
        self.choices = [each for each in self.choices if any(each.node is part.node for part in self.node_parts)]
        self._lead()

    def _lead(self) -> None:
        """Make the first user of each interner the one that frees its numbers."""
        led: set[int] = set()
        for each in self.program.ops:
            if each.step is INTERN:
                block = InternBlock(each.block)
                block.leads = int(block.interner.address not in led)
                led.add(block.interner.address)


def link(compiled: Sequence[Compiled]) -> None:
    """Let several workers read the messages of each other. compiled: the same plans, as each of them has them."""
    assert len({tuple(op.step.name for op in each.program.ops) for each in compiled}) == 1
    for meeting in zip(*(each.program.meetings for each in compiled), strict=True):
        blocks = [Meeting(block).as_words for block in meeting]
        places = [place for each in blocks for place in (each.progress, each.messages)]
        for each in blocks:
            view(each.peers, len(places))[:] = places


def reachable(parts: Iterable[ProgramPart]) -> set[ProgramPart]:
    """Return parts, and all parts that they use."""
    found: set[ProgramPart] = set()
    left = list(parts)
    while left:
        part = left.pop()
        if part not in found:
            found.add(part)
            left += part.uses
    return found
