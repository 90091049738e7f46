"""A worker's loop: take a point, run its job, write down what came of it, until the study is complete."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from hydra.core.utils import JobReturn
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, TrialState

from judgebench.runtime.errors import UserError
from judgebench.runtime.secrets import masked_argument
from judgebench.runtime.terminal import print_safely
from judgebench.study import storage
from judgebench.study.space import Settings, Space, is_grid, sampler_for, sampler_name
from judgebench.study.storage import FAILED, LOST, REASON, Claims, Watch, beating, count, failed, this_process

Launch = Callable[[Sequence[Sequence[str]], int], Sequence[JobReturn]]
"""Jobs' overrides and the first one's number -> what they returned, as Hydra's launchers do it."""

_POLL = 0.5
_MISSED_BEATS = 6
_SAMPLED = 20


def run_sweep(settings: Settings, space: Space, launch: Launch, folder: Path) -> None:
    """Works on the study until it is complete, together with other workers; `folder` gets study.json, also where too
    many trials failed. `UserError` of a study or folder that is another's, jobs that give no values to compare, or more
    failures than `max_failure_rate` allows."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage.check_folder(folder, settings)
    grid = space.grid() if is_grid(settings.sampler) else None
    most = settings.n_trials or (_SAMPLED if grid is None else len(grid))
    most = most if grid is None else min(most, len(grid))
    sampler, name = sampler_for(settings.sampler, settings.seed), sampler_name(settings.sampler)
    opened = storage.open_storage(settings.storage)
    fixed = [
        masked_argument(override)
        for override in space.fixed
        if not any(f"{override.lstrip('+~').partition('=')[0]}.".startswith(f"{key}.") for key in settings.may_differ)
    ]
    with storage.storage_errors(settings.storage):
        study = storage.open_study(opened, settings, space, name, fixed)
        study.sampler = sampler(0)
        watch = Watch(_MISSED_BEATS * settings.heartbeat)
        claims = Claims(study, opened, space, this_process(), grid, most, watch, sampler)
        if settings.retry_failed:
            claims.forgiven = frozenset(trial.number for trial in claims.trials() if failed(trial))
        there, shown = count(claims.holders(), TrialState.COMPLETE), storage.shown_storage(settings.storage)
        _say(
            f"study{f' {settings.study_name}' if settings.study_name else ''}: {name}, {most} trials"
            + (f", {there} of them there already" if there else ""),
            f"kept in {shown}" if shown else "kept in memory",
        )
        failure = None
        try:
            _Loop(settings, claims, launch).run()
        except UserError as error:
            failure = error
        storage.write_study(folder, study, claims.trials(), settings, name, most)
        if failure is not None:
            raise failure


@dataclass
class _Loop:
    settings: Settings
    claims: Claims
    launch: Launch
    width: int = 0

    def run(self) -> None:
        claims, most, waiting = self.claims, self.claims.most, False
        while True:
            holders = claims.holders()
            # 1. too many failures end the sweep
            failures = [trial for trial in holders.values() if failed(trial)]
            if len(failures) > self.settings.max_failure_rate * most:
                raise UserError(
                    f"{len(failures)} of {most} trials failed, more than hydra.sweeper.max_failure_rate="
                    f"{self.settings.max_failure_rate:g} allows; the last one: "
                    f"{failures[-1].user_attrs.get(REASON, 'no reason was recorded')}"
                )
            # 2. as many points as run at once
            batch: list[FrozenTrial] = []
            while len(batch) < self.settings.n_jobs and (trial := claims.take(holders)) is not None:
                batch.append(trial)
                holders = claims.holders() if len(batch) < self.settings.n_jobs else holders
            if batch:
                waiting = False
                self._work(batch)
                continue
            # 3. nothing was free; a point may have become so, or another worker been faster, in between
            holders = claims.holders()
            running = count(holders, TrialState.RUNNING)
            if not running and not claims.some_free(holders):
                return
            if running and not waiting:
                _say(f"waiting for {running} {'trial' if running == 1 else 'trials'} of other workers")
                waiting = True
            if running:
                time.sleep(_POLL)

    def _work(self, batch: Sequence[FrozenTrial]) -> None:
        """Runs the batch's jobs. Hydra numbers jobs on from the first; so are trials, unless workers alternate."""
        claims = self.claims
        parts: list[list[FrozenTrial]] = []
        for trial in batch:
            if parts and parts[-1][-1].number + 1 == trial.number:
                parts[-1].append(trial)
            else:
                parts.append([trial])
        ids = [claims.trial_id(trial.number) for trial in batch]
        running = {trial.number for trial in batch}
        try:
            with beating(claims.storage, ids, claims.worker, self.settings.heartbeat):
                for part in parts:
                    jobs = [claims.space.overrides(trial.params) for trial in part]
                    try:
                        results: Sequence[JobReturn | Exception] = self.launch(jobs, part[0].number)
                    except (HydraException, OmegaConfBaseException) as error:  # a job that cannot be composed
                        results = [error] * len(part)
                    for trial, result in zip(part, results, strict=True):
                        self._end(trial, result)
                        running.discard(trial.number)
        except BaseException as error:
            why = "interrupted" if isinstance(error, KeyboardInterrupt) else f"the sweep ended: {_line(error)}"
            for number in running:
                claims.close(number, LOST, why)
            raise

    def _end(self, trial: FrozenTrial, result: JobReturn | Exception) -> None:
        """Ends a trial with what its job returned, and says so; a worker that was taken for dead ends nothing."""
        claims, number = self.claims, trial.number
        trial_id = claims.trial_id(number)
        outcome = _outcome(result, len(claims.study.directions))
        if isinstance(outcome, str):
            ours = claims.close(number, FAILED, outcome)
        else:
            try:
                values, attributes = outcome
                for key, value in attributes.items():
                    claims.storage.set_trial_user_attr(trial_id, str(key), value)
                claims.study.tell(number, values)
                ours = True
            except (UpdateFinishedTrialError, ValueError):  # its point was given to another worker
                ours = claims.storage.get_trial(trial_id).state == TrialState.COMPLETE
        # a line for the reader: the point, its value, and the best so far
        trial = claims.storage.get_trial(trial_id)
        point = claims.space.shown(trial.params)
        self.width = max(self.width, len(point))
        line = [f"trial {number:>{len(str(claims.most))}}", f"{point:<{self.width}}"]
        best = storage.best_trials(claims.trials(), claims.study.directions)
        if not ours:
            line = [line[0], point, "another worker has taken it over"]
        elif trial.state != TrialState.COMPLETE:
            line.append(f"failed: {trial.user_attrs.get(REASON, '')}")
        elif len(claims.study.directions) > 1:
            here = ", this one among them" if number in {other.number for other in best} else ""
            line += [_number(trial.values), f"front of {len(best)}{here}"]
        else:
            line += [_number(trial.values), f"best {_number(best[0].values)} (trial {best[0].number})" if best else ""]
        _say(*line)


