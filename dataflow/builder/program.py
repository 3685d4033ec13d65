"""A program under construction: its memory, its blocks and cells, and its operators in the order in which they run.

`runtime.worker` runs it. A cell is a word that holds an address or a size; a vector is an array for the rows of a
slice, and is known by its cell. Nothing in this module depends on the kinds of operators.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NewType, Protocol

from deltamark.dataflow.builder.idle import IdleTable, never_idle
from deltamark.dataflow.builder.sweeps import Sweeper
from deltamark.dataflow.kernels.core.blocks import Block
from deltamark.dataflow.kernels.core.guard import CHECKED, forget, register
from deltamark.dataflow.kernels.core.memory import UNBOUNDED_WORDS, Memory, view
from deltamark.dataflow.kernels.core.steps import Step
from deltamark.dataflow.kernels.parallel.meeting import LINE, SLOTS
from deltamark.dataflow.kernels.program import ProgramBlock

SLICE_ROWS = 4096
"""Rows of a slice on one worker, so that its vectors stay in the cache. Not measured."""

WORKERS_SLICE_FACTOR = 2
"""Slices of several workers are longer by this factor, because workers wait for each other where rows are exchanged.
With two workers, at SF 1, the factors 1, 4 and 8 take 1.07, 1.03 and 1.06 times as long (seven queries).
"""

DELAY_SEED = 0
"""The seed of random delays of workers where they meet; 0: no delays. Tests set it."""

GAP_BYTES = 8 if CHECKED else 0
"""Bytes between blocks, with which checked kernels detect an access behind a block."""

CHUNK_WORDS = 1 << 18
"""Words that are reserved together for blocks, cells and tables."""


Address = NewType("Address", int)
"""The address of a word in the memory of a program."""

CellAddress = NewType("CellAddress", int)
"""The address of a cell that holds a number."""

VectorAddress = NewType("VectorAddress", int)
"""The address of a cell that holds the address of an array: a vector, or the values that an operator stores."""

BlockAddress = NewType("BlockAddress", int)
TableAddress = NewType("TableAddress", int)

NO_VECTOR = VectorAddress(0)


class OperatorState(Protocol):
    """The rows that an operator keeps between feeds, and the error that it has failed with."""

    def rows(self) -> int: ...

    def problem(self) -> Exception: ...


@dataclass(eq=False)
class ProgramPart:
    """A unit of construction: operators and memory belong to it, and it uses other parts."""

    uses: set[ProgramPart] = field(default_factory=set)


@dataclass(frozen=True)
class Op:
    """An operator: its step and block, and the part that it belongs to. Late operators run after all others."""

    step: Step
    block: BlockAddress
    part: ProgramPart
    late: bool


@dataclass(frozen=True)
class Schedule:
    """Operators in the order in which they run, and their `ProgramBlock`."""

    block: BlockAddress
    ops: Sequence[Op]


class Program:
    """The memory and the operators of a program that a worker runs.

    It is built, and parts of it are dropped, between the calls of this worker. workers: the number of workers that run
    equal programs, each with memory of its own; number: that of this worker.
    """

    def __init__(self, workers: int = 1, number: int = 0) -> None:
        self.workers = workers
        self.memory = Memory()
        self.memory.owner = self.base = ProgramPart()
        """The part of the memory that the whole program uses."""
        self._chunk = self._chunk_end = self._first = 0
        self.chunks: dict[int, int] = {}
        """The ends of the used words of the chunks, by their first addresses: all blocks, tables and cells."""
        self._vectors: dict[int, VectorAddress] = {}
        """The cell of each reservation that is the memory of a vector."""
        self.sizes: dict[int, int] = {}
        """The number of words of each block, table and cell, by address."""
        self._parts: dict[int, ProgramPart] = {}
        """The part that each of them belongs to, unless that was dropped."""
        self._dropped: list[tuple[int, int]] = []
        """The address and the number of words of those whose part was dropped, since they were taken."""
        self._constants: dict[str, TableAddress] = {}
        """The tables of constants, by name."""
        self.ops: list[Op] = []
        self.states: dict[BlockAddress, OperatorState] = {}
        """The states of the operators that keep rows or can fail, by block."""
        with self.memory.or_closed():
            self.frontier, self.spins = self.cell(), self.cell()
            self.delays = self.cell(DELAY_SEED and DELAY_SEED + number)
            """Cells: the end of the superstep, and the loads and random delays of this worker at meetings."""
            self.worker = self.cell(number)
            self.stop = self.cell()
            """A cell that is not 0 once a worker has failed."""
            self.one = self.cell(1)
            self.fan_out = self.cell()
            """The cell of the most rows that an operator has made of the slice: see kernels.program."""
            self.zeros = VectorAddress(self.words(1, [self.memory.reserve(UNBOUNDED_WORDS)]))
            """A vector of zeros."""
        self.meetings: list[BlockAddress] = []
        """The operators at which the workers meet."""
        self.slice_rows: int | None = None
        """The rows of a slice, if not the default."""
        self.sweeper = Sweeper()

    @property
    def part(self) -> ProgramPart:
        """The part under construction."""
        part: ProgramPart = self.memory.owner  # type: ignore[assignment]  # as `building` sets it
        return part

    @contextmanager
    def building(self, part: ProgramPart) -> Iterator[None]:
        """Construct another part, which the current one uses."""
        before = self.part
        if self.base not in (before, part) and part is not before:
            before.uses.add(part)
        self.memory.owner = part
        try:
            yield
        finally:
            self.memory.owner = before

    def state_memory(self) -> dict[int, object]:
        """Return the reservations that hold state rather than vectors, with the parts that they belong to."""
        return {at: part for at, part in self.memory.reservations().items() if at not in self._vectors}

    def parts(self) -> set[object]:
        """Return all parts that operators or memory belong to."""
        return {op.part for op in self.ops} | set(self.memory.reservations().values())

    def drop(self, parts: set[object]) -> None:
        """Remove parts that no other part uses, and free their memory."""
        self.sweeper.drop(parts)
        for op in self.ops:
            if op.part in parts:
                self.states.pop(op.block, None)
        self.ops = [op for op in self.ops if op.part not in parts]
        blocks = {op.block for op in self.ops}
        self.meetings = [each for each in self.meetings if each in blocks]
        dropped = [address for address, part in self.memory.reservations().items() if part in parts]
        for address in dropped:
            self._vectors.pop(address, None)
        self.memory.release(*dropped)
        unused = [address for address, part in self._parts.items() if part in parts]
        for address in unused:
            del self._parts[address]
        self._dropped += [(address, self.sizes[address]) for address in unused]

    def take_dropped(self) -> list[tuple[int, int]]:
        """Return the address and the number of the words whose part was dropped since the last call."""
        taken, self._dropped = self._dropped, []
        return taken

    def words(self, count: int, values: Sequence[int] = ()) -> Address:
        """Allocate words, the first of which hold `values`; return their address."""
        if self._chunk + 8 * count > self._chunk_end:
            size = max(count, CHUNK_WORDS)
            with self.building(self.base):
                self._chunk = self._first = self.memory.reserve(size)
            forget([(self._chunk, 8 * size)])  # only the blocks in the chunk may be touched
            self._chunk_end = self._chunk + 8 * size
        address = Address(self._chunk)
        self._chunk += 8 * count + GAP_BYTES
        self.sizes[address], self._parts[address] = count, self.part
        self.chunks[self._first] = address + 8 * count
        register(address, 8 * count, f"a block of {count} words")
        if values:
            view(address, len(values))[:] = values
        return address

    def cell(self, content: int = 0) -> CellAddress:
        """Make a cell; return its address."""
        return CellAddress(self.words(1, [content]))

    def read(self, cell: CellAddress | VectorAddress) -> int:
        """Return the number or the address that a cell holds."""
        return int(view(cell, 1)[0])

    def write(self, cell: CellAddress, content: int) -> None:
        """Let a cell hold a number."""
        view(cell, 1)[0] = content

    def array(self, expected: int = 0) -> VectorAddress:
        """Make an array without values, which is not moved; return its cell. expected: its words, 0 if not known."""
        return VectorAddress(self.words(1, [self.memory.reserve_unset(UNBOUNDED_WORDS, expected)]))

    def alias(self) -> VectorAddress:
        """Make a cell that gets the address of other arrays while the program runs."""
        return VectorAddress(self.words(1))

    def vector(self) -> VectorAddress:
        """Make a vector with room for any slice; return its cell."""
        cell = self.array(SLICE_ROWS)
        self._vectors[self.read(cell)] = cell
        return cell

    def vectors(self) -> set[VectorAddress]:
        """Return the cells of all vectors that have memory of their own."""
        return set(self._vectors.values())

    def move_vector(self, cell: VectorAddress, address: int) -> None:
        """Let a vector use the memory of another one."""
        own = self.read(cell)
        if own != address:
            view(cell, 1)[0] = address
            del self._vectors[own]
            self.memory.release(own)

    def table(self, values: Sequence[int]) -> TableAddress:
        """Make a table of words; return its address."""
        return TableAddress(self.words(max(len(values), 1), values))

    def constants(self, name: str, values: Sequence[int]) -> TableAddress:
        """Return the address of a table of constants, which all operators share."""
        if name not in self._constants:
            self._constants[name] = self.table(values)
        return self._constants[name]

    def block(self, kind: type[Block], **fields: int) -> BlockAddress:
        """Make a block; return its address."""
        return BlockAddress(self.words(kind.size_in_words, kind.words(**fields)))

    def add(self, step: Step, **fields: int) -> BlockAddress:
        """Append an operator; return the address of its block."""
        return self._add(step, fields, late=False)

    def add_meeting(self, step: Step, **fields: int) -> BlockAddress:
        """Append an operator at which the workers meet; return the address of its block."""
        block = self.add(
            step, worker=self.worker, workers=self.workers, progress=self.words(LINE),
            messages=self.table([self.memory.reserve(UNBOUNDED_WORDS) for _ in range(SLOTS)]),
            peers=self.words(2 * self.workers), spins=self.spins, stop=self.stop, delays=self.delays, **fields,
        )  # fmt: skip
        self.meetings.append(block)
        return block

    def add_late(self, step: Step, **fields: int) -> BlockAddress:
        """Append an operator that runs after all others that are not late; return the address of its block."""
        return self._add(step, fields, late=True)

    def _add(self, step: Step, fields: Mapping[str, int], *, late: bool) -> BlockAddress:
        block = self.block(step.block, **fields)
        self.ops.append(Op(step, block, self.part, late))
        return block

    def add_state(self, state: OperatorState) -> None:
        """Add the state of the last operator."""
        self.states[self.ops[-1].block] = state

    def schedule(
        self, inputs: Sequence[BlockAddress], ops: Sequence[Op], idle_table: IdleTable = never_idle
    ) -> Schedule:
        """Make the schedule of operators over the slices of inputs.

        idle_table: makes the table of idle operators. It is valid until an operator is bound to other cells.
        """
        ops = in_order(ops)
        calls, idle = [word for op in ops for word in op.step.call(op.block)], idle_table(ops, self.one)
        with self.building(self.base):
            words = ProgramBlock.size_in_words + len(inputs) + len(calls) + len(idle)
            memory = BlockAddress(self.memory.reserve(words))
        table = memory + 8 * ProgramBlock.size_in_words
        rows = self.slice_rows or SLICE_ROWS * (1 if self.workers == 1 else WORKERS_SLICE_FACTOR)
        content = ProgramBlock.words(
            inputs=len(inputs), input_blocks=table, ops=len(ops), calls=table + 8 * len(inputs),
            frontier=self.frontier, slice_rows=rows, workers=self.workers, worker=self.worker, fan_out=self.fan_out,
            stop=self.stop, max_slice_rows=rows, idle=table + 8 * (len(inputs) + len(calls)),
        )  # fmt: skip
        content += [*inputs, *calls, *idle]
        view(memory, len(content))[:] = content
        return Schedule(memory, ops)


def in_order(ops: Sequence[Op]) -> list[Op]:
    """Return operators in the order in which they run."""
    return sorted(ops, key=lambda op: op.late)
