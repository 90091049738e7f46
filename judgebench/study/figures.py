"""Figures of a sweep's trials: the metric over two swept numbers, and the Pareto front of two objectives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullFormatter

from judgebench.data.dataset import DEV, TEST
from judgebench.report.figures import style
from judgebench.report.figures.tuning import DASH, HeatMap, heat_map_figure
from judgebench.stats.correlation import CORRELATIONS
from judgebench.study.storage import pareto_front
from judgebench.types import ScoreRange

_MOST_VALUES, _MOST_LABELLED = 12, 8
_COLORS, _BEST, _TRIED = "YlGnBu", "#D55E00", "#56B4E9"  # the last two of Okabe and Ito's palette

Trial = Mapping[str, Any]
"""number, state, params (key -> value), values, and attributes (`cells` and `run_dir`, see `study.jobs.outcome`)."""

Points = dict[tuple[float, float], float]
"""(value of the first key, value of the second) -> the metric; NaN where all texts got the same score, so that there is
no correlation: the 0 that stands for it would outshine every negative one."""


def complete(trials: Sequence[Trial]) -> list[Trial]:
    """The trials that have results, ascending by number. A killed one may have stored its cells before it ended: its
    point runs again."""
    done = [trial for trial in trials if trial["state"] == "complete" and (trial.get("attributes") or {}).get("cells")]
    return sorted(done, key=lambda trial: trial["number"])


def direction_of(objective: int, directions: Sequence[str]) -> str:
    """The direction of the objective at a position."""
    return directions[objective] if objective < len(directions) else "maximize"


def treated(cell: Mapping[str, Any]) -> list[str]:
    """The attack and the defense of a cell's texts, as in "attack dsi"."""
    return [f"{axis} {cell[axis]}" for axis in ("attack", "defense") if cell.get(axis, "none") != "none"]


def params_text(params: Mapping[str, Any]) -> str:
    """Swept keys with their values, as a reader knows them."""
    texts = {axis_name(key): f"{value:.4g}" if isinstance(value, float) else value for key, value in params.items()}
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
    """A figure per objective and dimension, by file name; none unless exactly two numbers are swept.

    A grid of few values makes a heat map, on which every cell says its number; else there are points. The best is
    framed."""
    done = complete(trials)
    keys = list(dict.fromkeys(key for trial in done for key in trial["params"]))
    swept = [trial["params"].get(key) for trial in done for key in keys]
    if len(keys) != 2 or not all(isinstance(value, int | float) and not isinstance(value, bool) for value in swept):
        return {}
    points_of: dict[tuple[int, str, str, str], dict[str, Points]] = {}
    for trial in done:
        at = (float(trial["params"][keys[0]]), float(trial["params"][keys[1]]))
        for cell in trial["attributes"]["cells"]:
            split = cell.get("split", DEV)
            if cell[split] is not None:
                name = (cell["objective"], cell["metric"], cell["dimension"], split)
                constant = cell.get("constant") and cell["metric"] in CORRELATIONS
                value = math.nan if constant else cell[split]
                points_of.setdefault(name, {}).setdefault(str(ScoreRange.of(cell)), {}).setdefault(at, value)
    several = len({objective for objective, *_ in points_of}) > 1
    names = (axis_name(keys[0]), axis_name(keys[1]))
    figures = {}
    for (objective, metric, dimension, split), points in points_of.items():
        file = f"{split}_{metric}_{style.file_name(dimension)}{f'_{objective + 1}' if several else ''}"
        subject = (metric.capitalize(), split, dimension)
        figures[file] = _figure(points, names, subject, direction_of(objective, directions))
    return figures


@style.house_style()
def _figure(
    points: Mapping[str, Points], names: tuple[str, str], subject: tuple[str, str, str], direction: str
) -> Figure:
    """Range -> its points, as heat maps where few distinct values were tried with each other, which is a grid; a
    sampler draws values of its own for each trial."""
    metric, split, dimension = subject
    grids = {name: tuple(sorted({at[axis] for at in part}) for axis in (0, 1)) for name, part in points.items()}
    heat = all(
        max(len(rows), len(columns)) <= _MOST_VALUES and 2 * len(points[name]) >= len(rows) * len(columns)
        for name, (rows, columns) in grids.items()
    )
    title = f"{metric} on {split} over {names[0]} and {names[1]}: {dimension}"
    caption = (
        f"{metric} correlation with the humans on the {split} split, for each {names[0]} and {names[1]} tried. "
        "Colors compare within a range."
    )
    if set(names) == {"λ", "t"}:
        caption += " Points of one λ / t are one decoding."
    if any(math.isnan(value) for part in points.values() for value in part.values()):
        caption += f" {DASH if heat else 'Crosses'}: every text gets the same score, so there is no correlation."
    framed = f"{'smallest' if direction == 'minimize' else 'best'}, of equals the first"

    def best_of(part: Points) -> list[tuple[float, float]]:
        sign = 1.0 if direction == "minimize" else -1.0
        rated = [at for at, value in part.items() if not math.isnan(value)]
        return [min(rated, key=lambda at: sign * part[at])] if rated else []

    if heat:
        maps = []
        for name, (rows, columns) in grids.items():
            part = {(rows.index(at[0]), columns.index(at[1])): value for at, value in points[name].items()}
            values = np.full((len(rows), len(columns)), np.nan)
            for place, value in part.items():
                values[place] = value
            best = [(rows.index(row), columns.index(column)) for row, column in best_of(points[name])]
            undefined = [place for place, value in part.items() if math.isnan(value)]
            maps.append(HeatMap(f"range {name}", rows, columns, values, best, undefined))
        return heat_map_figure(maps, names, title, caption, framed=framed)

    def draw(axis: Axes, name: str) -> None:
        dots = _dots(axis, points[name], best_of(points[name]))
        axis.figure.colorbar(dots, ax=axis, shrink=0.9, pad=0.02).set_label(metric)
        style.label(axis, f"range {name}", x=names[1], grid="both")
        axis.set_ylabel(names[0], rotation=0, ha="right", va="center")

    ring = Line2D([], [], marker="o", linestyle="none", markersize=8, markerfacecolor="none", markeredgecolor=_BEST)
    ring.set_markeredgewidth(2)
    return style.small_multiples(list(points), draw, title, caption, [(ring, framed)], height=2.6, share_y=False)


