"""Defenses: their effect side by side, and their preparation: standards, references, detectors, costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from judgebench.report.formats import one, percent, signed_two, three, two, whole
from judgebench.report.table import Block, Col, Heading, Paragraph, View, records
from judgebench.report.views.attacks import CHANGE, EXCLUDES_ZERO, attacked_records, estimate_text, excludes_zero
from judgebench.results.results import Results
from judgebench.results.series import NO_DEFENSE, defenses_of, shown_split
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
    settings: dict[tuple[Any, ...], dict[str, dict[tuple[Any, ...], None]]] = {}
    for record in metrics:
        of_cell = settings.setdefault(_cell(record), {}).setdefault(str(record["defense"]), {})
        of_cell[tuple(record[name] for name in _SETTING)] = None
    shown: list[dict[str, Any]] = []
    in_words = set()
    for record in metrics:
        by_defense, defense = settings[_cell(record)], str(record["defense"])
        beside = [how for name, settings_ in by_defense.items() if name != defense for how in settings_]
        others = dict.fromkeys(how for how in beside if how[0] != _FREE_TEXT)
        if {how[0] for how in by_defense[defense]} == {_FREE_TEXT} and others:
            in_words.add(defense)
            # where others have greedy scores too, its own stand beside them
            shown += [dict(record)] if any(how[0] == _FREE_TEXT for how in beside) else []
            shown += [{**record, **dict(zip(_SETTING, how, strict=True))} for how in others]
        else:
            shown.append(dict(record))
    marked = {name: f"{name} (its number)" for name in in_words}
    return [record | {"shown_defense": marked.get(str(record["defense"]), str(record["defense"]))} for record in shown]


def _cell(record: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(record.get(name) for name in _CELL)


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


def _defenses_note(results: Results, rows: pd.DataFrame) -> str:
    sentence = (
        "Clean, Spearman: of the clean texts under the same defense; the change is taken against them. By how much a "
        "defense's Spearman lies below that of none is its cost where nobody attacks."
    )
    return f"{sentence} {FREE_TEXT_NOTE}" if (rows["defense"] != rows["shown_defense"]).any() else sentence


DEFENSES = View(
    "defenses",
    "Defenses side by side",
    defense_frame,
    [
        Col("defense", "shown_defense", left=True, width=28),
        Col("clean", "clean_mean_score", two),
        Col("Spearman", "clean_spearman", three),
        Col("attacked", "attacked_mean_score", two),
        CHANGE,
        Col("rate", "rate"),
        Col("rises", "raised_share", percent),
    ],
    by=["dimension"],
    title="{dimension}",
    sections=["attack", "range", "series"],
    section="{attack}, {range}: {series}",
    note=_defenses_note,
    marks=EXCLUDES_ZERO,
)
"""The effect of attacks under each defense, a section an attack, range and judge."""


def defense_sentences(results: Results) -> list[str]:
    """A sentence a dimension and attack, of the judge and range in which the attack gains most without a defense: its
    gain then, and under the defense that leaves the mean score nearest to the clean texts'."""
    rows, sentences = defense_frame(results), []
    for (dimension, _), part in rows.groupby(["dimension", "attack"], sort=False) if len(rows) else ():
        sections = [records(section) for _, section in part.groupby(["range", "series"], sort=False)]
        open_ = [section for section in sections if section[0]["defense"] == NO_DEFENSE and len(section) > 1]
        if open_:
            sentences.append(f"{dimension}: {_sentence(*max(open_, key=lambda section: float(section[0]['change'])))}")
    return sentences


def _sentence(bare: Mapping[str, Any], *defended: Mapping[str, Any]) -> str:
    sentence = f"{bare['attack']} changes the mean score of {bare['series']} in range {bare['range']} by "
    sentence += f"{estimate_text(bare, 'change')} without a defense"
    if bare["change_low"] is not None and bare["change_low"] <= 0:
        return f"{sentence}, a gain that may be chance."
    least = min(defended, key=lambda row: abs(row["change"]))
    name, several = least["shown_defense"], len(defended) > 1
    if abs(least["change"]) >= abs(bare["change"]):
        keeps = f"none of {len(defended)} defenses keeps" if several else f"{name} does not keep"
        return f"{sentence}; {keeps} it nearer to its score of clean texts."
    sentence += f"; {f'least of {len(defended)} defenses under' if several else 'under'} {name}, by "
    sentence += estimate_text(least, "change")
    before, after = bare["clean_spearman"], least["clean_spearman"]
    if before is not None and after is not None:
        sentence += f". On clean texts its Spearman is {three(after)} instead of {three(before)}, without an interval"
    return f"{sentence}."


# --- preparation ------------------------------------------------------------------------------------------------------


def standards(results: Results) -> list[Block]:
    """The making of the standard vectors of each dimension, and whether their layer separates more than chance."""
    sentences = [Paragraph(f"{one['dimension']}: {_made(one, results.groups)} {_separability(one)}")
            for one in results.standards]  # fmt: skip
    return [Heading("How CAP was prepared"), *sentences] if sentences else []


def _made(standard: Mapping[str, Any], groups: str) -> str:
    scored = sum(score is not None for score in standard["scores"])
    return (
        f"{standard['tutor']} wrote {standard['candidates']} texts for each of {len(standard['groups'])} {groups}; of "
        f"the {scored} that {standard['judge']} scored, {standard['high_count']} at {two(standard['high_threshold'])} "
        f"or above make the high standard, {standard['low_count']} at {two(standard['low_threshold'])} or below the "
        "low one."
    )


