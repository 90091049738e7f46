"""How far a judge that compares two texts can be trusted: does the place decide, and does it side with the humans?"""

from __future__ import annotations

from typing import Any

import numpy as np

from judgebench.metrics.bootstrap import RESAMPLES
from judgebench.metrics.group_means import means, unknown, weights_of, with_interval

MEASURES = ("position_bias", "consistency", "human_agreement")
"""The numbers of `comparative` that have an interval."""

_EQUAL = 1e-9  # probabilities no farther apart differ by rounding alone


def comparative(
    first: np.ndarray,
    second: np.ndarray,
    human: np.ndarray,
    groups: np.ndarray,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Any]:
    """Measures of pairs that were read in both orders, with 95 % percentile intervals, groups resampled.

    Args:
        first, second: [n] the probability that the judged text wins where it stands first, and where it stands second.
        human: [n] by how much the humans prefer it; NaN where nobody rated both texts.
        groups: [n] labels.
        resamples, seed: see `check_settings`.

    Returns:
        - position_bias: the probability that the text in place one wins, mean over pairs and orders, less 1/2: 1/2
          where place one always wins, -1/2 where place two does;
        - consistency: share of pairs in which the same text wins in both orders; an order that is undecided has no
          winner, so a pair with a tie in an order counts as no such pair;
        - decided_consistency: the same share of the pairs that both orders decide; None where there is none;
          tied_share: share of pairs with a tie in an order, or in both;
        - human_agreement: share of the pairs with a human preference in which the humans' text is the judge's winner,
          both orders averaged; undecided pairs count half; None where there is no such pair;
        - pairs: how many there are; preferred: how many of them with a human preference.

        Each of `MEASURES` and decided_consistency with `_low` and `_high`, which are None with fewer than two groups or
        without resamples.

    Raises:
        ValueError: columns of different lengths.

    Example:
        >>> found = comparative(np.array([0.9, 0.8]), np.array([0.6, 0.1]), np.array([1, 2]), np.array(["a", "b"]))
        >>> [round(found[name], 3) for name in MEASURES]
        [0.25, 0.5, 0.5]
    """
    lengths = {len(column) for column in (first, second, human, groups)}
    if len(lengths) > 1:
        raise ValueError(f"first, second, human and groups must have one length, got {sorted(lengths)}")
    rated = np.isfinite(human) & (np.abs(np.where(np.isfinite(human), human, 0.0)) > _EQUAL)
    if not len(first):
        return {"pairs": 0, "preferred": 0} | unknown((*MEASURES, "decided_consistency")) | {"tied_share": None}
    labels, group = np.unique(groups, return_inverse=True)
    weights = weights_of(len(labels), resamples, seed)
    every = np.ones(len(first), dtype=bool)
    winners = [_winner(side) for side in (first, second)]
    decided = (winners[0] != 0) & (winners[1] != 0)
    same = (winners[0] == winners[1]).astype(float)
    sides = (1 + _winner((first + second) / 2) * np.sign(np.where(rated, human, 0.0))) / 2
    found = {
        "position_bias": means((first - second) / 2, group, weights, every),
        "consistency": means(same * decided, group, weights, every),
        "human_agreement": means(sides, group, weights, rated),
    }
    record: dict[str, Any] = {"pairs": len(first), "preferred": int(rated.sum())}
    for name in MEASURES:
        record |= with_interval(name, found[name])
    record |= with_interval("decided_consistency", means(same, group, weights, decided))
    return record | {"tied_share": float(1 - decided.mean())}


def _winner(probability: np.ndarray) -> np.ndarray:
    """[n] 1 where the judged text wins, -1 where its rival does, 0 where nothing is decided."""
    apart = probability - 0.5
    return np.where(np.abs(apart) <= _EQUAL, 0.0, np.sign(apart))
