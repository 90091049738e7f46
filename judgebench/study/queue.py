"""The queue of a study: Optuna's own waiting trials, which several workers share.

A worker puts every task of the study into the queue and asks for the next one. Optuna makes a
waiting trial running by one atomic write, in databases and in journals, so each is run by one
worker. Two workers that fill the queue at the same moment may add a task twice; whoever is given
the second one closes it. A worker that is killed leaves its trials running: `retry` runs them
again, which costs seconds, since their readings are stored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, Trial, TrialState

from judgebench.study.space import Space, Value
from judgebench.types import Record

TASK = "point"
"""User attribute of a trial: the point of the grid that it runs, or the number of its sample."""

RETRY_OF = "retry_of"
"""User attribute: the number of the trial that this one repeats."""

ENDED = "ended"
REASON = "reason"
"""User attributes of a trial without a value: how it ended (see `FAILED`), and why."""

FAILED = "failed"
LOST = "lost"
DUPLICATE = "duplicate"
"""Values of `ENDED`: its job failed; its worker was stopped; another trial runs the same task."""


def task_of(trial: FrozenTrial) -> str:
    """The task of a trial. Trials of earlier versions name the points of grids alone."""
    sample = trial.user_attrs.get(RETRY_OF, trial.number)
    return str(trial.user_attrs.get(TASK) or f"sample {sample}")


def failed(trial: FrozenTrial) -> bool:
    """True where the job of the trial failed, and the trial was not closed for another reason."""
    return trial.state == TrialState.FAIL and trial.user_attrs.get(ENDED, FAILED) == FAILED


def count(trials: Collection[FrozenTrial], *states: TrialState) -> int:
    """The number of tasks that have a trial in one of some states."""
    return len({task_of(trial) for trial in trials if trial.state in states})


@dataclass
class Queue:
    """The tasks of a study, each to be completed once.

    Attributes:
        tasks: task -> its point, see `Space.grid`; an empty point is drawn by the study's sampler.
    """

    study: optuna.Study
    storage: BaseStorage
    space: Space
    tasks: Mapping[str, Mapping[str, Value]]

    def __post_init__(self) -> None:
        self._study_id = self.storage.get_study_id_from_name(self.study.study_name)

    def trials(self) -> list[FrozenTrial]:
        return self.storage.get_all_trials(self._study_id, deepcopy=False)

    def fill(self, retry: bool = False) -> None:
        """Puts every task into the queue that no trial stands for.

        Args:
            retry: tasks of failed and of running trials, too; workers that still run lose theirs.
        """
        free = {LOST, FAILED} if retry else {LOST}
        standing = set()
        latest: dict[str, FrozenTrial] = {}
        for trial in self.trials():
            task = task_of(trial)
            ended = trial.user_attrs.get(ENDED, FAILED)
            # 1. trials that were closed before they began stand for nothing
            if trial.state == TrialState.FAIL and ended not in (LOST, FAILED):
                continue
            latest[task] = trial
            # 2. a running trial is another worker's, or of one that was killed
            if retry and trial.state == TrialState.RUNNING:
                self.close(trial.number, LOST, "its worker was stopped")
            elif trial.state != TrialState.FAIL or ended not in free:
                standing.add(task)
        # 3. a task that was begun is repeated with the same point, if it has a whole one
        for task, point in self.tasks.items():
            if task in standing:
                continue
            attributes: Record = {TASK: task}
            params = dict(point)
            if task in latest:
                attributes[RETRY_OF] = latest[task].number
                if latest[task].params.keys() == self.space.params.keys():
                    params = latest[task].params
            self.study.enqueue_trial(params, user_attrs=attributes)

    def take(self) -> Trial | None:
        """The next trial for this worker, running; None where the queue is empty."""
        distributions = {key: param.distribution for key, param in self.space.params.items()}
        while self._waiting():
            trial = self.study.ask(distributions)
            # 1. another worker was faster, so Optuna made a trial that stands for no task
            if TASK not in trial.user_attrs:
                self.close(trial.number, DUPLICATE, "the queue was empty")
                continue
            # 2. of several trials for one attempt at a task, the first is run
            attempt = [trial.user_attrs.get(key) for key in (TASK, RETRY_OF)]
            first = next(
                other.number
                for other in self.trials()
                if [other.user_attrs.get(key) for key in (TASK, RETRY_OF)] == attempt
            )
            if first == trial.number:
                return trial
            self.close(trial.number, DUPLICATE, f"trial {first} runs the same task")
        return None

    def _waiting(self) -> bool:
        """True where the queue has a trial, and the study needs another."""
        trials = self.trials()
        begun = count(trials, TrialState.RUNNING, TrialState.COMPLETE)
        return begun < len(self.tasks) and any(
            trial.state == TrialState.WAITING for trial in trials
        )

    def close(self, number: int, how: str, reason: str) -> bool:
        """Ends a running trial without a value; False where another worker ended it before."""
        trial_id = self.storage.get_trial_id_from_study_id_trial_number(self._study_id, number)
        try:
            self.storage.set_trial_user_attr(trial_id, ENDED, how)
            self.storage.set_trial_user_attr(trial_id, REASON, reason)
            return self.storage.set_trial_state_values(trial_id, TrialState.FAIL)
        except UpdateFinishedTrialError:
            return False
