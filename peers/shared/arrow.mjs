// The Arrow files of the engine protocol: rows of input as JavaScript values, and rows of output as columns.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { Bool, DateDay, Decimal, DurationMicrosecond, Float64, Int64 } from "apache-arrow";
import { TimeMicrosecond, TimestampMicrosecond, Utf8 } from "apache-arrow";
import { Table, Type, Vector, tableFromIPC, tableToIPC, vectorFromArray } from "apache-arrow";

export const MILLISECONDS_A_DAY = 86_400_000;

/** The types of which a value is a number of microseconds. */
export const MOMENTS = {
  timestamp: new TimestampMicrosecond(),
  timestamptz: new TimestampMicrosecond("UTC"),
  time: new TimeMicrosecond(),
  interval: new DurationMicrosecond(),
};

const TWO_TO_32 = 2 ** 32;

/**
 * Read a file of rows; return an array of values for each column, by name, in which null is NULL. Integers, decimals
 * (without their point) and dates (days since 1970) are numbers: those of TPC-H are below 2^53, up to which numbers are
 * exact.
 */
export function readColumns(directory, file) {
  const table = tableFromIPC(readFileSync(join(directory, file)));
  return Object.fromEntries(table.schema.fields.map(({ name }) => [name, table.getChild(name).data.flatMap(valuesOf)]));
}

function valuesOf(data) {
  const values = storedValuesOf(data);
  return data.nullCount ? values.map((value, at) => (data.getValid(at) ? value : null)) : values;
}

/** Return the values of a column, and arbitrary ones in the place of NULL. */
function storedValuesOf(data) {
  const { type, values, length } = data;
  switch (type.typeId) {
    case Type.Int:
      return Array.from(values.subarray(0, length), Number);
    case Type.Date:
      return Array.from(values.subarray(0, length));
    case Type.Decimal: // four words of 32 bits, of which the lower two hold any decimal of 15 digits
      return Array.from({ length }, (_, at) => (values[4 * at + 1] | 0) * TWO_TO_32 + (values[4 * at] >>> 0));
    case Type.Dictionary: {
      const words = data.dictionary.toArray();
      return Array.from(values.subarray(0, length), (at) => words[at]);
    }
    case Type.Utf8:
      return [...new Table({ text: data }).getChild("text")];
    default:
      throw new Error(`not a type of the protocol: ${type}`);
  }
}

/**
 * Write rows, which are arrays, to a file; return the reply that names it. `columns` has the name and the type of each
 * column. A decimal is its number without the point, a timestamp that of microseconds; null is NULL.
 */
export function writeRows(directory, file, columns, rows) {
  const vectors = columns.map(([name, type], at) => [`${at} ${name}`, vectorOf(type, rows.map((row) => row[at]))]);
  writeFileSync(join(directory, file), tableToIPC(new Table(Object.fromEntries(vectors)), "file"));
  return { file };
}

function vectorOf(type, values) {
  const decimal = /^decimal\((\d+)\)$/.exec(type);
  if (decimal) return vectorFromArray(mapped(values, wordsOf), new Decimal(Number(decimal[1]), 38, 128));
  const integers = () => vectorFromArray(mapped(values, BigInt), new Int64());
  if (type in MOMENTS) return new Vector(integers().data.map((data) => data.clone(MOMENTS[type])));
  switch (type) {
    case "int64":
      return integers();
    case "date32":
      return vectorFromArray(mapped(values, (days) => days * MILLISECONDS_A_DAY), new DateDay());
    case "bool":
      return vectorFromArray(values, new Bool());
    case "double":
      return vectorFromArray(values, new Float64());
    case "string":
      return vectorFromArray(values, new Utf8());
    default:
      throw new Error(`not a type of the protocol: ${type}`);
  }
}

function mapped(values, convert) {
  return values.map((value) => (value === null ? null : convert(value)));
}

/** Return the four words of a decimal, the lowest first. */
function wordsOf(number) {
  const bits = BigInt.asUintN(128, BigInt(number));
  return Uint32Array.from([0n, 32n, 64n, 96n], (shift) => Number((bits >> shift) & 0xffffffffn));
}
