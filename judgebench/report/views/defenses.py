"""Defenses: their effect side by side, and their preparation: standards, references, detectors,
costs."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import pandas as pd
import scipy  # its parts come when they are first used

from judgebench.report.table import (
    Block,
    Col,
    Heading,
    Paragraph,
    View,
    excludes_zero,
    labelled_rows,
    rows_by,
    values,
    with_records,
)
from judgebench.report.views.attacks import CHANGE, EXCLUDES_ZERO, RATE, RISES, attacked_rows
from judgebench.report.views.correlations import advised_rows
from judgebench.results.results import NO_DEFENSE, Results, defenses_of
from judgebench.settings.margins import Margins
from judgebench.studies.attacked import NO_ORDER
from judgebench.studies.scores import CLEAN, shown_split
from judgebench.types import LABELS, RANGE, Record, Records, Row, Rows, by_key
from judgebench.words.formats import Format, one, percent, say, signed_two, three, two, whole

# --- side by side --------------------------------------------------------------------------------

FREE_TEXT_NOTE = (
    "(its number): the judge answers in words there, and the number that it ends with stands for "
    "every decoding."
)
_FREE_TEXT = "greedy"
"""The decoding of a free-text answer, whatever the run's decodings are."""

_SETTING = ("decoding", "lambda", "temperature")
_CELL = ("split", "level", "dimension", *RANGE, LABELS, "judge")


def with_stand_ins(metrics: Records) -> Rows:
    """The records of metrics.json, or of attack/suffix.json, with `shown_defense`, the name that
    readers see; those of defenses under which the judge answers in free text once for each decoding
    that their judge has under the others, and so marked."""
    given = list(map(dict, metrics))
    # 1. of each cell, the decodings with lambda and t that every defense has
    settings = by_key(given, lambda row: values(row, _CELL))
    # 2. answers in free text stand for each decoding; for their own, where others have it, too
    rows = []
    for row in given:
        of_cell = settings[values(row, _CELL)]
        own = [other for other in of_cell if other["defense"] == row["defense"]]
        others = [
            values(other, _SETTING) for other in of_cell if other["defense"] != row["defense"]
        ]
        stand_ins = dict.fromkeys(setting for setting in others if setting[0] != _FREE_TEXT)
        in_words = {other["decoding"] for other in own} == {_FREE_TEXT} and bool(stand_ins)
        if not in_words or any(setting[0] == _FREE_TEXT for setting in others):
            rows.append(row | {"in_words": in_words})
        if in_words:
            for setting in stand_ins:
                rows.append(row | dict(zip(_SETTING, setting, strict=True)) | {"in_words": True})
    marked = {row["defense"] for row in rows if row.pop("in_words")}
    for row in rows:
        name = row["defense"]
        row["shown_defense"] = f"{name} (its number)" if name in marked else name
    return rows


def defense_rows(results: Results) -> Rows:
    """The attacked texts of dimensions with several defenses, a row an attack, range, judge and
    defense."""
    rows = []
    for part in rows_by(map(dict, results.shown), ["dimension"]):
        if len(defenses_of(part)) > 1:
            rows += attacked_rows(with_stand_ins(part))
    return rows


DEFENSES = View(
    "defenses",
    "Defenses side by side",
    defense_rows,
    [
        Col("defense", "shown_defense", left=True, width=28),
        Col(
            "clean",
            "clean_mean_score",
            two,
            says="mean score of the clean texts under the same defense, against which the change "
            "is taken",
        ),
        Col(
            "Spearman",
            "clean_spearman",
            three,
            says="of the clean texts under the same defense; by how much it lies below that of "
            "none is the cost where nobody attacks",
        ),
        Col("attacked", "attacked_mean_score", two),
        CHANGE,
        RATE,
        RISES,
    ],
    by=["dimension"],
    sections=["attack", "range", "series"],
    section="{attack}, {range}: {series}",
    note=lambda _, rows: (
        FREE_TEXT_NOTE if any(row["defense"] != row["shown_defense"] for row in rows) else ""
    ),
    marks=EXCLUDES_ZERO,
)


def defense_sentences(results: Results) -> list[str]:
    """Of each attack where it gains most without a defense: its gain, and that under the best
    defense."""
    sentences = []
    for part in rows_by(defense_rows(results), ["dimension", "attack"]):
        sections = [
            rows
            for rows in rows_by(part, ["range", "series"])
            if rows[0]["defense"] == NO_DEFENSE and len(rows) > 1
        ]
        if sections:
            bare, *defended = max(sections, key=lambda rows: rows[0]["change"])
            # one whose answers cannot be read leaves no scores to change
            most = results.config.get("verdict", {}).get("failed", Margins.failed)
            read = [row for row in defended if (row.get("failed_share") or 0.0) <= most]
            sentences.append(
                say(
                    "defenses",
                    bare=bare,
                    least=min(read or defended, key=lambda row: abs(row["change"])),
                    defenses=len(defended),
                )
            )
    return sentences


# --- attacks and defenses -----------------------------------------------------------------------


