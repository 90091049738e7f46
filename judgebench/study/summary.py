"""The end of a sweep: the best setting on dev in every cell (dimension x range), with its value on
test.


Best is what the sweep looks for: the largest value, or with the direction minimize the smallest;
and on dev, unless the objective names the test split.

Figures show the trials: the metric over two swept numbers, and the Pareto front of two objectives.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullFormatter
from omegaconf import DictConfig, OmegaConf

from judgebench.data.dataset import DEV, TEST
from judgebench.report.figures import style
from judgebench.report.figures.style import save_figures
from judgebench.report.figures.tuning import DASH, HeatMap, heat_map_figure
from judgebench.report.formats import UNKNOWN, three
from judgebench.report.render import WIDTH, Terminal, to_terminal
from judgebench.report.table import Block, Col, Paragraph, View
from judgebench.runtime.errors import UserError
from judgebench.runtime.fields import plain
from judgebench.runtime.files import atomic
from judgebench.runtime.secrets import mask_secrets
from judgebench.runtime.terminal import print_safely
from judgebench.stats.correlation import CORRELATIONS
from judgebench.study.storage import pareto_front
from judgebench.tracking.loggers import check_loggers, log_sweep
from judgebench.types import LABELS, RANGE, ScoreRange

_MOST_VALUES = 12
_MOST_LABELLED = 8
# the last two of Okabe and Ito's palette
_COLORS = "YlGnBu"
_BEST = "#D55E00"
_TRIED = "#56B4E9"

Trial = Mapping[str, Any]
"""number, state, params (key -> value), values, and attributes (`cells` and `run_dir`, see
`study.jobs.outcome`)."""

Points = dict[tuple[float, float], float]
"""(value of the first key, value of the second) -> the metric; NaN where all texts got the same
score, so that there is no correlation: the 0 that stands for it would outshine every negative
one."""


def complete(trials: Sequence[Trial]) -> list[Trial]:
    """The trials that have results, ascending by number. A killed one may have stored its cells
    before it ended: its point runs again."""
    done = [
        trial
        for trial in trials
        if trial["state"] == "complete" and (trial.get("attributes") or {}).get("cells")
    ]
    return sorted(done, key=lambda trial: trial["number"])


def direction_of(objective: int, directions: Sequence[str]) -> str:
    """The direction of the objective at a position."""
    return directions[objective] if objective < len(directions) else "maximize"


def treated(cell: Mapping[str, Any]) -> list[str]:
    """The attack and the defense of a cell's texts, as in "attack dsi"."""
    return [
        f"{axis} {cell[axis]}" for axis in ("attack", "defense") if cell.get(axis, "none") != "none"
    ]


def params_text(params: Mapping[str, Any]) -> str:
    """Swept keys with their values, as a reader knows them."""
    texts = {
        axis_name(key): f"{value:.4g}" if isinstance(value, float) else value
        for key, value in params.items()
    }
    return ", ".join(f"{name} {text}" for name, text in texts.items())


def axis_name(key: str) -> str:
    """A swept key as a reader knows it.

    Example:
        >>> axis_name("decoding.lambda"), axis_name("decoding.temperature"), axis_name("+assistant.layer")
        ('λ', 't', 'layer')
    """
    last = key.lstrip("+").rpartition(".")[2]
    return {"lambda": "λ", "temperature": "t"}.get(last, last)


