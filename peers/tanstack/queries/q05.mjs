import { answer, days, discounted, grouped, joined, sum, where } from "../dataflow.mjs";

export const dataflow = ({ customer, orders, lineitem, supplier, nation, region }, parameters) => {
  const [from, until] = [days(parameters.date), days(parameters.date, 12)];
  const nations = nation.pipe(
    joined(
      region.pipe(where((each) => each.r_name === parameters.region)),
      (each) => each.n_regionkey,
      (each) => each.r_regionkey,
    ),
  );
  const suppliers = supplier.pipe(joined(nations, (each) => each.s_nationkey, (each) => each.n_nationkey));
  const sales = orders.pipe(
    where((order) => order.o_orderdate >= from && order.o_orderdate < until),
    joined(customer, (order) => order.o_custkey, (each) => each.c_custkey),
  );
  return lineitem.pipe(
    joined(sales, (line) => line.l_orderkey, (order) => order.o_orderkey),
    joined(
      suppliers,
      (line) => `${line.l_suppkey}|${line.c_nationkey}`,
      (each) => `${each.s_suppkey}|${each.s_nationkey}`,
    ),
    grouped(({ n_name }) => ({ n_name }), { revenue: sum(discounted) }),
    answer(({ n_name, revenue }) => [n_name, revenue]),
  );
};
