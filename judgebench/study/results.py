"""The end of a study and of a sweep: the files in the sweep's folder, the table, the figures and the summary run."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna
import yaml
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from judgebench.metrics.objective import pareto_front
from judgebench.report.figures.style import save_figures
from judgebench.report.render import to_terminal
from judgebench.report.terminal import WIDTH, Terminal
from judgebench.results.masking import mask_secrets
from judgebench.runtime.errors import UserError
from judgebench.runtime.files import atomic
from judgebench.study.claims import ENDED, POINT, REASON, RETRY_OF
from judgebench.study.figures import front_figure, heatmaps
from judgebench.study.job import group_name
from judgebench.study.settings import Settings
from judgebench.study.storage import shown_storage
from judgebench.study.summary import Trial, exact_optima, summarize, summary_blocks
from judgebench.study.worker import WORKER
from judgebench.tracking.wandb import log_sweep

STUDY, RESULTS = "study.json", "optimization_results.yaml"


def check_folder(folder: Path, settings: Settings) -> None:
    """Checks that a sweep's folder is free of another stored study's trials, whose runs this one's would replace.

    Raises:
        UserError: it is not; names that study.
    """
    try:
        found = json.loads((folder / STUDY).read_text(encoding="utf-8"))
        there = found["study_name"], found["storage"]
    except (OSError, ValueError, KeyError, TypeError):  # no study has ended here
        return
    if there[1] is not None and there != (settings.study_name, shown_storage(settings.storage)):
        raise UserError(
            f"run_dir: {folder} holds the runs of study {there[0]} in {there[1]}; name another folder, as run_dir=DIR, "
            "or go on with that study."
        )


def write_results(
    folder: Path,
    study: optuna.Study,
    trials: Collection[FrozenTrial],
    settings: Settings,
    sampler: str,
    most: int,
) -> dict[str, Any]:
    """Writes both files and returns the content of study.json.

    study.json holds study_name, storage (no password), sampler, directions, n_trials, space; `best` (number, params,
    values; of several objectives `front`, a list of such); `trials`, each with number, state, params, values, seconds,
    attributes (what the job gave), and ended, reason, retry_of where there are such.

    Raises:
        UserError: the folder cannot be written.
    """
    best = [_short(trial) for trial in best_trials(trials, study.directions)]
    single = len(study.directions) == 1
    content = {
        "study_name": settings.study_name,
        "storage": shown_storage(settings.storage),
        "sampler": sampler,
        "directions": [direction.name.lower() for direction in study.directions],
        "n_trials": most,
        "space": study.user_attrs.get("space", {}),
        **({"best": best[0] if best else None} if single else {"front": best}),
        "trials": [_whole(trial) for trial in trials],
    }
    found: dict[str, Any] = {"name": "optuna"}
    if single:
        found |= {"best_params": best[0]["params"], "best_value": best[0]["values"][0]} if best else {}
    else:
        found |= {"solutions": [{"params": one["params"], "values": one["values"]} for one in best]}
    try:
        with atomic(folder / STUDY) as temporary:
            temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        with atomic(folder / RESULTS) as temporary:
            temporary.write_text(yaml.safe_dump(found, sort_keys=False, allow_unicode=True), encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"run_dir: what the sweep found cannot be written to {folder} ({error.strerror or error}); mend that, and "
            "start the same command again."
        ) from error
    return content


def best_trials(trials: Collection[FrozenTrial], directions: Sequence[StudyDirection]) -> list[FrozenTrial]:
    """The Pareto front of the complete trials, ascending by number; of one objective the first best alone."""
    done = sorted((trial for trial in trials if trial.state == TrialState.COMPLETE), key=lambda trial: trial.number)
    front = pareto_front([trial.values for trial in done], [direction.name.lower() for direction in directions])
    return [done[position] for position in (front[:1] if len(directions) == 1 else front)]


def _short(trial: FrozenTrial) -> dict[str, Any]:
    return {"number": trial.number, "params": trial.params, "values": _plain(trial.values)}


def _whole(trial: FrozenTrial) -> dict[str, Any]:
    given: Mapping[str, Any] = trial.user_attrs
    known = {key: given[key] for key in (ENDED, REASON, RETRY_OF) if key in given}
    began, ended = trial.datetime_start, trial.datetime_complete
    return {
        "number": trial.number,
        "state": trial.state.name.lower(),
        "params": trial.params,
        "values": _plain(trial.values),
        "seconds": round((ended - began).total_seconds(), 3) if began and ended else None,
        **known,
        "attributes": {
            key: value for key, value in given.items() if key not in (ENDED, REASON, RETRY_OF, POINT, WORKER)
        },
    }


def _plain(values: Sequence[float] | None) -> list[float | None] | None:
    return None if values is None else [value if math.isfinite(value) else None for value in values]


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
