import { groupByOperators } from "@tanstack/db-ivm";

import { answer, days, discounted, grouped, joined, sum, total, where } from "../dataflow.mjs";

export const dataflow = ({ lineitem, supplier }, { date }) => {
  const [from, until] = [days(date), days(date, 3)];
  const revenue = lineitem.pipe(
    where((line) => line.l_shipdate >= from && line.l_shipdate < until),
    grouped(({ l_suppkey }) => ({ l_suppkey }), { total_revenue: sum(discounted) }),
  );
  const largest = revenue.pipe(total({ largest: groupByOperators.max(([, each]) => each.total_revenue) }));
  return revenue.pipe(
    joined(largest, (each) => each.total_revenue, (each) => each.largest),
    joined(supplier, (each) => each.l_suppkey, (each) => each.s_suppkey),
    answer((each) => [each.s_suppkey, each.s_name, each.s_address, each.s_phone, each.total_revenue]),
  );
};
