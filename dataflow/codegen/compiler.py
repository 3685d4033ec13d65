"""Compilation: plans go through five passes and become a program.

rewrite    comparisons that a moving threshold can maintain, and terms that are cheaper before a join
prune      the columns of each node that are required
share      the arrangements that joins read
partition  the distribution of each node over the workers
emit       one operator per node, and one arrangement per collection and key, however many operators read it

At last, vectors that are not in use at the same time get the same memory, so that a slice stays in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from deltamark.dataflow.builder.program import Op, Program, ProgramPart, VectorAddress, in_order
from deltamark.dataflow.codegen.compiled import Compiled, SharedArrangement
from deltamark.dataflow.codegen.emitter import emit
from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.operators.input import Input
from deltamark.dataflow.operators.node import Node
from deltamark.dataflow.passes.partition import partition
from deltamark.dataflow.passes.prune import prune
from deltamark.dataflow.passes.rewrite import rewrite
from deltamark.dataflow.passes.share import share

FEW_WORDS = 256
"""Words that Python goes through faster than numpy drops those that are too low for an address. Not tuned."""


@dataclass(frozen=True)
class Added:
    """The part of a program that was compiled last.

    read: the columns that it reads, by input; existing: the arrangements that it reads and that were built before.
    """

    ops: Sequence[Op]
    read: Mapping[str, tuple[str, ...]]
    existing: Sequence[SharedArrangement]


def compile_plans(plans: Mapping[str, Node], workers: int = 1, number: int = 0) -> Compiled:
    """Compile plans, by the names of their answers, to the program of one of some workers: see `link`."""
    compiled = Compiled(Program(workers, number))
    with compiled.program.memory.or_closed():
        compile_into(compiled, plans)
    return compiled


def compile_into(compiled: Compiled, plans: Mapping[str, Node]) -> Added:
    """Compile more plans. They share equal nodes among themselves, and arrangements with the plans before."""
    program = compiled.program
    before, vectors = set(program.ops), program.vectors()
    shared = share(prune(rewrite(plans)), compiled.arrangement, program.workers)
    existing = emit(compiled, shared, partition(shared.pruned, program.workers))
    compiled.drop_unused()  # an exchange for a join that reads an arrangement of plans before
    added = [op for op in program.ops if op not in before]
    _reuse(program, added, program.vectors() - vectors)
    read = {node.name: names for node, names in shared.pruned.columns.items() if isinstance(node, Input)}
    return Added(added, read, existing)


def _reuse(program: Program, ops: Sequence[Op], cells: Collection[VectorAddress]) -> None:
    """Let the vectors with some cells, to which only these operators refer, share memory.

    A vector is in use from the first operator that refers to its cell to the last one. The references of an operator
    are found from its block, through the addresses of blocks, tables and cells. A vector whose own address is stored
    anywhere keeps its memory.
    """
    lives: dict[int, tuple[int, int]] = {}
    fixed: set[VectorAddress] = set()
    vectors = {program.read(cell): cell for cell in cells}
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
        address = free.pop() if free else program.read(cell)
        program.move_vector(cell, address)
        program.memory.set_owner(address, scratch)
        in_use.append((last, address))


def _references(program: Program, vectors: Mapping[int, VectorAddress]) -> Callable[[int], Sequence[int]]:
    """Return a function that lists the words of a block or table that are addresses of others, or of vectors."""
    cells, lowest = set(vectors.values()), min([*program.sizes, *vectors])

    @cache
    def words(address: int) -> Sequence[int]:
        if address in cells or address not in program.sizes:
            return ()
        content = view(address, program.sizes[address])
        if len(content) > FEW_WORDS:
            content = content[content >= lowest]
        return [word for word in content.tolist() if word in program.sizes or word in vectors]

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
