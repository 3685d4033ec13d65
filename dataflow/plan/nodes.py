"""Plan nodes: what a collection is computed from. Pure structure, interned: equal sub-plans are one node.

A node's digest names its content (operation, schema, parameters, inputs), the same in every process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal
from weakref import WeakValueDictionary

from deltamark.dataflow.plan.terms import Term
from deltamark.dataflow.types import Schema

Op = Literal[
    "input", "where", "select", "concat", "negate", "aggregate", "threshold", "join", "extreme", "top", "bound",
    "or_null", "consolidate", "iterate", "variable", "extend",
    "seek", "measure",
]  # fmt: skip


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Node:
    """One operation.

    op           inputs        params
    input        -             name
    where        rows          condition
    select       rows          ((name, term), ...)
    concat       rows, ...     -
    negate       rows          -
    aggregate    rows          (keys, ((name, "sum" | "count", term), ...))
    threshold    rows          least multiplicity: the rows that have it, once each
    join         left, right   (left keys, right keys)
    extreme      rows          (keys, of, "largest" | "smallest", levels): the rows of each group that attain it
    top          rows          (k, ((name, "ascending" | "descending"), ...)): the first k, counting multiplicity
    bound        rows, limits  (keys, value, "above" | "below", numerator, denominator): see Collection.above
    or_null      rows          -: a row of NULL while there are no rows
    consolidate  rows          -
    iterate      rows, body    the variable's: see dataflow.language.iteration
    variable     -             how many loops it is inside: the rows of an iteration, in the body of a loop
    extend       rows, ...     (new column, ((keys, keys there, value there, "old" | "new"), ...), proposer | None): the
                               changes of rows, extended by the others as they are then: see dataflow.language.motif
    seek         rows, other   as extend; rows go to where the other has their keys
    measure      rows, other   as seek; the new column is how many values the other has at most, rows without any leave
    """

    op: Op
    inputs: tuple[Node, ...]
    params: Any
    schema: Schema
    digest: bytes

    def __str__(self) -> str:
        return f"{self.op}({self.params})"

    def __reduce__(self) -> tuple[Any, ...]:
        return node, (self.op, self.inputs, self.params, self.schema)


_nodes: WeakValueDictionary[bytes, Node] = WeakValueDictionary()


def node(op: Op, inputs: tuple[Node, ...], params: Any, schema: Schema) -> Node:
    """Return the one node of this content."""
    content = (op, [each.digest for each in inputs], _content(params), _content(schema))
    digest = hashlib.blake2b(repr(content).encode(), digest_size=16).digest()
    found = _nodes.get(digest)
    if found is None:
        found = _nodes[digest] = Node(op, inputs, params, schema, digest)
    return found


def _content(value: Any) -> Any:
    """Spell out parameters such that different ones never look the same."""
    if isinstance(value, Term):
        return ("term", value.op, [_content(arg) for arg in value.args], repr(value.type), _content(value.value))
    if isinstance(value, tuple):
        return [_content(each) for each in value]
    if isinstance(value, Schema):
        return [(field.name, repr(field.type)) for field in value.fields], value.rows
    return type(value).__name__, value


def base_rows(root: Node) -> int:
    """Return how many rows the largest input below has: what memory is sized by, where a join's bound is no guide."""
    return max(each.schema.rows for each in walk(root) if each.op == "input")


def walk(root: Node) -> Iterator[Node]:
    """Yield every node below a root once, inputs first."""
    seen: set[int] = set()

    def visit(at: Node) -> Iterator[Node]:
        if id(at) in seen:
            return
        seen.add(id(at))
        for each in at.inputs:
            yield from visit(each)
        yield at

    yield from visit(root)
