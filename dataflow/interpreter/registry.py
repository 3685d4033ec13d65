"""The registry of steps: it finds them in all modules of kernels and operators, and numbers them by name.

The interpreter has two functions with a branch for each step, which are made here as source text. To read them:

    .venv/bin/python -m deltamark.dataflow.interpreter.registry
"""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pkgutil import walk_packages
from typing import get_type_hints

from deltamark.dataflow import kernels, operators
from deltamark.dataflow.kernels.core.blocks import Operator
from deltamark.dataflow.kernels.core.dispatcher import Kernel, inline
from deltamark.dataflow.kernels.core.steps import Step
from deltamark.dataflow.kernels.groups.grouped_rows import GroupedRowsBlock, GroupStep, RowGroup
from deltamark.dataflow.kernels.status import DONE

RUN_STEP = """\
def run_step(op: int) -> int:
    \"""Run one operator; return its status.\"""
    code = Operator(op).opcode
{branches}
    return DONE
"""

END_GROUP = """\
def end_group(op: GroupedRowsBlock, group_id: int, group: RowGroup) -> int:
    \"""End a time for a group; return an error, or 0.\"""
    code = op.opcode
{branches}
    return 0
"""


def _find() -> Iterator[Step]:
    """Yield the steps of all modules of kernels and operators."""
    for package in (kernels, operators):
        for each in walk_packages(package.__path__, f"{package.__name__}."):
            yield from (value for value in vars(import_module(each.name)).values() if isinstance(value, Step))


def _by_name(steps: Iterator[Step]) -> dict[str, Step]:
    found: dict[str, Step] = {}
    for each in steps:
        if found.setdefault(each.name, each) is not each:
            raise TypeError(f"two steps are named {each.name}; give one of them a name")
    return dict(sorted(found.items()))


STEPS: Mapping[str, Step] = _by_name(_find())
"""All steps, by name, in the order of their opcodes."""

OPCODES: Mapping[Step, int] = {each: number for number, each in enumerate(STEPS.values())}
"""The first word of the block of an operator: the number of its step."""

GROUP_STEPS = [each for each in STEPS.values() if isinstance(each, GroupStep)]


def run_step_source() -> str:
    """Return the source of the function that runs one operator."""
    branches = [_branch([each], _call(each), returns=each.has_status) for each in STEPS.values()]
    groups = _branch(GROUP_STEPS, "update_groups(GroupedRowsBlock(op))", returns=True)
    others = [text for each, text in zip(STEPS.values(), branches, strict=True) if each not in GROUP_STEPS]
    return RUN_STEP.format(branches=_chain([*others, groups]))


def end_group_source() -> str:
    """Return the source of the function that ends a time for one group."""
    branches = [_branch([each], _group_call(each), returns=True) for each in GROUP_STEPS]
    return END_GROUP.format(branches=_chain(branches))


def _call(step: Step) -> str:
    return f"{step.name}({step.block.__name__}(op){step.field and '.' + step.field})"


def _group_call(step: GroupStep) -> str:
    block, *ids, group, _ = inspect.get_annotations(step.kernel.py_func, eval_str=True).values()
    return f"{step.name}({block.__name__}(op.address), {'group_id, ' * bool(ids)}{group.__name__}(group.address))"


def _branch(steps: Iterable[Step], call: str, *, returns: bool) -> str:
    condition = " or ".join(f"code == {each.name.upper()}" for each in steps)
    return f"if {condition}:\n        {'return ' * returns}{call}"


def _chain(branches: Iterable[str]) -> str:
    """Return the text of a chain of branches, which LLVM turns into one jump."""
    return "    " + "\n    el".join(branches)


def _names() -> dict[str, object]:
    """Return the names in the sources: the kernels, the opcodes and the blocks."""
    names: dict[str, object] = {"Operator": Operator, "GroupedRowsBlock": GroupedRowsBlock, "RowGroup": RowGroup}
    names |= {"DONE": DONE, **{each.name.upper(): code for each, code in OPCODES.items()}}
    for each in STEPS.values():
        blocks = [kind for kind in get_type_hints(each.kernel.py_func).values() if isinstance(kind, type)]
        for kind in (each.block, *blocks):
            if names.setdefault(kind.__name__, kind) is not kind:
                raise TypeError(f"two blocks of steps are named {kind.__name__}; rename one of them")
    return names | {each.name: each.kernel for each in STEPS.values()}


def define(source: str, **others: object) -> Kernel:
    """Return the function of a source, which is inserted into the kernels that call it. others: its other names."""
    name = source.partition("(")[0].removeprefix("def ")
    file = f"<{name}, made by {__name__}>"
    scope = {"__name__": __name__, **_names(), **others}
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    exec(compile(source, file, "exec", dont_inherit=True), scope)  # noqa: S102  # made of names of steps
    return inline(scope[name])


if __name__ == "__main__":
    print(run_step_source(), end_group_source(), sep="\n\n", end="")
