"""Outer joins: pairs of rows, and the rows without a partner, with NULL in the columns of the other side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from deltamark.dataflow.operators.node import is_unique
from deltamark.dataflow.sql.algebra import operations as algebra
from deltamark.dataflow.sql.algebra.operations import Expression
from deltamark.dataflow.sql.problems import FollowUpError, unsupported
from deltamark.dataflow.sql.rows.existence import matching, rest
from deltamark.dataflow.sql.rows.joins import pairs
from deltamark.dataflow.sql.rows.rows import Rows, may_differ
from deltamark.dataflow.sql.rows.unions import null_like, union
from deltamark.dataflow.sql.written import SEVERAL_ROWS


def outer(left: Rows, right: Rows, conditions: Sequence[Expression], *, keeps_left: bool, keeps_right: bool) -> Rows:
    """Return the pairs, and the rows without a partner of the sides that are kept."""
    joined = pairs(left, right, conditions)
    wide, parts = len(left.cells), [joined]
    if keeps_left:
        single = rest(*matching(left, right, conditions))
        parts.append(single.with_cells([*single.cells, *map(null_like, joined.cells[wide:])]))
    if keeps_right:
        single = rest(*matching(right, left, [_swapped(each, wide, len(right.cells)) for each in conditions]))
        parts.append(single.with_cells([*map(null_like, joined.cells[:wide]), *single.cells]))
    return union(parts)


def refuse_several_partners(rel: algebra.Join, right: Rows) -> None:
    """Raise an error for a scalar subquery of which a left row may have several rows."""
    if rel.kind == "SINGLE" and not _has_one_partner(rel, right):
        if may_differ(right):
            raise FollowUpError
        raise unsupported(SEVERAL_ROWS, rel.place, "aggregate it, by min(...) for one")


def _has_one_partner(rel: algebra.Join, right: Rows) -> bool:
    """Return whether the conditions of a join leave at most one right row."""
    wide = algebra.width(rel.left)
    equal = [arg for each in rel.conditions if each.op in ("=", "not distinct") for arg in each.args]
    places = (cast("int", each.value) - wide for each in equal if each.op == "column")
    keys = frozenset(each for each in places if each >= 0)
    if algebra.is_unique(rel.right, keys):
        return True
    rows, names = right.as_columns([right.cells[each] for each in keys], "key")
    return is_unique(rows.collection.node, names)


def _swapped(of: Expression, left: int, right: int) -> Expression:
    """Number the columns of a pair as if its sides were swapped. left, right: the numbers of their columns."""
    numbers = {at: at + right if at < left else at - left for at in range(left + right)}
    return of.with_columns(lambda key: algebra.column(numbers[cast("int", key)]))
