import { answer, days, discounted, grouped, joined, select, sum, where, yearOf } from "../dataflow.mjs";

export const dataflow = ({ part, supplier, lineitem, orders, customer, nation, region }, parameters) => {
  const [from, until] = [days("1995-01-01"), days("1996-12-31")];
  const parts = part.pipe(where((each) => each.p_type === parameters.type));
  const members = nation.pipe(
    joined(
      region.pipe(where((each) => each.r_name === parameters.region)),
      (each) => each.n_regionkey,
      (each) => each.r_regionkey,
    ),
  );
  const customers = customer.pipe(joined(members, (each) => each.c_nationkey, (each) => each.n_nationkey));
  const sales = orders.pipe(
    where((order) => order.o_orderdate >= from && order.o_orderdate <= until),
    joined(customers, (order) => order.o_custkey, (each) => each.c_custkey),
    select(({ o_orderkey, o_orderdate }) => ({ o_orderkey, o_year: yearOf(o_orderdate) })),
  );
  const suppliers = supplier.pipe(
    joined(nation, (each) => each.s_nationkey, (each) => each.n_nationkey),
    select(({ s_suppkey, n_name }) => ({ s_suppkey, nation: n_name })),
  );
  return lineitem.pipe(
    joined(parts, (line) => line.l_partkey, (each) => each.p_partkey),
    joined(sales, (line) => line.l_orderkey, (order) => order.o_orderkey),
    joined(suppliers, (line) => line.l_suppkey, (each) => each.s_suppkey),
    grouped(({ o_year }) => ({ o_year }), {
      ours: sum((line) => (line.nation === parameters.nation ? discounted(line) : 0)),
      all: sum(discounted),
    }),
    answer(({ o_year, ours, all }) => [o_year, Number(ours) / Number(all)]),
  );
};
