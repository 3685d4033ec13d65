"""Aggregates of a left join by its key, without the join.

`SELECT c.id, count(o.id) FROM c LEFT JOIN o ON o.customer = c.id GROUP BY c.id` needs no pairs, if each id has one row
of `c`: the rows of both are added up, those of `c` without values to count, and the groups with a row of `c` are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from deltamark.dataflow.operators.node import is_unique
from deltamark.dataflow.plan import terms
from deltamark.dataflow.plan.terms import number
from deltamark.dataflow.scalars.expressions import Column, Comparator, Comparison, Constant, SqlType
from deltamark.dataflow.scalars.values import Value
from deltamark.dataflow.sql.algebra import operations as algebra
from deltamark.dataflow.sql.algebra.operations import Aggregate, AggregateCall, Join, Relational
from deltamark.dataflow.sql.algebra.rewrites import projected
from deltamark.dataflow.sql.rows.groups import SUMS, aggregated
from deltamark.dataflow.sql.rows.joins import Equality, split
from deltamark.dataflow.sql.rows.rows import Rows, without_null
from deltamark.dataflow.sql.rows.unions import null_like, union

NUMBER = SqlType("BIGINT")


def aggregated_without_join(rel: Aggregate, rows_of: Callable[[Relational], Rows]) -> Rows | None:
    """Compute sums of the right side of a left join by its key; None if the aggregate is another one."""
    join, columns = projected(rel.rows)
    if not isinstance(join, Join) or join.kind != "LEFT":
        return None
    wide = algebra.width(join.left)
    calls = [call for each in rel.calls if (call := _of_right(each, columns, wide)) is not None]
    groups = [columns.get(at) for at in algebra.copies(rel.groups).values()]
    if len(calls) < len(rel.calls) or len(groups) < len(rel.groups) or None in groups:
        return None
    left, right = rows_of(join.left), rows_of(join.right)
    parts = split(left, right, join.conditions)
    keys = [left.cells[at] for at in groups if at is not None and at < wide]
    equal = [each for key in keys for each in parts.equal if each.left == key]
    if parts.left or parts.other or not (len(rel.groups) == len(equal) == len(parts.equal)) or not _is_key(left, equal):
        return None
    right = right.where(*map(right.truth, parts.right))
    right = without_null(right, [each.right for each in equal if not each.knows_null])
    return _summed(left, right, equal, calls)


def _summed(left: Rows, right: Rows, equal: list[Equality], calls: list[AggregateCall]) -> Rows:
    """Add up rows of both sides by key, and keep the keys that have a left row."""
    count = len(equal)
    arguments = [right.cell(each.args[0]) for each in calls]
    one, none = (Value(number(each)) for each in (1, 0))
    rows = union([
        left.with_cells([*(each.left for each in equal), one, *map(null_like, arguments)]),
        right.with_cells([*(each.right for each in equal), none, *arguments]),
    ])  # fmt: skip
    marks = AggregateCall("sum", (Column(count),), NUMBER)
    sums = [replace(each, args=(Column(count + 1 + at),)) for at, each in enumerate(calls)]
    found = aggregated(rows, algebra.columns(count), [marks, *sums])
    found = found.where(found.truth(Comparison(Comparator.GREATER, Column(count), Constant(NUMBER, 0))))
    return found.with_cells([*found.cells[:count], *found.cells[count + 1 :]])


def _of_right(call: AggregateCall, columns: Mapping[int, int], wide: int) -> AggregateCall | None:
    """Number the columns of a sum from those of the right side; None if it reads others, or is no sum."""
    read = [columns.get(key, -1) for each in call.args for key in each.columns()]
    if call.function not in SUMS or call.distinct or call.condition is not None or not read or min(read) < wide:
        return None
    args = tuple(each.with_columns(lambda key: Column(columns[key] - wide)) for each in call.args)
    return replace(call, args=args)


def _is_key(rows: Rows, equal: list[Equality]) -> bool:
    """Return whether the left values of equalities determine a row."""
    keys = [each.left.term for each in equal]
    names = [each.name for each in keys if isinstance(each, terms.Column)]
    return is_unique(rows.collection.node, names)
