"""Q13, customer distribution: the number of customers for each number of orders; some comments exclude orders."""

from __future__ import annotations

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import col
from deltamark.queries.query import Parameter, Query, Tables
from deltamark.queries.substitution import one_of

SQL = """
SELECT c_count, count(*) AS custdist
FROM (
    SELECT c_custkey, count(o_orderkey) AS c_count
    FROM customer LEFT OUTER JOIN orders
      ON c_custkey = o_custkey AND o_comment NOT LIKE '%' || {word1} || '%' || {word2} || '%'
    GROUP BY c_custkey) AS c_orders
GROUP BY c_count
ORDER BY custdist DESC, c_count DESC
"""

SPREAD = 1 << 31
"""The distance of keys in the variant `general-keys`: keys so far apart are hashed, as keys of other types are."""

q13 = Query(
    SQL,
    order_by=("-custdist", "-c_count"),
    parameters={
        "word1": Parameter("special", one_of(("special", "pending", "unusual", "express"))),
        "word2": Parameter("requests", one_of(("packages", "requests", "accounts", "deposits"))),
    },
)


def distribution(tpch: Tables, word1: str, word2: str, spread: int) -> Collection:
    """Count customers and orders by one key in one aggregate, which needs no outer join."""
    key = col.custkey * spread if spread > 1 else col.custkey
    customers = tpch.customer.select(custkey=key, customers=1, orders=0)
    orders = tpch.orders.where(~col.comment.like(f"%{word1}%{word2}%")).select(custkey=key, customers=0, orders=1)
    counted = customers.concat(orders).aggregate(by="custkey", customers=col.customers.sum(), orders=col.orders.sum())
    return counted.where(col.customers > 0).select(c_count=col.orders).count(by="c_count").rename(custdist="count")


@q13.variant
def integer_keys(tpch: Tables, *, word1: str, word2: str) -> Collection:
    return distribution(tpch, word1, word2, spread=1)


@q13.variant
def general_keys(tpch: Tables, *, word1: str, word2: str) -> Collection:
    return distribution(tpch, word1, word2, SPREAD)
