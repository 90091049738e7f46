"use strict";
// A text at a time, a key a label. Texts only ever become text nodes; nothing is loaded and nothing is sent.

const data = JSON.parse(document.getElementById("data").textContent);
const UNCLEAR = "u";
const MOST_UNDONE = 1000;
const element = (id) => document.getElementById(id);

let rater = null;
let state = null; // {answers: {place: {label, unclear, reason, time, changed}}, undone: [{at, before, time}], at}
let database = null;
let shownGroup = null;
let writes = false; // a write to the database is under way
let waits = false; // and another waits for it
let handle = null; // of the file that is written at each key, where the browser can
let writing = Promise.resolve(); // writes to the file, one behind the other
let keeps = true; // false where the browser keeps nothing
let windows = null; // tells other windows of the same rater that something was kept

// --- what is kept in the browser -----------------------------------------------------------------
// IndexedDB with strict durability: a browser that is killed loses nothing, which localStorage would write seconds later.
// A page has a database of its own, so that no other page's version shuts it out
function answered(request) {
  return new Promise((resolve, reject) => Object.assign(request, { onsuccess: () => resolve(request.result), onerror: reject }));
}

async function load() {
  const empty = { answers: {}, undone: [], at: 0 };
  try {
    if (!database) {
      const opening = indexedDB.open(`judgebench labels ${data.page}`, 1);
      opening.onupgradeneeded = () => opening.result.createObjectStore("labels");
      database = await answered(opening);
    }
    return { ...empty, ...(await answered(database.transaction("labels").objectStore("labels").get(rater))) };
  } catch {
    keeps = false;
    return state || empty;
  }
}

// of two windows' answers to a text the one that changed last counts
function merged(ours, theirs) {
  const answers = { ...theirs };
  for (const [at, answer] of Object.entries(ours)) {
    if (!answers[at] || (answer.changed || "") >= (answers[at].changed || "")) answers[at] = answer;
  }
  return answers;
}

// one write at a time, the newest state next: at each moment all but the last keys are on the disk. What another window has
// kept is read and joined within the write, so that none writes over the other
function keep() {
  waits = writes;
  if (handle) writing = writing.then(write).catch(() => showKept("The file can no longer be written. Save it again.", true));
  if (writes) return;
  const finish = (kept) => {
    writes = false;
    keeps = kept;
    if (waits && kept) keep();
    else if (kept) windows?.postMessage(rater);
    showProgress();
    showKept();
  };
  try {
    writes = true;
    const transaction = database.transaction("labels", "readwrite", { durability: "strict" });
    const store = transaction.objectStore("labels");
    const reading = store.get(rater);
    reading.onsuccess = () => {
      state.answers = merged(state.answers, reading.result?.answers || {});
      store.put(state, rater);
    };
    Object.assign(transaction, { oncomplete: () => finish(true), onabort: () => finish(false) });
  } catch {
    finish(false);
  }
  element("kept").setAttribute("aria-busy", String(writes));
}

// what another window of the same rater has kept is shown here; what is typed here stays
async function join() {
  if (state === null || !keeps) return;
  const kept = await load();
  const before = JSON.stringify(state.answers[state.at]);
  state.answers = merged(state.answers, kept.answers);
  if (JSON.stringify(state.answers[state.at]) === before || document.activeElement === element("reason")) showProgress();
  else show(state.at);
}

function showKept(message, isProblem) {
  const sentence = keeps
    ? `Kept in this browser under the name ${rater}.`
    : "This browser keeps nothing: do not close the page before you have saved the file.";
  const file = handle ? ` ${handle.name} is written at each key, too.` : "";
  element("kept").textContent = message || sentence + file;
  element("kept").classList.toggle("lost", isProblem || !keeps);
  element("kept").setAttribute("aria-busy", String(writes));
}

addEventListener("visibilitychange", () => document.hidden || join());

addEventListener("beforeunload", (event) => {
  if (state !== null && !keeps && !handle) event.preventDefault();
});

// --- the file ------------------------------------------------------------------------------------
const isLabelled = (at) => Boolean(state.answers[at] && state.answers[at].time);

// CRC-32 over a row's names and values, see row_checksum in judgebench/data/labels.py
function checksum(row) {
  const plain = (value) => {
    if (Array.isArray(value)) return value.map(plain).join(",");
    return typeof value === "number" ? String(Math.floor(value * 1e9 + 0.5)) : String(value);
  };
  const content = Object.keys(row).sort().map((name) => `${name}=${plain(row[name])}`);
  let sum = 0xffffffff;
  for (const byte of new TextEncoder().encode(content.join("\0"))) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit++) sum = (sum >>> 1) ^ (sum & 1 ? 0xedb88320 : 0);
  }
  return ((sum ^ 0xffffffff) >>> 0).toString(16).padStart(8, "0");
}

