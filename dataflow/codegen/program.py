"""A program under construction: blocks, cells and vectors in one Memory, and the operators in the order they run.

Nothing here knows what an operator does. A cell is a word that holds an address or a size; see kernels.expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from deltamark.dataflow.codegen.growth import make_room
from deltamark.dataflow.codegen.memory_layout import UNBOUNDED_WORDS
from deltamark.dataflow.kernels import interpreter as vm
from deltamark.dataflow.kernels.core.blocks import Block, Operator
from deltamark.dataflow.kernels.core.guard import CHECKED, REGISTRY, OutOfBoundsError, forget, register
from deltamark.dataflow.kernels.core.memory import Memory, view
from deltamark.dataflow.kernels.groups import garbage
from deltamark.dataflow.kernels.hashing.hash_map import KeyMap
from deltamark.dataflow.kernels.opcodes import Opcode
from deltamark.dataflow.kernels.program import ProgramBlock, RoomBlock
from deltamark.dataflow.kernels.text import pool as text_pool
from deltamark.dataflow.types import Type

SLICE_ROWS, LONGER = 4096, 4
"""LONGER: how many times as long slices are with several workers, who wait for each other at every one."""

GAP = 8 if CHECKED else 0
"""Bytes between blocks."""

WORDS = 1 << 18
"""Reserved at once for blocks, cells and tables."""

DIRECT_SHARE, DIRECT_FREE = 4, 1 << 16
"""Keys index an array directly while their range is at most 4 times the rows that may be live, plus 64K: enough for
TPC-H's order keys, of which a quarter is used, and little enough for memory to follow the rows of a window."""

LEAST_KEYS = 1024
"""Entries of a new hashed map."""

DIRECT_MOST = 1 << 33
"""A larger range of keys is hashed whatever the rows: the address space is bounded, too."""


LEAST_SWEPT = 1 << 15
"""Texts and ids that are never worth a sweep."""


class Swept(Protocol):
    """Something that sweeps give back."""

    def used(self) -> int: ...


class State(Protocol):
    """What an operator keeps between feeds, for explain, state sizes and error messages."""

    def rows(self) -> int: ...

    def problem(self) -> Exception: ...


class KeyRange(Protocol):
    """What a map must know of its keys; interned ones are dense ids."""

    @property
    def low(self) -> int: ...

    @property
    def high(self) -> int: ...

    @property
    def form(self) -> str: ...

    @property
    def given(self) -> int: ...

    @property
    def texts(self) -> Sequence[TextDigit]: ...


class TextDigit(Protocol):
    """What a sweep must know of a digit of a key that is the number of a text; a radix of 0 is the whole key."""

    @property
    def divisor(self) -> int: ...

    @property
    def radix(self) -> int: ...

    @property
    def low(self) -> int: ...


@dataclass(frozen=True)
class Keys:
    """A map of keys to ids: its block, and how many ids there may be."""

    block: int
    capacity: int


@dataclass(eq=False)
class Part:
    """Something that is built: operators and memory belong to it, and it uses what belongs to other parts."""

    uses: set[Part] = field(default_factory=set)


@dataclass(frozen=True)
class Op:
    """An operator's block, and the part that it belongs to. Late ones run after all others."""

    block: int
    part: Part
    late: bool


@dataclass(frozen=True)
class Loop:
    """Operators to be run in turn: the block of kernels.interpreter, which is a reservation, and those of the
    operators.
    """

    block: int
    ops: Sequence[int]