def _separability(standard: Mapping[str, Any]) -> str:
    layer, layers = int(standard["layer"]), len(standard["separability"])
    own, chance = (float(standard[name][layer - 1]) for name in ("separability", "chance"))
    sentence = (
        f"Layer {layer} of {layers} is steered: its separability, {three(own)}, is "
        f"{'more' if own > chance else 'no more'} than chance, for of texts dealt to the sets at random 95 % stay "
        f"below {three(chance)}"
    )
    if own > chance and layer == int(standard["best_layer"]) and layers > 1:
        sentence += f"; but the best of {layers} layers surpasses that more easily than any single one"
    return f"{sentence}."


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


def _references_note(results: Results, rows: pd.DataFrame) -> str:
    sentence = (
        "Good, poor: the judge's mean score of the good references and of the poor ones, each read by itself. In "
        f"brackets: 95 % interval of the mean difference over {results.groups}, by Student's t. Cut: share of the "
        "texts that would have gone on."
    )
    unsteered = rows["cut"].isna().any()
    return f"{sentence} Alpha 0: texts of the tutor for the development split, unsteered." if unsteered else sentence


REFERENCES = View(
    "references",
    "References by themselves",
    reference_frame,
    [
        Col("defense", "defense", left=True),
        Col("split", "split", left=True),
        Col("n", "n", whole),
        Col("good", "high", two),
        Col("poor", "low", two),
        Col("good - poor", "difference", signed_two, ends=signed_two, marked="significant"),
        Col("cut", "cut", percent),
    ],
    by=["dimension"],
    title="{dimension}",
    note=_references_note,
    marks=EXCLUDES_ZERO,
)
"""The judge's scores of references."""


def _moved(row: Mapping[str, Any], groups: str) -> str:
    """The sentence on whether steering moved the judge's scores of the references."""
    sentence, difference = f"{row['dimension']}, {row['split']} split: ", estimate_text(row, "difference")
    if row.get("difference_low") is None:
        return f"{sentence}CAP's good references score {difference} above its poor ones, of one pair alone."
    ends = f"{difference}, {row['n']} {groups}"
    if not row["significant"]:
        return (
            f"{sentence}the judge does not clearly score CAP's good references above or below its poor ones ({ends})."
        )
    side = "above" if row["difference"] > 0 else "below"
    return (
        f"{sentence}the judge scores CAP's good references {side} its poor ones, by {difference} ({row['n']} {groups})."
    )


def detector_frame(results: Results) -> pd.DataFrame:
    """The detectors, a row each: F1 of the training texts, all else of the test texts."""
    rows = []
    for record in results.detectors:
        test = record["test"]
        shares = {name: test[name] for name in ("precision", "recall", "false_positive_rate")}
        found = ", ".join(
            f"{attack} {percent(share)}" for attack, share in (test.get("recall_by_attack") or {}).items()
        )
        rows.append({"defense": record["defense"], "f1": record["training"]["f1"], "by_attack": found} | shares)
    return pd.DataFrame(rows)


DETECTORS = View(
    "detectors",
    "Detectors of attacked texts",
    detector_frame,
    [
        Col("defense", "defense", left=True),
        Col("F1", "f1", two),
        Col("precision", "precision", percent),
        Col("recall", "recall", percent),
        Col("clean", "false_positive_rate", percent),
        Col("recall by attack", "by_attack", left=True),
    ],
    note="F1: on the development texts, on which the threshold was chosen as the best. All else on test texts. "
    "Precision: clean and attacked texts weigh the same, so that chance is 50 %. Recall: share of the attacked texts "
    "that are warned of, then by attack; clean: share of the clean ones.",
)
"""The warnings of detectors: a warning that every text gets protects nobody."""


def _detection(row: Mapping[str, Any]) -> str:
    """The sentence on whether a detector warns of attacked texts more than of clean ones."""
    recall, clean = row["recall"], row["false_positive_rate"]
    sentence = f"{row['defense']} warns of {percent(recall)} of the attacked test texts and of {percent(clean)} of the "
    if recall > clean:
        return f"{sentence}clean ones."
    return f"{sentence}clean ones: it does not tell them apart, and what changes under it is no work of detection."


def preparation_sentences(results: Results) -> list[str]:
    """A sentence a dimension and split on whether steering moved the judge's scores of the references, and one a
    detector on whether it detects."""
    references, detectors = records(reference_frame(results)), records(detector_frame(results))
    moved = [row for row in references if row["defense"] == "cap" and row.get("difference") is not None]
    known = [row for row in detectors if row["recall"] is not None and row["false_positive_rate"] is not None]
    return [*(_moved(row, results.groups) for row in moved), *map(_detection, known)]


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
        Col("a sample", "seconds", two),
        Col("reading", "reading_seconds", two),
        Col("context", "context_seconds", two),
        Col("once", "once_seconds", one),
    ],
    note="Seconds a sample: reading the prompt, with its share of what the defense made for the context. Context: of "
    "what it made for one context; once: of its preparation, whatever is judged, in this run.",
)
"""The seconds that defenses take."""