// a reason without a label has a line, too, whose label is null
function lines() {
  const rows = [];
  data.order.forEach(([position, again], at) => {
    const answer = state.answers[at];
    if (!answer || !(answer.time || answer.reason)) return;
    const text = data.texts[position];
    const row = {
      example_id: text.id,
      digest: text.digest,
      dimension: data.dimension,
      label: answer.unclear || !answer.time ? null : answer.label,
      unclear: Boolean(answer.unclear),
      reason: answer.reason || "",
      rater,
      time: answer.time || answer.changed,
      repeat: again,
      probability: text.probability,
      page: data.page,
      seed: data.seed,
    };
    row[data.kind] = data.kind === "scale" ? [data.choices[0].label, data.choices.at(-1).label] : data.choices.map((each) => each.label);
    if (data.second_look) row.second_look = true;
    row.check = checksum(row);
    rows.push(`${JSON.stringify(row)}\n`);
  });
  return rows.join("");
}

async function write() {
  const file = await handle.createWritable();
  await file.write(lines());
  await file.close();
}

async function save() {
  const name = `labels_${rater.replace(/[^\p{L}\p{N}.-]+/gu, "_").replace(/^\.+/, "")}.jsonl`;
  if (window.showSaveFilePicker) {
    try {
      handle = await window.showSaveFilePicker({ suggestedName: name, types: [{ accept: { "application/jsonl": [".jsonl"] } }] });
      writing = writing.catch(() => {}).then(write); // behind those that are under way, so that the newest comes last
      await writing;
      showKept();
      say(`Saved as ${handle.name}.`);
      return;
    } catch (error) {
      handle = null;
      if (error.name === "AbortError") return;
    }
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([lines()], { type: "application/jsonl" }));
  link.download = name;
  link.click();
  showKept(`${name} is in your downloads.${keeps ? " Kept in this browser, too." : ""}`);
  say(`Saved as ${name}.`);
}

// --- what is shown -------------------------------------------------------------------------------
const say = (sentence) => (element("said").textContent = sentence);

function block(title, content, kind) {
  const head = document.createElement("h2");
  head.textContent = title;
  const body = document.createElement("p");
  body.className = `text ${kind || ""}`;
  body.dir = "auto";
  body.textContent = content;
  return [head, body];
}

function showProgress() {
  const all = data.order.length;
  const count = data.order.filter((_, at) => isLabelled(at)).length;
  const unclear = Object.values(state.answers).filter((answer) => answer.time && answer.unclear).length;
  element("count").textContent = `${count} of ${all} labelled${unclear ? `, ${unclear} unclear` : ""}`;
  element("progress").max = all;
  element("progress").value = count;
  element("done-title").textContent = count < all ? `${all - count} without a label` : "All texts are labelled";
}

function show(at) {
  state.at = at;
  const done = at >= data.order.length;
  document.querySelector("main").hidden = done;
  element("answer").hidden = done;
  element("done").hidden = !done;
  showProgress();
  element("undo").disabled = !state.undone.length;
  element("back").disabled = at === 0;
  element("forth").disabled = done;
  if (done) {
    element("done-title").focus();
    return;
  }
  // 1. the text
  const text = data.texts[data.order[at][0]];
  const group = data.groups[text.group];
  const parts = group.source === text.output ? [] : block("Source", group.source);
  if (group.context) parts.push(...block("Context", group.context));
  if (text.question) parts.push(...block("Question", text.question));
  parts.push(...block("Text to label", text.output, "judged"));
  (text.shown || []).forEach(([title, content]) => parts.push(...block(title, content)));
  element("text").replaceChildren(...parts);
  element("place").textContent = `Text ${at + 1} of ${data.order.length}`;
  // 2. its label, if it has one
  const answer = state.answers[at] || {};
  element("reason").value = answer.reason || "";
  for (const button of element("choices").children) {
    const chosen = answer.time && (button.dataset.unclear ? answer.unclear : !answer.unclear && data.choices[button.dataset.choice].label === answer.label);
    button.setAttribute("aria-pressed", String(Boolean(chosen)));
  }
  // an article that has just been read is passed over
  document.querySelector("main").scrollTop = 0;
  if (text.group === shownGroup) document.querySelector(".judged").scrollIntoView({ block: "end" });
  shownGroup = text.group;
  element("place").focus({ preventScroll: true });
}

