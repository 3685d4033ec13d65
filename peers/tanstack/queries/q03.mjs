import { answer, days, discounted, first, grouped, joined, sum, where } from "../dataflow.mjs";

export const dataflow = ({ customer, orders, lineitem }, { segment, date }) => {
  const day = days(date);
  const customers = customer.pipe(where((each) => each.c_mktsegment === segment));
  const early = orders.pipe(
    where((order) => order.o_orderdate < day),
    joined(customers, (order) => order.o_custkey, (each) => each.c_custkey),
  );
  return lineitem.pipe(
    where((line) => line.l_shipdate > day),
    joined(early, (line) => line.l_orderkey, (order) => order.o_orderkey),
    grouped(({ l_orderkey, o_orderdate, o_shippriority }) => ({ l_orderkey, o_orderdate, o_shippriority }), {
      revenue: sum(discounted),
    }),
    first(10, { revenue: -1, o_orderdate: 1, l_orderkey: 1, o_shippriority: 1 }),
    answer((order) => [order.l_orderkey, order.revenue, order.o_orderdate, order.o_shippriority]),
  );
};
