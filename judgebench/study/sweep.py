"""A worker's loop: take a point, run its job, write down what came of it, until the study is complete."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from hydra.core.utils import JobReturn
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException
from optuna.exceptions import UpdateFinishedTrialError
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from judgebench.runtime.errors import UserError
from judgebench.runtime.secrets import masked_argument
from judgebench.study.claims import FAILED, LOST, REASON, Claims, Heartbeat, Standing, Watch, Worker, failed, grid_of
from judgebench.study.space import Settings, Space, is_grid, sampler_for, sampler_name
from judgebench.study.storage import (
    best_trials,
    check_folder,
    open_storage,
    open_study,
    shown_storage,
    storage_errors,
    write_results,
)

Launch = Callable[[Sequence[Sequence[str]], int], Sequence[JobReturn]]
"""Jobs' overrides and the first one's number -> what they returned, as Hydra's launchers do it."""

_POLL = 0.5
_MISSED_BEATS = 6
_SAMPLED = 20


def run_sweep(settings: Settings, space: Space, launch: Launch, folder: Path) -> optuna.Study:
    """Works on the study until it is complete, together with other workers.

    Args:
        launch: runs jobs; of a batch, at most `settings.n_jobs` at once.
        folder: gets study.json and optimization_results.yaml, also where too many trials failed.

    Raises:
        UserError: a mistake in the settings, a study that does not fit, a folder that is another's, jobs that give no
            values to compare, or more failures than `max_failure_rate` allows.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    check_folder(folder, settings)
    if not is_grid(settings.sampler):
        grid, most = None, settings.n_trials or _SAMPLED
    else:
        grid = grid_of(space)
        most = min(settings.n_trials or len(grid), len(grid))
    sampler = sampler_for(settings.sampler, settings.seed)
    storage = open_storage(settings.storage)
    fixed = [masked_argument(one) for one in space.fixed if not _may_differ(one, settings.may_differ)]
    name = sampler_name(settings.sampler)
    with storage_errors(settings.storage):
        study = open_study(storage, settings.study_name, settings.directions, space.described(), name, fixed)
        study.sampler = sampler(0)

        def seed(number: int) -> None:
            study.sampler = sampler(number)

        watch, me = Watch(_MISSED_BEATS * settings.heartbeat), Worker.me()
        claims = Claims(study, storage, space, me, grid, most, watch, seed)
        if settings.retry_failed:
            claims.forgiven = frozenset(trial.number for trial in claims.trials() if failed(trial))
        live = Live(space, most, study.directions)
        live.begins(settings.study_name, name, shown_storage(settings.storage), claims.standing())
        loop = _Loop(settings, claims, live, launch)
        try:
            loop.run()
        except UserError:
            write_results(folder, study, claims.trials(), settings, name, most)
            raise
        write_results(folder, study, claims.trials(), settings, name, most)
    return study


@dataclass
class _Loop:
    settings: Settings
    claims: Claims
    live: Live
    launch: Launch

    def run(self) -> None:
        waiting = False
        while True:
            standing = self.claims.standing()
            self._check_failures(standing)
            batch = self._batch(standing)
            if batch:
                waiting = False
                self._work(batch)
                continue
            # a point may have become free, or another worker been faster, in between
            standing = self.claims.standing()
            running = standing.count(TrialState.RUNNING)
            if not running and not self.claims.some_free(standing):
                return
            if running and not waiting:
                self.live.waits(running)
                waiting = True
            if running:
                time.sleep(_POLL)

    def _batch(self, standing: Standing) -> list[FrozenTrial]:
        batch: list[FrozenTrial] = []
        while len(batch) < self.settings.n_jobs:
            trial = self.claims.take(standing)
            if trial is None:
                break
            batch.append(trial)
            if len(batch) < self.settings.n_jobs:
                standing = self.claims.standing()
        return batch

    def _work(self, batch: Sequence[FrozenTrial]) -> None:
        """Runs the batch's jobs. Hydra numbers jobs on from the first; so are trials, unless workers alternate."""
        claims = self.claims
        ids = [claims.trial_id(trial.number) for trial in batch]
        open_trials = {trial.number for trial in batch}
        try:
            with Heartbeat(claims.storage, ids, claims.me, self.settings.heartbeat):
                for part in _consecutive(batch):
                    jobs = [claims.space.overrides(trial.params) for trial in part]
                    try:
                        returned: Sequence[JobReturn | Exception] = self.launch(jobs, part[0].number)
                    except (HydraException, OmegaConfBaseException) as error:  # a job that cannot be composed
                        returned = [error] * len(part)
                    for trial, one in zip(part, returned, strict=True):
                        self._tell(trial, one)
                        open_trials.discard(trial.number)
        except BaseException as error:
            why = "interrupted" if isinstance(error, KeyboardInterrupt) else f"the sweep ended: {_line(error)}"
            for number in open_trials:
                claims.close(number, LOST, why)
            raise

    def _tell(self, trial: FrozenTrial, returned: JobReturn | Exception) -> None:
        claims = self.claims
        outcome = _outcome(returned, len(claims.study.directions))
        trial_id = claims.trial_id(trial.number)
        if isinstance(outcome, str):
            ours = claims.close(trial.number, FAILED, outcome)
        else:
            try:
                values, attributes = outcome
                for key, value in attributes.items():
                    claims.storage.set_trial_user_attr(trial_id, str(key), value)
                claims.study.tell(trial.number, values)
                ours = True
            except (UpdateFinishedTrialError, ValueError):
                # taken for dead, and its point given to another worker
                ours = claims.storage.get_trial(trial_id).state == TrialState.COMPLETE
        self.live.ended(claims.storage.get_trial(trial_id), claims.trials(), ours)

    def _check_failures(self, standing: Standing) -> None:
        failures = [trial for trial in standing.holders.values() if failed(trial)]
        if len(failures) > self.settings.max_failure_rate * self.claims.most:
            reason = str(failures[-1].user_attrs.get("reason", "no reason was recorded"))
            raise UserError(
                f"{len(failures)} of {self.claims.most} trials failed, more than hydra.sweeper.max_failure_rate="
                f"{self.settings.max_failure_rate:g} allows; the last one: {reason}"
            )


