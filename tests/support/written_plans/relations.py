"""Small relations with columns of every type, and plans over them with their SQL."""

from __future__ import annotations

from decimal import Decimal

from support.written_plans.thresholds import above, below

from deltamark.dataflow.language.collection import source
from deltamark.dataflow.language.expr import col, count, when
from deltamark.dataflow.types import SHORT, TEXT, code_type, date_type, integer

WORDS = ("AIR", "MAIL", "SHIP")
items = source("items", {"key": integer(0, 3), "value": integer(-5, 9), "price": integer(0, 999, scale=2)}, 100)
others = source("others", {"key": integer(0, 3), "amount": integer(-5, 9), "day": date_type(8033, 8040)}, 100)
texts = source("texts", {"mode": code_type(WORDS), "short": SHORT, "comment": TEXT, "day": date_type(8033, 8040)}, 100)
pairs = source("pairs", {"key": integer(0, 9), "value": integer(0, 9)}, 100)
limits = source("limits", {"key": integer(0, 9), "limit": integer(0, 9)}, 100)

SQL = {
    "where": (items.where((col.value > 2) | (col.price < Decimal("3.5"))), "FROM items WHERE value > 2 OR price < 350"),
    "select": (
        items.select("key", x=when(col.value < 0, -col.value).otherwise(2 * col.value), y=col.price * (1 - col.price)),
        "SELECT key, CASE WHEN value < 0 THEN -value ELSE 2 * value END, price * (100 - price) FROM items",
    ),
    "year": (others.select(y=col.day.year()), "SELECT year(DATE '1970-01-01' + day::INTEGER) FROM others"),
    "concat": (
        items.select(x=col.value).concat(others.select(x=col.amount)),
        "SELECT value FROM items UNION ALL SELECT amount FROM others",
    ),
    "difference": (items.concat(items.where(col.value > 2).negate()), "FROM items WHERE value <= 2"),
    "aggregate": (
        items.aggregate("key", n=count(), sum=(col.value * col.price).sum(), mean=col.value.mean()),
        "SELECT key, count(*), sum(value * price), sum(value), count(*) FROM items GROUP BY key",
    ),
    "aggregate-of-all": (items.aggregate(sum=col.value.sum()).or_null(), "SELECT sum(value) FROM items"),
    "distinct": (items.distinct("key", "value"), "SELECT DISTINCT key, value FROM items"),
    "threshold": (items.threshold(2), "FROM items GROUP BY ALL HAVING count(*) >= 2"),
    "join": (
        items.join(others, on="key"),
        "SELECT items.*, amount, day FROM items JOIN others USING (key)",
    ),
    "join-on-two-columns": (
        items.join(others.rename(n="key"), on={"key": "n", "value": "amount"}),
        "SELECT items.*, day FROM items JOIN others ON items.key = others.key AND value = amount",
    ),
    "cross": (items.cross(others.select("day")), "SELECT items.*, day FROM items, others"),
    "semijoin": (items.semijoin(others, on="key"), "FROM items WHERE key IN (SELECT key FROM others)"),
    "antijoin": (items.antijoin(others, on="key"), "FROM items WHERE key NOT IN (SELECT key FROM others)"),
    "left-join": (
        items.left_join(others, on="key"),
        "SELECT items.*, amount, day FROM items LEFT JOIN others USING (key)",
    ),
    "left-join-count": (
        items.left_join(others, on="key")
        .select("key", n=when(col.amount.is_null(), 0).otherwise(1))
        .aggregate("key", n=col.n.sum()),
        "SELECT key, count(amount) FROM items LEFT JOIN others USING (key) GROUP BY key",
    ),
    "coalesce": (
        items.left_join(others, on="key").select(x=col.amount.coalesce(3)),
        "SELECT coalesce(amount, 3) FROM items LEFT JOIN others USING (key)",
    ),
    "largest": (
        items.largest("price", by="key"),
        "SELECT * FROM items WHERE (key, price) IN (SELECT (key, max(price)) FROM items GROUP BY key)",
    ),
    "smallest-of-all": (items.smallest("value"), "FROM items WHERE value = (SELECT min(value) FROM items)"),
    "top": (items.top(3, ["-value"]), "FROM items ORDER BY value DESC, key, price LIMIT 3"),
    "above-the-average": (
        above(items, items.aggregate("key", mean=col.value.mean()), 2 * col.value, "mean.num", "mean.den", on="key"),
        "FROM items AS i WHERE 2 * value > (SELECT avg(value) FROM items WHERE key = i.key)",
    ),
    "below-a-sum": (
        below(items, others.aggregate(sum=col.amount.sum()), col.value, "sum"),
        "FROM items WHERE value < (SELECT sum(amount) FROM others)",
    ),
}
