"""Laws of windows: their functions are those of SQL, and a change costs the rows whose values it changes."""

from __future__ import annotations

from collections import Counter

import duckdb
import numpy as np
import pytest
from support.engines.driving import arrays, at_once
from support.engines.duckdb_tables import insert

from deltamark import (
    Batch,
    Dataflow,
    dense_rank,
    groups_between,
    lag,
    lead,
    moving_count,
    moving_largest,
    moving_smallest,
    moving_sum,
    nth_value,
    ntile,
    rank,
    row_number,
    rows_between,
    running_count,
    running_largest,
    running_smallest,
    running_sum,
    values_between,
)
from deltamark.dataflow.language.collection import source
from deltamark.dataflow.types import NULL, TEXT, integer
from deltamark.errors import DeltamarkError

sales = source("sales", {"shop": integer(0, 2), "day": integer(0, 9), "price": integer(-5, 5)}, rows=1000)
notes = source("notes", {"text": TEXT, "n": integer(0, 9)})

ORDER = "PARTITION BY shop ORDER BY day"
TIES = f"({ORDER}, price ROWS UNBOUNDED PRECEDING)"
PEERS = f"({ORDER})"

FUNCTIONS = {
    f"row_number() OVER {TIES}": row_number(),
    f"rank() OVER {PEERS}": rank(),
    f"dense_rank() OVER {PEERS}": dense_rank(),
    f"count(*) OVER {TIES}": running_count(),
    f"count(*) OVER {PEERS}": running_count(with_peers=True),
    f"sum(price) OVER {TIES}": running_sum("price"),
    f"sum(price) OVER {PEERS}": running_sum("price", with_peers=True),
    f"min(price) OVER {TIES}": running_smallest("price"),
    f"max(price) OVER {PEERS}": running_largest("price", with_peers=True),
    f"sum(price) OVER ({ORDER}, price ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING)": moving_sum(
        "price", rows_between(-2, 1)
    ),
    f"sum(price) OVER ({ORDER} RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING)": moving_sum("price", values_between(-2, 1)),
    f"count(*) OVER ({ORDER} RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING EXCLUDE TIES)": moving_count(
        values_between(0, None, without="ties")
    ),
    f"count(*) OVER ({ORDER} GROUPS BETWEEN 1 PRECEDING AND 2 FOLLOWING)": moving_count(groups_between(-1, 2)),
    f"min(price) OVER ({ORDER}, price ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)": moving_smallest(
        "price", rows_between(0, None)
    ),
    f"coalesce(max(price) OVER ({ORDER} RANGE UNBOUNDED PRECEDING EXCLUDE GROUP), {NULL})": moving_largest(
        "price", values_between(None, 0, without="peers")
    ),
    f"ntile(4) OVER ({ORDER}, price)": ntile(4),
    f"coalesce(lag(price, 2) OVER ({ORDER}, price), {NULL})": lag("price", 2),
    f"coalesce(lead(price) OVER ({ORDER}, price), {NULL})": lead("price"),
    f"last_value(price) OVER ({ORDER}, price ROWS BETWEEN CURRENT ROW AND 3 FOLLOWING)": nth_value(
        "price", -1, rows_between(0, 3)
    ),
}


def history(seed, times=30):
    """Return changes of sales: (row, time, diff)."""
    rng, live, changes = np.random.default_rng(seed), [], []
    for time in range(times):
        for _ in range(rng.integers(1, 6)):
            if live and rng.random() < 0.4:
                changes.append((live.pop(rng.integers(len(live))), time, -1))
            else:
                live.append((int(rng.integers(3)), int(rng.integers(10)), int(rng.integers(-5, 6))))
                changes.append((live[-1], time, 1))
    return live, changes


def answer(changes):
    """Return the rows of a change stream, each as often as its weight says."""
    found = {}
    for (_, row), diff in changes.items():
        found[row] = found.get(row, 0) + diff
    return sorted(row for row, count in found.items() for _ in range(count))


@pytest.mark.parametrize("text", FUNCTIONS)
def test_a_function_is_that_of_sql(text):
    live, changes = history(seed=1)
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE sales (shop BIGINT, day BIGINT, price BIGINT)")
        insert(connection, "sales", live)
        expected = connection.execute(f"SELECT *, {text} FROM sales").fetchall()
    found = at_once(sales.window("shop", ["day"], value=FUNCTIONS[text]), {"sales": changes})
    assert answer(found) == sorted(expected)


