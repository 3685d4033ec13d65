"""Random queries have DuckDB's answers, and a wrong front end is found and shown by a small query."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from dataclasses import replace
from math import inf

import duckdb
import numpy as np
import pytest
from support.random_plans.choices import Seeded

from deltamark.dataflow.sql.query import sql
from deltamark.dataflow.types import DOUBLE, Field, Schema, integer
from deltamark.errors import DeltamarkError
from fuzz.example import WrongError
from fuzz.queries import example, recomputed
from fuzz.queries.answers import differences
from fuzz.queries.doubles import exact_sum, moment
from fuzz.queries.example import Queries, query_example
from fuzz.queries.parts import Part, clause, listed, simpler
from fuzz.queries.recomputed import UnfitError, database
from fuzz.queries.selects import MAY_FAIL
from fuzz.queries.subqueries import OF_EACH, OF_ROWS
from fuzz.queries.tables import ROWS, Table
from fuzz.queries.values import OF_OUTER
from fuzz.tally import TALLY
from fuzz.watch import FuzzSettings, explore

EXAMPLES = 24
CONSTRUCTS = {
    "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN", "JOIN", "comma join", "joined by <", "LATERAL", "VALUES",
    "EXISTS", "NOT EXISTS, correlated", "IN query", "NOT IN query", "NOT IN query, correlated", "IN list",
    "NOT IN list", "NULL in a list", "scalar subquery", "scalar subquery, correlated", "scalar subquery with LIMIT 1",
    "scalar subquery of a group",
    "GROUP BY", "GROUP BY of an expression", "HAVING", "count(*)", "count(x)", "count(DISTINCT x)", "sum", "avg(x)",
    "min", "max", "FILTER", "DISTINCT", "UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL",
    "CTE", "CTE used twice", "ORDER BY LIMIT", "CASE", "coalesce", "nullif", "LIKE", "NOT LIKE", "BETWEEN", "IS NULL",
    "IS DISTINCT FROM", "IS NOT DISTINCT FROM", "AND", "OR", "NOT", "/", "year", "month", "extract", "substring",
    "date +- INTERVAL", "CAST AS BIGINT", "CAST AS DECIMAL", "compared with ALL", "IN query of two columns",
    "two bounds", "two quotients", "count_if of a condition", "//", "%", "ROLLUP", "CUBE", "GROUPING SETS", "GROUPING",
    "range",
    "WITH RECURSIVE", "WITH RECURSIVE of two columns", "rows compared by =", "IN list of rows",
    "median", "quantile_disc in order", "first in order", "any_value in order", "arg_max in order", "bit_and",
    "bit_xor", "stddev_samp", "var_pop", "string_agg in order", "timestamp - timestamp", "sqrt",
    "moment of doubles", "months of a column", OF_ROWS, OF_EACH, "CAST that may fail", "DISTINCT ON", "USING",
    "last in order", "arg_min in order", "percentile_disc in order", "percent_rank() OVER", "cume_dist() OVER",
    "quantile_disc of a partition", "arg_max of a partition", "CAST of a DOUBLE AS BIGINT", "CAST AS FLOAT",
    "% of a DOUBLE", "week", "date_diff of dates", "epoch_ms", "hour of a TIME", "time_bucket", "days of a column",
    "regexp_matches", "~", "SIMILAR TO", "ifnull",
}  # fmt: skip

OF_DOUBLES = {
    "sums and averages over frames": r"(sum|avg) of doubles OVER", "variances": r"(var|stddev).* of doubles",
    "covariances": r"covar_.* of doubles", "correlations": r"corr of doubles",
}  # fmt: skip
SHARE = 0.03
"""The least share of the queries that have each of them."""


@pytest.fixture(autouse=True)
def _own_database():
    """Close the database of a test: child processes of the next one cannot."""
    yield
    database.cache_clear()


def explored(seed, examples):
    said = []
    found = explore(FuzzSettings(seed, examples, 600, ["queries"], 2), said.append)
    return found, "\n".join(said)


def test_random_queries_have_the_answers_of_duckdb():
    found, said = explored(1, EXAMPLES)
    assert not found.failures, said
    assert found.tally["queries: compared"] > EXAMPLES // 3, said


def test_every_construct_is_drawn():
    missing = set(CONSTRUCTS)
    for seed in range(3000):
        missing -= query_example(Seeded(seed)).query.constructs().keys()
        if not missing:
            return
    pytest.fail(f"not drawn: {missing}")


def test_functions_of_doubles_are_drawn_often():
    drawn = [" | ".join(query_example(Seeded(seed)).query.constructs()) for seed in range(400)]
    shares = {name: sum(bool(re.search(each, one)) for one in drawn) / 400 for name, each in OF_DOUBLES.items()}
    assert min(shares.values()) >= SHARE, shares


WRONG = {"LEFT JOIN": ("LEFT JOIN", "JOIN"), "NOT IN": ("NOT IN (SELECT", "IN (SELECT")}


SHORT = range(250, 600)
"""The lengths of texts that are drawn: quick to run, and to be made smaller."""


def short_examples():
    """Return the seeds of examples with a short text, the shortest first."""
    lengths = {seed: len(str(query_example(Seeded(seed)).query)) for seed in range(400)}
    return sorted((seed for seed, length in lengths.items() if length in SHORT), key=lengths.__getitem__)


def is_wrong(seed, construct):
    """Return whether an example with a construct has another answer, and keeps an order when it is made smaller."""
    drawn = query_example(Seeded(seed))
    if construct in str(drawn) and "OFFSET" not in str(drawn):
        try:
            drawn.run()
        except WrongError as error:
            return error.what == "another answer"
    return False


@pytest.mark.draws(1)
@pytest.mark.parametrize("construct", WRONG)
def test_a_wrong_front_end_is_found_and_shown_by_a_small_query(monkeypatch, construct):
    monkeypatch.setattr(example, "sql", lambda text, relations: sql(text.replace(*WRONG[construct]), relations))
    monkeypatch.setattr("fuzz.watch.MAX_SHRUNK", 1)
    seed = next(each for each in short_examples() if is_wrong(each, construct))
    database.cache_clear()  # child processes cannot close the database of their parent
    found, said = explored(seed, 1)
    assert "another answer" in {failure.what for failure in found.failures}
    smallest = min(said.split("attempts:")[1:], key=len)
    text, statements = smallest.split(";\n", 1)
    assert construct in text
    assert len(text) < 200, said
    assert len(re.findall("INSERT|DELETE", statements)) <= 3, said


def test_the_statements_of_an_example_make_its_tables():
    for seed in range(20):
        drawn = query_example(Seeded(seed))
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            for each in drawn.tables:
                connection.execute(each.created())
            for time in drawn.times:
                for each in drawn.tables:
                    for statement in each.statements(time):
                        connection.execute(statement)
                    rows = each.at(time).to_pylist()
                    wanted = Counter(repr(tuple(row.values())) for row in rows)  # NaN does not equal itself
                    found = connection.sql(f"FROM {each.name}").to_arrow_table().to_pylist()
                    assert Counter(repr(tuple(row.values())) for row in found) == wanted


def test_simpler_texts_leave_out_clauses_and_members_and_use_inner_parts():
    one, other = Part("int", ("(", Part("int", ("a",), "column"), " + 2)")), Part("int", ("10",))
    whole = Part("query", ("SELECT ", listed([one, other]), clause(" LIMIT 1")))
    assert {str(each) for each in simpler(whole)} == {
        "SELECT (a + 2), 10", "SELECT 10 LIMIT 1", "SELECT (a + 2) LIMIT 1", "SELECT a, 10 LIMIT 1",
        "SELECT 0, 10 LIMIT 1", "SELECT 1, 10 LIMIT 1", "SELECT (a + 2), 0 LIMIT 1", "SELECT (a + 2), 1 LIMIT 1",
        "SELECT (0 + 2), 10 LIMIT 1", "SELECT (1 + 2), 10 LIMIT 1",
    }  # fmt: skip


def test_a_query_whose_group_is_a_constant_of_a_call_is_unfit():
    drawn = query_example(Seeded(0))
    column = drawn.tables[0].schema.names[0]
    text = f"SELECT 0 AS k, round(count({column})::DECIMAL(9, 2), 0) AS a FROM {drawn.tables[0].name} GROUP BY k"
    TALLY.clear()
    replace(drawn, query=Part("query", (text,))).run()
    assert TALLY == {"unfit: a group is a constant of a call": 1}


def test_a_query_whose_rows_do_not_fit_in_memory_is_unfit(monkeypatch):
    monkeypatch.setattr(recomputed, "LONG_SECONDS", inf)
    monkeypatch.setattr(recomputed, "MOST_MEMORY", "64MB")
    with pytest.raises(UnfitError, match="many rows in a join"):
        recomputed.refuse_large("SELECT list(a.x) FROM range(10000) AS a(x), range(10000) AS b(x)", {})


@pytest.mark.parametrize(
    "refused", {"SELECT substring('a', 1::HUGEINT)": "No function matches", "SELECT x9": "Referenced column"}.items()
)
def test_a_query_that_duckdb_refuses_is_a_fault_with_the_kind_of_the_error(refused):
    text, problem = refused
    with pytest.raises(WrongError, match=f"DuckDB refuses the query: Binder Error: {problem}"):
        replace(query_example(Seeded(0)), query=Part("query", (text,))).run()


def test_a_timestamp_at_midnight_may_be_a_date():
    moment = dt.datetime(1992, 1, 1)  # noqa: DTZ001 (DuckDB's has no zone)
    assert not differences(Counter({(moment.date(),): 1}), Counter({(moment,): 1}))
    assert differences(Counter({(moment.date(),): 1}), Counter({(moment.replace(hour=1),): 1}))


def test_doubles_may_differ_in_their_last_digits():
    assert not differences(Counter({(1, 1 / 3): 2}), Counter({(1, 1 / 3 + 1e-14): 2}))
    assert not differences(Counter({(None, float("nan")): 1}), Counter({(None, float("nan")): 1}))
    assert differences(Counter({(1, 0.5): 2}), Counter({(1, 0.5): 1}))
    assert differences(Counter({(1, 0.5): 1}), Counter({(1, None): 1}))
    assert differences(Counter({(1,): -1}), Counter())


def doubles_of(*values):
    return Table("t", Schema((Field("h", DOUBLE),), ROWS), (), tuple(((value,), 0, 1) for value in values))


def run(text, *tables):
    TALLY.clear()
    feeds = [[time] for time in sorted({time for each in tables for _, time, _ in each.stream})]
    Queries(text, tables, feeds, slice_rows=64, workers=1).run()
    return TALLY


@pytest.mark.parametrize("values", [(1e16, 1.0, -1e16), (1.5e308, 1.5e308, -1.5e308), (0.1, 2.0**-1074, 1e300)])
def test_doubles_that_duckdb_would_round_have_exact_sums(values):
    text = Part("query", ("SELECT exact_sum(list(h) OVER ()), exact_avg(list(h) OVER ()) FROM t",))
    assert run(text, doubles_of(*values))["queries: compared"] == 1


def test_sums_of_the_reference_are_rounded_once():
    assert exact_sum([1e16, 1.0, -1e16], 1) == 1.0
    assert exact_sum([1.5e308, 1.5e308, -1.5e308], 3) == 5e307
    assert exact_sum([1.5e308, 1.5e308], 1) == exact_sum([1.0, float("inf")], 2) == float("inf")


def test_moments_of_the_reference_are_those_of_exact_numbers():
    random = np.random.default_rng(0)
    pairs = [(float(one), float(other)) for one, other in random.normal(size=(50, 2))]
    ones, others = np.array(pairs).T
    assert moment("var_samp", [(one, one) for one, _ in pairs]) == pytest.approx(ones.var(ddof=1))
    assert moment("stddev_pop", [(one, one) for one, _ in pairs]) == pytest.approx(ones.std())
    assert moment("covar_samp", pairs) == pytest.approx(np.cov(ones, others)[0, 1])
    assert moment("corr", pairs) == pytest.approx(np.corrcoef(ones, others)[0, 1])


SEVERAL = Part("query", (
    "SELECT 1 AS x, ", Part("int", ("(", Part("query", ("SELECT a FROM t",)), ")"), OF_ROWS), " AS y",
))  # fmt: skip
CHANGES = ((1,), 0, 1), ((2,), 4, 1)
SEVERAL_ROWS = "errors that are due: more than one row where one is allowed"
GROWING = Table("t", Schema((Field("a", integer(0, 9)),), ROWS), (), CHANGES)


def test_a_subquery_with_several_rows_must_fail_at_their_time():
    assert run(SEVERAL, GROWING)[SEVERAL_ROWS] == 1


def test_several_rows_for_a_row_of_the_query_around_are_due_at_their_time():
    text = Part("query", ("SELECT a AS x, ", Part("int", ("(SELECT a FROM u WHERE u.a = t.a)",), OF_EACH), " FROM t"))
    one = replace(GROWING, stream=(((2,), 0, 1),))
    assert run(text, one, replace(GROWING, name="u", stream=(((2,), 0, 1), ((2,), 4, 1))))[SEVERAL_ROWS] == 1


def test_several_rows_are_due_for_a_row_of_a_subquery_that_no_row_around_needs():
    of_each = Part("int", ("(SELECT z.a FROM t AS z WHERE z.a = x.a)",), OF_EACH)
    tie = Part("truth", ("x.a = u.a",), "correlated by =")
    inner = Part("query", ("SELECT ", of_each, " FROM t AS x WHERE ", tie))
    text = Part("query", ("SELECT a AS x FROM u WHERE 1 NOT IN (", inner, ")"))
    twice = replace(GROWING, stream=(((2,), 0, 1), ((2,), 4, 1)))
    assert run(text, twice, replace(GROWING, name="u", stream=()))[SEVERAL_ROWS] == 1


def test_an_engine_that_misses_several_rows_is_found(monkeypatch):
    text = "SELECT 1 AS x, (SELECT max(a) FROM t) AS y"
    monkeypatch.setattr(example, "sql", lambda _, relations: sql(text, relations))
    with pytest.raises(WrongError, match="no error: at time 4"):
        run(SEVERAL, GROWING)


ROOT_OF = "CAST(sqrt(a - 1) AS BIGINT)"
OUT_OF_RANGE = "errors that are due: a DOUBLE outside the range of a cast"
WITH_ROOT = Part("query", ("SELECT a AS x, ", Part("int", (ROOT_OF,), MAY_FAIL), " AS y FROM t"))
WITH_ZERO = Table("t", Schema((Field("a", integer(0, 9)),), ROWS), (), (((2,), 0, 1), ((0,), 4, 1), ((0,), 6, -1)))


def test_an_error_is_due_if_duckdb_leaves_its_query_out():
    text = Part("query", ("(", WITH_ROOT, ") INTERSECT (", Part("query", ("SELECT a, a FROM u",)), ")"))
    assert run(text, WITH_ZERO, replace(WITH_ZERO, name="u", stream=()))[OUT_OF_RANGE] == 1


def test_an_error_is_due_for_a_row_that_a_subquery_leaves_out():
    none = Part("truth", ("EXISTS (", Part("query", ("SELECT 1 FROM u WHERE u.a = t.a + 9",)), ")"))
    query = Part("query", ("SELECT ", Part("int", (ROOT_OF,), MAY_FAIL), " AS y FROM t WHERE ", none))
    text = Part("query", ("(", query, ") INTERSECT (", Part("query", ("SELECT a FROM u WHERE a = 1",)), ")"))
    assert run(text, WITH_ZERO, replace(WITH_ZERO, name="u"))[OUT_OF_RANGE] == 1


def test_an_error_is_due_for_a_row_that_a_condition_on_the_query_around_leaves_out():
    column = Part("int", ("u.a",), OF_OUTER)
    for tie in (
        Part("truth", ("t.a = u.a + 9",), "correlated by ="),
        Part("truth", ("NOT ", Part("truth", ("0 <= ", column)))),
    ):
        inner = Part("query", ("SELECT ", Part("int", (ROOT_OF,), MAY_FAIL), " AS y FROM t WHERE ", tie))
        text = Part("query", ("SELECT l.y FROM u, LATERAL (", inner, ") AS l WHERE l.y = u.a"))
        assert run(text, WITH_ZERO, replace(WITH_ZERO, name="u"))[OUT_OF_RANGE] == 1


def test_an_error_is_due_for_a_row_that_comes_and_goes_within_a_time():
    passing = replace(WITH_ZERO, stream=(((2,), 0, 1), ((0,), 4, 1), ((0,), 4, -1)))
    assert run(WITH_ROOT, passing)["queries: compared"] == 1


def test_an_error_is_due_for_a_number_that_only_duckdb_has():
    wide = Table("t", Schema((Field("w", integer(-(2**62), 2**62)),), ROWS), (), (((2**61,), 0, 1),))
    found = run(Part("query", ("SELECT sum(w) * 4 AS x FROM t",)), wide)
    assert found["errors that are due: a number needs more than 64 bits"] == 1


def test_an_error_that_no_query_of_the_text_has_is_a_failure(monkeypatch):
    monkeypatch.setattr(example, "sql", lambda _, relations: sql(str(WITH_ROOT), relations))
    with pytest.raises(DeltamarkError, match="a DOUBLE outside the range of a cast"):
        run(Part("query", ("SELECT a AS x, 7 AS y FROM t",)), WITH_ZERO)


def test_an_answer_may_leave_out_a_value_with_an_error(monkeypatch):
    monkeypatch.setattr(example, "sql", lambda _, relations: sql("SELECT a AS x FROM t", relations))
    text = Part("query", ("SELECT x FROM (", WITH_ROOT, ") AS q WHERE y IS NULL OR y > -1"))
    assert run(text, WITH_ZERO)["queries: times"] == len({0, 4, 6})


def test_an_answer_that_needs_a_value_with_an_error_is_a_failure(monkeypatch):
    monkeypatch.setattr(example, "sql", lambda _, relations: sql("SELECT a AS x, 1 AS y FROM t", relations))
    with pytest.raises(WrongError, match="another answer: at time 4"):
        run(WITH_ROOT, WITH_ZERO)
