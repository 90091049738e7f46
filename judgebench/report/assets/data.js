// The data that the page carries: an index, read at once, and pieces that are unpacked when an example of theirs is opened.
"use strict";
const Data = (() => {
  const kept = new Map();

  function bytes(text) {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
    const raw = atob(text);
    const found = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) found[i] = raw.charCodeAt(i);
    return found;
  }

  async function unpacked(id) {
    const stream = new Blob([bytes(document.getElementById(id).textContent)]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }

  /** The content of a data element; unpacked once. */
  function get(id) {
    if (!kept.has(id)) kept.set(id, unpacked(id));
    return kept.get(id);
  }

  /** The index, with what is looked up often. */
  async function index() {
    const found = await unpacked("data-index");
    found.at = new Map(found.example.map((example, row) => [found.place[row] * found.ids.length + example, row]));
    found.rowFlags = found.example.map(() => []);
    for (const [flag, rows] of Object.entries(found.flags)) for (const row of rows) found.rowFlags[row].push(flag);
    found.statusOf = new Map(found.status.map(([series, row, code]) => [`${series}:${row}`, found.statuses[code]]));
    const same = (a, b, names) => names.every((name) => a[name] === b[name]);
    found.clean = found.places.map((one) =>
      one.attack === "none" ? -1 : found.places.findIndex((other) => other.attack === "none" && same(one, other, ["dimension", "range", "defense"])));
    found.advisedOf = new Map(found.advised.map(([series, place]) => [found.places[place].dimension, series]));
    return found;
  }

  /** The number of the piece that holds an example, and the example's place in it. */
  function piece(index, example) {
    let k = 0;
    while (index.cuts[k + 1] <= example) k++;
    return [k, example - index.cuts[k]];
  }

  /** All that the page holds on the example of a row. */
  async function example(index, row) {
    const [k, place] = piece(index, index.example[row]);
    const [texts, readings] = await Promise.all([index.texts ? get(`data-texts-${k}`) : null, get(`data-readings-${k}`)]);
    const group = texts ? texts.groups[texts.group[place]] : {};
    return {
      source: group.source, context: group.context, references: group.references || [],
      output: texts ? texts.output[place] : null,
      rival: texts ? texts.rival[place] : null,
      human: texts ? texts.human[place] : [],
      readings: readings.rows[String(row)] || [],
      literals: readings.literals,
    };
  }

  /** Numbers of the examples whose texts hold a query, in small letters. */
  async function search(index, query) {
    const found = new Set();
    const holds = (text) => text !== null && text !== undefined && text.toLowerCase().includes(query);
    index.ids.forEach((id, i) => {
      if (holds(id) || holds(index.groups[index.group[i]]) || holds(index.systems[index.system[i]])) found.add(i);
    });
    if (index.texts) {
      for (let k = 0; k + 1 < index.cuts.length; k++) {
        const texts = await get(`data-texts-${k}`);
        const groups = texts.groups.map((group) => holds(group.source) || holds(group.context));
        texts.output.forEach((output, i) => {
          if (groups[texts.group[i]] || holds(output)) found.add(index.cuts[k] + i);
        });
      }
    }
    return found;
  }

  /** A score on the humans' scale, calibrated by other groups: of the advised judge and decoding, else null. */
  function calibrated(index, series, row) {
    return index.advisedOf.get(index.places[index.place[row]].dimension) === series ? index.calibrated[row] : null;
  }

  /** How far a score, calibrated where it is known, and the human one lie apart, each on a scale from 0 to 1; null where that cannot be said. */
  function gap(index, series, row) {
    const score = index.scores[series][row], human = index.human[row], place = index.places[index.place[row]];
    if (score === null || human === null) return null;
    const wanted = index.compares ? (Math.sign(human) + 1) / 2 : onScale(human, place.scale);
    if (wanted === null) return null;
    const fitted = calibrated(index, series, row);
    return Math.abs((fitted === null ? (score - place.minimum) / (place.maximum - place.minimum) : onScale(fitted, place.scale)) - wanted);
  }

  const onScale = (value, scale) => (scale ? (value - scale[0]) / (scale[1] - scale[0]) : null);

  /** The place of the candidate that a human score is nearest to; null where it has none. */
  function marked(index, row) {
    const place = index.places[index.place[row]];
    const wanted = index.compares || index.human[row] === null ? null : onScale(index.human[row], place.scale);
    return wanted === null ? null : Math.min(place.candidates.length - 1, Math.floor(wanted * (place.candidates.length - 1) + 0.5));
  }

  /** What the judge said for a score, and the score; null where the two are one. */
  function said(index, row, score) {
    const place = index.places[index.place[row]], last = place.candidates.length - 1;
    if (!place.labelled) return null;
    const at = Math.ceil(((score - place.minimum) / (place.maximum - place.minimum)) * last - 0.5);
    return `${place.candidates[Math.min(Math.max(at, 0), last)]} (${Pieces.short(score)})`;
  }

  return { index, example, search, calibrated, gap, marked, onScale, said };
})();
