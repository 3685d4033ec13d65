"""Text: the pool of a program's texts, and streams as vectors of where texts lie."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from deltamark.dataflow.codegen.memory_layout import UNBOUNDED_WORDS
from deltamark.dataflow.codegen.program import Program
from deltamark.dataflow.kernels.opcodes import Opcode
from deltamark.dataflow.kernels.text import functions
from deltamark.dataflow.kernels.text.pool import SIZES, NumberedTextsBlock, NumberTextsBlock, TextPool
from deltamark.errors import DeltamarkError

SLOTS = 1024
"""Of the table of texts before it grows."""


@dataclass(frozen=True)
class Pool:
    """The texts that have a number."""

    block: int
    free: int
    """Scratch of a sweep."""

    @classmethod
    def of(cls, program: Program) -> Pool:
        """Return the one pool of a program."""
        if program.pool is None:
            with program.building(program.base):
                program.pool = cls._made(program)
        pool: Pool = program.pool
        return pool

    @classmethod
    def _made(cls, program: Program) -> Pool:
        reserve = program.memory.reserve
        starts, lengths, free, marks = (reserve(UNBOUNDED_WORDS) for _ in range(4))
        heaps = program.for_each_worker(UNBOUNDED_WORDS)
        block = program.block(
            TextPool, table=reserve(SLOTS), mask=SLOTS - 1, free=free, starts=starts, lengths=lengths, heap=heaps[0],
            holes=program.words(SIZES), marks=marks,
        )  # fmt: skip
        program.differ(block + TextPool.fields["heap"].offset, heaps)
        return cls(block, reserve(UNBOUNDED_WORDS))

    def used(self) -> int:
        """Count the texts that have a number, some of which may be in use no more."""
        return TextPool(self.block).used


def texts_at(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Read the texts that lie at addresses; those of negative length are missing."""
    once, first, places = np.unique(starts, return_index=True, return_inverse=True)
    found = [
        None if length < 0 else ctypes.string_at(start, length).decode()
        for start, length in zip(once.tolist(), lengths[first].tolist(), strict=True)
    ]
    return np.array(found, dtype=object)[places]


class LongSubstring:
    """What can go wrong in a substring, which keeps nothing."""

    def rows(self) -> int:
        return 0

    def problem(self) -> DeltamarkError:
        return DeltamarkError(
            "a substring of more than seven bytes", "characters of several bytes", "take fewer characters"
        )


@dataclass(frozen=True)
class Places:
    """Cells of the vectors that say where the texts of a slice lie."""

    start: int
    length: int


@dataclass(frozen=True)
class Fed:
    """A column of text as the feed has it: cells of its offsets, its bytes, and (0: none is NULL) the missing ones."""

    offsets: int
    bytes: int
    missing: int
    rows: int = 0
    """The cell of the rows that are taken; 0: all."""

    def places(self, program: Program, size: int) -> Places:
        found = Places(program.vector(), program.vector())
        program.add(
            Opcode.REFER, functions.InputTextsBlock, size=size, offsets=self.offsets, base=self.bytes, rows=self.rows,
            missing=self.missing, start=found.start, length=found.length,
        )  # fmt: skip
        return found


def places_of_numbers(program: Program, size: int, numbers: int) -> Places:
    found = Places(program.vector(), program.vector())
    program.add(
        Opcode.REFER_NUMBERS, NumberedTextsBlock, size=size, pool=Pool.of(program).block, numbers=numbers,
        start=found.start, length=found.length,
    )  # fmt: skip
    return found


def numbered(program: Program, size: int, places: Places) -> int:
    """Return the cell of the numbers of texts."""
    pool, result = Pool.of(program), program.vector()
    program.add(
        Opcode.NUMBER,
        NumberTextsBlock,
        size=size,
        start=places.start,
        length=places.length,
        result=result,
        pool=pool.block,
    )
    return result


def hashed(program: Program, size: int, places: Places) -> int:
    """Return the cell of a hash of texts, the same in all processes."""
    result = program.vector()
    program.add(
        Opcode.HASH, functions.TextFunctionBlock, size=size, start=places.start, length=places.length, result=result
    )
    return result


def matched(program: Program, size: int, places: Places, pieces: Iterable[str]) -> int:
    """Return the cell of a condition: a text consists of the pieces, with anything between them."""
    result, raw = program.vector(), [piece.encode() for piece in pieces]
    table = program.table([word for piece in raw for word in (_stored(program, piece), len(piece))])
    program.add(
        Opcode.MATCH, functions.MatchBlock, size=size, start=places.start, length=places.length, result=result,
        pieces=table, count=len(raw),
    )  # fmt: skip
    return result


def _stored(program: Program, piece: bytes) -> int:
    padded = piece.ljust((len(piece) // 8 + 1) * 8, b"\0")
    return program.words(len(padded) // 8, [int.from_bytes(padded[at : at + 8], "little", signed=True)
                                            for at in range(0, len(padded), 8)])  # fmt: skip


def substring(program: Program, size: int, places: Places, start: int, count: int) -> int:
    result = program.vector()
    program.add(
        Opcode.SUBSTRING, functions.SubstringBlock, size=size, start=places.start, length=places.length, result=result,
        first=start, count=count,
    )  # fmt: skip
    program.keep(LongSubstring())
    return result


def prefix(program: Program, size: int, numbers: int) -> int:
    """Return the cell of the first bytes of texts, as numbers in the same order."""
    result, places = program.vector(), places_of_numbers(program, size, numbers)
    program.add(
        Opcode.PREFIX, functions.TextFunctionBlock, size=size, start=places.start, length=places.length, result=result
    )
    return result
