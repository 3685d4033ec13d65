import { groupByOperators } from "@tanstack/db-ivm";

import { answer, antijoined, grouped, joined, where } from "../dataflow.mjs";

export const dataflow = ({ partsupp, part, supplier }, { brand, type, sizes }) => {
  const parts = part.pipe(
    where((each) => each.p_brand !== brand && !each.p_type.startsWith(type) && sizes.includes(each.p_size)),
  );
  const complaints = supplier.pipe(where((each) => /Customer.*Complaints/s.test(each.s_comment)));
  return partsupp.pipe(
    joined(parts, (offer) => offer.ps_partkey, (each) => each.p_partkey),
    antijoined(complaints, (offer) => offer.ps_suppkey, (each) => each.s_suppkey),
    grouped(({ p_brand, p_type, p_size, ps_suppkey }) => ({ p_brand, p_type, p_size, ps_suppkey })),
    grouped(({ p_brand, p_type, p_size }) => ({ p_brand, p_type, p_size }), { count: groupByOperators.count() }),
    answer(({ p_brand, p_type, p_size, count }) => [p_brand, p_type, p_size, count]),
  );
};
