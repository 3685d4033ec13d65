"""An expression by hand has the type and the values that the same one has in SQL, with NULL."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from deltamark import BOOL, TEXT, Batch, Dataflow, code_type, col, date_type, integer, source, sql, when

WORDS = ("Ant", "bee", "cat")
DAYS = date_type(dt.date(1999, 12, 1), dt.date(2001, 3, 31))
RELATION = source(
    "t",
    {
        "id": integer(0, 99), "a": integer(-9, 9).or_null(), "b": integer(-999, 999, scale=2).or_null(),
        "c": integer(1, 9), "day": DAYS.or_null(), "word": code_type(WORDS).or_null(), "flag": BOOL.or_null(),
        "text": TEXT,
    },
    99,
)  # fmt: skip
FEBRUARY = dt.date(2000, 2, 29)
ROWS = [
    (-9, -999, 1, dt.date(1999, 12, 1), 0, 1, "a long text"), (9, 999, 9, FEBRUARY, 1, 0, "b"),
    (0, 0, 3, dt.date(2000, 12, 31), 2, 1, ""), (-4, -250, 4, dt.date(2001, 3, 31), 0, 0, "text"),
    (None, 350, 2, FEBRUARY, None, None, "b"), (7, None, 7, None, 1, 1, "long"), (None, None, 5, None, None, None, "x"),
    (5, 255, 5, dt.date(2000, 1, 31), 2, None, "a b"),
]  # fmt: skip

VALUES = {
    "a + b": col.a + col.b,
    "c - a * 2": col.c - col.a * 2,
    "-b": -col.b,
    "abs(a)": col.a.abs(),
    "sign(b)": col.b.sign(),
    "a // c": col.a // col.c,
    "a % c": col.a % col.c,
    "7 // c": 7 // col.c,
    "round(b, 1)": col.b.round(1),
    "CAST(round(a / c, 3) AS DECIMAL(9, 3))": (col.a / col.c).round(3),
    "floor(b)": col.b.floor(),
    "ceil(b)": col.b.ceil(),
    "trunc(b)": col.b.trunc(),
    "greatest(a, c, 3)": col.a.greatest(col.c, 3),
    "least(a, c)": col.a.least(col.c),
    "coalesce(a, c)": col.a.coalesce(col.c),
    "coalesce(a, b, 0.5)": col.a.coalesce(col.b, Decimal("0.5")),
    "CASE WHEN a > 0 THEN a WHEN b > 0 THEN b END": (when(col.a > 0, col.a).when(col.b > 0, col.b).otherwise(None)),
    "CASE WHEN flag THEN day ELSE DATE '2000-02-29' END": when(col.flag, col.day).otherwise(FEBRUARY),
    "a / c": col.a / col.c,
    "a / c + 1": col.a / col.c + 1,
    "CAST(b AS INTEGER)": col.b.cast("integer"),
    "CAST(a / c AS DECIMAL(9, 2))": (col.a / col.c).cast("DECIMAL(9, 2)"),
    "CAST(flag AS INTEGER)": col.flag.cast("INTEGER"),
    "year(day)": col.day.year(),
    "month(day)": col.day.month(),
    "date_part('dow', day)": col.day.date_part("dow"),
    "CAST(date_trunc('month', day) AS DATE)": col.day.date_trunc("month"),
    "date_diff('month', day, DATE '2000-02-29')": col.day.date_diff("month", FEBRUARY),
    "date_diff('day', day, DATE '2000-02-29')": col.day.date_diff("day", FEBRUARY),
    "last_day(day)": col.day.last_day(),
    "day + CAST(a AS INTEGER)": col.day + col.a,
    "day - DATE '2000-02-29'": col.day - FEBRUARY,
    "CAST(day + INTERVAL 1 YEAR AS DATE)": col.day.shifted(years=1),
    "CAST(day - INTERVAL 1 MONTH AS DATE)": col.day.shifted(months=-1),
    "upper(word)": col.word.upper(),
    "lower(word)": col.word.lower(),
    "substring(word, 2, 1)": col.word.substring(2, 1),
    "substring(text, 1, 2)": col.text.substring(1, 2),
    "substring(text, -4, 9)": col.text.substring(-4, 9),
    "upper(text) || word": col.text.upper().concat(col.word),
    "text || ' ' || a": col.text.concat(" ", col.a.cast("VARCHAR")),
    "CAST(day AS VARCHAR)": col.day.cast("VARCHAR"),
    "CAST(b AS VARCHAR)": col.b.cast("VARCHAR"),
    "left(text, -1)": col.text.left(-1),
    "right(text, 3)": col.text.right(3),
    "trim(text, 'ab')": col.text.trim("ab"),
    "replace(text, 't', word)": col.text.replace("t", col.word),
    "lpad(text, 5, '-')": col.text.lpad(5, "-"),
    "rpad(word, 5, '-')": col.word.rpad(5, "-"),
    "length(text)": col.text.length(),
    "nullif(split_part(text, ' ', 2), '')": col.text.split_part(" ", 2),
    "lower(coalesce(word, text))": col.word.coalesce(col.text).lower(),
}
CONDITIONS = {
    "a > 0": col.a > 0,
    "NOT (a > 0 AND b > 0)": ~((col.a > 0) & (col.b > 0)),
    "a > 0 OR flag": (col.a > 0) | col.flag,
    "NOT flag": ~col.flag,
    "a <> c": col.a != col.c,
    "a IN (7, NULL)": col.a.is_in([7, None]),
    "a NOT IN (7, -9)": ~col.a.is_in([7, -9]),
    "a NOT IN (7, NULL)": ~col.a.is_in([7, None]),
    "a IN (0.5, 5)": col.a.is_in([Decimal("0.5"), 5]),
    "word IN ('Ant', 'dog')": col.word.is_in(["Ant", "dog"]),
    "a IS NULL": col.a.is_null(),
    "a + b IS NOT NULL": ~(col.a + col.b).is_null(),
    "a IS DISTINCT FROM b": col.a.is_distinct_from(col.b),
    "a / c > b": col.a / col.c > col.b,
    "c / a > 1": col.c / col.a > 1,
    "day < DATE '2000-02-29'": col.day < FEBRUARY,
    "word > 'Ant'": col.word > "Ant",
    "word LIKE '_e%'": col.word.like("_e%"),
    "NOT word LIKE '%a%'": ~col.word.contains("a"),
    "text LIKE '%t'": col.text.ends_with("t"),
    "text > 'b'": col.text > "b",
    "text LIKE '_ %g_t%'": col.text.like("_ %g_t%"),
    "starts_with(text, 'a_')": col.text.starts_with("a_"),
    "contains(text, ' b')": col.text.contains(" b"),
    "a BETWEEN -4 AND c": col.a.between(-4, col.c),
}


def answer(plan):
    """Return the rows of a plan over the rows of the relation."""
    names = ("a", "b", "c", "day", "word", "flag", "text")
    columns = {name: [row[at] for row in ROWS] for at, name in enumerate(names)}
    days = [None if day is None else (day - dt.date(1970, 1, 1)).days for day in columns["day"]]
    stored = {**columns, "id": list(range(len(ROWS))), "day": days}
    nullable = {name for name in names if RELATION.schema[name].nullable}
    arrays = {
        name: pa.array(values, pa.int64()) if name in nullable else pa.array(values) for name, values in stored.items()
    }
    with Dataflow(plan) as dataflow:
        return dataflow.feed({"t": Batch([0] * len(ROWS), [1] * len(ROWS), arrays)})


def rows_of(plan):
    columns = answer(plan).columns
    return sorted(zip(*(columns[name].tolist() for name in plan.schema.names), strict=True))


@pytest.mark.parametrize("text", VALUES)
def test_a_value_is_that_of_sql(text):
    by_hand, by_text = RELATION.select("id", x=VALUES[text]), sql(f"SELECT id, {text} AS x FROM t", {"t": RELATION})
    assert by_hand.schema.names == by_text.schema.names
    assert [each.type for each in by_hand.schema.fields] == [each.type for each in by_text.schema.fields]
    assert rows_of(by_hand) == rows_of(by_text)


@pytest.mark.parametrize("text", CONDITIONS)
def test_where_keeps_the_rows_that_sql_keeps(text):
    by_hand = RELATION.where(CONDITIONS[text]).select("id")
    by_text = sql(f"SELECT id FROM t WHERE {text}", {"t": RELATION})
    assert rows_of(by_hand) == rows_of(by_text)
