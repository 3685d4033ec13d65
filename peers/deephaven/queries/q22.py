"""Q22, global sales opportunity."""

from __future__ import annotations

from deephaven import agg
from deephaven.table import Table
from parts import Parameters, Tables, absent, counted, one_of, with_one


def dataflow(t: Tables, p: Parameters) -> Table:
    coded = t.customer.view(["c_custkey", "c_acctbal", "code = c_phone.substring(0, 2)"])
    customers = coded.where(one_of("code", p["codes"]))
    positive = customers.where("c_acctbal > 0")
    mean = positive.agg_by([agg.sum_("whole = c_acctbal"), agg.count_("number")])
    idle = absent(customers, counted(t.orders, "o_custkey"), "c_custkey = o_custkey")
    above = with_one(idle, mean, ["whole", "number"]).where("c_acctbal * number > whole")
    return above.agg_by([agg.count_("customers"), agg.sum_("balance = c_acctbal")], "code")
