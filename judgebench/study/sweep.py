"""A worker's loop: ask for a trial, run its job, write down its value, until the queue is empty."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from hydra.core.utils import JobReturn
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import Trial, TrialState

from judgebench.runtime.secrets import masked_argument
from judgebench.study import storage
from judgebench.study.queue import (
    DUPLICATE,
    ENDED,
    FAILED,
    LOST,
    REASON,
    Queue,
    count,
    failed,
    task_of,
)
from judgebench.study.space import Settings, Space, is_grid, sampler_for, sampler_name
from judgebench.types import Row
from judgebench.words.errors import UserError
from judgebench.words.terminal import print_safely

Launch = Callable[[Sequence[Sequence[str]], int], Sequence[JobReturn]]
"""Jobs' overrides and the first one's number -> what they returned, as Hydra's launchers do it."""

_SAMPLED = 20


def run_sweep(settings: Settings, space: Space, launch: Launch, folder: Path) -> None:
    """Works on the study until it is complete, together with other workers; `folder` gets
    study.json, also where too many trials failed. `UserError` of a study or folder that is
    another's, jobs that give no values to compare, or more failures than `max_failure_rate`
    allows."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage.check_folder(folder, settings)
    # 1. the tasks of the study: points of a grid, or samples
    if is_grid(settings.sampler):
        grid = space.grid()
        tasks = dict(itertools.islice(grid.items(), settings.n_trials))
    else:
        tasks = {f"sample {number}": {} for number in range(settings.n_trials or _SAMPLED)}
    name = sampler_name(settings.sampler)
    sampler = sampler_for(settings.sampler, settings.seed)
    differing = tuple(f"{key}." for key in settings.may_differ)
    fixed = []
    for override in space.fixed:
        key = override.lstrip("+~").partition("=")[0]
        if not f"{key}.".startswith(differing):
            fixed.append(masked_argument(override))
    opened = storage.open_storage(settings.storage)
    with storage.storage_errors(settings.storage):
        # 2. the study, with all of them in its queue
        study = storage.open_study(opened, settings, space, name, fixed)
        study.sampler = sampler
        queue = Queue(study, opened, space, tasks)
        queue.fill(settings.retry)
        there = count(queue.trials(), TrialState.COMPLETE)
        shown = storage.shown_storage(settings.storage)
        _say(
            f"study{f' {settings.study_name}' if settings.study_name else ''}: {name}, "
            f"{len(tasks)} trials" + (f", {there} of them there already" if there else ""),
            f"kept in {shown}" if shown else "kept in memory",
        )
        # 3. its trials, and their file, also where too many failed
        failure = None
        try:
            _Loop(settings, queue, launch).run()
        except UserError as error:
            failure = error
        storage.write_study(folder, study, queue.trials(), settings, name, len(tasks))
        if failure is not None:
            raise failure
        running = count(queue.trials(), TrialState.RUNNING)
        if running:
            trials = "1 trial is" if running == 1 else f"{running} trials are"
            _say(
                f"{trials} running: another worker is at work, or was killed; once none is, the "
                "same command with hydra.sweeper.retry=true runs them again"
            )


@dataclass
class _Loop:
    settings: Settings
    queue: Queue
    launch: Launch
    width: int = 0

    def run(self) -> None:
        queue = self.queue
        while True:
            self._check_failures()
            # as many trials as run at once
            batch: list[Trial] = []
            while len(batch) < self.settings.n_jobs and (trial := queue.take()) is not None:
                batch.append(trial)
            if not batch:
                # a worker that was interrupted has given its trials back
                queue.fill()
                trial = queue.take()
                if trial is None:
                    return
                batch.append(trial)
            self._work(batch)

    def _check_failures(self) -> None:
        """`UserError` where more trials failed than the settings allow."""
        trials = self.queue.trials()
        latest = {
            task_of(trial): trial for trial in trials if trial.user_attrs.get(ENDED) != DUPLICATE
        }
        failures = [trial for trial in latest.values() if failed(trial)]
        most = len(self.queue.tasks)
        if len(failures) > self.settings.max_failure_rate * most:
            raise UserError(
                f"{len(failures)} of {most} trials failed, more than "
                f"hydra.sweeper.max_failure_rate={self.settings.max_failure_rate:g} allows; the "
                f"last one: {failures[-1].user_attrs.get(REASON, 'no reason was recorded')}"
            )

    def _work(self, batch: Sequence[Trial]) -> None:
        """Runs the batch's jobs. Hydra numbers jobs on from the first; so are trials, unless
        workers alternate."""
        queue = self.queue
        parts: list[list[Trial]] = []
        for trial in batch:
            if parts and parts[-1][-1].number + 1 == trial.number:
                parts[-1].append(trial)
            else:
                parts.append([trial])
        running = {trial.number for trial in batch}
        try:
            for part in parts:
                jobs = [queue.space.overrides(trial.params) for trial in part]
                try:
                    results: Sequence[JobReturn | Exception] = self.launch(jobs, part[0].number)
                # a job that cannot be composed
                except (HydraException, OmegaConfBaseException) as error:
                    results = [error] * len(part)
                for trial, result in zip(part, results, strict=True):
                    self._end(trial, result)
                    running.discard(trial.number)
        except BaseException as error:
            why = (
                "interrupted"
                if isinstance(error, KeyboardInterrupt)
                else f"the sweep ended: {_line(error)}"
            )
            for number in running:
                queue.close(number, LOST, why)
            raise

    def _end(self, running: Trial, result: JobReturn | Exception) -> None:
        """Ends a trial with its job's result and prints it; a trial that another worker was given
        stays as it is."""
        queue = self.queue
        number = running.number
        outcome = _outcome(result, len(queue.study.directions))
        if isinstance(outcome, str):
            ours = queue.close(number, FAILED, outcome)
        else:
            try:
                values, attributes = outcome
                for key, value in attributes.items():
                    running.set_user_attr(str(key), value)
                queue.study.tell(running, values)
                ours = True
            except (UpdateFinishedTrialError, ValueError):
                ours = False
        # a line for the reader: the point, its value, and the best so far
        trial = queue.trials()[number]
        point = queue.space.shown(trial.params)
        self.width = max(self.width, len(point))
        line = [f"trial {number:>{len(str(len(queue.tasks)))}}", f"{point:<{self.width}}"]
        best = storage.best_trials(queue.study)
        if not ours:
            line = [line[0], point, "another worker has taken it over"]
        elif trial.state != TrialState.COMPLETE:
            line.append(f"failed: {trial.user_attrs.get(REASON, '')}")
        elif len(queue.study.directions) > 1:
            here = ", this one among them" if number in {other.number for other in best} else ""
            line += [_number(trial.values), f"front of {len(best)}{here}"]
        else:
            line.append(_number(trial.values))
            line.append(f"best {_number(best[0].values)} (trial {best[0].number})")
        _say(*line)


def _outcome(result: JobReturn | Exception, objectives: int) -> tuple[list[float], Row] | str:
    """The outcome of a job: its values and attributes, or the reason why it has none; `UserError`
    where they cannot be compared, as those of all others then will."""
    # the property raises what failed
    returned = result if isinstance(result, Exception) else result._return_value
    if isinstance(returned, BaseException):
        return _line(returned)
    attributes: Row = {}
    if isinstance(returned, Mapping):
        attributes = returned.get("attributes") or {}
        returned = returned.get("values")
    values: list[Any] = (
        list(returned)
        if isinstance(returned, Sequence) and not isinstance(returned, str)
        else [returned]
    )
    if not values or any(
        isinstance(value, bool) or not isinstance(value, int | float) for value in values
    ):
        raise UserError(
            f"objective: a job returned {returned!r}, which a sweep cannot compare; name what it "
            "maximizes."
        )
    if len(values) != objectives:
        raise UserError(
            f"hydra.sweeper.direction: it has {objectives} entries and a job returned "
            f"{len(values)} values; give one direction for each entry of objective."
        )
    if not all(map(math.isfinite, values)):
        return f"the objective is {', '.join(map(str, values))}"
    return [float(value) for value in values], attributes


def _line(error: BaseException) -> str:
    sentence = getattr(error, "sentence", None) or " ".join(str(error).split())[:500]
    known = isinstance(error, UserError | HydraException | OmegaConfBaseException) or hasattr(
        error, "sentence"
    )
    return sentence if known and sentence else f"{type(error).__name__}: {sentence}".rstrip(": ")


def _say(*parts: str) -> None:
    print_safely("  ".join(part for part in parts if part))


def _number(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.4f}" for value in values)
