"""A column of each declared type is what DuckDB takes it for: both give the same answers, or both refuse."""

from __future__ import annotations

from collections import Counter
from contextlib import closing

import duckdb
import pytest
from fuzz.queries.answers import differences, rows_of

from deltamark.dataflow.language.collection import Collection, source
from deltamark.dataflow.language.expr import col
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.sql.arrow_tables import arrow_batch, arrow_table
from deltamark.dataflow.sql.query import sql
from deltamark.dataflow.sql.tables import sql_tables
from deltamark.dataflow.types import integer
from deltamark.errors import DeltamarkError
from deltamark.harness.check.answers import dated

Row = tuple[object, ...]

NUMBERS = ("0", "1", "5", "NULL")
TYPES = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT"), NUMBERS),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"), NUMBERS),
    **dict.fromkeys(("DECIMAL(4, 0)", "DECIMAL(18, 0)"), NUMBERS),
    **dict.fromkeys(("DECIMAL(5, 2)", "DECIMAL(38, 2)"), ("0", "1.25", "2.5", "NULL")),
    "BOOLEAN": ("FALSE", "TRUE", "TRUE", "NULL"),
    "DOUBLE": ("0", "1.25", "0.1", "NULL", "'nan'", "'-inf'", "1e300", "-2.5"),
    "FLOAT": ("0", "1.25", "0.1", "NULL", "'nan'", "'inf'", "1e30", "-2.5"),
    "DATE": ("DATE '2000-02-29'", "DATE '1999-12-31'", "DATE '2001-01-01'", "NULL"),
    "TIMESTAMP": (
        "'2000-02-29 13:14:15.123456'", "'1999-12-31 23:59:59.999999'", "'1969-07-20 20:17:40'", "'2000-02-29'", "NULL",
    ),
    "TIMESTAMPTZ": ("'2000-02-29 13:14:15.123456+00'", "'1969-07-20 20:17:40+00'", "'2000-02-29 00:00:00+00'", "NULL"),
    "TIME": ("'13:14:15.123456'", "'00:00:00'", "'23:59:59.999999'", "NULL"),
    "VARCHAR": ("''", "'1'", "'true'", "NULL"), "CHAR(5)": ("''", "'1'", "'true'", "NULL"),
}  # fmt: skip
"""The types, each with some values."""

EXPRESSIONS = (
    "k", "k = j", "k <> j", "k < j", "k <= j", "k IS DISTINCT FROM j", "k IN (j, NULL)", "k IS NULL", "coalesce(k, j)",
    "greatest(k, j)", "least(k, j)", "nullif(k, j)", "CASE WHEN b THEN k ELSE j END", "CASE WHEN k = j THEN 1 END",
    "k BETWEEN j AND j", "k + 1", "k + j", "k - j", "k * j", "-k", "k / 2", "k // 2", "k % 2", "abs(k)", "sign(k)",
    "floor(k)", "ceil(k)", "round(k)", "round(k, 1)", "trunc(k)", "k > 0", "k = 1", "k = 1.5", "k = '1'", "k = 'true'",
    "k = TRUE", "k < TRUE", "k = b", "k = i", "NOT k", "k AND b", "k OR j", "k IS TRUE", "k IS NOT FALSE",
    "k::BOOLEAN", "k::INTEGER", "k::BIGINT + 1", "k::DECIMAL(9, 3)", "k::DOUBLE", "d + k", "d - k", "k - d", "k + i",
    "hour(k)", "minute(k)", "second(k)", "millisecond(k)", "microsecond(k)", "epoch(k)", "epoch_ms(k)", "epoch_us(k)",
    "date_trunc('hour', k)", "date_trunc('minute', k)", "date_trunc('second', k)", "date_trunc('week', k)", "k::DATE",
    "k::TIME", "k::TIMESTAMP", "k + INTERVAL 90 MINUTE", "k - INTERVAL 1 MONTH", "k - INTERVAL '1 month 36 hours'",
    "date_diff('hour', k, j)", "date_diff('day', k, j)", "date_diff('month', k, j)", "date_diff('minute', j, k)",
    "dayofweek(k)", "last_day(k)", "k > d", "k = '2000-02-29'", "k < '13:00:00'", "k < TIMESTAMP '2000-02-29 12:00:00'",
    "time_bucket(INTERVAL '7 hours', k)", "k::FLOAT", "k * 0.1::FLOAT", "k % 0.7::DOUBLE", "k::DOUBLE / j",
    "round(k::DOUBLE, -1)", "k::DOUBLE = j / 3", "k::DECIMAL(9, 1)",
    "year(k)", "date_trunc('month', k)", "k + INTERVAL 1 DAY", "k LIKE '%ru%'", "starts_with(k, 't')", "b::VARCHAR",
)  # fmt: skip
AGGREGATES = (
    "min(k)", "max(k)", "sum(k)", "avg(k)", "count(k)", "count(DISTINCT k)", "sum(DISTINCT k)", "bool_or(k)",
    "bool_and(k)", "count_if(k)", "count(*) FILTER (WHERE k)", "min(k) FILTER (WHERE b)", "max(k) = min(k)",
)  # fmt: skip
QUERIES = (
    "SELECT k, count(*) FROM t GROUP BY k", "SELECT k, j FROM t ORDER BY k DESC NULLS LAST, j LIMIT 2",
    "SELECT DISTINCT k FROM t", "SELECT t.k, u.j FROM t JOIN t u ON t.k = u.j",
    "SELECT k FROM t EXCEPT SELECT j FROM t", "SELECT i FROM t WHERE k", "SELECT i FROM t WHERE NOT k",
    "SELECT k FROM t UNION ALL SELECT b FROM t", "SELECT i, k FROM t WHERE k IN (SELECT j FROM t WHERE i > 1)",
    "SELECT t.i, u.k FROM t LEFT JOIN t u ON u.i = t.i + 1",
)  # fmt: skip