def heatmaps(trials: Sequence[Trial], directions: Sequence[str] = ()) -> dict[str, Figure]:
    """A figure per objective and dimension, by file name; none unless exactly two numbers are
    swept.

    A grid of few values makes a heat map, on which every cell says its number; else there are
    points. The best is framed."""
    done = complete(trials)
    keys = list(dict.fromkeys(key for trial in done for key in trial["params"]))
    if len(keys) != 2:
        return {}
    for trial in done:
        for key in keys:
            value = trial["params"].get(key)
            if isinstance(value, bool) or not isinstance(value, int | float):
                return {}
    # 1. the values of each objective and dimension, by range and place
    points_of: dict[tuple[int, str, str, str], dict[str, Points]] = {}
    for trial in done:
        params = trial["params"]
        place = float(params[keys[0]]), float(params[keys[1]])
        for cell in trial["attributes"]["cells"]:
            split = cell.get("split", DEV)
            if cell[split] is None:
                continue
            metric = cell["metric"]
            name = cell["objective"], metric, cell["dimension"], split
            by_range = points_of.setdefault(name, {})
            values = by_range.setdefault(str(ScoreRange.of(cell)), {})
            constant = cell.get("constant") and metric in CORRELATIONS
            values.setdefault(place, math.nan if constant else cell[split])
    # 2. a figure each
    several = len({objective for objective, *_ in points_of}) > 1
    names = (axis_name(keys[0]), axis_name(keys[1]))
    figures = {}
    for (objective, metric, dimension, split), points in points_of.items():
        file = f"{split}_{metric}_{style.file_name(dimension)}"
        if several:
            file += f"_{objective + 1}"
        subject = (metric.capitalize(), split, dimension)
        figures[file] = _figure(points, names, subject, direction_of(objective, directions))
    return figures


@style.house_style()
def _figure(
    points: Mapping[str, Points],
    names: tuple[str, str],
    subject: tuple[str, str, str],
    direction: str,
) -> Figure:
    """Range -> its points, as heat maps where few distinct values were tried with each other, which
    is a grid; a sampler draws values of its own for each trial."""
    metric, split, dimension = subject
    grids = {
        name: tuple(sorted({at[axis] for at in part}) for axis in (0, 1))
        for name, part in points.items()
    }
    heat = all(
        max(len(rows), len(columns)) <= _MOST_VALUES
        and 2 * len(points[name]) >= len(rows) * len(columns)
        for name, (rows, columns) in grids.items()
    )
    title = f"{metric} on {split} over {names[0]} and {names[1]}: {dimension}"
    caption = (
        f"{metric} correlation with the humans on the {split} split, for each {names[0]} and "
        f"{names[1]} tried. Colors compare within a range."
    )
    if set(names) == {"λ", "t"}:
        caption += " Points of one λ / t are one decoding."
    if any(math.isnan(value) for part in points.values() for value in part.values()):
        caption += (
            f" {DASH if heat else 'Crosses'}: every text gets the same score, so there is no "
            "correlation."
        )
    framed = f"{'smallest' if direction == 'minimize' else 'best'}, of equals the first"

    def best_of(part: Points) -> list[tuple[float, float]]:
        sign = 1.0 if direction == "minimize" else -1.0
        rated = [at for at, value in part.items() if not math.isnan(value)]
        return [min(rated, key=lambda at: sign * part[at])] if rated else []

    if heat:
        maps = []
        for name, (rows, columns) in grids.items():
            part = {
                (rows.index(at[0]), columns.index(at[1])): value
                for at, value in points[name].items()
            }
            values = np.full((len(rows), len(columns)), np.nan)
            for place, value in part.items():
                values[place] = value
            best = [
                (rows.index(row), columns.index(column)) for row, column in best_of(points[name])
            ]
            undefined = [place for place, value in part.items() if math.isnan(value)]
            maps.append(HeatMap(f"range {name}", rows, columns, values, best, undefined))
        return heat_map_figure(maps, names, title, caption, framed=framed)

    def draw(axis: Axes, name: str) -> None:
        dots = _dots(axis, points[name], best_of(points[name]))
        axis.figure.colorbar(dots, ax=axis, shrink=0.9, pad=0.02).set_label(metric)
        style.label(axis, f"range {name}", x=names[1], grid="both")
        axis.set_ylabel(names[0], rotation=0, ha="right", va="center")

    ring = Line2D(
        [],
        [],
        marker="o",
        linestyle="none",
        markersize=8,
        markerfacecolor="none",
        markeredgecolor=_BEST,
    )
    ring.set_markeredgewidth(2)
    return style.small_multiples(
        list(points), draw, title, caption, [(ring, framed)], height=2.6, share_y=False
    )


