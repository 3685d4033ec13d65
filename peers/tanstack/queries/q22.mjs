import { groupByOperators } from "@tanstack/db-ivm";

import { answer, antijoined, crossed, grouped, select, sum, total, where } from "../dataflow.mjs";

export const dataflow = ({ customer, orders }, { codes }) => {
  const customers = customer.pipe(
    select((each) => ({ ...each, cntrycode: each.c_phone.slice(0, 2) })),
    where((each) => codes.includes(each.cntrycode)),
  );
  const mean = customers.pipe(
    where((each) => each.c_acctbal > 0),
    total({ balance: sum((each) => each.c_acctbal), count: groupByOperators.count() }),
  );
  return customers.pipe(
    antijoined(orders, (each) => each.c_custkey, (order) => order.o_custkey),
    crossed(mean),
    where((each) => each.c_acctbal * each.count > each.balance),
    grouped(({ cntrycode }) => ({ cntrycode }), {
      numcust: groupByOperators.count(),
      totacctbal: sum((each) => each.c_acctbal),
    }),
    answer(({ cntrycode, numcust, totacctbal }) => [cntrycode, numcust, totacctbal]),
  );
};
