"""The selected lambda and t of each range, and how far the search can be trusted; and several data
sets in one table: human ceiling, correlation and favorite score by task, range and decoding.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from judgebench.report.table import Col, View, labelled_rows, records, rows_by
from judgebench.report.views.bias import favorite_text
from judgebench.report.views.humans import HUMANS_NOTE, ceiling_row, human_figures
from judgebench.results.results import Results, range_of, ranges_of
from judgebench.types import Records, Rows
from judgebench.words.formats import general, is_known, one, say, short, three, whole

HOW: Mapping[str, str] = {
    "dev": "the best point of the grid by Spearman on the dev split, for each range",
    "shared": "one point of the grid for all ranges, the best by mean Spearman on the dev split",
    "published": "what the contrastive-decoding paper prints",
}
"""The rule by which each `tune` selects."""


def tuning_blocks(tuning: Records | None) -> list[Rows]:
    """The records of tuning.json by dimension and decoding, in order of appearance, ranges
    ascending."""
    blocks = rows_by(map(dict, tuning or ()), ["dimension", "decoding"])
    return [sorted(rows, key=lambda row: range_of(row).order) for rows in blocks]


def how_selected(rows: Records) -> str:
    """The rule by which a tuned decoding's lambda and t were selected, in words."""
    return HOW.get(rows[0]["tune"], str(rows[0]["tune"]))


def _tuned(results: Results) -> Rows:
    rows = [record for block in tuning_blocks(results.tuning) for record in block]
    for row in rows:
        row |= {"how": how_selected([row]), "range": str(range_of(row))}
        row["flags"] = [name for name in ("edge", "constant") if row[name]]
    return rows


def _note(results: Results, rows: Rows) -> str:
    subjects = dict[str, str]()
    blocks = tuning_blocks(results.tuning)
    for block in blocks:
        about = f"{block[0]['dimension']}, {block[0]['decoding']}: " if len(blocks) > 1 else ""
        for part in ("shared", "grid"):  # what is true of several stands once
            subjects.setdefault(say("tuned", part=part, rows=block), about)
    return " ".join(f"{about}{text}" for text, about in subjects.items() if text)


TUNING = View(
    "tuning",
    "Tuning",
    _tuned,
    (
        Col("range", left=True),
        Col("selected", "λ {lambda:.4g}, t {temperature:.4g}", flags="flags", left=True),
        Col("κ = λ / t", "kappa", general, says="scores by argmax depend on it alone"),
        Col("dev", form=three, says="Spearman on this split"),
        Col("test", form=three),
    ),
    by=["dimension", "decoding"],
    title="{dimension}: {decoding}",
    size="{how}",
    note=_note,
)


# --- several data sets --------------------------------------------------------------------------


Runs = Mapping[str, Results]
"""Runs by the letters that a page calls them by."""

_KEPT = (
    "split",
    "level",
    "dimension",
    "attack",
    "defense",
    "condition",
    "n",
    "groups",
    "range",
    "judge",
    "decoding",
    "lambda",
    "temperature",
    "series",
    "setting",
    "modal_score",
    "modal_share",
    "failed_share",
    "flags",
    *(
        f"{name}{end}"
        for name in ("spearman", "spearman_others", "humans_difference")
        for end in ("", "_low", "_high")
    ),
)
_HUMANS = ("raters", "ratings_per_text", "ceiling", "ceiling_low", "ceiling_high", "alpha")


def tasks_frame(runs: Runs) -> pd.DataFrame:
    """A row a run, dimension, range, judge and decoding, of clean texts of the reported split;
    without assistants.

    Besides what metrics.json and humans.json hold: `run`, its letter; `task`, its data set; `main`,
    its judge; `favorite` as text; `seconds` that reading all prompts of this dimension and range
    took when they were read (None where nothing is known of that); `no_ceiling`, why there is none.
    """
    rows = []
    for letter, run in runs.items():
        seconds = _seconds(run)
        place = {"split": run.split, "level": run.level}
        for row in labelled_rows(record for record in run.clean if place.items() <= record.items()):
            if row["judge"] == "assistant":
                continue
            human = human_figures(run).get(row["dimension"])
            human = human or {"reason": "Single ratings are not known."}
            task = {
                "run": letter,
                "task": run.dataset,
                "main": run.titles.get("main"),
                **{name: row.get(name) for name in _KEPT},
                **{name: human.get(name) for name in _HUMANS},
            }
            task |= {
                "no_ceiling": None if is_known(task["ceiling"]) else human["reason"],
                **range_of(row).columns,
                "favorite": favorite_text(row),
                "seconds": seconds.get((row["dimension"], row["range"])),
            }
            rows.append(task)
    return pd.DataFrame(rows)


def _seconds(run: Results) -> dict[tuple[str, str], float]:
    """Dimension and range -> the seconds of reading its prompts; nothing of answers that were given
    elsewhere."""
    seconds: dict[tuple[str, str], float] = {}
    if run.readings["seconds"].gt(0).any():
        for dimension, part in run.readings.groupby("dimension", sort=False):
            for score_range, rows in ranges_of(part):
                seconds[str(dimension), str(score_range)] = float(rows["seconds"].sum())
    return seconds


def _rows(runs: Runs) -> Rows:
    """The rows of `tasks_frame`, and below those of a task and dimension a row of its humans."""
    rows = records(tasks_frame(runs))
    several = len({row["run"] for row in rows}) > len({row["task"] for row in rows})
    table = []
    for part in rows_by(rows, ["run", "condition"]):
        first = part[0]
        head = f"{first['task']}, {first['condition']}"
        for row in part:
            name = f"{row['run']}: {row['series']}" if several else row["series"]
            table.append(row | {"head": head, "who": name})
        same = {name: first[name] for name in ("task", "run", "condition", "n")}
        row = ceiling_row(first, **same, head=head, seconds=None)
        row["who"] = "no ceiling"
        if is_known(first["ceiling"]):
            row["who"] = f"one of {first['raters']:g}, with the others"
        row["setting"] = (first["no_ceiling"] or "").removeprefix("No human ceiling: ")
        table.append(row)
    return table


TASKS_TABLE = View(
    "tasks",
    "Tasks",
    _rows,
    (
        Col("range", left=True, width=20),
        Col("judge, decoding", "who", detail="setting", flags="flags", left=True, width=22),
        Col(
            "Spearman",
            "spearman",
            three,
            short,
            says="with the mean of all humans over all texts of the test split (the first, where "
            "there is none)",
        ),
        Col("beside humans", "spearman_others", three, short, page=True, optional=True),
        Col("favorite", left=True, says="the score given most often, and its share"),
        Col("texts", "n", whole),
        Col(
            "seconds",
            form=one,
            optional=True,
            says="of reading the prompts of this range, when they were read",
        ),
    ),
    sections=["run", "condition"],
    section="{head}",
    once=["range", "seconds"],
    note=lambda _, rows: say("tasks", tasks={row["task"] for row in rows}, humans=HUMANS_NOTE),
    brackets="{groups} resampled",
)
