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

bounds = right.aggregate("id", mean=col.amount.mean())


few = source("few", {"label": integer(5, 1 << 18), "amount": integer(0, 9)}, 10)


chosen = left.top(20, ["-value", "id"])


described = right.join(few, on="amount")


SELECTIONS = {
    "top-joined": chosen.join(right, on="id"),
    "top-joined-from-the-right": right.join(chosen, on="id"),
    "top-joined-with-a-join": chosen.join(described, on="id"),
    "top-joined-with-a-filtered-join": chosen.join(described.where(col.label > 20).rename(key="id"), on={"id": "key"}),
    "top-joined-with-a-count": chosen.join(right.count(by="id"), on="id"),
    "top-joined-with-its-input": chosen.join(left.rename(value2="value"), on="id"),
    "top-joined-then-selected": chosen.join(right, on="id").top(2, ["amount", "id"]),
    "top-joined-on-few-keys": chosen.select("id", amount=col.value).join(right.rename(id2="id"), on="amount"),
    "top-of-a-top-joined": chosen.top(5, ["value"]).join(right, on="id").count(by="amount"),
    "semijoin-with-a-top": right.semijoin(chosen, on="id"),
    "antijoin-of-a-top": chosen.antijoin(right, on="id"),
    "top-that-cancels": chosen.concat(chosen.negate(), chosen.where(col.value > 3)).join(described, on="id"),
    "top-beside-its-join": chosen.select("id", n=col.value).concat(
        chosen.join(right, on="id").select("id", n=col.amount)
    ),
    "top-crossed": chosen.join(right, on="id").cross(chosen.count()),
    "above-a-top": above(right, chosen.largest("value", by="id").distinct(), col.amount, "value", on="id"),
    "top-above": above(chosen, bounds, col.value, "mean.num", "mean.den", on="id"),
    "largest-joined": left.largest("value").join(right, on="id"),
    "largest-key-joined": left.largest("id").join(described, on="id"),
}
