"""Blocks of kernels in a memory of their own, for tests that call kernels."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from deltamark.dataflow.kernels.core.blocks import Block
from deltamark.dataflow.kernels.core.memory import Memory, view
from deltamark.dataflow.kernels.hashing.hash_map import KeyMap
from deltamark.dataflow.kernels.parallel.meeting import LINE, SLOTS

ROOM_WORDS = 1 << 18


KEY_FORMS = ["direct", "paged", "hashed"]


class Blocks:
    """A memory with the blocks, cells and vectors that kernels read."""

    def __init__(self) -> None:
        self.memory = Memory()

    def room(self, words: int = ROOM_WORDS) -> int:
        return self.memory.reserve(words)

    def words(self, values: Sequence[int]) -> int:
        address = self.memory.reserve(max(len(values), 1))
        view(address, len(values))[:] = values
        return address

    def cell(self, value: int = 0) -> int:
        return self.words([value])

    def vector(self) -> int:
        """Return a cell with the address of an empty vector."""
        return self.cell(self.room())

    def set_vector(self, cell: int, values: Sequence[int]) -> None:
        view(int(view(cell, 1)[0]), len(values))[:] = values

    def vector_values(self, cell: int, size: int) -> list[int]:
        return view(int(view(cell, 1)[0]), size).tolist()

    def block(self, kind: type[Block], **fields: int):
        return kind(self.words(kind.words(**fields)))

    def meetings(self, workers: int) -> list[dict[str, int]]:
        """Return the fields of a meeting, for each worker. A worker that would have to wait returns."""
        own = [(self.words([0] * LINE), self.words([self.room() for _ in range(SLOTS)])) for _ in range(workers)]
        peers = self.words([place for each in own for place in each])
        return [
            {
                "worker": self.cell(number), "workers": workers, "progress": progress, "messages": messages,
                "peers": peers, "spins": self.cell(1), "stop": self.cell(1), "delays": self.cell(),
            }
            for number, (progress, messages) in enumerate(own)
        ]  # fmt: skip

    def keys(self, *, form: str, low: int = 0, high: int = 1 << 10, mask: int = 2047) -> KeyMap:
        """Return an empty map of one of KEY_FORMS; a hashed one has room for hundreds unless the mask is smaller."""
        if form == "direct":
            return self.block(KeyMap, hashed=0, low=low, high=high)
        if form == "paged":
            arrays = {name: self.room() for name in ("free", "pages", "runs", "members")}
            return self.block(KeyMap, hashed=1, low=low, high=high, **arrays)
        return self.block(
            KeyMap, hashed=1, low=low, high=high, mask=mask, table=self.memory.reserve(2 * mask + 2), free=self.room(),
            keys=self.room(),
        )  # fmt: skip


class Slice:
    """The cells of a slice of rows."""

    def __init__(self, size):
        self._blocks, self.size = Blocks(), size
        self.result, self._size = self._blocks.vector(), self._blocks.cell(size)

    def vector(self, values, width=8):
        """Return the cell of values of some bytes."""
        content = np.array(values, f"i{width}").tobytes()
        return self._blocks.cell(self.array(np.frombuffer(content.ljust(-(-len(content) // 8) * 8, b"\0"), np.int64)))

    def array(self, values):
        return self._blocks.words(list(values))

    def run(self, kernel, kind, **fields):
        """Return the values that a kernel writes for the slice."""
        fields.setdefault("result", self.result)
        kernel(self._blocks.block(kind, size=self._size, **fields))
        return self.values(fields["result"], self.size)

    def values(self, cell, size):
        return self._blocks.vector_values(cell, size)


class Updates:
    """The input of a kernel: cells of the times, diffs and columns of a slice, and of the frontier."""

    def __init__(self, blocks: Blocks, columns: int) -> None:
        self._blocks = blocks
        self.size, self.frontier = blocks.cell(), blocks.cell()
        self.time, self.diff = blocks.vector(), blocks.vector()
        self.columns = [blocks.vector() for _ in range(columns)]

    def set(self, rows: Sequence[tuple[int, ...]], frontier: int) -> None:
        """Make rows (time, diff, *columns) the slice."""
        view(self.size, 1)[0], view(self.frontier, 1)[0] = len(rows), frontier
        for cell, values in zip((self.time, self.diff, *self.columns), zip(*rows, strict=True), strict=bool(rows)):
            self._blocks.set_vector(cell, values)


def random_slices(
    rng: np.random.Generator, rows: Sequence[tuple[int, ...]]
) -> list[tuple[Sequence[tuple[int, ...]], int]]:
    """Cut rows in order of time into slices, each with its frontier.

    A cut may lie within a time. The last time of a slice may stay open although no more of its rows follow.
    """
    cuts = sorted(rng.integers(0, len(rows) + 1, size=rng.integers(0, 6)).tolist())
    bounds = [0, *cuts, len(rows)]
    slices = []
    for start, stop in pairwise(bounds):
        later = rows[stop][0] if stop < len(rows) else 2**62
        stays_open = start < stop < len(rows) and rng.random() < 0.3
        slices.append((rows[start:stop], rows[stop - 1][0] if stays_open else later))
    return slices
