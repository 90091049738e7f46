"""Defenses: their effect side by side, and their preparation: standards, references, detectors, costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from judgebench.report.formats import one, percent, signed_two, three, two, whole
from judgebench.report.say import say
from judgebench.report.table import Block, Col, Heading, Paragraph, View, records
from judgebench.report.views.attacks import (
    CHANGE,
    EXCLUDES_ZERO,
    RATE,
    RISES,
    attacked_records,
    estimate_text,
    excludes_zero,
)
from judgebench.results.results import Results
from judgebench.results.series import NO_DEFENSE, defenses_of
from judgebench.stats.scores import shown_split
from judgebench.types import LABELS, RANGE

# --- side by side -----------------------------------------------------------------------------------------------------

FREE_TEXT_NOTE = (
    "(its number): the judge answers in words there, and the number that it ends with stands for every decoding."
)
_FREE_TEXT = "greedy"
"""The decoding of a free-text answer, whatever the run's decodings are."""

_SETTING = ("decoding", "lambda", "temperature")
_CELL = ("split", "level", "dimension", *RANGE, LABELS, "judge")


def with_stand_ins(metrics: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The records with `shown_defense`, the name that readers see; those of defenses under which the judge answers in
    free text once for each decoding that their judge has under the others, and so marked.

    Args:
        metrics: metrics.json, or attack/suffix.json.
    """
    cells = [tuple(record.get(name) for name in _CELL) for record in metrics]
    # Of each cell, the decodings with lambda and t that every defense has.
    settings: dict[tuple[Any, ...], dict[str, dict[tuple[Any, ...], None]]] = {}
    for cell, record in zip(cells, metrics, strict=True):
        how = tuple(record[name] for name in _SETTING)
        settings.setdefault(cell, {}).setdefault(str(record["defense"]), {})[how] = None
    shown: list[dict[str, Any]] = []
    in_words = set()
    for cell, record in zip(cells, metrics, strict=True):
        defense = str(record["defense"])
        others = [how for name, hows in settings[cell].items() if name != defense for how in hows]
        stand_ins = dict.fromkeys(how for how in others if how[0] != _FREE_TEXT)
        if {how[0] for how in settings[cell][defense]} == {_FREE_TEXT} and stand_ins:
            in_words.add(defense)
            # where others have greedy scores too, its own stand beside them
            shown += [dict(record)] if any(how[0] == _FREE_TEXT for how in others) else []
            shown += [{**record, **dict(zip(_SETTING, how, strict=True))} for how in stand_ins]
        else:
            shown.append(dict(record))
    marks = {name: f"{name} (its number)" for name in in_words}
    return [record | {"shown_defense": marks.get(str(record["defense"]), str(record["defense"]))} for record in shown]


def defense_frame(results: Results) -> pd.DataFrame:
    """The attacked texts of dimensions with several defenses, a row an attack, range, judge and defense.

    A defense under which the judge answers in free text stands in the sections of its judge's other decodings.
    """
    parts = []
    for dimension in dict.fromkeys(record["dimension"] for record in results.shown):
        own = [record for record in results.shown if record["dimension"] == dimension]
        if len(defenses_of(own)) > 1:
            parts.append(attacked_records(with_stand_ins(own)))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


DEFENSES = View(
    "defenses",
    "Defenses side by side",
    defense_frame,
    [
        Col("defense", "shown_defense", left=True, width=28),
        Col("clean", "clean_mean_score", two, says="mean score of the clean texts under the same defense, against "
            "which the change is taken"),
        Col("Spearman", "clean_spearman", three, says="of the clean texts under the same defense; by how much it lies "
            "below that of none is the cost where nobody attacks"),
        Col("attacked", "attacked_mean_score", two),
        *(CHANGE, RATE, RISES),
    ],
    by=["dimension"],
    title="{dimension}",
    sections=["attack", "range", "series"],
    section="{attack}, {range}: {series}",
    note=lambda _, rows: FREE_TEXT_NOTE if (rows["defense"] != rows["shown_defense"]).any() else "",
    marks=EXCLUDES_ZERO,
)  # fmt: skip
"""The effect of attacks under each defense, a section an attack, range and judge."""


def defense_sentences(results: Results) -> list[str]:
    """A sentence a dimension and attack, of the judge and range in which the attack gains most without a defense: its
    gain then, and under the defense that leaves the mean score nearest to the clean texts'."""
    rows, sentences = defense_frame(results), []
    for (dimension, _), part in rows.groupby(["dimension", "attack"], sort=False) if len(rows) else ():
        sections = [records(section) for _, section in part.groupby(["range", "series"], sort=False)]
        open_ = [section for section in sections if section[0]["defense"] == NO_DEFENSE and len(section) > 1]
        if open_:
            bare, *defended = max(open_, key=lambda section: float(section[0]["change"]))
            least = min(defended, key=lambda row: abs(row["change"]))
            facts = {"bare": bare, "least": least, "defenses": len(defended), "estimate_text": estimate_text}
            sentences.append(say("defenses", dimension=dimension, **facts))
    return sentences


# --- preparation ------------------------------------------------------------------------------------------------------


def standards(results: Results) -> list[Block]:
    """The making of the standard vectors of each dimension, and whether their layer separates more than chance."""
    sentences = [Paragraph(say("standards", one=record, groups=results.groups)) for record in results.standards]
    return [Heading("How CAP was prepared"), *sentences] if sentences else []


def reference_frame(results: Results) -> pd.DataFrame:
    """The judge's scores of each defense's references: a row a dimension, defense and split, of the shown split; of
    CAP also of the development split, where unsteered texts stand beside them."""
    rows: list[dict[str, Any]] = []
    for (dimension, defense), part in results.references.groupby(["dimension", "defense"], sort=False):
        own = results.references[results.references["dimension"] == dimension]
        shown = shown_split(own["split"])
        unsteered = {}
        if defense == "cap":
            tried = [record for record in results.strengths if record["dimension"] == dimension]
            unsteered = {record["side"]: record for record in tried if record["alpha"] == 0}
        splits = [shown, *(split for split in dict.fromkeys(part["split"]) if unsteered and split != shown)]
        named = {"dimension": dimension, "defense": defense}
        rows += [named | {"split": split} | _scored(part[part["split"] == split]) for split in splits]
        if unsteered:
            high, low = (unsteered.get(side, {}).get("mean") for side in ("high", "low"))
            difference = None if high is None or low is None else high - low
            n = max(int(record["n"]) for record in unsteered.values())
            rows.append(named | {"defense": "  alpha 0", "split": "dev", "n": n, "high": high, "low": low})
            rows[-1]["difference"] = difference
    return pd.DataFrame(rows)


def _scored(pairs: pd.DataFrame) -> dict[str, Any]:
    """Means of the scores of good and poor references, and Student's t interval of their difference."""
    both = pairs[["score_high", "score_low"]].dropna().to_numpy(dtype=np.float64)
    cut = float(pairs[["high_cut", "low_cut"]].to_numpy(dtype=np.float64).mean()) if len(pairs) else None
    if not len(both):
        return {"n": 0, "cut": cut}
    high, low = (float(value) for value in both.mean(axis=0))
    differences = both[:, 0] - both[:, 1]
    mean = float(differences.mean())
    row = {"n": len(both), "cut": cut, "high": high, "low": low, "difference": mean}
    if len(both) < 2:
        return row
    reach = float(stats.t.ppf(0.975, len(both) - 1) * differences.std(ddof=1)) / math.sqrt(len(both))
    ends = mean - reach, mean + reach
    return row | {"difference_low": ends[0], "difference_high": ends[1], "significant": excludes_zero(*ends)}


def _unsteered(results: Results, rows: pd.DataFrame) -> str:
    return "Alpha 0: texts of the tutor for the development split, unsteered." if rows["cut"].isna().any() else ""


REFERENCES = View(
    "references",
    "References by themselves",
    reference_frame,
    [
        Col("defense", "defense", left=True),
        Col("split", "split", left=True),
        Col("n", "n", whole),
        Col("good", "high", two, says="the judge's mean score of the good references, each read by itself"),
        Col("poor", "low", two, says="the same of the poor ones"),
        Col("good - poor", "difference", signed_two, signed_two, marked="significant"),
        Col("cut", "cut", percent, says="share of the texts that would have gone on"),
    ],
    by=["dimension"],
    title="{dimension}",
    note=_unsteered,
    brackets="of the mean difference over {groups}, by Student's t",
    marks=EXCLUDES_ZERO,
)
"""The judge's scores of references."""


def detector_frame(results: Results) -> pd.DataFrame:
    """The detectors, a row each: F1 of the training texts, all else of the test texts."""
    rows = []
    for record in results.detectors:
        test, by_attack = record["test"], record["test"].get("recall_by_attack") or {}
        shares = {name: test[name] for name in ("precision", "recall", "false_positive_rate")}
        shares["by_attack"] = ", ".join(f"{attack} {percent(share)}" for attack, share in by_attack.items())
        rows.append({"defense": record["defense"], "f1": record["training"]["f1"]} | shares)
    return pd.DataFrame(rows)


DETECTORS = View(
    "detectors",
    "Detectors of attacked texts",
    detector_frame,
    [
        Col("defense", "defense", left=True),
        Col("F1", "f1", two, says="on the development texts, on which the threshold was chosen as the best; all else "
            "is on test texts"),
        Col("precision", "precision", percent, says="clean and attacked texts weigh the same, so that chance is 50 %"),
        Col("recall", "recall", percent, says="share of the attacked texts that are warned of"),
        Col("clean", "false_positive_rate", percent, says="that of the clean ones"),
        Col("recall by attack", "by_attack", left=True),
    ],
)  # fmt: skip
"""The warnings of detectors: a warning that every text gets protects nobody."""


def preparation_sentences(results: Results) -> list[str]:
    """A sentence a dimension and split on whether steering moved the judge's scores of the references, and one a
    detector on whether it warns of attacked texts more than of clean ones."""
    sentences = [
        say("references", row=row, groups=results.groups, estimate_text=estimate_text)
        for row in records(reference_frame(results))
        if row["defense"] == "cap" and row.get("difference") is not None
    ]
    for row in records(detector_frame(results)):
        recall, clean = row["recall"], row["false_positive_rate"]
        if recall is not None and clean is not None:
            blind = ": it does not tell them apart, and what changes under it is no work of detection"
            warns = f"{row['defense']} warns of {percent(recall)} of the attacked test texts and of {percent(clean)}"
            sentences.append(f"{warns} of the clean ones{'' if recall > clean else blind}.")
    return sentences


def cost_frame(results: Results) -> pd.DataFrame:
    """The seconds of each defense, none first; empty where there is no defense, for the environment tells these."""
    costs = sorted(results.costs, key=lambda cost: cost["defense"] != NO_DEFENSE)
    return pd.DataFrame([dict(cost) for cost in costs] if any(c["defense"] != NO_DEFENSE for c in costs) else [])


COSTS = View(
    "costs",
    "Seconds by defense",
    cost_frame,
    [
        Col("defense", "defense", left=True),
        Col("n", "n", whole),
        Col("a sample", "seconds", two,
            says="reading the prompt, with its share of what the defense made for the context"),
        Col("reading", "reading_seconds", two),
        Col("context", "context_seconds", two, says="of what it made for one context"),
        Col("once", "once_seconds", one, says="of its preparation, whatever is judged, in this run"),
    ],
)  # fmt: skip
"""The seconds that defenses take."""