// --- what is done --------------------------------------------------------------------------------
function choose(label, unclear) {
  const at = state.at;
  if (at >= data.order.length) return;
  const before = state.answers[at] || null;
  const reason = element("reason").value.trim();
  const time = new Date().toISOString();
  state.answers[at] = { label, unclear, reason, time, changed: time };
  state.undone = [...state.undone, { at, before, time }].slice(-MOST_UNDONE);
  // on to the next text without a label
  const rest = [...data.order.keys()].filter((other) => !isLabelled(other));
  const next = rest.find((other) => other > at) ?? rest[0] ?? data.order.length;
  show(next);
  keep();
  const here = next < data.order.length ? `Text ${next + 1} of ${data.order.length}.` : "All texts are labelled.";
  say(`${unclear ? "unclear" : label}. ${here}`);
}

function undo() {
  const last = state.undone.pop();
  if (!last) return;
  if (state.answers[last.at]?.time !== last.time) {
    say(`Text ${last.at + 1} was labelled in another window since.`);
    return;
  }
  state.answers[last.at] = { ...last.before, changed: new Date().toISOString() };
  show(last.at);
  keep();
  say(`Undone. Text ${last.at + 1} of ${data.order.length}.`);
}

function move(steps) {
  const at = Math.min(Math.max(state.at + steps, 0), data.order.length);
  show(at);
  keep();
  if (at < data.order.length) say(`Text ${at + 1} of ${data.order.length}.`);
}

function noteReason() {
  const changed = new Date().toISOString();
  state.answers[state.at] = { ...state.answers[state.at], reason: element("reason").value, changed };
  keep();
}

function pressed(event) {
  if (state === null || event.isComposing) return;
  const key = event.key.toLowerCase();
  const inReason = event.target === element("reason");
  if (inReason && key === "escape") element("place").focus({ preventScroll: true });
  if ((event.ctrlKey || event.metaKey) && (key === "s" || (key === "z" && !inReason))) {
    event.preventDefault();
    (key === "s" ? save : undo)();
    return;
  }
  // a key that is held down labels one text and no more
  if (inReason || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  const button = [...element("choices").children].find((each) => each.dataset.key === key);
  const actions = { z: undo, backspace: undo, s: save, arrowleft: () => move(-1), arrowright: () => move(1), r: () => element("reason").focus() };
  const action = button && !element("answer").hidden ? () => button.click() : actions[key];
  if (!action) return;
  event.preventDefault();
  action();
}

// --- the beginning -------------------------------------------------------------------------------
function addChoice(title, key, pick) {
  const button = document.createElement("button");
  const sign = document.createElement("kbd");
  button.type = "button";
  button.dataset.key = key;
  button.setAttribute("aria-keyshortcuts", key.toUpperCase());
  sign.textContent = key.toUpperCase();
  button.append(title, ...(title === key ? [] : [" ", sign]));
  button.setAttribute("aria-label", title);
  button.addEventListener("click", pick);
  element("choices").append(button);
  return button;
}

async function begin(name) {
  if (rater !== null) return; // a second click
  rater = name;
  state = await load();
  if (window.BroadcastChannel) {
    windows = new BroadcastChannel(`judgebench labels ${data.page}`);
    windows.onmessage = (event) => event.data === rater && join();
  }
  element("who").hidden = true;
  element("work").hidden = false;
  element("rubric").textContent = data.rubric;
  data.choices.forEach((choice, i) => {
    addChoice(String(choice.label), choice.key, () => choose(choice.label, false)).dataset.choice = i;
  });
  addChoice("unclear", UNCLEAR, () => choose(null, true)).dataset.unclear = "1";
  element("reason").addEventListener("input", noteReason);
  const clicks = { undo, save, "save-all": save, back: () => move(-1), forth: () => move(1) };
  for (const [id, click] of Object.entries(clicks)) element(id).addEventListener("click", click);
  show(Math.min(state.at, data.order.length));
  showKept();
}

document.addEventListener("keydown", pressed);
element("who").addEventListener("submit", (event) => {
  event.preventDefault();
  if (element("rater").value.trim()) begin(element("rater").value.trim());
});
if (data.rater) begin(data.rater);
else {
  element("who").hidden = false;
  element("rater").focus();
}
