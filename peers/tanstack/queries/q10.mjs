import { answer, days, discounted, first, grouped, joined, select, sum, where } from "../dataflow.mjs";

export const dataflow = ({ customer, orders, lineitem, nation }, { date }) => {
  const [from, until] = [days(date), days(date, 3)];
  const customers = customer.pipe(joined(nation, (each) => each.c_nationkey, (each) => each.n_nationkey));
  const keys = customers.pipe(select(({ c_custkey }) => ({ c_custkey })));
  const sales = orders.pipe(
    where((order) => order.o_orderdate >= from && order.o_orderdate < until),
    joined(keys, (order) => order.o_custkey, (each) => each.c_custkey),
  );
  return lineitem.pipe(
    where((line) => line.l_returnflag === "R"),
    joined(sales, (line) => line.l_orderkey, (order) => order.o_orderkey),
    grouped(({ c_custkey }) => ({ c_custkey }), { revenue: sum(discounted) }),
    first(20, { revenue: -1, c_custkey: 1 }),
    joined(customers, (each) => each.c_custkey, (each) => each.c_custkey),
    answer((each) => [
      each.c_custkey, each.c_name, each.revenue, each.c_acctbal,
      each.n_name, each.c_address, each.c_phone, each.c_comment,
    ]),
  );
};
