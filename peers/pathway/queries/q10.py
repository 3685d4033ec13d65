"""Q10, returned items."""

from __future__ import annotations

import pathway as pw
from parts import REVENUE, Parameters, Table, Tables, days, first, unpacked
from pathway import left, right, this


def dataflow(t: Tables, p: Parameters) -> Table:
    orders = t.orders.filter((this.o_orderdate >= days(p["date"])) & (this.o_orderdate < days(p["date"], 3)))
    lines = t.lineitem.filter(this.l_returnflag == "R").select(this.l_orderkey, revenue=REVENUE)
    joined = lines.join(orders, left.l_orderkey == right.o_orderkey).select(right.o_custkey, left.revenue)
    sums = joined.groupby(this.o_custkey).reduce(this.o_custkey, revenue=pw.reducers.sum(this.revenue))
    customers = t.customer.join(t.nation, left.c_nationkey == right.n_nationkey).select(*left, right.n_name)
    wide = sums.join(customers, left.o_custkey == right.c_custkey).select(left.revenue, *right)
    top = first(
        wide, 20, this.c_custkey, -this.revenue, this.c_custkey, this.c_name, this.c_acctbal, this.n_name,
        this.c_address, this.c_phone, this.c_comment,
    )  # fmt: skip
    found = unpacked(
        top, key=(1, int), name=(2, str), negative=(0, int), balance=(3, int), nation=(4, str), address=(5, str),
        phone=(6, str), comment=(7, str),
    )  # fmt: skip
    return found.select(
        this.key, this.name, revenue=-this.negative, balance=this.balance, nation=this.nation, address=this.address,
        phone=this.phone, comment=this.comment,
    )  # fmt: skip
