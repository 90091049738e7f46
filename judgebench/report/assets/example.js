// One example, opened: its texts, what each judge found likely, and what came of it.
"use strict";
const Example = (() => {
  const { el, short, likelihoods, marked, shares, nodes } = Pieces;
  const AXES = ["dimension", "range", "attack", "defense"];

  /** The address of a row within the page. */
  function address(index, row) {
    const place = index.places[index.place[row]];
    const parts = new URLSearchParams({ example: index.ids[index.example[row]] });
    for (const axis of AXES) parts.set(axis, place[axis]);
    return `#${parts}`;
  }

  /** The row that an address names; what it leaves open is the first there is. */
  function found(index, parts) {
    const rows = [];
    index.example.forEach((example, row) => { if (index.ids[example] === parts.get("example")) rows.push(row); });
    const fits = (row) => AXES.filter((axis) => !parts.has(axis) || index.places[index.place[row]][axis] === parts.get(axis)).length;
    return rows.sort((a, b) => fits(b) - fits(a) || a - b)[0];
  }

  function chooser(index, row, go) {
    const rows = [];
    index.example.forEach((example, one) => { if (example === index.example[row]) rows.push(one); });
    const here = index.places[index.place[row]];
    const fields = AXES.map((axis) => {
      const values = [...new Set(rows.map((one) => index.places[index.place[one]][axis]))];
      if (values.length < 2) return null;
      const select = el("select", { on: { change: () => {
        const wanted = { ...here, [axis]: select.value };
        const fits = (one) => AXES.filter((name) => index.places[index.place[one]][name] === wanted[name]).length;
        const own = rows.filter((one) => index.places[index.place[one]][axis] === select.value);
        go(own.sort((a, b) => fits(b) - fits(a))[0]);
      } } }, values.map((value) => el("option", { value, selected: value === here[axis] }, value)));
      return el("label", {}, axis, select);
    });
    return fields.some(Boolean) ? el("div", { class: "choose" }, fields) : null;
  }

  function scores(index, row) {
    const clean = index.clean[index.place[row]];
    const before = clean < 0 ? undefined : index.at.get(clean * index.ids.length + index.example[row]);
    const fitted = index.calibrated[row] !== null;
    const lines = index.series.map((series, s) => {
      const score = index.scores[s][row];
      if (score === null) return null;
      const change = before === undefined || index.scores[s][before] === null ? null : score - index.scores[s][before];
      const status = index.statusOf.get(`${s}:${row}`) || "parsed";
      return el("tr", {},
        el("th", { scope: "row" }, series.label, series.settings[index.place[row]] ? el("small", { class: "note" }, ` ${series.settings[index.place[row]]}`) : null),
        el("td", { class: "number" }, Data.said(index, row, score) ?? short(score, 2)),
        fitted ? el("td", { class: "number" }, short(Data.calibrated(index, s, row), 2)) : null,
        before === undefined ? null : el("td", { class: "number" }, change === null ? "–" : `${change > 0 ? "+" : ""}${short(change, 2)}`),
        el("td", { class: "number" }, short(Data.gap(index, s, row), 2)),
        el("td", {}, status === "parsed" ? status : el("span", { class: "flag" }, status)));
    });
    const heads = ["judge, decoding", "raw score", ...(fitted ? ["calibrated"] : []), ...(before === undefined ? [] : ["change by attack"]), "disagreement", "status"];
    return el("div", { class: "scroll" }, el("table", { class: "plain" },
      el("thead", {}, el("tr", {}, heads.map((head, i) => el("th", { scope: "col", class: i && i < heads.length - 1 ? "number" : null }, head)))),
      el("tbody", {}, lines)));
  }

  function rated(index, row, human) {
    const place = index.places[index.place[row]];
    const given = human.length ? human : index.human[row] === null ? [] : [[place.dimension, index.human[row]]];
    if (!given.length) return el("p", { class: "note" }, "Nobody has scored this text.");
    const bars = el("div", { class: "rated" }, given.map(([dimension, value]) => {
      const scale = index.scales[dimension];
      const share = value === null ? null : Data.onScale(value, scale);
      return [el("span", {}, dimension),
        share === null ? el("span") : el("span", { class: "track" }, el("span", { class: "fill", width: `${100 * share}%` })),
        value === null ? el("span", { class: "note" }, "not rated") : el("span", {}, `${index.compares && value > 0 ? "+" : ""}${short(value, 2)}`,
          scale ? el("small", { class: "note" }, ` of ${short(scale[0])}–${short(scale[1])}`) : null)];
    }));
    return index.compares ? [bars, el("p", { class: "note" }, "By how much the humans prefer the judged text to the other.")] : bars;
  }

  function reading(index, row, one, clean) {
    const place = index.places[index.place[row]];
    const parts = [];
    if (one.order) parts.push(el("h4", {}, `judged text ${one.order}`));
    const candidates = index.compares ? index.places_compared : place.candidates;
    const columns = [];
    for (const [kind, title] of [["m", "main"], ["a", "assistant"]]) {
      if (!one[kind]) continue;
      const held = shares(one[kind]);
      columns.push({ title, kind: title, note: `all scores together ${Pieces.percent(held.sum)}`, shares: held.shares });
    }
    for (const [series, likely] of Object.entries(one.p || {})) {
      columns.push({ title: index.series[series].label, kind: "pair", note: index.series[series].settings[index.place[row]] || "", shares: likely });
    }
    if (columns.length) parts.push(likelihoods(index.compares ? "place" : "score", candidates, columns, Data.marked(index, row)));
    if (one.said) {
      parts.push(el("p", { class: "note" }, `Answer of ${one.said[0] || "the judge"}${one.said[1] ? `, ${one.said[1]}` : ""}`), el("div", { class: "text" }, one.said[2]));
    }
    return parts;
  }

  function prompt(shown, one) {
    const texts = { s: shown.source, c: shown.context, o: shown.output, x: one.x, r: shown.rival ? shown.rival[1] : "" };
    return one.prompt.map((part) => (typeof part === "number" ? shown.literals[part] : texts[part] || "")).join("");
  }

  function prompts(index, shown) {
    return shown.readings.filter((one) => one.prompt).map((one) => {
      const told = [one.order ? `judged text ${one.order}` : "", one.said ? one.said.slice(0, 2).join(", ") : ""].filter(Boolean).join(", ");
      const [tokens, cut, control, seconds] = one.n;
      const facts = [`${tokens} tokens`, cut ? `article shortened by ${cut} tokens` : "", control ? `${control} names of control tokens` : "", seconds === null ? "" : `read in ${short(seconds, 3)} s`].filter(Boolean).join(" · ");
      const body = el("div", { class: "text prompt" });
      const details = el("details", {}, el("summary", {}, `Prompt as read${told ? `: ${told}` : ""}`), el("p", { class: "note" }, facts), body);
      details.addEventListener("toggle", () => { if (!body.textContent) body.append(...nodes(prompt(shown, one))); });
      return details;
    });
  }

  function judged(shown) {
    if (shown.output === null || shown.output === undefined) return null;
    const changed = shown.readings.filter((one) => one.x !== undefined);
    if (!changed.length) return [el("h3", {}, "Judged text"), el("div", { class: "text" }, shown.output)];
    const seen = new Set();
    return [el("h3", {}, "Judged text, as the judge read it"),
      changed.filter((one) => !seen.has(one.x) && seen.add(one.x)).map((one) => el("div", { class: "text", id: "changed-text" }, marked(shown.output, one.x))),
      el("p", { class: "note" }, "Marked: ", el("ins", {}, "put in"), " and ", el("del", {}, "taken out"), " by the attack or the defense.")];
  }

  function references(index, row, shown) {
    const place = index.places[index.place[row]];
    const own = shown.references.filter(([dimension, defense]) => dimension === place.dimension && (place.defense === "none" || defense === place.defense));
    if (!own.length) return null;
    const text = (side, said, score) => el("div", {}, el("p", { class: "note" }, `${side}${score === null ? "" : `, which the judge scores ${short(score, 2)}`}`), el("div", { class: "text" }, said));
    return [el("h3", {}, "References"), own.map(([, defense, high, low, scoreHigh, scoreLow]) => [
      el("h4", {}, defense),
      el("div", { class: "refs" }, text("good", high, scoreHigh), text("poor", low, scoreLow))])];
  }

  /** What is known of the advised setting alone: its raw and its calibrated score, and the humans'. */
  function answer(index, row) {
    const series = index.advisedOf.get(index.places[index.place[row]].dimension);
    if (series === undefined) return [];
    const score = index.scores[series][row];
    const facts = [["raw", score], ["calibrated", Data.calibrated(index, series, row)], ["humans", index.human[row]]];
    const text = (name, value) => (name === "raw" ? Data.said(index, row, value) : null) ?? value.toFixed(2);
    return [[index.series[series].label, ""], ...facts.filter(([, value]) => value !== null).map(([name, value]) => [name, text(name, value)])];
  }

  /** The content of the dialog for a row: what stands above, and the rest. In place, what the advised setting says of it, and a way to the rest. */
  function content(index, row, shown, go, inPlace = false) {
    const place = index.places[index.place[row]], example = index.example[row], split = index.splits[index.split[example]];
    const facts = [["group", index.groups[index.group[example]]], ["system", index.systems[index.system[example]]], ["split", split]];
    for (const axis of AXES) if (axis === "dimension" || axis === "range" || place[axis] !== "none") facts.push([axis, place[axis]]);
    const listed = (all) => el("div", { class: "facts" }, all.map(([name, value]) => el("span", {}, `${name} `, el("b", {}, value))));
    const flags = index.rowFlags[row];
    const whose = (flag) => index.raised[flag]?.[index.place[row]]?.[split] || [];
    const flagged = (flag) => {
      const said = [whose(flag).join("; "), index.explained[flag]].filter(Boolean).join(": ");
      return [el("span", { class: "chip" }, flag), said ? ` ${said}. ` : " "];
    };
    const likely = [
      shown.readings.some((one) => one.m || one.a) ? el("h3", {}, "What the judge found likely")
        : shown.readings.some((one) => one.said) ? el("h3", {}, "What the judge said") : null,
      shown.readings.map((one) => reading(index, row, one)),
    ];
    const texts = [
      judged(shown),
      shown.rival ? [el("h3", {}, `Compared with ${shown.rival[0]}`), el("div", { class: "text" }, shown.rival[1])] : null,
      shown.context ? [el("h3", {}, "Context"), el("div", { class: "text long" }, shown.context)] : null,
      shown.source ? [el("h3", {}, "Source"), el("div", { class: "text long", tabindex: "0" }, shown.source)] : null,
    ];
    const parts = inPlace ? [
      listed(answer(index, row)), el("div", {}, texts), el("div", {}, likely),
      el("p", {}, el("a", { href: address(index, row) }, "Every judge and decoding, and the prompts")),
    ] : [
      listed(facts), chooser(index, row, go),
      flags.length ? el("p", { class: "note" }, flags.map(flagged)) : null,
      texts, el("h3", {}, "Scores"), scores(index, row),
      el("h3", {}, "Humans"), rated(index, row, shown.human),
      likely, references(index, row, shown), prompts(index, shown),
    ];
    return parts.flat(4).filter(Boolean);
  }

  return { address, found, content, AXES };
})();
