"""Q21, suppliers who kept orders waiting: those whose lines alone were late in finished orders of several suppliers."""

from __future__ import annotations

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import col, count, when
from deltamark.queries.query import Parameter, Query, Tables
from deltamark.queries.substitution import NATION

SQL = """
SELECT s_name, count(*) AS numwait
FROM supplier, lineitem l1, orders, nation
WHERE s_suppkey = l1.l_suppkey AND o_orderkey = l1.l_orderkey AND o_orderstatus = 'F'
  AND l1.l_receiptdate > l1.l_commitdate
  AND EXISTS (
    SELECT * FROM lineitem l2
    WHERE l2.l_orderkey = l1.l_orderkey AND l2.l_suppkey <> l1.l_suppkey)
  AND NOT EXISTS (
    SELECT * FROM lineitem l3
    WHERE l3.l_orderkey = l1.l_orderkey AND l3.l_suppkey <> l1.l_suppkey AND l3.l_receiptdate > l3.l_commitdate)
  AND s_nationkey = n_nationkey AND n_name = {nation}
GROUP BY s_name
ORDER BY numwait DESC, s_name
LIMIT 100
"""

ORDER = ("-numwait", "name")

q21 = Query(SQL, order_by=ORDER, parameters={"nation": Parameter("SAUDI ARABIA", NATION)})


def late_lines(tpch: Tables, nation: str) -> Collection:
    """Return the late lines of the nation's suppliers in finished orders."""
    suppliers = tpch.supplier.join(tpch.nation.where(col.name == nation), on="nationkey").select("suppkey", "name")
    return (
        tpch.lineitem.where(col.commitdate < col.receiptdate)
        .select("orderkey", "suppkey")
        .join(suppliers, on="suppkey")
        .join(tpch.orders.where(col.orderstatus == "F").select("orderkey"), on="orderkey")
    )


def other_lines(tpch: Tables) -> Collection:
    """Return the order and the supplier of each line, and whether it is late."""
    late = when(col.commitdate < col.receiptdate, 1).otherwise(0)
    return tpch.lineitem.select("orderkey", other=col.suppkey, late=late)


def first(lines: Collection) -> Collection:
    """Return the hundred suppliers with the most lines."""
    return lines.count(by="name").rename(numwait="count").top(100, ORDER)


@q21.variant
def plain(tpch: Tables, *, nation: str) -> Collection:
    """Keep the late lines with another supplier in their order, but no other late one."""
    lines, keys = late_lines(tpch, nation), ("orderkey", "suppkey")
    others = lines.distinct(*keys).join(other_lines(tpch), on="orderkey").where(col.other != col.suppkey)
    return first(lines.semijoin(others, on=keys).antijoin(others.where(col.late == 1), on=keys))


@q21.variant
def one_reduce(tpch: Tables, *, nation: str) -> Collection:
    """Count the suppliers of each order, and the late ones among them."""
    lines = late_lines(tpch, nation)
    involved = other_lines(tpch).join(lines.distinct("orderkey"), on="orderkey")
    suppliers = involved.aggregate(by=("orderkey", "other"), late=col.late.sum())
    orders = suppliers.select("orderkey", late=when(col.late > 0, 1).otherwise(0)).aggregate(
        by="orderkey", suppliers=count(), late=col.late.sum()
    )
    alone = orders.where((col.suppliers > 1) & (col.late == 1)).select("orderkey")
    return first(lines.join(alone, on="orderkey"))