@pytest.mark.parametrize("place", [row_number(), rank(), dense_rank()])
@pytest.mark.parametrize("limit", [1, 2, 5])
def test_a_limit_keeps_the_rows_up_to_a_place(place, limit):
    _, changes = history(seed=2)
    whole = at_once(sales.window("shop", ["-price"], place=place), {"sales": changes})
    limited = at_once(sales.window("shop", ["-price"], limit, place=place), {"sales": changes})
    assert limited == {(time, row): diff for (time, row), diff in whole.items() if row[-1] <= limit}


def test_the_first_rows_of_each_group():
    _, changes = history(seed=3)
    first = at_once(sales.top(2, ["-price"], by="shop"), {"sales": changes})
    expected = [row for shop in range(3) for row in sorted(of_shop(changes, shop), key=lambda row: (-row[2], row))[:2]]
    assert answer(first) == sorted(expected)


def of_shop(changes, shop):
    return [row for row in answer({(at, row): diff for at, (row, _, diff) in enumerate(changes)}) if row[0] == shop]


@pytest.mark.parametrize(
    ("function", "number", "changed"),
    [
        (row_number(), 1001, 500), (rank(), 1000, 500), (dense_rank(), 1000, 1), (running_largest("n"), 1001, 1),
        (lag("n"), 1001, 2), (lead("n", 3), 1001, 4), (moving_sum("n", rows_between(-2, 1)), 1001, 4),
        (moving_count(values_between(-4, 4)), 1001, 5), (moving_smallest("n", rows_between(0, None)), 1001, 1),
        (nth_value("n", 1, rows_between(None, None)), 1001, 1), (nth_value("n", 2, rows_between(None, 5)), 1001, 1),
        (moving_largest("n", rows_between(None, -3)), 1001, 4), (nth_value("n", -1, rows_between(3, None)), 1001, 1),
        (ntile(4), 1001, 3),
    ],
)  # fmt: skip
def test_only_rows_whose_values_differ_change(function, number, changed):
    """A number among 1,000 even ones moves the places behind it, but not the largest number."""
    numbers = source("numbers", {"n": integer(0, 2000)}, rows=2000)
    with Dataflow(numbers.window((), ["n"], value=function)) as dataflow:
        at = np.arange(1000)
        dataflow.feed({"numbers": Batch(0 * at, 0 * at + 1, {"n": 2 * at})})
        found = dataflow.feed({"numbers": Batch([1], [1], {"n": [number]})})
    assert np.count_nonzero(np.asarray(found.diff) > 0) == changed


FRAMES = {
    "ROWS BETWEEN 40 PRECEDING AND CURRENT ROW": rows_between(-40, 0),
    "ROWS BETWEEN 3 PRECEDING AND 60 FOLLOWING": rows_between(-3, 60),
    "ROWS BETWEEN 50 PRECEDING AND 20 PRECEDING": rows_between(-50, -20),
    "ROWS BETWEEN 5 FOLLOWING AND 45 FOLLOWING": rows_between(5, 45),
    "ROWS BETWEEN 30 PRECEDING AND 30 PRECEDING": rows_between(-30, -30),
    "ROWS BETWEEN 30 FOLLOWING AND 30 FOLLOWING": rows_between(30, 30),
    "ROWS BETWEEN UNBOUNDED PRECEDING AND 20 FOLLOWING": rows_between(None, 20),
    "ROWS BETWEEN 20 PRECEDING AND UNBOUNDED FOLLOWING": rows_between(-20, None),
    "RANGE BETWEEN 30 PRECEDING AND CURRENT ROW": values_between(-30, 0),
    "RANGE BETWEEN 10 PRECEDING AND 25 FOLLOWING": values_between(-10, 25),
    "RANGE BETWEEN 30 PRECEDING AND 12 PRECEDING": values_between(-30, -12),
    "RANGE UNBOUNDED PRECEDING": values_between(None, 0),
    "GROUPS BETWEEN 15 PRECEDING AND 3 FOLLOWING": groups_between(-15, 3),
    "GROUPS BETWEEN CURRENT ROW AND 20 FOLLOWING": groups_between(0, 20),
    "GROUPS BETWEEN 25 PRECEDING AND 4 PRECEDING": groups_between(-25, -4),
}
PRICES = {
    "ascending": lambda day, _: day + 1, "descending": lambda day, _: -day,
    "of few values": lambda _, rng: int(rng.integers(3)), "of many values": lambda _, rng: int(rng.integers(-500, 500)),
}  # fmt: skip
"""By name, the price of a row on a day. In ordered prices each extreme is at an end of its frame."""


