import { groupByOperators, map, reduce } from "@tanstack/db-ivm";

import { answer, first, grouped, joined, where } from "../dataflow.mjs";

export const dataflow = ({ supplier, lineitem, orders, nation }, { nation: name }) => {
  const suppliers = supplier.pipe(
    joined(nation.pipe(where((each) => each.n_name === name)), (each) => each.s_nationkey, (each) => each.n_nationkey),
  );
  const finished = orders.pipe(where((order) => order.o_orderstatus === "F"));
  return lineitem.pipe(
    map((line) => [line[1].l_orderkey, line]),
    reduce(waitedFor),
    map(([l_orderkey, l_suppkey]) => [`${l_orderkey}|${l_suppkey}`, { l_orderkey, l_suppkey }]),
    joined(suppliers, (line) => line.l_suppkey, (each) => each.s_suppkey),
    joined(finished, (line) => line.l_orderkey, (order) => order.o_orderkey),
    grouped(({ s_name }) => ({ s_name }), { numwait: groupByOperators.count() }),
    first(100, { numwait: -1, s_name: 1 }),
    answer(({ s_name, numwait }) => [s_name, numwait]),
  );
};

/** Return the supplier of an order of several suppliers who alone was late, once for each late line. */
function waitedFor(lines) {
  const late = lines.filter(([[, line]]) => line.l_receiptdate > line.l_commitdate);
  const suppliers = (those) => new Set(those.map(([[, line]]) => line.l_suppkey));
  const [who, ...others] = suppliers(late);
  if (who === undefined || others.length > 0 || suppliers(lines).size === 1) return [];
  return late.map(([, copies]) => [who, copies]);
}
