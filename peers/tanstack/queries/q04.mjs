import { groupByOperators } from "@tanstack/db-ivm";

import { answer, days, grouped, semijoined, where } from "../dataflow.mjs";

export const dataflow = ({ orders, lineitem }, { date }) => {
  const [from, until] = [days(date), days(date, 3)];
  const late = lineitem.pipe(where((line) => line.l_commitdate < line.l_receiptdate));
  return orders.pipe(
    where((order) => order.o_orderdate >= from && order.o_orderdate < until),
    semijoined(late, (order) => order.o_orderkey, (line) => line.l_orderkey),
    grouped(({ o_orderpriority }) => ({ o_orderpriority }), { count: groupByOperators.count() }),
    answer(({ o_orderpriority, count }) => [o_orderpriority, count]),
  );
};