def framed(text, frame):
    """Return functions over a frame by their text in SQL."""
    by_rows = text.startswith("ROWS")
    over = f"OVER (ORDER BY day NULLS FIRST{', price NULLS FIRST' if by_rows else ''} {text})"
    functions = {
        f"min(price) {over}": moving_smallest("price", frame), f"max(price) {over}": moving_largest("price", frame),
        f"count(*) {over}": moving_count(frame), f"count(price) {over}": moving_count(frame, "price"),
    }  # fmt: skip
    if by_rows:  # otherwise the order of ties is open in SQL
        functions |= {
            f"first_value(price) {over}": nth_value("price", 1, frame),
            f"last_value(price) {over}": nth_value("price", -1, frame),
            f"nth_value(price, 3) {over}": nth_value("price", 3, frame),
            f"first_value(price IGNORE NULLS) {over}": nth_value("price", 1, frame, known=True),
        }
    return functions


def small_changes(price, rng, times=25):
    """Yield the live rows at each time, and those that leave and arrive: 200 at first, then few."""
    live = []
    for time in range(times):
        leaving = [live.pop(rng.integers(len(live))) for _ in range(rng.integers(3) if live else 0)]
        arriving = []
        for _ in range(rng.integers(3) if time else 200):
            day = NULL if rng.random() < 0.05 else int(rng.integers(100))
            arriving.append((day, NULL if rng.random() < 0.1 else price(max(day, 0), rng)))
        if leaving and rng.random() < 0.5:  # a row is replaced at its place
            arriving.append((leaving[0][0], int(rng.integers(-500, 500))))
        live += arriving
        yield live, leaving, arriving


@pytest.mark.draws(12)
@pytest.mark.parametrize("prices", PRICES)
@pytest.mark.parametrize("text", FRAMES)
def test_small_changes_of_many_rows_leave_the_values_of_sql(text, prices):
    rng, functions = np.random.default_rng(len(text)), framed(text, FRAMES[text])
    rows = source("rows", {"day": integer(0, 99).or_null(), "price": integer(-500, 500).or_null()}, rows=2000)
    plans = {name: rows.window((), ["day"], value=each) for name, each in functions.items()}
    plans["all"] = rows.window((), ["day"], **{f"f{at}": each for at, each in enumerate(functions.values())})
    found = {name: Counter() for name in plans}
    with duckdb.connect() as connection, Dataflow(plans) as dataflow:
        for time, (live, leaving, arriving) in enumerate(small_changes(PRICES[prices], rng)):
            changed = [(row, time, -1) for row in leaving] + [(row, time, 1) for row in arriving]
            for name, changes in dataflow.feed({"rows": arrays(rows.schema, changed)}).items():
                columns = (column.tolist() for column in changes.columns.values())
                for diff, *row in zip(changes.diff.tolist(), *columns, strict=True):
                    found[name][tuple(row)] += diff
            connection.execute("CREATE OR REPLACE TABLE rows (day BIGINT, price BIGINT)")
            insert(connection, "rows", live)
            answer = connection.execute(f"SELECT day, price, {', '.join(functions)} FROM rows").fetchall()
            expected = [tuple(NULL if value is None else value for value in row) for row in answer]
            assert +found["all"] == Counter(expected)
            for number, name in enumerate(functions, 2):
                assert +found[name] == Counter((*row[:2], row[number]) for row in expected), (name, time)


@pytest.mark.parametrize(
    ("arguments", "functions", "error"),
    [
        ((), {}, "a window without a function"),
        (("shop", ["day"], 0), {"place": row_number()}, "no such number of rows"),
        (("shop", ["day"], 2), {"sum": running_sum("price")}, "a limit of a function that is no place"),
        (("shop", ["day"]), {"day": rank()}, "a column given twice"),
        (("shop", ["da"]), {"place": rank()}, "day"),
        (("shop", ["day"]), {"sum": 3}, "not a function of a window"),
        (("shop", ["day"], 2), {"sum": lag("price")}, "a limit of a function that is no place"),
        (("shop", []), {"sum": moving_sum("price", values_between(-1, 1))}, "a frame by values that are no numbers"),
    ],
)
def test_errors(arguments, functions, error):
    with pytest.raises(DeltamarkError, match=error):
        sales.window(*arguments, **functions)


@pytest.mark.parametrize("function", [running_sum("text"), moving_sum("text", rows_between(-1, 1))])
def test_texts_have_no_sums(function):
    with pytest.raises(DeltamarkError, match="no sum of this type"):
        notes.window("n", [], total=function)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: rows_between("a", 1), "not an end of a frame"),
        (lambda: rows_between(0, 1, without="all"), "no such rows of a frame"),
        (lambda: nth_value("price", 0, rows_between(0, 1)), "no such row of a frame"),
        (lambda: nth_value("price", 1, rows_between(0, 1, without="row")), "a row of a frame without some rows"),
    ],
)
def test_errors_of_frames(make, error):
    with pytest.raises(DeltamarkError, match=error):
        make()
