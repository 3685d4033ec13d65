"""Texts of a slice, as the cells of their addresses and lengths; and the numbers of the texts that states hold."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deltamark.dataflow.builder.program import NO_VECTOR, Address, CellAddress, Program, VectorAddress
from deltamark.dataflow.builder.sweeps import TextStore
from deltamark.dataflow.kernels.core.memory import UNBOUNDED_WORDS, view
from deltamark.dataflow.kernels.core.steps import Step
from deltamark.dataflow.kernels.text import calls, functions
from deltamark.dataflow.kernels.text.pool import (
    EXACT_WORDS,
    FREE_NUMBER,
    NUMBER_TEXTS,
    NUMBERED_TEXTS,
    SIZES,
    TextPool,
)
from deltamark.dataflow.plan.letters import cased
from deltamark.dataflow.plan.regular import Automaton
from deltamark.errors import DeltamarkError

TABLE_ENTRIES = 1024
"""Entries of a new table of texts. Not measured."""

HEAP_WORDS = UNBOUNDED_WORDS - 1
"""The words of a heap, however short address space is: functions compare its size with HEAP_BYTES."""

HEAP_BYTES = 8 * HEAP_WORDS - 64
"""The bytes of the texts that a function may make of a slice; more can be read behind them."""


@dataclass(frozen=True)
class TextCells:
    """The cells of the addresses and of the lengths of the texts of a slice; a missing text has a negative length."""

    start: VectorAddress
    length: VectorAddress


@dataclass(frozen=True)
class InputText:
    """A column of text as the feed has it: the cells of its offsets, its bytes, and its flags of missing texts.

    missing: NO_VECTOR if no text is NULL; rows: the cell of a selection of rows, or NO_VECTOR for all rows.
    """

    offsets: VectorAddress
    bytes: VectorAddress
    missing: VectorAddress
    rows: VectorAddress = NO_VECTOR

    def cells(self, program: Program, size: CellAddress) -> TextCells:
        """Append the reading of the texts."""
        texts = TextCells(program.vector(), program.vector())
        program.add(
            functions.INPUT_TEXTS, size=size, offsets=self.offsets, base=self.bytes,
            rows=self.rows, missing=self.missing, start=texts.start, length=texts.length,
        )  # fmt: skip
        return texts


def text_store(program: Program) -> TextStore:
    """Return the texts that a program holds; their pool is made when it is first needed."""
    if program.sweeper.texts is None:
        with program.building(program.base):
            program.sweeper.texts = _new_store(program)
    return program.sweeper.texts


def _new_store(program: Program) -> TextStore:
    reserve, unset = program.memory.reserve, program.memory.reserve_unset
    heap = unset(HEAP_WORDS)
    block = program.block(
        TextPool, table=reserve(TABLE_ENTRIES), mask=TABLE_ENTRIES - 1, free=unset(UNBOUNDED_WORDS),
        starts=unset(UNBOUNDED_WORDS), lengths=unset(UNBOUNDED_WORDS), heap=heap,
        holes=program.words(SIZES), marks=reserve(UNBOUNDED_WORDS),
    )  # fmt: skip
    return TextStore(block, heap, reserve(UNBOUNDED_WORDS))


def compact(texts: TextStore) -> None:
    """Close the gaps between the texts of a pool, between two feeds."""
    pool = TextPool(texts.block)
    holes, count, heap = view(pool.holes.address, SIZES), pool.next_number, texts.heap
    if not holes.any():
        return
    starts, lengths = view(pool.starts.address, count), view(pool.lengths.address, count)
    used = np.flatnonzero(lengths != FREE_NUMBER)
    words = np.maximum(lengths[used] + 7 >> 3, 1)
    powers = 2 ** np.arange(63)
    words = np.where(words <= EXACT_WORDS, words, powers[np.searchsorted(powers, words)])
    ends, content = np.cumsum(words), view(heap, (pool.heap - heap) // 8)
    firsts, total = ends - words, int(words.sum())
    content[:total] = content[np.repeat((starts[used] - heap) // 8 - firsts, words) + np.arange(total)]
    starts[used] = heap + 8 * firsts
    holes[:] = 0
    pool.heap = heap + 8 * total


def move_texts(texts: TextStore, distance: int) -> None:
    """Note that the heap of a pool has moved by some bytes."""
    pool = TextPool(texts.block)
    starts = view(pool.starts.address, pool.next_number)
    starts += distance


def read_texts(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the texts at addresses; those of negative length are None."""
    once, first, places = np.unique(starts, return_index=True, return_inverse=True)
    texts = [
        None if length < 0 else ctypes.string_at(start, length).decode()
        for start, length in zip(once.tolist(), lengths[first].tolist(), strict=True)
    ]
    return np.array(texts, dtype=object)[places]


def text_of(program: Program, number: int) -> str:
    """Return the text that has a number in this program."""
    pool = TextPool(text_store(program).block)
    return ctypes.string_at(pool.starts[number], pool.lengths[number]).decode()


class LongSubstring:
    """The state of a substring: it keeps no rows, and fails if its bytes do not fit into a number."""

    def rows(self) -> int:
        return 0

    def problem(self) -> DeltamarkError:
        remedy = "take fewer characters, or cut them out of text || ''"
        return DeltamarkError("a substring of more than seven bytes", "characters of several bytes", remedy)


