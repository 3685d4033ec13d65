"""Streams whose keys are spread over all workers."""

from __future__ import annotations

import random

from support.written_plans.thresholds import above

from deltamark.dataflow.language.collection import source
from deltamark.dataflow.language.expr import col, count
from deltamark.dataflow.types import integer

left = source("left", {"id": integer(5, 1 << 20), "value": integer(0, 9)}, 1000)


right = source("right", {"id": integer(5, 1 << 18), "amount": integer(0, 9)}, 1000)


SPREAD = {
    "join": left.join(right, on="id"),
    "join-then-count": left.join(right, on="id").count(by="id"),
    "join-then-sum-by-another-key": left.join(right, on="id").aggregate(by="value", sum=col.amount.sum()),
    "renamed-before-and-after": left.rename(key="id").join(right, on={"key": "id"}).rename(id="key").distinct("id"),
    "antijoin": left.antijoin(right, on="id"),
    "antijoin-by-a-key-that-goes": left.join(right, on="id")
    .antijoin(right.select(value=col.amount), on="value")
    .count(by="value"),
    "left-join": left.left_join(right, on="id"),
    "sum": left.aggregate("id", sum=col.value.sum()),
    "sum-of-sums": left.aggregate("id", sum=col.value.sum()).aggregate("sum", n=count()),
    "distinct": left.distinct("id"),
    "largest": left.largest("value", by="id"),
    "above": above(left, right.aggregate("id", mean=col.amount.mean()), col.value, "mean.num", "mean.den", on="id"),
    "two-keys": left.join(right.rename(value="amount"), on=("id", "value")).count(by="id"),
    "concat": left.select("id").concat(right.select("id")).distinct(),
    "concat-of-sums": left.count(by="value").concat(right.rename(value="amount").count(by="value")),
    "sum-beside-its-input": left.count(by="value").concat(left.select("value", count=col.value)),
    "top": left.join(right, on="id").top(3, ["-amount"]),
}


def spread_stream(seed, times):
    """Insert and delete rows of a dozen keys that lie far apart or side by side, within the bounds of both sides."""
    order = random.Random(seed)
    keys = [5, 6, 20, 21, 22, 53, 1000, 1016, 1032, 5000, 77_777, 1 << 18]
    live, updates, time = [], [], 0
    for _ in range(times):
        time += order.choice([0, 0, 1, 1, 2])
        if live and order.random() < 0.4:
            updates.append((live.pop(order.randrange(len(live))), time, -1))
        else:
            live.append((order.choice(keys), order.randint(0, 9)))
            updates.append((live[-1], time, 1))
    return updates
