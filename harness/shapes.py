"""The shapes of eight TPC-H queries, to measure the engine by: each beside the SQL whose answer it maintains.

They leave text out: no names or addresses, and nations by key. The queries proper come in `queries/`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from dataflow.collection import Collection, count, total
from dataflow.expr import col
from datagen.schema import RelationName

Tables = dict[RelationName, Collection]


@dataclass(frozen=True)
class Shape:
    name: str
    relations: tuple[RelationName, ...]
    plan: Callable[[Tables], Collection]
    sql: str


REVENUE = col.extendedprice * (1 - col.discount)


def _q01(t: Tables) -> Collection:
    return (
        t["lineitem"]
        .where(col.shipdate <= dt.date(1998, 9, 2))
        .aggregate(
            by=("returnflag", "linestatus"),
            sum_qty=total(col.quantity),
            sum_base_price=total(col.extendedprice),
            sum_disc_price=total(REVENUE),
            sum_charge=total(REVENUE * (1 + col.tax)),
            sum_disc=total(col.discount),
            count_order=count(),
        )
    )


def _q03(t: Tables) -> Collection:
    customers = t["customer"].where(col.mktsegment == "BUILDING")
    orders = t["orders"].where(col.orderdate < dt.date(1995, 3, 15)).semijoin(customers, "custkey")
    return (
        t["lineitem"]
        .where(col.shipdate > dt.date(1995, 3, 15))
        .join(orders.select("orderkey", "orderdate", "shippriority"), "orderkey")
        .aggregate(by=("orderkey", "orderdate", "shippriority"), revenue=total(REVENUE))
        .select("orderkey", "revenue", "orderdate", "shippriority")
        .top(10, ["-revenue", "orderdate"])
    )


def _q04(t: Tables) -> Collection:
    late = t["lineitem"].where(col.commitdate < col.receiptdate).distinct("orderkey")
    return (
        t["orders"]
        .where(col.orderdate.between(dt.date(1993, 7, 1), dt.date(1993, 9, 30)))
        .semijoin(late, on="orderkey")
        .count(by="orderpriority")
    )


def _q06(t: Tables) -> Collection:
    return (
        t["lineitem"]
        .where(
            col.shipdate.between(dt.date(1994, 1, 1), dt.date(1994, 12, 31))
            & col.discount.between(Decimal("0.05"), Decimal("0.07"))
            & (col.quantity < 24)
        )
        .aggregate(revenue=total(col.extendedprice * col.discount))
        .or_null()
    )


def _q11(t: Tables) -> Collection:
    german = t["nation"].where(col.name == "GERMANY").select("nationkey")
    suppliers = t["supplier"].select("suppkey", "nationkey").semijoin(german, "nationkey")
    stock = (
        t["partsupp"].select("partkey", "suppkey", value=col.supplycost * col.availqty).semijoin(suppliers, "suppkey")
    )
    return stock.aggregate(by="partkey", value=total(col.value)).above(
        stock.aggregate(all=total(col.value)), col.value * 10000, "all"
    )


def _q15(t: Tables) -> Collection:
    return (
        t["lineitem"]
        .where(col.shipdate.between(dt.date(1996, 1, 1), dt.date(1996, 3, 31)))
        .aggregate(by="suppkey", revenue=total(REVENUE))
        .largest("revenue")
    )


def _q18(t: Tables) -> Collection:
    large = t["lineitem"].aggregate(by="orderkey", quantity=total(col.quantity)).where(col.quantity > 300)
    return (
        t["orders"]
        .select("orderkey", "custkey", "orderdate", "totalprice")
        .join(large, "orderkey")
        .join(t["customer"].select("custkey"), "custkey")
        .top(100, ["-totalprice", "orderdate"])
    )


def _q22(t: Tables) -> Collection:
    customers = (
        t["customer"].select("custkey", "nationkey", "acctbal").where(col.nationkey.is_in([3, 7, 8, 13, 19, 20, 21]))
    )
    rich = customers.where(col.acctbal > 0).aggregate(sum=total(col.acctbal), n=count())
    return (
        customers.antijoin(t["orders"], "custkey")
        .above(rich, col.acctbal, "sum", "n")
        .aggregate(by="nationkey", numcust=count(), totacctbal=total(col.acctbal))
    )


SHAPES = [
    Shape("q01", ("lineitem",), _q01, """
        SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice),
               sum(l_extendedprice * (1 - l_discount)), sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)),
               sum(l_discount), count(*)
        FROM lineitem WHERE l_shipdate <= DATE '1998-09-02' GROUP BY ALL ORDER BY ALL"""),
    Shape("q03", ("lineitem", "orders", "customer"), _q03, """
        SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority
        FROM customer, orders, lineitem
        WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey
          AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'
        GROUP BY l_orderkey, o_orderdate, o_shippriority ORDER BY revenue DESC, o_orderdate LIMIT 10"""),
    Shape("q04", ("lineitem", "orders"), _q04, """
        SELECT o_orderpriority, count(*) FROM orders
        WHERE o_orderdate >= DATE '1993-07-01' AND o_orderdate < DATE '1993-10-01'
          AND EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
        GROUP BY o_orderpriority ORDER BY o_orderpriority"""),
    Shape("q06", ("lineitem",), _q06, """
        SELECT sum(l_extendedprice * l_discount) FROM lineitem
        WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'
          AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24"""),
    Shape("q11", ("partsupp", "supplier", "nation"), _q11, """
        SELECT ps_partkey, sum(ps_supplycost * ps_availqty) AS value FROM partsupp, supplier, nation
        WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = 'GERMANY' GROUP BY ps_partkey
        HAVING sum(ps_supplycost * ps_availqty) * 10000 > (
            SELECT sum(ps_supplycost * ps_availqty) FROM partsupp, supplier, nation
            WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = 'GERMANY')
        ORDER BY value DESC"""),
    Shape("q15", ("lineitem",), _q15, """
        WITH revenue AS (SELECT l_suppkey, sum(l_extendedprice * (1 - l_discount)) AS total_revenue
                         FROM lineitem
                         WHERE l_shipdate >= DATE '1996-01-01' AND l_shipdate < DATE '1996-04-01' GROUP BY l_suppkey)
        SELECT * FROM revenue WHERE total_revenue = (SELECT max(total_revenue) FROM revenue) ORDER BY ALL"""),
    Shape("q18", ("lineitem", "orders", "customer"), _q18, """
        SELECT o_orderkey, c_custkey, o_orderdate, o_totalprice, sum(l_quantity)
        FROM customer, orders, lineitem
        WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > 300)
          AND c_custkey = o_custkey AND o_orderkey = l_orderkey
        GROUP BY o_orderkey, c_custkey, o_orderdate, o_totalprice
        ORDER BY o_totalprice DESC, o_orderdate LIMIT 100"""),
    Shape("q22", ("customer", "orders"), _q22, """
        SELECT c_nationkey, count(*), sum(c_acctbal) FROM customer
        WHERE c_nationkey IN (3, 7, 8, 13, 19, 20, 21)
          AND c_acctbal > (SELECT avg(c_acctbal) FROM customer
                           WHERE c_acctbal > 0.00 AND c_nationkey IN (3, 7, 8, 13, 19, 20, 21))
          AND NOT EXISTS (SELECT * FROM orders WHERE o_custkey = c_custkey)
        GROUP BY c_nationkey ORDER BY c_nationkey"""),
]  # fmt: skip
