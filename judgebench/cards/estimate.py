"""From a judge's scores to the scale on which the humans score: a map that is fitted on the development split."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from judgebench.runtime.errors import UserError
from judgebench.types import ScoreRange

KINDS = ("linear", "isotonic", "none")


@dataclass(frozen=True)
class Estimate:
    """A map from the judge's score to a human's: straight lines between knots, flat beyond the last.

    Attributes:
        kind: `linear`, least squares; or `isotonic`, the best map that never falls.
        scores: [knots] the judge's, ascending.
        humans: [knots] the humans', never falling.
    """

    kind: str
    scores: tuple[float, ...]
    humans: tuple[float, ...]

    def __post_init__(self) -> None:
        knots = np.array([self.scores, self.humans], dtype=float) if len(self.scores) == len(self.humans) else None
        if (
            knots is None
            or not knots.size
            or not np.isfinite(knots).all()
            or (np.diff(knots[0]) < 0).any()
            or (np.diff(knots[1]) < 0).any()
        ):
            raise UserError(
                "estimate: its knots must be as many scores as humans, finite, the scores ascending and the humans "
                "never falling."
            )

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        """[n] float64 what the humans would have scored.

        Example:
            >>> Estimate("linear", (0.0, 4.0), (1.0, 5.0))(np.array([0.0, 1.0, 9.0]))
            array([1., 2., 5.])
        """
        return np.interp(scores, self.scores, self.humans)


def fit(
    kind: str, scores: np.ndarray, humans: np.ndarray, score_range: ScoreRange, scale: tuple[float, float] | None
) -> Estimate | None:
    """The map with the least squared error.

    Args:
        kind: one of `KINDS`.
        scores, humans: [n] what judge and humans said of the same texts.
        score_range: the judge's.
        scale: the humans' own, which the map does not leave; None where it is not known.

    Returns:
        None for the kind `none`, and where the humans' scores do not rise with the judge's, so that no map of use
        exists: fewer than two different scores, or a slope that is not above 0.
    """
    if kind == "none" or len(np.unique(scores)) < 2:
        return None
    centered = scores - scores.mean()
    slope = float(centered @ (humans - humans.mean()) / (centered @ centered))
    if not slope > 0:
        return None
    low, high = scale or (-np.inf, np.inf)
    if kind == "isotonic":
        from sklearn.isotonic import IsotonicRegression  # slow to import, and seldom asked for

        found = IsotonicRegression(out_of_bounds="clip").fit(scores, humans)
        return _of(kind, found.X_thresholds_, np.clip(found.y_thresholds_, low, high))
    # where the line leaves the humans' scale it bends: a knot there keeps it exact between
    ends = np.array([score_range.minimum, score_range.maximum])
    bends = [scores.mean() + (end - humans.mean()) / slope for end in (low, high) if np.isfinite(end)]
    knots = np.unique([*ends, *(bend for bend in bends if ends[0] < bend < ends[1])])
    return _of(kind, knots, np.clip(humans.mean() + slope * (knots - scores.mean()), low, high))


def _of(kind: str, scores: np.ndarray, humans: np.ndarray) -> Estimate:
    return Estimate(kind, tuple(map(float, scores)), tuple(map(float, np.maximum.accumulate(humans))))
