"""Windows of SQL: at every time the answer is DuckDB's, also over ties, NULL, duplicate rows and empty partitions."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from fuzz.queries.example import Queries
from fuzz.queries.given import check
from fuzz.queries.parts import Part
from fuzz.queries.tables import FIRST, LAST, ROWS, Table
from fuzz.tally import TALLY

from deltamark.dataflow.operators.frames import Frames
from deltamark.dataflow.operators.in_order import InOrder
from deltamark.dataflow.operators.node import walk
from deltamark.dataflow.operators.window import Window
from deltamark.dataflow.sql import planner
from deltamark.dataflow.sql.query import sql
from deltamark.dataflow.types import DOUBLE, TEXT, Field, Schema, date_type, integer
from deltamark.errors import DeltamarkError

SMALL, PRICE = integer(0, 2).or_null(), integer(-9, 9, scale=1).or_null()
DAY, WORD = date_type(FIRST, LAST).or_null(), TEXT.or_null()
TABLES = [
    Table("t", Schema((Field("g", SMALL), Field("o", integer(0, 9).or_null()), Field("x", PRICE)), ROWS), ()),
    Table("u", Schema((Field("g", SMALL), Field("d", DAY), Field("s", WORD)), ROWS), ()),
    Table(
        "f", Schema((Field("g", SMALL), Field("o", integer(0, 9).or_null()), Field("x", DOUBLE.or_null())), ROWS), ()
    ),
]

BY, ALL = "PARTITION BY g ORDER BY o", "PARTITION BY g ORDER BY o, x"
"""An order with ties, and one in which only equal rows are tied."""

FRAMES = [
    "ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING", "ROWS 2 PRECEDING", "ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING",
    "ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING", "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING", "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN CURRENT ROW AND CURRENT ROW", "ROWS UNBOUNDED PRECEDING",
    "ROWS BETWEEN 2 FOLLOWING AND 1 FOLLOWING",
]  # fmt: skip
RANGES = [
    "RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING", "RANGE 3 PRECEDING", "RANGE BETWEEN 1 FOLLOWING AND 3 FOLLOWING",
    "RANGE BETWEEN CURRENT ROW AND CURRENT ROW", "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING", "RANGE BETWEEN 2 FOLLOWING AND UNBOUNDED FOLLOWING", "",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING", "GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "GROUPS 2 PRECEDING", "GROUPS BETWEEN 2 PRECEDING AND 1 PRECEDING",
    "GROUPS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING", "GROUPS BETWEEN CURRENT ROW AND 0 FOLLOWING",
]  # fmt: skip
SUMMARIES = "sum(x) OVER w s, count(*) OVER w n, count(x) OVER w c, avg(x) OVER w m, min(x) OVER w l, max(o) OVER w h"
OF_DOUBLES = "sum(x) OVER w s, avg(x) OVER w m, count(x) OVER w c, max(x) OVER w h"
PICKED = (
    "first_value(x) OVER w a, last_value(o) OVER w b, nth_value(x, 2) OVER w c,"
    " first_value(x IGNORE NULLS) OVER w d, last_value(x IGNORE NULLS) OVER w e, nth_value(x, 2 IGNORE NULLS) OVER w f"
)

TEXTS = {
    **{f"summaries {each}": f"SELECT g, o, x, {SUMMARIES} FROM t WINDOW w AS ({ALL} {each})" for each in FRAMES},
    **{f"summaries {each}": f"SELECT g, o, x, {SUMMARIES} FROM t WINDOW w AS ({BY} {each})" for each in RANGES},
    **{f"doubles {each}": f"SELECT g, o, x, {OF_DOUBLES} FROM f WINDOW w AS ({ALL} {each})" for each in FRAMES},
    **{f"doubles {each}": f"SELECT g, o, x, {OF_DOUBLES} FROM f WINDOW w AS ({BY} {each})" for each in RANGES},
    "doubles of whole partitions": "SELECT g, x, sum(x) OVER (PARTITION BY g) s, avg(x) OVER () m FROM f",
    "some doubles": (
        f"SELECT g, o, sum(x * 2) FILTER (o > 3) OVER ({BY}) a, sum(x) OVER ({ALL} {FRAMES[0]} EXCLUDE TIES) b,"
        f" sum(x / 3) OVER ({ALL} {FRAMES[1]}) c, lag(x) OVER ({ALL}) d, sum(o) OVER ({ALL}) e FROM f"
    ),
    "doubles of first places": f"SELECT *, sum(x) OVER ({ALL}) s FROM f QUALIFY row_number() OVER ({ALL}) <= 2",
    **{f"values {each}": f"SELECT g, o, x, {PICKED} FROM t WINDOW w AS ({ALL} {each})" for each in FRAMES},
    **{
        f"values {each}": f"SELECT g, o, {PICKED.replace('(x', '(o')} FROM t WINDOW w AS ({BY} {each})"
        for each in RANGES
    },
    **{
        f"without {rows} of {each}": (f"SELECT g, o, x, {SUMMARIES} FROM t WINDOW w AS ({ALL} {each} EXCLUDE {rows})")
        for rows in ("CURRENT ROW", "GROUP", "TIES")
        for each in (FRAMES[0], FRAMES[6], "RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING")
    },
    **{
        f"nulls {nulls} {way}": f"SELECT g, o, sum(x) OVER (PARTITION BY g ORDER BY o {way} NULLS {nulls} {frame}) s,"
        f" rank() OVER (PARTITION BY g ORDER BY o {way} NULLS {nulls}) r FROM t"
        for nulls in ("FIRST", "LAST")
        for way in ("", "DESC")
        for frame in (RANGES[0], RANGES[1])
    },
    "places": f"SELECT *, row_number() OVER ({ALL}) a, rank() OVER ({BY}) b, dense_rank() OVER ({BY} DESC) c FROM t",
    "one order of ties": (
        f"SELECT *, row_number() OVER w a, lag(x) OVER w b, sum(x) OVER (w {FRAMES[8]}) c, ntile(2) OVER w d,"
        f" rank() OVER w e FROM t WINDOW w AS ({ALL})"
    ),
    "a limit in one order of ties": f"SELECT *, lag(x) OVER ({ALL}) b FROM t QUALIFY row_number() OVER ({ALL}) <= 2",
    "relative places": f"SELECT *, percent_rank() OVER ({BY}) a, cume_dist() OVER ({BY}) b FROM t",
    "places among all": "SELECT o, row_number() OVER (ORDER BY o) a, rank() OVER () b FROM t",
    "tiles": f"SELECT *, ntile(1) OVER ({ALL}) a, ntile(3) OVER ({ALL}) b, ntile(9) OVER ({ALL}) c FROM t",
    "shifts": (
        f"SELECT *, lag(x) OVER w a, lead(o, 2) OVER w b, lag(o, 1, -1) OVER w c, lead(x, 1, o) OVER w d,"
        f" lag(x, -1) OVER w e, lag(x, 0) OVER w f, lag(o IGNORE NULLS) OVER w g2,"
        f" lead(o, 1, 7 IGNORE NULLS) OVER w h FROM t WINDOW w AS ({ALL})"
    ),
    "shifted texts": "SELECT *, lag(s) OVER w a, lead(s, 1, 'none') OVER w b FROM u WINDOW w AS (ORDER BY d, s, g)",
    "picked texts": "SELECT *, first_value(s) OVER (PARTITION BY g ORDER BY d, s) a FROM u",
    "shifted quotients": f"SELECT *, lag(x / 3) OVER ({ALL}) a, first_value(o / nullif(x, 0)) OVER ({ALL}) b FROM t",
    "days": "SELECT g, d, count(*) OVER (PARTITION BY g ORDER BY d RANGE INTERVAL 3 DAY PRECEDING) n FROM u",
    "days by number": "SELECT g, d, count(s) OVER (ORDER BY d DESC RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING) n FROM u",
    "decimals": "SELECT x, sum(o) OVER (ORDER BY x RANGE BETWEEN 0.5 PRECEDING AND 1 FOLLOWING) s FROM t",
    "whole partitions": (
        "SELECT *, sum(x) OVER (PARTITION BY g) a, count(*) OVER () b, avg(o) OVER (PARTITION BY g, o) c,"
        " count(DISTINCT x) OVER (PARTITION BY g) d, max(o) OVER () e, x / sum(x) OVER (PARTITION BY g) f FROM t"
    ),
    "filters": f"SELECT g, o, x, sum(x) FILTER (o > 3) OVER ({BY}) a,"
    f" count(*) FILTER (o > 3) OVER ({ALL} {FRAMES[1]}) b,"
    " min(x) FILTER (x > 0) OVER (PARTITION BY g) c FROM t",
    "conditions": f"SELECT g, o, bool_and(x > 0) OVER ({BY}) a, max(x > 0) OVER ({BY} {RANGES[0]}) b FROM t",
    "distinct extremes": f"SELECT g, o, max(DISTINCT x) OVER ({BY}) a FROM t",
    "distinct values up to a row": (
        "SELECT *, sum(DISTINCT x) OVER w a, count(DISTINCT x) OVER w b, avg(DISTINCT o) OVER w c FROM t"
        f" WINDOW w AS ({BY})"
    ),
    "distinct values of rows": (
        "SELECT *, sum(DISTINCT x) OVER (w ROWS UNBOUNDED PRECEDING) a, count(DISTINCT o) OVER (w) b,"
        " count(DISTINCT x) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND 2 FOLLOWING) c,"
        " sum(DISTINCT o) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) d,"
        f" row_number() OVER (w) e, sum(x) OVER (w) f FROM t WINDOW w AS ({ALL})"
    ),
    "distinct values of ranges": (
        "SELECT *, count(DISTINCT x) OVER (w RANGE BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING) a,"
        " avg(DISTINCT x) FILTER (o > 3) OVER (w RANGE BETWEEN UNBOUNDED PRECEDING AND 2 FOLLOWING) b,"
        " count(DISTINCT x / 3) OVER (w GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) c FROM t"
        f" WINDOW w AS ({BY})"
    ),
    "distinct values of whole partitions": (
        "SELECT *, sum(DISTINCT x) OVER (PARTITION BY g) a, avg(DISTINCT o) OVER () b,"
        f" count(DISTINCT x) OVER ({BY} RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) c FROM t"
    ),
    "distinct texts": "SELECT *, count(DISTINCT s) OVER (PARTITION BY g ORDER BY d) a FROM u",
    "distinct doubles": f"SELECT *, sum(DISTINCT x) OVER w a, avg(DISTINCT x) OVER w b FROM f WINDOW w AS ({BY})",
    "over groups": (
        "SELECT g, o, sum(x) s, sum(sum(x)) OVER (PARTITION BY g) a,"
        " rank() OVER (PARTITION BY g ORDER BY sum(x) DESC) b,"
        " avg(count(*)) OVER (PARTITION BY g) c, sum(sum(x)) OVER (PARTITION BY g ORDER BY o) d,"
        " lag(sum(x)) OVER (PARTITION BY g ORDER BY o) e FROM t GROUP BY g, o"
    ),
    "over a join": "SELECT t.x, u.s, count(*) OVER (PARTITION BY t.g ORDER BY u.d) n FROM t JOIN u ON t.g = u.g",
    "windows over windows": (
        f"SELECT g, r, count(*) OVER (PARTITION BY r) n FROM (SELECT g, rank() OVER ({BY}) r FROM t) AS q"
    ),
    "expressions of windows": (
        f"SELECT g, CASE WHEN sum(x) OVER (PARTITION BY g) > 2 THEN rank() OVER ({BY}) END a FROM t"
    ),
    "first places": f"SELECT * FROM t QUALIFY row_number() OVER ({ALL}) <= 2",
    "first ranks": f"SELECT *, sum(x) OVER (PARTITION BY g) s FROM t QUALIFY 3 > rank() OVER ({BY} DESC)",
    "second rank": f"SELECT *, count(*) OVER ({ALL} {FRAMES[0]}) n FROM t QUALIFY 2 = dense_rank() OVER ({BY})",
    "two limits": f"SELECT * FROM t QUALIFY rank() OVER ({BY}) <= 2 AND rank() OVER (ORDER BY x) <= 4",
    "no place": f"SELECT * FROM t QUALIFY row_number() OVER ({ALL}) < 1",
    "late places": f"SELECT * FROM t QUALIFY row_number() OVER ({ALL}) > 2",
    "extremes of groups": "SELECT * FROM t QUALIFY x = max(x) OVER (PARTITION BY g)",
    "limit of a derived table": (
        f"SELECT g, count(*) FROM (SELECT g, rank() OVER ({BY}) r FROM t) q WHERE r <= 2 GROUP BY g"
    ),
    "DISTINCT ON": "SELECT DISTINCT ON (g) g, o, x FROM t ORDER BY g, o DESC, x",
    "DISTINCT ON of all": "SELECT DISTINCT ON (g, o, x) * FROM t",
    "DISTINCT ON an expression": "SELECT DISTINCT ON (g + 1) g, x FROM t ORDER BY g + 1, x NULLS FIRST",
    "correlated LIMIT": (
        "SELECT u.g, q.o FROM u, LATERAL (SELECT o FROM t WHERE t.g = u.g ORDER BY o DESC NULLS LAST LIMIT 2) AS q"
    ),
    "correlated LIMIT 1": "SELECT g, (SELECT o FROM t WHERE t.g = u.g ORDER BY o LIMIT 1) FROM u",
}


@pytest.mark.draws(1, of="name")
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", TEXTS)
def test_the_answer_is_duckdbs_at_every_time(name, seed):
    check(TEXTS[name], TABLES, seed)


@pytest.mark.parametrize(
    "calls",
    [
        "lead(o, 1) OVER w, lag(x, 2, x) OVER w, nth_value(o, 2) OVER w, ntile(2) OVER w",
        "sum(x) OVER (w ROWS 1 PRECEDING), count(*) OVER (w GROUPS 1 PRECEDING)",
        "sum(x) OVER (PARTITION BY g ORDER BY o RANGE 1 PRECEDING)",
    ],
)
def test_a_plan_that_duckdb_has_not_optimized_has_the_same_answer(monkeypatch, calls):
    """DuckDB cannot serialize some optimized plans. In others constants may be casts."""
    monkeypatch.setattr(planner, "OPTIMIZED", "false")
    check(f"SELECT g, {calls} FROM t WINDOW w AS (PARTITION BY g ORDER BY o, x)", TABLES, seed=3)


def test_a_text_whose_optimized_plan_duckdb_cannot_serialize_has_its_answer():
    check(
        "SELECT lead(o, 1) OVER (ORDER BY o, x, d) n FROM t JOIN u ON TRUE WHERE EXISTS (SELECT s FROM u WHERE g > 0)",
        TABLES,
        seed=3,
    )


LARGE = integer(0, 400).or_null()

MANY = [
    f"SELECT g, o, x, {SUMMARIES} FROM t WINDOW w AS (PARTITION BY g ORDER BY o, x {FRAMES[0]})",
    f"SELECT g, o, x, {SUMMARIES} FROM t WINDOW w AS (ORDER BY o, x, g {FRAMES[6]} EXCLUDE GROUP)",
    f"SELECT g, o, {SUMMARIES} FROM t WINDOW w AS (ORDER BY o RANGE BETWEEN 9 PRECEDING AND 5 FOLLOWING)",
    "SELECT g, o, max(x) OVER w s FROM t WINDOW w AS (PARTITION BY g ORDER BY o DESC GROUPS 2 PRECEDING)",
    f"SELECT g, o, x, {PICKED} FROM t WINDOW w AS (ORDER BY o, x, g {FRAMES[5]})",
    f"SELECT *, lag(x, 40) OVER w a, lead(o) OVER w b, ntile(7) OVER w c, count(*) OVER w d FROM t WINDOW w AS ({ALL})",
]  # fmt: skip


def many_rows(seed):
    """Return a table of about 850 rows, of which later times delete and insert some, or nearly all."""
    rng, live, stream = np.random.default_rng(seed), [], []
    for time, (inserted, deleted) in enumerate([(850, 0), (3, 2), (1, 0), (0, 1), (120, 60), (0, 950), (60, 9)]):
        for _ in range(min(deleted, len(live))):
            stream += [(live.pop(rng.integers(len(live))), time, -1)]
        for _ in range(inserted):
            g, o, x = (int(each) for each in rng.integers([0, 0, -9], [4, 402, 10]))
            live.append((None if g == 3 else g, None if o == 401 else o, Decimal(x)))
            stream.append((live[-1], time, 1))
    fields = Field("g", SMALL), Field("o", LARGE), Field("x", integer(-9, 9).or_null(), "DECIMAL(4,0)")
    return Table("t", Schema(fields, ROWS), (), tuple(stream))


@pytest.mark.parametrize("text", MANY)
def test_the_answer_is_duckdbs_over_many_rows(text):
    table = many_rows(seed=1)
    TALLY.clear()
    example = Queries(Part("query", (text,)), (table,), [], slice_rows=64, workers=2)
    replace(example, feeds=[[time] for time in example.times]).run()
    assert TALLY["queries: compared"] == 1, TALLY


RELATIONS = {each.name: each.collection() for each in TABLES}


@pytest.mark.parametrize(
    ("text", "windows"),
    [
        ("SELECT sum(x) OVER (PARTITION BY g) FROM t", []),
        ("SELECT * FROM t QUALIFY x = max(x) OVER (PARTITION BY g)", []),
        (f"SELECT sum(x) OVER w, rank() OVER w, avg(x) OVER w FROM t WINDOW w AS ({BY})", [Window]),
        (
            f"SELECT lag(x) OVER w, rank() OVER w, sum(x) OVER (PARTITION BY g) FROM t WINDOW w AS ({BY})",
            [Frames, Window],
        ),
    ],
)
def test_functions_of_one_order_are_one_operator(text, windows):
    nodes = walk(sql(text, RELATIONS).node)
    assert [type(each) for each in nodes if isinstance(each, InOrder)] == windows


@pytest.mark.parametrize("text", ["first places", "first ranks", "two limits", "DISTINCT ON", "correlated LIMIT"])
def test_a_condition_on_a_place_limits_the_rows(text):
    windows = [each for each in walk(sql(TEXTS[text], RELATIONS).node) if isinstance(each, Window)]
    assert any(each.limit for each in windows)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("SELECT ntile(o) OVER (ORDER BY o) FROM t", "the window function ntile (line 1, column 8)"),
        ("SELECT sum(x) OVER (ORDER BY o GROUPS 1001 PRECEDING) FROM t", "a frame of more than 1000 GROUPS (line 1"),
        ("SELECT sum(DISTINCT x) OVER (ORDER BY o ROWS 1 PRECEDING) FROM t", "DISTINCT in sum over a frame (line 1"),
        ("SELECT min(s) OVER (ORDER BY d) FROM u", "no smallest of this type"),
        (
            "SELECT lag(x, o) OVER (ORDER BY o) FROM t",
            "lag by a distance that is no constant number (line 1, column 8)",
        ),
        (
            "SELECT count(*) OVER (ORDER BY d RANGE INTERVAL 1 MONTH PRECEDING) FROM u",
            "a frame whose ends are no constant numbers or days (line 1, column 8)",
        ),
    ],
)
def test_errors_name_the_construct(text, error):
    with pytest.raises(DeltamarkError) as raised:
        sql(text, RELATIONS)
    assert error in str(raised.value)
