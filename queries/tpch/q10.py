"""Q10, returned items: the twenty customers who cost the most revenue by returning lines of a quarter's orders."""

from __future__ import annotations

import datetime as dt

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import col
from deltamark.queries.query import Parameter, Query, Tables, months_later
from deltamark.queries.substitution import month_from

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

q10 = Query(
    SQL,
    order_by=ORDER,
    parameters={"date": Parameter(dt.date(1993, 10, 1), month_from(dt.date(1993, 2, 1), 24))},
)


@q10.variant
def plain(tpch: Tables, *, date: dt.date) -> Collection:
    """Find the first twenty by their keys alone, and join the other columns of these."""
    customers = tpch.customer.join(tpch.nation.rename(nation="name"), on="nationkey")
    orders = tpch.orders.where((col.orderdate >= date) & (col.orderdate < months_later(date, 3)))
    first = (
        tpch.lineitem.where(col.returnflag == "R")
        .join(orders.join(customers, on="custkey"), on="orderkey")
        .aggregate(by="custkey", revenue=(col.extendedprice * (1 - col.discount)).sum())
        .top(20, ORDER)
    )
    return first.join(customers, on="custkey").select(
        "custkey", "name", "revenue", "acctbal", "nation", "address", "phone", "comment"
    )