NOT_SUPPORTED = {
    ("DECIMAL(5, 2)", "k % 2"), ("DECIMAL(38, 2)", "k % 2"),
    *((type_, "avg(k)") for type_ in ("DATE", "TIMESTAMP", "TIMESTAMPTZ", "TIME")),
    *((type_, each) for type_ in ("TIMESTAMP", "TIMESTAMPTZ") for each in ("d - k", "k - d", "k - j")),
}  # fmt: skip
"""Expressions of types that only DuckDB computes."""


class Table:
    """A table `t` with two columns of a type, in DuckDB and in the engine."""

    def __init__(self, name: str) -> None:
        self._name, values = name, TYPES[name]
        is_exact = values[0] == "0" and name not in ("DOUBLE", "FLOAT")
        check = ", CHECK (k BETWEEN 0 AND 9), CHECK (j BETWEEN 0 AND 9)" if is_exact else ""
        declaration = f"CREATE TABLE t (k {name}, j {name}, b BOOLEAN, i INTEGER NOT NULL, d DATE NOT NULL{check})"
        self.duckdb = duckdb.connect(config={"threads": 1})
        self.duckdb.execute(declaration)
        truths = ("TRUE", "FALSE", "NULL")
        for at, value in enumerate(values):
            for other in (value, values[at - 1]):
                self.duckdb.execute(f"INSERT INTO t VALUES ({value}, {other}, {truths[at % 3]}, {at}, '2000-02-29')")
        self.relations = sql_tables(declaration)

    def wanted(self, text: str) -> tuple[list[str], Counter[Row]] | None:
        """Return the types and the rows of DuckDB's answer; None if DuckDB refuses the query, or a row."""
        try:
            relation = self.duckdb.sql(text)
            return list(map(str, relation.types)), Counter(tuple(map(dated, row)) for row in relation.fetchall())
        except duckdb.Error:
            return None

    def answered(self, columns: tuple[str, ...]) -> list[str]:
        """Return the expressions that DuckDB computes and the engine supports."""
        supported = [each for each in columns if (self._name, each) not in NOT_SUPPORTED]
        return [each for each in supported if self.wanted(f"SELECT {each} FROM t")]

    def binds(self, text: str) -> bool:
        """Return whether DuckDB finds types for a query."""
        try:
            self.duckdb.sql(text)
        except duckdb.Error:
            return False
        return True

    def check(self, *texts: str) -> None:
        """Compare the answers of queries with those of DuckDB."""
        plans = {text: sql(text, self.relations) for text in texts}
        batch = arrow_batch(self.duckdb.table("t").to_arrow_table(), self.relations["t"].schema, 0)
        with closing(Dataflow(plans)) as dataflow:
            found = dataflow.feed({"t": batch})
        for text, plan in plans.items():
            types, rows = self.wanted(text)
            said: Counter[Row] = Counter()
            for row, count in rows_of(plan.schema, [found[text]], 0, types).items():
                said[tuple(map(dated, row))] += count
            assert differences(said, rows) == [], text


each_type = pytest.mark.parametrize("name", TYPES)


@pytest.mark.draws(5)
@each_type
def test_expressions_have_the_values_of_duckdb(name):
    table = Table(name)
    table.check(
        f"SELECT i, {', '.join(table.answered(EXPRESSIONS))} FROM t",
        f"SELECT {', '.join(table.answered(AGGREGATES))} FROM t",
    )


@pytest.mark.draws(5)
@each_type
def test_queries_have_the_answers_of_duckdb(name):
    table = Table(name)
    table.check(*(text for text in QUERIES if table.wanted(text)))


@pytest.mark.draws(5)
@each_type
def test_a_query_that_duckdb_refuses_is_refused(name):
    table = Table(name)
    for text in (*(f"SELECT {each} FROM t" for each in (*EXPRESSIONS, *AGGREGATES)), *QUERIES):
        if not table.binds(text):
            with pytest.raises(DeltamarkError):
                sql(text, table.relations)


@each_type
def test_arrow_and_sql_declare_the_same_type(name):
    table = Table(name)
    made = arrow_table("t", table.duckdb.table("t").to_arrow_table())
    assert sql_types(made) == sql_types(table.relations["t"])


def test_a_copied_column_keeps_its_declaration():
    (table,) = sql_tables("CREATE TABLE t (k DECIMAL(4, 0), s SMALLINT)").values()
    copied = table.where(col.k.is_null()).select("s", "k", sum=col.s.coalesce(0) + 1).rename(x="k")
    assert sql_types(copied) == [("s", "SMALLINT"), ("x", "DECIMAL(4,0)"), ("sum", "")]
    assert sql_types(table.count(by="s").or_null()) == [("s", "SMALLINT"), ("count", "")]
    others = source("others", {"k": integer(0, 9).or_null(), "s": integer(0, 9)})
    assert sql_types(table.concat(table.distinct())) == sql_types(table)
    assert sql_types(table.concat(others)) == [("k", ""), ("s", "")]


def sql_types(table: Collection) -> list[tuple[str, str]]:
    return [(field.name, field.sql) for field in table.schema.fields]
