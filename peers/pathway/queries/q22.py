"""Q22, global sales opportunity."""

from __future__ import annotations

import pathway as pw
from parts import Parameters, Table, Tables, matches, with_one
from pathway import left, right, this


def dataflow(t: Tables, p: Parameters) -> Table:
    codes = frozenset(p["codes"])
    customers = t.customer.select(
        this.c_custkey, this.c_acctbal, code=pw.apply_with_type(lambda phone: phone[:2], str, this.c_phone)
    ).filter(matches(this.code, codes.__contains__))
    positive = customers.filter(this.c_acctbal > 0)
    mean = positive.reduce(sum=pw.reducers.sum(this.c_acctbal), count=pw.reducers.count())
    active = t.orders.groupby(this.o_custkey).reduce(this.o_custkey)
    idle = (
        customers.join_left(active, left.c_custkey == right.o_custkey)
        .select(left.c_acctbal, left.code, right.o_custkey)
        .filter(this.o_custkey.is_none())
        .select(this.c_acctbal, this.code)
    )
    above = with_one(idle, mean).filter(this.c_acctbal * this.count > this.sum)
    return above.groupby(this.code).reduce(
        this.code, customers=pw.reducers.count(), balance=pw.reducers.sum(this.c_acctbal)
    )
