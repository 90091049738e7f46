"""Claims on points: every point of a study is run by one worker, whatever is killed when.

No worker leads, and no lock is held. A trial is made running, with its point and its worker in it, by one write. Trials
are numbered in the order in which they are made, so of two that stand for the same point all workers agree on the lower
number; who made the other closes it and never runs it. A dead worker's trial is closed as lost, and its point stands
free again: whoever looks next may take it, and it makes no difference how far the one who closed it came.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from judgebench.study.space import Space, Value, point_key
from judgebench.study.worker import WORKER, Watch, Worker

ENDED, REASON, RETRY_OF, POINT = "ended", "reason", "retry_of", "point"
"""User attributes: how a trial without a value ended and why, the lost trial that it repeats, its point of the grid."""

FAILED, LOST, DUPLICATE, SURPLUS = "failed", "lost", "duplicate", "surplus"
"""Values of `ENDED`: the job failed; its worker died; another worker was first; the study had enough trials."""


@dataclass
class Standing:
    """The state of a study, at one look.

    Attributes:
        holders: what a trial stands for -> the trial that holds it: running, complete or failed, the lowest number.
        lost: what nobody holds any more -> the lost trial whose point it was.
    """

    holders: dict[str, FrozenTrial] = field(default_factory=dict)
    lost: dict[str, FrozenTrial] = field(default_factory=dict)

    @classmethod
    def of(cls, trials: Collection[FrozenTrial], forgiven: Collection[int] = ()) -> Standing:
        """Reads a study's trials; failed ones whose number is `forgiven` hold nothing."""
        standing = cls()
        for trial in sorted(trials, key=lambda trial: trial.number):
            key = task(trial)
            if _holds(trial) and trial.number not in forgiven:
                standing.holders.setdefault(key, trial)
            elif trial.user_attrs.get(ENDED) in (LOST, FAILED):
                standing.lost.setdefault(key, trial)
        standing.lost = {key: trial for key, trial in standing.lost.items() if key not in standing.holders}
        return standing

    def count(self, *states: TrialState) -> int:
        """The number of holders in one of the states."""
        return sum(trial.state in states for trial in self.holders.values())


