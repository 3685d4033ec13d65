"""Aggregates of a left join by its key, without the join.

`SELECT c.id, count(o.id) FROM c LEFT JOIN o ON o.customer = c.id GROUP BY c.id` needs no pairs, if each id has one row
of `c`: the rows of both are added up, those of `c` without values to count, and the groups with a row of `c` are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import cast

from deltamark.dataflow.operators.node import is_unique
from deltamark.dataflow.plan.terms import Column, number
from deltamark.dataflow.sql.algebra import operations as algebra
from deltamark.dataflow.sql.algebra.operations import Aggregate, AggregateCall, Expression, Join, Relational, SqlType
from deltamark.dataflow.sql.algebra.rewrites import projected
from deltamark.dataflow.sql.rows.groups import SUMS, aggregated
from deltamark.dataflow.sql.rows.joins import Equality, split
from deltamark.dataflow.sql.rows.rows import Rows, without_null
from deltamark.dataflow.sql.rows.unions import null_like, union
from deltamark.dataflow.sql.scalars.values import Value

NUMBER = SqlType("BIGINT")


def aggregated_without_join(rel: Aggregate, rows_of: Callable[[Relational], Rows]) -> Rows | None:
    """Compute sums of the right side of a left join by its key; None if the aggregate is another one."""
    join, columns = projected(rel.rows)
    if not isinstance(join, Join) or join.kind != "LEFT":
        return None
    wide = algebra.width(join.left)
    calls = [_of_right(each, columns, wide) for each in rel.calls]
    if None in calls or any(each.op != "column" or each.value not in columns for each in rel.groups):
        return None
    left, right = rows_of(join.left), rows_of(join.right)
    parts = split(left, right, join.conditions)
    keys = [left.cells[at] for each in rel.groups if (at := columns[cast("int", each.value)]) < wide]
    equal = [each for key in keys for each in parts.equal if each.left == key]
    if parts.left or parts.other or not (len(rel.groups) == len(equal) == len(parts.equal)) or not _is_key(left, equal):
        return None
    right = right.where(*map(right.truth, parts.right))
    right = without_null(right, [each.right for each in equal if not each.knows_null])
    return _summed(left, right, equal, cast("list[AggregateCall]", calls))


def _summed(left: Rows, right: Rows, equal: list[Equality], calls: list[AggregateCall]) -> Rows:
    """Add up rows of both sides by key, and keep the keys that have a left row."""
    count = len(equal)
    arguments = [right.cell(each.args[0]) for each in calls]
    one, none = (Value(number(each)) for each in (1, 0))
    rows = union([
        left.with_cells([*(each.left for each in equal), one, *map(null_like, arguments)]),
        right.with_cells([*(each.right for each in equal), none, *arguments]),
    ])  # fmt: skip
    marks = AggregateCall("sum", (algebra.column(count),), NUMBER)
    sums = [replace(each, args=(algebra.column(count + 1 + at),)) for at, each in enumerate(calls)]
    found = aggregated(rows, algebra.columns(count), [marks, *sums])
    zero = Expression("constant", NUMBER, value=0)
    found = found.where(found.truth(Expression(">", SqlType("BOOLEAN"), (algebra.column(count), zero))))
    return found.with_cells([*found.cells[:count], *found.cells[count + 1 :]])


def _of_right(call: AggregateCall, columns: Mapping[int, int], wide: int) -> AggregateCall | None:
    """Number the columns of a sum from those of the right side; None if it reads others, or is no sum."""
    read = [columns.get(cast("int", key), -1) for each in call.args for key in each.columns()]
    if call.function not in SUMS or call.distinct or call.condition is not None or not read or min(read) < wide:
        return None
    args = tuple(each.with_columns(lambda key: algebra.column(columns[cast("int", key)] - wide)) for each in call.args)
    return replace(call, args=args)


def _is_key(rows: Rows, equal: list[Equality]) -> bool:
    """Return whether the left values of equalities determine a row."""
    terms = [each.left.term for each in equal]
    names = [each.name for each in terms if isinstance(each, Column)]
    return is_unique(rows.collection.node, names)
