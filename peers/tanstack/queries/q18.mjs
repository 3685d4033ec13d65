import { answer, first, grouped, joined, sum, where } from "../dataflow.mjs";

export const dataflow = ({ customer, orders, lineitem }, { quantity }) => {
  const large = lineitem.pipe(
    grouped(({ l_orderkey }) => ({ l_orderkey }), { sum_quantity: sum((line) => line.l_quantity) }),
    where((order) => order.sum_quantity > 100 * quantity),
  );
  return orders.pipe(
    joined(large, (order) => order.o_orderkey, (each) => each.l_orderkey),
    joined(customer, (order) => order.o_custkey, (each) => each.c_custkey),
    first(100, { o_totalprice: -1, o_orderdate: 1, c_name: 1, c_custkey: 1, o_orderkey: 1, sum_quantity: 1 }),
    answer((each) => [
      each.c_name, each.c_custkey, each.o_orderkey, each.o_orderdate, each.o_totalprice, each.sum_quantity,
    ]),
  );
};
