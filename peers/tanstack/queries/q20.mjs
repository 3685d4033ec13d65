import { answer, days, grouped, joined, semijoined, sum, where } from "../dataflow.mjs";

export const dataflow = ({ supplier, nation, partsupp, part, lineitem }, { color, date, nation: name }) => {
  const [from, until] = [days(date), days(date, 12)];
  const parts = part.pipe(where((each) => each.p_name.startsWith(color)));
  const sold = lineitem.pipe(
    where((line) => line.l_shipdate >= from && line.l_shipdate < until),
    semijoined(parts, (line) => line.l_partkey, (each) => each.p_partkey),
    grouped(({ l_partkey, l_suppkey }) => ({ l_partkey, l_suppkey }), { quantity: sum((line) => line.l_quantity) }),
  );
  const plenty = partsupp.pipe(
    semijoined(parts, (offer) => offer.ps_partkey, (each) => each.p_partkey),
    joined(
      sold,
      (offer) => `${offer.ps_partkey}|${offer.ps_suppkey}`,
      (each) => `${each.l_partkey}|${each.l_suppkey}`,
    ),
    where((offer) => 200 * offer.ps_availqty > offer.quantity),
  );
  return supplier.pipe(
    joined(nation.pipe(where((each) => each.n_name === name)), (each) => each.s_nationkey, (each) => each.n_nationkey),
    semijoined(plenty, (each) => each.s_suppkey, (offer) => offer.ps_suppkey),
    answer(({ s_name, s_address }) => [s_name, s_address]),
  );
};
