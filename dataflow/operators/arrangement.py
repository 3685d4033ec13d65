"""Arrangement: the rows of a collection by key, which joins share.

A slice is inserted before the operators that read it, and settled after all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from deltamark.dataflow.builder.key_ids import KeyIds
from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.builder.sweeps import TextStore
from deltamark.dataflow.builder.terms import evaluate
from deltamark.dataflow.kernels.arrangements.arrangement import ArrangementBlock
from deltamark.dataflow.kernels.core.blocks import vector_at
from deltamark.dataflow.kernels.core.memory import UNBOUNDED_WORDS
from deltamark.dataflow.kernels.groups import garbage
from deltamark.dataflow.kernels.hashing.hash_map import KeyMap
from deltamark.dataflow.kernels.opcodes import Opcode
from deltamark.dataflow.kernels.text.pool import TextPool
from deltamark.dataflow.operators.errors import negative_multiplicity
from deltamark.dataflow.operators.linear import filter_bits
from deltamark.dataflow.plan.terms import Term
from deltamark.errors import DeltamarkError

MIN_KEYS_PER_ROW = 8
"""The least number of possible keys for a row with which a bitmap says which keys have rows; not measured."""

GROWING = ("next", "taken_by", "used", "unused", "weight", "scratch", "ids", "places", "numbers")
"""The arrays of an arrangement whose size is not known."""


@dataclass(frozen=True)
class Arrangement:
    """The block of an arrangement, and the cell of each term that it stores."""

    block: int
    stored: Mapping[Term, int]

    def rows(self) -> int:
        """Count the rows, and the updates that are held."""
        block = ArrangementBlock(self.block)
        return block.live + block.first

    def slots(self) -> int:
        """Count the slots that may hold a row."""
        block = ArrangementBlock(self.block)
        return block.top

    def has_bitmap(self, condition: Term) -> bool:
        """Return whether the arrangement stores a bitmap of the rows that satisfy a condition."""
        return any(term.op == "passes" and condition in term.args for term in self.stored)

    def bitmap(self, condition: Term | None) -> tuple[int, int]:
        """Return the bitmap of a condition: the address of a word per slot, and the bit; (0, 0) if there is none."""
        for term, cell in self.stored.items():
            if condition is not None and term.op == "passes" and condition in term.args:
                return vector_at(cell).address, term.args.index(condition)
        return 0, 0

    def problem(self) -> DeltamarkError:
        """Return the error that has made the kernel fail."""
        block = ArrangementBlock(self.block)
        cells = {str(term): cell for term, cell in self.stored.items() if term.op != "passes"}
        row = {name: vector_at(cell)[block.negative_slot] for name, cell in cells.items()}
        return negative_multiplicity(row, block.negative_time)


def arrange(stream: Stream, key: int, keys: KeyIds, terms: Sequence[Term], rows: float) -> Arrangement:
    """Append the insertion of a stream into an arrangement that stores some terms.

    key: the cell of the keys; rows: the expected rows.
    """
    program, reserve = stream.program, stream.program.memory.reserve
    inputs = [filter_bits(stream, term.args) if term.op == "passes" else evaluate(stream, term) for term in terms]
    stored = {term: program.cell(reserve(UNBOUNDED_WORDS)) for term in terms}
    is_sparse = KeyMap(keys.block).hashed == 0 and MIN_KEYS_PER_ROW * rows <= keys.capacity
    present = reserve(-(-keys.capacity // 64)) if is_sparse else 0
    block = program.add(
        Opcode.INSERT, ArrangementBlock, size=stream.size, time=stream.time, diff=stream.diff, key=key,
        keys=keys.block, frontier=program.frontier, lists=reserve(keys.capacity), present=present,
        pending=reserve(keys.capacity), columns=len(terms), **{each: reserve(UNBOUNDED_WORDS) for each in GROWING},
        inputs=program.table(inputs), stored=program.table([program.address(cell) for cell in stored.values()]),
        visible_time=stream.time, visible_diff=stream.diff,
    )  # fmt: skip
    arrangement = Arrangement(block, stored)
    program.add_state(arrangement)
    for column, term in enumerate(terms):
        if term.type.kind == "text":
            program.sweeper.add_marker(program.part, partial(_mark, block, column))
    return arrangement


def _mark(block: int, column: int, texts: TextStore) -> None:
    garbage.mark_arranged(TextPool(texts.block), ArrangementBlock(block), column)