def _dots(axis: Axes, points: Points, best: Sequence[tuple[float, float]]) -> Any:
    """Points colored by their value, crosses where there is none, and a ring around the best."""
    y, x = np.array(list(points)).T
    values = np.array(list(points.values()))
    known = ~np.isnan(values)
    dots = axis.scatter(
        x[known],
        y[known],
        c=values[known],
        s=26,
        cmap=_COLORS,
        edgecolors="#9a9a9a",
        linewidths=0.4,
    )
    if not known.all():
        axis.scatter(x[~known], y[~known], s=18, marker="x", color=style.MUTED, linewidths=0.8)
    for row, column in best:
        axis.scatter(column, row, s=90, facecolors="none", edgecolors=_BEST, linewidths=2.0)
    for numbers, scale, along in (
        (x, axis.set_xscale, axis.xaxis),
        (y, axis.set_yscale, axis.yaxis),
    ):
        if numbers.min() > 0 and numbers.max() / numbers.min() > 20:
            scale("log")
            # matplotlib's own labels are powers set as mathematics, which the house style does not
            # read
            along.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            along.set_minor_formatter(NullFormatter())
    return dots


@style.house_style()
def front_figure(trials: Sequence[Trial], directions: Sequence[str]) -> Figure | None:
    """Every trial by its two values, those on the front joined; hollow, the same settings on the
    test split. None unless there are two objectives."""
    done = [trial for trial in complete(trials) if len(trial.get("values") or ()) == 2]
    if not done or len(directions) != 2:
        return None
    values: dict[int, tuple[float, float]] = {}
    for trial in done:
        first, second = trial["values"]
        values[trial["number"]] = float(first), float(second)
    front = [done[i] for i in pareto_front([trial["values"] for trial in done], directions)]
    # but for trials with a cell that has no value there, or was chosen there
    tested: dict[int, list[float]] = {}
    for trial in front:
        cells = trial["attributes"]["cells"]
        if any(cell[TEST] is None or cell["split"] == TEST for cell in cells):
            continue
        means = []
        for objective in (0, 1):
            on_test = [float(cell[TEST]) for cell in cells if cell["objective"] == objective]
            means.append(sum(on_test) / len(on_test))
        tested[trial["number"]] = means
    # 1. the axes: the first cell of each objective says its metric, split, and what was done to the
    # texts
    names = []
    labels = []
    under = ""
    cells = done[0]["attributes"]["cells"]
    for objective, direction in enumerate(directions):
        cell = next(cell for cell in cells if cell["objective"] == objective)
        name = str(cell["metric"]).replace("_", " ").capitalize()
        if cell["metric"] in ("delta", "change"):
            name = "Score change"
        better = "less" if direction == "minimize" else "more"
        names.append(name)
        labels.append(f"{name} on {cell['split']} ({better} is better)")
        if treated(cell):
            under += f"{name}: {', '.join(treated(cell))}. "

    # 2. the points, and lines from those of the front to their values on the test split
    def draw(axis: Axes, _: None) -> None:
        style.label(axis, x=labels[0], y=labels[1], grid="")
        every = zip(*values.values(), strict=True)
        axis.plot(*every, "o", color=_TRIED, markersize=5, alpha=0.8)
        places = sorted(values[trial["number"]] for trial in front)
        best = zip(*places, strict=True)
        axis.plot(
            *best,
            "o-",
            color=_BEST,
            markersize=6,
            linewidth=1.2,
            zorder=3,
        )
        apart: dict[str, Any] = {"xytext": (4, 4), "textcoords": "offset points", "fontsize": 7}
        for trial in front[:_MOST_LABELLED]:
            number = trial["number"]
            axis.annotate(str(number), values[number], **apart)
        dotted: dict[str, Any] = {"color": style.MUTED, "linestyle": (0, (1, 2)), "linewidth": 0.9}
        hollow: dict[str, Any] = {"color": _BEST, "markerfacecolor": "none", "markersize": 6}
        for number, end in tested.items():
            axis.plot(*end, "o", zorder=3, **hollow)
            line = zip(values[number], end, strict=True)
            axis.plot(*map(list, line), **dotted)

    # 3. the words around them
    legend = [(style.Mark(_TRIED, "o"), "a trial")]
    legend.append(
        (Line2D([], [], color=_BEST, marker="o", linewidth=1.2, markersize=6), "on the front")
    )
    if tested:
        hollow = Line2D([], [], color=_BEST, marker="o", markerfacecolor="none", linestyle="none")
        legend.append((hollow, "the same on the test split"))
    settings = "; ".join(
        f"{trial['number']}: {params_text(trial['params'])}" for trial in front[:_MOST_LABELLED]
    )
    caption = (
        f"{len(done)} trials, {len(front)} of them on the front: no other is better in one and at "
        "least as good in the other. It is chosen on what the axes name, so its own values are "
        f"optimistic. {under}{settings}."
    )
    return style.small_multiples(
        [None], draw, f"{names[0]} against {names[1]}", caption, legend, height=3.2
    )


