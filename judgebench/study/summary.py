"""The end of a sweep: the best setting on dev in every cell (dimension x range), with its value on
test.

Best is what the sweep looks for: the largest value, or with the direction minimize the smallest;
and on dev, unless the objective names the test split.

Figures show the trials: heat maps of the metric over a grid of two numbers.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from matplotlib.figure import Figure
from omegaconf import DictConfig, OmegaConf

from judgebench.data.dataset import DEV, TEST
from judgebench.report.figures import style
from judgebench.report.figures.style import save_figures
from judgebench.report.figures.tuning import DASH, HeatMap, heat_map_figure
from judgebench.report.render import to_terminal
from judgebench.report.table import Block, Col, Paragraph, View
from judgebench.runtime.secrets import mask_secrets
from judgebench.settings.fields import plain
from judgebench.stats.correlation import CORRELATIONS
from judgebench.study.storage import write_json
from judgebench.tracking.loggers import check_loggers, log_sweep
from judgebench.types import Key, Record, Records, Row, Rows, ScoreRange
from judgebench.words.console import WIDTH, Terminal
from judgebench.words.errors import UserError
from judgebench.words.formats import UNKNOWN, three
from judgebench.words.terminal import print_safely

SUMMARY = "sweep.json"

Trial = Row
"""number, state, params (key -> value), values, and attributes (`cells` and `run_dir`, see
`study.jobs.outcome`)."""


Points = dict[tuple[float, float], float]
"""(value of the first key, value of the second) -> the metric; NaN where all texts got the same
score, so that there is no correlation: the 0 that stands for it would outshine every negative
one."""

_SPLITS = (DEV, TEST)
_MOST_VALUES = 12  # of a grid's side, which a heat map shows


def complete(trials: Sequence[Trial]) -> list[Trial]:
    """The trials that have results, ascending by number. A killed one may have stored its cells
    before it ended: its point runs again."""
    done = []
    for trial in trials:
        if trial["state"] == "complete" and (trial.get("attributes") or {}).get("cells"):
            done.append(trial)
    return sorted(done, key=lambda trial: trial["number"])


def cell_rows(trials: Sequence[Trial], directions: Sequence[str] = ()) -> Rows:
    """A row a complete trial and cell: the cell's record, with the trial's number, params and
    run_dir; the direction of its objective; `value`, on the split that chooses (None without such a
    split), and `cost`, the less the better."""
    rows = []
    for trial in complete(trials):
        attributes = trial["attributes"]
        for cell in attributes["cells"]:
            objective = cell["objective"]
            row = {
                "split": DEV,
                "attack": "none",
                "defense": "none",
                "constant": False,
                **cell,
                "trial": trial["number"],
                "params": dict(trial["params"]),
                "run_dir": attributes.get("run_dir"),
                "direction": directions[objective] if objective < len(directions) else "maximize",
            }
            row["value"] = row["cost"] = row[row["split"]]
            if row["cost"] is not None and row["direction"] == "maximize":
                row["cost"] = -row["cost"]
            rows.append(row)
    return rows


def treated(row: Row) -> list[str]:
    """The attack and the defense of a cell's texts, as in "attack dsi"."""
    return [f"{axis} {row[axis]}" for axis in ("attack", "defense") if row[axis] != "none"]


def params_text(params: Row) -> str:
    """Swept keys with their values, as a reader knows them."""
    texts = []
    for key, value in params.items():
        shown = f"{value:.4g}" if isinstance(value, float) else value
        texts.append(f"{axis_name(key)} {shown}")
    return ", ".join(texts)


def axis_name(key: str) -> str:
    """A swept key as a reader knows it.

    Example:
        >>> axis_name("decoding.lambda"), axis_name("decoding.temperature"), axis_name("+assistant.layer")
        ('λ', 't', 'layer')
    """
    last = key.lstrip("+").rpartition(".")[2]
    return {"lambda": "λ", "temperature": "t"}.get(last, last)


# --- figures ------------------------------------------------------------------------------------


