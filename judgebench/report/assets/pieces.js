// Small pieces of the page, built from nodes: whatever a data set or a model says is only ever text.
"use strict";
const Pieces = (() => {
  /** An element with attributes and children; strings among these become text. */
  function el(tag, attributes, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name === "on") for (const [kind, act] of Object.entries(value)) node.addEventListener(kind, act);
      else if (name === "width") node.style.width = value;
      else node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.flat(3).filter((one) => one !== null && one !== undefined && one !== false).map(nodes).flat());
    return node;
  }

  // What nobody sees may turn a line around, or hide a word from a reader: as judgebench.visible, its number stands for it.
  const UNSEEN = /([\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff]|\r(?!\n))/;
  const number = (one) => (one.charCodeAt(0) < 0x100 ? `\\x${one.charCodeAt(0).toString(16).padStart(2, "0")}` : `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);

  /** A text as one line of a table, with a number for each character that nobody sees. */
  const visible = (text) => text.split(UNSEEN).map((part, i) => (i % 2 ? number(part) : part)).join("");

  /** A text as nodes, in which such numbers are marked; anything else as it is. */
  function nodes(one) {
    if (typeof one !== "string" || !UNSEEN.test(one)) return [one];
    return one.split(UNSEEN).map((part, i) => {
      if (!(i % 2)) return part;
      const mark = document.createElement("span");
      mark.className = "unseen";
      mark.title = "a character that nobody sees";
      mark.textContent = number(part);
      return mark;
    });
  }

  const short = (value, places = 4) => (value === null || value === undefined ? "–" : String(Number(value.toFixed(places))));
  const percent = (share) => (share > 0 && share < 0.0005 ? "<0.1 %" : `${(100 * share).toFixed(1)} %`);

  /** A share of 1 as a bar with its number beside it. */
  function bar(share, kind, top) {
    if (share === null) return el("span", { class: "note" }, "–");
    return el("div", { class: top ? "share likeliest" : "share" },
      el("span", { class: "track" }, el("span", { class: `fill ${kind}`, width: `${Math.max(0, Math.min(1, share)) * 100}%` })),
      el("span", { class: "value" }, percent(share)));
  }

  /** Candidates down, by what they are `named`, judges across. Each column: {title, note, kind, shares, chosen}; marked: what the humans say. */
  function likelihoods(named, candidates, columns, marked) {
    const tops = columns.map((one) => Math.max(...one.shares.map((share) => share ?? -1)));
    return el("div", { class: "likely", tabindex: "0" }, el("table", { class: "plain" },
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, named),
        columns.map((one) => el("th", { scope: "col" }, one.title, one.note ? [el("br"), el("small", { class: "note" }, one.note)] : null)))),
      el("tbody", {}, candidates.map((candidate, k) => el("tr", { class: marked === k ? "chosen-by-humans" : null },
        el("th", { scope: "row" }, candidate, marked === k ? " ◂ humans" : ""),
        columns.map((one, c) => el("td", {}, bar(one.shares[k], one.kind, one.shares[k] === tops[c]))))))));
  }

  /** A text with what was put into it, and taken out of it, marked. */
  function marked(clean, changed) {
    const parts = JsDiff.diffWordsWithSpace(clean, changed, { timeout: 400 }) || [{ value: clean, removed: true }, { value: changed, added: true }];
    return parts.map((part) => (part.added ? el("ins", {}, part.value) : part.removed ? el("del", {}, part.value) : part.value));
  }

  /** exp of log-probabilities: their sum, and each as a share of it. */
  function shares(logprobs) {
    const values = logprobs.map((one) => (one === null ? 0 : Math.exp(one)));
    const sum = values.reduce((a, b) => a + b, 0);
    return { sum, shares: values.map((one) => (sum > 0 ? one / sum : 0)) };
  }

  return { el, short, percent, likelihoods, marked, shares, nodes, visible };
})();
