"""Q18, large volume customers: the hundred dearest orders of more than a quantity."""

from __future__ import annotations

from deltamark.dataflow.language.collection import Collection, total
from deltamark.dataflow.language.expr import col
from deltamark.queries.query import Query, Tables

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


def _quantities(tpch: Tables) -> Collection:
    return tpch["lineitem"].aggregate(by="orderkey", sum_quantity=total(col.quantity))


def _orders(tpch: Tables) -> Collection:
    return tpch["orders"].select("orderkey", "custkey", "orderdate", "totalprice")


def _dearest(tpch: Tables, orders: Collection) -> Collection:
    return (
        orders.join(tpch["customer"].select("custkey", "name"), on="custkey")
        .select("name", "custkey", "orderkey", "orderdate", "totalprice", "sum_quantity")
        .top(100, ORDER)
    )


def filter_before(tpch: Tables, *, quantity: int) -> Collection:
    """Filter the sums, and look orders up for those few that remain."""
    large = _quantities(tpch).where(col.sum_quantity > quantity)
    return _dearest(tpch, _orders(tpch).join(large, on="orderkey"))


def filter_after(tpch: Tables, *, quantity: int) -> Collection:
    """Look orders up whenever a sum changes, and filter then."""
    return _dearest(tpch, _orders(tpch).join(_quantities(tpch), on="orderkey").where(col.sum_quantity > quantity))


Q18 = Query(
    SQL,
    relations=("customer", "lineitem", "orders"),
    variants={"filter-before": filter_before, "filter-after": filter_after},
    order=ORDER,
)
