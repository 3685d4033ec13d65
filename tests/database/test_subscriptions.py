"""Subscriptions: the changes of each commit, for readers in the same thread, in other threads and in a loop."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections import Counter

import pyarrow as pa
import pytest

from deltamark import DeltamarkError, connect
from deltamark.database.subscriptions import Subscription


@pytest.fixture
def con():
    with connect() as found:
        found.execute("CREATE TABLE sales (shop INTEGER, price DECIMAL(9, 2))")
        found.execute("CREATE VIEW revenue AS SELECT shop, sum(price) AS revenue FROM sales GROUP BY shop")
        found.execute("CREATE VIEW rich AS SELECT shop FROM revenue WHERE revenue > 5")
        yield found


def changes(subscription):
    """Return the changes of each batch that waits, without their times."""
    found = []
    while (each := subscription.read(timeout=0)) is not None:
        assert set(each.arrow()["time"].to_pylist()) <= {each.time}
        found.append([row[1:] for row in each.fetchall()])
    return found


def test_a_batch_has_the_net_changes_of_a_commit(con):
    con.execute("INSERT INTO sales VALUES (1, 2)")
    revenue, rich = con.subscribe("revenue"), con.subscribe("RICH", snapshot=True)
    assert changes(rich) == [[]]
    con.execute("INSERT INTO sales VALUES (1, 2), (2, 9)")
    with con.transaction():
        con.execute("UPDATE sales SET price = price + 1")
        con.insert("sales", [{"shop": 3, "price": 1}])
        con.execute("DELETE FROM sales WHERE shop = 2")
        assert [sorted(each) for each in changes(revenue)] == [[(-1, 1, 2), (1, 1, 4), (1, 2, 9)]]
    con.execute("UPDATE sales SET price = price")
    (found,) = changes(revenue)
    assert sorted(found) == [(-1, 1, 4), (-1, 2, 9), (1, 1, 6), (1, 3, 1)]
    assert [diff for diff, *_ in found] == [-1, -1, 1, 1]
    assert changes(rich) == [[(1, 2)], [(-1, 2), (1, 1)]]


def test_a_snapshot_is_the_present_answer(con):
    con.execute("INSERT INTO sales VALUES (1, 2), (2, 9)")
    con.execute("CREATE VIEW halves AS SELECT shop // 2 AS half FROM sales")
    con.execute("INSERT INTO sales VALUES (3, 9), (1, 1)")
    halves = con.subscribe("halves", snapshot=True)
    assert Counter(changes(halves)[0]) == {(1, 0): 2, (1, 1): 2}
    con.execute("DELETE FROM sales WHERE price < 9; INSERT INTO sales VALUES (2, 1)")
    assert changes(halves) == [[(-2, 0)], [(1, 1)]]


def test_times_grow_with_each_commit_also_when_views_are_loaded_anew(con):
    revenue = con.subscribe("revenue", snapshot=True)
    times = [next(revenue).time]
    for number in range(4):
        con.execute("INSERT INTO sales VALUES (1, 2)")
        if number == 1:
            con._views.invalidate()
        times.append(next(revenue).time)
    assert times == sorted(set(times))


def test_changes_are_frames(con):
    revenue = con.subscribe("revenue")
    con.execute("INSERT INTO sales VALUES (1, 2.5)")
    found = next(revenue)
    assert (found.columns, found.types) == (
        ["time", "diff", "shop", "revenue"], ["BIGINT", "BIGINT", "INTEGER", "DECIMAL(38,2)"],
    )  # fmt: skip
    schema = pa.schema(
        [("time", pa.int64()), ("diff", pa.int64()), ("shop", pa.int32()), ("revenue", pa.decimal128(38, 2))]
    )
    assert pa.table(found).schema == found.arrow().schema == schema
    assert found.df()["revenue"].tolist() == [2.5]
    assert "<td>2.50</td>" in found._repr_html_().replace(' style="text-align: right"', "")
    assert con.execute("FROM revenue").arrow() == found.arrow().drop_columns(["time", "diff"])


def test_subscribers_see_only_commits(con):
    con.execute("CREATE VIEW squares AS SELECT (price * price) * (price * price) AS square FROM sales")
    revenue = con.subscribe("revenue")
    con.begin()
    con.execute("INSERT INTO sales VALUES (1, 2)")
    con.rollback()
    with pytest.raises(DeltamarkError, match="refuses"):
        con.execute("INSERT INTO sales VALUES (1, 'x')")
    with pytest.raises(DeltamarkError, match="view squares cannot follow"):
        con.execute("INSERT INTO sales VALUES (1, 99999)")
    assert changes(revenue) == []
    con.execute("INSERT INTO sales VALUES (1, 2)")
    assert changes(revenue) == [[(1, 1, 2)]]


def test_a_commit_that_fails_last_is_not_seen(con, monkeypatch):
    revenue = con.subscribe("revenue")
    with monkeypatch.context() as patch:
        patch.setattr(type(con._store), "commit", lambda _: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            con.execute("INSERT INTO sales VALUES (1, 2)")
    assert changes(revenue) == []
    con.execute("INSERT INTO sales VALUES (1, 3)")
    assert changes(revenue) == [[(1, 1, 3)]]


def test_an_interrupt_between_a_commit_and_its_readers_is_an_error_of_theirs(con, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    revenue = con.subscribe("revenue")
    with monkeypatch.context() as patch:
        patch.setattr(Subscription, "add", interrupt)
        with pytest.raises(KeyboardInterrupt):
            con.execute("INSERT INTO sales VALUES (1, 2)")
    with pytest.raises(DeltamarkError, match="subscriptions that may lack a commit"):
        next(revenue)
    assert con.execute("FROM revenue").fetchall() == [(1, 2)]


def test_a_slow_reader_gets_an_error_and_holds_nothing(con):
    revenue, fast = con.subscribe("revenue", max_rows=3), con.subscribe("revenue", max_rows=3)
    con.execute("INSERT INTO sales SELECT range, 1 FROM range(10)")  # one commit may have more rows
    assert len(next(fast)) == 10
    con.execute("INSERT INTO sales VALUES (11, 1)")
    assert repr(revenue) == "Subscription to revenue: 0 batches of 0 changes wait, closed"
    for _ in range(2):
        with pytest.raises(
            DeltamarkError, match="a subscription whose reader is too slow: revenue: 11 changes wait; sub"
        ):
            next(revenue)
    assert changes(fast) == [[(1, 11, 1)]]
    assert len(next(con.subscribe("revenue", snapshot=True, max_rows=3))) == 11


def test_subscriptions_end_when_they_or_the_connection_are_closed(con):
    one, two = con.subscribe("revenue"), con.subscribe("revenue")
    con.execute("INSERT INTO sales VALUES (1, 2)")
    with one:
        assert len(next(one)) == 1
    con.execute("INSERT INTO sales VALUES (1, 2)")
    assert list(one) == []
    con.close()
    assert [each.time for each in two] == [1, 2]  # what was committed
    assert two.read(timeout=0) is None
    with pytest.raises(DeltamarkError, match="the database is closed"):
        con.subscribe("revenue")


@pytest.mark.parametrize(
    "text",
    [
        "DROP VIEW revenue CASCADE",
        "DROP TABLE sales CASCADE",
        "CREATE OR REPLACE VIEW rich AS SELECT 1 AS shop FROM sales",
    ],
)
def test_dropping_a_view_ends_its_subscriptions(con, text):
    rich = con.subscribe("rich")
    con.execute("INSERT INTO sales VALUES (1, 20)")
    con.execute(text)
    assert next(rich).fetchall() == [(1, 1, 1)]
    with pytest.raises(DeltamarkError, match="a subscription to a view that was dropped: rich; subscribe"):
        next(rich)


def test_a_view_that_is_not_replaced_keeps_its_subscriptions(con):
    rich = con.subscribe("rich")
    with pytest.raises(DeltamarkError):
        con.execute("CREATE OR REPLACE VIEW rich AS SELECT random() AS shop FROM sales")
    con.execute("INSERT INTO sales VALUES (1, 20)")
    assert changes(rich) == [[(1, 1)]]


def test_views_with_columns_of_changes_are_refused(con):
    con.execute("CREATE VIEW timed AS SELECT shop AS time FROM sales")
    with pytest.raises(DeltamarkError, match=r"that changes have themselves: timed\.time; subscribe to a"):
        con.subscribe("timed")
    with pytest.raises(DeltamarkError, match="unknown view: sale; there are"):
        con.subscribe("sale")


def test_readers_in_other_threads_get_all_commits_in_order(con):
    def write(shop):
        for _ in range(15):
            con.insert("sales", [{"shop": shop, "price": 1}])

    readers = [(con.subscribe("revenue"), []) for _ in range(2)]
    reading = [threading.Thread(target=lambda each=each: each[1].extend(each[0])) for each in readers]
    writing = [threading.Thread(target=write, args=[shop]) for shop in range(3)]
    for each in (*reading, *writing):
        each.start()
    for each in writing:
        each.join()
    con.close()
    for each in reading:
        each.join()
    for _, found in readers:
        assert [each.time for each in found] == list(range(1, 46))
        assert summed(found) == Counter([(shop, 15) for shop in range(3)])


def summed(batches):
    total = Counter()
    for _, diff, *row in (row for each in batches for row in each.fetchall()):
        total[tuple(row)] += diff
    return +total


def test_a_callback_is_called_in_a_thread_and_may_use_the_connection(con):
    found, done = [], threading.Event()

    def follow(batch):
        found.append(
            (batch.time, con.execute("SELECT count(*) FROM revenue").fetchone()[0], threading.current_thread())
        )
        if len(found) == 2:
            done.set()

    con.subscribe("revenue", follow, snapshot=True)
    con.execute("INSERT INTO sales VALUES (1, 2)")
    assert done.wait(60)
    assert [each[0] for each in found] == [0, 1]
    assert found[1][1] == 1
    assert threading.current_thread() not in [each[2] for each in found]


def test_an_error_of_a_callback_ends_the_subscription_and_is_reported(con, monkeypatch):
    reported, done = [], threading.Event()

    def report(arguments):
        reported.append(arguments.exc_value)
        done.set()

    monkeypatch.setattr(threading, "excepthook", report)
    subscription = con.subscribe("revenue", lambda batch: batch.no_such_thing)
    con.execute("INSERT INTO sales VALUES (1, 2)")
    assert done.wait(60)
    assert isinstance(reported[0], AttributeError)
    assert subscription.read() is None


def test_a_loop_follows_several_views(con):
    async def follow(view, count):
        found = []
        async for each in con.subscribe(view, snapshot=True):
            found.append(each.fetchall())
            if len(found) == count:
                break
        return found

    async def run():
        followers = [asyncio.create_task(follow(view, 3)) for view in ("revenue", "rich")]
        waits = asyncio.create_task(follow("rich", 9))
        for price in (4, 4):
            await asyncio.sleep(0.01)
            await asyncio.to_thread(con.execute, "INSERT INTO sales VALUES (1, ?), (2, 9)", [price])
        con.execute("DELETE FROM sales")
        found = await asyncio.gather(*followers)
        waits.cancel()
        con.execute("INSERT INTO sales VALUES (1, 7)")
        return found

    revenue, rich = asyncio.run(run())
    assert [len(each) for each in revenue] == [0, 2, 4]
    assert rich == [[], [(1, 1, 2)], [(2, 1, 1)]]
    con.execute("INSERT INTO sales VALUES (1, 2)")  # the loop is closed


def test_a_loop_ends_with_the_connection(con):
    async def run():
        subscription = con.subscribe("revenue")
        asyncio.get_running_loop().call_later(0.01, con.close)
        return [each async for each in subscription]

    assert asyncio.run(run()) == []


def test_a_subscription_without_a_reader_is_forgotten(con):
    subscription = weakref.ref(con.subscribe("revenue"))
    gc.collect()
    assert subscription() is None
    con.execute("INSERT INTO sales VALUES (1, 2)")
