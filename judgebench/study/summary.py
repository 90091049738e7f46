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
from judgebench.results.series import range_of, with_labels
from judgebench.runtime.errors import UserError
from judgebench.runtime.files import atomic
from judgebench.runtime.secrets import mask_secrets
from judgebench.stats.correlation import spearman
from judgebench.study.figures import Trial, complete, direction_of, front_figure, heatmaps, params_text
from judgebench.study.storage import STUDY
from judgebench.tracking.wandb import log_sweep
from judgebench.tuning.optimum import EQUAL, optimum
from judgebench.types import LABELS, RANGE, ScoreRange

Cell = tuple[Any, ...]
"""Objective, metric, dimension and range of a cell, which identify it."""
Rows = list[tuple[Trial, Mapping[str, Any]]]
"""Trials, each with its record of a cell."""

SUMMARY = "sweep.json"
_CELL = ("objective", "metric", "dimension", *RANGE, LABELS)
_SPLITS = ("dev", "test")


def summarize(
    trials: Sequence[Trial], directions: Sequence[str] = (), optima: Mapping[Cell, Mapping[str, Any]] | None = None
) -> dict[str, Any]:
    """The content of sweep.json.

    Args:
        trials: of one sweep; those that did not complete are counted, no more.
        directions: maximize or minimize, one an objective; none is maximize.
        optima: cell (see `cell_of`) -> the exact optimum there, see `exact_optima`.

    Returns:
        trials, failed: counts.
        params: the swept keys.
        cells: for each cell its objective (position), metric, dimension, range, split (on which is chosen), direction,
            attack and defense; and as `best` of the trial that is best there (of several the first) number, params,
            dev, test and run_dir. `best` is null without such a split; its `constant` is true where every text has the
            same score, which is chosen only where no trial does better. Where it is known also `exact`, the exact
            optimum, and `below_exact`, how far the best trial falls below it on dev, at least 0 (null where that trial
            is constant).
        means: for each objective dev and test averaged over its cells: each with its own best setting
            (`chosen_per_cell`), with the one setting that is best on average (`one_setting`, with number and params),
            and at the exact optima (`exact`).
    """
    done, optima = complete(trials), optima or {}
    rows_of: dict[Cell, Rows] = {}
    for trial in done:
        for cell in trial["attributes"]["cells"]:
            rows_of.setdefault(cell_of(cell), []).append((trial, cell))
    cells = {key: _cell_record(key, rows, directions, optima.get(key)) for key, rows in rows_of.items()}
    means = []
    for position in dict.fromkeys(key[0] for key in cells):
        keys = [key for key in cells if key[0] == position]
        bests = [cells[key]["best"] for key in keys]
        mean = {"objective": position, "chosen_per_cell": None if None in bests else _split_means(bests)}
        mean["one_setting"] = _one_setting([rows_of[key] for key in keys], direction_of(position, directions))
        if optima.keys() >= set(keys):
            mean["exact"] = _split_means([optima[key] for key in keys])
        means.append(mean)
    return {
        "trials": len(done),
        "failed": sum(trial["state"] == "failed" or trial.get("ended") == "failed" for trial in trials),
        "params": list(dict.fromkeys(key for trial in done for key in trial["params"])),
        "cells": list(cells.values()),
        "means": means,
    }


def cell_of(cell: Mapping[str, Any]) -> Cell:
    """A cell's objective, metric, dimension and range, which identify it."""
    return tuple(cell.get(key) for key in _CELL)


def _cell_record(key: Cell, rows: Rows, directions: Sequence[str], exact: Mapping[str, Any] | None) -> dict[str, Any]:
    first, direction = rows[0][1], direction_of(key[0], directions)
    split = first.get("split", DEV)
    best: dict[str, Any] | None = None
    if rated := [[(trial, cell)] for trial, cell in rows if cell[split] is not None]:
        trial, cell = _first_best(rated, split, direction)[0]
        best = {"trial": trial["number"], "params": dict(trial["params"]), "dev": cell["dev"], "test": cell["test"]}
        best |= {"run_dir": trial["attributes"].get("run_dir")} | ({"constant": True} if cell.get("constant") else {})
    record = {name: value for name, value in zip(_CELL, key, strict=True) if name != LABELS or value}
    record |= {"split": split, "direction": direction}
    record |= {axis: first.get(axis, "none") for axis in ("attack", "defense")} | {"best": best}
    if best is not None and exact is not None:
        below = max(0.0, exact["dev"] - best["dev"])
        record |= {"exact": dict(exact), "below_exact": 0.0 if below < EQUAL else below}
        if best.get("constant"):
            record["below_exact"] = None
    return record


