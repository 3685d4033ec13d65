"""Arrangement: the rows of a collection by key, inserted before and settled after all who read them in a slice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from deltamark.dataflow.codegen.columns import Stream
from deltamark.dataflow.codegen.memory_layout import UNBOUNDED_WORDS
from deltamark.dataflow.codegen.program import Keys, Program
from deltamark.dataflow.kernels.arrangements import arrangement as kernel
from deltamark.dataflow.kernels.core.blocks import Array8
from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.kernels.groups import garbage
from deltamark.dataflow.kernels.opcodes import Opcode
from deltamark.dataflow.kernels.text.pool import TextPool
from deltamark.dataflow.operators.linear import passing
from deltamark.dataflow.plan.terms import Term
from deltamark.errors import DeltamarkError


@dataclass(frozen=True)
class Arrangement:
    """Its block, and the cells of what it stores."""

    block: int
    stored: Mapping[Term, int]

    def rows(self) -> int:
        block = kernel.ArrangementBlock(self.block)
        return block.live + block.first

    def slots(self) -> int:
        """Count the slots in which there may be a row."""
        block = kernel.ArrangementBlock(self.block)
        return block.mark + block.first

    def has_bitmap(self, condition: Term) -> bool:
        """Return whether the arrangement has a bitmap that says which rows satisfy a condition."""
        return any(term.op == "passes" and condition in term.args for term in self.stored)

    def bitmap(self, condition: Term | None) -> tuple[int, int]:
        """Return the bitmap of a condition: the address of a word per slot, and the bit; (0, 0) if there is none."""
        for term, cell in self.stored.items():
            if condition is not None and term.op == "passes" and condition in term.args:
                return int(view(cell, 1)[0]), term.args.index(condition)
        return 0, 0

    def problem(self) -> DeltamarkError:
        block = kernel.ArrangementBlock(self.block)
        slot, time = block.negative_slot, block.negative_time
        cells = {str(term): cell for term, cell in self.stored.items() if term.op != "passes"}
        row = {name: int(view(int(view(cell, 1)[0]) + 8 * slot, 1)[0]) for name, cell in cells.items()}
        return negative(row, time)


def negative(row: Mapping[str, int], time: int) -> DeltamarkError:
    """Return the error for more retractions than insertions."""
    actual = f"{', '.join(f'{name}={value}' for name, value in row.items()) or 'a row'} at time {time}"
    return DeltamarkError("a negative multiplicity", actual, "retract only what was inserted before")


def wide_weight() -> DeltamarkError:
    """Return the error for a row that is there too often."""
    return DeltamarkError("a weight needs more than 64 bits", "a sum or a product of weights", "feed smaller weights")


class Weights:
    """What can go wrong in an operator that keeps no rows."""

    def rows(self) -> int:
        return 0

    def problem(self) -> DeltamarkError:
        return wide_weight()


def arrange(stream: Stream, key: int, keys: Keys, terms: Sequence[Term]) -> Arrangement:
    """Append the insertion of a stream into an arrangement that stores some terms of its columns."""
    program = stream.program
    inputs = program.table(
        [passing(stream, term.args) if term.op == "passes" else stream.evaluate(term) for term in terms]
    )
    stored = {term: program.cell(program.memory.reserve(UNBOUNDED_WORDS)) for term in terms}
    addresses = program.table([int(view(cell, 1)[0]) for cell in stored.values()])
    reserve = program.memory.reserve
    block = program.add(
        Opcode.INSERT, kernel.ArrangementBlock, size=stream.size, time=stream.time, diff=stream.diff, key=key,
        keys=keys.block,
        frontier=program.frontier, lists=reserve(keys.capacity), next=reserve(UNBOUNDED_WORDS),
        weight=reserve(UNBOUNDED_WORDS),
        scratch=reserve(UNBOUNDED_WORDS), holes=reserve(UNBOUNDED_WORDS), settled=reserve(UNBOUNDED_WORDS),
        columns=len(terms), inputs=inputs,
        stored=addresses, visible_time=stream.time, visible_diff=stream.diff,
    )  # fmt: skip
    made = Arrangement(block, stored)
    program.keep(made)
    for column, term in enumerate(terms):
        if term.type.kind == "text":
            program.holds_texts(partial(_mark, program, block, column))
    return made


def _mark(program: Program, block: int, column: int, pool: int) -> None:
    garbage.mark_arranged(TextPool(pool), kernel.ArrangementBlock(block), column, Array8(program.pool.free))