def _outcome(returned: JobReturn | Exception, objectives: int) -> tuple[list[float], Mapping[str, Any]] | str:
    """The outcome of a job: its values, or the reason why it has none; `UserError` where they cannot be compared, as
    those of all others then will."""
    if isinstance(returned, Exception):
        return _line(returned)
    given = returned._return_value  # the property raises, and prints, what failed
    if isinstance(given, BaseException):
        return _line(given)
    attributes: Mapping[str, Any] = {}
    if isinstance(given, Mapping):
        attributes, given = given.get("attributes") or {}, given.get("values")
    values = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    if not values or any(isinstance(one, bool) or not isinstance(one, int | float) for one in values):
        raise UserError(f"objective: a job returned {given!r}, which a sweep cannot compare; name what it maximizes.")
    if len(values) != objectives:
        raise UserError(
            f"hydra.sweeper.direction: it has {objectives} entries and a job returned {len(values)} values; give one "
            "direction for each entry of objective."
        )
    if not all(math.isfinite(one) for one in values):
        return f"the objective is {', '.join(map(str, values))}"
    return [float(one) for one in values], attributes


def _line(error: BaseException) -> str:
    sentence = getattr(error, "sentence", None) or " ".join(str(error).split())[:500]
    known = isinstance(error, UserError | HydraException | OmegaConfBaseException) or hasattr(error, "sentence")
    return sentence if known and sentence else f"{type(error).__name__}: {sentence}".rstrip(": ")


def _consecutive(batch: Sequence[FrozenTrial]) -> list[list[FrozenTrial]]:
    parts: list[list[FrozenTrial]] = []
    for trial in batch:
        if parts and parts[-1][-1].number + 1 == trial.number:
            parts[-1].append(trial)
        else:
            parts.append([trial])
    return parts


def _may_differ(override: str, keys: Sequence[str]) -> bool:
    key = override.lstrip("+~").partition("=")[0]
    return any(key == one or key.startswith(f"{one}.") for one in keys)


class Live:
    """Prints the progress of a study; `most` is the number of its trials."""

    def __init__(self, space: Space, most: int, directions: Sequence[StudyDirection]) -> None:
        self._space, self._most, self._directions = space, most, list(directions)
        self._width = 0

    def begins(self, name: str | None, sampler: str, storage: str | None, standing: Standing) -> None:
        """Says which study this is, and what it has already."""
        there = standing.count(TrialState.COMPLETE)
        _say(
            f"study{f' {name}' if name else ''}: {sampler}, {self._most} trials"
            + (f", {there} of them there already" if there else ""),
            f"kept in {storage}" if storage else "kept in memory",
        )

    def ended(self, trial: FrozenTrial, trials: Collection[FrozenTrial], ours: bool) -> None:
        """Says how a trial of this worker ended; `ours` is false where another worker has taken it over."""
        head = f"trial {trial.number:>{len(str(self._most))}}"
        point = self._space.shown(trial.params)
        self._width = max(self._width, len(point))
        if not ours:
            _say(head, point, "another worker has taken it over")
            return
        if trial.state != TrialState.COMPLETE:
            _say(head, f"{point:<{self._width}}", f"failed: {trial.user_attrs.get(REASON, '')}")
            return
        best = best_trials(trials, self._directions)
        if len(self._directions) == 1:
            tail = f"best {_number(best[0].values)} (trial {best[0].number})" if best else ""
        else:
            tail = f"front of {len(best)}{', this one among them' if trial.number in {b.number for b in best} else ''}"
        _say(head, f"{point:<{self._width}}", _number(trial.values), tail)

    def waits(self, running: int) -> None:
        """Nothing is free, but other workers may die on what they have."""
        _say(f"waiting for {running} {'trial' if running == 1 else 'trials'} of other workers")


def _say(*parts: str) -> None:
    print("  ".join(part for part in parts if part), flush=True)


def _number(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.4f}" for value in values)