class Program:
    def __init__(self, workers: int = 1) -> None:
        self.workers = workers
        self.memory = Memory()
        self.memory.owner = self.base = Part()
        """What belongs to the program as a whole."""
        self._words = self._end = 0
        self._vectors: dict[int, int] = {}
        """The cell of each reservation that is a vector's own."""
        self.tables: dict[int, int] = {}
        """How many words lie at an address: blocks, tables and cells."""
        self.ops: list[Op] = []
        self.states: dict[int, State] = {}
        """Of the operators that can fail or keep rows, by their blocks."""
        self.frontier, self.worker, self.spins = self.words(1), self.words(1), self.words(1)
        """Cells: where the round ends, which worker this is, and how often it looks before it asks why it waits."""
        self.crowd = self.cell()
        """How many rows an operator that may multiply them has made of a slice: see kernels.interpreter."""
        self.nothing = self.cell(self.memory.reserve(UNBOUNDED_WORDS))
        """A vector of zeros."""
        self._differing: list[tuple[int, Sequence[int]]] = []
        self.slice_rows: int | None = None
        """Rows of a slice, if somebody has chosen them."""
        self.pool: Any = None
        """The texts that are kept, once an operator keeps any: see operators.text."""
        self.keeps_texts = False
        """Must texts that no state holds keep their numbers for now?"""
        self._holders: list[tuple[Part, Callable[[int], object]]] = []
        """What marks the texts that states hold in a pool, given its block, and the parts that these belong to."""
        self._swept: list[tuple[Part, Swept, Callable[[], object]]] = []
        """What else is swept: its part, what says how much of it is in use, and what gives the rest back."""
        self._left = LEAST_SWEPT
        """How many texts and ids the last sweep has left."""

    def for_each_worker(self, words: int) -> list[int]:
        """Reserve memory for each worker, which the others can read."""
        reserve = self.memory.reserve if self.workers == 1 else self.memory.share
        return [reserve(words) for _ in range(self.workers)]

    def differ(self, address: int, values: Sequence[int]) -> None:
        """Say what a word holds in each worker's process; it holds the first value until `become`."""
        self._differing.append((address, values))

    def become(self, worker: int) -> None:
        """Turn this process's copy of the program into that of a worker."""
        view(self.worker, 1)[0] = worker
        for address, values in self._differing:
            view(address, 1)[0] = values[worker]

    @property
    def part(self) -> Part:
        """The part that is being built."""
        part: Part = self.memory.owner  # type: ignore[assignment]
        return part

    @contextmanager
    def building(self, part: Part) -> Iterator[None]:
        """Build another part, which the one that is being built uses."""
        before = self.part
        if self.base not in (before, part) and part is not before:
            before.uses.add(part)
        self.memory.owner = part
        try:
            yield
        finally:
            self.memory.owner = before

    def state_memory(self) -> dict[int, object]:
        """Return the reservations that hold state, and no vectors of a slice, with the parts that they belong to."""
        return {at: part for at, part in self.memory.reservations().items() if at not in self._vectors}

    def parts(self) -> set[object]:
        """Return all parts that operators or memory belong to."""
        return {each.part for each in self.ops} | set(self.memory.reservations().values())

    def holds_texts(self, mark: Callable[[int], object]) -> None:
        """Say how the texts that a state of the part being built holds are marked; see kernels.groups.garbage."""
        self._holders.append((self.part, mark))

    def swept(self, what: Swept, give_back: Callable[[], object]) -> None:
        """Say what sweeps have to give back of a state of the part being built."""
        self._swept.append((self.part, what, give_back))

    def sweep_if_due(self) -> None:
        """Give unused texts and ids back where there may be as many of them as of others. No feed may be under way."""
        if (self.pool is not None or self._swept) and self._used() > 2 * self._left:
            self.sweep()

    def _used(self) -> int:
        return sum(each.used() for _, each, _ in self._swept) + (self.pool.used() if self.pool is not None else 0)

    def sweep(self) -> None:
        """Give back the texts and ids that no state holds. No feed may be under way."""
        if self.keeps_texts:
            return
        for _, _, give_back in self._swept:
            give_back()
        if self.pool is not None:
            for _, mark in self._holders:
                mark(self.pool.block)
            garbage.sweep(text_pool.TextPool(self.pool.block))
        self._left = max(self._used(), LEAST_SWEPT)

    def drop(self, parts: set[object]) -> None:
        """Forget parts, which none of the others uses, and give their memory back."""
        self._holders = [each for each in self._holders if each[0] not in parts]
        self._swept = [each for each in self._swept if each[0] not in parts]
        for each in self.ops:
            if each.part in parts:
                self.states.pop(each.block, None)
        self.ops = [each for each in self.ops if each.part not in parts]
        for address, part in list(self.memory.reservations().items()):
            if part in parts:
                self._vectors.pop(address, None)
                self.memory.release(address)

    def run(self, loop: Loop, start: int, wait: Callable[[], None]) -> None:
        """Run a loop from an operator, or (-1) over all slices of its inputs, making room where it is needed."""
        stopped = self._run(loop, start)
        while stopped != vm.DONE:
            at, reason = divmod(stopped, 4)
            if reason == vm.FAILED:
                raise self.states[loop.ops[at]].problem()
            if reason == vm.WAIT:
                wait()
            else:
                make_room(self, loop.ops[at])
            stopped = self._run(loop, at)

    def _run(self, loop: Loop, start: int) -> int:
        try:
            stopped: int = vm.run(loop.block, start)
        except OutOfBoundsError:
            at = ProgramBlock(loop.block).running
            code = int(view(loop.ops[at], 1)[0])
            actual = f"operator {at}, {Opcode(code).name} at {loop.ops[at]:#x}: {REGISTRY.fault() if REGISTRY else ''}"
            raise OutOfBoundsError(actual) from None
        return stopped

    def words(self, count: int, values: Sequence[int] = ()) -> int:
        """Return the address of so many words, the first ones holding `values`."""
        if self._words + 8 * count > self._end:
            size = max(count, WORDS)
            with self.building(self.base):
                self._words = self.memory.reserve(size)
            forget(self._words, 8 * size)  # it is the blocks in it that are touched
            self._end = self._words + 8 * size
        address = self._words
        self._words += 8 * count + GAP
        self.tables[address] = count
        register(address, 8 * count, f"a block of {count} words")
        if values:
            view(address, len(values))[:] = values
        return address

    def cell(self, content: int = 0) -> int:
        return self.words(1, [content])

    def vector(self) -> int:
        """Return the cell of a vector with as much room as is ever needed."""
        address = self.memory.reserve(UNBOUNDED_WORDS)
        self._vectors[address] = self.cell(address)
        return self._vectors[address]

    def vectors(self) -> set[int]:
        """Return the cells of all vectors that have memory of their own."""
        return set(self._vectors.values())

    def address(self, cell: int) -> int:
        return int(view(cell, 1)[0])

    def move(self, cell: int, address: int) -> None:
        """Let a vector lie where another one lies."""
        own = self.address(cell)
        if own != address:
            view(cell, 1)[0] = address
            del self._vectors[own]
            self.memory.release(own)

    def table(self, values: Sequence[int]) -> int:
        return self.words(max(len(values), 1), values)

    def block(self, kind: type[Block], **fields: int) -> int:
        """Make a block, and return its address."""
        return self.words(kind.size_in_words, kind.words(**fields))

    def add(self, code: int, kind: type[Operator], **fields: int) -> int:
        """Append an operator and return the address of its block."""
        return self._add(code, kind, fields, late=False)

    def add_late(self, code: int, kind: type[Operator], **fields: int) -> int:
        """Append an operator that runs when all others have, and return the address of its block."""
        return self._add(code, kind, fields, late=True)

    def _add(self, code: int, kind: type[Operator], fields: Mapping[str, int], *, late: bool) -> int:
        block = self.block(kind, opcode=code, **fields)
        self.ops.append(Op(block, self.part, late))
        return block

    def keep(self, state: State) -> None:
        """Say what the last operator keeps."""
        self.states[self.ops[-1].block] = state

    def keys(self, key: KeyRange, rows: int, coming: int) -> Keys:
        """Make a map for keys of a range, and see to its room before `coming` (a cell) rows are added."""
        direct = key.high - key.low < min(DIRECT_SHARE * rows + DIRECT_FREE, DIRECT_MOST) and not key.texts
        if key.form == "interned" or direct:
            block = self.block(KeyMap, hashed=0, low=key.low, high=key.high, interned=key.given)
            return Keys(block, key.high - key.low + 1)
        table, free, names = (
            self.memory.reserve(words) for words in (2 * LEAST_KEYS, UNBOUNDED_WORDS, UNBOUNDED_WORDS)
        )
        block = self.block(
            KeyMap, hashed=1, low=key.low, high=key.high, mask=LEAST_KEYS - 1, table=table, free=free, keys=names
        )
        self.add(Opcode.ROOM, RoomBlock, keys=block, coming=coming)
        for digit in key.texts:
            self.holds_texts(partial(_mark_keys, block, digit))
        return Keys(block, UNBOUNDED_WORDS)

    def loop(self, inputs: Sequence[int], ops: Sequence[Op]) -> Loop:
        """Make the loop that runs operators over inputs."""
        blocks = [each.block for each in in_order(ops)]
        with self.building(self.base):
            memory = self.memory.reserve(ProgramBlock.size_in_words + len(inputs) + len(blocks))
        table = memory + 8 * ProgramBlock.size_in_words
        rows = self.slice_rows or SLICE_ROWS * (1 if self.workers == 1 else LONGER)
        words = ProgramBlock.words(
            inputs=len(inputs), input_blocks=table, ops=len(blocks), op_blocks=table + 8 * len(inputs),
            frontier=self.frontier, slice_rows=rows, workers=self.workers, worker=self.worker, fan_out=self.crowd,
            max_slice_rows=rows,
        )  # fmt: skip
        view(memory, len(words))[:] = words
        view(table, len(inputs) + len(blocks))[:] = [*inputs, *blocks]
        return Loop(memory, blocks)


def in_order(ops: Sequence[Op]) -> list[Op]:
    """Return operators in the order in which they run."""
    return sorted(ops, key=lambda op: op.late)


def nobody() -> None:
    raise AssertionError("a worker that is alone waits for nobody")


def key_range(types: Sequence[Type]) -> list[tuple[int, int]]:
    """Return for each key column its low bound and its radix: one more for a value that may be missing."""
    return [(each.low - each.nullable, each.high - each.low + 1 + each.nullable) for each in types]


def _mark_keys(keys: int, digit: TextDigit, pool: int) -> None:
    garbage.mark_keys(text_pool.TextPool(pool), KeyMap(keys), digit.divisor, digit.radix, digit.low)
