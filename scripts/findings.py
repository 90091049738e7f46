"""The numbers of docs/findings.md: the league of repairs of the Qwen2.5-Coder pair on each task, by recorded readings.

    python scripts/findings.py              writes the tables of the page, between the lines that name their tasks
    python scripts/findings.py code         of these tasks alone: code, grading, translation, summaries

Readings come with judgebench (judgebench/readings/recorded); the rated texts of all tasks but code lie in a folder,
`--data FOLDER` (../shared/data). No model is loaded.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import sys
import tempfile
import textwrap
from pathlib import Path

import judgebench
from judgebench.report.views.advice import recommendations
from judgebench.report.views.league import league_rows, repair_sentences
from judgebench.results.results import Results
from judgebench.words import formats

PAGE = Path(__file__).parents[1] / "docs" / "findings.md"
DATA = Path(__file__).parents[2] / "shared" / "data"
FOUR = "[[0,4],[1,5],[2,6],[3,7]]"
TASKS = {
    "code": ("qwen2.5-coder", "", FOUR, ["data=conala_sample"]),
    "grading": (
        *("qwen2.5-coder-grading", "tasks/grading_mohler.jsonl", "[[0,5],[1,6],[1,5],[0,4]]"),
        ["data=mohler", "data.limit_groups=16"],
    ),
    "translation": (
        *("qwen2.5-coder-translation", "tasks/translation_mlqe.jsonl", FOUR),
        ["data=mlqe", "data.limit_groups=120"],
    ),
    "summaries": (
        *("qwen2.5-coder-summaries", "summeval_paired.jsonl", FOUR),
        ["data=summeval", "data.limit_groups=8", "dimensions=[coherence]"],
    ),
}
"""Task -> its recorded readings, the file of its rated texts, its ranges, its data."""

NAMES = {
    "ridge_ranges": "ridge on all ranges", "ridge_both": "ridge on all ranges, judge and assistant",
    "range_mean": "mean of the ranges", "contrastive": "contrastive argmax", "greedy": "argmax",
    "contrastive_expectation": "contrastive expectation",
    "contrastive_fixed": "contrastive expectation, kappa 0.5",
    "calibrated": "expectation, a line to the humans' scores", "ordinal": "ordinal scaling",
}  # fmt: skip
"""Decoding -> its name on the page, where that is another."""


def league(task: str, data: Path) -> Results:
    """The results of +exp=repairs on a task."""
    recording, file, ranges, choice = TASKS[task]
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        results = judgebench.run(
            [
                *("+exp=repairs", "judge=recorded", f"judge.path={recording}", "assistant=recorded", *choice),
                *([f"data.path={data / file}"] if file else []),
                *(f"ranges={ranges}", "metrics.levels=[dataset]", "report=false", "human_agreement=true"),
                *("logger=none", f"run_dir={folder}/run", f"store={folder}/store.sqlite"),
            ]
        )
    assert results is not None
    return results


def table(results: Results) -> str:
    """Recommendation, sentence and table of a task, in Markdown."""
    lines = [*recommendations(results), *repair_sentences(results)]
    rows = ["| repair | Spearman | difference | p, Holm | error | range's share, raw / calibrated | passes |"]
    rows.append("|---|---|---|---|---|---|---|")
    for row in league_rows(results):

        def bounded(name: str, shown: formats.Any = formats.three, row: formats.Any = row) -> str:
            low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
            ends = "" if low is None or high is None else f" [{shown(low)}, {shown(high)}]"
            return f"{shown(row[name])}{ends}" if formats.is_known(row.get(name)) else ""

        share = " / ".join(f"{row[name]:.0f} %" for name in ("raw", "calibrated") if formats.is_known(row.get(name)))
        error, p = row.get("error"), row.get("p_holm")
        cells = [
            f"{NAMES.get(row['decoding'], row['decoding'])}{', **taken**' if row['taken'] else ''}",
            bounded("spearman"),
            bounded("difference", formats.signed_three),
            formats.p_value(p) if formats.is_known(p) else "",
            f"{error:.2f}" if formats.is_known(error) else "",
            share,
            f"{row['readings']:.0f}",
        ]
        rows.append(f"| {' | '.join(cells)} |")
    said = (textwrap.fill(re.sub(r"\s+", " ", line), 100, break_on_hyphens=False) for line in lines)
    return "\n\n".join([*said, "\n".join(rows)])


def replaced(page: str, task: str, text: str) -> str:
    """The page with the text of a task between its two comments."""
    start, end = f"<!-- {task} -->", f"<!-- end of {task} -->"
    return page[: page.index(start) + len(start)] + f"\n{text}\n" + page[page.index(end) :]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", help=f"of {', '.join(TASKS)}; if none, all whose texts are there")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the rated texts")
    typed = parser.parse_args()
    if unknown := [task for task in typed.tasks if task not in TASKS]:
        parser.error(f"{unknown[0]} is not one of {', '.join(TASKS)}")
    for task in typed.tasks or TASKS:
        file = typed.data / TASKS[task][1]
        if not file.exists():
            if typed.tasks:
                sys.exit(f"{task}: {file} is not there; name its folder with --data.")
            continue
        text = table(league(task, typed.data))
        PAGE.write_text(replaced(PAGE.read_text("utf-8"), task, text), encoding="utf-8")
        print(f"{task}\n{text}\n")


if __name__ == "__main__":
    main()
