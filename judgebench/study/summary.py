"""The end of a sweep: the best setting on dev in every cell (dimension x range), with its value on
test.

Best is what the sweep looks for: the largest value, or with the direction minimize the smallest;
and on dev, unless the objective names the test split.

Figures show the trials: the metric over the keys that are swept.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import optuna
import pandas as pd
import yaml
from matplotlib import pyplot
from matplotlib.figure import Figure
from omegaconf import DictConfig, OmegaConf
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from optuna.trial import FrozenTrial, create_trial
from optuna.visualization.matplotlib import plot_contour, plot_slice

from judgebench.data.dataset import DEV, TEST
from judgebench.report.figures import style
from judgebench.report.figures.style import save_figures
from judgebench.report.render import to_terminal
from judgebench.report.table import Block, Col, Paragraph, View, mean_of, rows_by
from judgebench.runtime.secrets import mask_secrets
from judgebench.settings.fields import plain
from judgebench.stats.correlation import CORRELATIONS
from judgebench.study.storage import write_json
from judgebench.tracking.loggers import check_loggers, log_sweep
from judgebench.types import Record, Records, Row, Rows, ScoreRange
from judgebench.words.console import WIDTH, Terminal
from judgebench.words.errors import UserError
from judgebench.words.formats import UNKNOWN, three
from judgebench.words.terminal import print_safely

SUMMARY = "sweep.json"

Trial = Row
"""number, state, params (key -> value), values, and attributes (`cells` and `run_dir`, see
`study.jobs.outcome`)."""


_SPLITS = (DEV, TEST)
_CELL = ("objective", "metric", "dimension")
_MOST_KEYS = 3  # swept keys whose contours a figure shows


def complete(trials: Sequence[Trial]) -> list[Trial]:
    """The trials that have results, ascending by number. A killed one may have stored its cells
    before it ended: its point runs again."""
    done = []
    for trial in trials:
        if trial["state"] == "complete" and (trial.get("attributes") or {}).get("cells"):
            done.append(trial)
    return sorted(done, key=lambda trial: trial["number"])


def cell_rows(trials: Sequence[Trial], directions: Sequence[str] = ()) -> Rows:
    """A row a complete trial and cell: the cell's record, with its range as `place`; the trial's
    number, params and run_dir; the direction of its objective; `value`, on the split that chooses (None without such a
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
                "place": ScoreRange.of(cell),
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


def sweep_figures(trials: Sequence[Trial], directions: Sequence[str] = ()) -> dict[str, Figure]:
    """Optuna's figures of each objective, dimension and range, by file name: contours of the metric
    over two swept keys, or dots over the only one; none where no key has several values.

    Trials in which every text got the same score are left out: the 0 that stands for a correlation
    would outshine every negative one.
    """
    rows = []
    for row in cell_rows(trials, directions):
        constant = row["constant"] and row["metric"] in CORRELATIONS
        if row["value"] is not None and not constant:
            rows.append(row | {"range": str(row["place"])})
    several = len({row["objective"] for row in rows}) > 1
    figures = {}
    for part in rows_by(rows, ["objective", "metric", "dimension", "range"]):
        first = part[0]
        metric = first["metric"].capitalize().replace("_", " ")
        figure = _drawn(part, f"{metric} on {first['split']}")
        if figure is not None:
            where = f"{first['dimension']}, range {first['range']}"
            figure.set_label(f"{metric} on the {first['split']} split, by setting tried: {where}.")
            figure.suptitle(where)
            names = [style.file_name(first[name]) for name in ("dimension", "range")]
            ends = [str(first["objective"] + 1)] if several else []
            figures["_".join([first["split"], first["metric"], *names, *ends])] = figure
    return figures


@style.house_style()
def _drawn(rows: Rows, name: str) -> Figure | None:
    """The values of one cell in its trials, as a study that Optuna draws."""
    swept = {key: {row["params"].get(key) for row in rows} for key in rows[0]["params"]}
    keys = [key for key, values in swept.items() if len(values) > 1 and None not in values]
    if not keys:
        return None
    shown = [axis_name(key) for key in keys]
    names = dict(zip(keys, shown if len(set(shown)) == len(shown) else keys, strict=True))
    distributions: dict[str, BaseDistribution] = {}
    for key in keys:
        if all(isinstance(value, int | float) for value in swept[key]):
            distributions[names[key]] = FloatDistribution(min(swept[key]), max(swept[key]))
        else:
            distributions[names[key]] = CategoricalDistribution(sorted(swept[key], key=str))
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(direction=rows[0]["direction"])
    for row in rows:
        params = {names[key]: row["params"][key] for key in keys}
        study.add_trial(
            create_trial(params=params, distributions=distributions, value=row["value"])
        )
    # pyplot, which Optuna uses, opens no window and keeps no figure
    with mpl.rc_context({"backend": "agg"}), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a colorbar beside figures' own layout
        if len(keys) == 1:
            drawn = plot_slice(study, target=_value_of, target_name=name)
        else:
            drawn = plot_contour(
                study, params=list(names.values())[:_MOST_KEYS], target=_value_of, target_name=name
            )
        figure = np.ravel(np.asarray(drawn, dtype=object))[0].figure
        pyplot.close(figure)
    for axis in figure.axes:
        axis.set_title("")
    return figure


def _value_of(trial: FrozenTrial) -> float:
    return trial.values[0]


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
    # 1. of each cell its best trial
    cells = []
    for of_cell in rows_by(rows, [*_CELL, "place"]):
        first = of_cell[0]
        record = {name: first[name] for name in (*_CELL, "split", "direction")}
        record |= {**first["place"].columns, "best": None}
        record |= {name: first[name] for name in ("attack", "defense")}
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
            mean["chosen_per_cell"] = {split: mean_of(bests, split) for split in _SPLITS}
        of_objective = [row for row in rows if row["objective"] == objective]
        trials_of = rows_by(of_objective, ["trial"])
        everywhere = [of_trial for of_trial in trials_of if len(of_trial) == len(bests)]
        one = _best(everywhere)
        if one:
            mean["one_setting"] = {name: one[0][name] for name in ("trial", "params")}
            mean["one_setting"] |= {split: mean_of(one, split) for split in _SPLITS}
        means.append(mean)
    failed = [trial for trial in trials if "failed" in (trial["state"], trial.get("ended"))]
    return {
        "trials": len(complete(trials)),
        "failed": len(failed),
        "params": list(dict.fromkeys(key for row in rows for key in row["params"])),
        "cells": cells,
        "means": means,
    }


def _best(trials: Sequence[Rows]) -> Rows:
    """The rows of the best of several trials, of equals the first; none where no trial has values
    in all of its rows. Where every text has the same score there is no correlation, and the 0.0
    that stands for it beats nothing: a trial with fewer such cells goes first."""
    known = []
    for rows in trials:
        if all(row["cost"] is not None for row in rows):
            known.append(rows)

    def rank(rows: Rows) -> tuple[int, float]:
        return sum(row["constant"] for row in rows), sum(row["cost"] for row in rows)

    return min(known, key=rank, default=[])


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
        figures = sweep_figures(trials, directions)
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
