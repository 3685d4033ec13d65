"""Buffer reuse: vectors that are not in use at the same time share memory, so that a slice stays in the cache.

A vector is in use from the first operator that refers to its cell to the last one. The references of an operator are
found from its block, through the addresses of blocks, tables and cells. A vector whose own address is stored anywhere
keeps its memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache

from deltamark.dataflow.builder.program import Op, Program, ProgramPart, in_order
from deltamark.dataflow.kernels.core.memory import view


def reuse(program: Program, ops: Sequence[Op], cells: Collection[int]) -> None:
    """Let the vectors with some cells, to which only these operators refer, share memory."""
    lives: dict[int, tuple[int, int]] = {}
    fixed: set[int] = set()
    vectors = {program.address(cell): cell for cell in cells}
    references = _references(program, vectors)
    for place, op in enumerate(in_order(ops)):
        for word in _reachable(op.block, references):
            if word in vectors:
                fixed.add(vectors[word])
            first, _ = lives.get(word, (place, place))
            lives[word] = first, place
    intervals = sorted((lives[cell], cell) for cell in vectors.values() if cell in lives and cell not in fixed)
    scratch, free = ProgramPart(), list[int]()
    for op in ops:
        op.part.uses.add(scratch)
    in_use: list[tuple[int, int]] = []
    for (first, last), cell in intervals:
        free += [address for end, address in in_use if end < first]
        in_use = [(end, address) for end, address in in_use if end >= first]
        address = free.pop() if free else program.address(cell)
        program.move_vector(cell, address)
        program.memory.set_owner(address, scratch)
        in_use.append((last, address))


def _references(program: Program, vectors: Mapping[int, int]) -> Callable[[int], Sequence[int]]:
    """Return a function that lists the words of a block or table that are addresses of others, or of vectors."""
    cells = set(vectors.values())

    @cache
    def words(address: int) -> Sequence[int]:
        if address in cells or address not in program.sizes:
            return ()
        content = view(address, program.sizes[address]).tolist()
        return [word for word in content if word in program.sizes or word in vectors]

    return words


def _reachable(block: int, references: Callable[[int], Sequence[int]]) -> set[int]:
    """Return the addresses that are reached from a block, without those in the cells of vectors."""
    left, seen = [block], {block}
    while left:
        for word in references(left.pop()):
            if word not in seen:
                seen.add(word)
                left.append(word)
    return seen
