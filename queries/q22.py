"""Q22, global sales opportunity: customers of some country codes with more than the average balance and no orders."""

from __future__ import annotations

from deltamark.dataflow.language.collection import Collection, average, count, total
from deltamark.dataflow.language.expr import col
from deltamark.queries.query import Query, Tables

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


def _inputs(tpch: Tables, codes: tuple[str, ...]) -> tuple[Collection, Collection]:
    """Return the customers without orders, and the average balance of all that have one."""
    customers = (
        tpch["customer"]
        .select("custkey", "acctbal", cntrycode=col.phone.substring(1, 2))
        .where(col.cntrycode.is_in(codes))
    )
    return customers.antijoin(tpch["orders"], on="custkey"), customers.where(col.acctbal > 0).aggregate(
        balance=average(col.acctbal)
    )


def _by_code(customers: Collection) -> Collection:
    return customers.aggregate(by="cntrycode", numcust=count(), totacctbal=total(col.acctbal))


def moving(tpch: Tables, *, codes: tuple[str, ...]) -> Collection:
    """Move the threshold: only customers between the old and the new average are touched."""
    customers, mean = _inputs(tpch, codes)
    return _by_code(customers.above(mean, col.acctbal, "balance.num", "balance.den"))


def joined(tpch: Tables, *, codes: tuple[str, ...]) -> Collection:
    """Join every customer with the average: whenever it changes, all of them are looked at again."""
    customers, mean = _inputs(tpch, codes)
    return _by_code(customers.cross(mean).where(col.acctbal * col["balance.den"] > col["balance.num"]))


Q22 = Query(
    SQL,
    relations=("customer", "orders"),
    variants={"moving": moving, "joined": joined},
    order=("cntrycode",),
)
