"""Loops as plans: rows that are put through a body again and again, until that changes nothing.

A body is a plan over a variable. What of it depends on the variable is linear, and may meet collections from outside,
which hold still while the loop runs; what closes it is `distinct`, `threshold`, or `smallest` or `largest` of a group
made distinct. An iterate node binds the variable of its body, whose number is how many loops are around it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod

from deltamark.dataflow.plan.nodes import Node, node, walk
from deltamark.dataflow.types import LARGEST, Field, Schema, Type
from deltamark.errors import DeltamarkError

MOST_ITERATIONS = 1 << 20

LINEAR = ("variable", "where", "select", "concat", "negate", "join")

Body = Callable[[Node], Node]


def looped(seed: Node, body: Body) -> Node:
    """Return the fixpoint of a body that begins with the rows of a seed."""
    depth = _depth(seed)
    _depths.append(depth)
    try:
        variable, closed = _closed(seed, body, depth)
    finally:
        _depths.pop()
    return node("iterate", (seed, closed), depth, variable.schema)


_depths: list[int] = []
"""The variables of the loops whose bodies are being written."""


def _depth(seed: Node) -> int:
    if free(seed):
        raise DeltamarkError("a loop that begins with the rows of another", seed, "end the other loop first")
    return len(_depths)


def free(root: Node) -> frozenset[int]:
    """Return the variables that a plan depends on, and does not bind."""
    found: dict[Node, frozenset[int]] = {}
    for each in walk(root):
        below = [found[other] for other in each.inputs]
        match each.op:
            case "variable":
                found[each] = frozenset([each.params])
            case "iterate":
                found[each] = below[0] | (below[1] - {each.params})
            case _:
                found[each] = frozenset().union(*below)
    return found[root]


def inside(loop: Node) -> list[Node]:
    """Return what of a loop's body depends on its variable, inputs first."""
    depends: dict[Node, bool] = {}

    def visit(at: Node) -> bool:
        if at not in depends:
            below = at.inputs[:1] if at.op == "iterate" else at.inputs
            found = [visit(each) for each in below]
            depends[at] = any(found) or (at.op == "variable" and at.params == loop.params)
        return depends[at]

    visit(loop.inputs[1])
    return [each for each, does in depends.items() if does]


@dataclass(frozen=True)
class Closing:
    """What closes a loop: the columns that are a row's key, the one of which the best is kept, and how it is kept."""

    below: Node
    keys: tuple[str, ...]
    of: str | None = None
    which: str = "smallest"
    least: int = 1


def closing(root: Node) -> Closing:
    """Read the end of a body."""
    if root.op == "threshold":
        below = root.inputs[0]
        if below.op == "extreme" and root.params == 1 and {*below.params[0], below.params[1]} == set(root.schema.names):
            keys, of, which, _ = below.params
            return Closing(below.inputs[0], tuple(name for name in keys if name != of), of, which)
        return Closing(below, root.schema.names, least=root.params)
    remedy = "end it by .distinct(), or by .smallest(of, by=all other columns).distinct()"
    raise DeltamarkError("the body of a loop does not end in what it keeps", root.op, remedy)


def _closed(seed: Node, body: Body, depth: int) -> tuple[Node, Node]:
    """Find types for the variable that the body keeps, and return it with the body over it."""

    def over(types: Mapping[str, Type], rows: int) -> tuple[Node, Node]:
        fields = tuple(Field(name, type_) for name, type_ in types.items())
        variable = node("variable", (), depth, Schema(fields, rows))
        written = body(variable)
        _check(seed.schema, variable, written)
        return variable, written

    rows, first = seed.schema.rows, {field.name: field.type for field in seed.schema.fields}
    for _ in range(len(first) + 1):
        second = _spanned(first, over(first, rows)[1].schema)
        if second == first:
            break
        before, first = first, second
    else:
        first = _widened(before, first, lambda wide: over(wide, rows)[1].schema)
    keys = closing(over(first, rows)[1]).keys
    most = prod(first[name].high - first[name].low + 1 + first[name].nullable for name in keys)
    return over(first, min(most, LARGEST))


def _spanned(types: Mapping[str, Type], schema: Schema) -> dict[str, Type]:
    """Widen types by those of what a body makes."""
    return {
        name: replace(mine, low=min(mine.low, schema[name].low), high=max(mine.high, schema[name].high))
        for name, mine in types.items()
    }


def _widened(
    first: Mapping[str, Type], second: Mapping[str, Type], made: Callable[[Mapping[str, Type]], Schema]
) -> dict[str, Type]:
    """Widen bounds by what each of the most iterations may add.

    Bounds of what is computed are convex in those of the variable: what an iteration adds to the narrowest and to the
    widest, it adds to none between.
    """
    wide = {
        name: replace(
            mine,
            low=mine.low - MOST_ITERATIONS * (mine.low - second[name].low),
            high=mine.high + MOST_ITERATIONS * (second[name].high - mine.high),
        )
        for name, mine in first.items()
    }
    after = _spanned(wide, made(wide))
    for name, mine in first.items():
        down, up = mine.low - second[name].low, second[name].high - mine.high
        large = max(-wide[name].low, wide[name].high) > LARGEST
        if large or wide[name].low - after[name].low > down or after[name].high - wide[name].high > up:
            actual = f"{name}: {mine.low}..{mine.high}, then {second[name].low}..{second[name].high}"
            raise DeltamarkError("values may outgrow 64 bits in a loop", actual, "add less in each iteration")
    return wide


def _check(seed: Schema, variable: Node, body: Node) -> None:
    """Refuse a body that a loop cannot run."""
    if body.schema.names != seed.names:
        actual = f"{seed.names} become {body.schema.names}"
        raise DeltamarkError("other columns after an iteration", actual, "select the same ones in the same order")
    for field in seed.fields:
        other = body.schema[field.name]
        if field.type.comparable != other.comparable or field.type.scale != other.scale or other.nullable:
            actual = f"{field.name}: {field.type} becomes {other}"
            raise DeltamarkError("a column of another type after an iteration", actual, "convert it")
    _check_inside(node("iterate", (variable, body), variable.params, variable.schema), closing(body))


def _check_inside(loop: Node, end: Closing) -> None:
    found = inside(loop)
    if free(loop) - {loop.params} or any(each.op == "iterate" and free(each) for each in walk(loop.inputs[1])):
        raise DeltamarkError("a loop inside a loop", "its body uses the rows of both", "end the inner loop first")
    if loop.inputs[1] not in found:
        raise DeltamarkError("a loop whose body does not use its rows", loop.inputs[1].op, "use what it is given")
    ending = {loop.inputs[1], loop.inputs[1].inputs[0]} if end.of is not None else {loop.inputs[1]}
    for each in found:
        if each in ending:
            continue
        if each.op not in LINEAR:
            remedy = f"use {', '.join(LINEAR[1:])} of what changes, and close the loop by distinct"
            raise DeltamarkError("cannot be done inside a loop", each.op, remedy)
        if each.op == "join" and all(other in found for other in each.inputs):
            actual = " and ".join(other.op for other in each.inputs)
            raise DeltamarkError("both sides of a join change in a loop", actual, "join with a collection from outside")
        for field in each.schema.fields:
            if field.type.kind == "text" or field.type.nullable:
                name = f"{field.name} ({field.type})"
                raise DeltamarkError("cannot go round a loop", name, "leave it out, and join it in afterwards")
