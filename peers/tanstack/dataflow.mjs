// The parts of which the queries are made. All streams have rows of the form that TanStack DB uses: [identity, row],
// with a string that tells the row from others, and an object of columns. Money is in units of its last digit.

import { filter, groupBy, join, map, reduce, topKWithFractionalIndex } from "@tanstack/db-ivm";

import { MILLISECONDS_A_DAY } from "./arrow.mjs";

const LARGE = 2 ** 52; // below 2^53, up to which numbers are exact, by more than any product

/** The only row of the stream `noRow`. A query that sums over it has a group without rows: its sum is NULL. */
export const NO_ROW = ["", null];

/** Keep the rows that satisfy a predicate. */
export const where = (predicate) => filter(([, row]) => predicate(row));

/** Compute other columns of each row. */
export const select = (columns) => map(([identity, row]) => [identity, columns(row)]);

/** Return the answer: rows as arrays. */
export const answer = (values) => map(([identity, row]) => [identity, values(row)]);

const by = (key) => map((keyed) => [key(keyed[1]), keyed]);

/** Join with another stream; a row has the columns of both. */
export const joined = (other, key, otherKey) => (stream) =>
  stream.pipe(
    by(key),
    join(other.pipe(by(otherKey))),
    map(([, [[left, row], [right, otherRow]]]) => [`${left},${right}`, { ...row, ...otherRow }]),
  );

/** Pair each row with the one row of another stream. */
export const crossed = (other) => joined(other, () => 0, () => 0);

const present = (key) => (stream) =>
  stream.pipe(
    map(([, row]) => [key(row), true]),
    reduce((values) => (values.some(([, copies]) => copies > 0) ? [[true, 1]] : [])),
  );

/** Keep the rows with a row of another stream. */
export const semijoined = (other, key, otherKey) => (stream) =>
  stream.pipe(by(key), join(other.pipe(present(otherKey))), map(([, [keyed]]) => keyed));

/** Keep the rows without a row of another stream. */
export const antijoined = (other, key, otherKey) => (stream) =>
  stream.pipe(by(key), join(other.pipe(present(otherKey)), "anti"), map(([, [keyed]]) => keyed));

/** Join with another stream; a row without a partner has null in the column `name`, and others have the partner. */
export const leftJoined = (other, name, key, otherKey) => (stream) =>
  stream.pipe(
    by(key),
    join(other.pipe(by(otherKey)), "left"),
    map(([, [[left, row], right]]) => [`${left},${right?.[0]}`, { ...row, [name]: right && right[1] }]),
  );

/** Group rows by some columns, and compute aggregates of each group. */
export const grouped = (key, aggregates) => groupBy(([, row]) => key(row), aggregates);

/** Aggregate all rows. */
export const total = (aggregates) => grouped(() => ({}), aggregates);

/** The sum of integers as a BigInt: those of Q1 exceed 2^53. It is NULL if there is no row. */
export const sum = (value) => ({
  preMap: ([, row]) => (row === null ? null : value(row)),
  reduce: (values) => {
    let high = 0n;
    let low = 0;
    let isNull = true;
    for (const [each, copies] of values) {
      if (each === null) continue;
      isNull = false;
      low += each * copies;
      if (low > LARGE || low < -LARGE) {
        high += BigInt(low);
        low = 0;
      }
    }
    return isNull ? null : high + BigInt(low);
  },
});

/**
 * Keep the first rows of an order, which names columns, each with 1 if ascending and -1 if descending. The operator
 * does not count copies, so the identity of a row must be unique: that of a group is.
 */
export const first = (limit, order) => (stream) =>
  stream.pipe(
    topKWithFractionalIndex(compare(order), { limit }),
    map(([identity, [row]]) => [identity, row]),
  );

/** As `first`, for rows that may occur several times. All rows are sorted again when one changes. */
export const firstOfCopies = (limit, order) => (stream) =>
  stream.pipe(
    map((keyed) => [0, keyed]),
    reduce((rows) => firstCopies(rows, limit, compare(order))),
    map(([, keyed]) => keyed),
  );

function firstCopies(rows, limit, compared) {
  const chosen = [];
  for (const [keyed, copies] of [...rows].sort(([[, left]], [[, right]]) => compared(left, right))) {
    if (limit <= 0) break;
    chosen.push([keyed, Math.min(copies, limit)]);
    limit -= copies;
  }
  return chosen;
}

function compare(order) {
  const columns = Object.entries(order);
  return (left, right) => {
    for (const [name, direction] of columns) {
      if (left[name] < right[name]) return -direction;
      if (left[name] > right[name]) return direction;
    }
    return 0;
  };
}

/** Return a date as the number of days since 1970, so many months later. */
export function days(date, months = 0) {
  const [year, month, day] = date.split("-").map(Number);
  return Date.UTC(year, month - 1 + months, day) / MILLISECONDS_A_DAY;
}

/** Return the year of a date. */
export const yearOf = (day) => new Date(day * MILLISECONDS_A_DAY).getUTCFullYear();

/** Return a decimal in hundredths. */
export const hundredths = (decimal) => Math.round(Number(decimal) * 100);

/** Return the price of a line less its discount, with four digits behind the point. */
export const discounted = (line) => line.l_extendedprice * (100 - line.l_discount);
