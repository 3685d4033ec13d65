"use strict";
(() => {
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const visible = (element) => element.getClientRects().length > 0;
  document.documentElement.classList.add("js");

  // Filters: a key without a checked value filters nothing, and elements without the key are always shown.
  const KEYS = ["query", "engine", "workload"];
  const form = document.getElementById("filters");
  const keyed = all(KEYS.map((key) => `[data-${key}]`).join());
  const selected = () => KEYS.map((key) => [key, all(`[name=${key}]:checked`, form).map((box) => box.value)]);

  function apply() {
    const picked = selected().filter(([, values]) => values.length);
    for (const element of keyed) {
      element.classList.toggle("out", picked.some(([key, values]) =>
        element.hasAttribute(`data-${key}`) && !values.includes(element.getAttribute(`data-${key}`))));
    }
    for (const frame of all(".panel, .strip:not(.axis)")) {
      if (!all(".series", frame).some((series) => !series.classList.contains("out"))) frame.classList.add("out");
    }
    for (const section of all("section")) {
      const parts = all(".panel, .strip:not(.axis), tbody tr, .problems li, .sentences li", section);
      const left = parts.some((part) => !part.classList.contains("out"));
      section.querySelector(":scope > .empty").hidden = left || !parts.length;
      for (const body of all(":scope > ul, :scope > .panels, :scope > .lists, :scope > details", section)) {
        body.hidden = !left;
      }
    }
    document.getElementById("filtered").textContent = picked.flatMap(([, values]) => values).join(", ");
    hide();
  }

  function remember() {
    const words = selected().filter(([, values]) => values.length)
      .map(([key, values]) => `${key}=${values.map(encodeURIComponent).join(",")}`);
    history.replaceState(null, "", `#${words.join("&")}`);
  }

  function recall() {
    if (!location.hash.includes("=")) return;
    const wanted = new Map(location.hash.slice(1).split("&").map((word) => word.split("=")));
    for (const box of all("input", form)) {
      box.checked = (wanted.get(box.name) || "").split(",").map(decodeURIComponent).includes(box.value);
    }
    apply();
  }

  if (form) {
    form.addEventListener("change", () => { apply(); remember(); });
    form.addEventListener("reset", () => setTimeout(() => { apply(); remember(); }));
    form.addEventListener("submit", (event) => event.preventDefault());
    addEventListener("hashchange", recall);
  }

  // The table of a record that an address names is unfolded.
  function reveal() {
    const target = document.getElementById(location.hash.slice(1));
    const table = target && target.closest("details");
    if (!table || table.open) return;
    table.open = true;
    target.scrollIntoView();
  }
  addEventListener("hashchange", reveal);

  // Tables: a heading sorts its column, numbers in descending order at first; entries without a number come last.
  function sort(heading) {
    const table = heading.closest("table");
    const at = heading.dataset.at || heading.cellIndex;
    const rows = all("tbody tr", table);
    const number = (row) => parseFloat(row.cells[at].dataset.value);
    const numeric = rows.some((row) => !Number.isNaN(number(row)));
    const before = heading.getAttribute("aria-sort");
    const direction = before ? (before === "ascending" ? -1 : 1) : (numeric ? -1 : 1);
    const order = numeric
      ? (one, other) => {
        const [a, b] = [number(one), number(other)];
        if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
        return a === b ? 0 : direction * (a < b ? -1 : 1);
      }
      : (one, other) => direction * one.cells[at].textContent.localeCompare(other.cells[at].textContent);
    for (const other of all("thead th", table)) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", direction === 1 ? "ascending" : "descending");
    table.tBodies[0].append(...rows.sort(order));
  }
  document.addEventListener("click", (event) => {
    const heading = event.target.closest("thead th");
    if (heading && event.target.closest("button")) sort(heading);
  });

  // Points: the one nearest to the pointer, or the next by the arrow keys, shows its tooltip. A click pins the tooltip.
  const NEAR = 26;
  const tip = document.getElementById("tip");
  let current = null;

  const middle = (point) => {
    const box = (point.querySelector("circle, svg path") || point.lastChild).getBoundingClientRect();
    return [box.x + box.width / 2, box.y + box.height / 2];
  };
  const points = (chart) => all(".point", chart).filter(visible);

  function nearest(event) {
    const chart = event.target.closest && event.target.closest("[data-chart]");
    let [closest, least] = [null, NEAR];
    for (const point of chart ? points(chart) : []) {
      const [x, y] = middle(point);
      const distance = Math.hypot(x - event.clientX, y - event.clientY);
      if (distance < least) [closest, least] = [point, distance];
    }
    return closest;
  }

  function make(name, text, className) {
    const element = document.createElement(name);
    element.textContent = text;
    if (className) element.className = className;
    return element;
  }

  function show(point) {
    if (point === current) return;
    hide();
    current = point;
    point.classList.add("on");
    const copy = make("button", "Copy command");
    copy.type = "button";
    copy.addEventListener("click", () => copied(copy, point.dataset.command));
    tip.replaceChildren(
      make("strong", point.dataset.title), ...point.dataset.lines.split("\n").map((line) => make("div", line)),
      make("code", point.dataset.command), make("div", "Click or Enter keeps this open", "hint"), copy);
    tip.hidden = false;
    place();
  }

  function place() {
    const [x, y] = middle(current);
    const { width, height } = tip.getBoundingClientRect();
    const left = x + 16 + width < innerWidth ? x + 16 : x - 16 - width;
    tip.style.left = `${Math.max(12, left)}px`;
    tip.style.top = `${Math.max(12, Math.min(y - height / 2, innerHeight - height - 12))}px`;
  }

  function pin(point) {
    show(point);
    tip.classList.add("pinned");
  }

  function hide() {
    if (current) current.classList.remove("on");
    current = null;
    tip.hidden = true;
    tip.classList.remove("pinned");
  }

  function copied(button, text) {
    const done = () => { button.textContent = "Copied"; };
    const select = () => getSelection().selectAllChildren(tip.querySelector("code"));
    if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, select);
    else select();
  }

  const pinned = () => tip.classList.contains("pinned");
  document.addEventListener("pointermove", (event) => {
    if (event.pointerType !== "mouse" || pinned() || tip.contains(event.target)) return;
    const point = nearest(event);
    if (point) show(point);
    else hide();
  });
  document.addEventListener("click", (event) => {
    if (tip.contains(event.target)) return;
    const point = nearest(event);
    hide();
    if (point) pin(point);
  });
  const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
    const chart = document.activeElement;
    if (!chart.hasAttribute("data-chart")) return;
    const shown = points(chart);
    const at = shown.indexOf(current);
    const step = STEPS[event.key];
    if (step && shown.length) {
      event.preventDefault();
      show(shown[at < 0 ? 0 : (at + step + shown.length) % shown.length]);
    } else if (event.key === "Enter" && current) {
      event.preventDefault();
      pin(current);
      tip.querySelector("button").focus();
    }
  });
  document.addEventListener("focusout", (event) => {
    if (event.target.hasAttribute("data-chart") && !pinned()) hide();
  });
  for (const name of ["scroll", "resize"]) addEventListener(name, () => current && place(), { passive: true });

  if (form) recall();
  reveal();
})();
