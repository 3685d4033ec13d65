"""Explanations: trees of programs as text, and the arrangements that several plans share.

One part of a program is one line, with its inputs below it. A part that several others read is printed once, and
referred to by its number.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from deltamark.dataflow.builder.program import ProgramPart
from deltamark.dataflow.codegen.compiled import ANSWER, Answer, Compiled, NodePart, reachable
from deltamark.dataflow.codegen.compiler import compile_plans
from deltamark.dataflow.operators.distribution import Exchange
from deltamark.dataflow.operators.index import Indexed
from deltamark.dataflow.operators.input import Input, base_inputs
from deltamark.dataflow.operators.linear import Filter, is_consolidated
from deltamark.dataflow.operators.node import Node, expected_rows
from deltamark.dataflow.passes.share import Choice
from deltamark.dataflow.plan.term_sql import listed, sql
from deltamark.dataflow.plan.terms import Passes, Term

MIN_SHOWN_BYTES = 50_000
"""Less memory would be shown as 0.0 MB."""


@dataclass(frozen=True)
class Measurement:
    """The changes that a part has emitted, and the seconds that its operators took."""

    changes: int
    seconds: float


Measurements = Mapping[ProgramPart, Measurement]

StateSizes = Mapping[ProgramPart, tuple[int, int]]
"""The rows and bytes that parts of a program keep."""


@dataclass
class PlanTree:
    """The trees of one or several programs, as a table of numbers with the trees in the last column."""

    measured: Measurements = field(default_factory=dict)
    _lines: list[tuple[NodePart | None, str]] = field(default_factory=list)
    _numbers: dict[NodePart, int] = field(default_factory=dict)
    _state: dict[ProgramPart, tuple[int, int]] = field(default_factory=dict)
    _stored: dict[ProgramPart, Iterable[Term]] = field(default_factory=dict)

    def add_heading(self, text: str) -> None:
        """Add a line above the next trees."""
        self._lines.append((None, text))

    def add(
        self, compiled: Compiled, sizes: StateSizes, titles: Mapping[str, str] | None = None, only: str | None = None
    ) -> None:
        """Add the trees of a program, or only that of one plan.

        titles: replacements for the lines of answers, by the names of their plans.
        """
        self._state |= sizes
        self._stored |= {each.part: each.arrangement.stored for each in compiled.arrangements}
        for part in compiled.node_parts:
            if isinstance(part.role, Answer) and only in (None, part.role.name):
                self._visit((part,), "", "", (titles or {}).get(part.role.name))

    def _visit(self, path: Sequence[NodePart], fork: str, indent: str, text: str | None = None) -> None:
        """Add the lines of the first part of a path, and of the parts below it: the rest of the path, or the inputs."""
        part, rest = path[0], path[1:]
        if part in self._numbers:
            self._lines.append((None, f"{fork}{_brief(part)} (see #{self._numbers[part]})"))
            return
        self._numbers[part] = len(self._numbers) + 1
        residual = " (residual)" if rest and isinstance(part.node, Filter) else ""
        self._lines.append((part, f"{fork}{text or self._text(part)}{residual}"))
        inputs = [rest] if rest else part.reads
        for place, each in enumerate(inputs):
            branch, line = ("└─ ", "   ") if place == len(inputs) - 1 else ("├─ ", "│  ")
            self._visit(each, f"{indent}{branch}", f"{indent}{line}")

    def _text(self, part: NodePart) -> str:
        """Describe a part with its arguments."""
        remark = f" ({part.remark})" if part.remark else ""
        match part.role:
            case None:
                return f"{part.node.title} {part.node.description(part.columns)}".rstrip() + remark
            case Answer(name):
                named = "" if name == ANSWER else f" {name}"
                consolidated = "" if is_consolidated(part.node) else ", consolidated"
                return f"answer{named}{consolidated}: {listed(part.columns)}"
            case Exchange() | Indexed():
                return _brief(part)
        stored = ", ".join(map(_stored, self._stored[part]))
        return f"{_brief(part)}{': ' if stored else ''}{stored}{remark}"

    def __str__(self) -> str:
        if not self._lines:
            return ""
        columns = [_aligned(name, texts) for name, texts in self._numbers_of().items() if any(texts)]
        trees = ["plan", *(text for _, text in self._lines)]
        return "\n".join("  ".join(row) for row in zip(*columns, trees, strict=True))

    def _numbers_of(self) -> Mapping[str, Sequence[str]]:
        """Return the columns of numbers by their titles."""
        kept = any(rows for rows, _ in self._state.values())
        total = sum(each.seconds for each in self.measured.values()) or 1
        columns: dict[str, list[str]] = defaultdict(list)
        for part, _ in self._lines:
            rows, size = self._state.get(part, (0, 0)) if part and kept else (0, 0)
            measured = self.measured.get(part) if part else None
            columns["#"].append(str(self._numbers[part]) if part else "")
            columns["est. rows"].append(f"{math.ceil(expected_rows(part.node)):,}" if part else "")
            columns["rows kept"].append(f"{rows:,}" if rows else "")
            columns["memory"].append(f"{size / 1e6:.1f} MB" if size > MIN_SHOWN_BYTES else "")
            columns["changes"].append(f"{measured.changes:,}" if measured else "")
            columns["time"].append(f"{1e3 * measured.seconds:,.2f} ms" if measured and measured.seconds else "")
            columns["share"].append(f"{measured.seconds / total:.0%}" if measured and measured.seconds else "")
        return columns


def _aligned(name: str, texts: Sequence[str]) -> list[str]:
    width = max(map(len, [name, *texts]))
    return [each.rjust(width) for each in (name, *texts)]


def _brief(part: NodePart) -> str:
    """Name a part, without its arguments."""
    match part.role:
        case None:
            return f"input {part.node.name}" if isinstance(part.node, Input) else part.node.title
        case Answer():
            return "answer"
        case Exchange():
            return str(part.role)
        case Indexed():
            return f"index from {part.role}"
        case keys:
            return f"arrangement by {listed(keys)}" if keys else "arrangement of all rows"


def _stored(term: Term) -> str:
    """Describe a term that an arrangement stores."""
    return f"a bitmap of {len(term.conditions)} filters" if isinstance(term, Passes) else sql(term)


def state_sizes(compiled: Compiled) -> StateSizes:
    """Return the rows and bytes that each part keeps in this process."""
    memory: dict[object, int] = defaultdict(int)
    reserved = compiled.program.state_memory()
    for address, size in compiled.program.memory.resident(reserved).items():
        memory[reserved[address]] += size
    return {part: (sum(state.rows() for state in states), memory[part]) for part, states in compiled.states().items()}


def explain_plans(plans: Mapping[str, Node], workers: int = 1) -> str:
    """Describe the program of plans, by the names of their answers, without running it."""
    compiled = compile_plans(plans, workers)
    try:
        return explain(compiled, {})
    finally:
        compiled.program.memory.close()


def explain(
    compiled: Compiled, sizes: StateSizes, measured: Measurements | None = None, only: str | None = None
) -> str:
    """Describe a program as a tree for each answer, with the state of its parts and the measurements of a run.

    only: the name of the plan whose tree is shown.
    """
    tree = PlanTree(measured or {})
    tree.add(compiled, sizes, only=only)
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


def sharing(compiled: Compiled, sizes: StateSizes) -> list[tuple[str, list[str], int, int]]:
    """List the arrangements: the rows that each arranges, the dataflows that read it, its rows and its bytes."""
    used = {name: reachable([root.part]) for name, root in compiled.roots.items()}
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
