"""A comparison is exact although the product of a value with a constant may need more than 64 bits."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import product

import pytest

from deltamark import Batch, Dataflow, col, source
from deltamark.dataflow.sql.query import sql
from deltamark.dataflow.types import LARGEST, integer
from deltamark.errors import DeltamarkError

FACTOR = 10**6
CONDITIONS = {
    "<": (lambda a, b: a < b, lambda: col.a * FACTOR < col.b),
    "<=": (lambda a, b: a <= b, lambda: col.a * FACTOR <= col.b),
    ">": (lambda a, b: a > b, lambda: FACTOR * col.a > col.b),
    ">=": (lambda a, b: a >= b, lambda: FACTOR * col.a >= col.b),
    "swapped": (lambda a, b: a < b, lambda: col.b > col.a * FACTOR),
    "other factor first": (lambda a, b: a < b, lambda: col.b * 1 > col.a * FACTOR),
}
"""Of two exact numbers, and of two columns."""

NEAR = (-2, -1, 0, 1, 2)


def rows_of(scale_a, scale_b):
    """Return stored values whose products are near each other, and at the ends of their ranges."""
    unit = Fraction(FACTOR * 10**scale_b, 10**scale_a)
    values = [n for whole in (-(2**40), -3, 0, 5, 2**40) for n in (whole - 1, whole, whole + 1)]
    pairs = [(a, int(a * unit) + near) for a, near in product(values, NEAR)]
    pairs += product((-LARGEST, LARGEST), (-LARGEST, 0, LARGEST))
    return [(a, b) for a, b in pairs if abs(b) <= LARGEST]


def kept(plan, rows):
    with Dataflow(plan) as dataflow:
        size = len(rows)
        columns = {"a": [a for a, _ in rows], "b": [b for _, b in rows]}
        changes = dataflow.feed({"r": Batch([0] * size, [1] * size, columns)})
    return sorted(zip(changes.columns["a"].tolist(), changes.columns["b"].tolist(), strict=True))


def relation(scale_a, scale_b):
    columns = {"a": integer(-LARGEST, LARGEST, scale=scale_a), "b": integer(-LARGEST, LARGEST, scale=scale_b)}
    return source("r", columns, rows=1000)


def expected(rows, holds, scale_a, scale_b):
    exact = [(row, Fraction(row[0] * FACTOR, 10**scale_a), Fraction(row[1], 10**scale_b)) for row in rows]
    return sorted(row for row, a, b in exact if holds(a, b))


@pytest.mark.parametrize(("scale_a", "scale_b"), [(0, 0), (2, 0), (0, 2), (4, 1)])
@pytest.mark.parametrize("name", CONDITIONS)
def test_a_wide_product_is_compared_exactly(name, scale_a, scale_b):
    holds, condition = CONDITIONS[name]
    rows = rows_of(scale_a, scale_b)
    plan = relation(scale_a, scale_b).where(condition())
    assert kept(plan, rows) == expected(rows, holds, scale_a, scale_b)


@pytest.mark.parametrize("op", ["<", "<=", ">", ">="])
@pytest.mark.parametrize("text", ["SELECT a, b FROM r WHERE a * {} {} b", "SELECT a, b FROM r WHERE {} * a {} b"])
def test_a_wide_product_in_sql_is_compared_exactly(text, op):
    rows = rows_of(0, 0)
    plan = sql(text.format(FACTOR, op), {"r": relation(0, 0)})
    assert kept(plan, rows) == expected(rows, CONDITIONS[op][0], 0, 0)


@pytest.mark.parametrize("condition", ["b > a * {}", "b > {} * a", "a * {} < b * 1"])
def test_a_wide_product_in_sql_may_stand_on_either_side(condition):
    rows = rows_of(0, 0)
    plan = sql(f"SELECT a, b FROM r WHERE {condition.format(FACTOR)}", {"r": relation(0, 0)})
    assert kept(plan, rows) == expected(rows, lambda a, b: a < b, 0, 0)


@pytest.mark.parametrize("factor", [-3, Decimal("-0.5")])
def test_another_wide_product_is_checked_for_each_row(factor):
    plan = relation(0, 0).where(col.a * factor * FACTOR < col.b)
    assert kept(plan, [(1, 0), (-5, 0)]) == [(1, 0)]
    with pytest.raises(DeltamarkError, match=r"a number needs more than 64 bits: -?\d+ \* -"):
        kept(plan, [(LARGEST, 0)])
