import { groupByOperators } from "@tanstack/db-ivm";

import { answer, grouped, leftJoined, select, where } from "../dataflow.mjs";

export const dataflow = ({ customer, orders }, { word1, word2 }) => {
  const special = new RegExp(`${word1}.*${word2}`, "s");
  const plain = orders.pipe(
    where((order) => !special.test(order.o_comment)),
    select(({ o_custkey, o_orderkey }) => ({ o_custkey, o_orderkey })),
  );
  return customer.pipe(
    leftJoined(plain, "order", (each) => each.c_custkey, (order) => order.o_custkey),
    grouped(({ c_custkey }) => ({ c_custkey }), { c_count: groupByOperators.count(([, each]) => each.order) }),
    grouped(({ c_count }) => ({ c_count }), { custdist: groupByOperators.count() }),
    answer(({ c_count, custdist }) => [c_count, custdist]),
  );
};
