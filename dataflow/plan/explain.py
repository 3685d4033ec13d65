"""A compiled plan in words: its operators, what they keep, and who shares which arrangement."""

from __future__ import annotations

from collections import defaultdict

from deltamark.dataflow.codegen.compiled import Arranged, Compiled, reachable
from deltamark.dataflow.codegen.program import Part
from deltamark.dataflow.operators.motifs.index import Indexed
from deltamark.dataflow.plan.nodes import Node, walk
from deltamark.dataflow.plan.partitioning import Delivery
from deltamark.dataflow.plan.sharing import Choice
from deltamark.dataflow.plan.terms import Term


def explain(compiled: Compiled) -> str:
    """Describe a plan, one line an operator and arrangement, inputs first."""
    numbers: dict[Node, int] = {}
    for each in compiled.built:
        numbers.setdefault(each.node, len(numbers))
    lines = []
    kept = _kept(compiled)
    for each in compiled.built:
        readers = [numbers[reader.node] for reader in compiled.readers.get(each, [])]
        match each.how:
            case None:
                what = _operator(each.node, numbers)
                if each.node in compiled.shared:
                    what += f"   ({compiled.shared[each.node]})"
            case Delivery() as delivery:
                why = f", for {', '.join(map(str, readers))}" if readers else ", for the answer"
                what = f"      exchange of {numbers[each.node]} {delivery}{why}"
            case Indexed() as indexed:
                by_whom = ", ".join(map(str, readers))
                what = f"      index of {numbers[each.node]} from {indexed}, read by {by_whom}"
            case keys:
                by = ", ".join(keys) or "nothing"
                what = f"      arrangement of {numbers[each.node]} by {by}, read by {', '.join(map(str, readers))}"
        lines.append(f"{what}{kept[each]}")
    return "\n".join([*lines, *(_choice(*each) for each in choices(compiled))])


def choices(compiled: Compiled) -> list[tuple[str, Choice]]:
    """List what was weighed of arrangements that differ in their filters, by what they are of."""
    return [(_arranged((each.node, None, each.keys, ())), each) for each in compiled.choices]


def _choice(what: str, choice: Choice) -> str:
    apart, one = (f"{size / 1e6:.1f} MB" for size in (choice.bytes_apart, choice.bytes_as_one))
    vain = f"{choice.in_vain:,} rows looked at in vain"
    if not choice.filters:
        return f"      {what}: {choice.apart} with filters of their own, estimated at {apart}; as one {one}, {vain}"
    left = f"{len(choice.filters)} filters left to readers"
    return f"      {what}: {left}, estimated at {one}, {vain}; {choice.apart} with filters of their own {apart}"


def sharing(compiled: Compiled) -> list[tuple[str, list[str], int, int]]:
    """List the arrangements: what each is of, which dataflows use it, its rows and its bytes."""
    used = {name: reachable([root.part]) for name, root in compiled.roots.items()}
    sizes = _sizes(compiled)
    return [
        (_arranged(each.what), [name for name, parts in used.items() if each.part in parts], *sizes[each.part])
        for each in compiled.kept
    ]


def _arranged(what: Arranged) -> str:
    """Name the rows of an arrangement by the inputs that they come from."""
    node, _, keys, _ = what
    inputs = " ".join(sorted(each.params for each in walk(node) if each.op == "input"))
    how = "" if node.op == "input" else f", {node.op}"
    return f"{inputs}{how}, by {', '.join(keys) or 'nothing'}"


def _operator(node: Node, numbers: dict[Node, int]) -> str:
    inputs = f" of {', '.join(_number(each, numbers) for each in node.inputs)}" if node.inputs else ""
    return f"{numbers[node]:>3} {node.op}{inputs}: {_words(node.params)} -> {', '.join(node.schema.names)}"


def _number(node: Node, numbers: dict[Node, int]) -> str:
    """Name an input by its number; one that was not built, since its filter is the reader's, by what it is of."""
    if node in numbers:
        return str(numbers[node])
    below = _number(node.inputs[0], numbers)
    return f"{below} where {node.params}" if node.op == "where" else below


def _words(value: object) -> str:
    if isinstance(value, Term | str | int):
        return str(value)
    if isinstance(value, tuple):
        return f"({', '.join(map(_words, value))})"
    return "-" if value is None else repr(value)


def _kept(compiled: Compiled) -> dict[Part, str]:
    """Say how many rows each part keeps, and how many bytes that takes."""
    words: dict[Part, str] = defaultdict(str)
    for part, (rows, size) in _sizes(compiled).items():
        if rows or size:
            share = f", {size / rows:.0f} a row" if rows else ""
            words[part] = f"   [{rows:,} rows, {size / 1e6:.1f} MB{share}]"
    return words


def _sizes(compiled: Compiled) -> dict[Part, tuple[int, int]]:
    """Return the rows and bytes that each part keeps."""
    memory: dict[object, int] = defaultdict(int)
    reserved = compiled.program.state_memory()
    for address, size in compiled.program.memory.resident(reserved).items():
        memory[reserved[address]] += size
    return {part: (sum(state.rows() for state in states), memory[part]) for part, states in compiled.states().items()}