def _one_setting(rows_of_cells: Sequence[Rows], direction: str) -> dict[str, Any] | None:
    """The setting that is best on average over cells, among those that have a value in each; None where none has."""
    split = rows_of_cells[0][0][1].get("split", DEV)
    by_trial: dict[int, Rows] = {}
    for trial, cell in itertools.chain.from_iterable(rows_of_cells):
        if cell[split] is not None:
            by_trial.setdefault(trial["number"], []).append((trial, cell))
    everywhere = [rows for rows in by_trial.values() if len(rows) == len(rows_of_cells)]
    if not everywhere:
        return None
    rows = _first_best(everywhere, split, direction)
    trial = rows[0][0]
    return {"trial": trial["number"], "params": dict(trial["params"])} | _split_means([cell for _, cell in rows])


def _first_best(candidates: Sequence[Rows], split: str, direction: str) -> Rows:
    """The first of the candidates whose mean over their cells is best. Where every text has the same score there is no
    correlation, and the 0.0 that stands for it beats nothing: a candidate with fewer such cells goes first."""
    sign = 1.0 if direction == "minimize" else -1.0

    def rank(rows: Rows) -> tuple[int, float]:
        cells = [cell for _, cell in rows]
        return sum(bool(cell.get("constant")) for cell in cells), sign * (_split_means(cells)[split] or 0.0)

    return min(candidates, key=rank)


def _split_means(cells: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """Split -> the mean over cells; None where one of them has no value."""
    means: dict[str, float | None] = {}
    for split in _SPLITS:
        values = [cell[split] for cell in cells]
        means[split] = None if None in values or not values else sum(values) / len(values)
    return means


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
            row = {"part": "cells", "dimension": cell["dimension"] if several else None, "range": str(range_of(cell))}
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
    under = [f"{axis} {cell[axis]}" for axis in ("attack", "defense") if cell.get(axis, "none") != "none"]
    where = f" ({'; '.join(under)})" if under else ""
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
_WHERE = ("dimension", *RANGE, "attack", "defense")
_READ = ("example_id", "split", *_WHERE, "main_logprobs", "assistant_logprobs")
_EXACT_FOR = {"metric": "spearman", "split": DEV, "level": "dataset", "judge": "pair"}


def exact_optima(trials: Sequence[Trial], directions: Sequence[str] = ()) -> dict[Cell, dict[str, Any]]:
    """Cell (see `cell_of`) -> the best of all kappas on dev: kappa, dev, test, low, high and width of its interval
    (high and width are null where it never ends).

    Only where nothing but lambda and t is swept, by the largest dev Spearman of the pair over the whole data, scored by
    argmax: then the readings, which all trials share, tell what any kappa would have given. Empty where they are out of
    reach, as on another worker's machine.
    """
    done = complete(trials)
    if not done or not {key.lstrip("+") for trial in done for key in trial["params"]} <= _HYPERPARAMETERS:
        return {}
    cells = [
        cell
        for cell in done[0]["attributes"]["cells"]
        if all(cell.get(key) == value for key, value in _EXACT_FOR.items())
        and all(cell.get(axis, "none") == "none" for axis in ("attack", "defense"))
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
            where = {LABELS: "", **cell, "attack": "none", "defense": "none"}
            rows, scored = (
                frame[np.logical_and.reduce([frame[name] == where[name] for name in with_labels(_WHERE, frame)])]
                for frame in (readings, scores)
            )
            optima[cell_of(cell)] = _optimum(rows, scored, cell, decoding.get("alpha", 0.0))
    return optima


def _optimum(readings: pd.DataFrame, scores: pd.DataFrame, cell: Mapping[str, Any], alpha: float) -> dict[str, Any]:
    values = np.array(ScoreRange.of(cell).values)
    human = dict(zip(scores["example_id"], scores["human"], strict=True))
    parts: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
    for split, rows in readings[readings["example_id"].map(human).notna()].groupby("split"):
        main, assistant = (
            np.array(rows[f"{who}_logprobs"].tolist(), dtype=np.float32) for who in ("main", "assistant")
        )
        parts[str(split)] = (main, assistant, np.array([human[name] for name in rows["example_id"]], dtype=np.float64))
    main, assistant, ratings = parts[DEV]
    best = optimum(main, assistant, values, ratings, alpha)
    test = None
    if TEST in parts:
        main, assistant, ratings = parts[TEST]
        test = spearman(Contrastive(best.kappa, alpha=alpha).scores(main, assistant, values), ratings)
    high, width = (value if np.isfinite(value) else None for value in (best.high, best.width))
    return {"kappa": best.kappa, "dev": best.value, "test": test, "low": best.low, "high": high, "width": width}


# --- the end of a sweep -----------------------------------------------------------------------------------------------


def finish_sweep(
    config: DictConfig, folder: Path, trials: Sequence[Trial], directions: Sequence[str], group: str
) -> None:
    """Writes, prints and logs the summary of the trials, and prints the folder last; nothing where no trial has results
    (a dry run).

    Args:
        group: of the jobs' W&B runs, which the summary's run joins.
    """
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


def study_trials(folder: Path) -> tuple[list[Trial], list[str]]:
    """The trials and the directions of study.json; none of either where there is no such file."""
    path = folder / STUDY
    if not path.is_file():
        return [], []
    content = json.loads(path.read_text(encoding="utf-8"))
    return content["trials"], content["directions"]


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
