"""Quotients, doubles, wide numbers and times: the answer is DuckDB's at every time, or there is an error."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from contextlib import closing
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from fuzz.queries.example import Queries
from fuzz.queries.parts import Part
from fuzz.queries.tables import ROWS, Table, changing
from fuzz.tally import TALLY
from support.random_plans.choices import Seeded
from support.random_plans.streams import cut

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import source
from deltamark.dataflow.language.expr import col
from deltamark.dataflow.language.windows import moving_sum, rows_between, running_sum, values_between
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.sql.arrow_tables import arrow_batch, arrow_changes, arrow_table
from deltamark.dataflow.sql.query import sql
from deltamark.dataflow.sql.tables import sql_tables
from deltamark.dataflow.types import (
    DOUBLE,
    LARGEST,
    NULL,
    TIME,
    Field,
    Schema,
    doubles,
    integer,
    stored_double,
    timestamp_type,
    value_of,
)
from deltamark.errors import DeltamarkError

QUERIES = {
    # quotients whose divisors may be zero or negative, or that need more than 64 bits
    "rounded": "SELECT k, round(n / m, 2) r FROM t",
    "compared": "SELECT k FROM t WHERE n / m > m / nullif(n, 0)",
    "compared with an average": "SELECT k, n FROM t WHERE n > (SELECT avg(w) * 1.2 FROM t u WHERE u.k = t.k)",
    "summed": "SELECT k, sum(n / m), avg(n / nullif(m, 0)), min(n / m), max(n / m) FROM t GROUP BY k",
    "averages of averages": "SELECT avg(a), sum(a) FROM (SELECT k, avg(n) a FROM t GROUP BY k)",
    "grouped": "SELECT n / m q, count(*) FROM t GROUP BY q",
    "distinct": "SELECT DISTINCT n / m q FROM t",
    "distinct averages": "SELECT DISTINCT avg(p) OVER (PARTITION BY k), avg(0.1) OVER (ORDER BY k, n) FROM t",
    "averages and their sums": "SELECT DISTINCT avg(0.1) OVER (ORDER BY k, n) + n, -avg(0.7) OVER (ORDER BY k) FROM t",
    "averages and quotients": "SELECT k, CASE WHEN n > 0 THEN avg(0.1) OVER (ORDER BY k) ELSE n / m END c FROM t",
    "averages united": "SELECT avg(0.1) OVER (ORDER BY k, n) FROM t UNION SELECT 0.1 FROM t",
    "signs of zero": "SELECT k, (n / 0) / (0 / m), atan2(0 * h, -1), pow(h * 0, -1), round(-h / 1e9) / 0 FROM t",
    "zeros compared": "SELECT k, 0 / m = 0, h * 0 < 0, 0 / nullif(m, 0) IN (0, 1) FROM t",
    "zeros grouped": "SELECT h * 0 AS zero, count(*) FROM t GROUP BY zero",
    "united": "SELECT n / m q FROM t UNION SELECT g FROM t",
    "in order": "SELECT n, m, n / nullif(m, 0) q FROM t ORDER BY q NULLS LAST, n, m LIMIT 3",
    "added": "SELECT k, n / m + m / n s, n / m - g d FROM t",
    "a long constant": "SELECT k FROM t WHERE n / nullif(m, 0) BETWEEN 2.0 / 3.0 AND 3.0 / 2.0",
    "chosen": "SELECT k, CASE WHEN m > 0 THEN n / m ELSE g END c, greatest(n / m, g), coalesce(g, n / m) FROM t",
    "joined": "SELECT a.k, b.n FROM t a JOIN t b ON a.n / nullif(a.m, 0) = b.g",
    "share of a total": "SELECT k, 100.0 * sum(p) / (SELECT sum(w) FROM t) FROM t GROUP BY k",
    "cast": "SELECT k, CAST(n / nullif(m, 0) AS DECIMAL(9, 2)), CAST(g AS DOUBLE), CAST(n AS FLOAT) * 0.1 FROM t",
    # doubles
    "halves": "SELECT k, CAST(n * 0.5::DOUBLE AS BIGINT), CAST(m::DOUBLE * 2.5::DOUBLE AS DECIMAL(9, 0)) FROM t",
    "rounded twice": "SELECT round(round(g, 3) * h, 1) x, round(round(round(h, 2) / 3, 1) * g, -1) y FROM t",
    "arithmetic": "SELECT g + h, g - h, g * h, g / h, -g, abs(g), floor(g), ceil(h), round(g, 1), g % 0.75 FROM t",
    "sums": "SELECT k, sum(g), avg(g), count(g), sum(g) FILTER (WHERE h > 0), sum(DISTINCT g) FROM t GROUP BY k",
    "a sum of all": "SELECT sum(g), avg(h), min(g), max(g), sum(g * 2) FROM t",
    "extremes": "SELECT k, min(g), max(g) FROM t GROUP BY k",
    "groups": "SELECT g, count(*), sum(h) FROM t GROUP BY g",
    "comparisons": "SELECT k, g < h, g = h, g IS DISTINCT FROM h, g >= 0.5, g IN (0.5, 3), g BETWEEN n AND m FROM t",
    "negated": "SELECT k, -h < n FROM t WHERE -g >= 0.5",  # which is true of NaN
    "tested": "SELECT k, isnan(g), isinf(h), isfinite(g), isnan(n / m) FROM t",
    "keys": "SELECT a.k, b.k FROM t a JOIN t b ON a.g = b.h",
    "left join": "SELECT a.k, b.g, b.h FROM t a LEFT JOIN t b ON a.g = b.h AND b.n > 0",
    "first": "SELECT g, h FROM t ORDER BY g DESC NULLS LAST, h LIMIT 2",
    "in": "SELECT k FROM t WHERE g IN (SELECT h FROM t WHERE n > 0)",
    "not in": "SELECT k FROM t WHERE g NOT IN (SELECT h FROM t WHERE n > 0)",
    "having": "SELECT k FROM t GROUP BY k HAVING sum(h) > avg(g)",
    "except": "SELECT g FROM t EXCEPT SELECT h FROM t WHERE n > 0",
    "functions": "SELECT k, sqrt(abs(g)), exp(n), ln(n * n + 1), log(n + 3), sqrt(n / nullif(m, 0) + 3) FROM t",
    "powers": "SELECT k, pow(2, n), abs(h) ** 0.5, power(n, 3), sqrt(w * 0 + 2) FROM t",
    "angles": "SELECT k, sin(n), cos(m), tan(n), asin(n / 3), acos(m / 3), atan(g), atan2(n, m), atan2(h, n) FROM t",
    "functions of sums": "SELECT sqrt(sum(n * n)), pow(sum(n), 2), exp(avg(m)), exp(avg(ln(n + 3))) FROM t GROUP BY k",
    # numbers that may need more than 64 bits
    "wide sums": "SELECT k, sum(w) + sum(w), sum(w) - sum(n), sum(w) * 3 FROM t GROUP BY k",
    "wide comparisons": "SELECT k FROM t WHERE w > p * 1.0000000001",
    "wide decimals": "SELECT k FROM t GROUP BY k HAVING sum(w) > 0.9 * sum(p)",
    "wide scales": "SELECT k, w < p, w = p, w > p FROM t",
    # times
    "timestamps": "SELECT s, s + INTERVAL 90 MINUTE, s - INTERVAL '1 month 36 hours', s::DATE, s::TIME FROM t",
    "parts": "SELECT year(s), month(s), hour(s), minute(s), second(s), epoch(s), epoch_ms(s), dayofweek(s) FROM t",
    "truncated": "SELECT date_trunc('month', s) x, date_trunc('hour', s) y, count(*) FROM t GROUP BY x, y",
    "buckets": "SELECT time_bucket(INTERVAL '7 hours', s) b, sum(g) FROM t GROUP BY b",
    "latest": "SELECT k, max(s), min(s) FROM t GROUP BY k",
    "differences": "SELECT date_diff('hour', s, z), date_diff('day', s, z), date_diff('month', z, s) FROM t",
    "intervals": "SELECT s - z i, epoch(z - s), s + (s - z), s - z + INTERVAL 1 HOUR FROM t",
    "intervals compared": "SELECT k FROM t WHERE s - z > INTERVAL '3 days 2 hours' AND z - s > INTERVAL '-1' YEAR",
    "intervals in lists": "SELECT k FROM t WHERE s - z IN (INTERVAL 0 DAY) OR z - s < INTERVAL 40 DAY",
    "intervals grouped": "SELECT s - z i, count(*) FROM t GROUP BY i",
    "longest intervals": "SELECT k, max(s - z) m, count(DISTINCT s - z) FROM t GROUP BY k ORDER BY m LIMIT 2",
    "intervals chosen": "SELECT CASE WHEN k > 1 THEN s - z ELSE INTERVAL 9 HOUR END i, coalesce(z - s, s - s) FROM t",
    "intervals of columns": "SELECT s + INTERVAL (n) DAY, z - to_hours(m), s::DATE - z i FROM t",
    "months of columns": "SELECT s + INTERVAL (n) MONTH, z - to_years(m), s::DATE - INTERVAL (m * 5) MONTH d FROM t",
    "quarters of columns": "SELECT k FROM t WHERE s + to_quarters(n) < z - INTERVAL (m) MONTH + INTERVAL 1 DAY",
    "between": "SELECT k FROM t WHERE s >= '1992-01-01' AND s < TIMESTAMP '1992-02-29 12:30:00' AND s <> z",
    "joined times": "SELECT a.k, b.k FROM t a JOIN t b ON a.s = b.z + INTERVAL 0 HOUR",
    "of days": "SELECT k FROM t WHERE s > s::DATE",
    "moments of days": "SELECT s::DATE + INTERVAL 5 HOUR, hour(s::DATE), coalesce(z, s::DATE) FROM t",
}
NUMBER = integer(-2, 3)
MOMENTS = timestamp_type(*map(dt.datetime.fromisoformat, ("1991-01-01", "1996-03-01")))
FIELDS = {
    "k": integer(0, 2), "n": NUMBER, "m": NUMBER.or_null(), "w": integer(-(2**62), 2**62),
    "p": integer(-(10**17), 10**17, scale=2).or_null(), "g": DOUBLE.or_null(), "h": DOUBLE, "s": MOMENTS,
    "z": MOMENTS.or_null(),
}  # fmt: skip
TABLE = Table("t", Schema(tuple(Field(name, type_) for name, type_ in FIELDS.items()), ROWS), ())
TIMES = (0, 1, 2, 5, 6)


@pytest.mark.draws(1, of="name")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", QUERIES)
def test_the_answer_is_duckdbs_at_every_time(name, seed):
    choices = Seeded(seed)
    changed = changing(choices, TABLE, TIMES)
    TALLY.clear()
    query = Part("query", (QUERIES[name],))
    Queries(query, (changed,), cut(choices, TIMES), slice_rows=64, workers=1 + seed % 2).run()
    assert TALLY["queries: compared"] == 1, TALLY


LEFT_OUT = {
    "NOT EXISTS": "SELECT CAST(sqrt(a) AS BIGINT) AS x FROM t WHERE NOT EXISTS (SELECT 1 FROM v WHERE v.b = t.a)",
    "NOT IN": "SELECT CAST(sqrt(a) AS BIGINT) AS x FROM t WHERE a NOT IN (SELECT b FROM v)",
    "ANTI JOIN": "SELECT CAST(sqrt(a) AS BIGINT) AS x FROM t ANTI JOIN v ON b = a",
    "a join above": "SELECT CAST(sqrt(q.a) AS BIGINT) AS x FROM (FROM t ANTI JOIN v ON b = a) q JOIN t u ON q.a = u.a",
    "a sum": "SELECT sum(CAST(sqrt(a) AS BIGINT)) AS x FROM t LEFT JOIN v ON b = a WHERE b IS NULL",
    "a left join": "SELECT CAST(sqrt(coalesce(b, -1) + 5) AS BIGINT) AS x FROM t LEFT JOIN v ON b > a WHERE a > 0",
}
SIGNED = {name: source(name, {column: integer(-9, 9)}, 100) for name, column in (("t", "a"), ("v", "b"))}


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("name", LEFT_OUT)
def test_a_value_of_a_row_that_a_query_leaves_out_has_no_error(name, workers):
    with closing(Dataflow(sql(LEFT_OUT[name], SIGNED), workers=workers)) as dataflow:
        rows = {"t": Batch([0, 0], [1, 1], {"a": [4, -1]}), "v": Batch([0, 0], [1, 1], {"b": [-1, -1]})}
        assert dataflow.feed(rows).columns["x"].tolist() == [2]
        if name != "a left join":
            with pytest.raises(DeltamarkError, match="a DOUBLE outside the range of a cast"):
                dataflow.feed({"v": Batch([1, 1], [-1, -1], {"b": [-1, -1]})})


DOUBLES = source("t", {"key": integer(0, 9), "x": DOUBLE}, rows=100)
MAGNITUDES = (1e308, 0.1, -1e16, 2.0**-1074, 1e16, 0.2, -1e308, 1.0, 1e-300, -0.1)


def values_of(batch: Batch, name: str) -> list[float]:
    return doubles(batch.columns[name]).tolist()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_sum_of_doubles_is_the_nearest_to_the_exact_one_and_forgets_what_leaves(workers):
    plan = DOUBLES.aggregate("key", total=col.x.sum())
    live: list[float] = []
    with closing(Dataflow(plan, workers=workers)) as dataflow:
        for time, value in enumerate([*MAGNITUDES, *reversed(MAGNITUDES)]):
            diff = 1 if time < len(MAGNITUDES) else -1
            found = dataflow.feed({"t": Batch([time], [diff], {"key": [1], "x": np.array([value])})})
            live.append(value) if diff > 0 else live.remove(value)
            inserted = [x for x, weight in zip(values_of(found, "total"), found.diff, strict=True) if weight > 0]
            if inserted:
                assert inserted == [float(sum(map(Fraction, live)))]
        assert not live
        assert found.diff.tolist() == [-1]
        again = dataflow.feed({"t": Batch([99], [1], {"key": [1], "x": np.array([0.5])})})
        assert values_of(again, "total") == [0.5]


ORDERED = source("t", {"key": integer(0, 9), "at": integer(0, 99), "x": DOUBLE}, rows=100)
FRAMES = {
    "running": (running_sum("x"), (-99, 0)),
    "moving": (moving_sum("x", rows_between(-2, 1)), (-2, 1)),
    "from here": (moving_sum("x", rows_between(0, None)), (0, 99)),
    "of values": (moving_sum("x", values_between(-3, 0)), (-3, 0)),
}


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("name", FRAMES)
def test_a_sum_of_doubles_over_a_frame_is_the_nearest_to_the_exact_one(name, workers):
    """Small numbers come and go before large ones that cancel each other: rounded sums are equal, and others differ."""
    function, (first, last) = FRAMES[name]
    plan = ORDERED.window("key", ["at"], total=function)
    order = [3, 9, 0, 5, 7, 1, 8, 2, 6, 4]
    live: dict[int, float] = {}
    said: Counter[tuple[int, float]] = Counter()
    with closing(Dataflow(plan, workers=workers)) as dataflow:
        for time, at in enumerate([*order, *reversed(order)]):
            diff = 1 if time < len(order) else -1
            columns = {"key": [1], "at": [at], "x": np.array([MAGNITUDES[at]])}
            found = dataflow.feed({"t": Batch([time], [diff], columns)})
            for row in zip(found.columns["at"].tolist(), values_of(found, "total"), found.diff.tolist(), strict=True):
                said[row[:2]] += row[2]
            live = {**live, at: MAGNITUDES[at]} if diff > 0 else {key: x for key, x in live.items() if key != at}
            places = {key: key if name == "of values" else place for place, key in enumerate(sorted(live))}
            wanted = {}
            for key in live:
                inside = (x for each, x in live.items() if first <= places[each] - places[key] <= last)
                wanted[key, float(sum(map(Fraction, inside)))] = 1
            assert {row: count for row, count in said.items() if count} == wanted


def test_infinities_and_nan_leave_a_sum_with_their_rows():
    plan = DOUBLES.aggregate(total=col.x.sum())
    feeds = [(1.5, 1), (math.inf, 1), (-math.inf, 1), (math.inf, -1), (math.nan, 1), (-math.inf, -1), (math.nan, -1)]
    wanted = [1.5, math.inf, math.nan, -math.inf, math.nan, math.nan, 1.5]
    last = math.nan
    with closing(Dataflow(plan)) as dataflow:
        for time, ((value, diff), total) in enumerate(zip(feeds, wanted, strict=True)):
            found = dataflow.feed({"t": Batch([time], [diff], {"key": [1], "x": [value]})})
            if time == 0 or not np.array_equal([last], [total], equal_nan=True):
                assert values_of(found, "total")[-1] == pytest.approx(total, nan_ok=True)
            last = total


OVERFLOWS = {
    "SELECT w * n AS x FROM t": "a number needs more than 64 bits: 4611686018427387904 * 3, in ",
    "SELECT w + w AS x FROM t": "a number needs more than 64 bits: 4611686018427387904 + 4611686018427387904, in ",
    "SELECT TIMESTAMP '2024-01-01' + to_hours(w) AS x FROM t": "a number needs more than 64 bits: 46116860184",
    "SELECT sum(w) - sum(0 - w) AS x FROM t": "a number needs more than 64 bits: ",
    "SELECT CAST(h AS BIGINT) AS x FROM t": "a DOUBLE outside the range of a cast: 1e+300, in ",
    "SELECT CAST(1e6 * (n - 2) AS DECIMAL(4, 2)) AS x FROM t": "a DOUBLE outside the range of a cast: 1000000.0, in ",
    "SELECT CAST(CAST(n * 20 AS DOUBLE) - 0.5 AS DECIMAL(3, 1)) AS x FROM t WHERE n <> 2 OR n IS NULL": None,
    "SELECT CAST(CAST(n * 40 AS DOUBLE) AS DECIMAL(4, 2)) AS x FROM t": "a DOUBLE outside the range of a cast: 120.0",
    "SELECT CAST(n / nullif(n - 3, 0) + h AS DECIMAL(9, 2)) AS x FROM t": None,
}
WIDE = sql_tables(
    "CREATE TABLE t (w BIGINT CHECK (w BETWEEN -4611686018427387904 AND 4611686018427387904),"
    " n INTEGER CHECK (n BETWEEN 0 AND 9), h DOUBLE)"
)


@pytest.mark.parametrize("text", OVERFLOWS)
def test_a_value_that_does_not_fit_is_an_error_of_the_feed_and_null_is_none(text):
    def batch(time, w, n, h):
        return {"t": arrow_batch(pa.table({"w": [w], "n": [n], "h": pa.array([h], pa.float64())}), schema, time)}

    schema = WIDE["t"].schema
    with closing(Dataflow(sql(text, WIDE))) as dataflow:
        dataflow.feed(batch(0, None, None, None))
        dataflow.feed(batch(1, 2, 2, 2.5))
        if OVERFLOWS[text] is not None:
            with pytest.raises(DeltamarkError) as error:
                dataflow.feed(batch(2, 2**62, 3, 1e300))
            assert str(error.value).startswith(OVERFLOWS[text])
            assert "\n" not in str(error.value)


def test_arrow_has_the_values_of_all_types_in_both_directions():
    utc = dt.UTC
    rows = pa.table({
        "g": pa.array([0.1, None, math.nan, -math.inf]),
        "f": pa.array([0.5, None, 1.5, -2.25], pa.float32()),
        "s": pa.array([dt.datetime.fromisoformat("1969-07-20 20:17:40"), None, None, None], pa.timestamp("ms")),
        "z": pa.array([dt.datetime(2024, 2, 29, 1, tzinfo=utc), None, None, None], pa.timestamp("us", "UTC")),
        "c": pa.array([dt.time(13, 14, 15, 123456), None, None, dt.time(0)], pa.time64("us")),
    })  # fmt: skip
    table = arrow_table("t", rows, 9)
    assert [each.sql for each in table.schema.fields] == [
        "DOUBLE", "FLOAT", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIME",
    ]  # fmt: skip
    with closing(Dataflow(sql("SELECT g, f, s, z, c FROM t", {"t": table}))) as dataflow:
        changes = dataflow.feed({"t": arrow_batch(rows, table.schema, 0)})
    found = arrow_changes(changes, table.schema).drop_columns(["time", "diff"]).to_pylist()
    assert sorted(map(str, found)) == sorted(map(str, rows.to_pylist()))


def test_a_batch_has_doubles_and_times_as_python_and_numpy_have_them():
    types = {"x": DOUBLE.or_null(), "s": MOMENTS, "c": TIME}
    moments = pa.array([dt.datetime.fromisoformat("1992-01-01 12:00:00")] * 3)
    columns = {"s": moments, "c": pa.array([dt.time(1)] * 3)}
    with closing(Dataflow(source("t", types, rows=99))) as dataflow:
        for time, values in enumerate(([1, None, 2.5], np.array([1.0, 2.0, math.inf]), pa.array([1.5, None, 2.5]))):
            found = dataflow.feed({"t": Batch([time] * 3, [1, 1, 1], {"x": values, **columns})})
            wanted = [NULL if each is None else stored_double(each) for each in pa.array(values).to_pylist()]
            assert sorted(found.columns["x"].tolist()) == sorted(wanted)
            assert value_of(TIME, found.columns["c"][0]) == dt.time(1)
        with pytest.raises(DeltamarkError, match=r"not a column of doubles: t\.x"):
            dataflow.feed({"t": Batch([9] * 3, [1, 1, 1], {"x": ["a", "b", "c"], **columns})})


def test_by_hand_a_double_is_computed_with():
    with closing(Dataflow(DOUBLES.where(col.x * 3 > 1).select(y=(col.x / 3).round(2), z=col.x.cast("BIGINT")))) as flow:
        found = flow.feed({"t": Batch([0, 0], [1, 1], {"key": [1, 1], "x": [2.5, 0.1]})})
    assert values_of(found, "y") == [0.83]
    assert found.columns["z"].tolist() == [2]


def test_the_largest_bounds_are_no_obstacle():
    wide = source("t", {"a": integer(-LARGEST, LARGEST), "b": integer(-LARGEST, LARGEST, scale=4)}, rows=9)
    with closing(Dataflow(wide.where((col.a > col.b) | (col.a == col.b)).select("a"))) as dataflow:
        found = dataflow.feed({"t": Batch([0] * 3, [1] * 3, {"a": [LARGEST, 3, 2], "b": [LARGEST, 30000, 20001]})})
    assert sorted(found.columns["a"].tolist()) == [3, LARGEST]
