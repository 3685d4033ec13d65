// PGlite with pg_ivm as an engine of deltamark: see README.md.

import { PGlite } from "@electric-sql/pglite";
import { pg_ivm } from "@electric-sql/pglite-pg_ivm";

import { MILLISECONDS_A_DAY, readColumns, writeRows } from "./arrow.mjs";
import { Refused, serve } from "./serve.mjs";
import { scaleOf, tableOf } from "./table.mjs";
import { viewOf } from "./view.mjs";

class PGliteWithPgIvm {
  hello() {
    return { protocol: 1, name: "PGlite 0.5.14, pg_ivm 1.16", output: "answers", max_workers: 1, nulls: true };
  }

  async open({ sql, relations, answer, directory }) {
    Object.assign(this, { directory, columns: answer });
    this.database = await PGlite.create({ extensions: { pg_ivm } });
    await this.database.exec("CREATE EXTENSION pg_ivm");
    this.tables = Object.entries(relations).map(([name, relation]) => tableOf(this.database, name, relation));
    for (const table of this.tables) await table.create();
    try {
      this.read = await viewOf(this.database, sql, answer);
    } catch (error) {
      await this.end();
      throw new Refused(error.hint ? `${error.message}: ${error.hint}` : error.message);
    }
    return {};
  }

  feed({ relations }) {
    this.batch = this.tables
      .filter(({ name }) => name in relations)
      .map((table) => table.batchOf(readColumns(this.directory, relations[table.name])));
    return {};
  }

  async apply() {
    const started = performance.now();
    await this.database.exec("BEGIN");
    for (const batch of this.batch) await batch.table.apply(batch);
    await this.database.exec("COMMIT");
    for (const { table } of this.batch) await table.maintain();
    this.rows = (await this.database.query(this.read, [], { rowMode: "array" })).rows;
    return { changes: this.rows.length, seconds: (performance.now() - started) / 1000 };
  }

  answer() {
    const values = this.columns.map(([, type]) => converterOf(type));
    const rows = this.rows.map((row) => row.map((value, at) => (value === null ? null : values[at](value))));
    return writeRows(this.directory, "answer.arrow", this.columns, rows);
  }

  state() {
    return { rows: this.tables.reduce((rows, table) => rows + table.live, 0) };
  }

  async end() {
    await this.database.close();
    return {};
  }
}

/** Return the function from a value of PGlite to a value of an Arrow file. */
function converterOf(type) {
  const scale = scaleOf(type);
  if (scale) return (numeric) => digitsOf(numeric, Number(scale));
  return type === "date32" ? (date) => date.getTime() / MILLISECONDS_A_DAY : (value) => value;
}

/** Return a decimal without its point. */
function digitsOf(numeric, scale) {
  const [whole, fraction = ""] = numeric.split(".");
  return BigInt(whole + fraction.padEnd(scale, "0"));
}

await serve(new PGliteWithPgIvm());