def heatmaps(trials: Sequence[Trial], directions: Sequence[str] = ()) -> dict[str, Figure]:
    """A heat map per objective and dimension, by file name, with a panel a range, on which every
    cell says its number and the best is framed; none unless exactly two numbers are swept, over a
    grid of few values: a sampler draws values of its own for each trial."""
    rows = cell_rows(trials, directions)
    keys = list(dict.fromkeys(key for row in rows for key in row["params"]))
    if len(keys) != 2:
        return {}
    # 1. the values of each objective and dimension, by range and place
    points_of: dict[Key, dict[str, Points]] = {}
    for row in rows:
        place = tuple(row["params"].get(key) for key in keys)
        if any(isinstance(at, bool) or not isinstance(at, int | float) for at in place):
            return {}
        if row["value"] is None:
            continue
        names = ("objective", "metric", "dimension", "split", "direction")
        by_range = points_of.setdefault(tuple(row[name] for name in names), {})
        points = by_range.setdefault(str(ScoreRange.of(row)), {})
        constant = row["constant"] and row["metric"] in CORRELATIONS
        points.setdefault(place, math.nan if constant else row["value"])
    # 2. a figure each
    several = len({objective for objective, *_ in points_of}) > 1
    figures = {}
    for (objective, metric, dimension, split, direction), ranged in points_of.items():
        maps = []
        grids = []  # few distinct values that were tried with each other
        for score_range, points in ranged.items():
            heat = _heat_map(f"range {score_range}", points, direction)
            maps.append(heat)
            few = max(heat.values.shape) <= _MOST_VALUES
            grids.append(few and 2 * len(points) >= heat.values.size)
        if not all(grids):
            continue
        file = f"{split}_{metric}_{style.file_name(dimension)}"
        if several:
            file += f"_{objective + 1}"
        axes = axis_name(keys[0]), axis_name(keys[1])
        metric = metric.capitalize()
        title = f"{metric} on {split} over {axes[0]} and {axes[1]}: {dimension}"
        caption = (
            f"{metric} correlation with the humans on the {split} split, for each {axes[0]} and "
            f"{axes[1]} tried. Colors compare within a range."
        )
        if set(axes) == {"λ", "t"}:
            caption += " Points of one λ / t are one decoding."
        if any(panel.undefined for panel in maps):
            caption += f" {DASH}: every text gets the same score, so there is no correlation."
        framed = f"{'smallest' if direction == 'minimize' else 'best'}, of equals the first"
        figures[file] = heat_map_figure(maps, axes, title, caption, framed)
    return figures


def _heat_map(title: str, points: Points, direction: str) -> HeatMap:
    rows = sorted({row for row, _ in points})
    columns = sorted({column for _, column in points})
    place = {at: (rows.index(at[0]), columns.index(at[1])) for at in points}
    values = np.full((len(rows), len(columns)), np.nan)
    for at, value in points.items():
        values[place[at]] = value
    known = [at for at in points if not math.isnan(points[at])]
    sign = 1.0 if direction == "minimize" else -1.0
    best = sorted(known, key=lambda at: sign * points[at])[:1]
    undefined = [place[at] for at in points if at not in known]
    return HeatMap(title, rows, columns, values, [place[at] for at in best], undefined)


# --- the best settings --------------------------------------------------------------------------


