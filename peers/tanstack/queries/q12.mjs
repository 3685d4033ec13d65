import { answer, days, grouped, joined, sum, where } from "../dataflow.mjs";

const URGENT = ["1-URGENT", "2-HIGH"];

export const dataflow = ({ orders, lineitem }, { modes, date }) => {
  const [from, until] = [days(date), days(date, 12)];
  return lineitem.pipe(
    where((line) => line.l_receiptdate >= from && line.l_receiptdate < until && modes.includes(line.l_shipmode)),
    where((line) => line.l_commitdate < line.l_receiptdate && line.l_shipdate < line.l_commitdate),
    joined(orders, (line) => line.l_orderkey, (order) => order.o_orderkey),
    grouped(({ l_shipmode }) => ({ l_shipmode }), {
      high: sum((line) => (URGENT.includes(line.o_orderpriority) ? 1 : 0)),
      low: sum((line) => (URGENT.includes(line.o_orderpriority) ? 0 : 1)),
    }),
    answer(({ l_shipmode, high, low }) => [l_shipmode, high, low]),
  );
};
