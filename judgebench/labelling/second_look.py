"""Texts of a run on which judge and people differ most, for a second look at both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from judgebench.data.labels import label_files, read_labels
from judgebench.labelling.draw import Drawn
from judgebench.labelling.page import PageSettings
from judgebench.types import RANGE, Example, ScoreRange
from judgebench.words.errors import UserError

Shown = Mapping[str, list[tuple[str, str]]]
"""example_id -> titles and texts that stand below the text."""

_SETTING = ["dimension", "judge", "decoding", *RANGE]


def disagreements_of(run: Path, settings: PageSettings) -> tuple[PageSettings, Drawn, Shown]:
    """The texts of a run on which the setting that it takes and people differ most, as parts of
    their scales, the most first; `UserError` where it keeps none."""
    from judgebench.results.results import Results  # it needs pandas and pyarrow

    # 1. the scores beside people's
    results = Results.load(run)
    rows = results.scores.query("attack == 'none' and defense == 'none' and human == human")
    if results.examples is None or not len(rows):
        raise UserError(f"{run}: this run keeps no rated texts; run it with examples=true.")
    advised = next((record for record in results.choice if record["taken"]), rows.iloc[0])
    rows = rows[(rows[_SETTING] == [advised[name] for name in _SETTING]).all(axis=1)]
    dimension = str(advised["dimension"])
    low, high = results.about["scale"][dimension]
    of_people = (rows["human"] - low) / (high - low)
    of_judge = (rows["score"] - rows["range_min"]) / (rows["range_max"] - rows["range_min"])
    gaps = (of_judge - of_people).abs().sort_values(ascending=False, kind="stable")
    rows = rows.loc[gaps.index[: settings.disagreements]]
    # 2. what both have said
    answers = results.readings.dropna(subset="text").groupby("example_id")["text"].first()
    people: dict[str, str] = {}
    for file in label_files(results.config["data"].get("labels")):
        for label in read_labels(file, dimension):
            line = f"{label.rater}: {label.name}. {label.row.value('reason') or ''}\n"
            people[label.example_id] = people.get(label.example_id, "") + line
    # 3. the texts
    texts = results.examples.set_index("example_id")
    examples = []
    shown: dict[str, list[tuple[str, str]]] = {}
    for row in rows.to_dict("records"):
        name = row["example_id"]
        text = texts.loc[name]
        names = (name, row["group_id"], row["system_id"])
        asked = text.get("question") or ""  # which runs of earlier versions have not kept
        examples.append(
            Example(*names, text["source"], text["output"], {}, text["context"], question=asked)
        )
        score_range = ScoreRange.of(row)
        score = score_range.mirrored(row["score"])
        said = f"{score:.4g}, in range {score_range}"
        mean = results.as_rated(dimension, row["human"])
        shown[name] = [
            ("The judge", f"{said}\n{answers.get(name, '')}"),
            ("People", people.get(name) or f"mean {mean:g}"),
        ]
    # 4. labels as people gave them
    if settings.scale is None and settings.classes is None:
        classes = (results.about.get("classes") or {}).get(dimension)
        ends = [results.as_rated(dimension, end) for end in (low, high)]
        labels = {"classes": classes["names"]} if classes else {"scale": ends}
        settings = replace(settings, **labels)
    drawn = Drawn(examples, dict.fromkeys(shown, 1.0), 0, 0)
    return replace(settings, dimension=dimension), drawn, shown
