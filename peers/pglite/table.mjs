// A base table: its indexes, its batches, and what autovacuum would do to it.

import { MILLISECONDS_A_DAY } from "./arrow.mjs";

const TYPES = { int64: "bigint", date32: "date", string: "text" };

// A value of each type, which takes the place of NULL in a comparison that PostgreSQL can hash.
const KNOWN = { int64: "0", date32: "DATE '1970-01-01'", string: "''" };

/** Return the digits of a decimal behind the point; undefined for another type. */
export const scaleOf = (type) => /^decimal\((\d+)\)$/.exec(type)?.[1];

// The defaults of autovacuum, which PGlite does not run: a table is analyzed once its changed rows exceed a number and
// a share of all rows, and vacuumed once its dead rows do.
const THRESHOLD = 50;
const ANALYZE_SHARE = 0.1;
const VACUUM_SHARE = 0.2;

export class Table {
  constructor(database, name, columns, nullable = []) {
    Object.assign(this, { database, name, columns, nullable, live: 0, changed: 0, dead: 0 });
    this.names = columns.map(([column]) => column).join(", ");
    this.leaving = `leaving_${name}`;
  }

  /** Create the table with an index on each key, for joins and removal, or else one on all columns, for removal. */
  async create() {
    const constraint = (column) => (this.nullable.includes(column) ? "" : "NOT NULL");
    const typed = this.columns.map(([column, type]) => `${column} ${typeOf(type)} ${constraint(column)}`).join(", ");
    const keys = this.columns.map(([column]) => column).filter((column) => column.endsWith("key"));
    await this.database.exec(`
      CREATE TABLE ${this.name} (${typed});
      CREATE TEMP TABLE ${this.leaving} (LIKE ${this.name}) ON COMMIT DELETE ROWS;
      ${(keys.length ? keys : [this.names]).map((key) => `CREATE INDEX ON ${this.name} (${key});`).join("")}`);
  }

  /** Make the input of COPY for the rows of a batch. */
  batchOf({ diff, ...columns }) {
    const text = (type) => (value) => (value === null ? "\\N" : textOf(type)(value));
    const texts = this.columns.map(([column, type]) => columns[column].map(text(type)));
    const line = (at) => texts.map((text) => text[at]).join("\t");
    const lines = (wanted) => diff.flatMap((weight, at) => (weight === wanted ? line(at) : []));
    return new Batch(this, lines(1), lines(-1));
  }

  /** Remove as many copies of each row as are in the table of leaving rows. */
  async remove(count) {
    const kept = this.columns.map(([column]) => `kept.${column}`).join(", ");
    const removed = await this.database.query(`
      DELETE FROM ${this.name} WHERE ctid = ANY (ARRAY(
        SELECT place
        FROM (
          SELECT kept.ctid AS place, copies, row_number() OVER (PARTITION BY ${kept}) AS copy
          FROM (SELECT ${this.names}, count(*) AS copies FROM ${this.leaving} GROUP BY ${this.names}) AS gone
          JOIN ${this.name} AS kept ON ${this.columns.map((each) => this.same(each)).join(" AND ")}) AS found
        WHERE copy <= copies))`);
    const rows = removed.affectedRows;
    if (rows !== count) throw new Error(`${this.name} has ${rows} of ${count} rows to be removed`);
  }

  /** Return the condition that a column has the same value in both rows, or NULL in both. */
  same([column, type]) {
    if (!this.nullable.includes(column)) return `kept.${column} = gone.${column}`;
    const known = (row) => `coalesce(${row}.${column}, ${KNOWN[type] ?? "0"})`;
    return `${known("kept")} = ${known("gone")} AND (kept.${column} IS NULL) = (gone.${column} IS NULL)`;
  }

  /** Do the work of autovacuum on the table and the view. */
  async maintain() {
    const after = (share) => THRESHOLD + share * this.live;
    const vacuum = this.dead > after(VACUUM_SHARE);
    if (!vacuum && this.changed <= after(ANALYZE_SHARE)) return;
    await this.database.exec(`${vacuum ? "VACUUM (ANALYZE)" : "ANALYZE"} ${this.name}, answer`);
    this.changed = 0;
    if (vacuum) this.dead = 0;
  }
}

/** The rows that arrive and leave, as lines. */
class Batch {
  constructor(table, arriving, leaving) {
    Object.assign(this, { table, arriving: blobOf(arriving), leaving: blobOf(leaving) });
    this.counts = { arriving: arriving.length, leaving: leaving.length };
  }

  /** Insert the rows that arrive, then remove those that leave, since a row may do both. */
  async apply() {
    const { table, counts } = this;
    const copy = (name, blob) => table.database.query(`COPY ${name} (${table.names}) FROM '/dev/blob'`, [], { blob });
    if (counts.arriving) await copy(table.name, this.arriving);
    if (counts.leaving) {
      await copy(table.leaving, this.leaving);
      await table.remove(counts.leaving);
    }
    table.live += counts.arriving - counts.leaving;
    table.changed += counts.arriving + counts.leaving;
    table.dead += counts.leaving;
  }
}

const blobOf = (lines) => new Blob([lines.map((line) => `${line}\n`).join("")]);

/** Return the type of PostgreSQL. */
function typeOf(type) {
  const scale = scaleOf(type);
  return scale === undefined ? TYPES[type] : `numeric(15, ${scale})`;
}

/** Return the function from a value to its text in COPY. */
function textOf(type) {
  const scale = scaleOf(type);
  if (scale !== undefined) return (digits) => (digits / 10 ** scale).toFixed(scale);
  switch (type) {
    case "date32":
      return (days) => new Date(days * MILLISECONDS_A_DAY).toISOString().slice(0, 10);
    case "string":
      return (text) => text.replaceAll("\\", "\\\\").replaceAll("\t", "\\t").replaceAll("\n", "\\n");
    default:
      return String;
  }
}
