"""What a sweep found: in every cell (dimension x range) the setting that is best on dev, and its value on test.

Best is what the sweep looks for: the largest value, or with the direction minimize the smallest; and on dev, unless the
objective names the test split.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from judgebench.report.formats import three
from judgebench.results.series import range_of
from judgebench.tuning.optimum import EQUAL

Trial = Mapping[str, Any]
"""number, state, params (key -> value), values, and attributes (`cells` and `run_dir`, see `study.job.outcome`)."""

Cell = tuple[Any, ...]
_CELL = ("objective", "metric", "dimension", "range_min", "range_max", "range_step")
_SPLITS = ("dev", "test")
_EXACT = "exact dev: the best that any λ and t can reach on dev; short by: how far the best trial falls below it."


def summarize(
    trials: Sequence[Trial], directions: Sequence[str] = (), optima: Mapping[Cell, Mapping[str, Any]] | None = None
) -> dict[str, Any]:
    """The content of sweep.json.

    Args:
        trials: of one sweep; those that did not complete are counted, no more.
        directions: maximize or minimize, one an objective; none is maximize.
        optima: cell (see `cell_of`) -> the exact optimum there, see `exact_optima`.

    Returns:
        trials, failed: how many; params: the swept keys; cells: for each cell its objective (position), metric,
        dimension, range, split (on which is chosen), direction, attack and defense, and as `best` of the trial that is
        best there (of several the first) number, params, dev, test and run_dir (null without such a split; `constant`
        is true where every text has the same score, which is chosen only where no trial does better than that); where
        it is known
        also `exact`, the exact optimum, and `below_exact`, how far the best trial falls below it on dev, never below 0
        (null where that trial is constant); means: for each objective dev and test averaged over its cells, each with
        its own best setting (`chosen_per_cell`), with the one setting that is best on average (`one_setting`, with
        number and params), and at the exact optima (`exact`).
    """
    told = complete(trials)
    cells: dict[Cell, list[tuple[Trial, Mapping[str, Any]]]] = {}
    for trial in told:
        for cell in trial["attributes"]["cells"]:
            cells.setdefault(cell_of(cell), []).append((trial, cell))
    chosen = {key: _choice(key[0], tried, directions) for key, tried in cells.items()}
    return {
        "trials": len(told),
        "failed": sum(trial["state"] == "failed" or trial.get("ended") == "failed" for trial in trials),
        "params": list(dict.fromkeys(key for trial in told for key in trial["params"])),
        "cells": [
            dict(zip(_CELL, key, strict=True))
            | {"split": chosen[key].split, "direction": chosen[key].direction}
            | {axis: tried[0][1].get(axis, "none") for axis in ("attack", "defense")}
            | _against(_best(tried, chosen[key]), (optima or {}).get(key))
            for key, tried in cells.items()
        ],
        "means": [
            _means(position, {key: tried for key, tried in cells.items() if key[0] == position}, chosen, optima or {})
            for position in dict.fromkeys(key[0] for key in cells)
        ],
    }


def complete(trials: Sequence[Trial]) -> list[Trial]:
    """The trials that have results, ascending by number. A killed one may have stored its cells before it ended: its
    point ran again, or will."""
    told = [trial for trial in trials if trial["state"] == "complete" and (trial.get("attributes") or {}).get("cells")]
    return sorted(told, key=lambda trial: trial["number"])


def cell_of(cell: Mapping[str, Any]) -> Cell:
    """What tells a cell from others: its objective, metric, dimension and range."""
    return tuple(cell[key] for key in _CELL)


def direction_of(position: int, directions: Sequence[str]) -> str:
    """The direction of the objective at a position."""
    return directions[position] if position < len(directions) else "maximize"


def summary_table(summary: Mapping[str, Any]) -> RenderableType:
    """The summary as people read it."""
    parts: list[RenderableType] = []
    several = len({cell["dimension"] for cell in summary["cells"]}) > 1
    for mean in summary["means"]:
        cells = [cell for cell in summary["cells"] if cell["objective"] == mean["objective"]]
        exact = any("exact" in cell for cell in cells)
        table = Table(box=box.HORIZONTALS, padding=(0, 1), pad_edge=False)
        table.title = _title(cells[0], summary["trials"])
        table.title_justify, table.title_style = "left", "bold"
        for name in (["dimension"] if several else []) + ["range", "setting"]:
            table.add_column(name, overflow="fold")
        for name in ("dev", "test", "trial", *(("exact dev", "short by") if exact else ())):
            table.add_column(name, justify="right", no_wrap=True)
        for cell in cells:
            head = [cell["dimension"]] if several else []
            best = cell["best"]
            if best is None:
                table.add_row(*head, str(range_of(cell)), f"no {cell['split']} split: nothing is chosen", "-", "-", "-")
            else:
                mark = " ! constant" if best.get("constant") else ""
                row = [setting(best["params"]) + mark, three(best["dev"]), three(best["test"]), str(best["trial"])]
                optimum = [three(cell["exact"]["dev"]), three(cell["below_exact"])] if "exact" in cell else []
                table.add_row(*head, str(range_of(cell)), *row, *optimum)
        table.add_section()
        for name, key in (
            ("mean, chosen per cell", "chosen_per_cell"),
            ("mean, one setting", "one_setting"),
            ("mean, exact optima", "exact"),
        ):
            found = mean.get(key)
            if found is not None:
                row = [setting(found.get("params", {})), three(found["dev"]), three(found["test"])]
                table.add_row(*([""] if several else []), name, *row, str(found.get("trial", "")))
        parts.append(table)
        if exact:
            parts.append(Text(_EXACT, style="dim"))
    if summary["failed"]:
        parts.append(Text(f"{summary['failed']} trials failed; study.json says why.", style="yellow"))
    return Group(*parts)


@dataclass(frozen=True)
class _Choice:
    """How an objective's best is told: on which split, in which direction."""

    split: str
    direction: str

    def best(self, tried: Sequence[Any], value: Callable[[Any], float], constant: Callable[[Any], int]) -> Any:
        """The first of those that are best. Where every text has the same score there is no correlation, and the 0.0
        that stands for it beats nothing: what has fewer such cells goes first."""
        sign = 1.0 if self.direction == "minimize" else -1.0
        return min(tried, key=lambda one: (constant(one), sign * value(one)))


