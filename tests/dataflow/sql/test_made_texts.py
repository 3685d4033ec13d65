"""Functions of texts are DuckDB's, at every time, and leave nothing behind."""

from __future__ import annotations

import datetime as dt
from contextlib import closing
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from fuzz.queries.example import Queries
from fuzz.queries.given import check
from fuzz.queries.parts import Part
from fuzz.queries.tables import FIRST, LAST, ROWS, WORDS, Table
from fuzz.tally import TALLY
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engines.inside import worker_of

from deltamark import BOOL, TEXT, Batch, Dataflow, DeltamarkError, code_type, date_type, integer, source, sql
from deltamark.dataflow.kernels.text.pool import TextPool
from deltamark.dataflow.scalars.texts import MEANINGS
from deltamark.dataflow.types import SHORT, Field, Schema

CHARACTERS = st.one_of(
    st.sampled_from("aabAB ,%_!\\\t"), st.sampled_from("éÉßẞıİΣς\u00a0\u2003\u0301\U0001f600\U00010400ǅﬁ"),
    st.characters(codec="utf-8", exclude_characters="\0"),
)  # fmt: skip
STRINGS = st.one_of(st.text(CHARACTERS, max_size=20), st.text("a,", max_size=9), st.sampled_from(["", "a" * 700]))

EXPRESSIONS = (
    "x || y", "x || ', ' || z", "x || n || day", "concat(x, y, z, n)", "concat(z)", "concat_ws('-', x, z, y)",
    "concat_ws(z, x, y)", "concat_ws(',', z, z)", "upper(x)", "lower(x)", "upper(z) || lower(y)",
    "trim(x)", "ltrim(x)", "rtrim(x)", "trim(x, 'aé')", "ltrim(x, y)", "rtrim(x, '')", "trim(z, ' ,')",
    "replace(x, 'a', 'bé')", "replace(x, y, z)", "replace(x, '', y)", "replace(x, 'a', '')",
    "lpad(x, 5, 'éx')", "rpad(x, 5, 'éx')", "lpad(x, n::INTEGER, 'a')", "rpad(z, n::INTEGER, 'ab')",
    "split_part(x, ',', 1)", "split_part(x, ',', -1)", "split_part(x, y, n)", "split_part(z, 'a', 2)",
    "substring(x, 9)", "substring(x, 1, 9)", "substring(x, 0, 9)", "substring(x, -3, 9)", "substring(x, -1, -2)",
    "substring(x, n)", "substring(x, n, n)", "substring(z, n, -2)", "substring(x, 0)",
    "left(x, 8)", "left(x, -2)", "left(x, n)", "left(z, 0)", "right(x, 3)", "right(x, -3)", "right(x, n)",
    "right(z, 0)",
    "length(x)", "length(z)", "strlen(x)", "position('a' IN x)", "position(y IN x)", "instr(z, 'é')",
    "x LIKE y", "x LIKE '_'", "x LIKE '%a_%'", "z LIKE '_a%,%'", "x LIKE 'a!_%' ESCAPE '!'",
    "x NOT LIKE 'a!%%' ESCAPE '!'",
    "x LIKE '%!_' ESCAPE '!'", "x ILIKE 'A%'", "x NOT ILIKE '%É_'", "x ILIKE y", "z ILIKE '%!_%' ESCAPE '!'",
    "regexp_matches(x, 'a.b|,[^a]$')", "regexp_matches(x, '^(a+,)*\\w?é?$')", "regexp_matches(z, '[b-é]{2,3}', 'i')",
    "x ~ 'é$'", "x SIMILAR TO 'a*b?'", "regexp_matches(word, '^[a-b]', 'i')", "NOT regexp_matches(x, '.', 's')",
    "starts_with(x, 'a')", "starts_with(x, '_')", "contains(x, '%')", "ends_with(z, '_')",
    "CAST(n AS VARCHAR)", "CAST(p AS VARCHAR)", "CAST(f AS VARCHAR)", "CAST(day AS VARCHAR)", "CAST(flag AS VARCHAR)",
    "CAST(p * 10 AS VARCHAR)", "CAST(CAST(n AS DECIMAL(9, 2)) AS VARCHAR)", "p || x", "CAST(p + n AS VARCHAR)",
    "upper(word)", "word || x", "word || '!'", "word || word", "lpad(word, 5, '*')", "length(word)", "word LIKE '_%e'",
    "substring(word, -2)", "concat(word, flag)", "coalesce(z, '') || x", "coalesce(upper(z), 'none')",
    "CASE WHEN n > 0 THEN x || '+' WHEN n < 0 THEN z ELSE upper(y) END", "nullif(x || '', 'a')",
    "greatest(x, y)", "least(upper(x), z)", "upper(x) = upper(y)", "x || 'a' < y", "upper(z) IS NULL", "x || y = 'aa'",
    "substring(x, 1, 1) || y", "substring(x, 1, 1) = y", "substring(substring(x, 2, 8), 1, 9)",
    "substring(x, 1, 1) < y", "coalesce(substring(z, 1, 1), y)", "upper(x) IN ('A', 'É', y)",
)  # fmt: skip
"""Expressions over a row. No short text has characters of more than seven bytes."""

