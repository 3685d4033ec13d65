import { answer, days, discounted, grouped, joined, select, sum, where, yearOf } from "../dataflow.mjs";

export const dataflow = ({ supplier, lineitem, orders, customer, nation }, { nation1, nation2 }) => {
  const [from, until] = [days("1995-01-01"), days("1996-12-31")];
  const nations = nation.pipe(where(({ n_name }) => n_name === nation1 || n_name === nation2));
  const suppliers = supplier.pipe(
    joined(nations, (each) => each.s_nationkey, (each) => each.n_nationkey),
    select(({ s_suppkey, n_name }) => ({ s_suppkey, supp_nation: n_name })),
  );
  const customers = customer.pipe(
    joined(nations, (each) => each.c_nationkey, (each) => each.n_nationkey),
    select(({ c_custkey, n_name }) => ({ c_custkey, cust_nation: n_name })),
  );
  const sales = orders.pipe(joined(customers, (order) => order.o_custkey, (each) => each.c_custkey));
  return lineitem.pipe(
    where((line) => line.l_shipdate >= from && line.l_shipdate <= until),
    joined(suppliers, (line) => line.l_suppkey, (each) => each.s_suppkey),
    joined(sales, (line) => line.l_orderkey, (order) => order.o_orderkey),
    where((line) => line.supp_nation !== line.cust_nation),
    grouped(({ supp_nation, cust_nation, l_shipdate }) => ({ supp_nation, cust_nation, l_year: yearOf(l_shipdate) }), {
      revenue: sum(discounted),
    }),
    answer((each) => [each.supp_nation, each.cust_nation, each.l_year, each.revenue]),
  );
};
