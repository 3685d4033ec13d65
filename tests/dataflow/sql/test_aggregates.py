"""Aggregates in an order, of bits, and moments: DuckDB's answers at every time, and what is open in SQL."""

from __future__ import annotations

import datetime as dt

import pytest
from fuzz.queries.given import check
from fuzz.queries.tables import ROWS, Table
from support.engines.driving import at_once

from deltamark.dataflow.language.collection import source
from deltamark.dataflow.sql import planner
from deltamark.dataflow.sql.query import sql
from deltamark.dataflow.types import (
    BOOL,
    DOUBLE,
    LARGEST,
    NULL,
    TEXT,
    Field,
    Schema,
    code_type,
    date_type,
    integer,
    stored_double,
    timestamp_type,
)
from deltamark.errors import DeltamarkError

NUMBER = integer(-3, 20)
FIELDS = {
    "g": integer(0, 2).or_null(), "a": NUMBER.or_null(), "b": NUMBER, "p": integer(-200, 300, scale=2).or_null(),
    "d": date_type(8000, 9600), "w": code_type(("ant", "bee", "cat")), "s": TEXT.or_null(), "f": BOOL.or_null(),
    "v": DOUBLE.or_null(), "m": timestamp_type(*map(dt.datetime.fromisoformat, ("1991-11-30", "1996-03-01"))).or_null(),
}  # fmt: skip
TABLES = [Table("t", Schema(tuple(Field(name, type_) for name, type_ in FIELDS.items()), ROWS), ())]

AGGREGATES = (
    "median(a)",
    "median(p)",
    "median(s), median(f), median(w)",
    "median(v), quantile_cont(v, 0.3), quantile_disc(v, 0.7), arg_max(s, v * 100 + b) FILTER (WHERE s = 'a')",
    "median(m), median(d), quantile_cont(d, 0.3), quantile_disc(m, 0.5), first(m ORDER BY v, m)",
    "median(a / 2), quantile_disc(a / 3, 0.4), min_by(a / 7, a)",
    "median(DISTINCT a), median(a) FILTER (WHERE f)",
    "quantile_cont(a, 0.3), quantile_cont(a, 0.25), quantile_cont(b, 0), quantile_cont(b, 1)",
    "quantile_cont(p, 0.75), quantile_cont(p, -0.75)",
    "quantile_disc(a, 0.3), quantile_disc(p, 0.5), quantile_disc(s, 0.9), quantile_disc(d, 0), quantile_disc(w, 1)",
    "quantile_disc(DISTINCT s, 0.4) FILTER (WHERE b > 0), quantile_disc(f, 0.5), quantile(b, 0.2)",
    "percentile_cont(0.5) WITHIN GROUP (ORDER BY a DESC), percentile_disc(0.2) WITHIN GROUP (ORDER BY s DESC)",
    "first(a ORDER BY b, a), last(a ORDER BY b, a), any_value(a ORDER BY b, a), any_value(s ORDER BY b DESC, s)",
    "first(s ORDER BY p DESC NULLS LAST, s), last(d ORDER BY s NULLS FIRST, d), last(p ORDER BY s DESC, p)",
    "first(DISTINCT s ORDER BY s), last(w ORDER BY f, w) FILTER (WHERE a > 0)",
    "arg_min(b, a * 100 + b), arg_max(b, a * 100 + b), min_by(a, a * 30 + b), max_by(w, w)",
    "arg_min(s, s), arg_max(s, s), arg_min(p, p) FILTER (WHERE f), arg_max(DISTINCT d, d)",
    "arg_min_null(a, a), arg_max_null(s, s), arg_max(f, f), count(*), sum(a), min(p), count(DISTINCT s)",
    "bit_and(a), bit_or(a), bit_xor(a), bit_or(b) FILTER (WHERE f), bit_xor(DISTINCT b)",
    "stddev_samp(a), stddev_pop(a), stddev(p), var_samp(p), var_pop(b), variance(b)",
    "covar_samp(a, b), covar_pop(a, p), corr(a, b), corr(b, p)",
    "stddev(DISTINCT a), var_pop(a) FILTER (WHERE f), corr(DISTINCT a, p) FILTER (WHERE b > 0)",
    "covar_samp(DISTINCT b, a), stddev_samp(b) FILTER (WHERE a > 2), count(DISTINCT b)",
    "var_samp(a * 100000000), covar_pop(a * 100000000 + 1, b * 10000000), stddev_pop(p * 1000000), corr(p, p)",
    "stddev_samp(v) FILTER (WHERE v BETWEEN -9 AND 9), var_pop(v) FILTER (WHERE abs(v) < 9), sum(a), min(b)",
    "covar_samp(v, a) FILTER (WHERE v BETWEEN -9 AND 9), covar_pop(b, v) FILTER (WHERE v BETWEEN -9 AND 9), avg(a)",
    "round(corr(v, b) FILTER (WHERE v BETWEEN -9 AND 9), 9), stddev(DISTINCT v) FILTER (WHERE v BETWEEN -9 AND 9)",
    "var_samp(a / 3), stddev_pop(b / nullif(a, 0)), covar_samp(sqrt(b + 4), p), round(corr(a / 7, b * 0.5e0), 9)",
    "string_agg(s, ', ' ORDER BY a DESC NULLS LAST, s), string_agg(w, '' ORDER BY v, w), string_agg(b ORDER BY b)",
    "string_agg(DISTINCT s, 'é' ORDER BY s DESC), string_agg(s, '-' ORDER BY m, s) FILTER (WHERE b > 3), median(a)",
    "string_agg(left(s, 2) || a ORDER BY left(s, 2) || a), string_agg(NULL), string_agg(d, ' ' ORDER BY d), sum(a)",
    "bool_and(f), bool_or(a > 2), count_if(f), approx_count_distinct(a)",
    "bool_and(DISTINCT f) FILTER (WHERE b > 1), bool_or(f) FILTER (WHERE b > 1), approx_count_distinct(s)",
)