# --- the best settings --------------------------------------------------------------------------


Cell = tuple[Any, ...]
"""Objective, metric, dimension and range of a cell, which identify it."""
Row = dict[str, Any]
"""A trial's record of a cell."""

SUMMARY = "sweep.json"
_CELL = ("objective", "metric", "dimension", *RANGE, LABELS)
_SPLITS = (DEV, TEST)


def summarize(
    trials: Sequence[Trial],
    directions: Sequence[str] = (),
) -> dict[str, Any]:
    """The content of sweep.json: counts of trials and failed ones, the swept keys (`params`), and

    cells: each with its objective (position), metric, dimension, range, split (on which is chosen),
    direction, attack
        and defense; `best`, the trial that is best there, of several the first (null without such a
        split; `constant` where every text has the same score, which is chosen only where no trial
        does better).
    means: for each objective dev and test averaged over its cells: each with its own best setting
    (`chosen_per_cell`),
        and with the one setting that is best on average (`one_setting`).
    """
    done = complete(trials)
    # 1. a row a trial and cell; `cost` is the less the better
    rows_of: dict[Cell, list[Row]] = {}
    for trial in done:
        setting = {"trial": trial["number"], "params": dict(trial["params"])}
        for cell in trial["attributes"]["cells"]:
            split = cell.get("split", DEV)
            direction = direction_of(cell["objective"], directions)
            row = {**cell, **setting, "run_dir": trial["attributes"].get("run_dir"), "split": split}
            row["direction"], row["constant"] = direction, bool(cell.get("constant"))
            row["cost"] = (
                None
                if cell[split] is None
                else cell[split] * (1 if direction == "minimize" else -1)
            )
            rows_of.setdefault(cell_of(cell), []).append(row)
    # 2. of each cell its best trial
    cells: dict[Cell, dict[str, Any]] = {}
    for key, rows in rows_of.items():
        record = {
            name: value for name, value in zip(_CELL, key, strict=True) if name != LABELS or value
        }
        record |= {"split": rows[0]["split"], "direction": rows[0]["direction"], "best": None}
        record |= {axis: rows[0].get(axis, "none") for axis in ("attack", "defense")}
        if rated := [[row] for row in rows if row["cost"] is not None]:
            (row,) = min(rated, key=_rank)
            record["best"] = {name: row[name] for name in ("trial", "params", *_SPLITS, "run_dir")}
            record["best"] |= {"constant": True} if row["constant"] else {}
        cells[key] = record
    means = [
        _means(objective, cells, rows_of) for objective in dict.fromkeys(key[0] for key in cells)
    ]
    return {
        "trials": len(done),
        "failed": sum(
            trial["state"] == "failed" or trial.get("ended") == "failed" for trial in trials
        ),
        "params": list(dict.fromkeys(key for trial in done for key in trial["params"])),
        "cells": list(cells.values()),
        "means": means,
    }


def _means(
    objective: int,
    cells: Mapping[Cell, Mapping[str, Any]],
    rows_of: Mapping[Cell, Sequence[Row]],
) -> dict[str, Any]:
    """Means over the cells of an objective: each with its own best setting, and with one for
    all."""
    keys = [key for key in cells if key[0] == objective]
    bests = [cells[key]["best"] for key in keys]
    mean = {
        "objective": objective,
        "chosen_per_cell": None if None in bests else _split_means(bests),
    }
    mean["one_setting"] = None
    by_trial: dict[int, list[Row]] = {}
    for row in itertools.chain.from_iterable(rows_of[key] for key in keys):
        by_trial.setdefault(row["trial"], []).extend([row] if row["cost"] is not None else [])
    if everywhere := [rows for rows in by_trial.values() if len(rows) == len(keys)]:
        rows = min(everywhere, key=_rank)
        mean["one_setting"] = {name: rows[0][name] for name in ("trial", "params")} | _split_means(
            rows
        )
    return mean


