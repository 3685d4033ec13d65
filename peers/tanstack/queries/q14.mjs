import { concat } from "@tanstack/db-ivm";

import { answer, days, discounted, joined, sum, total, where } from "../dataflow.mjs";

export const dataflow = ({ lineitem, part, noRow }, { date }) => {
  const [from, until] = [days(date), days(date, 1)];
  return lineitem.pipe(
    where((line) => line.l_shipdate >= from && line.l_shipdate < until),
    joined(part, (line) => line.l_partkey, (each) => each.p_partkey),
    concat(noRow),
    total({
      promo: sum((line) => (line.p_type.startsWith("PROMO") ? discounted(line) : 0)),
      all: sum(discounted),
    }),
    answer(({ promo, all }) => [all === null ? null : (100 * Number(promo)) / Number(all)]),
  );
};
