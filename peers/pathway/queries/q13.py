"""Q13, customer distribution."""

from __future__ import annotations

import pathway as pw
from parts import Parameters, Table, Tables, has, matches
from pathway import left, right, this


def dataflow(t: Tables, p: Parameters) -> Table:
    word1, word2 = p["word1"], p["word2"]
    wanted = t.orders.filter(matches(this.o_comment, lambda text: not has(text, word1, word2)))
    orders = wanted.groupby(this.o_custkey).reduce(this.o_custkey, count=pw.reducers.count())
    customers = t.customer.join_left(orders, left.c_custkey == right.o_custkey).select(
        count=pw.coalesce(right.count, 0)
    )
    return customers.groupby(this.count).reduce(this.count, customers=pw.reducers.count())
