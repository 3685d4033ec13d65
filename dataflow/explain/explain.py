"""Explanations of plans and of compiled programs, and the arrangements that several plans share."""

from __future__ import annotations

from collections.abc import Mapping

from deltamark.dataflow.codegen.compiled import Compiled, reachable
from deltamark.dataflow.codegen.compiler import compile_plans
from deltamark.dataflow.explain.tree import Measurements, PlanTree, state_sizes
from deltamark.dataflow.plan.nodes import Input, Node
from deltamark.dataflow.plan.passes.sharing import Choice
from deltamark.dataflow.plan.traversal import base_inputs


def explain_plans(plans: Mapping[str, Node], workers: int = 1) -> str:
    """Describe the program of plans, by the names of their answers, without running it."""
    compiled = compile_plans(plans, workers)
    try:
        return explain(compiled)
    finally:
        compiled.program.memory.close()


def explain(compiled: Compiled, measured: Measurements | None = None) -> str:
    """Describe a program as a tree for each answer, with the state of its parts and the measurements of a run."""
    tree = PlanTree(measured or {})
    tree.add(compiled)
    notes = [_choice(*each) for each in choices(compiled)]
    if measured:
        milliseconds = 1e3 * sum(each.seconds for each in measured.values())
        notes.append(f"All operators took {milliseconds:,.2f} ms, each called by itself over every batch.")
    return "\n".join(filter(None, [str(tree), *notes]))


def choices(compiled: Compiled) -> list[tuple[str, Choice]]:
    """List the alternatives for arrangements that differ in their filters, by the rows that they arrange."""
    return [(_arranged(each.node, each.keys), each) for each in compiled.choices]


def _choice(what: str, choice: Choice) -> str:
    apart, one = (f"{size / 1e6:.1f} MB" for size in (choice.bytes_apart, choice.bytes_as_one))
    separate = f"{choice.apart} separate arrangements {apart}"
    shared = f"one shared arrangement {one} with {choice.wasted_probes:,} wasted probes"
    if not choice.filters:
        return f"{what}: {separate} (estimated), rather than {shared}"
    return f"{what}: {len(choice.filters)} residual filters, {shared} (estimated), rather than {separate}"


def sharing(compiled: Compiled) -> list[tuple[str, list[str], int, int]]:
    """List the arrangements: the rows that each arranges, the dataflows that read it, its rows and its bytes."""
    used = {name: reachable([root.part]) for name, root in compiled.roots.items()}
    sizes = state_sizes(compiled)
    return [
        (
            _arranged(each.key.node, each.key.names),
            [name for name, parts in used.items() if each.part in parts],
            *sizes[each.part],
        )
        for each in compiled.arrangements
    ]


def _arranged(node: Node, keys: tuple[str, ...]) -> str:
    """Name the rows of an arrangement by the inputs that they are computed from."""
    names = " ".join(sorted(each.name for each in base_inputs(node)))
    operation = "" if isinstance(node, Input) else f", {node.operation}"
    return f"{names}{operation}, by {', '.join(keys) or 'nothing'}"
