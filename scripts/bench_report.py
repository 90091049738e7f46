"""How large a report is and how fast it answers: a made-up run, rendered, and opened in Chromium.

    python scripts/bench_report.py --examples 10000 25000 50000
    python scripts/bench_report.py --examples 20000 --systems 20000

What is timed in Chromium needs Debian's `chromium` and playwright (the dev extra), and is left out without them. No
model is loaded; the numbers of the run mean nothing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from wordfreq import top_n_list

from judgebench.report.html import render_report
from judgebench.report.layout import draw_all
from judgebench.results.environment import describe_environment
from judgebench.results.folder import RunFolder
from judgebench.results.results import Results, examples_frame
from judgebench.stats.evaluate import evaluate
from judgebench.stats.scores import Scores
from judgebench.types import Example, ScoreRange

WORDS = np.array(top_n_list("en", 5000))
ARTICLE = 16
"""Texts that answer to one article."""
_DECODINGS = [("main", "greedy"), ("main", "expectation"), ("assistant", "greedy"), ("pair", "contrastive")]


def made_up(folder: RunFolder, count: int, ranges: int, systems: int = ARTICLE, seed: int = 0) -> None:
    """Writes a run of `count` examples of so many systems, 16 to an article, under `ranges` score ranges."""
    rng = np.random.default_rng(seed)

    def text(words: int) -> str:
        return " ".join(rng.choice(WORDS, words)) + "."

    articles = -(-count // ARTICLE)
    sources = [text(400) for _ in range(articles)]
    human = rng.uniform(1, 5, count).round(2)
    examples = [
        Example(f"article-{i // ARTICLE}/text-{i % ARTICLE}", f"article-{i // ARTICLE}", f"system-{i % systems}",
                sources[i // ARTICLE], text(60), {"coherence": float(human[i])})
        for i in range(count)
    ]  # fmt: skip
    readings, scores = [], []
    for score_range in (ScoreRange(low, low + 4) for low in range(ranges)):
        values = np.array(score_range.values)
        main, assistant = (np.log(rng.dirichlet(np.full(5, 0.7), count) + 1e-6) for _ in range(2))
        splits = ["dev" if i // ARTICLE < articles // 10 else "test" for i in range(count)]
        key: dict[str, Any] = {
            "example_id": [one.example_id for one in examples],
            "group_id": [one.group_id for one in examples],
            "system_id": [one.system_id for one in examples],
            "split": splits,
            "dimension": "coherence",
            "range_min": score_range.minimum,
            "range_max": score_range.maximum,
            "range_step": 1.0,
            "attack": "none",
            "defense": "none",
        }
        none = dict.fromkeys(("text", "judge", "decoding", "lambda", "temperature"))
        prompts = [
            f"Rate this from {score_range}.\n\n{one.source}\n\nSummary: {one.output}\n\nScore: " for one in examples
        ]
        read = key | {"candidates": [list(score_range.candidates)] * count, "main_logprobs": main.tolist()}
        read |= none | {"assistant_logprobs": assistant.tolist(), "prompt": prompts, "prompt_tokens": 600}
        readings.append(pd.DataFrame(read | {"source_tokens_cut": 0, "control_tokens": 0, "seconds": 0.1}))
        decided = [
            values[main.argmax(axis=1)],
            np.exp(main) @ values / np.exp(main).sum(axis=1),
            values[assistant.argmax(axis=1)],
            values[(main - 0.5 * assistant).argmax(axis=1)],
        ]
        for (judge, decoding), given in zip(_DECODINGS, decided, strict=True):
            knobs = (
                {"lambda": 0.5, "temperature": 1.0} if judge == "pair" else {"lambda": np.nan, "temperature": np.nan}
            )
            named = key | {"judge": judge, "decoding": decoding} | knobs
            scores.append(pd.DataFrame(named | {"score": given, "status": "parsed", "human": human}))
    table = pd.concat(scores, ignore_index=True)
    folder.write("config", {"name": "made_up", "seed": seed})
    folder.write("environment", describe_environment(device="none", model_fingerprints={}, seconds={}, tokens={}))
    folder.write("readings", pd.concat(readings, ignore_index=True))
    folder.write("scores", table)
    columns = {str(name): table[name].to_numpy() for name in table}
    begun = time.perf_counter()
    folder.write("metrics", evaluate(Scores.of(columns), "made up", resamples=0))
    print(f"{'metrics, without intervals':32}{time.perf_counter() - begun:8.2f} s")
    titles = {"main": "nobody", "assistant": "nobody else"}
    folder.write("about", {"titles": titles, "scale": {"coherence": (1.0, 5.0)}, "agreement": {}})
    split = {one.group_id: its for one, its in zip(examples, splits, strict=True)}
    folder.write("examples", examples_frame(examples, split))


def in_browser(page: Path) -> dict[str, float]:
    """Seconds until what a reader asks for is there."""
    from playwright.sync_api import sync_playwright

    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    seconds = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=options)
        tab = browser.new_page()

        def timed(name: str, act: str, done: str) -> None:
            drawn = "await new Promise((next) => requestAnimationFrame(() => requestAnimationFrame(next)));"
            found = tab.evaluate(
                f"async () => {{ const begun = performance.now(), spent = () => performance.now() - begun; {act}; "
                f"while (!({done}) && spent() < 9e3) await new Promise((next) => requestAnimationFrame(next)); "
                f"{drawn} return spent(); }}"
            )
            seconds[name] = found / 1000

        begun = time.perf_counter()
        tab.goto(page.as_uri())
        tab.wait_for_selector("#examples-table .tabulator-row")
        seconds["open the page, table drawn"] = time.perf_counter() - begun
        click = "document.querySelector('.tabulator-col[tabulator-field=\"{}\"] .tabulator-col-title').click()"
        sorted_by = "document.querySelector('.tabulator-col[tabulator-field=\"{}\"]').ariaSort !== 'none'"
        timed("sort by a score", click.format("s1"), sorted_by.format("s1"))
        timed("sort by name", click.format("id"), sorted_by.format("id"))
        change = "const one = document.querySelector('[data-filter=system]'); one.value = 'system-3'; "
        change += "one.dispatchEvent(new Event('change'));"
        here = "document.getElementById('examples-count').textContent"
        timed("filter by system", f"window.before = {here}; {change}", f"{here} !== window.before")
        timed("show all again", "document.querySelector('#filters button').click()", f"{here}.startsWith('')")
        for name in ("search all texts, first time", "search all texts, again"):
            word = "council" if "first" in name else "bridge"
            act = f"window.before = {here}; const one = document.getElementById('search'); one.value = '{word}'; "
            timed(name, f"{act} one.dispatchEvent(new Event('input'));", f"{here} !== window.before")
        timed(
            "open an example",
            "document.querySelector('#examples-table a').click()",
            "document.querySelector('#example[open] .likely')",
        )
        timed("the next one", "document.querySelectorAll('#example .top button')[1].click()", "true")
        browser.close()
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, nargs="+", default=[10_000])
    parser.add_argument("--systems", type=int, default=ARTICLE)
    parser.add_argument("--ranges", type=int, default=1)
    parser.add_argument("--keep", metavar="FOLDER", help="leave the run there")
    given = parser.parse_args()
    for count in given.examples:
        print(f"{count:,} examples of {given.systems:,} systems")
        with tempfile.TemporaryDirectory() as folder:
            measure(RunFolder(given.keep or folder), count, given.ranges, given.systems)


def measure(run: RunFolder, count: int, ranges: int, systems: int) -> None:
    """Prints the seconds and the size of one run's report."""
    made_up(run, count, ranges, systems)
    results = Results.load(run.path)
    begun = time.perf_counter()
    figures = draw_all(results)
    print(f"{'figures':32}{time.perf_counter() - begun:8.2f} s")
    begun = time.perf_counter()
    page = run.write_report(render_report(results, figures))
    print(f"{'page':32}{time.perf_counter() - begun:8.2f} s")
    print(f"{'report.html':32}{page.stat().st_size / 2**20:8.2f} MiB")
    if shutil.which("chromium") is None:
        print("there is no chromium here, so the page is not opened")
        return
    for name, seconds in in_browser(page.resolve()).items():
        print(f"{name:32}{seconds:8.3f} s", flush=True)


if __name__ == "__main__":
    main()
