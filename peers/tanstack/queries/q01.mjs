import { groupByOperators } from "@tanstack/db-ivm";

import { answer, days, discounted, grouped, sum, where } from "../dataflow.mjs";

export const dataflow = ({ lineitem }, parameters) => {
  const last = days("1998-12-01") - parameters.days;
  return lineitem.pipe(
    where((line) => line.l_shipdate <= last),
    grouped(({ l_returnflag, l_linestatus }) => ({ l_returnflag, l_linestatus }), {
      quantity: sum((line) => line.l_quantity),
      price: sum((line) => line.l_extendedprice),
      discPrice: sum(discounted),
      charge: sum((line) => discounted(line) * (100 + line.l_tax)),
      discount: sum((line) => line.l_discount),
      count: groupByOperators.count(),
    }),
    answer(({ l_returnflag, l_linestatus, quantity, price, discPrice, charge, discount, count }) => {
      const average = (hundredths) => Number(hundredths) / 100 / count;
      return [
        l_returnflag, l_linestatus, quantity, price, discPrice, charge,
        average(quantity), average(price), average(discount), count,
      ];
    }),
  );
};
