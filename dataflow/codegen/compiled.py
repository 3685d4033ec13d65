"""Compiled plans: a program, its inputs and answers, and the arrangements that its operators share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from deltamark.dataflow.builder.idle import idle_table
from deltamark.dataflow.builder.interner import Interner
from deltamark.dataflow.builder.program import Op, OperatorState, Program, ProgramPart, Schedule
from deltamark.dataflow.codegen.node_parts import NodePart
from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.kernels.hashing.interner import InternBlock
from deltamark.dataflow.kernels.opcodes import Opcode
from deltamark.dataflow.operators.arrangement import Arrangement
from deltamark.dataflow.operators.collect import Root
from deltamark.dataflow.operators.exchange import Mailboxes
from deltamark.dataflow.operators.linear import InputReader
from deltamark.dataflow.plan import nodes
from deltamark.dataflow.plan.passes.sharing import ArrangementKey, Choice
from deltamark.dataflow.plan.terms import Term
from deltamark.dataflow.types import Type


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
    exchanges: list[Mailboxes] = field(default_factory=list)
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
        read = {each.node.name for each in self.node_parts if isinstance(each.node, nodes.Input)}
        self.inputs = {each: block for each, block in self.inputs.items() if each in read}
        self.choices = [each for each in self.choices if any(each.node is part.node for part in self.node_parts)]
        self._lead()

    def _lead(self) -> None:
        """Make the first user of each interner the one that frees its numbers."""
        led: set[int] = set()
        for each in self.program.ops:
            if view(each.block, 1)[0] == Opcode.INTERN:
                block = InternBlock(each.block)
                block.leads = int(block.interner.address not in led)
                led.add(block.interner.address)


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