@pytest.mark.draws(20)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("group", ["", " GROUP BY g", " GROUP BY g, s"])
@pytest.mark.parametrize("aggregates", AGGREGATES)
def test_the_answer_is_duckdbs_at_every_time(aggregates, group, seed):
    check(f"SELECT {group.removeprefix(' GROUP BY ') + ', ' * bool(group)}{aggregates} FROM t{group}", TABLES, seed)


@pytest.mark.draws(20)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "text",
    [
        "SELECT g, median(a) AS m FROM t GROUP BY g HAVING median(a) > 1",
        "SELECT median(m), arg_max(g, m) FROM (SELECT g, median(p) AS m FROM t GROUP BY g)",
        "SELECT t.g, b FROM t JOIN (SELECT g, first(a ORDER BY a) AS a FROM t GROUP BY g) u ON u.g = t.g AND t.a = u.a",
        "SELECT g, mode(a) FROM (SELECT DISTINCT g, a FROM t WHERE g = a) GROUP BY g",
        "SELECT mode(w), mode(s) FROM (SELECT w, s FROM t WHERE w = 'ant' AND s = 'a')",
        "SELECT a, count(*) FROM (SELECT g, string_agg(s, ' ' ORDER BY s) a FROM t GROUP BY g) GROUP BY a",
        "SELECT string_agg(x, '|' ORDER BY x) FROM (SELECT string_agg(upper(s) ORDER BY s) x FROM t GROUP BY g)",
        "SELECT g, s, string_agg(w, ',' ORDER BY w) FROM t GROUP BY ROLLUP (g, s)",
        "SELECT g, w, stddev(v), count(*) FROM t WHERE v BETWEEN -9 AND 9 GROUP BY ROLLUP (g, w)",
        "SELECT t.g, var_pop(t.v * u.b), count(*) FROM t JOIN t u USING (a) WHERE t.v BETWEEN -9 AND 9 GROUP BY t.g",
        "SELECT t.g, stddev(u.v) FROM t LEFT JOIN t u ON t.a = u.b AND u.v BETWEEN -9 AND 9 GROUP BY t.g",
        "SELECT u.g, covar_pop(t.v, t.b) FROM t, t u WHERE t.v BETWEEN -9 AND 9 GROUP BY u.g",
        "SELECT g, v / stddev(v) OVER (PARTITION BY g) FROM t WHERE v BETWEEN 0.1 AND 9",
        "SELECT g FROM t WHERE v BETWEEN -9 AND 9 GROUP BY g HAVING stddev(v) > 1",
        "SELECT g, CASE WHEN quantile_disc(a, 0.5) > median(b) THEN 1 ELSE 0 END FROM t GROUP BY g",
    ],
)
def test_aggregates_in_other_constructs(text, seed):
    check(text, TABLES, seed)


