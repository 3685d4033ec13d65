"""Images: the meanings of the words of a program, as its compilation leaves them, the same in every process.

The words are those of the blocks, cells and tables, one chunk after the other. A word is a number, or the address of a
word, of an array, of compiled code, or of a word or an array of another worker. Programs with equal images differ in
addresses alone. So one of them can get the words and the arrays of the other: see `runtime.saved_state`.

The image is taken when a plan is compiled. Later an operator may enlarge an array, exchange two, or write numbers. A
word that has held an address keeps this meaning, and a word that has held a number never gets an address that is read
in a later feed.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Sequence

import numpy as np

from deltamark.dataflow.builder.program import Program
from deltamark.dataflow.builder.texts import HEAP_BYTES
from deltamark.dataflow.kernels.core.dispatcher import Kernel
from deltamark.dataflow.kernels.core.steps import code

NUMBER, WORD, ARRAY, CODE, PEER, DROPPED = range(6)
"""The meanings of words. DROPPED: of a part of the program that was dropped."""

LAST_ADDRESS = np.iinfo(np.int64).max

NAME_BYTES = 8
"""The bytes of the digest of a kernel's name, which stands for the address of its code."""


def words_of(program: Program) -> np.ndarray:
    """Copy the words of the blocks, cells and tables of a program."""
    chunks = (ctypes.string_at(start, end - start) for start, end in program.chunks.items())
    return np.frombuffer(b"".join(chunks), np.int64)


def write_words(program: Program, words: np.ndarray) -> None:
    """Replace all words."""
    content, offset = np.ascontiguousarray(words, np.int64).tobytes(), 0
    for start, end in program.chunks.items():
        ctypes.memmove(start, content[offset : offset + end - start], end - start)
        offset += end - start


class Places:
    """The addresses of the words and the arrays of some programs, as they are now."""

    def __init__(self, programs: Sequence[Program]) -> None:
        ranges: list[tuple[int, int, int, int, int]] = []
        for number, program in enumerate(programs):
            offset = 0
            for start, end in program.chunks.items():
                ranges.append((start, end, WORD, offset, number))
                offset += end - start
            arrays = [each for each in program.memory.sizes().items() if each[0] not in program.chunks]
            ranges += [(start, start + size, ARRAY, 0, number) for start, size in arrays]
        columns = np.ascontiguousarray(np.array(sorted(ranges), np.int64).T)
        self.starts, self._ends, self._kinds, self._offsets, self._owners = columns

    def find(self, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the number of the range that each word lies in, of those in `starts`, and whether it lies in one."""
        at = np.searchsorted(self.starts, words, "right") - 1
        return at, (at >= 0) & (words < self._ends[at])

    def positions(self, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the meanings of words that may be addresses, and their values: numbers, or distances.

        That of a word is counted from the first word of its program, and that in an array from the first of these.
        """
        at, is_inside = self.find(words)
        distances = words - self.starts[at] + self._offsets[at]
        return np.where(is_inside, self._kinds[at], NUMBER), np.where(is_inside, distances, words)

    def meanings(self, words: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the meanings of words that a program was compiled to, and their values.

        Compilation knows no addresses in arrays but the first one and the end of a heap: other numbers in these ranges,
        which are a large part of all, are constants, such as texts of six letters.
        """
        kinds, values = self.positions(words)
        is_constant = (kinds == ARRAY) & ~np.isin(values, (0, HEAP_BYTES))
        kinds[is_constant], values[is_constant] = NUMBER, words[is_constant]
        is_peer = (kinds != NUMBER) & (self._owners[self.find(words)[0]] != number)
        kinds[is_peer], values[is_peer] = PEER, 0
        return kinds, values

    def distance(self, address: int) -> int:
        """Return the distance of a word from the first word of its program."""
        at = int(np.searchsorted(self.starts, address, "right")) - 1
        return address - int(self.starts[at]) + int(self._offsets[at])


class Image:
    """The meanings and the values of the words of one program."""

    def __init__(self) -> None:
        self.kinds, self.values = np.empty(0, np.int8), np.empty(0, np.int64)

    def update(self, number: int, program: Program, before: np.ndarray, places: Places) -> None:
        """Take the words that a compilation has added or changed. before: all words before it."""
        words, size = words_of(program), len(before)
        added = np.zeros(len(words) - size, np.int64)
        self.kinds, self.values = np.append(self.kinds, added.astype(np.int8)), np.append(self.values, added)
        changed = np.append(words[:size] != before, added == 0)
        kinds, values = places.meanings(words[changed], number)
        codes, names = _codes(program)
        at = np.minimum(np.searchsorted(codes, values), len(codes) - 1)
        is_code = (kinds == NUMBER) & (codes[at] == values)
        kinds[is_code], values[is_code] = CODE, names[at[is_code]]
        self.kinds[changed], self.values[changed] = kinds, values
        for address, count in program.take_dropped():
            first = places.distance(address) // 8
            self.kinds[first : first + count], self.values[first : first + count] = DROPPED, 0


class Images:
    """The images of the programs of all workers."""

    def __init__(self, programs: Sequence[Program]) -> None:
        self._programs = programs
        self.of = [Image() for _ in programs]
        self.update([np.empty(0, np.int64)] * len(programs))

    def words(self) -> list[np.ndarray]:
        """Copy the words of each program."""
        return [words_of(each) for each in self._programs]

    def update(self, before: Sequence[np.ndarray]) -> None:
        """Take what a compilation has changed, or a retirement. before: the words before it."""
        places = Places(self._programs)
        for number, (image, program, words) in enumerate(zip(self.of, self._programs, before, strict=True)):
            image.update(number, program, words, places)


def _codes(program: Program) -> tuple[np.ndarray, np.ndarray]:
    """Return the addresses of the compiled kernels of a program, in order, and the digest of the name of each.

    The last address is that of no kernel, and larger than all.
    """
    kernels = {kernel for step in {op.step for op in program.ops} for kernel in step.kernels}
    named = [*sorted((code(each), _digest(each)) for each in kernels), (LAST_ADDRESS, 0)]
    addresses, names = np.array(named, np.int64).T
    return addresses, names


def name_of(kernel: Kernel) -> str:
    """Return the name of a kernel, with its module."""
    return f"{kernel.py_func.__module__}.{kernel.py_func.__qualname__}"


def _digest(kernel: Kernel) -> int:
    digest = hashlib.blake2b(name_of(kernel).encode(), digest_size=NAME_BYTES).digest()
    return int.from_bytes(digest, "little", signed=True)
