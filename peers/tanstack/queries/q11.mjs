import { answer, crossed, grouped, joined, sum, total, where } from "../dataflow.mjs";

export const dataflow = ({ partsupp, supplier, nation }, parameters) => {
  const [whole, fraction = ""] = parameters.inverse_fraction.split(".");
  const [numerator, denominator] = [BigInt(whole + fraction), 10n ** BigInt(fraction.length)];
  const suppliers = supplier.pipe(
    joined(
      nation.pipe(where((each) => each.n_name === parameters.nation)),
      (each) => each.s_nationkey,
      (each) => each.n_nationkey,
    ),
  );
  const stock = partsupp.pipe(joined(suppliers, (each) => each.ps_suppkey, (each) => each.s_suppkey));
  const value = sum((each) => each.ps_supplycost * each.ps_availqty);
  return stock.pipe(
    grouped(({ ps_partkey }) => ({ ps_partkey }), { value }),
    crossed(stock.pipe(total({ all: value }))),
    where((each) => each.value * numerator > each.all * denominator),
    answer((each) => [each.ps_partkey, each.value]),
  );
};
