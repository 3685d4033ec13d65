"""Q10, returned items: the twenty customers who cost the most revenue by returning lines of a quarter's orders."""

from __future__ import annotations

import datetime as dt

from deltamark.dataflow.language.collection import Collection, total
from deltamark.dataflow.language.expr import col
from deltamark.queries.query import Query, Tables, months_later

SQL = """
SELECT c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) AS revenue,
       c_acctbal, n_name, c_address, c_phone, c_comment
FROM customer, orders, lineitem, nation
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey
  AND o_orderdate >= {date} AND o_orderdate < CAST({date} + INTERVAL 3 MONTH AS DATE)
  AND l_returnflag = 'R' AND c_nationkey = n_nationkey
GROUP BY c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment
ORDER BY revenue DESC, c_custkey, c_name, c_acctbal, n_name, c_address, c_phone, c_comment
LIMIT 20
"""

ORDER = ("-revenue", "custkey")


def plain(tpch: Tables, *, date: dt.date) -> Collection:
    """Find the twenty by their keys alone, and then what else is told of them."""
    nations = tpch["nation"].select("nationkey", nation=col.name)
    customers = (
        tpch["customer"]
        .select("custkey", "name", "acctbal", "nationkey", "address", "phone", "comment")
        .join(nations, on="nationkey")
    )
    orders = (
        tpch["orders"]
        .where((col.orderdate >= date) & (col.orderdate < months_later(date, 3)))
        .select("orderkey", "custkey")
        .join(customers, on="custkey")
        .select("orderkey", "custkey")
    )
    first = (
        tpch["lineitem"]
        .where(col.returnflag == "R")
        .select("orderkey", volume=col.extendedprice * (1 - col.discount))
        .join(orders, on="orderkey")
        .aggregate(by="custkey", revenue=total(col.volume))
        .top(20, ORDER)
    )
    return first.join(customers, on="custkey").select(
        "custkey", "name", "revenue", "acctbal", "nation", "address", "phone", "comment"
    )


Q10 = Query(SQL, relations=("customer", "lineitem", "nation", "orders"), variants={"plain": plain}, order=ORDER)
