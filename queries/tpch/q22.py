"""Q22, global sales opportunity: customers of some country codes with more than the average balance and no orders."""

from __future__ import annotations

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import col, count
from deltamark.queries.query import Parameter, Query, Tables

SQL = """
SELECT cntrycode, count(*) AS numcust, sum(c_acctbal) AS totacctbal
FROM (
    SELECT substring(c_phone, 1, 2) AS cntrycode, c_acctbal
    FROM customer
    WHERE substring(c_phone, 1, 2) IN {codes}
      AND c_acctbal > (
        SELECT avg(c_acctbal) FROM customer WHERE c_acctbal > 0.00 AND substring(c_phone, 1, 2) IN {codes})
      AND NOT EXISTS (SELECT * FROM orders WHERE o_custkey = c_custkey)) AS custsale
GROUP BY cntrycode
ORDER BY cntrycode
"""

q22 = Query(
    SQL,
    order_by=("cntrycode",),
    parameters={
        "codes": Parameter(
            ("13", "31", "23", "29", "30", "18", "17"), lambda chance: tuple(map(str, chance.sample(range(10, 35), 7)))
        )
    },
)


@q22.variant
def moving(tpch: Tables, *, codes: tuple[str, ...]) -> Collection:
    customers = tpch.customer.select("custkey", "acctbal", cntrycode=col.phone.substring(1, 2)).where(
        col.cntrycode.is_in(codes)
    )
    mean = customers.where(col.acctbal > 0).aggregate(mean=col.acctbal.mean())
    rich = customers.antijoin(tpch.orders, on="custkey").cross(mean).where(col.acctbal > col.mean)
    return rich.aggregate(by="cntrycode", numcust=count(), totacctbal=col.acctbal.sum())
