"""The changes of a shard of upserts add up to the newest row of each key, also if its process loses the table."""

from __future__ import annotations

import copy
import random
from collections import Counter
from decimal import Decimal

import pyarrow as pa
import pytest
from support.engines.chain import State

from deltamark.dataflow.spark import latest_rows
from deltamark.dataflow.spark.latest_rows import RowShardKey, process_batch
from deltamark.dataflow.spark.net_changes import WEIGHT, from_bytes, to_bytes
from deltamark.dataflow.spark.state_log import LiveStates, StateLog
from deltamark.dataflow.spark.upserts import ORDER, UpsertSpec
from deltamark.errors import DeltamarkError

VALUES = {"shop": pa.int32(), "name": pa.string(), "price": pa.decimal128(6, 2)}
KEY = ("shop", "name")
SHARD = RowShardKey("run", "operator", 7)


@pytest.fixture(autouse=True)
def _short_logs(monkeypatch):
    """Merge logs of two entries, and divide entries into several parts."""
    monkeypatch.setattr("deltamark.dataflow.spark.state_log.MIN_MERGED_ENTRIES", 2)
    monkeypatch.setattr("deltamark.dataflow.spark.state_log.MAX_VALUE_BYTES", 300)
    monkeypatch.setattr(latest_rows, "_cached", LiveStates())


class Shard:
    """A shard whose state outlives its table."""

    def __init__(self, *, ordered=True):
        columns = {**VALUES, ORDER: pa.int64()} if ordered else VALUES
        self.spec = UpsertSpec(pa.schema(list(columns.items())), KEY, "operator", {"key": "shop, name"})
        self.state, self.batch = State(), 0

    def take(self, *upserts):
        """Apply a batch; return the weights of the rows. upserts: shop, name, price and perhaps an order."""
        contents = [to_bytes(self.table(upserts[start::2])) for start in range(2) if upserts[start::2]]
        changes = process_batch(self.spec, SHARD, StateLog(self.state), self.batch, contents)
        self.batch += 1
        weights = Counter()
        for row in [] if changes is None else from_bytes(changes).to_pylist():
            weights[row["0"], row["1"], row["2"]] += row[WEIGHT]
        return weights

    def table(self, rows):
        types = [*(field.type for field in self.spec.rows), pa.bool_()]
        columns = zip(*[(*row, row[2] is None) for row in rows], strict=True)
        return pa.table({str(n): pa.array(*each) for n, each in enumerate(zip(columns, types, strict=True))})


def some_upserts(order, batch, count):
    """Draw upserts of a few keys, some of which are NULL; those without a price delete."""
    numbers = order.sample(range(batch * 50, batch * 50 + 120), count)
    return [
        (order.choice([1, 2, None]), order.choice(["a", "b", None]), price, number)
        for number in numbers
        for price in [order.choice([None, Decimal(order.randrange(3)), Decimal("9.25")])]
    ]


@pytest.mark.parametrize("forgetful", [0, 0.4, 1])
def test_changes_add_up_to_the_newest_rows(forgetful):
    order, shard = random.Random(forgetful), Shard()
    newest, total = {}, Counter()
    for batch in range(40):
        upserts = some_upserts(order, batch, order.randrange(1, 8))
        if order.random() < forgetful:
            latest_rows._cached.clear()
        total.update(shard.take(*upserts))
        for shop, name, price, number in sorted(upserts, key=lambda each: each[3]):
            if number >= newest.get((shop, name), (None, -1))[1]:
                newest[shop, name] = price, number
                if price is None:
                    del newest[shop, name]
        assert {row: weight for row, weight in total.items() if weight} == {
            (*key, price): 1 for key, (price, _) in newest.items()
        }


def test_a_repeated_batch_meets_the_state_before_it():
    shard = Shard()
    shard.take((1, "a", Decimal(1), 1), (2, "b", Decimal(2), 1))
    before = copy.deepcopy(shard.state)
    first = shard.take((1, "a", Decimal(5), 2), (2, "b", None, 2))
    shard.state, shard.batch = before, 1
    assert shard.take((1, "a", Decimal(5), 2), (2, "b", None, 2)) == first
    assert first == {(1, "a", Decimal(1)): -1, (1, "a", Decimal(5)): 1, (2, "b", Decimal(2)): -1}


def test_a_table_that_has_missed_batches_is_brought_up_to_date(monkeypatch):
    """Another process has run the shard meanwhile."""
    monkeypatch.setattr("deltamark.dataflow.spark.state_log.MIN_MERGED_ENTRIES", 8)
    shard = Shard()
    shard.take((1, "a", Decimal(1), 1), (1, "b", Decimal(1), 1))
    (old,) = latest_rows._cached.values()
    latest_rows._cached.clear()
    shard.take((1, "a", Decimal(2), 2))
    shard.take((1, "a", Decimal(3), 3), (1, "b", None, 2))
    latest_rows._cached[SHARD] = old
    assert shard.take((1, "a", Decimal(4), 4)) == {(1, "a", Decimal(3)): -1, (1, "a", Decimal(4)): 1}
    assert latest_rows._cached[SHARD][1] is old[1]
    assert shard.take((1, "b", Decimal(8), 5)) == {(1, "b", Decimal(8)): 1}


def test_a_row_without_an_order_replaces_that_of_an_earlier_batch():
    shard = Shard(ordered=False)
    assert shard.take((1, "a", Decimal(1)), (1, "a", Decimal(1))) == {(1, "a", Decimal(1)): 1}
    assert shard.take((1, "a", Decimal(0))) == {(1, "a", Decimal(1)): -1, (1, "a", Decimal(0)): 1}


@pytest.mark.parametrize("orders", [(), (3,)])
def test_rows_of_one_key_of_which_none_is_the_newest_are_refused(orders):
    shard = Shard(ordered=bool(orders))
    with pytest.raises(DeltamarkError, match="none is the newest: shop 1, name a; give order"):
        shard.take((1, "a", Decimal(1), *orders), (1, "a", Decimal(2), *orders), (2, "a", Decimal(2), *orders))


def test_the_state_of_another_key_is_refused():
    shard = Shard()
    shard.take((1, "a", Decimal(1), 1))
    shard.spec = UpsertSpec(shard.spec.rows, ("shop",), "operator", {"key": "shop"})
    with pytest.raises(DeltamarkError, match="does not match: its key is shop, name, not shop"):
        shard.take((1, "a", Decimal(2), 2))


def test_tables_of_old_runs_are_closed():
    for run in "abc":
        shard = Shard()
        content = to_bytes(shard.table([(1, "a", Decimal(1), 1)]))
        process_batch(shard.spec, RowShardKey(run, "operator", 0), StateLog(shard.state), 0, [content])
    assert [key.run for key in latest_rows._cached] == ["b", "c"]
