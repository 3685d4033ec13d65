"""Q6, forecasting revenue change: the sum of the small discounts on the lines of a year with small quantities."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import col
from deltamark.queries.query import Parameter, Query, Tables, months_later
from deltamark.queries.substitution import number_between, year

SQL = """
SELECT sum(l_extendedprice * l_discount) AS revenue
FROM lineitem
WHERE l_shipdate >= {date} AND l_shipdate < CAST({date} + INTERVAL 1 YEAR AS DATE)
  AND l_discount BETWEEN {discount} - 0.01 AND {discount} + 0.01
  AND l_quantity < {quantity}
"""

q06 = Query(
    SQL,
    parameters={
        "date": Parameter(dt.date(1994, 1, 1), year),
        "discount": Parameter(Decimal("0.06"), lambda chance: Decimal(chance.randint(2, 9)) / 100),
        "quantity": Parameter(24, number_between(24, 25)),
    },
)


@q06.variant
def plain(tpch: Tables, *, date: dt.date, discount: Decimal, quantity: int) -> Collection:
    return (
        tpch.lineitem.where(
            (col.shipdate >= date)
            & (col.shipdate < months_later(date, 12))
            & col.discount.between(discount - Decimal("0.01"), discount + Decimal("0.01"))
            & (col.quantity < quantity)
        )
        .aggregate(revenue=(col.extendedprice * col.discount).sum())
        .or_null()
    )
