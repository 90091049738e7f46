// The table of examples: filters, order, and opening one. Rows are drawn as they come into sight.
"use strict";
(async () => {
  const { el, short, visible } = Pieces;
  const index = await Data.index();
  const dialog = document.getElementById("example");
  const node = (text) => document.createTextNode(visible(String(text)));
  const known = index.scores.map((scores) => scores.filter((one) => one !== null).length);
  const [advised] = index.advised; // series and place of the first dimension
  let judged = advised ? advised[0] : known.indexOf(Math.max(...known)); // the series that is held against the humans

  // 1. Rows
  const rows = index.example.map((example, row) => {
    const place = index.places[index.place[row]];
    return {
      row, example, id: index.ids[example], text: index.starts[example] || index.ids[example], group: index.groups[index.group[example]],
      system: index.systems[index.system[example]], split: index.splits[index.split[example]], dimension: place.dimension, range: place.range,
      attack: place.attack, defense: place.defense, human: index.human[row], flags: index.rowFlags[row],
    };
  });
  let whole = false;
  function measure() {
    const scores = index.scores[judged];
    whole = scores.every((one) => one === null || Number.isInteger(one));
    for (const one of rows) {
      one.score = scores[one.row];
      one.calibrated = Data.calibrated(index, judged, one.row);
      one.gap = Data.gap(index, judged, one.row);
      const clean = index.clean[index.place[one.row]];
      const before = clean < 0 ? undefined : index.at.get(clean * index.ids.length + one.example);
      one.change = before === undefined || scores[before] === null || scores[one.row] === null ? null : scores[one.row] - scores[before];
    }
  }
  measure();

  // 2. Columns: those that tell rows apart, as many as there is room for
  const varies = (name) => rows.some((one) => one[name] !== rows[0][name]);
  const narrow = matchMedia("(max-width: 40rem)").matches;
  const text = (field, more) => ({ field, title: field, minWidth: 74, formatter: (cell) => node(cell.getValue() ?? ""), ...more });
  const number = (field, title, more) => ({
    field, title, hozAlign: "right", headerHozAlign: "right", headerSortStartingDir: "desc", sorter: "number", width: narrow ? 74 : 96,
    sorterParams: { alignEmptyValues: "bottom" }, formatter: (cell) => node(short(cell.getValue(), 2)), ...more,
  });
  const gapCell = (cell) => {
    const value = cell.getValue();
    if (value === null) return node("–");
    return el("span", {}, narrow ? null : el("span", { class: "gap" }, el("span", { width: `${100 * Math.min(1, value)}%` })), value.toFixed(2));
  };
  const scored = (cell) => { // whole scores as such, others with two decimals, so that a column lines up
    const row = cell.getData().row, value = cell.getValue();
    return node(value === null ? "–" : Data.said(index, row, value) ?? value.toFixed(whole ? 0 : 2));
  };
  const flagCell = (cell) => el("span", { class: "chips" }, cell.getValue().map((flag) => el("span", { class: "chip", title: index.explained[flag] || null }, flag)));
  const columns = [
    { field: "text", title: index.texts ? "text" : "example", minWidth: narrow ? 120 : 140, widthGrow: 3,
      formatter: (cell) => el("a", { href: Example.address(index, cell.getData().row), title: cell.getData().id }, cell.getValue()) },
    ...(narrow ? [] : ["system", "split", "dimension", "range", "attack", "defense"].filter(varies)).map((name) => text(name, name === "range" ? { width: 84 } : {})),
    number("human", narrow ? "human" : "humans", { formatter: (cell) => node(cell.getValue() === null ? "–" : cell.getValue().toFixed(2)) }),
    number("score", narrow ? "judge" : "raw score", { formatter: scored }),
    ...(!narrow && rows.some((one) => one.calibrated !== null) ? [number("calibrated", "calibrated", { formatter: (cell) => node(cell.getValue() === null ? "–" : cell.getValue().toFixed(2)) })] : []),
    number("gap", narrow ? "apart" : "disagreement", { formatter: gapCell, width: narrow ? 70 : 136 }),
    ...(!narrow && rows.some((one) => one.attack !== "none") ? [number("change", "change by attack")] : []),
    ...(!narrow && Object.keys(index.flags).length ? [{ field: "flags", title: "flags", minWidth: 100, sorter: (a, b) => a.length - b.length, headerSortStartingDir: "desc", formatter: flagCell }] : []),
  ].map((one) => ({ ...one, titleFormatter: () => node(one.title) }));

  // 3. Filters
  const form = document.getElementById("filters");
  const wanted = { text: null };
  const selects = new Map();
  const counted = (name) => {
    const counts = new Map();
    for (const one of rows) for (const value of [one[name]].flat()) counts.set(value, (counts.get(value) || 0) + 1);
    return counts;
  };
  const search = el("input", { type: "search", id: "search", placeholder: index.texts ? "in names and texts" : "in names", on: { input: later(look, 180) } });
  form.append(el("label", { class: "whole" }, "search", search));
  for (const name of ["flags", "split", "dimension", "range", "system", "attack", "defense"]) {
    if (name === "flags" ? !Object.keys(index.flags).length : !varies(name)) continue;
    const values = [...counted(name)];
    const select = el("select", { "data-filter": name, on: { change: apply } }, el("option", { value: "" }, "all"),
      values.map(([value, count]) => el("option", { value }, `${value} (${count.toLocaleString("en")})`)));
    if (name === "split" && values.some(([value]) => value === "test")) select.value = "test";
    if (advised && ["dimension", "range", "attack", "defense"].includes(name)) select.value = index.places[advised[1]][name];
    selects.set(name, select);
    form.append(el("label", {}, name === "flags" ? "flag or status" : name, select));
  }
  if (index.series.length > 1) {
    const select = el("select", { id: "judged", on: { change: async () => {
      judged = Number(select.value);
      measure();
      await table.replaceData(rows);
    } } }, index.series.map((series, s) => el("option", { value: s, selected: s === judged }, advised && s === advised[0] ? `${series.label} (advised)` : series.label)));
    form.append(el("label", {}, "judge, decoding", select));
  }
  form.append(el("button", { type: "button", on: { click: () => {
    search.value = "";
    wanted.text = null;
    for (const select of selects.values()) select.value = "";
    apply();
  } } }, "Show all"));
  form.addEventListener("submit", (event) => event.preventDefault());

  function passes(one) {
    if (wanted.text && !wanted.text.has(one.example)) return false;
    for (const [name, select] of selects) {
      if (select.value && ![one[name]].flat().map(String).includes(select.value)) return false;
    }
    return true;
  }
  function apply() { table.setFilter(passes); }
  async function look() {
    const query = search.value.trim().toLowerCase();
    const found = query ? await Data.search(index, query) : null;
    if (search.value.trim().toLowerCase() !== query) return; // typed on meanwhile
    wanted.text = found;
    apply();
  }
  function later(act, wait) {
    let timer;
    return () => { clearTimeout(timer); timer = setTimeout(act, wait); };
  }

  // 4. Table
  document.getElementById("examples-app").hidden = false;
  const table = new TabulatorTables.Tabulator("#examples-table", {
    data: rows, columns, index: "row", layout: "fitColumns", height: "34rem", rowHeight: 34,
    initialSort: [{ column: "gap", dir: "desc" }], initialFilter: passes, placeholder: "No example passes these filters.",
    autoResize: false, // it would draw every row anew soon after the first time, under a pointer that is clicking
  });
  addEventListener("resize", later(() => table.redraw(), 150));
  const count = document.getElementById("examples-count");
  table.on("dataFiltered", (_, shown) => {
    count.textContent = `${shown.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")} rows`;
  });
  table.on("rowClick", (event, row) => { if (!event.target.closest("a")) location.hash = Example.address(index, row.getData().row); });

  // 5. Examples that the page opens in place; and the fold of the table, which can only be measured where it is seen
  for (const look of document.querySelectorAll("details[data-example]")) {
    look.addEventListener("toggle", async () => {
      const inside = look.lastElementChild;
      if (!look.open || inside.childElementCount) return;
      const row = Example.found(index, new URLSearchParams(look.dataset.example));
      if (row !== undefined) inside.replaceChildren(...Example.content(index, row, await Data.example(index, row), null, true));
    });
  }
  const fold = document.getElementById("examples");
  fold.addEventListener("toggle", () => table.redraw(true));

  // 6. One example: the address decides what is open, so that links and the browser's own buttons work
  let order = [];
  let left = false; // the dialog was closed by a step of the history, which its event learns later
  async function route() {
    const parts = new URLSearchParams(location.hash.slice(1));
    if (parts.has("filter") || location.hash === "#examples") fold.open = true;
    if (parts.has("filter")) {
      for (const [name, select] of selects) select.value = parts.get(name) || "";
      apply();
      fold.scrollIntoView();
    }
    const row = parts.has("example") ? Example.found(index, parts) : undefined;
    if (row === undefined) {
      left = dialog.open;
      if (dialog.open) dialog.close();
      return;
    }
    const shown = await Data.example(index, row);
    if (!dialog.open) {
      order = table.getRows("active").map((one) => one.getData().row);
      dialog.showModal();
    }
    fill(row, shown);
  }
  function go(row) { // within the dialog: one step of the browser's history for all that is looked at
    if (row === undefined) return;
    history.replaceState(null, "", Example.address(index, row));
    route();
  }
  function fill(row, shown) {
    const at = order.indexOf(row);
    const step = (label, to) => el("button", { type: "button", title: label, "aria-label": label, disabled: at < 0 || order[to] === undefined,
      on: { click: () => go(order[to]) } }, to < at ? "←" : "→");
    const copy = el("button", { type: "button", on: { click: async () => {
      try { await navigator.clipboard.writeText(location.href); copy.textContent = "Copied"; } catch { copy.textContent = "The link is in the address bar"; }
    } } }, "Copy link");
    dialog.replaceChildren(
      el("div", { class: "top" }, el("h2", { id: "example-title" }, index.ids[index.example[row]]),
        step("previous", at - 1), step("next", at + 1), copy,
        el("button", { type: "button", id: "close", on: { click: () => dialog.close() } }, "Close")),
      el("div", { class: "inside" }, Example.content(index, row, shown, go)));
    dialog.scrollTop = 0;
    if (!dialog.contains(document.activeElement)) dialog.focus();
  }
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("close", () => {
    if (left) {
      left = false;
      return;
    }
    if (new URLSearchParams(location.hash.slice(1)).has("example")) history.pushState(null, "", "#examples");
  });
  addEventListener("keydown", (event) => { // of the window: what had the focus may just have been replaced
    if (!dialog.open || event.target.closest?.("select, input, textarea")) return;
    const at = order.indexOf(Example.found(index, new URLSearchParams(location.hash.slice(1))));
    if (event.key === "ArrowLeft") go(order[at - 1]);
    if (event.key === "ArrowRight") go(order[at + 1]);
  });
  addEventListener("hashchange", route);
  table.on("tableBuilt", () => { document.documentElement.dataset.ready = "examples"; route(); });
})().catch((error) => {
  const place = document.getElementById("examples-count");
  place.closest("[hidden]")?.removeAttribute("hidden");
  place.textContent = `The examples cannot be shown here (${error.message}). A newer browser may be needed.`;
});
