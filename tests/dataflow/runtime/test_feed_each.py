"""Several batches that are given as one change the answers as the same batches do one after another."""

from __future__ import annotations

import time
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamark.dataflow.batch import Batch, concatenated
from deltamark.dataflow.kernels.parallel.key_partition import BLOCK_BITS
from deltamark.dataflow.language.collection import source
from deltamark.dataflow.language.expr import col
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.types import LAST_TIME, integer
from deltamark.errors import DeltamarkError

WORKERS = (1, 3)
KEYS = integer(-(2**40), 2**40)
sales = source("sales", {"shop": KEYS, "price": integer(0, 99)}, 100_000)
shops = source("shops", {"shop": KEYS, "city": integer(0, 9)}, 100_000)
CITIES = sales.join(shops, on="shop").aggregate(by="city", revenue=col.price.sum())


def batch_of(changes):
    time_, diff, shop, price = (np.array(each, np.int64) for each in zip(*changes, strict=True))
    return Batch(time_, diff, {"shop": shop, "price": price})


def fed(plan, batch, ends, workers):
    """Feed the changes up to each end, one batch after another; return the changes of each."""
    found, first = [], 0
    with closing(Dataflow(plan, workers=workers)) as dataflow:
        for end in ends:
            last = int(np.searchsorted(batch.time, end, "right"))
            columns = {name: values[first:last] for name, values in batch.columns.items()}
            found.append(dataflow.feed({"sales": Batch(batch.time[first:last], batch.diff[first:last], columns)}))
            first = last
    return found


@pytest.mark.parametrize("workers", WORKERS)
@given(st.lists(st.tuples(st.integers(0, 20), st.just(1), st.integers(0, 3), st.integers(0, 3))), st.data())
def test_the_changes_are_those_of_single_feeds(workers, rows, data):
    batch = batch_of(sorted(rows)) if rows else Batch([], [], {"shop": [], "price": []})
    ends = sorted(data.draw(st.sets(st.integers(0, 20))) | {21})
    plan = sales.aggregate(by="shop", revenue=col.price.sum())
    wanted = fed(plan, batch, ends, workers)
    with closing(Dataflow(plan, workers=workers)) as dataflow:
        changes, each = dataflow.feed_each({"sales": batch}, ends)
    assert each.changes.tolist() == [len(one.time) for one in wanted]
    assert rows_of(changes) == rows_of(concatenated(wanted))
    with closing(Dataflow(plan, workers=workers)) as dataflow:
        assert dataflow.push_each({"sales": batch}, ends).changes.tolist() == each.changes.tolist()


def rows_of(batch):
    """Return the changes in the order of their times; those of one time may come in any order from several workers."""
    assert batch.time.tolist() == sorted(batch.time)
    return sorted(zip(batch.time, batch.diff, *batch.columns.values(), strict=True))


@pytest.mark.parametrize("workers", WORKERS)
def test_tables_grow_between_two_batches(workers):
    rows = 5000
    ids = np.arange(rows)
    sold = Batch(ids, np.ones(rows, np.int64), {"shop": 2**20 * ids, "price": 1 + ids % 9})
    with closing(Dataflow(CITIES, workers=workers)) as dataflow:
        places = Batch(np.zeros(rows, np.int64), np.ones(rows, np.int64), {"shop": 2**20 * ids, "city": ids % 10})
        changes, _ = dataflow.push_each({"sales": sold, "shops": places}, ids)
        assert changes.sum() == 10 + 2 * (rows - 10)
        after = dataflow.feed({"sales": Batch([rows], [1], {"shop": [0], "price": [1]})})
    assert sorted(after.diff.tolist()) == [-1, 1]


def test_batches_are_exchanged_between_workers_without_a_pause():
    """The owner of a shop is not that of its city, and each batch has rows of all workers."""
    batch = batch_of([(at, 1, shop << BLOCK_BITS, at % 9) for at in range(60) for shop in range(9)])
    places = Batch([0] * 9, [1] * 9, {"shop": np.arange(9) << BLOCK_BITS, "city": np.arange(9)})
    found = []
    for workers in (1, 2, 3):
        with closing(Dataflow(CITIES, workers=workers)) as dataflow:
            changes, each = dataflow.feed_each({"sales": batch, "shops": places}, [7, 8, 30, 59])
            found.append((rows_of(changes), each.changes.tolist(), dataflow.state_rows()))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("workers", WORKERS)
