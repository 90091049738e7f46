"""The end of a sweep: the best setting on dev in every cell (dimension x range), with its value on test.

Of lambda and t also the exact optimum, from the trials' readings.

Best is what the sweep looks for: the largest value, or with the direction minimize the smallest; and on dev, unless the
objective names the test split.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from judgebench.config.fields import plain
from judgebench.data.dataset import DEV, TEST
from judgebench.decoding.rules import Contrastive
from judgebench.report.figures.style import save_figures
from judgebench.report.formats import UNKNOWN, three
from judgebench.report.render import WIDTH, Terminal, to_terminal
from judgebench.report.table import Block, Col, Paragraph, View
from judgebench.results.folder import RunFolder
from judgebench.runtime.errors import UserError
from judgebench.runtime.files import atomic
from judgebench.runtime.secrets import mask_secrets
from judgebench.stats.correlation import spearman
from judgebench.study.figures import Trial, complete, direction_of, front_figure, heatmaps, params_text, treated
from judgebench.tracking.wandb import log_sweep
from judgebench.tuning.optimum import EQUAL, optimum, split_arrays
from judgebench.types import LABELS, RANGE, ScoreRange

Cell = tuple[Any, ...]
"""Objective, metric, dimension and range of a cell, which identify it."""
Row = dict[str, Any]
"""A trial's record of a cell."""

SUMMARY = "sweep.json"
_CELL = ("objective", "metric", "dimension", *RANGE, LABELS)
_SPLITS = (DEV, TEST)


def summarize(
    trials: Sequence[Trial], directions: Sequence[str] = (), optima: Mapping[Cell, Mapping[str, Any]] | None = None
) -> dict[str, Any]:
    """The content of sweep.json: counts of trials and failed ones, the swept keys (`params`), and

    cells: each with its objective (position), metric, dimension, range, split (on which is chosen), direction, attack
        and defense; `best`, the trial that is best there, of several the first (null without such a split; `constant`
        where every text has the same score, which is chosen only where no trial does better). With the exact optimum of
        the cell in `optima` also `exact`, and `below_exact`, how far the best trial falls below it on dev, at least 0.
    means: for each objective dev and test averaged over its cells: each with its own best setting (`chosen_per_cell`),
        with the one setting that is best on average (`one_setting`), and at the exact optima (`exact`).
    """
    done, optima = complete(trials), optima or {}
    # 1. a row a trial and cell; `cost` is the less the better
    rows_of: dict[Cell, list[Row]] = {}
    for trial in done:
        setting = {"trial": trial["number"], "params": dict(trial["params"])}
        for cell in trial["attributes"]["cells"]:
            split, direction = cell.get("split", DEV), direction_of(cell["objective"], directions)
            row = {**cell, **setting, "run_dir": trial["attributes"].get("run_dir"), "split": split}
            row["direction"], row["constant"] = direction, bool(cell.get("constant"))
            row["cost"] = None if cell[split] is None else cell[split] * (1 if direction == "minimize" else -1)
            rows_of.setdefault(cell_of(cell), []).append(row)
    # 2. of each cell its best trial
    cells: dict[Cell, dict[str, Any]] = {}
    for key, rows in rows_of.items():
        record = {name: value for name, value in zip(_CELL, key, strict=True) if name != LABELS or value}
        record |= {"split": rows[0]["split"], "direction": rows[0]["direction"], "best": None}
        record |= {axis: rows[0].get(axis, "none") for axis in ("attack", "defense")}
        if rated := [[row] for row in rows if row["cost"] is not None]:
            (row,) = min(rated, key=_rank)
            record["best"] = {name: row[name] for name in ("trial", "params", *_SPLITS, "run_dir")}
            record["best"] |= {"constant": True} if row["constant"] else {}
            if key in optima:
                below = max(0.0, optima[key][DEV] - row[DEV])
                record |= {"exact": dict(optima[key]), "below_exact": 0.0 if below < EQUAL else below}
                record["below_exact"] = None if row["constant"] else record["below_exact"]
        cells[key] = record
    means = [_means(objective, cells, rows_of, optima) for objective in dict.fromkeys(key[0] for key in cells)]
    return {
        "trials": len(done),
        "failed": sum(trial["state"] == "failed" or trial.get("ended") == "failed" for trial in trials),
        "params": list(dict.fromkeys(key for trial in done for key in trial["params"])),
        "cells": list(cells.values()),
        "means": means,
    }