SCHEMA = Schema(
    (
        Field("id", integer(0, 99)), Field("x", TEXT), Field("y", TEXT), Field("z", TEXT.or_null()),
        Field("n", integer(-9, 9).or_null()), Field("p", integer(-(10**6), 10**6, scale=2), "DECIMAL(9,2)"),
        Field("f", integer(-99, 99, scale=2).or_null(), "DECIMAL(2,2)"),
        Field("day", date_type(dt.date.min, dt.date.max).or_null()), Field("flag", BOOL.or_null()),
        Field("word", code_type(("Ant", "bee", "\u00df\u00e9")).or_null()),
    ),
    99,
)  # fmt: skip
VALUES = st.tuples(
    STRINGS, st.one_of(st.sampled_from(["a", ",", "", "é", "%", "a_", "A%"]), STRINGS), st.none() | STRINGS,
    st.none() | st.integers(-9, 9), st.integers(-(10**6), 10**6).map(lambda number: Decimal(number).scaleb(-2)),
    st.none() | st.integers(-99, 99).map(lambda number: Decimal(number).scaleb(-2)), st.none() | st.dates(),
    st.none() | st.booleans(), st.none() | st.sampled_from(["Ant", "bee", "\u00df\u00e9"]),
)  # fmt: skip


@settings(max_examples=30)
@given(st.lists(VALUES, min_size=1, max_size=20))
def test_functions_of_texts_are_those_of_duckdb(rows):
    table = Table("t", SCHEMA, (), tuple(((at, *row), 0, 1) for at, row in enumerate(rows)))
    columns = ", ".join(f"{each} AS c{at}" for at, each in enumerate(EXPRESSIONS))
    compare(f"SELECT id, {columns} FROM t", [table])


def compare(text, tables):
    """Compare an answer with DuckDB's."""
    TALLY.clear()
    Queries(Part("query", (text,)), tuple(tables), [[0]], slice_rows=64, workers=1).run()
    assert TALLY["queries: compared"] == 1, TALLY


@pytest.mark.parametrize("function", ["upper", "lower"])
def test_each_letter_has_the_case_that_duckdb_gives_it(function):
    codes = [code for code in range(1, 0x110000) if not 0xD800 <= code < 0xE000]
    letters = "".join(map(chr, codes))
    ((wanted,),) = duckdb.execute(f"SELECT {function}(?)", [letters]).fetchall()
    assert MEANINGS[function](letters) == wanted
    relation = source("t", {"x": TEXT}, 9)
    with Dataflow(sql(f"SELECT {function}(x) AS x FROM t", {"t": relation})) as dataflow:
        answer = dataflow.feed({"t": Batch(np.zeros(1, np.int64), np.ones(1, np.int64), {"x": [letters]})})
    assert answer.columns["x"].tolist() == [wanted]