def summarize(trials: Sequence[Trial], directions: Sequence[str] = ()) -> Record:
    """The content of sweep.json: counts of trials and failed ones, the swept keys (`params`), and

    cells: each with its objective (position), metric, dimension, range, split (on which is chosen),
        direction, attack and defense; `best`, the trial that is best there, of several the first
        (null without such a split; `constant` where every text has the same score, which is chosen
        only where no trial does better).
    means: for each objective dev and test averaged over its cells: each with its own best setting
        (`chosen_per_cell`), and with the one setting that is best on average (`one_setting`).
    """
    rows = cell_rows(trials, directions)
    rows_of = defaultdict(list)
    for row in rows:
        rows_of[row["objective"], row["metric"], row["dimension"], ScoreRange.of(row)].append(row)
    # 1. of each cell its best trial
    cells = []
    for (objective, metric, dimension, score_range), of_cell in rows_of.items():
        first = of_cell[0]
        record = {
            "objective": objective,
            "metric": metric,
            "dimension": dimension,
            **score_range.columns,
            "split": first["split"],
            "direction": first["direction"],
            "best": None,
            "attack": first["attack"],
            "defense": first["defense"],
        }
        best = _best([[row] for row in of_cell])
        if best:
            (chosen,) = best
            record["best"] = {
                name: chosen[name] for name in ("trial", "params", *_SPLITS, "run_dir")
            }
            record["best"] |= {"constant": True} if chosen["constant"] else {}
        cells.append(record)
    # 2. of each objective the means over its cells
    means = []
    for objective in dict.fromkeys(cell["objective"] for cell in cells):
        bests = [cell["best"] for cell in cells if cell["objective"] == objective]
        mean = {"objective": objective, "chosen_per_cell": None, "one_setting": None}
        if None not in bests:
            mean["chosen_per_cell"] = {split: _mean(bests, split) for split in _SPLITS}
        by_trial = defaultdict(list)
        for row in rows:
            if row["objective"] == objective:
                by_trial[row["trial"]].append(row)
        everywhere = [of_trial for of_trial in by_trial.values() if len(of_trial) == len(bests)]
        one = _best(everywhere)
        if one:
            mean["one_setting"] = {name: one[0][name] for name in ("trial", "params")}
            mean["one_setting"] |= {split: _mean(one, split) for split in _SPLITS}
        means.append(mean)
    failed = [trial for trial in trials if "failed" in (trial["state"], trial.get("ended"))]
    return {
        "trials": len(complete(trials)),
        "failed": len(failed),
        "params": list(dict.fromkeys(key for row in rows for key in row["params"])),
        "cells": cells,
        "means": means,
    }


def _best(trials: Sequence[Sequence[Row]]) -> Sequence[Row]:
    """The rows of the best of several trials, of equals the first; none where no trial has values
    in all of its rows. Where every text has the same score there is no correlation, and the 0.0
    that stands for it beats nothing: a trial with fewer such cells goes first."""
    known = []
    for rows in trials:
        if all(row["cost"] is not None for row in rows):
            known.append(rows)

    def rank(rows: Sequence[Row]) -> tuple[int, float]:
        return sum(row["constant"] for row in rows), sum(row["cost"] for row in rows)

    return min(known, key=rank, default=())


def _mean(rows: Records, split: str) -> float | None:
    """The mean of some rows on a split; None where one has no value."""
    values = [row[split] for row in rows]
    return None if None in values else sum(values) / len(values)


# --- the summary as people read it --------------------------------------------------------------


def summary_blocks(summary: Row) -> list[Block]:
    """Lines on what was tried, found and is to do; a table an objective, and how many trials
    failed."""
    count = summary["failed"]
    lines = [f"tried: {summary['trials']} settings of {', '.join(summary['params'])}"]
    for mean in summary["means"]:
        objective = mean["objective"]
        cells = [cell for cell in summary["cells"] if cell["objective"] == objective]
        cells = [cell for cell in cells if cell["best"]]
        best = mean.get("one_setting")
        if not best and cells:
            best = cells[0]["best"]
        if not best:
            continue
        where = f"on the articles that chose, {three(best['test'])} on test"
        settings = params_text(best.get("params", {}))
        lines.append(f"found: {cells[0]['metric']} {three(best['dev'])} {where}")
        lines.append(f"do: take {settings}; expect the latter figure")
    if count:
        lines.append(f"{count} trials failed; study.json says why.")
    return [*map(Paragraph, lines), *_SWEEP.tables(summary)]


_MEANS = {
    "mean, chosen per cell": "chosen_per_cell",
    "mean, one setting": "one_setting",
}


