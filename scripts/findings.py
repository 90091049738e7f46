"""The numbers of docs/findings.md: the league of repairs of the Qwen2.5-Coder pair on each task, by recorded readings.

    python scripts/findings.py              writes the tables of the page, between the lines that name their tasks
    python scripts/findings.py code         of these tasks alone: code, grading, translation, summaries
    python scripts/findings.py code_cap --model FILE    of CAP beside an answer first: code_cap, grading_cap

Readings come with judgebench (judgebench/readings/recorded); the rated texts of all tasks but code lie in a folder,
`--data FOLDER` (../shared/data). No model is loaded but for CAP, whose references are part of the prompts: FILE is
Qwen2.5-Coder-0.5B-Instruct (.gguf), and `--store FILE` keeps what was read.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
import sys
import tempfile
import textwrap
from pathlib import Path
from statistics import mean

import judgebench
from judgebench.report.views.advice import recommendations
from judgebench.report.views.defenses import matrix_rows
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

CODE = Path(judgebench.__file__).parent / "data" / "conala" / "conala.jsonl"
ATTACKS = ("none", "key_thought", "null_answer", "progress", "hidden_html", "dsi")
MORE = ("key_colon", "authority", "flattery", "other_language", "forged_end")
CAP: dict[str, formats.Any] = {
    "code_cap": (CODE, [*ATTACKS, *MORE], "quality", 3, ["data.rubrics=code", "data.scale=[0,4]"]),
    "grading_cap": (
        *("tasks/grading_mohler.jsonl", ATTACKS, "correctness", 4),
        ["data.rubrics=grading", "data.scale=[0,5]", "data.fields.context=reference"],
    ),
}
"""Task -> the file of its rated texts, attacks, dimension, the grade from which a text passes, its data."""

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


def extremes(file: Path, groups: int = 14) -> str:
    """Lines of the worst and the best rated text of each of a file's first groups."""
    by_group: dict[str, list[dict[str, formats.Any]]] = {}
    for line in file.read_text("utf-8").splitlines():
        row = json.loads(line)
        by_group.setdefault(row["group"], []).append(row)

    def grade(row: dict[str, formats.Any]) -> float:
        return mean(value for given in row["ratings"].values() for value in given.values() if value is not None)

    chosen = [pick(rows, key=grade) for rows in list(by_group.values())[:groups] for pick in (min, max)]
    return "".join(f"{json.dumps(row)}\n" for row in chosen)


def attacked(task: str, data: Path, model: str, store: str | None) -> Results:
    """The results of a judge under attacks: undefended, by an answer first, by CAP with itself as the tutor."""
    file, attacks, dimension, mark, choice = CAP[task]
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        texts = Path(folder) / "texts.jsonl"
        texts.write_text(extremes(data / file), "utf-8")
        results = judgebench.run(
            [
                *("data=jsonl", f"data.path={texts}", f"dimensions=[{dimension}]", f"data.pass_from={mark}", *choice),
                *("data.fields.human=ratings", "data.fields.group_id=group", "data.fields.system_id=system"),
                *("judge=local", f"judge.path={model}", "judge.dtype=float32", "assistant=none", "data.dev_share=0.29"),
                *("tutor=judge", "tutor.candidates=8", "tutor.max_new_tokens=64", "decoding=[expectation]"),
                *(f"attacks=[{','.join(attacks)}]", "defenses=[none,{name: commit, own_tokens: 64},cap]"),
                *("ranges=[[1,5]]", "report=false", "logger=none", f"run_dir={folder}/run"),
                f"store={store or f'{folder}/store.sqlite'}",
            ]
        )
    assert results is not None
    return results


def matrix(results: Results) -> str:
    """False passes and changes of the mean by attack and defense, in Markdown."""
    shown: dict[str, dict[str, list[str]]] = {}
    clean = {row["defense"]: row for row in results.shown if row["attack"] == "none" and row["level"] == "dataset"}
    for row in matrix_rows(results):
        cells = shown.setdefault(row["attack"], {})
        figure = row["figure"]
        for defense, cell in row["cells"].items():
            if figure.key in ("false_pass", "change"):
                cells.setdefault(defense, []).append(figure.form(cell.get(figure.key)))
    costs = {row["defense"]: formats.whole(row["tokens"]) for row in results.costs}
    lines = [["attack", *clean], ["---"] * (1 + len(clean))]
    lines += [[f"`{attack}`", *map(", ".join, cells.values())] for attack, cells in shown.items()]
    lines.append(["Spearman, clean", *(between(row, "spearman") for row in clean.values())])
    lines.append(["tokens a clean text", *(costs[defense] for defense in clean)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def between(row: formats.Any, name: str) -> str:
    return f"{formats.two(row[name])} [{formats.two(row[f'{name}_low'])}, {formats.two(row[f'{name}_high'])}]"


def replaced(page: str, task: str, text: str) -> str:
    """The page with the text of a task between its two comments."""
    start, end = f"<!-- {task} -->", f"<!-- end of {task} -->"
    return page[: page.index(start) + len(start)] + f"\n{text}\n" + page[page.index(end) :]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", help=f"of {', '.join([*TASKS, *CAP])}; if none, those that need no model")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the rated texts")
    parser.add_argument("--model", help="the .gguf file of the judge that CAP is measured on")
    parser.add_argument("--store", help="file in which its readings are kept")
    typed = parser.parse_args()
    if unknown := [task for task in typed.tasks if task not in {**TASKS, **CAP}]:
        parser.error(f"{unknown[0]} is not one of {', '.join([*TASKS, *CAP])}")
    for task in typed.tasks or TASKS:
        file = typed.data / (CAP[task][0] if task in CAP else TASKS[task][1])
        if not file.exists():
            if typed.tasks:
                sys.exit(f"{task}: {file} is not there; name its folder with --data.")
            continue
        if task in CAP and typed.model is None:
            parser.error(f"{task}: name the judge's .gguf file with --model")
        if task in CAP:
            text = matrix(attacked(task, typed.data, typed.model, typed.store))
        else:
            text = table(league(task, typed.data))
        PAGE.write_text(replaced(PAGE.read_text("utf-8"), task, text), encoding="utf-8")
        print(f"{task}\n{text}\n")


if __name__ == "__main__":
    main()