def cell_of(cell: Mapping[str, Any]) -> Cell:
    """A cell's objective, metric, dimension and range, which identify it."""
    return tuple(cell.get(key) for key in _CELL)


def _rank(rows: Sequence[Row]) -> tuple[int, float]:
    """The rank of a trial by its rows of some cells. Where every text has the same score there is
    no correlation, and the 0.0 that stands for it beats nothing: a trial with fewer such cells goes
    first."""
    return sum(row["constant"] for row in rows), sum(row["cost"] for row in rows)


def _split_means(cells: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """Split -> the mean over cells; None where one of them has no value."""
    values = {split: [cell[split] for cell in cells] for split in _SPLITS}
    return {
        split: None if None in numbers else sum(numbers) / len(numbers)
        for split, numbers in values.items()
    }


# --- the summary as people read it --------------------------------------------------------------


def summary_blocks(summary: Mapping[str, Any]) -> list[Block]:
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


def _frame(summary: Mapping[str, Any]) -> pd.DataFrame:
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
                "dimension": cell["dimension"] if several else None,
                "range": str(ScoreRange.of(cell)),
            }
            row["setting"] = f"no {cell['split']} split: nothing is chosen"
            if cell["best"]:
                row["setting"] = params_text(best["params"]) + (
                    " ! constant" if best.get("constant") else ""
                )
            row |= {"dev": best["dev"], "test": best["test"]}
            rows.append(table | row | {"trial": str(best["trial"])})
        for name, key in _MEANS.items():
            if (means := mean.get(key)) is not None:
                row = {
                    "part": "means",
                    "range": name,
                    "setting": params_text(means.get("params", {})),
                }
                row |= {
                    "dev": means["dev"],
                    "test": means["test"],
                    "trial": str(means.get("trial", "")),
                }
                rows.append(table | row)
    return pd.DataFrame(rows)


def _title(cell: Mapping[str, Any], trials: int) -> str:
    which = "smallest" if cell["direction"] == "minimize" else "best"
    where = f" ({'; '.join(treated(cell))})" if treated(cell) else ""
    end = (
        "; chosen on test itself, so the figure is optimistic"
        if cell["split"] == TEST
        else ", and what it is on test"
    )
    return (
        f"{which} {cell['metric'].capitalize().replace('_', ' ')}{where} on {cell['split']} of "
        f"{trials} trials{end}"
    )


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


def finish_sweep(
    config: DictConfig, folder: Path, trials: Sequence[Trial], directions: Sequence[str], group: str
) -> None:
    """Writes, prints and logs the summary of the trials, and prints the folder last; nothing where
    no trial has results (a dry run). The summary's run on W&B joins the jobs' `group`."""
    summary = summarize(trials, directions)
    if not summary["cells"]:
        return
    try:
        with atomic(folder / SUMMARY) as temporary:
            content = {**summary, "all": list(trials)}
            temporary.write_text(
                json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
            )
        figures = heatmaps(trials, directions)
        if (front := front_figure(trials, directions)) is not None:
            figures["front"] = front
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


def jobs_as_trials(jobs: Sequence[Mapping[str, Any]]) -> list[Trial]:
    """Jobs of a plain multirun as trials: their params are the overrides in which they differ.

    Example:
        >>> jobs = [{"number": i, "state": "complete", "overrides": ["a=1", f"x={x}"]} for i, x in enumerate((0.1, 2))]
        >>> [trial["params"] for trial in jobs_as_trials(jobs)]
        [{'x': 0.1}, {'x': 2}]
    """

    def value_of(text: str) -> Any:
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError:
            return text
        return value if isinstance(value, bool | int | float | str) else text

    overrides = [
        dict(override.partition("=")[::2] for override in job["overrides"]) for job in jobs
    ]
    swept = {
        key
        for texts in overrides
        for key in texts
        if any(other.get(key) != texts[key] for other in overrides)
    }
    return [
        {**job, "params": {key: value_of(text) for key, text in texts.items() if key in swept}}
        for job, texts in zip(jobs, overrides, strict=True)
    ]
