"""Arrangement: the rows of a collection by key, which joins share.

A slice is inserted before the operators that read it, and settled after all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from deltamark.dataflow.builder.keys import Key, KeyIds, NamedValue, key_values
from deltamark.dataflow.builder.program import BlockAddress, Program, VectorAddress
from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.builder.sweeps import TextStore
from deltamark.dataflow.builder.terms import evaluate
from deltamark.dataflow.kernels.arrangements.arrangement import ArrangementBlock
from deltamark.dataflow.kernels.arrangements.insert import INSERT
from deltamark.dataflow.kernels.arrangements.lists import id_of_row
from deltamark.dataflow.kernels.core.blocks import vector_at
from deltamark.dataflow.kernels.core.memory import UNBOUNDED_WORDS, view
from deltamark.dataflow.kernels.groups import garbage
from deltamark.dataflow.kernels.hashing import hash_map
from deltamark.dataflow.kernels.text.pool import TextPool
from deltamark.dataflow.operators.errors import negative_multiplicity
from deltamark.dataflow.operators.linear import filter_bits
from deltamark.dataflow.plan.term_sql import sql
from deltamark.dataflow.plan.terms import Column, Passes, Term
from deltamark.dataflow.types import Type
from deltamark.errors import DeltamarkError

MIN_KEYS_PER_ROW = 8
"""The least number of possible keys for a row with which a bitmap says which keys have rows; not measured."""

GROWING = ("taken_by", "unused", "weight", "scratch", "ids", "places", "numbers", "older")
"""Arrays of an arrangement for rows that are retracted or weighted, and for the updates of a slice."""


@dataclass(frozen=True)
class ArrangedKey:
    """The columns by which rows are arranged, with their types, and the form of their numbers."""

    names: tuple[str, ...]
    types: tuple[Type, ...]
    of: Key


@dataclass(frozen=True)
class Arrangement:
    """The block of an arrangement, its key, and for each term that it stores the cell and the bytes of a value."""

    program: Program
    block: BlockAddress
    key: ArrangedKey
    stored: Mapping[Term, tuple[VectorAddress, int]]

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
        return any(isinstance(term, Passes) and condition in term.conditions for term in self.stored)

    def bitmap(self, condition: Term | None) -> tuple[int, int]:
        """Return the bitmap of a condition: the address of a word per slot, and the bit; (0, 0) if there is none."""
        for term, (cell, _) in self.stored.items():
            if condition is not None and isinstance(term, Passes) and condition in term.conditions:
                return vector_at(cell).address, term.conditions.index(condition)
        return 0, 0

    def values(self, term: Term, slots: Sequence[int] | np.ndarray) -> np.ndarray:
        """Return the values of a stored term in some slots."""
        cell, width = self.stored[term]
        words = view(self.program.read(cell), -(-self.slots() * width // 8))
        return words.view(np.int64 if width == 8 else np.int32)[slots].astype(np.int64)

    def problem(self) -> DeltamarkError:
        """Return the error that has made the kernel fail."""
        block = ArrangementBlock(self.block)
        row = [*self._key_of(block.negative_slot)]
        for term in self.stored:
            is_shown = isinstance(term, Column) and term.name in self.key.names and row
            if not isinstance(term, Passes) and not is_shown:
                name = term.name if isinstance(term, Column) else sql(term)
                row.append(NamedValue(name, term.type, int(self.values(term, [block.negative_slot])[0])))
        return negative_multiplicity(self.program, row, block.negative_time)

    def _key_of(self, slot: int) -> list[NamedValue]:
        """Return the key of a row; nothing if no list has the row, since it was just found to be negative."""
        block = ArrangementBlock(self.block)
        key_id = id_of_row(block, slot)
        if key_id < 0:
            return []
        return key_values(self.key.of, int(hash_map.key_of(block.keys, key_id)), self.key.names, self.key.types)


def arrange(stream: Stream, key: ArrangedKey, keys: KeyIds, terms: Sequence[Term], rows: float) -> Arrangement:
    """Append the insertion of a stream into an arrangement that stores some terms. rows: the expected rows."""
    program, reserve, unset = stream.program, stream.program.memory.reserve, stream.program.memory.reserve_unset
    widths = {term: 8 if isinstance(term, Passes) else term.type.stored_width for term in terms}
    terms = sorted(terms, key=lambda term: -widths[term])
    inputs = [
        filter_bits(stream, term.conditions) if isinstance(term, Passes) else evaluate(stream, term) for term in terms
    ]
    count, near = int(rows), int(MIN_KEYS_PER_ROW * rows)
    stored = {term: (program.array(count * widths[term] // 8), widths[term]) for term in terms}
    is_sparse = not keys.are_hashed and near <= keys.capacity
    present = program.memory.reserve_whole(-(-keys.capacity // 64)) if is_sparse else 0
    block = program.add(
        INSERT, size=stream.size, time=stream.time, diff=stream.diff, key=key.of.cell,
        keys=keys.block, frontier=program.frontier, present=present,
        lists=keys.reserve(program.memory, expected=count if keys.are_hashed else min(near, keys.capacity)),
        pending=keys.reserve(program.memory), debts=keys.reserve(program.memory),
        used=reserve(UNBOUNDED_WORDS), skips=reserve(UNBOUNDED_WORDS), newest=reserve(UNBOUNDED_WORDS),
        next=unset(UNBOUNDED_WORDS, count // 2),
        **{each: unset(UNBOUNDED_WORDS) for each in GROWING}, columns=len(terms),
        wide=sum(widths[term] == 8 for term in terms), inputs=program.table(inputs),
        stored=program.table([program.read(cell) for cell, _ in stored.values()]), visible_time=stream.time,
        visible_diff=stream.diff,
    )  # fmt: skip
    arrangement = Arrangement(program, block, key, stored)
    program.add_state(arrangement)
    for column, term in enumerate(terms):
        if term.type.kind == "text":
            program.sweeper.add_marker(program.part, partial(_mark, block, column))
    return arrangement


def _mark(block: BlockAddress, column: int, texts: TextStore) -> None:
    garbage.mark_arranged(TextPool(texts.block), ArrangementBlock(block), column)
