"""The files of a study in the sweep's folder: study.json, and Hydra's own optimization_results.yaml."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna
import yaml
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from judgebench.metrics.pareto import pareto_front
from judgebench.runtime.errors import UserError
from judgebench.runtime.files import atomic
from judgebench.study.claims import ENDED, POINT, REASON, RETRY_OF
from judgebench.study.settings import Settings
from judgebench.study.storage import shown_storage
from judgebench.study.worker import WORKER

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
