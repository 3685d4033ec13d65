"""Loops: a plan that is applied repeatedly, beginning with the rows of a seed, until nothing changes.

A body is a plan over a variable. The nodes that depend on the variable are linear, and may be joined with collections
from outside, which do not change while the loop runs. The body ends in `distinct`, `threshold`, or `smallest` or
`largest` of a group made distinct. An Iterate node binds the variable of its body, whose depth is the number of loops
around it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from math import prod

from deltamark.dataflow.operators.by_key import OwnInputs
from deltamark.dataflow.operators.iterate import Iterate, Variable, closing, free, inside
from deltamark.dataflow.operators.join import Join
from deltamark.dataflow.operators.linear import Concat, Filter, Negate, Project
from deltamark.dataflow.operators.loop import MAX_ITERATIONS, check_key, check_value
from deltamark.dataflow.operators.node import Node, walk
from deltamark.dataflow.types import LARGEST, Field, Schema, Type, spanning
from deltamark.errors import DeltamarkError

LINEAR = (Variable, Filter, Project, Concat, Negate, Join)
LINEAR_METHODS = "where, select, concat, negate, join"

Body = Callable[[Node], Node]

_depths: list[int] = []
"""The depths of the loops whose bodies are being built."""


def looped(seed: Node, body: Body) -> Node:
    """Return the fixpoint of a body that begins with the rows of a seed."""
    if free(seed):
        raise DeltamarkError("a loop that begins with the rows of another", seed, "end the other loop first")
    depth = len(_depths)
    _depths.append(depth)
    try:
        variable, built = _typed(seed, body, depth)
    finally:
        _depths.pop()
    loop = Iterate(seed, built, depth, schema=variable.schema)
    _check_widths(loop)
    return loop


def _typed(seed: Node, body: Body, depth: int) -> tuple[Node, Node]:
    """Find types for the variable that the body preserves; return it with the body over it."""

    def over(types: Mapping[str, Type], rows: int) -> tuple[Node, Node]:
        fields = tuple(Field(name, type_) for name, type_ in types.items())
        variable = Variable(depth, schema=Schema(fields, rows))
        built = body(variable)
        _check(seed.schema, variable, built)
        return variable, built

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
    """Widen types by those of a body's result."""
    return {name: spanning(mine, schema[name]) for name, mine in types.items()}


def _widened(
    first: Mapping[str, Type], second: Mapping[str, Type], schema_after: Callable[[Mapping[str, Type]], Schema]
) -> dict[str, Type]:
    """Widen bounds by the largest growth of MAX_ITERATIONS iterations.

    The bounds of a result are convex in those of the variable, so an iteration that adds no more than this to the
    narrowest and to the widest bounds adds no more to any bounds between them.
    """
    wide = {
        name: replace(
            mine,
            low=mine.low - MAX_ITERATIONS * (mine.low - second[name].low),
            high=mine.high + MAX_ITERATIONS * (second[name].high - mine.high),
        )
        for name, mine in first.items()
    }
    after = _spanned(wide, schema_after(wide))
    for name, mine in first.items():
        down, up = mine.low - second[name].low, second[name].high - mine.high
        large = max(-wide[name].low, wide[name].high) > LARGEST
        if large or wide[name].low - after[name].low > down or after[name].high - wide[name].high > up:
            actual = f"{name}: {mine.low}..{mine.high}, then {second[name].low}..{second[name].high}"
            raise DeltamarkError("values may outgrow 64 bits in a loop", actual, "add less in each iteration")
    return wide


def _check(seed: Schema, variable: Variable, body: Node) -> None:
    """Raise an error for a body that a loop cannot run."""
    if body.schema.names != seed.names:
        actual = f"{seed.names} become {body.schema.names}"
        raise DeltamarkError("other columns after an iteration", actual, "select the same ones in the same order")
    for field in seed.fields:
        other = body.schema[field.name]
        if field.type.comparable != other.comparable or field.type.scale != other.scale:
            actual = f"{field.name}: {field.type} becomes {other}"
            raise DeltamarkError("a column of another type after an iteration", actual, "keep the type of the column")
    end = closing(body)
    loop = Iterate(variable, body, variable.depth, schema=variable.schema)
    nodes = inside(loop)
    _check_nesting(loop, nodes)
    ending = {body, *body.inputs} if end.of is not None else {body}
    read = _read(nodes, body)
    for node in nodes:
        if node not in ending:
            _check_inside(node, nodes, read[node])


def _check_nesting(loop: Iterate, nodes: list[Node]) -> None:
    nested = any(isinstance(each, Iterate) and free(each) for each in walk(loop.body))
    if free(loop) - {loop.depth} or nested:
        raise DeltamarkError("a loop inside a loop", "its body uses the rows of both", "end the inner loop first")
    if loop.body not in nodes:
        actual = loop.body.operation
        raise DeltamarkError("a loop whose body does not use its rows", actual, "use the argument of the body")


def _check_widths(loop: Iterate) -> None:
    """Raise an error for keys and values that are too wide for a loop."""
    for node in inside(loop):
        if isinstance(node, Join):
            check_key(node.left_keys, node.key_types)
    end = closing(loop.body)
    check_key(end.keys, [end.below.schema[name] for name in end.keys])
    if end.of is not None:
        check_value(end.of, end.below.schema[end.of])


def _read(nodes: list[Node], body: Node) -> dict[Node, set[str]]:
    """Return the columns of each node inside a loop that the loop reads."""
    read: dict[Node, set[str]] = defaultdict(set)
    read[body] = set(body.schema.names)
    for node in reversed(nodes):
        for below, names in node.required(tuple(read[node]), OwnInputs(nodes)):
            read[below].update(names)
    return read


def _check_inside(node: Node, nodes: list[Node], read: Iterable[str]) -> None:
    """Raise an error for a node that cannot run inside a loop. read: the columns that the loop reads."""
    if not isinstance(node, LINEAR):
        remedy = f"use only {LINEAR_METHODS} in the body, and end it by distinct"
        raise DeltamarkError("cannot be done inside a loop", node.operation, remedy)
    if isinstance(node, Join) and all(each in nodes for each in node.inputs):
        actual = " and ".join(each.operation for each in node.inputs)
        raise DeltamarkError("both sides of a join change in a loop", actual, "join with a collection from outside")
    for field in map(node.schema.field, sorted(read)):
        if field.type.kind == "text":
            actual = f"{field.name} ({field.type})"
            raise DeltamarkError("a column that a loop cannot keep", actual, "leave it out, and join it to the result")