def test_the_clocks_of_the_batches_add_up_to_less_than_the_call(workers):
    with closing(Dataflow(sales.count(), workers=workers)) as dataflow:
        began = time.perf_counter_ns()
        _, nanoseconds = dataflow.push_each({"sales": batch_of([(at, 1, 1, 1) for at in range(100)])}, range(100))
        called = time.perf_counter_ns() - began
    assert (nanoseconds > 0).all()
    assert nanoseconds.sum() < called


@pytest.mark.parametrize("workers", WORKERS)
def test_a_feed_after_them_begins_after_the_last_end(workers):
    with closing(Dataflow(sales.count(), workers=workers)) as dataflow:
        dataflow.push_each({}, [3, 7])
        with pytest.raises(DeltamarkError, match="times out of order: sales: 7 after 7"):
            dataflow.push({"sales": batch_of([(7, 1, 1, 1)])})
        assert dataflow.push({"sales": batch_of([(8, 1, 1, 1)])}) == 1


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize(
    ("ends", "problem"),
    [
        ([], "no batches"),
        ([4, 4], "ends that do not increase: ends: 4 twice, at 0 and 1"),
        ([4, 3], "times out of order: ends: 3 after 4"),
        ([-1], "a time outside its range"),
        ([LAST_TIME + 1], "a time outside its range"),
        ([0.5], "not whole numbers"),
        ([0], "rows after the last batch: time 1, ends: 0"),
        (3, "not a column"),
    ],
)
def test_wrong_ends_are_one_error_and_change_nothing(ends, problem, workers):
    with closing(Dataflow(sales.count(), workers=workers)) as dataflow:
        batch = batch_of([(1, 1, 1, 1)])
        with pytest.raises(DeltamarkError) as error:
            dataflow.push_each({"sales": batch}, ends)
        assert str(error.value).startswith(problem)
        assert dataflow.push_each({"sales": batch}, [1])[0].tolist() == [1]


def test_an_error_in_a_batch_stops_the_dataflow():
    with closing(Dataflow(sales.join(shops, on="shop"))) as dataflow:
        gone = batch_of([(0, 1, 1, 1), (1, -1, 2, 1), (2, 1, 3, 1)])
        with pytest.raises(DeltamarkError, match="negative"):
            dataflow.push_each({"sales": gone}, [0, 1, 2])
        with pytest.raises(DeltamarkError, match="an earlier call was stopped halfway"):
            dataflow.push({})
        with pytest.raises(DeltamarkError, match="an earlier call was stopped halfway"):
            dataflow.push_each({"sales": gone}, [0, 1, 2])


def test_profiled_plans_are_refused():
    with closing(Dataflow(sales.count())) as dataflow:
        dataflow.profile()
        with pytest.raises(DeltamarkError, match="push_each after profile"):
            dataflow.push_each({}, [0])


def test_a_pending_plan_is_finished_before_them():
    with closing(Dataflow({"all": sales.join(shops, on="shop")})) as dataflow:
        dataflow.push({"sales": batch_of([(0, 1, at, 1) for at in range(9)])})
        dataflow.attach("late", sales.join(shops, on="shop").count(by="city"), fuel=2)
        with pytest.raises(DeltamarkError, match="another plan is being attached"):
            dataflow.push_each({}, [1])


def test_batches_are_kept_while_a_time_is_held():
    plan = sales.join(shops, on="shop")
    with closing(Dataflow({"all": plan})) as dataflow:
        dataflow.push({"shops": Batch([0], [1], {"shop": [1], "city": [3]})})
        hold = dataflow.hold()
        dataflow.push_each({"sales": batch_of([(1, 1, 1, 5), (2, 1, 1, 6)])}, [1, 2])
        late = dataflow.attach("late", plan.count(by="city"), since=hold)
    assert (late.time.tolist(), late.diff.tolist()) == ([1, 2, 2], [1, -1, 1])
    assert late.columns["count"].tolist() == [1, 1, 2]