def _means(
    objective: int,
    cells: Mapping[Cell, Mapping[str, Any]],
    rows_of: Mapping[Cell, Sequence[Row]],
    optima: Mapping[Cell, Mapping[str, Any]],
) -> dict[str, Any]:
    """Means over the cells of an objective: each with its own best setting, with one for all, at the exact optima."""
    keys = [key for key in cells if key[0] == objective]
    bests = [cells[key]["best"] for key in keys]
    mean = {"objective": objective, "chosen_per_cell": None if None in bests else _split_means(bests)}
    mean["one_setting"] = None
    by_trial: dict[int, list[Row]] = {}
    for row in itertools.chain.from_iterable(rows_of[key] for key in keys):
        by_trial.setdefault(row["trial"], []).extend([row] if row["cost"] is not None else [])
    if everywhere := [rows for rows in by_trial.values() if len(rows) == len(keys)]:
        rows = min(everywhere, key=_rank)
        mean["one_setting"] = {name: rows[0][name] for name in ("trial", "params")} | _split_means(rows)
    if optima.keys() >= set(keys):
        mean["exact"] = _split_means([optima[key] for key in keys])
    return mean


def cell_of(cell: Mapping[str, Any]) -> Cell:
    """A cell's objective, metric, dimension and range, which identify it."""
    return tuple(cell.get(key) for key in _CELL)


def _rank(rows: Sequence[Row]) -> tuple[int, float]:
    """The rank of a trial by its rows of some cells. Where every text has the same score there is no correlation, and
    the 0.0 that stands for it beats nothing: a trial with fewer such cells goes first."""
    return sum(row["constant"] for row in rows), sum(row["cost"] for row in rows)


def _split_means(cells: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """Split -> the mean over cells; None where one of them has no value."""
    values = {split: [cell[split] for cell in cells] for split in _SPLITS}
    return {split: None if None in numbers else sum(numbers) / len(numbers) for split, numbers in values.items()}


# --- the summary as people read it ------------------------------------------------------------------------------------


def summary_blocks(summary: Mapping[str, Any]) -> list[Block]:
    """A table an objective, and how many trials failed."""
    count = summary["failed"]
    return [*_SWEEP.tables(summary), *([Paragraph(f"{count} trials failed; study.json says why.")] if count else [])]


_MEANS = {
    "mean, chosen per cell": "chosen_per_cell",
    "mean, one setting": "one_setting",
    "mean, exact optima": "exact",
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
                row["setting"] = params_text(best["params"]) + (" ! constant" if best.get("constant") else "")
            if "exact" in cell:
                row |= {"exact": three(cell["exact"]["dev"]), "below_exact": three(cell["below_exact"])}
            rows.append(table | row | {"dev": best["dev"], "test": best["test"], "trial": str(best["trial"])})
        for name, key in _MEANS.items():
            if (means := mean.get(key)) is not None:
                row = {"part": "means", "range": name, "setting": params_text(means.get("params", {}))}
                row |= {"dev": means["dev"], "test": means["test"], "trial": str(means.get("trial", ""))}
                rows.append(table | row)
    return pd.DataFrame(rows)


def _title(cell: Mapping[str, Any], trials: int) -> str:
    which = "smallest" if cell["direction"] == "minimize" else "best"
    where = f" ({'; '.join(treated(cell))})" if treated(cell) else ""
    end = (
        "; chosen on test itself, so the figure is optimistic" if cell["split"] == TEST else ", and what it is on test"
    )
    return f"{which} {cell['metric'].capitalize().replace('_', ' ')}{where} on {cell['split']} of {trials} trials{end}"


_EXACT = "exact dev: the best that any λ and t can reach on dev; short by: how far the best trial falls below it."
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
        Col("exact dev", "exact", optional=True),
        Col("short by", "below_exact", optional=True),
    ),
    by=("objective",),
    title="{title}",
    sections=("part",),
    note=lambda summary, frame: _EXACT if "exact" in frame else "",
)


# --- the exact optimum ------------------------------------------------------------------------------------------------

_HYPERPARAMETERS = {"decoding.lambda", "decoding.temperature"}
_READ = ("example_id", "split", "dimension", *RANGE, "attack", "defense", "main_logprobs", "assistant_logprobs")
_EXACT_FOR = {"metric": "spearman", "split": DEV, "level": "dataset", "judge": "pair"}


