"""What later operators want of the streams before them: by which keys their rows should lie together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from deltamark.dataflow.codegen.program import key_range
from deltamark.dataflow.plan.nodes import Node
from deltamark.dataflow.types import Field

MANY_GROUPS = 1024
"""Rows are not dealt by fewer different keys for the sake of a later operator."""

RANGED = ("int", "date", "code")


def many(at: Node, keys: Sequence[str]) -> bool:
    """Has a node many rows of different keys?"""
    return bool(keys) and prod(radix for _, radix in key_range([at.schema[name] for name in keys])) >= MANY_GROUPS


def widest(fields: Iterable[Field]) -> tuple[str, ...]:
    """Choose a column of many values to deal rows by."""
    found = sorted(fields, key=lambda each: each.type.high - each.type.low if each.type.kind in RANGED else 0)
    return (found[-1].name,) if found else ()


def wishes(nodes: Sequence[Node]) -> dict[Node, tuple[str, ...]]:
    """Say by which keys the readers of a node want its rows, where all want the same."""
    wanted: dict[Node, set[tuple[str, ...]]] = {each: set() for each in nodes}
    for at in reversed(nodes):
        mine = next(iter(wanted[at])) if len(wanted[at]) == 1 else ()
        for each, keys in _wished(at, mine):
            if keys:
                wanted[each].add(keys)
    return {at: next(iter(keys)) for at, keys in wanted.items() if len(keys) == 1}


def _wished(at: Node, mine: tuple[str, ...]) -> Iterable[tuple[Node, tuple[str, ...]]]:
    match at.op:
        case "aggregate" | "extreme":
            return [(at.inputs[0], at.params[0])]
        case "join" | "bound":
            return zip(at.inputs, at.params[:2], strict=True)
        case "select":
            terms = dict(at.params)
            known = all(terms[name].op == "column" for name in mine)
            return [(at.inputs[0], tuple(terms[name].value for name in mine) if known else ())]
        case "where" | "negate" | "threshold" | "concat":
            return [(each, mine) for each in at.inputs]
    return []