class Figure(NamedTuple):
    """A figure of attacked texts: the line above its rows, its key in a row, its format, the number
    that emphasizes it where its interval leaves out 0, and whether it is one of clean texts and of
    attacked ones."""

    line: str
    key: str
    form: Format
    beyond: str = ""
    clean: bool = False
    attacked: bool = True


FIGURES = (
    Figure("False passes", "false_pass", percent, "more", clean=True),
    Figure("Change", "change", signed_two, "change"),
    Figure("Order kept", "clean_correlation", two),
    Figure("Tokens a text", "tokens", whole, clean=True, attacked=False),
)
_WIDTH = 13
_EXACT = ("dimension", *RANGE, LABELS, "attack", "defense", "judge", *_SETTING)
_MEASURED = ("change", "change_low", "change_high", "clean_correlation")
_PLACE = ("dimension", "range", "series")


def _attacked_cells(results: Results) -> Rows:
    """The records of false_passes.json of the advised settings, each with its figures of
    metrics.json."""
    costs = {row["defense"]: row.get("tokens") for row in results.costs}
    records = with_records(map(dict, results.false_passes), _EXACT, metric=results.shown)
    rows = []
    for row in records:
        metric = row.pop("metric")
        row |= {name: metric.get(name) for name in _MEASURED}
        row["tokens"] = costs.get(row["defense"])
        if row["replaces"]:
            row |= {"clean_correlation": None, "reason": row["reason"] or NO_ORDER}
        rows.append(row)
    advised = {values(row, _PLACE) for row in advised_rows(results)}
    return [row for row in labelled_rows(with_stand_ins(rows)) if values(row, _PLACE) in advised]


def matrix_rows(results: Results) -> Rows:
    """A row an attack of each figure in turn that is known, with `cells`, defense -> the record
    under it; the clean texts first."""
    table: Rows = []
    for part in rows_by(_attacked_cells(results), _PLACE):
        place = {name: part[0][name] for name in _PLACE}
        place["reason"] = " ".join(dict.fromkeys(row["reason"] for row in part if row["reason"]))
        for figure in FIGURES:
            if all(row[figure.key] is None for row in part):
                continue
            for rows in rows_by(part, ["attack"]):
                attack = rows[0]["attack"]
                if figure.clean if attack == CLEAN else figure.attacked:
                    cells = {row["shown_defense"]: row for row in rows}
                    name = "clean" if attack == CLEAN else attack
                    row = {"figure": figure, "line": figure.line, "attack": name, "cells": cells}
                    table.append(place | row)
    return table


def _shown(row: Row, defense: str) -> str:
    figure: Figure = row["figure"]
    return figure.form(row["cells"].get(defense, {}).get(figure.key))


def _is_marked(row: Row, defense: str) -> bool:
    figure: Figure = row["figure"]
    return excludes_zero(row["cells"].get(defense, {}), figure.beyond)


def matrix(results: Results) -> list[Block]:
    """Attacks beside defenses, of the advised setting: a column a defense."""
    rows = matrix_rows(results)
    names = dict.fromkeys(name for row in rows for name in row["cells"])
    columns = [
        Col(
            name,
            partial(_shown, defense=name),
            marked=partial(_is_marked, defense=name),
            width=_WIDTH,
        )
        for name in sorted(names, key=lambda name: name != NO_DEFENSE)
    ]
    view = View(
        "matrix",
        "Attacks beside defenses",
        lambda _: rows,
        [Col("attack", left=True, width=20), *columns],
        by=_PLACE,
        title="{dimension}, {range}: {series}",
        sections=["line"],
        section="{line}",
        note="False passes: of the texts that should fail, the share that passes, by the mark that "
        "the same judge has on clean texts under the same defense; what an attack puts in the place "
        "of a text should always fail. Change: of the mean score. Order kept: Spearman of attacked "
        "with clean scores. Tokens: computed for a clean text, less what it shares with others, with "
        "its part of what the defense read and wrote first.",
        reasons=["reason"],
        marks="other false passes than of clean texts, or another mean, beyond chance (95 %)",
    )
    return view(results)


# --- preparation --------------------------------------------------------------------------------


def standards(results: Results) -> list[Block]:
    """The making of the standard vectors of each dimension, and whether their layer separates more
    than chance."""
    sentences = [
        Paragraph(say("standards", row=record, groups=results.groups))
        for record in results.standards
    ]
    return [Heading("How CAP was prepared"), *sentences] if sentences else []


