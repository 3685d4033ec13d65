"""Grouping sets: aggregates of several groupings of the same rows (GROUPING SETS, ROLLUP, CUBE).

Each grouping is made of the finest one that has its keys, if there is one: sums are added up, extremes are those of
extremes, and distinct values are made distinct again. So ROLLUP reads the rows once.
"""

from __future__ import annotations

from collections.abc import Sequence

from deltamark.dataflow.plan.terms import number
from deltamark.dataflow.scalars import values
from deltamark.dataflow.scalars.expressions import Expression
from deltamark.dataflow.scalars.values import Value
from deltamark.dataflow.sql import joins
from deltamark.dataflow.sql.groups import AggregateCall, Pieces
from deltamark.dataflow.sql.rows import Rows

Set = Sequence[int]
"""The numbers of some of the keys."""


def grouped_by_sets(
    rows: Rows,
    groups: Sequence[Expression[int]],
    sets: Sequence[Set],
    calls: Sequence[AggregateCall],
    functions: Sequence[Sequence[int]],
) -> Rows:
    """Compute aggregates of each grouping set; the keys that it lacks are NULL.

    functions: the arguments of each call of GROUPING, which has a bit for each: 1 if the set lacks the key.
    """
    keys = [values.in_one_column(rows.cell(each)) for each in groups]
    rows, names = rows.as_columns(keys, "key")
    made: dict[frozenset[str], Pieces] = {}
    parts = []
    for own in sorted(map(frozenset, sets), key=len, reverse=True):
        wanted = dict.fromkeys(names[at] for at in sorted(own))
        finer = min((each for each in made if each.issuperset(wanted)), key=len, default=None)
        pieces = Pieces(rows, tuple(wanted), names, None if finer is None else made[finer])
        results = [pieces.result(each) for each in calls]
        collection = pieces.joined()
        made[frozenset(wanted)] = pieces
        types = {field.name: field.type for field in collection.schema.fields}
        cells = [
            values.cell_of(name, key, types) if at in own else joins.null_like(key)
            for at, (name, key) in enumerate(zip(names, keys, strict=True))
        ]
        bits = (Value(number(_bits(each, own))) for each in functions)
        parts.append(Rows(collection, (*cells, *(result(types) for result in results), *bits)))
    return joins.union(parts) if len(parts) > 1 else parts[0]


def _bits(arguments: Sequence[int], own: frozenset[int]) -> int:
    """Return the value of GROUPING for a set: the bit of the first argument is the highest one."""
    return int("".join(str(int(each not in own)) for each in arguments), 2)
