"""Compilation: plans go through five passes and become a program.

rewrite    comparisons that a moving threshold can maintain, and terms that are cheaper before a join
prune      the columns of each node that are required
share      the arrangements that joins read
partition  the distribution of each node over the workers
emit       one operator per node, and one arrangement per collection and key, however many operators read it
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deltamark.dataflow.builder.program import Op, Program
from deltamark.dataflow.codegen.buffers import reuse
from deltamark.dataflow.codegen.compiled import Compiled, SharedArrangement
from deltamark.dataflow.codegen.emitter import emit
from deltamark.dataflow.plan.nodes import Input, Node
from deltamark.dataflow.plan.passes.partitioning import partition
from deltamark.dataflow.plan.passes.pruning import prune
from deltamark.dataflow.plan.passes.rewriting import rewrite
from deltamark.dataflow.plan.passes.sharing import share


@dataclass(frozen=True)
class Added:
    """The part of a program that was compiled last.

    read: the columns that it reads, by input; existing: the arrangements that it reads and that were built before.
    """

    ops: Sequence[Op]
    read: Mapping[str, tuple[str, ...]]
    existing: Sequence[SharedArrangement]


def compile_plans(plans: Mapping[str, Node], workers: int = 1) -> Compiled:
    """Compile plans, by the names of their answers, to the program that each of some workers runs."""
    compiled = Compiled(Program(workers))
    with compiled.program.memory.or_closed():
        compile_into(compiled, plans)
    return compiled


def compile_into(compiled: Compiled, plans: Mapping[str, Node]) -> Added:
    """Compile more plans. They share equal nodes among themselves, and arrangements with the plans before."""
    program = compiled.program
    operators, vectors = len(program.ops), program.vectors()
    shared = share(prune(rewrite(plans)), compiled.arrangement, program.workers)
    emit(compiled, shared, partition(shared.pruned, program.workers))
    added = program.ops[operators:]
    reuse(program, added, program.vectors() - vectors)
    read = {node.name: names for node, names in shared.pruned.columns.items() if isinstance(node, Input)}
    return Added(added, read, list(dict.fromkeys(shared.existing.values())))
