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

  const links = new Map([...document.querySelectorAll(".bar .links a")].map((one) => [one.hash.slice(1), one]));
  const seen = new Set();
  const watch = new IntersectionObserver((entries) => {
    for (const entry of entries) entry.isIntersecting ? seen.add(entry.target.id) : seen.delete(entry.target.id);
    const here = [...links.keys()].find((name) => seen.has(name));
    for (const [name, link] of links) name === here ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current");
  }, { rootMargin: "-60px 0px -60% 0px" });
  for (const section of document.querySelectorAll("main > section")) watch.observe(section);
})();
