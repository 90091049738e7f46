// The page itself: light or dark, and which section the reader is in. Everything else works without it.
"use strict";
(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const kept = (value) => {
    try { // a page opened from a file may have no storage
      if (value === undefined) return localStorage.getItem("judgebench-theme");
      localStorage.setItem("judgebench-theme", value);
    } catch { /* the choice lasts as long as the page */ }
    return null;
  };
  const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  if (kept()) root.dataset.theme = kept();
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    kept(root.dataset.theme);
  });

  // One switch for all that is folded of tables; and commands that are copied
  const all = document.getElementById("all");
  const folds = [...document.querySelectorAll("main section details")].filter((one) => one.querySelector("table[data-view]"));
  all.hidden = !folds.length;
  all.addEventListener("click", () => {
    const open = all.getAttribute("aria-pressed") !== "true";
    all.setAttribute("aria-pressed", String(open));
    for (const one of folds) one.open = open;
  });
  for (const copy of document.querySelectorAll("button[data-copy]")) {
    copy.hidden = !document.getElementById(copy.dataset.copy);
    copy.addEventListener("click", async () => {
      try { await navigator.clipboard.writeText(document.getElementById(copy.dataset.copy).textContent); copy.textContent = "Copied"; } catch { copy.textContent = "Not allowed here"; }
    });
  }

  const links = new Map([...document.querySelectorAll(".bar .links a")].map((one) => [one.hash.slice(1), one]));
  const seen = new Set();
  const watch = new IntersectionObserver((entries) => {
    for (const entry of entries) entry.isIntersecting ? seen.add(entry.target.id) : seen.delete(entry.target.id);
    const here = [...links.keys()].find((name) => seen.has(name));
    for (const [name, link] of links) name === here ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current");
  }, { rootMargin: "-60px 0px -60% 0px" });
  for (const section of document.querySelectorAll("main > section")) watch.observe(section);
})();