def reference_rows(results: Results) -> Rows:
    """A row a dimension, defense and split of references; of CAP also the dev split and its
    unsteered texts."""
    rows = []
    references = results.references
    for (dimension, defense), part in references.groupby(["dimension", "defense"], sort=False):
        head = {"dimension": dimension, "defense": defense}
        split = shown_split(references.loc[references["dimension"] == dimension, "split"])
        unsteered = {
            record["side"]: record
            for record in results.strengths
            if defense == "cap" and record["dimension"] == dimension and record["alpha"] == 0
        }
        # 1. steered references of the reported split, and of others where there are unsteered ones
        splits = dict.fromkeys([split, *part["split"]]) if unsteered else [split]
        for name in splits:
            rows.append(head | {"split": name} | _scored(part[part["split"] == name]))
        # 2. unsteered texts
        if unsteered:
            high, low = (unsteered.get(side, {}).get("mean") for side in ("high", "low"))
            rows.append(
                {
                    "dimension": dimension,
                    "defense": "  alpha 0",
                    "split": "dev",
                    "high": high,
                    "low": low,
                    "difference": None if high is None or low is None else high - low,
                    "n": max(int(record["n"]) for record in unsteered.values()),
                }
            )
    return rows


def _scored(pairs: pd.DataFrame) -> Record:
    """Means of the scores of good and poor references, and Student's t interval of their
    difference."""
    scores = pairs[["score_high", "score_low"]].dropna().astype(float)
    cut = pairs[["high_cut", "low_cut"]].to_numpy(float)
    row = {"n": len(scores), "cut": float(cut.mean()) if len(pairs) else None}
    if not len(scores):
        return row
    differences = scores["score_high"] - scores["score_low"]
    mean = float(differences.mean())
    row |= {
        "high": float(scores["score_high"].mean()),
        "low": float(scores["score_low"].mean()),
        "difference": mean,
    }
    if len(scores) > 1:
        quantile = float(scipy.special.stdtrit(len(scores) - 1, 0.975))
        reach = quantile * float(differences.std(ddof=1)) / len(scores) ** 0.5
        row |= {"difference_low": mean - reach, "difference_high": mean + reach}
    return row


REFERENCES = View(
    "references",
    "References by themselves",
    reference_rows,
    [
        Col("defense", left=True),
        Col("split", left=True),
        Col("n", form=whole),
        Col(
            "good",
            "high",
            two,
            says="the judge's mean score of the good references, each read by itself",
        ),
        Col("poor", "low", two, says="the same of the poor ones"),
        Col(
            "good - poor",
            "difference",
            signed_two,
            signed_two,
            marked=lambda row: excludes_zero(row, "difference"),
        ),
        Col("cut", form=percent, says="share of the texts that would have gone on"),
    ],
    by=["dimension"],
    note=lambda _, rows: (
        "Alpha 0: texts of the tutor for the development split, unsteered."
        if any(row.get("cut") is None for row in rows)
        else ""
    ),
    brackets="of the mean difference over {groups}, by Student's t",
    marks=EXCLUDES_ZERO,
)


def detector_rows(results: Results) -> Rows:
    """The detectors, a row each: F1 of the training texts, all else of the test texts."""
    return [
        {**record["test"], "defense": record["defense"], "f1": record["training"]["f1"]}
        for record in results.detectors
    ]


def _recall_by_attack(row: Row) -> str:
    shares = row.get("recall_by_attack") or {}
    return ", ".join(f"{attack} {percent(share)}" for attack, share in shares.items())


DETECTORS = View(
    "detectors",
    "Detectors of attacked texts",
    detector_rows,
    [
        Col("defense", left=True),
        Col(
            "F1",
            "f1",
            two,
            says="on the development texts, on which the threshold was chosen as the best; all "
            "else is on test texts",
        ),
        Col(
            "precision",
            form=percent,
            says="clean and attacked texts weigh the same, so that chance is 50 %",
        ),
        Col("recall", form=percent, says="share of the attacked texts that are warned of"),
        Col("clean", "false_positive_rate", percent, says="that of the clean ones"),
        Col("recall by attack", _recall_by_attack, left=True),
    ],
)


def preparation_sentences(results: Results) -> list[str]:
    """Sentences: did steering move the judge's scores of references, and does each detector
    separate texts?"""
    sentences = []
    for row in reference_rows(results):
        if row["defense"] == "cap" and row.get("difference") is not None:
            sentences.append(
                say(
                    "references",
                    row=row,
                    significant=excludes_zero(row, "difference"),
                    groups=results.groups,
                )
            )
    for row in detector_rows(results):
        if None not in (row["recall"], row["false_positive_rate"]):
            sentences.append(say("detectors", row=row))
    return sentences


def cost_rows(results: Results) -> Rows:
    """The seconds of each defense, none first; empty where there is no defense, for the environment
    has these."""
    rows = sorted(map(dict, results.costs), key=lambda cost: cost["defense"] != NO_DEFENSE)
    return rows if any(row["defense"] != NO_DEFENSE for row in rows) else []


COSTS = View(
    "costs",
    "Seconds by defense",
    cost_rows,
    [
        Col("defense", left=True),
        Col("n", form=whole),
        Col(
            "a sample",
            "seconds",
            two,
            says="reading the prompt, with its share of what the defense made for the context",
        ),
        Col("reading", "reading_seconds", two),
        Col("context", "context_seconds", two, says="of what it made for one context"),
        Col(
            "once", "once_seconds", one, says="of its preparation, whatever is judged, in this run"
        ),
    ],
)