def _dots(axis: Axes, points: Points, best: Sequence[tuple[float, float]]) -> Any:
    """Points colored by their value, crosses where there is none, and a ring around the best."""
    y, x = np.array(list(points)).T
    values = np.array(list(points.values()))
    known = ~np.isnan(values)
    dots = axis.scatter(x[known], y[known], c=values[known], s=26, cmap=_COLORS, edgecolors="#9a9a9a", linewidths=0.4)
    if not known.all():
        axis.scatter(x[~known], y[~known], s=18, marker="x", color=style.MUTED, linewidths=0.8)
    for row, column in best:
        axis.scatter(column, row, s=90, facecolors="none", edgecolors=_BEST, linewidths=2.0)
    for numbers, scale, along in ((x, axis.set_xscale, axis.xaxis), (y, axis.set_yscale, axis.yaxis)):
        if numbers.min() > 0 and numbers.max() / numbers.min() > 20:
            scale("log")
            # matplotlib's own labels are powers set as mathematics, which the house style does not read
            along.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            along.set_minor_formatter(NullFormatter())
    return dots


@style.house_style()
def front_figure(trials: Sequence[Trial], directions: Sequence[str]) -> Figure | None:
    """Every trial by its two values, those on the front joined; hollow, the same settings on the test split. None
    unless there are two objectives."""
    done = [trial for trial in complete(trials) if len(trial.get("values") or ()) == 2]
    if not done or len(directions) != 2:
        return None
    front = [done[i] for i in pareto_front([trial["values"] for trial in done], directions)]
    values = {trial["number"]: (float(trial["values"][0]), float(trial["values"][1])) for trial in done}
    tested: dict[int, list[float]] = {}  # but for trials with a cell that has no value there, or was chosen there
    for trial in front:
        cells = trial["attributes"]["cells"]
        if all(cell[TEST] is not None and cell["split"] != TEST for cell in cells):
            on_test = [[float(cell[TEST]) for cell in cells if cell["objective"] == i] for i in (0, 1)]
            tested[trial["number"]] = [sum(numbers) / len(numbers) for numbers in on_test]
    # 1. the axes: the first cell of each objective says its metric, split, and what was done to the texts
    names, labels, under = [], [], ""
    for objective, direction in enumerate(directions):
        cell = next(cell for cell in done[0]["attributes"]["cells"] if cell["objective"] == objective)
        change = cell["metric"] in ("delta", "change")
        names.append("Score change" if change else str(cell["metric"]).replace("_", " ").capitalize())
        better = "less" if direction == "minimize" else "more"
        labels.append(f"{names[-1]} on {cell['split']} ({better} is better)")
        under += f"{names[-1]}: {', '.join(treated(cell))}. " if treated(cell) else ""

    # 2. the points, and lines from those of the front to their values on the test split
    def draw(axis: Axes, _: None) -> None:
        style.label(axis, x=labels[0], y=labels[1], grid="")
        axis.plot(*zip(*values.values(), strict=True), "o", color=_TRIED, markersize=5, alpha=0.8)
        at = sorted(values[trial["number"]] for trial in front)
        axis.plot(*zip(*at, strict=True), "o-", color=_BEST, markersize=6, linewidth=1.2, zorder=3)
        for trial in front[:_MOST_LABELLED]:
            place = values[trial["number"]]
            axis.annotate(f"{trial['number']}", place, xytext=(4, 4), textcoords="offset points", fontsize=7)
        for number, end in tested.items():
            axis.plot(*end, "o", color=_BEST, markerfacecolor="none", markersize=6, zorder=3)
            line = zip(values[number], end, strict=True)
            axis.plot(*map(list, line), color=style.MUTED, linestyle=(0, (1, 2)), linewidth=0.9)

    # 3. the words around them
    legend = [(style.point(_TRIED, "o", 5), "a trial")]
    legend.append((Line2D([], [], color=_BEST, marker="o", linewidth=1.2, markersize=6), "on the front"))
    if tested:
        hollow = Line2D([], [], color=_BEST, marker="o", markerfacecolor="none", linestyle="none")
        legend.append((hollow, "the same on the test split"))
    settings = "; ".join(f"{trial['number']}: {params_text(trial['params'])}" for trial in front[:_MOST_LABELLED])
    caption = (
        f"{len(done)} trials, {len(front)} of them on the front: no other is better in one and at least as good in the "
        f"other. It is chosen on what the axes name, so its own values are optimistic. {under}{settings}."
    )
    return style.small_multiples([None], draw, f"{names[0]} against {names[1]}", caption, legend, height=3.2)