TABLES = [
    Table(
        "t",
        Schema(
            (
                Field("a", integer(-2, 3)), Field("x", TEXT), Field("y", TEXT.or_null()), Field("s", SHORT.or_null()),
                Field("w", code_type(WORDS).or_null()), Field("d", date_type(FIRST, LAST).or_null()),
            ),
            ROWS,
        ),
        (),
    ),
    Table("u", Schema((Field("k", integer(0, 3).or_null()), Field("x", TEXT.or_null())), ROWS), ()),
]  # fmt: skip
QUERIES = {
    "groups of made texts": "SELECT upper(x) || coalesce(y, '') g, count(*) n FROM t GROUP BY g",
    "groups of texts and numbers": "SELECT left(x, 8) g, a, sum(a) s FROM t GROUP BY g, a",
    "distinct texts": "SELECT DISTINCT concat_ws('-', x, y, w, d) c FROM t",
    "joins by made texts": "SELECT t.a, u.k FROM t JOIN u ON t.x || '' = trim(u.x)",
    "joins of short and stored texts": "SELECT t.a, u.k FROM t JOIN u ON t.s = u.x",
    "filters": "SELECT a, x FROM t WHERE x LIKE '%_o%' AND length(x) > length(y) OR replace(x, 'a', '') = y",
    "the first made texts": "SELECT lower(x) l, y || '!' m FROM t ORDER BY l DESC, m NULLS FIRST LIMIT 3",
    "smallest and largest of groups": "SELECT a, min(x) m, max(y) n FROM t GROUP BY a",
    "smallest of groups beside sums": "SELECT y, min(x) m, count(*) n, sum(a) s, max(a) b, min(y) o FROM t GROUP BY y",
    "largest of made texts": "SELECT w, max(x || y) m, count(DISTINCT upper(y)) n FROM t GROUP BY w",
    "smallest of some rows": "SELECT d, min(y) FILTER (WHERE a > 0) m, sum(a) FILTER (WHERE a > 1) s FROM t GROUP BY d",
    "smallest of all rows": "SELECT min(x || 'a') m, max(replace(y, 'a', 'b')) n, count(*) c FROM t",
    "texts of aggregates": "SELECT x, 'n=' || count(*) || ', s=' || sum(a) r FROM t GROUP BY x",
    "a largest text compared": "SELECT a, x FROM t WHERE x = (SELECT max(x) FROM t o WHERE o.a = t.a)",
    "union of short and stored texts": "SELECT s FROM t UNION SELECT x FROM u UNION ALL SELECT upper(w) FROM t",
    "outer joins": "SELECT t.a, coalesce(u.x || '!', 'none') r FROM t LEFT JOIN u ON t.a = u.k",
    "nested": "SELECT g, max(n) m FROM (SELECT a, lpad(x, 3, '*') g, max(y || w) n FROM t GROUP BY a, g) GROUP BY g",
}


@pytest.mark.draws(2, of="name")
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", QUERIES)
def test_the_answer_is_duckdbs_at_every_time(name, seed, workers):
    check(QUERIES[name], TABLES, seed, workers)


REFUSED = {
    "SELECT lpad(x, 5, '') FROM t": "a padding that is no constant",
    "SELECT x LIKE y ESCAPE 'a' FROM t": "ESCAPE with a pattern or a character that is no constant",
    "SELECT x LIKE 'a!' ESCAPE '!' FROM t": "at the end of a pattern",
    "SELECT regexp_matches(x, '\\bb') FROM t": "this part of a regular expression",
    "SELECT regexp_matches(x, y) FROM t": "an expression or options that are no constants",
    "SELECT CAST(CAST(a AS DOUBLE) AS VARCHAR) FROM t": "a cast of a DOUBLE to VARCHAR",
}


@pytest.mark.parametrize("text", REFUSED)
def test_others_are_refused(text):
    with pytest.raises(DeltamarkError, match=REFUSED[text]):
        sql(text, {each.name: each.collection() for each in TABLES})


@pytest.mark.parametrize("text", [
    "SELECT a, upper(x) || y u, min(x || a) m, max(replace(y, 'y', 'long ' || x)) n FROM t GROUP BY a, u",
    "SELECT s, count(*) c FROM (SELECT y, string_agg(x || a, '; ' ORDER BY a) s FROM t GROUP BY y, a) GROUP BY s",
])  # fmt: skip
def test_made_texts_leave_the_pool_with_their_rows(monkeypatch, text):
    """No text recurs, and each makes several others; the pool does not grow with the number of times."""
    monkeypatch.setattr("deltamark.dataflow.builder.sweeps.MIN_SWEPT_NUMBERS", 10)
    relation = source("t", {"a": integer(0, 9), "x": TEXT, "y": TEXT.or_null()}, 1000)
    with closing(Dataflow(sql(text, {"t": relation}))) as dataflow:
        sizes, live = [], 0
        for time in range(300):
            rows = [(at, f"x{time}-{at}" * (at * time % 20), None if at % 3 == 0 else f"y{time}") for at in range(10)]
            columns = dict(zip("axy", map(list, zip(*rows, strict=True)), strict=True))
            for sign in (1, -1):
                times, diffs = np.full(10, 2 * time + (sign < 0)), np.full(10, sign)
                answer = dataflow.feed({"t": Batch(times, diffs, {**columns, "y": pa.array(columns["y"])})})
                live += int(answer.diff.sum())
            pool = TextPool(worker_of(dataflow).compiled.program.sweeper.texts.block)
            sizes.append((pool.next_number, pool.heap))
            assert live == 0
        assert dataflow.state_rows() == 0
        assert TextPool(worker_of(dataflow).compiled.program.sweeper.texts.block).used == 0
    assert sizes[-1][0] <= 200
    assert sizes[-1] == sizes[200]