def exact_optima(trials: Sequence[Trial], directions: Sequence[str] = ()) -> dict[Cell, dict[str, Any]]:
    """Cell (see `cell_of`) -> the best of all kappas on dev: kappa, dev, test, low, high and width of its interval
    (high and width are null where it never ends).

    Only where nothing but lambda and t is swept, by the largest dev Spearman of the pair over the whole data, scored by
    argmax: then the readings, which all trials share, give the scores at any kappa. Empty where they are out of reach,
    as on another worker's machine.
    """
    done = complete(trials)
    if not done or not {key.lstrip("+") for trial in done for key in trial["params"]} <= _HYPERPARAMETERS:
        return {}
    cells = [
        cell
        for cell in done[0]["attributes"]["cells"]
        if all(cell.get(key) == value for key, value in _EXACT_FOR.items())
        and not treated(cell)
        and cell[DEV] is not None
        and direction_of(cell["objective"], directions) == "maximize"
    ]
    # the readings of the first trial whose folder is within reach
    paths = [Path(str(trial["attributes"].get("run_dir"))) for trial in done]
    files = ("config.yaml", "readings.parquet", "scores.parquet")
    path = next((path for path in paths if all((path / name).is_file() for name in files)), None)
    if not cells or path is None:
        return {}
    try:
        run = RunFolder(path)
        decodings = run.read("config").get("decoding") or {}
        readings, scores = run.read("readings", _READ), run.read("scores")
    except (UserError, OSError):  # half-written, or changed since
        return {}
    if "rival_id" in scores:  # of texts compared: a mean over two orders is no argmax of one reading
        return {}
    optima = {}
    for cell in cells:
        decoding = decodings.get(cell["decoding"]) or {}
        if str(decoding.get("_target_")).endswith(".Contrastive") and decoding.get("rule") == "argmax":
            values, alpha = np.array(ScoreRange.of(cell).values), decoding.get("alpha", 0.0)
            parts = split_arrays(readings, scores, cell)
            main, assistant, human = parts[DEV]
            best, test = optimum(main, assistant, values, human, alpha), None
            if TEST in parts:
                main, assistant, human = parts[TEST]
                test = spearman(Contrastive(best.kappa, alpha=alpha).scores(main, assistant, values), human)
            record = best.record(test)
            optima[cell_of(cell)] = {key: record[key] for key in ("kappa", DEV, TEST, "low", "high", "width")}
    return optima


# --- the end of a sweep -----------------------------------------------------------------------------------------------


def finish_sweep(
    config: DictConfig, folder: Path, trials: Sequence[Trial], directions: Sequence[str], group: str
) -> None:
    """Writes, prints and logs the summary of the trials, and prints the folder last; nothing where no trial has results
    (a dry run). The summary's run on W&B joins the jobs' `group`."""
    summary = summarize(trials, directions, exact_optima(trials, directions))
    if not summary["cells"]:
        return
    try:
        with atomic(folder / SUMMARY) as temporary:
            content = {**summary, "all": list(trials)}
            temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        figures = heatmaps(trials, directions)
        if (front := front_figure(trials, directions)) is not None:
            figures["front"] = front
        save_figures(figures, folder / "figures")
        if config.get("logger") is not None:
            names = [key for key in config if key != "hydra" and not OmegaConf.is_missing(config, key)]
            whole: dict[str, Any] = plain(OmegaConf.create({key: config[key] for key in names}))
            group = whole["logger"].get("group") or group
            whole["logger"] |= {"name": f"{group} summary", "group": group, "save_dir": str(folder)}
            log_sweep(instantiate(whole["logger"]), mask_secrets(whole), summary, figures)
    except (OSError, UserError) as error:
        print(f"judgebench: the summary of the sweep in {folder} is not whole: {error}", file=sys.stderr)
    console = Terminal(width=max(WIDTH, Terminal().width))
    console.print(to_terminal(summary_blocks(summary)))
    print(folder)


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

    overrides = [dict(override.partition("=")[::2] for override in job["overrides"]) for job in jobs]
    swept = {key for texts in overrides for key in texts if any(other.get(key) != texts[key] for other in overrides)}
    return [
        {**job, "params": {key: value_of(text) for key, text in texts.items() if key in swept}}
        for job, texts in zip(jobs, overrides, strict=True)
    ]
