"""Sets of recorded judges as tasks of judgebench, and the figures that were published of them."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from judgebench.stats.classes import kappa_of
from judgebench.stats.clusters import safe_divide
from judgebench.studies.scores import JudgeScores, ScoreSeries
from judgebench.types import Classes

PASS_FROM = {"llmjudge": 2, "summhay": 2, "llm_rubric_real": 3, "llm_rubric_synth": 3}
"""Graded set -> the label from which a text passes."""
QUESTION = {"llm_rubric_real": "Q0", "llm_rubric_synth": "Q0"}
"""Set -> its overall question; the others are left out."""
BY_QUESTION = ("alttest_summeval", "alttest_lesion")
"""Sets whose questions are tasks of their own."""
WIDE = (0.0, 100.0)
"""The range of judges without one: that of their lowest and highest score is mapped to it."""
RESAMPLES = 200
FEWEST = 20
"""Texts of a task."""
Rows = list[dict[str, Any]]


def read(folder: Path) -> dict[str, Rows]:
    """Set -> its rows, of all files of a folder."""
    sets: dict[str, Rows] = {}
    for path in sorted([*folder.glob("*.jsonl"), *folder.glob("*.jsonl.gz")]):
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        rows = [json.loads(text) for text in content.splitlines()]
        if rows and {"set", "group", "human", "judges"} <= rows[0].keys():
            sets.setdefault(rows[0]["set"], []).extend(rows)
    return sets


@dataclass(frozen=True)
class Task:
    """A set, or one of its questions: human [N, R] labels, NaN where a rater gave none; groups and systems [N];
    judge -> scores [N] in `range`, NaN where it gave none."""

    name: str
    labels: str
    human: np.ndarray
    groups: np.ndarray
    systems: np.ndarray
    judges: dict[str, np.ndarray]
    scale: tuple[float, float]
    range: tuple[float, float]
    classes: Classes | None

    @cached_property
    def mean(self) -> np.ndarray:
        """[N] the raters' mean; of names without order the one that most gave, the first of equals."""
        if self.labels != "nominal":
            return safe_divide(np.nansum(self.human, axis=1), 1.0 * np.isfinite(self.human).sum(axis=1))
        counts = (self.human[..., None] == np.arange(self.scale[1] + 1)).sum(axis=1)
        return np.where(counts.any(axis=1), counts.argmax(axis=1), np.nan)

    @staticmethod
    def half(groups: np.ndarray, draw: int) -> np.ndarray:
        """[N] True for the texts of half of the groups, drawn."""
        names = np.unique(groups)
        return np.isin(groups, np.random.default_rng(draw).permutation(names)[: len(names) // 2])


def tasks_of(name: str, rows: Rows, most_judges: int) -> Iterator[Task]:
    """The tasks of a set, with so many of its judges, drawn; 0: with all."""
    rows = [row for row in rows if name not in QUESTION or row["question"] == QUESTION[name]]
    parts = {name: rows}
    if name in BY_QUESTION:
        questions = sorted({row["question"] for row in rows})
        parts = {f"{name} {ask}": [row for row in rows if row["question"] == ask] for ask in questions}
    for part, texts in parts.items():
        names = sorted({judge for row in texts for judge in row["judges"]})
        if most_judges and len(names) > most_judges:
            names = sorted(np.random.default_rng(0).permutation(names)[:most_judges].tolist())
        task = _task(part, texts, names, PASS_FROM.get(name))
        if len(texts) >= FEWEST and np.ptp(task.mean[np.isfinite(task.mean)]) > 0:
            yield task


def _task(name: str, rows: Rows, judges: list[str], pass_from: float | None) -> Task:
    labels = rows[0]["labels"]
    named = rows[0].get("classes") or ()
    places = {label: float(place) for place, label in enumerate(named)} if labels == "nominal" else {}

    def column(key: str, who: str) -> np.ndarray:
        given = [row[key].get(who) for row in rows]
        return np.array([np.nan if value is None else places.get(value, value) for value in given], dtype=float)

    human = np.stack([column("human", rater) for rater in sorted({r for row in rows for r in row["human"]})], axis=1)
    scores = {judge: column("judges", judge) for judge in judges}
    # 1. the humans' scale, and the classes of their labels
    low, high = rows[0].get("scale") or (np.nanmin(human), np.nanmax(human))
    scale = (0.0, len(named) - 1.0) if named else (float(low), float(high))
    classes = None if pass_from is None else Classes(pass_from=pass_from)
    if named:
        classes = Classes(tuple(named), 1.0 if labels == "binary" else None, labels != "nominal")
    # 2. judges speak on the humans' scale, or on one of their own; a number off the scale is at its end
    spoken = scale
    if labels == "continuous":
        spoken = WIDE
        for judge, values in scores.items():
            lowest, highest = np.nanmin(values), np.nanmax(values)
            scores[judge] = WIDE[1] * (values - lowest) / ((highest - lowest) or 1.0)
    scores = {judge: np.clip(values, *spoken) for judge, values in scores.items()}
    groups, systems = (np.array([str(row.get(key) or "-") for row in rows]) for key in ("group", "system"))
    return Task(name, labels, human, groups, systems, scores, scale, spoken, classes)


def sample_of(task: Task, judge: str, rows: np.ndarray, labelled: np.ndarray | None = None) -> JudgeScores:
    """A judge's scores of the texts `rows` as studies take them, where some are labelled, or all are."""
    human = task.human[rows]
    if labelled is not None:
        human = np.where(labelled[rows][:, None], human, np.nan)
    raters = [f"r{number}" for number in range(human.shape[1])] if human.shape[1] > 1 else []
    names = np.flatnonzero(rows).astype(str)
    return JudgeScores(
        task.name,
        ScoreSeries("test", "quality", *task.range, 1.0, "none", "none", "main", "expectation", None, None),
        names,
        task.groups[rows],
        task.systems[rows],
        task.judges[judge][rows],
        human,
        raters,
        task.scale,
        task.classes,
        resamples=RESAMPLES,
    )


# --- published figures ------------------------------------------------------------------------------------------------


def _both(rows: Rows, judge: str) -> tuple[np.ndarray, np.ndarray]:
    """What the judge and the one rater said of the texts that both know."""
    known = [row for row in rows if row["judges"].get(judge) is not None]
    said = [row["judges"][judge] for row in known]
    return np.array(said), np.array([next(iter(row["human"].values())) for row in known])


def _matrix(first: Any, second: Any) -> np.ndarray:
    names, place = np.unique(np.concatenate([first, second]), return_inverse=True)
    size, texts = len(names), len(first)
    return np.bincount(place[:texts] * size + place[texts:], minlength=size**2).reshape(size, size).astype(float)


def _kappa(rows: Rows, judge: str, test: Callable[[Any], Any] = lambda grades: grades) -> float:
    said, human = _both(rows, judge)
    return float(kappa_of(_matrix(test(human), test(said))))


def _pearson(rows: Rows, judge: str) -> float:
    return float(np.corrcoef(*_both([row for row in rows if row.get("system") != "refA"], judge))[0, 1])


def _rubric(rows: Rows, judge: str, figure: str, expected: bool) -> float:
    known = [row for row in rows if row["question"] == "Q0" and judge in row.get("distributions", {})]
    said, human = _both(known, judge)
    laws = [{float(value): share for value, share in row["distributions"][judge].items()} for row in known]
    said = np.array([max(law, key=law.__getitem__) for law in laws])
    if expected:
        said = np.array([sum(value * share for value, share in law.items()) / sum(law.values()) for law in laws])
    rmse = np.sqrt(np.mean((said - human) ** 2))
    return float(rmse if figure == "RMSE" else np.corrcoef(said, human)[0, 1])


def _natural(rows: Rows, judge: str) -> float:
    rows = [row for row in rows if row["question"] == "Natural"]
    right = [
        said == human for name in (judge, f"{judge} swapped") for said, human in zip(*_both(rows, name), strict=True)
    ]
    return float(np.mean(right))


def _orders(rows: Rows, judge: str, figure: str) -> float:
    """Agreement with people in both orders, agreement of the orders, or their kappa."""
    if figure == "kappa":
        rows = [row for row in rows if row["question"] == "Natural"]
    known = [row for row in rows if {judge, f"{judge} swapped"} <= row["judges"].keys()]
    first, human = _both(known, judge)
    second, _ = _both(known, f"{judge} swapped")
    if figure == "kappa":
        return float(kappa_of(_matrix(first, second)))
    return float(np.mean((first == second) & ((first == human) | (figure == "consistency"))))


def _raters(rows: Rows, _: str, pair: int) -> float:
    """The kappa of two raters, the highest pair first."""
    names = sorted({rater for row in rows for rater in row["human"]})
    kappas = [
        kappa_of(_matrix(*([row["human"][name] for row in rows] for name in two))) for two in combinations(names, 2)
    ]
    return float(sorted(kappas, reverse=True)[pair])


def _f1(rows: Rows, judge: str) -> float:
    """Mean F1 of the classes against the majority, weighted by its texts, by that of gpt-3.5-turbo."""

    def mean(name: str) -> float:
        known = [row for row in rows if name in row["judges"]]
        majority = [Counter(row["human"].values()).most_common(1)[0][0] for row in known]
        matrix = _matrix(majority, [row["judges"][name] for row in known])
        texts = matrix.sum(axis=1)
        return float(np.average(2 * np.diag(matrix) / (matrix.sum(axis=0) + texts), weights=texts))

    return mean(judge) / mean("gpt-3.5-turbo")


def _advantage(rows: Rows, judge: str) -> float:
    """The share of texts on which the judge agrees with the others at least as often as a rater, mean over raters of
    30 texts or more."""
    wins: dict[str, list[bool]] = {}
    for row in rows:
        for rater, label in row["human"].items():
            others = [other for name, other in row["human"].items() if name != rater]
            if others and judge in row["judges"]:
                wins.setdefault(rater, []).append(others.count(row["judges"][judge]) >= others.count(label))
    return float(np.mean([np.mean(won) for won in wins.values() if len(won) >= 30]))


TWO = "gpt-3.5-turbo-16k"
PUBLISHED: tuple[tuple[str, str, str, float, Callable[[Rows, str], float]], ...] = (
    ("llmjudge", "kappa of four grades", "willia-umbrela1", 0.2863, _kappa),
    ("llmjudge", "kappa of four grades", "Olz-gpt4o", 0.2625, _kappa),
    ("llmjudge", "kappa of four grades", "TREMA-4prompts", 0.1829, _kappa),
    ("llmjudge", "kappa, grade 2 or more", "h2oloo-fewself", 0.4280, partial(_kappa, test=lambda x: x >= 2)),
    ("llmjudge", "kappa, grade 1 or more", "Olz-gpt4o", 0.4228, partial(_kappa, test=lambda x: x >= 1)),
    ("llmjudge", "kappa, grade 3", "willia-umbrela3", 0.3215, partial(_kappa, test=lambda x: x == 3)),
    ("alttest_wax", "advantage probability", "gpt-4o", 0.73, _advantage),
    ("llm_rubric_real", "RMSE of argmax", TWO, 1.2016, partial(_rubric, figure="RMSE", expected=False)),
    ("llm_rubric_real", "RMSE of expectation", TWO, 0.9187, partial(_rubric, figure="RMSE", expected=True)),
    ("llm_rubric_real", "Pearson of argmax", TWO, 0.1401, partial(_rubric, figure="Pearson", expected=False)),
    ("llm_rubric_real", "Pearson of expectation", TWO, 0.1773, partial(_rubric, figure="Pearson", expected=True)),
    ("wmt23_ende_mqm", "Pearson", "XCOMET-Ensemble", 0.695, _pearson),
    ("wmt23_ende_mqm", "Pearson", "GEMBA-MQM", 0.502, _pearson),
    ("wmt23_ende_mqm", "Pearson", "BLEU", 0.192, _pearson),
    ("summhay", "Pearson", "gemini-1.5-pro", 0.751, _pearson),
    ("summhay", "Pearson", "gpt-4o 9-shot", 0.719, _pearson),
    ("summhay", "Pearson", "gpt-4o", 0.716, _pearson),
    ("summhay", "Pearson", "claude3-opus", 0.677, _pearson),
    ("summhay", "Pearson", "claude3-haiku", 0.498, _pearson),
    ("summhay", "Pearson", "gpt3.5", 0.495, _pearson),
    ("llmbar", "right, of natural pairs", "GPT-4/Vanilla", 0.955, _natural),
    ("llmbar", "kappa of both orders, natural", "GPT-4/Vanilla", 0.8977, partial(_orders, figure="kappa")),
    ("autoj_pairs", "right in both orders", "auto-j-13b", 0.5496, partial(_orders, figure="right")),
    ("autoj_pairs", "the same in both orders", "auto-j-13b", 0.8341, partial(_orders, figure="consistency")),
    ("pandalm_pairs", "kappa of two raters", "", 0.88, partial(_raters, pair=0)),
    ("pandalm_pairs", "kappa of two raters", "", 0.86, partial(_raters, pair=1)),
    ("pandalm_pairs", "kappa of two raters", "", 0.85, partial(_raters, pair=2)),
    ("pandalm_pairs", "F1 by that of gpt-3.5-turbo", "pandalm-7b", 0.9375, _f1),
)
"""Set, figure, judge, the published value over both halves, and how it comes from the rows."""

TEXTS = {
    "llmjudge": 4423, "alttest_wax": 246, "llm_rubric_real": 1701, "wmt23_ende_mqm": 5980, "summhay": 1419,
    "llmbar": 419, "autoj_pairs": 1392, "pandalm_pairs": 999,
}  # fmt: skip
"""Set -> the texts of both halves."""


def published(sets: dict[str, Rows]) -> Iterator[dict[str, Any]]:
    """A row a published figure whose set and judge are here: ours beside it, and which share of the texts is here."""
    for name, figure, judge, value, measure in PUBLISHED:
        rows = sets.get(name, [])
        if rows and (not judge or any(judge in row["judges"] for row in rows)):
            share = len(rows) / TEXTS[name]
            yield {
                "set": name,
                "figure": figure,
                "judge": judge,
                "here": share,
                "published": value,
                "ours": measure(rows, judge),
            }
