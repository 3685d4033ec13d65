import { concat } from "@tanstack/db-ivm";

import { answer, discounted, joined, sum, total, where } from "../dataflow.mjs";

const KINDS = [
  { containers: ["SM CASE", "SM BOX", "SM PACK", "SM PKG"], size: 5 },
  { containers: ["MED BAG", "MED BOX", "MED PKG", "MED PACK"], size: 10 },
  { containers: ["LG CASE", "LG BOX", "LG PACK", "LG PKG"], size: 15 },
];

export const dataflow = ({ lineitem, part, noRow }, parameters) => {
  const kinds = KINDS.map((kind, at) => ({
    ...kind,
    brand: parameters[`brand${at + 1}`],
    least: 100 * parameters[`quantity${at + 1}`],
  }));
  const isOf = (kind, each) =>
    each.p_brand === kind.brand && kind.containers.includes(each.p_container) &&
    each.p_size >= 1 && each.p_size <= kind.size;
  return lineitem.pipe(
    where((line) => line.l_shipinstruct === "DELIVER IN PERSON" && ["AIR", "AIR REG"].includes(line.l_shipmode)),
    joined(
      part.pipe(where((each) => kinds.some((kind) => isOf(kind, each)))),
      (line) => line.l_partkey,
      (each) => each.p_partkey,
    ),
    where((line) =>
      kinds.some((kind) => isOf(kind, line) && line.l_quantity >= kind.least && line.l_quantity <= kind.least + 1000),
    ),
    concat(noRow),
    total({ revenue: sum(discounted) }),
    answer(({ revenue }) => [revenue]),
  );
};
