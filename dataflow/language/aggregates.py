"""Aggregates of groups: the columns in which sums, counts and ratios are kept, with the bounds of their values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from deltamark.dataflow.language.binder import bind, ratio_columns
from deltamark.dataflow.language.expr import RatioExpr, SumExpr
from deltamark.dataflow.operators.aggregate import Sum
from deltamark.dataflow.operators.linear import subtracts
from deltamark.dataflow.operators.node import Node
from deltamark.dataflow.plan.terms import Term
from deltamark.dataflow.types import LARGEST, Type
from deltamark.errors import DeltamarkError


def sums_of(aggregates: Mapping[str, SumExpr | RatioExpr], rows: Node) -> Iterator[tuple[Sum, Type]]:
    """Yield the columns of aggregates with their types; a ratio has two."""
    for name, aggregate in aggregates.items():
        match aggregate:
            case SumExpr():
                yield _sum(name, aggregate, rows)
            case RatioExpr():
                numerator, denominator = ratio_columns(name)
                yield _sum(numerator, aggregate.numerator, rows)
                yield _sum(denominator, aggregate.denominator, rows)
            case _:
                remedy = "write col.x.sum(), col.x.mean() or count()"
                raise DeltamarkError("not an aggregate", f"{name} = {aggregate!r}", remedy)


def _sum(name: str, aggregate: SumExpr, rows: Node) -> tuple[Sum, Type]:
    if aggregate.expr is None:  # a group without rows does not exist
        return Sum(name, "count"), Type("int", 0, min(1, rows.schema.rows), rows.schema.rows)
    term = bind(aggregate.expr, rows.schema)
    if term.type.kind != "int" or term.type.nullable:
        raise DeltamarkError("cannot be summed", f"{name} = {term} ({term.type})", "sum numbers, none missing")
    return Sum(name, "sum", term), _sum_type(term, rows)


def _sum_type(term: Term, rows: Node) -> Type:
    """Bound a sum by the bounds of its term and the number of rows, any of which a plan may subtract."""
    low, high = min(term.type.low, 0), max(term.type.high, 0)
    if subtracts(rows):
        low, high = min(low, -high), max(high, -low)
    low, high = low * rows.schema.rows, high * rows.schema.rows
    return Type("int", term.type.scale, max(low, -LARGEST), min(high, LARGEST))
