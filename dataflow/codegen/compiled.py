"""A compiled plan: its program, and what of it was built for whom."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from deltamark.dataflow.codegen.columns import Interner
from deltamark.dataflow.codegen.program import Loop, Op, Part, Program, State
from deltamark.dataflow.kernels import interpreter as vm
from deltamark.dataflow.kernels.core.interner import Intern
from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.operators.arrangement import Arrangement
from deltamark.dataflow.operators.exchange import Exchange
from deltamark.dataflow.operators.linear import Input
from deltamark.dataflow.operators.motifs.index import Indexed
from deltamark.dataflow.plan.nodes import Node
from deltamark.dataflow.plan.partitioning import Delivery
from deltamark.dataflow.plan.sharing import Choice
from deltamark.dataflow.plan.terms import Term
from deltamark.dataflow.types import Type

Arranged = tuple[Node, Delivery | None, tuple[str, ...], tuple[Type, ...]]
"""What is arranged: the rows of a node, as delivered, by columns, whose types span those of both sides of a join."""


@dataclass(frozen=True)
class Root:
    """A maintained answer: the block that collects it, and where each worker collects time, diff and the arrays.

    Of a text the arrays are two: where it starts, and its length.
    """

    names: tuple[str, ...]
    arrays: tuple[str, ...]
    texts: tuple[str, ...]
    block: int
    vectors: tuple[tuple[int, ...], ...]
    part: Part


@dataclass(eq=False, kw_only=True)
class Built(Part):
    """What was built for a node, its arrangement, its index or its delivery."""

    node: Node
    how: tuple[str, ...] | Indexed | Delivery | None


@dataclass(frozen=True, eq=False)
class Kept:
    """An arrangement: what it is of, and what it was built as."""

    what: Arranged
    arrangement: Arrangement
    part: Built


@dataclass
class Compiled:
    program: Program
    inputs: dict[str, Input] = field(default_factory=dict)
    roots: dict[str, Root] = field(default_factory=dict)
    """The answers, by the names of their dataflows."""
    kept: list[Kept] = field(default_factory=list)
    interners: dict[tuple[Type, ...], Interner] = field(default_factory=dict)
    """Of the keys of joins: both sides must number rows alike."""
    built: list[Built] = field(default_factory=list)
    readers: dict[Part, list[Built]] = field(default_factory=lambda: defaultdict(list))
    """What reads an arrangement or a delivery."""
    shared: dict[Node, str] = field(default_factory=dict)
    """How several workers do without moving rows what they do together."""
    exchanges: list[Exchange] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)
    """What was decided about filters: see dataflow.plan.sharing."""

    def arrangement(self, what: Arranged, stored: Iterable[Term], condition: Term | None) -> Kept | None:
        """Return an arrangement that stores all of this, and knows which rows meet a condition, if there is one."""
        wanted = set(stored)
        for each in self.kept:
            there = each.arrangement
            if each.what == what and wanted <= there.stored.keys() and (condition is None or there.tells(condition)):
                return each
        return None

    def loop(self, without: Container[Op] = ()) -> Loop:
        """Make the loop over all inputs and operators but some."""
        ops = [each for each in self.program.ops if each not in without]
        return self.program.loop([each.block for each in self.inputs.values()], ops)

    def states(self) -> dict[Part, list[State]]:
        """List what keeps rows or can fail, by the part that it belongs to."""
        found: dict[Part, list[State]] = defaultdict(list)
        for each in self.program.ops:
            state = self.program.states.get(each.block)
            if state is not None and not any(state is other for other in found[each.part]):
                found[each.part].append(state)
        return found

    def retire(self, name: str) -> None:
        """Take an answer away, and all that no other answer uses."""
        del self.roots[name]
        alive = reachable(root.part for root in self.roots.values())
        self.program.drop(self.program.parts() - alive - {self.program.base})
        self.built = [each for each in self.built if each in alive]
        self.kept = [each for each in self.kept if each.part in alive]
        self.interners = {types: each for types, each in self.interners.items() if each.part in alive}
        self.readers = defaultdict(list, {
            part: [each for each in readers if each in alive] for part, readers in self.readers.items() if part in alive
        })  # fmt: skip
        read = {each.node.params for each in self.built if each.node.op == "input"}
        self.inputs = {each: block for each, block in self.inputs.items() if each in read}
        self.choices = [each for each in self.choices if any(each.node is built.node for built in self.built)]
        self._lead()

    def _lead(self) -> None:
        """Let the first user of each interner be the one that gives numbers back."""
        led: set[int] = set()
        for each in self.program.ops:
            if view(each.block, 1)[0] == vm.INTERN:
                block = Intern(each.block)
                block.leads = int(block.interner.address not in led)
                led.add(block.interner.address)


def reachable(parts: Iterable[Part]) -> set[Part]:
    """Return parts and all that they use."""
    found: set[Part] = set()
    left = list(parts)
    while left:
        part = left.pop()
        if part not in found:
            found.add(part)
            left += part.uses
    return found
