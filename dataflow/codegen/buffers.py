"""Vectors whose lives do not meet lie in the same memory, so that what a slice touches stays in the cache.

A vector lives from the first operator that knows its cell to the last one, in the order in which they run. What an
operator knows is read from its block: every word there that is the address of a block, a table or a cell leads to it.
A vector whose own address is written down anywhere stays where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache

from deltamark.dataflow.codegen.program import Op, Part, Program, in_order
from deltamark.dataflow.kernels.core.memory import view


def reuse(program: Program, ops: Sequence[Op], cells: Collection[int]) -> None:
    """Let vectors that only these operators know share memory."""
    lives: dict[int, tuple[int, int]] = {}
    fixed: set[int] = set()
    vectors = {program.address(cell): cell for cell in cells}
    leading = _leading(program, vectors)
    for place, op in enumerate(in_order(ops)):
        for word in _known(op.block, leading):
            if word in vectors:
                fixed.add(vectors[word])
            first, _ = lives.get(word, (place, place))
            lives[word] = first, place
    found = sorted((lives[cell], cell) for cell in vectors.values() if cell in lives and cell not in fixed)
    scratch, free = Part(), list[int]()
    for op in ops:
        op.part.uses.add(scratch)
    living: list[tuple[int, int]] = []
    for (first, last), cell in found:
        free += [address for end, address in living if end < first]
        living = [(end, address) for end, address in living if end >= first]
        address = free.pop() if free else program.address(cell)
        program.move(cell, address)
        program.memory.give(address, scratch)
        living.append((last, address))


def _leading(program: Program, vectors: Mapping[int, int]) -> Callable[[int], Sequence[int]]:
    """Return what says which words of a block or table lead on, or are the address of a vector."""
    cells = set(vectors.values())

    @cache
    def words(address: int) -> Sequence[int]:
        if address in cells or address not in program.tables:
            return ()
        found = view(address, program.tables[address]).tolist()
        return [word for word in found if word in program.tables or word in vectors]

    return words


def _known(block: int, leading: Callable[[int], Sequence[int]]) -> set[int]:
    """Return all such words that are reached from a block, without looking into cells of vectors."""
    left, seen = [block], {block}
    while left:
        for word in leading(left.pop()):
            if word not in seen:
                seen.add(word)
                left.append(word)
    return seen
