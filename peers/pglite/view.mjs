// The incrementally maintained view of a query, and the SQL that reads it.

import { MOMENTS } from "./arrow.mjs";

// `sum(a) / sum(b) AS c`: pg_ivm maintains no expressions of aggregates, but both sums.
const QUOTIENT = /([\d.]+ \* )?(sum\(.*?\))\s*\/ (sum\(.*?\)) AS \w+/s;

/** Create the view; return the SQL that reads the answer from it. The view has no ORDER BY and no LIMIT. */
export async function viewOf(database, sql, answer) {
  const [, query, written = "", limit] = /^(.*?)(ORDER BY [^()]*?)?(LIMIT \d+)?\s*$/s.exec(sql);
  const order = written.replace(/\b\w+\.(\w+)/g, "$1"); // the view has no tables
  const view = query.replace(QUOTIENT, "$2 AS numerator, $3 AS denominator");
  await database.query("SELECT pgivm.create_immv('answer', $1)", [view]);
  if (limit) await database.exec(`CREATE INDEX ON answer (${firstOf(order)})`);
  const factor = QUOTIENT.exec(query)?.[1] ?? "";
  const { fields } = await database.query("SELECT * FROM answer");
  const values = fields
    .map(({ name }) => (name === "numerator" ? `${factor}numerator / denominator` : name))
    .filter((name) => name !== "denominator" && !name.startsWith("__ivm_"));
  const read = values.map((value, at) => readAs(answer[at][1], value));
  return `SELECT ${read.join(", ")} FROM answer ${order}${limit ?? ""}`;
}

/** Return the SQL that reads a value: a number of microseconds in the place of a timestamp, a time or an interval. */
function readAs(type, value) {
  if (type in MOMENTS) return `(extract(EPOCH FROM ${value}) * 1000000)::bigint`;
  return type === "double" ? `(${value})::double precision` : value;
}

/** Return the first column of ORDER BY. */
function firstOf(order) {
  return order.replace("ORDER BY ", "").split(",")[0];
}