@dataclass
class Claims:
    """Takes points for one worker.

    Attributes:
        grid: the points to be run, each once, by `point_key`; None where a sampler makes points up.
        most: trials to complete.
        before_sampling: told the number of a trial before its point is drawn.
        forgiven: numbers of failed trials whose points are run again.
    """

    study: optuna.Study
    storage: BaseStorage
    space: Space
    me: Worker
    grid: Mapping[str, Mapping[str, Value]] | None
    most: int
    watch: Watch
    before_sampling: Callable[[int], None] = lambda number: None
    forgiven: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        self._study_id = self.storage.get_study_id_from_name(self.study.study_name)
        self._taken: set[int] = set()

    def trials(self) -> list[FrozenTrial]:
        """All trials of the study, as they are now."""
        return self.storage.get_all_trials(self._study_id, deepcopy=False)

    def standing(self) -> Standing:
        """The state of the study now, once the trials of dead workers are closed."""
        trials = self.trials()
        gone = [t for t in trials if t.state == TrialState.RUNNING and (self._left(t) or self.watch.dead(t))]
        for trial in gone:
            self.close(trial.number, LOST, "its worker died")
        return Standing.of(self.trials() if gone else trials, self.forgiven)

    def take(self, standing: Standing) -> FrozenTrial | None:
        """The next trial for this worker, running; None where nothing is free or another worker was faster."""
        if standing.count(TrialState.RUNNING, TrialState.COMPLETE) >= self.most:
            return None
        if self.grid is not None:
            free = next((key for key in self.grid if key not in standing.holders), None)
            if free is None:
                return None
            return self._first(self._make(self.grid[free], {POINT: free}))
        # one that died while it was drawing has half a point, and nothing is lost with it
        lost = next((one for one in standing.lost.values() if one.params.keys() == self.space.params.keys()), None)
        if lost is not None:
            return self._first(self._make(lost.params, {RETRY_OF: lost.user_attrs.get(RETRY_OF, lost.number)}))
        number = self._make({}, {})
        self.before_sampling(number)
        trial = Trial(self.study, self.trial_id(number))
        for key, distribution in self.space.distributions.items():
            _suggest(trial, key, distribution)
        return self._first(number)

    def close(self, number: int, how: str, reason: str) -> bool:
        """Ends a running trial without a value; False where somebody else ended it before."""
        trial_id = self.trial_id(number)
        try:
            self.storage.set_trial_user_attr(trial_id, ENDED, how)
            self.storage.set_trial_user_attr(trial_id, REASON, reason)
            return self.storage.set_trial_state_values(trial_id, TrialState.FAIL)
        except UpdateFinishedTrialError:
            return False

    def trial_id(self, number: int) -> int:
        """A trial's number in the storage."""
        return self.storage.get_trial_id_from_study_id_trial_number(self._study_id, number)

    def _left(self, trial: FrozenTrial) -> bool:
        """True where an earlier sweep of this same process left the trial behind."""
        mine = self.me.attribute(0).items() - {("beat", 0)}
        return trial.number not in self._taken and mine <= (trial.user_attrs.get(WORKER) or {}).items()

    def _make(self, point: Mapping[str, Value], attributes: Mapping[str, Any]) -> int:
        """A new running trial, whole at once: a kill leaves no trial without its worker's name."""
        template = create_trial(
            state=TrialState.RUNNING,
            params=dict(point),
            distributions={key: self.space.params[key].distribution for key in point},
            user_attrs={WORKER: self.me.attribute(0), **attributes},
        )
        number = self.storage.get_trial(self.storage.create_new_trial(self._study_id, template)).number
        self._taken.add(number)
        return number

    def _first(self, number: int) -> FrozenTrial | None:
        """The trial, if no earlier one stands for the same and the study has not enough without it."""
        trials = self.trials()
        mine = next(trial for trial in trials if trial.number == number)
        earlier = Standing.of([trial for trial in trials if trial.number < number], self.forgiven)
        if task(mine) in earlier.holders:
            self.close(number, DUPLICATE, f"trial {earlier.holders[task(mine)].number} has the same point")
            return None
        if earlier.count(TrialState.RUNNING, TrialState.COMPLETE) >= self.most:
            self.close(number, SURPLUS, f"the study has its {self.most} trials")
            return None
        return mine


def task(trial: FrozenTrial) -> str:
    """The point of the grid that a trial stands for, or the sample, which its repetitions share."""
    attributes = trial.user_attrs
    if POINT in attributes:
        return str(attributes[POINT])
    return f"sample {attributes.get(RETRY_OF, trial.number)}"


def grid_of(space: Space) -> dict[str, dict[str, Value]]:
    """The points of the grid, by `point_key`."""
    return {point_key(point): point for point in space.grid()}


def failed(trial: FrozenTrial) -> bool:
    """True where the trial's job failed: not closed for a reason that is none of the job's."""
    return trial.state == TrialState.FAIL and trial.user_attrs.get(ENDED, FAILED) == FAILED


def _holds(trial: FrozenTrial) -> bool:
    return trial.state in (TrialState.RUNNING, TrialState.COMPLETE) or failed(trial)


def _suggest(trial: Trial, key: str, distribution: optuna.distributions.BaseDistribution) -> None:
    if isinstance(distribution, optuna.distributions.CategoricalDistribution):
        trial.suggest_categorical(key, distribution.choices)
    elif isinstance(distribution, optuna.distributions.IntDistribution):
        trial.suggest_int(key, distribution.low, distribution.high, step=distribution.step, log=distribution.log)
    elif isinstance(distribution, optuna.distributions.FloatDistribution):
        trial.suggest_float(key, distribution.low, distribution.high, step=distribution.step, log=distribution.log)
