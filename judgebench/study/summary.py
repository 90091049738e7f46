"""What a sweep found: in every cell (dimension x range) the setting that is best on dev, and its value on test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from judgebench.report.series import range_of
from judgebench.report.tables import three

Trial = Mapping[str, Any]
"""number, state, params (key -> value), values, and attributes (`cells` and `run_dir`, see `study.job.outcome`)."""

_CELL = ("objective", "metric", "dimension", "range_min", "range_max", "range_step")


def summarize(trials: Sequence[Trial]) -> dict[str, Any]:
    """The content of sweep.json.

    Args:
        trials: of one sweep; those without cells (failed ones) are counted, no more.

    Returns:
        trials, failed: how many; params: the swept keys; cells: for each cell its objective (position), metric,
        dimension, range, and of the trial that is best on dev (of several the first) number, params, dev, test and
        run_dir (null without a dev split); means: for each objective dev and test averaged over its cells, each with
        its own best setting (`chosen_per_cell`) and with the one setting that is best on average (`one_setting`, with
        number and params).
    """
    told = [trial for trial in trials if (trial.get("attributes") or {}).get("cells")]
    cells: dict[tuple[Any, ...], list[tuple[Trial, Mapping[str, Any]]]] = {}
    for trial in sorted(told, key=lambda trial: trial["number"]):
        for cell in trial["attributes"]["cells"]:
            cells.setdefault(tuple(cell[key] for key in _CELL), []).append((trial, cell))
    return {
        "trials": len(told),
        "failed": sum(trial["state"] == "failed" or trial.get("ended") == "failed" for trial in trials),
        "params": list(dict.fromkeys(key for trial in told for key in trial["params"])),
        "cells": [dict(zip(_CELL, key, strict=True)) | {"best": _best(tried)} for key, tried in cells.items()],
        "means": [_means(position, cells) for position in dict.fromkeys(key[0] for key in cells)],
    }


def summary_table(summary: Mapping[str, Any]) -> RenderableType:
    """The summary as people read it."""
    parts: list[RenderableType] = []
    several = len({cell["dimension"] for cell in summary["cells"]}) > 1
    for mean in summary["means"]:
        cells = [cell for cell in summary["cells"] if cell["objective"] == mean["objective"]]
        metric = cells[0]["metric"]
        table = Table(box=box.HORIZONTALS, padding=(0, 1), pad_edge=False)
        table.title = f"best {metric.capitalize()} on dev of {summary['trials']} trials, and what it is on test"
        table.title_justify, table.title_style = "left", "bold"
        for name in (["dimension"] if several else []) + ["range", "setting"]:
            table.add_column(name, overflow="fold")
        for name in ("dev", "test", "trial"):
            table.add_column(name, justify="right", no_wrap=True)
        for cell in cells:
            head = [cell["dimension"]] if several else []
            best = cell["best"]
            if best is None:
                table.add_row(*head, str(range_of(cell)), "no dev split: nothing is chosen", "-", "-", "-")
            else:
                row = [_setting(best["params"]), three(best["dev"]), three(best["test"]), str(best["trial"])]
                table.add_row(*head, str(range_of(cell)), *row)
        table.add_section()
        for name, key in (("mean, chosen per cell", "chosen_per_cell"), ("mean, one setting", "one_setting")):
            found = mean[key]
            if found is not None:
                row = [_setting(found.get("params", {})), three(found["dev"]), three(found["test"])]
                table.add_row(*([""] if several else []), name, *row, str(found.get("trial", "")))
        parts.append(table)
    if summary["failed"]:
        parts.append(Text(f"{summary['failed']} trials failed; study.json says why.", style="yellow"))
    return Group(*parts)


def _best(tried: Sequence[tuple[Trial, Mapping[str, Any]]]) -> dict[str, Any] | None:
    rated = [(trial, cell) for trial, cell in tried if cell["dev"] is not None]
    if not rated:
        return None
    trial, cell = max(rated, key=lambda one: one[1]["dev"])  # the first of equals
    return {
        "trial": trial["number"],
        "params": dict(trial["params"]),
        "dev": cell["dev"],
        "test": cell["test"],
        "run_dir": trial["attributes"].get("run_dir"),
    }


def _means(position: int, cells: Mapping[tuple[Any, ...], list[tuple[Trial, Mapping[str, Any]]]]) -> dict[str, Any]:
    mine = [tried for key, tried in cells.items() if key[0] == position]
    best = [_best(tried) for tried in mine]
    chosen = None
    if all(one is not None for one in best):
        chosen = {split: _mean([one[split] for one in best if one is not None]) for split in ("dev", "test")}
    by_trial: dict[int, tuple[Trial, list[Mapping[str, Any]]]] = {}
    for tried in mine:
        for trial, cell in tried:
            by_trial.setdefault(trial["number"], (trial, []))[1].append(cell)
    whole: list[dict[str, Any]] = [
        {"trial": number, "params": dict(trial["params"]), **{s: _mean([c[s] for c in found]) for s in ("dev", "test")}}
        for number, (trial, found) in by_trial.items()
        if len(found) == len(mine) and all(cell["dev"] is not None for cell in found)
    ]
    one = max(whole, key=lambda one: one["dev"]) if whole else None
    return {"objective": position, "chosen_per_cell": chosen, "one_setting": one}


def _mean(values: Sequence[float | None]) -> float | None:
    given = [value for value in values if value is not None]
    return sum(given) / len(given) if given and len(given) == len(values) else None


def _setting(params: Mapping[str, Any]) -> str:
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
