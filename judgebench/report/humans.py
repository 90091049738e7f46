"""The experts' scores, carried over to a judge's score range."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from judgebench.metrics.bias import candidate_index, histogram, mapped
from judgebench.results.series import ranges_of
from judgebench.types import ScoreRange

MAPPING_NOTE = "Human scores are mapped linearly to the range and rounded to the nearest score, half up."
"""What a reader must be told wherever mapped scores are shown."""


Scale = tuple[float, float] | None
"""The lowest and highest score that a human can give; None where humans prefer and do not score (texts compared)."""


def spans(scale: Scale) -> bool:
    """True for a scale of some length. One taken from equal human scores has none, and nothing maps from it."""
    return scale is not None and scale[0] < scale[1]


def mapping_note(scale: Scale) -> str:
    """`MAPPING_NOTE`, or why there are no mapped scores to show."""
    if scale is None:
        return "Humans are left out: their preferences are no scores."
    return MAPPING_NOTE if spans(scale) else "Humans are left out: their scores do not differ, and no scale is known."


def to_range(human: ArrayLike, scale: Scale, score_range: ScoreRange) -> NDArray[np.float64]:
    """Human scores, mapped linearly from the data's scale to the range and rounded to its nearest score, half up.

    Args:
        human: [n] scores on the data's own scale.
        scale: see `Scale`.

    Returns:
        [n] scores of the range; [0] where the scale has no length (see `spans`), hence nothing can be mapped.

    Example:
        >>> to_range([1, 2.5, 5], (1, 5), ScoreRange(0, 4)).tolist()
        [0.0, 2.0, 4.0]
        >>> to_range([3, 3], (3, 3), ScoreRange(0, 4)).tolist()
        []
    """
    if scale is None:
        return np.empty(0)
    exact = mapped(np.asarray(human, dtype=np.float64), scale, score_range)
    return np.empty(0) if exact is None else np.asarray(score_range.values)[candidate_index(exact, score_range)]


def human_scores(scores: pd.DataFrame) -> NDArray[np.float64]:
    """[examples] one human score per example, though each example has a row per judge and decoding."""
    return scores.drop_duplicates("example_id")["human"].dropna().to_numpy(dtype=np.float64)


def shares(values: ArrayLike, score_range: ScoreRange) -> NDArray[np.float64]:
    """[candidates] the share of the values [n] that lies nearest to each score of the range; zeros without values."""
    given = np.asarray(values, dtype=np.float64)
    return histogram(given, score_range) / max(1, len(given))


def most_frequent(found: ArrayLike) -> list[int]:
    """Positions of the largest of the shares [candidates]: several where they tie, none where all are 0."""
    values = np.asarray(found, dtype=np.float64)
    top = values.max(initial=0.0)
    return [int(i) for i in np.flatnonzero(np.isclose(values, top, rtol=0, atol=1e-12))] if top > 0 else []


def is_discrete(scores: pd.DataFrame) -> bool:
    """True if at least half of the scores are scores of their range, not values between them."""
    found = 0
    for score_range, part in ranges_of(scores):
        position = (part["score"].to_numpy(dtype=np.float64) - score_range.minimum) / score_range.step
        found += int(np.sum(np.abs(position - np.round(position)) < 1e-6))
    return 2 * found >= len(scores)
