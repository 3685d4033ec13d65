"""Interners: number the rows of keys that do not pack into 62 bits; see kernels.hashing.interner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from deltamark.dataflow.builder.program import Program, ProgramPart
from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.builder.sweeps import TextStore
from deltamark.dataflow.kernels.core.blocks import Array
from deltamark.dataflow.kernels.core.memory import UNBOUNDED_WORDS
from deltamark.dataflow.kernels.groups import garbage
from deltamark.dataflow.kernels.hashing.interner import InternBlock, InternerBlock
from deltamark.dataflow.kernels.opcodes import Opcode
from deltamark.dataflow.kernels.text.pool import TextPool
from deltamark.dataflow.types import Type
from deltamark.errors import DeltamarkError

TABLE_ENTRIES = 1024
"""Entries of a new table of ids. Not measured."""


@dataclass(frozen=True)
class Interner:
    """The block of an interner, the cells of its stored columns, and the part of the program that it belongs to."""

    block: int
    stored: tuple[int, ...]
    part: ProgramPart

    @classmethod
    def of(cls, program: Program, types: Sequence[Type]) -> Interner:
        """Make the interner of keys of some types."""
        with program.building(ProgramPart()):
            reserve = program.memory.reserve
            stored = tuple(program.cell(reserve(UNBOUNDED_WORDS)) for _ in types)
            block = program.block(
                InternerBlock, columns=len(types), table=reserve(TABLE_ENTRIES), mask=TABLE_ENTRIES - 1,
                free=reserve(UNBOUNDED_WORDS), stored=program.table(list(map(program.address, stored))),
                count=reserve(UNBOUNDED_WORDS), empty_since=reserve(UNBOUNDED_WORDS),
                waiting=reserve(UNBOUNDED_WORDS), frontier=program.frontier,
            )  # fmt: skip
            for column, type_ in enumerate(types):
                if type_.kind == "text":
                    program.sweeper.add_marker(program.part, partial(_mark, block, column))
            return cls(block, stored, program.part)

    @property
    def next_id_address(self) -> int:
        """The address of the first id that was never given."""
        return self.block + InternerBlock.fields["next_id"].offset

    def ids(self, stream: Stream, names: Sequence[str]) -> int:
        """Append the numbering of a stream's rows by some columns; return the cell of the ids."""
        program, result = stream.program, stream.program.vector()
        program.part.uses.add(self.part)
        program.add(
            Opcode.INTERN, InternBlock, interner=self.block, size=stream.size, time=stream.time, diff=stream.diff,
            inputs=program.table([stream.column(name) for name in names]), result=result,
            leads=self not in program.states.values(),
        )  # fmt: skip
        program.add_state(self)
        return result

    def free_in_sweeps(self, program: Program, state: int, words: int) -> None:
        """Free ids in sweeps alone, once the records of an aggregate are zero: its sums may outlive its rows."""
        InternerBlock(self.block).keeps_ids = 1
        free = partial(garbage.free_ids, InternerBlock(self.block), Array(state), words)
        program.sweeper.add_owner(program.part, self, free)

    def used(self) -> int:
        """Count the ids in use."""
        return InternerBlock(self.block).used

    def rows(self) -> int:
        """Count the ids that have live rows."""
        return InternerBlock(self.block).live

    def problem(self) -> DeltamarkError:
        raise AssertionError("an interner does not fail")


def _mark(block: int, column: int, texts: TextStore) -> None:
    garbage.mark_interned(TextPool(texts.block), InternerBlock(block), column)
