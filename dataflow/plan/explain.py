"""Explanations of compiled plans: operators, their state, and the arrangements that they share."""

from __future__ import annotations

from collections import defaultdict

from deltamark.dataflow.builder.program import ProgramPart
from deltamark.dataflow.codegen.compiled import Compiled, NodePart, reachable
from deltamark.dataflow.operators.motifs.index import Indexed
from deltamark.dataflow.plan.describe import describe
from deltamark.dataflow.plan.distribution import Exchange
from deltamark.dataflow.plan.nodes import Filter, Input, Node
from deltamark.dataflow.plan.sharing import Choice
from deltamark.dataflow.plan.traversal import base_inputs


def explain(compiled: Compiled) -> str:
    """Describe a plan with one line per operator, exchange, index and arrangement, inputs first."""
    numbers: dict[Node, int] = {}
    for each in compiled.node_parts:
        numbers.setdefault(each.node, len(numbers))
    state = _state(compiled)
    lines = [f"{_line(each, compiled, numbers)}{state[each]}" for each in compiled.node_parts]
    return "\n".join([*lines, *(_choice(*each) for each in choices(compiled))])


def _line(part: NodePart, compiled: Compiled, numbers: dict[Node, int]) -> str:
    number = numbers[part.node]
    readers = ", ".join(str(numbers[reader.node]) for reader in compiled.readers.get(part, []))
    match part.role:
        case None:
            remark = compiled.remarks.get(part.node)
            return f"{_operator(part.node, numbers)}{f'   ({remark})' if remark else ''}"
        case Exchange():
            return f"      exchange of {number} {part.role}, for {readers or 'the answer'}"
        case Indexed():
            return f"      index of {number} from {part.role}, read by {readers}"
        case keys:
            return f"      arrangement of {number} by {', '.join(keys) or 'nothing'}, read by {readers}"


def choices(compiled: Compiled) -> list[tuple[str, Choice]]:
    """List the alternatives for arrangements that differ in their filters, by the rows that they arrange."""
    return [(_arranged(each.node, each.keys), each) for each in compiled.choices]


def _choice(what: str, choice: Choice) -> str:
    apart, one = (f"{size / 1e6:.1f} MB" for size in (choice.bytes_apart, choice.bytes_as_one))
    separate = f"{choice.apart} separate arrangements {apart}"
    shared = f"one shared arrangement {one} with {choice.wasted_probes:,} wasted probes"
    if not choice.filters:
        return f"      {what}: {separate} (estimated), rather than {shared}"
    return f"      {what}: {len(choice.filters)} residual filters, {shared} (estimated), rather than {separate}"


def sharing(compiled: Compiled) -> list[tuple[str, list[str], int, int]]:
    """List the arrangements: the rows that each arranges, the dataflows that read it, its rows and its bytes."""
    used = {name: reachable([root.part]) for name, root in compiled.roots.items()}
    sizes = _sizes(compiled)
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


def _operator(node: Node, numbers: dict[Node, int]) -> str:
    inputs = f" of {', '.join(_number(each, numbers) for each in node.inputs)}" if node.inputs else ""
    parameters = f": {describe(node)}" if describe(node) else ""
    return f"{numbers[node]:>3} {node.operation}{inputs}{parameters} -> {', '.join(node.schema.names)}"


def _number(node: Node, numbers: dict[Node, int]) -> str:
    """Name an input by its number; one that was not built, since its filter is residual, by the node below it."""
    if node in numbers:
        return str(numbers[node])
    below = _number(node.inputs[0], numbers)
    return f"{below} where {node.condition}" if isinstance(node, Filter) else below


def _state(compiled: Compiled) -> dict[ProgramPart, str]:
    """Describe the rows and bytes of each part that has state."""
    words: dict[ProgramPart, str] = defaultdict(str)
    for part, (rows, size) in _sizes(compiled).items():
        if rows or size:
            share = f", {size / rows:.0f} a row" if rows else ""
            words[part] = f"   [{rows:,} rows, {size / 1e6:.1f} MB{share}]"
    return words


def _sizes(compiled: Compiled) -> dict[ProgramPart, tuple[int, int]]:
    """Return the rows and bytes of each part."""
    memory: dict[object, int] = defaultdict(int)
    reserved = compiled.program.state_memory()
    for address, size in compiled.program.memory.resident(reserved).items():
        memory[reserved[address]] += size
    return {part: (sum(state.rows() for state in states), memory[part]) for part, states in compiled.states().items()}
