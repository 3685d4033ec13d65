"""Aggregates of groups: expressions that are summed or counted, with the bounds of their results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from deltamark.dataflow.plan.binder import bind
from deltamark.dataflow.plan.nodes import Node, Sum
from deltamark.dataflow.plan.terms import Term
from deltamark.dataflow.plan.traversal import subtracts
from deltamark.dataflow.types import LARGEST, Type
from deltamark.errors import DeltamarkError


@dataclass(frozen=True)
class AggregateExpr:
    """One aggregate of a group, over an expression."""

    kind: Literal["sum", "count", "average"]
    expr: Any = 1


def sums_of(name: str, aggregate: AggregateExpr, rows: Node) -> list[tuple[Sum, Type]]:
    """Return the columns of an aggregate with their types; an average has two."""
    count_type = Type("int", 0, 0, rows.schema.rows)
    if aggregate.kind == "count":
        return [(Sum(name, "count"), count_type)]
    term = bind(aggregate.expr, rows.schema)
    if term.type.kind != "int" or term.type.nullable:
        raise DeltamarkError("cannot be summed", f"{name} = {term} ({term.type})", "sum numbers, none missing")
    if aggregate.kind == "sum":
        return [(Sum(name, "sum", term), _sum_type(term, rows))]
    return [(Sum(f"{name}.num", "sum", term), _sum_type(term, rows)), (Sum(f"{name}.den", "count"), count_type)]


def _sum_type(term: Term, rows: Node) -> Type:
    """Bound a sum by the bounds of its term and the number of rows, any of which a plan may subtract."""
    low, high = min(term.type.low, 0), max(term.type.high, 0)
    if subtracts(rows):
        low, high = min(low, -high), max(high, -low)
    low, high = low * rows.schema.rows, high * rows.schema.rows
    return Type("int", term.type.scale, max(low, -LARGEST), min(high, LARGEST))
