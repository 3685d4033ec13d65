"""Q18, large volume customers: the hundred most expensive orders whose quantity exceeds a limit."""

from __future__ import annotations

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import col
from deltamark.queries.query import Parameter, Query, Tables
from deltamark.queries.substitution import number_between

SQL = """
SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity) AS sum_quantity
FROM customer, orders, lineitem
WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > {quantity})
  AND c_custkey = o_custkey AND o_orderkey = l_orderkey
GROUP BY c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
ORDER BY o_totalprice DESC, o_orderdate, c_name, c_custkey, o_orderkey, sum_quantity
LIMIT 100
"""

ORDER = ("-totalprice", "orderdate")

q18 = Query(SQL, order_by=ORDER, parameters={"quantity": Parameter(300, number_between(312, 315))})


def quantities(tpch: Tables) -> Collection:
    """Return the quantity of each order."""
    return tpch.lineitem.aggregate(by="orderkey", sum_quantity=col.quantity.sum())


def first(tpch: Tables, orders: Collection) -> Collection:
    """Return the hundred most expensive orders, with their customers."""
    return (
        orders.join(tpch.customer, on="custkey")
        .select("name", "custkey", "orderkey", "orderdate", "totalprice", "sum_quantity")
        .top(100, ORDER)
    )


@q18.variant
def filter_before(tpch: Tables, *, quantity: int) -> Collection:
    """Filter the sums, and join the few that remain."""
    return first(tpch, tpch.orders.join(quantities(tpch).where(col.sum_quantity > quantity), on="orderkey"))


@q18.variant
def filter_after(tpch: Tables, *, quantity: int) -> Collection:
    """Join whenever a sum changes, and filter then."""
    return first(tpch, tpch.orders.join(quantities(tpch), on="orderkey").where(col.sum_quantity > quantity))
