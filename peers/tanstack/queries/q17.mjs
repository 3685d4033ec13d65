import { concat, groupByOperators } from "@tanstack/db-ivm";

import { answer, grouped, joined, select, sum, total, where } from "../dataflow.mjs";

export const dataflow = ({ lineitem, part, noRow }, { brand, container }) => {
  const lines = lineitem.pipe(
    joined(
      part.pipe(where((each) => each.p_brand === brand && each.p_container === container)),
      (line) => line.l_partkey,
      (each) => each.p_partkey,
    ),
    select(({ l_partkey, l_quantity, l_extendedprice }) => ({ l_partkey, l_quantity, l_extendedprice })),
  );
  const means = lines.pipe(
    grouped(({ l_partkey }) => ({ l_partkey }), {
      quantity: sum((line) => line.l_quantity),
      count: groupByOperators.count(),
    }),
  );
  return lines.pipe(
    joined(means, (line) => line.l_partkey, (each) => each.l_partkey),
    where((line) => 5 * line.l_quantity * line.count < line.quantity),
    concat(noRow),
    total({ price: sum((line) => line.l_extendedprice) }),
    answer(({ price }) => [price === null ? null : Number(price) / 100 / 7]),
  );
};
