// @tanstack/db-ivm as an engine of deltamark: see README.md.

import { existsSync } from "node:fs";

import { D2, output } from "@tanstack/db-ivm";

import { readColumns, writeRows } from "./arrow.mjs";
import { NO_ROW } from "./dataflow.mjs";
import { Refused, serve } from "./serve.mjs";

class TanStack {
  hello() {
    return { protocol: 1, name: "TanStack DB IVM 0.2.0", output: "batches", max_workers: 1 };
  }

  async open({ query, parameters, relations, answer, directory, collect }) {
    const file = new URL(`./queries/${query}.mjs`, import.meta.url);
    if (!existsSync(file)) throw new Refused(`not a query of this program: ${query}`);
    const { dataflow } = await import(file);
    Object.assign(this, { directory, collect, columns: [["time", "int64"], ["diff", "int64"], ...answer] });
    this.graph = new D2();
    this.inputs = Object.fromEntries(Object.keys(relations).map((name) => [name, this.graph.newInput()]));
    this.relations = relations;
    this.noRow = this.graph.newInput();
    this.messages = [];
    this.collected = [];
    this.isEmpty = true;
    dataflow({ ...this.inputs, noRow: this.noRow }, parameters).pipe(output((message) => this.messages.push(message)));
    this.graph.finalize();
    return {};
  }

  feed({ relations, time }) {
    this.time = time;
    this.batch = Object.entries(relations).map(([name, file]) => [
      this.inputs[name],
      rowsOf(this.relations[name], readColumns(this.directory, file)),
    ]);
    return {};
  }

  apply() {
    const started = performance.now();
    if (this.isEmpty) this.noRow.sendData([[NO_ROW, 1]]);
    this.isEmpty = false;
    for (const [input, rows] of this.batch) input.sendData(rows);
    this.graph.run();
    const changes = consolidated(this.messages);
    const seconds = (performance.now() - started) / 1000;
    this.messages = [];
    this.batch = [];
    if (this.collect) for (const [row, weight] of changes) this.collected.push([this.time, weight, ...row]);
    return { changes: changes.length, seconds };
  }

  changes() {
    const collected = this.collected;
    this.collected = [];
    return writeRows(this.directory, "changes.arrow", this.columns, collected);
  }

  state() {
    return {};
  }

  end() {
    this.graph = this.inputs = this.messages = this.collected = null;
    return {};
  }
}

/**
 * Return the rows of a batch as the engine takes them: [[identity, row], multiplicity]. The identity is the key of a row,
 * or all its columns if no key was announced.
 */
function rowsOf({ keys: [key] = [] }, { time, diff, ...columns }) {
  const names = Object.keys(columns);
  const identifying = (key ?? names).map((name) => columns[name]);
  return diff.map((weight, at) => {
    const row = {};
    for (const name of names) row[name] = columns[name][at];
    return [[identifying.map((values) => values[at]).join("|"), row], weight];
  });
}

/** Add up the changes of equal rows. The engine replaces the row of a group even if the new row is equal. */
function consolidated(messages) {
  const changes = new Map();
  for (const message of messages) {
    for (const [[, row], weight] of message.getInner()) {
      const identity = row.join("\0");
      const change = changes.get(identity);
      if (change) change[1] += weight;
      else changes.set(identity, [row, weight]);
    }
  }
  return [...changes.values()].filter(([, weight]) => weight !== 0);
}

await serve(new TanStack());
