"""Variances, covariances and correlations of groups, for `Collection.aggregate`: their sums, then their values."""

from __future__ import annotations

from collections.abc import Mapping

from deltamark.dataflow.language.expr import MomentExpr, RatioExpr, SumExpr, bind
from deltamark.dataflow.plan.terms import Ratio, Term, column
from deltamark.dataflow.scalars.moments import MomentSums
from deltamark.dataflow.scalars.values import nullable_term
from deltamark.dataflow.types import Schema
from deltamark.errors import DeltamarkError

AggregateExpr = SumExpr | RatioExpr | MomentExpr


def moments_of(aggregates: Mapping[str, AggregateExpr], schema: Schema) -> dict[str, MomentSums]:
    """Return the moments among aggregates. schema: that of the rows."""
    return {name: _moment(name, each, schema) for name, each in aggregates.items() if isinstance(each, MomentExpr)}


def _moment(name: str, each: MomentExpr, schema: Schema) -> MomentSums:
    terms = tuple(bind(of, schema) for of in each.of)
    for term in terms:
        if term.type.kind not in ("int", "double") or term.type.nullable:
            remedy = "take numbers, none missing"
            raise DeltamarkError(f"no {each.function} of this type", f"{name} = {term} ({term.type})", remedy)
    return MomentSums(each.function, terms, schema.rows)


def sums_of_moments(moments: Mapping[str, MomentSums]) -> dict[str, SumExpr]:
    """Return the sums that moments need, by the names of their columns."""
    sums = {f"{name}.count": SumExpr() for name in moments}
    return sums | {f"{name}.{at}": SumExpr(term) for name, each in moments.items() for at, term in _numbered(each)}


def _numbered(moment: MomentSums) -> list[tuple[int, Term]]:
    return list(enumerate(moment.summands))


def moment_term(name: str, moment: MomentSums, schema: Schema) -> Term:
    """Return a moment as a term over its sums. schema: that of the sums."""
    sums = {term: column(f"{name}.{at}", schema[f"{name}.{at}"]) for at, term in _numbered(moment)}
    value = moment.value(column(f"{name}.count", schema[f"{name}.count"]), sums)
    assert not isinstance(value.term, Ratio)
    return nullable_term(value.term, value.null)
