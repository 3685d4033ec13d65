"""Laws of picks: their values are SQL's aggregates in an order, and groups that empty come back."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import duckdb
import numpy as np
import pytest
from support.engines.driving import at_once
from support.engines.duckdb_tables import insert

from deltamark import Batch, Dataflow, first, last, median, quantile_cont, quantile_disc, string_agg
from deltamark.dataflow.language.collection import source
from deltamark.dataflow.types import NULL, TEXT, integer
from deltamark.errors import DeltamarkError

sales = source("sales", {"shop": integer(0, 2), "day": integer(0, 9), "price": integer(-5, 5)}, rows=1000)
notes = source("notes", {"text": TEXT, "n": integer(0, 9)})

PICKS = {
    "first(price ORDER BY day, price)": (["day"], first("price")),
    "last(price ORDER BY day, price)": (["day"], last("price")),
    "first(day ORDER BY price DESC, day)": (["-price"], first("day")),
    "quantile_disc(price, 0.3)": (["price"], quantile_disc("price", 0.3)),
    "quantile_disc(day, 0.9)": (["day"], quantile_disc("day", Decimal("0.9"))),
    "quantile_disc(price, 0.25 ORDER BY price DESC)": (["-price"], quantile_disc("price", Fraction(1, 4))),
    "2 * median(price)": (["price"], median("price")),
    "10 * quantile_cont(day, 0.3)": (["day"], quantile_cont("day", 0.3)),
}


def history(seed, times=40):
    """Return changes of sales (row, time, diff): at some times all rows leave, at others many copies come."""
    rng, live, changes = np.random.default_rng(seed), [], []
    for time in range(times):
        for _ in range(rng.integers(1, 6)):
            if live and rng.random() < 0.4:
                changes.append((live.pop(rng.integers(len(live))), time, -1))
            else:
                row, copies = tuple(map(int, (rng.integers(3), rng.integers(10), rng.integers(-5, 6)))), 1
                if rng.random() < 0.1:
                    copies = 9
                live += [row] * copies
                changes.append((row, time, copies))
        if rng.random() < 0.1:
            changes += [(row, time, -1) for row in live]
            live.clear()
    return changes


@pytest.mark.parametrize("text", PICKS)
def test_a_picked_value_is_that_of_sql_at_every_time(text):
    changes = history(seed=1)
    order, value = PICKS[text]
    found = at_once(sales.pick("shop", order, value=value), {"sales": changes})
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE sales (shop BIGINT, day BIGINT, price BIGINT)")
        for time in range(40):
            live = [row for row, at, diff in changes if at == time and diff > 0 for _ in range(diff)]
            insert(connection, "sales", live)
            for row in (row for row, at, diff in changes if at == time and diff < 0):
                one = "(SELECT min(rowid) FROM sales WHERE (shop, day, price) = (?, ?, ?))"
                connection.execute(f"DELETE FROM sales WHERE rowid = {one}", row)
            expected = connection.execute(f"SELECT shop, {text} FROM sales GROUP BY shop").fetchall()
            assert answer(found, time) == sorted((shop, round(value)) for shop, value in expected)


def test_texts_of_a_group_are_written_in_order_without_null():
    words = source("words", {"shop": integer(0, 2), "n": integer(0, 9), "word": TEXT.or_null()}, rows=100)
    plan = words.pick("shop", ["-n"], all=string_agg("word", "; "), low=last("n"))
    row, other, missing = (0, 3, "ab"), (0, 5, "a" * 20), (0, 4, NULL)
    changes = [
        (row, 0, 2),
        (missing, 0, 1),
        (other, 1, 1),
        (row, 2, -1),
        (missing, 3, -1),
        (other, 4, -1),
        (row, 4, -1),
    ]
    changes += [(missing, 5, 1), ((1, 1, ""), 5, 1), (row, 6, 1)]
    written = {(0, "ab; ab", 3): (0, 1), (0, f"{'a' * 20}; ab; ab", 3): (1, 2), (0, f"{'a' * 20}; ab", 3): (2, 4)}
    expected = {(time, row): diff for row, times in written.items() for time, diff in zip(times, (1, -1), strict=True)}
    expected |= {(5, (0, NULL, 4)): 1, (6, (0, NULL, 4)): -1, (6, (0, "ab", 3)): 1, (5, (1, "", 1)): 1}
    assert at_once(plan, {"words": changes}) == expected
    with pytest.raises(DeltamarkError, match=r"not a column of texts: n \(int\); name a column of type TEXT"):
        words.pick("shop", x=string_agg("n"))


def answer(changes, time):
    """Return the rows of a change stream at a time, without the denominators."""
    found = {}
    for (at, row), diff in changes.items():
        found[row] = found.get(row, 0) + diff * (at <= time)
    assert set(found.values()) <= {0, 1}
    return sorted(row[:2] for row, count in found.items() if count)


def test_a_time_that_moves_no_place_changes_nothing():
    with Dataflow(sales.pick("shop", ["price"], low=first("price"), middle=median("price"))) as dataflow:
        columns = {"shop": [1] * 5, "day": [1] * 5, "price": [-2, 0, 0, 0, 5]}
        dataflow.feed({"sales": Batch([0] * 5, [1] * 5, columns)})
        found = dataflow.feed({"sales": Batch([1, 1], [1, 1], {"shop": [1, 1], "day": [2, 2], "price": [-1, 4]})})
    assert not len(found.time)


def test_texts_are_picked_by_their_bytes():
    rows = [((text, n), 0, 1) for n, text in enumerate(["b", "", "long text b", "long text a", "é"])]
    found = at_once(notes.pick((), ["-text"], a=first("text"), b=quantile_disc("text", 0.5)), {"notes": rows})
    assert found == {(0, ("é", "long text a")): 1}


@pytest.mark.parametrize(
    ("arguments", "values", "error"),
    [
        ((), {}, "a pick without a value"),
        (("shop", ["da"]), {"x": first("price")}, "day"),
        (("shop", ["day"]), {"x": first("prices")}, "price"),
        (("shop", ["day"]), {"shop": first("price")}, "a column given twice"),
        (("shop", ["day"]), {"x": 3}, "not a value of a pick"),
    ],
)
def test_errors(arguments, values, error):
    with pytest.raises(DeltamarkError, match=error):
        sales.pick(*arguments, **values)


@pytest.mark.parametrize("share", [2, -0.5, "half", 1 / 3])
def test_a_share_is_a_short_number_from_0_to_1(share):
    with pytest.raises(DeltamarkError, match="not a share of rows"):
        quantile_disc("price", share)


def test_only_numbers_are_interpolated():
    with pytest.raises(DeltamarkError, match="cannot be interpolated"):
        notes.pick((), [], x=median("text"))
