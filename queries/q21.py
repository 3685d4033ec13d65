"""Q21, suppliers who kept orders waiting: whose lines alone were late in finished orders of several suppliers."""

from __future__ import annotations

from deltamark.dataflow.language.collection import Collection, count, total
from deltamark.dataflow.language.expr import col, when
from deltamark.queries.query import Query, Tables

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


def _late(tpch: Tables, nation: str) -> Collection:
    """Return the late lines of the nation's suppliers in finished orders."""
    nations = tpch["nation"].where(col.name == nation).select("nationkey")
    suppliers = tpch["supplier"].select("suppkey", "nationkey", "name").join(nations, on="nationkey")
    return (
        tpch["lineitem"]
        .where(col.commitdate < col.receiptdate)
        .select("orderkey", "suppkey")
        .join(suppliers.select("suppkey", "name"), on="suppkey")
        .join(tpch["orders"].where(col.orderstatus == "F").select("orderkey"), on="orderkey")
    )


def _lines(tpch: Tables) -> Collection:
    """Return each line's order and supplier, and if it is late."""
    late = when(col.commitdate < col.receiptdate, 1).otherwise(0)
    return tpch["lineitem"].select("orderkey", other=col.suppkey, late=late)


def _first(lines: Collection) -> Collection:
    return lines.count(by="name").rename(numwait="count").top(100, ORDER)


def plain(tpch: Tables, *, nation: str) -> Collection:
    """Keep the late lines with another supplier in their order, but none that is late."""
    lines, each = _late(tpch, nation), ("orderkey", "suppkey")
    others = lines.distinct(*each).join(_lines(tpch), on="orderkey").where(col.other != col.suppkey)
    return _first(lines.semijoin(others, on=each).antijoin(others.where(col.late == 1), on=each))


def one_reduce(tpch: Tables, *, nation: str) -> Collection:
    """Count each order's suppliers, and those of them that are late."""
    lines = _late(tpch, nation)
    involved = _lines(tpch).join(lines.distinct("orderkey"), on="orderkey")
    suppliers = involved.aggregate(by=("orderkey", "other"), late=total(col.late))
    orders = suppliers.select("orderkey", late=when(col.late > 0, 1).otherwise(0)).aggregate(
        by="orderkey", suppliers=count(), late=total(col.late)
    )
    alone = orders.where((col.suppliers > 1) & (col.late == 1)).select("orderkey")
    return _first(lines.join(alone, on="orderkey"))


Q21 = Query(
    SQL,
    relations=("lineitem", "nation", "orders", "supplier"),
    variants={"plain": plain, "one-reduce": one_reduce},
    order=ORDER,
)