def _outcome(result: JobReturn | Exception, objectives: int) -> tuple[list[float], Mapping[str, Any]] | str:
    """The outcome of a job: its values and attributes, or the reason why it has none; `UserError` where they cannot be
    compared, as those of all others then will."""
    returned = result if isinstance(result, Exception) else result._return_value  # the property raises what failed
    if isinstance(returned, BaseException):
        return _line(returned)
    attributes: Mapping[str, Any] = {}
    if isinstance(returned, Mapping):
        attributes, returned = returned.get("attributes") or {}, returned.get("values")
    values: list[Any] = (
        list(returned) if isinstance(returned, Sequence) and not isinstance(returned, str) else [returned]
    )
    if not values or any(isinstance(value, bool) or not isinstance(value, int | float) for value in values):
        raise UserError(
            f"objective: a job returned {returned!r}, which a sweep cannot compare; name what it maximizes."
        )
    if len(values) != objectives:
        raise UserError(
            f"hydra.sweeper.direction: it has {objectives} entries and a job returned {len(values)} values; give one "
            "direction for each entry of objective."
        )
    if not all(map(math.isfinite, values)):
        return f"the objective is {', '.join(map(str, values))}"
    return [float(value) for value in values], attributes


def _line(error: BaseException) -> str:
    sentence = getattr(error, "sentence", None) or " ".join(str(error).split())[:500]
    known = isinstance(error, UserError | HydraException | OmegaConfBaseException) or hasattr(error, "sentence")
    return sentence if known and sentence else f"{type(error).__name__}: {sentence}".rstrip(": ")


def _say(*parts: str) -> None:
    print_safely("  ".join(part for part in parts if part))


def _number(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.4f}" for value in values)