def _frame(summary: Row) -> pd.DataFrame:
    """A row a cell, and below them the means over an objective's cells."""
    several = len({cell["dimension"] for cell in summary["cells"]}) > 1
    rows = []
    for mean in summary["means"]:
        cells = [cell for cell in summary["cells"] if cell["objective"] == mean["objective"]]
        table = {"objective": mean["objective"], "title": _title(cells[0], summary["trials"])}
        for cell in cells:
            best = cell["best"] or {"dev": None, "test": None, "trial": UNKNOWN}
            row = {
                "part": "cells",
                "range": str(ScoreRange.of(cell)),
                "dimension": cell["dimension"] if several else None,
                "dev": best["dev"],
                "test": best["test"],
                "trial": str(best["trial"]),
                "setting": f"no {cell['split']} split: nothing is chosen",
            }
            if cell["best"]:
                row["setting"] = params_text(best["params"])
            if best.get("constant"):
                row["setting"] += " ! constant"
            rows.append(table | row)
        for name, key in _MEANS.items():
            means = mean.get(key)
            if means is not None:
                rows.append(
                    {
                        **table,
                        "part": "means",
                        "range": name,
                        "trial": str(means.get("trial", "")),
                        "dev": means["dev"],
                        "test": means["test"],
                        "setting": params_text(means.get("params", {})),
                    }
                )
    return pd.DataFrame(rows)


def _title(cell: Row, trials: int) -> str:
    which = "smallest" if cell["direction"] == "minimize" else "best"
    metric = cell["metric"].capitalize().replace("_", " ")
    where = f" ({'; '.join(treated(cell))})" if treated(cell) else ""
    end = ", and what it is on test"
    if cell["split"] == TEST:
        end = "; chosen on test itself, so the figure is optimistic"
    return f"{which} {metric}{where} on {cell['split']} of {trials} trials{end}"


_SWEEP = View(
    "sweep",
    "",
    _frame,
    columns=(
        Col("dimension", "dimension", left=True, optional=True),
        Col("range", "range", left=True),
        Col("setting", "setting", left=True),
        Col("dev", "dev", three),
        Col("test", "test", three),
        Col("trial", "trial"),
    ),
    by=("objective",),
    title="{title}",
    sections=("part",),
)


# --- the end of a sweep -------------------------------------------------------------------------


def finish_sweep(config: DictConfig, folder: Path, study: Row, group: str) -> None:
    """Writes, prints and logs the summary of a study's trials, and prints the folder last; nothing
    where no trial has results (a dry run). The summary's run on W&B joins the jobs' `group`.

    Args:
        study: trials and directions, as in study.json; the trials alone of other sweepers.
    """
    trials = study["trials"]
    directions = study.get("directions", ())
    summary = summarize(trials, directions)
    if not summary["cells"]:
        return
    try:
        write_json(folder / SUMMARY, {**summary, "all": list(trials)})
        figures = heatmaps(trials, directions)
        save_figures(figures, folder / "figures")
        if config.get("logger"):
            names = [
                key for key in config if key != "hydra" and not OmegaConf.is_missing(config, key)
            ]
            whole = OmegaConf.create({key: config[key] for key in names})
            whole.run_dir = str(folder)  # where loggers write
            if "group" in whole.logger:
                group = whole.logger.group or group
                whole.logger.update({"name": f"{group} summary", "group": group})
            log_sweep(check_loggers(whole.logger), mask_secrets(plain(whole)), summary, figures)
    except (OSError, UserError) as error:
        print_safely(
            f"judgebench: the summary of the sweep in {folder} is not whole: {error}", error=True
        )
    if config.get("print") != "none":
        Terminal(width=max(WIDTH, Terminal().width)).print(to_terminal(summary_blocks(summary)))
    print_safely(folder)


def jobs_as_trials(jobs: Records) -> list[Trial]:
    """Jobs of a plain multirun as trials: their params are the overrides in which they differ.

    Example:
        >>> jobs = [{"number": i, "state": "complete", "overrides": ["a=1", f"x={x}"]} for i, x in enumerate((0.1, 2))]
        >>> [trial["params"] for trial in jobs_as_trials(jobs)]
        [{'x': 0.1}, {'x': 2}]
    """
    overrides = [set(job["overrides"]) for job in jobs]
    in_all = set.intersection(*overrides) if overrides else set()
    trials: list[Trial] = []
    for job in jobs:
        params = {}
        for override in job["overrides"]:
            if override not in in_all:
                key, _, text = override.partition("=")
                params[key] = _scalar(text)
        trials.append({**job, "params": params})
    return trials


def _scalar(text: str) -> Any:
    """The number or the text of an override."""
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    return value if isinstance(value, bool | int | float | str) else text
