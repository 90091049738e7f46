"""What a sweep prints while it runs: one short line a trial."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from judgebench.study.claims import REASON, Standing
from judgebench.study.results import best_trials
from judgebench.study.space import Space


class Live:
    """Prints, and nothing else.

    Args:
        most: trials that the study is to have.
    """

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
        """A trial of this worker's has ended; `ours` is false where another worker took it over meanwhile."""
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
