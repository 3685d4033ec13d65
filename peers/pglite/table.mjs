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

// The columns that an index of PostgreSQL may have.
const MOST_INDEXED = 32;

/** Return the table of a relation. */
export function tableOf(database, name, { columns, nullable = [], keys: [key] = [] }) {
  return key ? new KeyedTable(database, name, columns, nullable, key) : new Table(database, name, columns, nullable);
}

/** A table that may have equal rows. */
class Table {
  constructor(database, name, columns, nullable) {
    Object.assign(this, { database, name, columns, nullable, live: 0, changed: 0, dead: 0 });
    this.names = columns.map(([column]) => column);
    this.leaving = { name: `leaving_${name}`, names: this.names };
  }

  /** Create the table with an index on each key, for joins and removal, or else one on all columns, for removal. */
  async create() {
    const constraint = (column) => (this.nullable.includes(column) ? "" : "NOT NULL");
    const typed = this.columns.map(([column, type]) => `${column} ${typeOf(type)} ${constraint(column)}`);
    await this.database.exec(`
      CREATE TABLE ${this.name} (${typed});
      CREATE TEMP TABLE ${this.leaving.name} ON COMMIT DELETE ROWS AS SELECT ${this.leaving.names} FROM ${this.name};
      ${this.indexes().join(";")}`);
  }

  indexes() {
    const keys = this.names.filter((column) => column.endsWith("key"));
    return this.indexesOn(keys.length ? keys : [this.names.slice(0, MOST_INDEXED)]);
  }

  indexesOn(keys) {
    return keys.map((key) => `CREATE INDEX ON ${this.name} (${key})`);
  }

  /** Return the rows of a batch, which `apply` makes those of the table. */
  batchOf({ diff, ...columns }) {
    const text = (type) => (value) => (value === null ? "\\N" : textOf(type)(value));
    const texts = Object.fromEntries(this.columns.map(([column, type]) => [column, columns[column].map(text(type))]));
    const linesOf = (names) => diff.map((_, at) => names.map((name) => texts[name][at]).join("\t"));
    return this.split(diff, linesOf(this.names), linesOf);
  }

  /** Make the input of COPY for the rows that arrive, and for those that leave. */
  split(diff, lines) {
    const having = (wanted) => blobOf(lines.filter((_, at) => diff[at] === wanted));
    return { table: this, arriving: having(1), leaving: having(-1) };
  }

  /** Insert the rows that arrive, then remove those that leave, since a row may do both. */
  async apply({ arriving, leaving }) {
    await this.insert(arriving);
    await this.remove(leaving);
  }

  async insert(arriving) {
    await this.copy(this, arriving);
    this.live += arriving.rows;
    this.changed += arriving.rows;
  }

  async remove(leaving) {
    await this.copy(this.leaving, leaving);
    const { affectedRows } = leaving.rows ? await this.database.query(this.removal()) : { affectedRows: 0 };
    if (affectedRows !== leaving.rows) {
      throw new Error(`${this.name} has ${affectedRows} of ${leaving.rows} rows to be removed`);
    }
    this.live -= leaving.rows;
    this.changed += leaving.rows;
    this.dead += leaving.rows;
  }

  async copy({ name, names }, { blob, rows }) {
    if (rows) await this.database.query(`COPY ${name} (${names}) FROM '/dev/blob'`, [], { blob });
  }

  /** Return the SQL that removes as many copies of each row as are in the table of leaving rows. */
  removal() {
    const kept = this.names.map((column) => `kept.${column}`);
    return `
      DELETE FROM ${this.name} WHERE ctid = ANY (ARRAY(
        SELECT place
        FROM (
          SELECT kept.ctid AS place, copies, row_number() OVER (PARTITION BY ${kept}) AS copy
          FROM (SELECT ${this.names}, count(*) AS copies FROM ${this.leaving.name} GROUP BY ${this.names}) AS gone
          JOIN ${this.name} AS kept ON ${this.columns.map((each) => this.same(each)).join(" AND ")}) AS found
        WHERE copy <= copies))`;
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

/** A table with a primary key, by which rows are removed. */
class KeyedTable extends Table {
  constructor(database, name, columns, nullable, key) {
    super(database, name, columns, nullable);
    this.key = key;
    this.leaving.names = key;
  }

  indexes() {
    const others = this.names.filter((column) => column.endsWith("key") && column !== this.key[0]);
    return [`ALTER TABLE ${this.name} ADD PRIMARY KEY (${this.key})`, ...this.indexesOn(others)];
  }

  split(diff, lines, linesOf) {
    return { table: this, diff, lines, keys: linesOf(this.key) };
  }

  /** Remove the rows that were there before the batch and leave, then insert those that are there after it. */
  async apply({ diff, lines, keys }) {
    const first = new Map();
    const last = new Map();
    keys.forEach((key, at) => {
      if (!first.has(key)) first.set(key, at);
      last.set(key, at);
    });
    const having = (places, wanted) => [...places.values()].filter((at) => diff[at] === wanted);
    await this.remove(blobOf(having(first, -1).map((at) => keys[at])));
    await this.insert(blobOf(having(last, 1).map((at) => lines[at])));
  }

  removal() {
    const same = this.key.map((column) => `kept.${column} = gone.${column}`).join(" AND ");
    return `DELETE FROM ${this.name} AS kept USING ${this.leaving.name} AS gone WHERE ${same}`;
  }
}

const blobOf = (lines) => ({ rows: lines.length, blob: new Blob([lines.map((line) => `${line}\n`).join("")]) });

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
