"""Plans of each operator, over small relations."""

from __future__ import annotations

import pytest
from support.written_plans.thresholds import above, below

from deltamark.dataflow.language.collection import Collection, source
from deltamark.dataflow.language.expr import col, count, when
from deltamark.dataflow.language.picks import first, last, median, quantile_cont, quantile_disc
from deltamark.dataflow.language.windows import (
    dense_rank,
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
from deltamark.dataflow.operators.repeat import Repeat
from deltamark.dataflow.sql.query import sql
from deltamark.dataflow.types import BOOL, SHORT, TEXT, code_type, date_type, integer

ROWS = 100_000


items = source("items", {"key": integer(0, 2), "value": integer(-2, 3), "word": code_type(("ant", "bee", "cat"))}, ROWS)


others = source("others", {"key": integer(0, 2), "amount": integer(-1, 2), "day": date_type(8034, 8038)}, ROWS)


flags = source("flags", {"key": integer(0, 2), "late": BOOL, "paid": BOOL.or_null()}, ROWS)


wide = source("wide", {"key": integer(0, 2), "name": SHORT}, ROWS)


labels = source("labels", {"name": SHORT, "price": integer(-1, 2, scale=2)}, ROWS)


notes = source("notes", {"key": integer(0, 2), "text": TEXT, "other": TEXT}, ROWS)


sold = source("items", {field.name: field.type for field in items.schema.fields}, 100 * ROWS)


filtered = [
    sold.where(each).select("key", "value").join(others, on="key")
    for each in (col.value > 0, col.value <= 1, col.value >= 0, col.word != "bee")
]


renamed = items.rename(value2="value", word2="word")


lone = items.antijoin(others, on="key")


padded = items.left_join(others, on="key")


OPERATORS = {
    "input": items,
    "where": items.where(col.value > 0),
    "where-of-several": items.where((col.word == "bee") | ~(col.value * col.key < 2)),
    "where-on-words": items.where(col.word.like("_e%") | col.word.is_in(["cat"])),
    "where-on-dates": others.where(col.day.year() == 1992),
    "where-on-conditions": flags.where(col.late & ~col.paid.coalesce(False)),
    "select-conditions": items.select("key", dear=col.value > 0, same=(col.value > 0) == (col.key > 0)),
    "group-by-conditions": flags.count(by=("late", "paid")),
    "join-on-a-condition": items.select("value", late=col.value > 1).join(flags, on="late"),
    "largest-condition": flags.largest("late", by="key"),
    "top-by-missing-conditions": flags.top(3, ["-paid", "late"]),
    "where-on-text": notes.where(col.text.like("a%x%t%") | (col.other == "b")).select("key"),
    "where-on-text-of-what-is-filtered": notes.where(col.key > 0).where(col.text == col.other),
    "select-parts-of-text": notes.select(x=col.text.substring(2, 3), y=col.other.substring(1, 1)),
    "computed-text": sql(
        "SELECT key, CASE key WHEN 1 THEN text ELSE other END AS either, 'always' AS same FROM notes", {"notes": notes}
    ),
    "text-of-a-word": sql("SELECT CASE value WHEN 1 THEN word ELSE 'none' END AS name FROM items", {"items": items}),
    "made-texts": notes.select(
        "key", x=col.text.upper().concat("-", col.other), y=col.other.replace("a", "é").left(-1)
    ),
    "made-texts-of-numbers": others.select(x=col.day.cast("VARCHAR").concat(col.amount.cast("VARCHAR").lpad(3, "*"))),
    "group-by-made-text": notes.select("key", x=col.text.trim("a b").concat(col.other)).aggregate(
        "x", sum=col.key.sum()
    ),
    "join-on-made-text": notes.select("key", x=col.text.lower()).join(
        notes.select(y=col.other.trim("x")), on={"x": "y"}
    ),
    "where-on-made-text": notes.where(col.text.right(3).like("_x%") | (col.text.length() > 9)).select("key"),
    "smallest-text-of-a-group": sql(
        "SELECT key, min(text) AS first, max(text || other) AS last, count(*) AS n FROM notes GROUP BY key",
        {"notes": notes},
    ),
    "group-by-text": notes.count(by=("text", "other")),
    "distinct-text": notes.distinct("text"),
    "join-on-text": notes.select("key", "text").join(notes.select("other", n=col.key), on={"text": "other"}),
    "text-after-a-join": items.join(notes, on="key").where(col.text.contains("x")).select("value", "text"),
    "top-by-text": notes.top(3, ["-text", "other"]),
    "top-by-missing-text": items.left_join(notes, on="key").top(4, ["text", "-other"]),
    "where-on-short-text": labels.where(col.name.is_in(["a", "b"])),
    "place": items.window("key", ["-value"], place=row_number()),
    "place-in-all": items.window((), ["value", "word"], place=row_number()).select("word", "place"),
    "ranks": items.window("key", ["value"], place=rank(), dense=dense_rank()).select("key", "place", "dense"),
    "rank-by-text": notes.window("key", ["-text"], place=rank()),
    "place-by-text-in-groups-of-text": notes.window("other", ["text"], place=row_number()).select("key", "place"),
    "running-sums": items.window("word", ["key"], a=running_sum("value"), b=running_sum("value", with_peers=True)),
    "running-extremes": items.window("key", ["word"], a=running_smallest("value"), b=running_largest("word")),
    "running-counts": padded.window("key", ["-value"], a=running_count("amount"), b=running_count(with_peers=True)),
    "running-sum-of-what-is-missing": padded.window((), ["key"], a=running_sum("amount"), b=running_largest("amount")),
    "top-by-key": items.top(2, ["-value"], by="key"),
    "first-ranks": items.window("key", ["value"], 2, place=rank(), n=running_count(with_peers=True)),
    "first-dense-ranks": items.window("word", ["-value"], 2, place=dense_rank(), sum=running_sum("key")),
    "window-of-a-window": items.window("key", ["value"], a=row_number()).window("a", ["word"], 1, b=row_number()),
    "moving-sum": items.window("key", ["value"], a=moving_sum("value", rows_between(-2, 1)), b=lag("word")),
    "moving-sum-by-value": padded.window("key", ["-value"], a=moving_sum("amount", values_between(-3, 2))),
    "moving-extremes": items.window("word", ["key"], a=moving_largest("value", rows_between(0, None, without="row"))),
    "moving-counts": padded.window((), ["value"], a=moving_count(values_between(None, -1), "amount"), b=row_number()),
    "values-of-frames": notes.window("key", ["-text"], a=nth_value("text", -1, rows_between(-1, None)), b=lead("key")),
    "tiles": items.window("key", ["value"], a=ntile(2), b=ntile(7)),
    "known-value": padded.window("key", ["value"], a=nth_value("amount", 1, values_between(0, None), known=True)),
    "smallest-near": items.window("key", ["value"], a=moving_smallest("value", values_between(-2, 2, without="ties"))),
    "first-and-last": items.pick("key", ["-value"], a=first("word"), b=last("value")),
    "quantiles": items.pick("word", ["value"], a=median("value"), b=quantile_disc("key", 0.3), c=last("key")),
    "quantile-of-all": items.pick((), ["-value", "key"], a=quantile_cont("value", 0.75), b=quantile_disc("word", 1)),
    "first-text": notes.pick("key", ["-other"], a=first("text"), b=quantile_disc("other", 0.5)),
    "last-of-missing": padded.pick(("key", "word"), ["value"], a=last("amount"), b=first("day")),
    "first-text-in-groups-of-text": notes.pick("other", a=first("text")).select("a"),
    "sample": items.sample(0.5),
    "sample-of-keys": items.sample(0.5, by=("word", "key")).select("value"),
    "sample-of-texts": notes.sample(0.5, by="text"),
    "sample-of-a-sum": items.concat(items.negate(), items.sample(0.3)).sample(0.6),
    "select": items.select("word", "key"),
    "select-that-merges-rows": items.select("key"),
    "select-computed": items.select("key", x=when(col.word == "ant", col.value * 2).otherwise(col.key - 1)),
    "select-scaled": labels.select(x=col.price * 3 + 1),
    "concat": items.select("key", x=col.value).concat(others.select("key", x=col.amount)),
    "concat-with-itself": items.concat(items, items),
    "concat-that-cancels": items.concat(items.where(col.value > 0).negate()),
    "negate": items.negate(),
    "count": items.count(by="key"),
    "sum": items.aggregate(by=("key", "word"), sum=col.value.sum()),
    "sums": items.aggregate(by="key", sum=col.value.sum(), squares=(col.value * col.value).sum(), n=count()),
    "average": items.aggregate(by="word", mean=col.value.mean()),
    "moments": items.aggregate("key", a=col.value.stddev_samp(), b=col.value.corr(col.key * col.value), n=count()),
    "moments-of-all": labels.aggregate(a=col.price.covar_pop(col.price + 2), b=col.price.mean()),
    "sum-of-all": items.aggregate(sum=col.value.sum()),
    "sum-of-decimals": labels.aggregate(by="name", sum=col.price.sum()),
    "distinct": items.distinct(),
    "distinct-columns": items.distinct("key", "value"),
    "threshold": items.threshold(3),
    "at-most-one": items.distinct("key", "word").at_most_one(("key", "word")),
    "at-most-one-of-all": items.aggregate(sum=col.value.sum()).at_most_one(),
    "at-most-one-by-text": notes.count(by="text").at_most_one("text").select("count"),
    "at-most-one-of-some-groups": items.count(by="key").where(col.count > 3).top(1, ["key"]).at_most_one(),
    "join": items.join(others, on="key"),
    "join-on-two-columns": items.join(others.rename(n="key"), on={"key": "n", "value": "amount"}),
    "joins-of-one-arrangement-by-filters": filtered[0].concat(*filtered[1:]),
    "join-with-itself": items.join(renamed, on="key"),
    "join-with-its-own-count": items.join(items.count(by="key"), on="key"),
    "repeat": Collection(Repeat.of(items.count(by=("key", "value")).node, "count")),
    "join-that-multiplies": sold.join(others.select("key"), on="key").select("value", "word"),
    "cross": items.cross(labels),
    "cross-with-one-row": items.cross(others.aggregate(sum=col.amount.sum())),
    "semijoin": items.semijoin(others, on="key"),
    "semijoin-with-itself": items.semijoin(items.where(col.value > 0), on="key"),
    "antijoin": lone,
    "antijoin-with-itself": items.antijoin(items.where(col.value > 0), on="key"),
    "left-join": padded,
    "left-join-made-whole": padded.where(~col.amount.is_null()).select("key", x=col.amount.coalesce(0) + col.value),
    "left-join-counted": padded.select("key", n=when(col.amount.is_null(), 0).otherwise(1)).aggregate(
        "key", n=col.n.sum()
    ),
    "group-by-missing": padded.count(by=("amount", "day")),
    "largest": items.largest("value", by="key"),
    "smallest": items.smallest("value", by=("key", "word")),
    "largest-of-all": items.largest("value"),
    "largest-word": items.largest("word", by="key"),
    "smallest-by-levels": items.smallest("value", by="key", levels=(8, 2)),
    "largest-of-all-by-levels": items.largest("value", levels=(16, 4, 1)),
    "top": items.top(2, ["value"]),
    "top-descending": items.top(4, ["-value", "key"]),
    "top-in-column-order": items.top(1, []),
    "top-of-missing": padded.top(3, ["-day", "amount"]),
    "above-the-sum-of-all": above(items, others.aggregate(sum=col.amount.sum()), col.value, "sum"),
    "above-its-own-average": above(
        items, items.aggregate("key", mean=col.value.mean()), col.value, "mean.num", "mean.den", on="key"
    ),
    "below-the-average-of-others": below(
        items, others.aggregate("key", mean=col.amount.mean()), col.value, "mean.num", "mean.den", on="key"
    ),
    "below-the-sum-of-others": below(
        items, others.rename(n="key").aggregate("n", sum=col.amount.sum()), 2 * col.value, "sum", on={"key": "n"}
    ),
    "above-the-sum-of-a-wide-key": above(
        wide, wide.aggregate(("key", "name"), sum=col.key.sum()), col.key, "sum", on=("key", "name")
    ),
    "join-on-a-wide-key": wide.join(wide.select("key", "name", x=col.key * 2), on=("key", "name")),
    "above-the-largest": above(items, others.largest("amount").distinct("amount"), col.value, "amount"),
    "or-null": items.or_null(),
    "or-null-of-a-sum": items.aggregate(sum=col.value.sum(), n=count()).or_null(),
    "or-null-joined": items.cross(others.aggregate(sum=col.amount.sum()).or_null()),
    "or-null-of-nothing-and-rows": items.concat(items.where(col.value > col.value + 1).or_null()),
    "or-null-of-nothing-and-rows-counted": items.concat(items.where(col.value > col.value + 1).or_null()).count(by=()),
    "consolidate": items.select("key").consolidate(),
}


each_operator = pytest.mark.parametrize("name", OPERATORS)


wide_items = source("items", {"key": integer(0, 2), "value": integer(0, 999)}, ROWS)


wide_others = source("others", {"key": integer(0, 2), "amount": integer(0, 999)}, ROWS)


limits = wide_others.aggregate("key", mean=col.amount.mean())


HUGE_KEY = {
    "join": wide_items.join(wide_others, on="key"),
    "join-with-itself": wide_items.join(wide_items.rename(value2="value"), on="key"),
    "semijoin": wide_items.semijoin(wide_others, on="key"),
    "antijoin": wide_items.antijoin(wide_others, on="key"),
    "left-join": wide_items.left_join(wide_others, on="key"),
    "largest": wide_items.largest("value", by="key"),
    "smallest": wide_items.smallest("value", by="key"),
    "sum": wide_items.aggregate("key", sum=col.value.sum()),
    "distinct": wide_items.distinct("key"),
    "top": wide_items.top(20, ["-value"]),
    "above": above(wide_items, limits, col.value, "mean.num", "mean.den", on="key"),
}
