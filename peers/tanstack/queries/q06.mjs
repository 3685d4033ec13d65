import { concat } from "@tanstack/db-ivm";

import { answer, days, hundredths, sum, total, where } from "../dataflow.mjs";

export const dataflow = ({ lineitem, noRow }, { date, discount, quantity }) => {
  const [from, until, middle] = [days(date), days(date, 12), hundredths(discount)];
  return lineitem.pipe(
    where((line) => line.l_shipdate >= from && line.l_shipdate < until && line.l_quantity < 100 * quantity),
    where((line) => line.l_discount >= middle - 1 && line.l_discount <= middle + 1),
    concat(noRow),
    total({ revenue: sum((line) => line.l_extendedprice * line.l_discount) }),
    answer(({ revenue }) => [revenue]),
  );
};
