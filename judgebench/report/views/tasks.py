"""Several data sets in one table: human ceiling, correlation and favorite score by task, range and decoding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from judgebench.report.formats import is_known, one, short, three, whole
from judgebench.report.table import Col, View, records
from judgebench.report.views.bias import favorite_text
from judgebench.report.views.humans import HUMANS_NOTE, ceiling_row
from judgebench.results.results import Results
from judgebench.results.series import labelled, range_of, ranges_of

Runs = Mapping[str, Results]
"""Runs by the letters that a page calls them by."""

_KEPT = (
    *("split", "level", "dimension", "attack", "defense", "condition", "n", "groups", "range", "judge", "decoding"),
    *("lambda", "temperature", "series", "setting", "modal_score", "modal_share", "failed_share", "flags"),
    *(f"{name}{end}" for name in ("spearman", "spearman_others", "humans_difference") for end in ("", "_low", "_high")),
)
_HUMANS = ("raters", "ratings_per_text", "ceiling", "ceiling_low", "ceiling_high", "alpha")


def tasks_frame(runs: Runs) -> pd.DataFrame:
    """A row a run, dimension, range, judge and decoding, of clean texts of the reported split; without assistants.

    Besides what metrics.json and humans.json hold: `run`, its letter; `task`, its data set; `main`, its judge;
    `favorite` as text; `seconds` that reading all prompts of this dimension and range took when they were read (None
    where nothing is known of that); `no_ceiling`, why there is none.
    """
    rows: list[dict[str, Any]] = []
    for letter, run in runs.items():
        known, seconds = {one["dimension"]: one for one in run.humans if one["split"] == run.split}, _seconds(run)
        frame = labelled(one for one in run.clean if (one["split"], one["level"]) == (run.split, run.level))
        for _, part in frame.groupby(["dimension", "attack", "defense"], sort=False) if len(frame) else ():
            for row in records(part[part["judge"] != "assistant"]):
                humans = known.get(row["dimension"]) or {"reason": "Single ratings are not known."}
                own = {"run": letter, "task": run.dataset, "main": run.titles.get("main")}
                own |= {name: row.get(name) for name in _KEPT} | {name: humans.get(name) for name in _HUMANS}
                own["no_ceiling"] = None if is_known(own["ceiling"]) else humans["reason"]
                own |= range_of(row).columns
                rows.append(
                    own | {"favorite": favorite_text(row), "seconds": seconds.get((row["dimension"], row["range"]))}
                )
    return pd.DataFrame(rows)


def _seconds(run: Results) -> dict[tuple[str, str], float]:
    """Dimension and range -> seconds of reading; without those of answers that were given elsewhere."""
    if not len(run.readings) or not run.readings["seconds"].gt(0).any():
        return {}
    return {
        (str(dimension), str(score_range)): float(rows["seconds"].sum())
        for dimension, part in run.readings.groupby("dimension", sort=False)
        for score_range, rows in ranges_of(part)
    }


def _shown(runs: Runs) -> pd.DataFrame:
    """The rows of `tasks_frame`, and below those of a task and dimension a row of its humans."""
    frame = tasks_frame(runs)
    if not len(frame):
        return frame
    several = frame.groupby("task")["run"].nunique().max() > 1
    frame["who"] = (frame["run"] + ": " if several else "") + frame["series"]
    frame["head"] = frame["task"] + ", " + frame["condition"]
    parts = []
    for _, part in frame.groupby(["run", "condition"], sort=False):
        first = records(part.head(1))[0]
        same = {name: first[name] for name in ("task", "run", "condition", "head", "n")}
        row = ceiling_row(first, **same, who="")
        if is_known(first["ceiling"]):
            row["who"] = f"one of {first['raters']:g}, with the others"
        else:
            row |= {"who": "no ceiling", "setting": first["no_ceiling"].removeprefix("No human ceiling: ")}
        parts += [part, pd.DataFrame([row])]
    return pd.concat(parts, ignore_index=True)


TASKS_TABLE = View(
    "tasks",
    "Tasks",
    _shown,
    (
        Col("range", "range", left=True, width=20),
        Col("judge, decoding", "who", detail="setting", flags="flags", left=True, width=22),
        Col("Spearman", "spearman", three, short,
            says="with the mean of all humans over all texts of the test split (the first, where there is none)"),
        Col("beside humans", "spearman_others", three, short, page=True, optional=True),
        Col("favorite", "favorite", left=True, says="the score given most often, and its share"),
        Col("texts", "n", whole),
        Col("seconds", "seconds", one, optional=True,
            says="of reading the prompts of this range, when they were read"),
    ),
    sections=["run", "condition"],
    section="{head}",
    once=["range", "seconds"],
    note=lambda _, rows: HUMANS_NOTE + (
        " Tasks differ in texts, scales and raters: no difference between tasks is tested."
        if rows["task"].nunique() > 1 else ""
    ),
    brackets="{groups} resampled",
)  # fmt: skip
"""Every task with its ranges and decodings."""
