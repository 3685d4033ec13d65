"""Outer joins: pairs of rows, and the rows without a partner, with NULL in the columns of the other side."""

from __future__ import annotations

from collections.abc import Sequence

from deltamark.dataflow.operators.node import is_unique
from deltamark.dataflow.scalars.expressions import Column, Comparison, Expression
from deltamark.dataflow.scalars.problems import FollowUpError
from deltamark.dataflow.sql.algebra import operations as algebra
from deltamark.dataflow.sql.problems import unsupported
from deltamark.dataflow.sql.rows.existence import matching, rest
from deltamark.dataflow.sql.rows.joins import pairs
from deltamark.dataflow.sql.rows.rows import Rows, may_differ
from deltamark.dataflow.sql.rows.unions import null_like, union
from deltamark.dataflow.sql.written import SEVERAL_ROWS


def outer(
    left: Rows, right: Rows, conditions: Sequence[Expression[int]], *, keeps_left: bool, keeps_right: bool
) -> Rows:
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
    equal = (each for each in rel.conditions if isinstance(each, Comparison) and each.comparator in algebra.EQUALITIES)
    columns = (side for each in equal for side in (each.left, each.right) if isinstance(side, Column))
    keys = frozenset(each.key - wide for each in columns if each.key >= wide)
    if algebra.is_unique(rel.right, keys):
        return True
    rows, names = right.as_columns([right.cells[each] for each in keys], "key")
    return is_unique(rows.collection.node, names)


def _swapped(of: Expression[int], left: int, right: int) -> Expression[int]:
    """Number the columns of a pair as if its sides were swapped. left, right: the numbers of their columns."""
    return of.with_columns(lambda key: Column(key + right if key < left else key - left))