def _choice(position: int, tried: Sequence[tuple[Trial, Mapping[str, Any]]], directions: Sequence[str]) -> _Choice:
    return _Choice(tried[0][1].get("split", "dev"), direction_of(position, directions))


def _title(cell: Mapping[str, Any], trials: int) -> str:
    which = "smallest" if cell["direction"] == "minimize" else "best"
    under = [f"{axis} {cell[axis]}" for axis in ("attack", "defense") if cell.get(axis, "none") != "none"]
    metric = cell["metric"].capitalize().replace("_", " ")
    where = f" ({'; '.join(under)})" if under else ""
    title = f"{which} {metric}{where} on {cell['split']} of {trials} trials"
    if cell["split"] == "test":
        return f"{title}; chosen on test itself, which flatters it"
    return f"{title}, and what it is on test"


def _best(tried: Sequence[tuple[Trial, Mapping[str, Any]]], choice: _Choice) -> dict[str, Any] | None:
    rated = [(trial, cell) for trial, cell in tried if cell[choice.split] is not None]
    if not rated:
        return None
    trial, cell = choice.best(rated, lambda one: one[1][choice.split], lambda one: _constant(one[1]))
    return {
        "trial": trial["number"],
        "params": dict(trial["params"]),
        "dev": cell["dev"],
        "test": cell["test"],
        "run_dir": trial["attributes"].get("run_dir"),
        **({"constant": True} if _constant(cell) else {}),
    }


def _constant(cell: Mapping[str, Any]) -> int:
    return int(bool(cell.get("constant")))


def _against(best: Mapping[str, Any] | None, optimum: Mapping[str, Any] | None) -> dict[str, Any]:
    if best is None or optimum is None:
        return {"best": best}
    below = None if best.get("constant") else max(0.0, optimum["dev"] - best["dev"])
    return {"best": best, "exact": dict(optimum), "below_exact": 0.0 if below is not None and below < EQUAL else below}


def _means(
    position: int,
    cells: Mapping[Cell, list[tuple[Trial, Mapping[str, Any]]]],
    choices: Mapping[Cell, _Choice],
    optima: Mapping[Cell, Mapping[str, Any]],
) -> dict[str, Any]:
    choice = choices[next(iter(cells))]
    best = [_best(tried, choice) for tried in cells.values()]
    chosen = None
    if all(one is not None for one in best):
        chosen = {split: _mean([one[split] for one in best if one is not None]) for split in _SPLITS}
    by_trial: dict[int, tuple[Trial, list[Mapping[str, Any]]]] = {}
    for tried in cells.values():
        for trial, cell in tried:
            by_trial.setdefault(trial["number"], (trial, []))[1].append(cell)
    whole = [
        (sum(map(_constant, found)), _whole(trial, found))
        for trial, found in by_trial.values()
        if len(found) == len(cells) and all(cell[choice.split] is not None for cell in found)
    ]
    one = choice.best(whole, lambda one: one[1][choice.split], lambda one: one[0])[1] if whole else None
    means = {"objective": position, "chosen_per_cell": chosen, "one_setting": one}
    if cells.keys() <= optima.keys():
        means["exact"] = {split: _mean([optima[key][split] for key in cells]) for split in _SPLITS}
    return means


def _whole(trial: Trial, cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    means = {split: _mean([cell[split] for cell in cells]) for split in _SPLITS}
    return {"trial": trial["number"], "params": dict(trial["params"]), **means}


def _mean(values: Sequence[float | None]) -> float | None:
    given = [value for value in values if value is not None]
    return sum(given) / len(given) if given and len(given) == len(values) else None


def setting(params: Mapping[str, Any]) -> str:
    """Swept keys with their values, as a reader knows them."""
    return ", ".join(f"{axis_name(key)} {_number(value)}" for key, value in params.items())


def axis_name(key: str) -> str:
    """A swept key as a reader knows it.

    Example:
        >>> axis_name("decoding.lambda"), axis_name("decoding.temperature"), axis_name("+assistant.layer")
        ('λ', 't', 'layer')
    """
    last = key.lstrip("+").rpartition(".")[2]
    return {"lambda": "λ", "temperature": "t"}.get(last, last)


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