class LongTexts:
    """The state of a function that makes texts: it keeps no rows, and fails if those of a slice need too much room."""

    def rows(self) -> int:
        return 0

    def problem(self) -> DeltamarkError:
        remedy = "make shorter texts, or feed smaller batches"
        return DeltamarkError("texts that are too long", f"more than {HEAP_BYTES} bytes of a slice", remedy)


def texts_of_numbers(program: Program, size: CellAddress, numbers: VectorAddress) -> TextCells:
    """Append the reading of the texts that have the numbers in a cell."""
    texts = TextCells(program.vector(), program.vector())
    program.add(
        NUMBERED_TEXTS, size=size, pool=text_store(program).block, numbers=numbers,
        start=texts.start, length=texts.length,
    )  # fmt: skip
    return texts


def numbers_of(program: Program, size: CellAddress, texts: TextCells) -> VectorAddress:
    """Append the numbering of texts; return the cell of the numbers."""
    pool, result = text_store(program).block, program.vector()
    program.add(
        NUMBER_TEXTS, size=size, start=texts.start, length=texts.length, result=result,
        pool=pool,
    )  # fmt: skip
    return result


def hashes(program: Program, size: CellAddress, texts: TextCells) -> VectorAddress:
    """Append the hashing of texts, equal at all workers and in all processes; return the cell of the hashes."""
    return _function(program, functions.HASHES, size, texts)


def prefix(program: Program, size: CellAddress, numbers: VectorAddress) -> VectorAddress:
    """Append the first bytes of numbered texts, as integers in the order of the texts; return their cell."""
    return _function(program, functions.PREFIX, size, texts_of_numbers(program, size, numbers))


def _function(program: Program, step: Step, size: CellAddress, texts: TextCells) -> VectorAddress:
    result = program.vector()
    program.add(step, size=size, start=texts.start, length=texts.length, result=result)
    return result


def match(program: Program, size: CellAddress, texts: TextCells, pieces: Sequence[str]) -> VectorAddress:
    """Append the test whether texts consist of pieces, with anything between them; return the cell of the results."""
    result, encoded = program.vector(), [piece.encode() for piece in pieces]
    table = program.table([word for piece in encoded for word in (store_bytes(program, piece), len(piece))])
    program.add(
        functions.MATCH, size=size, start=texts.start, length=texts.length, result=result,
        pieces=table, count=len(encoded),
    )  # fmt: skip
    return result


def precedes(program: Program, size: CellAddress, texts: TextCells, others: TextCells) -> VectorAddress:
    """Append the test whether texts come before others; return the cell of the results."""
    result = program.vector()
    program.add(
        functions.PRECEDES, size=size, start=texts.start, length=texts.length,
        other_start=others.start, other_length=others.length, result=result,
    )  # fmt: skip
    return result


def store_bytes(program: Program, content: bytes) -> Address:
    """Store bytes and at least eight zeros, since a word may be loaded from each byte on; return their address."""
    words = np.frombuffer(content.ljust((len(content) // 8 + 2) * 8, b"\0"), np.int64)
    return program.words(len(words), words.tolist())


def substring(program: Program, size: CellAddress, texts: TextCells, start: int, count: int) -> VectorAddress:
    """Append the extraction of `count` characters from number `start` on; return the cell of the packed texts."""
    result = program.vector()
    program.add(
        functions.SUBSTRING, size=size, start=texts.start, length=texts.length, result=result,
        first=start, count=count,
    )  # fmt: skip
    program.add_state(LongSubstring())
    return result


def text_call(
    program: Program, size: CellAddress, function: str, arguments: Sequence[TextCells | VectorAddress]
) -> TextCells | VectorAddress:
    """Append a function of texts and numbers; return the cells of its texts, or the cell of its numbers."""
    cells = [[each.start, each.length] if isinstance(each, TextCells) else [each] for each in arguments]
    called, columns = calls.CALLS[function], program.table([cell for each in cells for cell in each])
    if not issubclass(called.block, calls.PartBlock):
        result = program.vector()
        program.add(called, size=size, columns=columns, result=result)
        return result
    texts = TextCells(program.vector(), program.vector())
    made = _heap(program, function, len(arguments)) if issubclass(called.block, calls.MadeBlock) else {}
    program.add(called, size=size, columns=columns, start=texts.start, length=texts.length, **made)
    if made:
        program.add_state(LongTexts())
    return texts


def accepted(program: Program, size: CellAddress, texts: TextCells, by: Automaton) -> VectorAddress:
    """Append the test whether an automaton accepts texts; return the cell of the results."""
    result = program.vector()
    program.add(
        calls.ACCEPTED, size=size, columns=program.table([texts.start, texts.length]), result=result,
        table=program.table(by.table), accepting=program.table(by.accepting),
    )  # fmt: skip
    return result


def _heap(program: Program, function: str, count: int) -> dict[str, int]:
    """Return the fields of a function that makes texts."""
    letters: Sequence[int] = ()
    if function in ("upper", "lower"):
        letters = cased(function)
    return {
        "count": count, "heap": program.memory.reserve_unset(HEAP_WORDS), "room": HEAP_BYTES,
        "letters": program.constants(function, letters), "letter_count": len(letters),
    }  # fmt: skip
