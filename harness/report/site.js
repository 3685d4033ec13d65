"use strict";
(() => {
  // The page of the field: choices of a machine, benchmark, workload, number of workers, batch and query. All texts and
  // shares are in the data; the cells are those that site.py makes of the first choice.
  const FIXED = 3;
  const SCOPE = ["machine", "benchmark", "workload", "workers"];
  const data = JSON.parse(document.getElementById("numbers").textContent);
  const form = document.getElementById("choices");
  const table = document.getElementById("field");
  const heat = document.getElementById("heat");
  const all = (selector, from) => [...from.querySelectorAll(selector)];

  function make(name, content = [], attributes = {}) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) if (value !== null) element.setAttribute(key, value);
    element.append(...[content].flat());
    return element;
  }

  const selects = Object.fromEntries([...SCOPE, "batch", "query"].map((name) => {
    const select = make("select", [], { name });
    form.append(make("label", [make("span", name), select]));
    return [name, select];
  }));

  // Offer values, and keep the chosen one if it is still among them.
  function offer(name, values, wanted, preferred = values[0]) {
    const chosen = values.includes(wanted) ? wanted : preferred;
    selects[name].replaceChildren(...values.map((value) => make("option", value)));
    selects[name].value = chosen;
    selects[name].disabled = values.length < 2;
    return chosen;
  }

  function choose(wanted) {
    let scopes = data.scopes;
    for (const name of SCOPE) {
      const value = offer(name, [...new Set(scopes.map((scope) => scope[name]))], wanted[name]);
      scopes = scopes.filter((scope) => scope[name] === value);
    }
    const [scope] = scopes;
    const names = scope.batches.map(([name]) => name);
    const batch = names.indexOf(offer("batch", names, wanted.batch, names[scope.first]));
    draw(scope, batch, offer("query", [data.all, ...scope.queries], wanted.query));
  }

  const cellOf = (scope, engine, batch, query) => ((scope.cells[engine] || {})[query] || [])[batch];

  function number(scope, cell, at, label) {
    const figure = cell && cell[2][at];
    if (!figure) return make("td", "\u2013", { class: "none", "data-label": label });
    const [fragment, note] = cell;
    const [text, share, distance] = figure;
    const link = make("a", text, { href: `${scope.report}#${fragment}`, class: share === null ? "bad" : null });
    const bar = share === null ? [] : make("i", [], { class: "bar", style: `--share:${share}` });
    const notes = [distance, ...(note && !at ? [note] : [])].map((words) =>
      make("small", words, { class: words.includes("WRONG") ? "bad" : null }));
    return make("td", [link, bar, notes].flat(), {
      "data-value": share, "data-label": label, class: distance === "best" ? "best" : null });
  }

  function warm(scope, cell) {
    const figure = cell && cell[2][0];
    if (!figure) return make("td", "\u2013", { class: "none" });
    const [text, share, distance] = figure;
    const link = make("a", text, { href: `${scope.report}#${cell[0]}`, title: distance || null });
    return make("td", link, {
      class: share === null ? "bad" : distance === "best" ? "best" : null,
      style: share === null ? null : `--share:${share}` });
  }

  function heading(name, unit, at) {
    const button = make("button", name, { type: "button" });
    return make("th", [button, ...(unit ? [make("small", unit)] : [])], { scope: "col", "data-at": at });
  }

  const place = (row) => {
    const cell = row.cells[row.dataset.batch];
    return cell.dataset.value ? -cell.dataset.value : cell.classList.contains("none") ? 2 : 1;
  };
  const rightness = (row) => -(row.cells[1].dataset.value || 0);

  function draw(scope, batch, query) {
    const columns = scope.batches.map((_, at) => at).filter((at) => scope.batches[at][1] || at === batch);
    const [groups, names] = table.tHead.rows;
    groups.cells[FIXED].colSpan = columns.length;
    groups.cells[FIXED + 1].textContent = `In batches of ${scope.batches[batch][2]}`;
    const titles = [...columns.map((at) => [scope.batches[at][0], ""]), ...data.metrics.slice(1)];
    names.replaceChildren(...titles.map(([name, unit], at) => heading(name, unit, FIXED + at)));
    for (const old of all("[aria-sort]", groups)) old.removeAttribute("aria-sort");
    const rows = [...table.tBodies[0].rows];
    for (const row of rows) {
      const engine = row.dataset.engine;
      const rates = columns.map((at) =>
        number(scope, cellOf(scope, engine, at, query), 0, `Rate, ${scope.batches[at][2]}`));
      const others = data.metrics.slice(1).map(([title], at) =>
        number(scope, cellOf(scope, engine, batch, query), at + 1, title));
      row.replaceChildren(...[...row.cells].slice(0, FIXED), ...rates, ...others);
      row.dataset.batch = FIXED + columns.indexOf(batch);
    }
    const name = (row) => row.dataset.engine;
    rows.sort((one, other) =>
      place(one) - place(other) || rightness(one) - rightness(other) || (name(one) < name(other) ? -1 : 1));
    table.tBodies[0].append(...rows);

    const engines = rows.map(name).filter((engine) => engine in scope.cells);
    heat.tHead.rows[0].replaceChildren(...["query", ...engines].map((text) => make("th", text, { scope: "col" })));
    heat.tBodies[0].replaceChildren(...scope.queries.map((each) => make("tr", [
      make("th", each, { scope: "row" }),
      ...engines.map((engine) => warm(scope, cellOf(scope, engine, batch, each))),
    ], each === query ? { class: "chosen" } : {})));

    const means = query === data.all ? `${data.all}, geometric means` : query;
    document.getElementById("scope").textContent = `${scope.words}; ${means}`;
    [document.getElementById("leader").textContent, document.getElementById("leader-note").textContent] = scope.leader;
  }

  const chosen = () => Object.fromEntries(Object.entries(selects).map(([name, select]) => [name, select.value]));
  form.addEventListener("change", () => {
    choose(chosen());
    history.replaceState(null, "", `#${new URLSearchParams(chosen())}`);
  });
  const recall = () => choose(location.hash.includes("=") ? Object.fromEntries(new URLSearchParams(location.hash.slice(1))) : chosen());
  addEventListener("hashchange", recall);
  recall();
})();
