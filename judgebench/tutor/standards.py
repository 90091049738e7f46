"""High and low candidates, and the separability and projection of their states, as plain numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from judgebench.runtime.errors import UserError

MINIMUM_TEXTS = 4
"""Texts that a mean vector needs at least: the mean of fewer is hardly more than one text's own state."""


@dataclass(frozen=True, eq=False)
class Retained:
    """The candidates that are kept.

    Attributes:
        low_threshold, high_threshold: scores.
        low, high: [texts] int64 indices of the candidates whose score is at most, at least that.
    """

    low_threshold: float
    high_threshold: float
    low: np.ndarray
    high: np.ndarray


def retain(scores: np.ndarray, low_percentile: float = 20.0, high_percentile: float = 80.0) -> Retained:
    """The high and low sets (CAP, section 4.2 and figure 4).

    The paper estimates the thresholds on one set of candidates and keeps those of another; here one set serves both.

    Args:
        scores: [candidates] the judge's; NaN for a candidate without one, which then belongs to neither set.
        low_percentile, high_percentile: of the scores that there are, interpolated linearly.

    Raises:
        UserError: the judge does not tell candidates apart, or a set is too small to average.
    """
    scores = np.asarray(scores, dtype=np.float64)
    known = scores[~np.isnan(scores)]
    more = "raise tutor.candidates, or take more contexts"
    if not known.size:
        raise UserError(f"tutor: none of {len(scores)} candidates has a score, so there are no standards; {more}.")
    low_at, high_at = (float(x) for x in np.percentile(known, [low_percentile, high_percentile]))
    if low_at >= high_at:
        raise UserError(
            f"tutor: the judge gives {low_at:g} to the candidates from percentile {low_percentile:g} to "
            f"{high_percentile:g}, so high and low cannot be told apart; score by decoding=expectation, choose another "
            f"judge, or {more}."
        )
    # a comparison with NaN is false
    low, high = np.flatnonzero(scores <= low_at), np.flatnonzero(scores >= high_at)
    for name, kept, which, at in (
        ("high", high, f"at or above percentile {high_percentile:g}", high_at),
        ("low", low, f"at or below percentile {low_percentile:g}", low_at),
    ):
        if len(kept) < MINIMUM_TEXTS:
            raise UserError(
                f"tutor: {len(kept)} of {known.size} candidates scored {which} (score {at:.3g}), too few to average: "
                f"the {name} set needs at least {MINIMUM_TEXTS}; {more}, or set tutor.{name}_percentile nearer to 50."
            )
    return Retained(low_at, high_at, low, high)


def separability(high: np.ndarray, low: np.ndarray, components: int | None = None) -> np.ndarray:
    """Equation 3, layer by layer: |hv - lv| / (mean |h_i - hv| + mean |l_i - lv|), all L2.

    Args:
        high: [texts, layers, hidden] states of the high set; hv is their mean.
        low: [texts, layers, hidden] of the low set.
        components: reduce each layer's states to so many principal components first, as the paper's text (not its
            equation) has it; None measures them as they are.

    Returns:
        [layers] float64; infinite where two sets of equal states lie apart, 0 where they do not.
    """
    layers = high.shape[1]
    found = np.zeros(layers)
    for layer in range(layers):
        ours, theirs = high[:, layer].astype(np.float64), low[:, layer].astype(np.float64)
        if components is not None:
            ours, theirs = project(ours, theirs, components)[:2]
        between = np.linalg.norm(ours.mean(axis=0) - theirs.mean(axis=0))
        within = sum(np.linalg.norm(x - x.mean(axis=0), axis=1).mean() for x in (ours, theirs))
        found[layer] = between / within if within > 0 else np.inf if between > 0 else 0.0
    return found


def chance_separability(
    high: np.ndarray, low: np.ndarray, components: int | None = None, seed: int = 0, shuffles: int = 100
) -> np.ndarray:
    """Separability by chance, where high and low mean nothing: states assigned to the two sets at random.

    Two small sets always lie apart a little: equation 3 is never 0, and larger the fewer texts there are. A layer tells
    high from low only as far as it surpasses this.

    Args:
        high, low, components: as in `separability`.
        seed, shuffles: of the assignments.

    Returns:
        [layers] float64, what 95 % of the assignments stay below.
    """
    together, draw = np.concatenate([high, low]), np.random.default_rng(seed)
    reached = []
    for _ in range(shuffles):
        order = draw.permutation(len(together))
        reached.append(separability(together[order[: len(high)]], together[order[len(high) :]], components))
    return np.quantile(np.stack(reached), 0.95, axis=0)


def best_layer(separabilities: np.ndarray) -> int:
    """The layer that separates best, counted from 1; the first of several."""
    return int(np.argmax(separabilities)) + 1


def project(high: np.ndarray, low: np.ndarray, components: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Principal components of both sets together (figure 5).

    Args:
        high, low: [texts, hidden] states of one layer.
        components: how many; states that span fewer have 0 in the rest.

    Returns:
        [texts, components] of the high set and of the low one, each axis turned so that the high mean lies at the
        higher end; and [components] the share of the variance along each.
    """
    together = np.concatenate([high, low]).astype(np.float64)
    centered = together - together.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centered, full_matrices=False)
    points = np.zeros((len(together), components))
    kept = min(components, len(sizes))
    points[:, :kept] = left[:, :kept] * sizes[:kept]
    ours, theirs = points[: len(high)], points[len(high) :]
    turn = np.where(ours.mean(axis=0) < theirs.mean(axis=0), -1.0, 1.0)
    shares = np.zeros(components)
    total = float((sizes**2).sum())
    if total > 0:
        shares[:kept] = sizes[:kept] ** 2 / total
    return ours * turn, theirs * turn, shares
