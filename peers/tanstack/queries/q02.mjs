import { map, reduce } from "@tanstack/db-ivm";

import { answer, firstOfCopies, joined, where } from "../dataflow.mjs";

const ORDER = {
  s_acctbal: -1, n_name: 1, s_name: 1, p_partkey: 1, p_mfgr: 1, s_address: 1, s_phone: 1, s_comment: 1,
};

export const dataflow = ({ part, supplier, partsupp, nation, region }, { size, metal, region: name }) => {
  const nations = nation.pipe(
    joined(region.pipe(where((each) => each.r_name === name)), (each) => each.n_regionkey, (each) => each.r_regionkey),
  );
  const suppliers = supplier.pipe(joined(nations, (each) => each.s_nationkey, (each) => each.n_nationkey));
  const parts = part.pipe(where((each) => each.p_size === size && each.p_type.endsWith(metal)));
  return partsupp.pipe(
    joined(parts, (offer) => offer.ps_partkey, (each) => each.p_partkey),
    joined(suppliers, (offer) => offer.ps_suppkey, (each) => each.s_suppkey),
    map((offer) => [offer[1].ps_partkey, offer]),
    reduce(cheapest),
    map(([, offer]) => offer),
    firstOfCopies(100, ORDER),
    answer((each) => [
      each.s_acctbal, each.s_name, each.n_name, each.p_partkey, each.p_mfgr,
      each.s_address, each.s_phone, each.s_comment,
    ]),
  );
};

/** Return the offers of a part with the lowest cost. */
function cheapest(offers) {
  const lowest = Math.min(...offers.map(([[, offer]]) => offer.ps_supplycost));
  return offers.filter(([[, offer]]) => offer.ps_supplycost === lowest);
}
