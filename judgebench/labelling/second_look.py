"""Texts of a run on which judge and people differ most, for a second look at both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from judgebench.data.labels import label_files, read_labels
from judgebench.labelling.draw import Drawn
from judgebench.labelling.page import PageSettings
from judgebench.runtime.errors import UserError
from judgebench.types import Classes, Example, ScoreRange

Shown = Mapping[str, list[tuple[str, str]]]
"""example_id -> titles and texts that stand below the text."""

_SETTING = ("dimension", "judge", "decoding", "range_min", "range_max", "range_step")


def disagreements_of(run: Path, settings: PageSettings) -> tuple[PageSettings, Drawn, Shown]:
    """The texts of a run on which its setting and people differ most, the most first; `UserError`
    where it keeps no texts. Both are compared as parts of their scales."""
    from judgebench.results.results import Results  # it needs pandas and pyarrow

    # 1. the scores of the setting that the run takes, beside people's
    results = Results.load(run)
    if results.examples is None:
        raise UserError(
            f"{run}: this run keeps no texts (examples=false); run it again with examples=true."
        )
    rows = results.scores
    rows = rows[(rows["attack"] == "none") & (rows["defense"] == "none") & rows["human"].notna()]
    if not len(rows):
        raise UserError(f"{run}: nobody has rated a text of this run, so nobody differs.")
    advised = next((record for record in results.choice if record["taken"]), rows.iloc[0])
    for name in _SETTING:
        rows = rows[rows[name] == advised[name]]
    dimension = str(advised["dimension"])
    low, high = results.about["scale"].get(dimension) or (rows["human"].min(), rows["human"].max())
    of_people = (rows["human"] - low) / max(high - low, 1e-9)
    score_range = ScoreRange.of(rows.iloc[0].to_dict())
    span = score_range.maximum - score_range.minimum
    of_judge = (rows["score"] - score_range.minimum) / span
    gaps = (of_judge - of_people).abs().sort_values(ascending=False, kind="stable")
    rows = rows.loc[gaps.index[: settings.disagreements]]
    # 2. their texts, and what both have said
    texts = results.examples.set_index("example_id")
    of_dimension = (results.about.get("classes") or {}).get(dimension) or {}
    classes = Classes(tuple(of_dimension.get("names") or ()))
    people = _people(results, dimension, classes)
    examples = []
    shown: dict[str, list[tuple[str, str]]] = {}
    for row in rows.to_dict("records"):
        name = row["example_id"]
        text = texts.loc[name]
        examples.append(
            Example(
                name,
                row["group_id"],
                row["system_id"],
                text["source"],
                text["output"],
                {},
                context=text["context"],
            )
        )
        said = f"{row['score']:.3g} in range {score_range}"
        answer = _answer(results.readings, row)
        if answer.strip() not in said.split():
            said = f"{said}\n{answer}".strip()
        shown[name] = [("The judge", said)]
        shown[name].append(("People", people.get(name) or f"mean {row['human']:g}"))
    drawn = Drawn(examples, dict.fromkeys(shown, 1.0), len(set(rows["group_id"])), len(texts))
    settings = replace(settings, dimension=dimension)
    if settings.scale is None and settings.classes is None:
        same_labels = {"classes": classes.names} if classes.names else {"scale": [low, high]}
        settings = replace(settings, **same_labels)
    return settings, drawn, shown


def _answer(readings: pd.DataFrame, row: Mapping[str, Any]) -> str:
    """The judge's free answer to a text; empty where it gave probabilities."""
    same = readings["example_id"] == row["example_id"]
    for name in ("dimension", "range_min", "range_max", "attack", "defense"):
        same &= readings[name] == row[name]
    answers = readings[same]["text"].dropna()
    return str(answers.iloc[0]) if len(answers) else ""


def _people(results: Any, dimension: str, classes: Classes) -> dict[str, str]:
    """example_id -> each rater's label and reason: those of the joined files, else single
    ratings."""
    lines: dict[str, list[str]] = {}
    for file in label_files(results.config["data"].get("labels")):
        for label in read_labels(file, dimension):
            if label.dimension == dimension and not label.second_look and not label.again:
                reason = f": {label.reason}" if label.reason else ""
                line = f"{label.rater}: {label.name or 'unclear'}{reason}"
                lines.setdefault(label.example_id, []).append(line)
    if not lines:
        ratings = results.ratings[results.ratings["dimension"] == dimension]
        for row in ratings.to_dict("records"):
            score = row["score"]
            word = classes.names[int(score)] if classes.names else f"{score:g}"
            lines.setdefault(row["example_id"], []).append(f"{row['rater']}: {word}")
    return {name: "\n".join(of_text) for name, of_text in lines.items()}
