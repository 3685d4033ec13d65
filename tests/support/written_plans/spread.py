"""Plans over keys that are spread over all workers."""

from __future__ import annotations

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
