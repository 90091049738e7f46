"""The Pareto front of a sweep with two objectives: no trial beats one on it in both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from judgebench.report.figures.style import MUTED, finish, house_style, panels
from judgebench.study.summary import Trial, complete, direction_of, setting

_TRIED, _FRONT = "#56B4E9", "#D55E00"  # Okabe and Ito's palette
_MOST_NAMED = 8

Value = tuple[float, float]


def front_figure(trials: Sequence[Trial], directions: Sequence[str]) -> Figure | None:
    """Every trial by its two values, those on the front joined; and, hollow, what the front's settings give on the test
    split.

    Args:
        trials: of one sweep; those that did not complete are left out.
        directions: see `summarize`.

    Returns:
        None unless there are two objectives.
    """
    told = [trial for trial in complete(trials) if len(trial.get("values") or ()) == 2]
    if not told or len(directions) != 2:
        return None
    on_front = pareto(told, directions)
    values = {trial["number"]: (float(trial["values"][0]), float(trial["values"][1])) for trial in told}
    names = [_name(told[0], objective) for objective in (0, 1)]
    with house_style():
        figure, (axis,) = panels(1, 1, 3.2)
        axis.plot(*zip(*values.values(), strict=True), "o", color=_TRIED, markersize=5, alpha=0.8)
        at = sorted(values[trial["number"]] for trial in on_front)
        axis.plot(*zip(*at, strict=True), "o-", color=_FRONT, markersize=6, linewidth=1.2, zorder=3)
        for trial in on_front[:_MOST_NAMED]:
            place = values[trial["number"]]
            axis.annotate(f"{trial['number']}", place, xytext=(4, 4), textcoords="offset points", fontsize=7)
        tested = {trial["number"]: where for trial in on_front if (where := _on_test(trial)) is not None}
        for number, there in tested.items():
            axis.plot(*there, "o", color=_FRONT, markerfacecolor="none", markersize=6, zorder=3)
            ends = zip(values[number], there, strict=True)
            axis.plot(*(list(end) for end in ends), color=MUTED, linestyle=(0, (1, 2)), linewidth=0.9)
        splits = [_cell(told[0], objective)["split"] for objective in (0, 1)]
        axis.set_xlabel(f"{names[0]} on {splits[0]} ({_better(directions, 0)} is better)")
        axis.set_ylabel(f"{names[1]} on {splits[1]} ({_better(directions, 1)} is better)")
        handles = [
            Line2D([], [], color=_TRIED, marker="o", linestyle="none", markersize=5),
            Line2D([], [], color=_FRONT, marker="o", linewidth=1.2, markersize=6),
        ]
        labels = ["a trial", "on the front"]
        if tested:
            handles.append(Line2D([], [], color=_FRONT, marker="o", markerfacecolor="none", linestyle="none"))
            labels.append("the same on the test split")
        shown = "; ".join(f"{trial['number']}: {setting(trial['params'])}" for trial in on_front[:_MOST_NAMED])
        caption = (
            f"{len(told)} trials, {len(on_front)} of them on the front: no other is better in one and at least as "
            f"good in the other. It is chosen on what the axes name, so its own values flatter it. {_under(told[0])}"
            f"{shown}."
        )
        return finish(figure, f"{names[0]} against {names[1]}", caption, handles, labels)


def pareto(trials: Sequence[Trial], directions: Sequence[str]) -> list[Trial]:
    """Those that no other beats: better in one value and at least as good in all.

    Example:
        >>> trials = [{"number": i, "values": values} for i, values in enumerate([(1, 5), (2, 5), (2, 6), (0, 1)])]
        >>> [trial["number"] for trial in pareto(trials, ["maximize", "minimize"])]
        [1, 3]
    """
    signs = [1.0 if direction_of(i, directions) == "minimize" else -1.0 for i in range(len(directions))]
    costs = [[sign * float(x) for sign, x in zip(signs, trial["values"], strict=True)] for trial in trials]
    return [
        trial
        for trial, own in zip(trials, costs, strict=True)
        if not any(other != own and all(a <= b for a, b in zip(other, own, strict=True)) for other in costs)
    ]


def _cell(trial: Trial, objective: int) -> Mapping[str, Any]:
    return next(one for one in trial["attributes"]["cells"] if one["objective"] == objective)


def _name(trial: Trial, objective: int) -> str:
    metric = str(_cell(trial, objective)["metric"])
    return "Score change" if metric in ("delta", "change") else metric.replace("_", " ").capitalize()


def _under(trial: Trial) -> str:
    """Under which attacks and defense each value was taken."""
    told = []
    for objective in (0, 1):
        cell = _cell(trial, objective)
        given = [f"{axis} {cell[axis]}" for axis in ("attack", "defense") if cell.get(axis, "none") != "none"]
        told += [f"{_name(trial, objective)}: {', '.join(given)}. "] if given else []
    return "".join(told)


def _better(directions: Sequence[str], position: int) -> str:
    return "less" if direction_of(position, directions) == "minimize" else "more"


def _on_test(trial: Trial) -> Value | None:
    means = []
    for objective in (0, 1):
        cells: list[Mapping[str, Any]] = [
            cell for cell in trial["attributes"]["cells"] if cell["objective"] == objective
        ]
        known = [float(cell["test"]) for cell in cells if cell["test"] is not None]
        if len(known) < len(cells) or cells[0]["split"] == "test":
            return None
        means.append(sum(known) / len(known))
    return means[0], means[1]