@pytest.mark.parametrize(
    "aggregates",
    [
        "first(a ORDER BY b DESC, a), last(s ORDER BY a NULLS FIRST, s), any_value(s ORDER BY b, s)",
        "median(a), stddev_samp(a), arg_max(b, b), mode(g), bit_xor(a)",
    ],
)
def test_a_plan_that_duckdb_has_not_optimized_has_the_same_answer(monkeypatch, aggregates):
    """DuckDB cannot serialize some optimized plans. In others it replaces these aggregates."""
    monkeypatch.setattr(planner, "OPTIMIZED", "false")
    check(f"SELECT g, {aggregates} FROM t GROUP BY g", TABLES, seed=3)


sales = source("sales", {"shop": integer(0, 2), "day": integer(0, 9), "item": TEXT, "price": integer(0, 9)}, 1000)
"""Sales, of which several have the same price."""

TIES = [((0, 1, "pen", 5), 0, 1), ((0, 1, "cup", 5), 0, 2), ((0, 2, "ink", 7), 0, 1), ((1, 1, "ink", 7), 1, 1)]


@pytest.mark.parametrize(
    ("aggregate", "value"),
    [
        ("arg_min(item, price)", "cup"),
        ("arg_max(item, day)", "ink"),
        ("first(item)", "cup"),
        ("last(day)", 1),
        ("any_value(price)", 5),
        ("mode(item)", "cup"),
        ("string_agg(item)", "cup,cup,ink,pen"),
        ("mode(day)", 1),
    ],
)
def test_values_that_sql_leaves_open_are_the_smallest(aggregate, value):
    plan = sql(f"SELECT shop, {aggregate} AS x FROM sales WHERE shop = 0 GROUP BY shop", {"sales": sales})
    assert at_once(plan, {"sales": TIES}) == {(0, (0, value)): 1}


wide = source("wide", {"x": integer(-LARGEST, LARGEST).or_null()}, 1000)


def test_the_product_of_wide_numbers_is_checked_for_each_row():
    plan = sql("SELECT var_pop(x) AS v FROM wide", {"wide": wide})
    rows = [((NULL,), 0, 1), ((3 * 10**9,), 0, 1), ((-(10**9),), 0, 1)]
    assert at_once(plan, {"wide": rows}) == {(0, (stored_double(4.0 * 10**18),)): 1}
    with pytest.raises(DeltamarkError, match="a number needs more than 64 bits"):
        at_once(plan, {"wide": [((10**10,), 0, 1)]})


@pytest.mark.parametrize(
    ("aggregate", "error"),
    [
        ("quantile_cont(price, [0.2, 0.5])", "quantile_cont with shares that are no constant, several, or long"),
        ("arg_min(item, price, 2)", "arg_min with 3 arguments"),
        ("list(item)", "the aggregate list"),
        ("stddev(item)", "stddev"),
    ],
)
def test_errors(aggregate, error):
    with pytest.raises(DeltamarkError, match=error.replace("(", r"\(")):
        sql(f"SELECT {aggregate} AS x FROM sales", {"sales": sales})
