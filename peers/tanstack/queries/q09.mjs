import { answer, discounted, grouped, joined, select, sum, where, yearOf } from "../dataflow.mjs";

export const dataflow = ({ part, supplier, lineitem, partsupp, orders, nation }, { color }) => {
  const parts = part.pipe(where((each) => each.p_name.includes(color)));
  const suppliers = supplier.pipe(
    joined(nation, (each) => each.s_nationkey, (each) => each.n_nationkey),
    select(({ s_suppkey, n_name }) => ({ s_suppkey, n_name })),
  );
  const offers = partsupp.pipe(
    joined(parts, (offer) => offer.ps_partkey, (each) => each.p_partkey),
    select(({ ps_partkey, ps_suppkey, ps_supplycost }) => ({ ps_partkey, ps_suppkey, ps_supplycost })),
    joined(suppliers, (offer) => offer.ps_suppkey, (each) => each.s_suppkey),
  );
  return lineitem.pipe(
    joined(
      offers,
      (line) => `${line.l_partkey}|${line.l_suppkey}`,
      (offer) => `${offer.ps_partkey}|${offer.ps_suppkey}`,
    ),
    joined(orders, (line) => line.l_orderkey, (order) => order.o_orderkey),
    grouped(({ n_name, o_orderdate }) => ({ n_name, o_year: yearOf(o_orderdate) }), {
      profit: sum((line) => discounted(line) - line.ps_supplycost * line.l_quantity),
    }),
    answer(({ n_name, o_year, profit }) => [n_name, o_year, profit]),
  );
};
