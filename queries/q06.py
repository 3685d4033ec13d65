"""Q6, forecasting revenue change: what small discounts on small quantities of one year's lines amount to."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

from deltamark.dataflow.language.collection import Collection, total
from deltamark.dataflow.language.expr import col
from deltamark.queries.query import Query, Tables, months_later

SQL = """
SELECT sum(l_extendedprice * l_discount) AS revenue
FROM lineitem
WHERE l_shipdate >= {date} AND l_shipdate < CAST({date} + INTERVAL 1 YEAR AS DATE)
  AND l_discount BETWEEN {discount} - 0.01 AND {discount} + 0.01
  AND l_quantity < {quantity}
"""


def plain(tpch: Tables, *, date: dt.date, discount: Decimal, quantity: int) -> Collection:
    return (
        tpch["lineitem"]
        .where(
            (col.shipdate >= date)
            & (col.shipdate < months_later(date, 12))
            & col.discount.between(discount - Decimal("0.01"), discount + Decimal("0.01"))
            & (col.quantity < quantity)
        )
        .aggregate(revenue=total(col.extendedprice * col.discount))
        .or_null()
    )


Q06 = Query(SQL, relations=("lineitem",), variants={"plain": plain})
