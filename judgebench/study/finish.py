"""The end of a sweep: the table, sweep.json, figures, and the summary run on W&B."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from judgebench.report.figures.style import save_figures
from judgebench.report.render import to_terminal
from judgebench.report.terminal import WIDTH, Terminal
from judgebench.runtime.errors import UserError
from judgebench.runtime.files import atomic
from judgebench.runtime.masking import mask_secrets
from judgebench.study.figures import front_figure, heatmaps
from judgebench.study.job import group_name
from judgebench.study.results import STUDY
from judgebench.study.summary import Trial, exact_optima, summarize, summary_blocks
from judgebench.tracking.wandb import log_sweep

SUMMARY = "sweep.json"


def finish_sweep(config: DictConfig, folder: Path, trials: Sequence[Trial], directions: Sequence[str] = ()) -> None:
    """Writes, prints and logs what the trials found, and prints the folder last; nothing where no trial has results
    (a dry run).

    Args:
        directions: maximize or minimize, one an objective; none is maximize.
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
        _log(config, folder, summary, figures)
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
    found = json.loads(path.read_text(encoding="utf-8"))
    return found["trials"], found["directions"]


def jobs_as_trials(jobs: Sequence[Mapping[str, Any]]) -> list[Trial]:
    """Jobs of a plain multirun as trials: their params are the overrides in which they differ.

    Example:
        >>> jobs = [{"number": i, "state": "complete", "overrides": ["a=1", f"x={x}"]} for i, x in enumerate((0.1, 2))]
        >>> [trial["params"] for trial in jobs_as_trials(jobs)]
        [{'x': 0.1}, {'x': 2}]
    """
    given = [dict(one.partition("=")[::2] for one in job["overrides"]) for job in jobs]
    swept = {key for one in given for key in one if any(other.get(key) != one[key] for other in given)}
    return [
        {**job, "params": {key: _value(text) for key, text in one.items() if key in swept}}
        for job, one in zip(jobs, given, strict=True)
    ]


def _value(text: str) -> Any:
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    return value if isinstance(value, bool | int | float | str) else text


def _log(config: DictConfig, folder: Path, summary: Mapping[str, Any], figures: Mapping[str, Any]) -> None:
    """The summary run stands in the group of the trials' runs."""
    given = config.get("logger")
    if given is None:
        return
    whole = OmegaConf.create(
        {key: config[key] for key in config if key != "hydra" and not OmegaConf.is_missing(config, key)},
    )
    plain: dict[str, Any] = OmegaConf.to_container(whole, resolve=True)  # type: ignore[assignment]
    group = plain["logger"].get("group") or group_name(config.hydra)
    plain["logger"] |= {"name": f"{group} summary", "group": group, "save_dir": str(folder)}
    log_sweep(instantiate(plain["logger"]), mask_secrets(plain), summary, figures)
