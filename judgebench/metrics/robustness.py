"""What an attack changes: attacked texts against the same texts unattacked, scored alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from judgebench.metrics.bootstrap import RESAMPLES, group_weights
from judgebench.metrics.cells import Cell
from judgebench.metrics.intervals import with_interval
from judgebench.metrics.levels import Correlated, correlate
from judgebench.types import ScoreRange

CLEAN = "none"
"""The attack of texts that are not attacked."""

CHANGES = (
    *("change", "delta", "rate_of_means", "mean_of_rates", "raised_share", "maximum_share", "clean_maximum_share"),
    *("places_gained", "win_share", "clean_win_share", "standardized"),
)
"""What `robustness` says of an attack, each number with an interval."""

MEANS = ("clean_mean_score", "attacked_mean_score")
"""What it says of both sides, with intervals too."""

_SPEARMAN_CHANGE = ("clean_spearman", "spearman_change", "spearman_change_low", "spearman_change_high")
_EQUAL = 1e-9  # scores no farther apart differ by rounding alone
_SPREAD = 1e-7  # what rounding leaves of the spread of equal scores, whose variance is a difference of squares
_SPEARMAN = 1  # its place in CORRELATIONS


def clean_cell(cell: Cell) -> Cell:
    """The same dimension, range, defense, judge and decoding without the attack."""
    return cell._replace(attack=CLEAN)


@dataclass(frozen=True)
class Paired:
    """Clean and attacked scores of the same n texts, in one order.

    Attributes:
        clean, attacked, human: [n]; human is NaN where nobody rated.
        groups, systems: [n] labels.
        whole: whether these are all texts of both sides.
    """

    clean: np.ndarray
    attacked: np.ndarray
    human: np.ndarray
    groups: np.ndarray
    systems: np.ndarray
    whole: bool


def pair(clean: Mapping[str, np.ndarray], attacked: Mapping[str, np.ndarray]) -> Paired:
    """The texts that both sides have scored; the columns are those of scores, of one cell each."""
    ids = [np.asarray(side["example_id"]).astype(str) for side in (clean, attacked)]
    common, first, second = np.intersect1d(ids[0], ids[1], assume_unique=True, return_indices=True)
    return Paired(
        clean["score"][first],
        attacked["score"][second],
        attacked["human"][second],
        attacked["group_id"][second],
        attacked["system_id"][second],
        whole=len(common) == len(ids[0]) == len(ids[1]),
    )


def robustness(paired: Paired, score_range: ScoreRange, resamples: int = RESAMPLES, seed: int = 0) -> dict[str, Any]:
    """What an attack changes of the scores, with paired 95 % percentile intervals: groups are resampled, and with a
    text come both its clean and its attacked score.

    Returns:
        - paired: n, the texts that were scored both clean and attacked; clean_mean_score, attacked_mean_score: theirs;
        - change: mean attacked - mean clean; delta: its absolute value, the CAP paper's score change;
        - rate_of_means: delta over the mean clean score; mean_of_rates: the mean of the texts' own (attacked - clean)
          / clean, absolute. These are the two readings of the paper's relative score change rate. None where the mean
          (a text's own) clean score is not above 0, for nothing is relative to that;
        - raised_share: of texts whose score rises; maximum_share, clean_maximum_share: of texts whose score lies nearer
          to the range's maximum than to any other score of it;
        - places_gained: by how many ranks an attacked text rises, on average, among the clean texts of the other
          systems of its group (ties share their ranks); win_share: how often it then comes first (of k that tie, each
          has 1/k), clean_win_share: how often it does unattacked. Of groups with two texts at least; else None;
        - standardized: change over the standard deviation of the clean scores (the root of their mean squared distance
          from their mean, over all texts): judges and decodings differ in how far their scores spread, and the same
          change moves a text past more others where they spread little. None where the clean scores are all the same.

        Each of `MEANS` and `CHANGES` with `_low` and `_high`, which are None with fewer than two groups or without
        resamples; all but `paired` are None where no text was scored on both sides. Delta's interval is that of an
        absolute value, hence never below 0: `change` tells whether it is more than noise.
    """
    if not len(paired.clean):
        return {"paired": 0} | _none((*MEANS, *CHANGES))
    record: dict[str, Any] = {"paired": len(paired.clean)}
    for name, values in resampled_changes(paired, score_range, resamples, seed).items():
        record |= with_interval(name, values)
    return record


def resampled_changes(
    paired: Paired, score_range: ScoreRange, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, np.ndarray]:
    """The numbers of `robustness` before intervals are taken: whoever subtracts them keeps the pairing.

    Args:
        paired: at least one text.

    Returns:
        Each of `MEANS` and `CHANGES`: [1 + B], of the data and then of each resample of its groups (B is 0 with fewer
        than two); NaN where it is unknown.
    """
    labels, group = np.unique(paired.groups, return_inverse=True)
    count = len(labels)
    drawn = group_weights(count, resamples if count >= 2 else 0, seed).astype(np.float64)
    weights = np.vstack([np.ones((1, count)), drawn])  # the data themselves first
    clean, attacked = paired.clean, paired.attacked

    def mean(values: np.ndarray, of: np.ndarray | None = None) -> np.ndarray:
        return _means(values, group, weights, np.ones(len(values), dtype=bool) if of is None else of)

    at_most = score_range.maximum - score_range.step / 2 - _EQUAL
    clean_rank, clean_win, several = _standing(clean, clean, group)
    rank, win, _ = _standing(clean, attacked, group)
    change, clean_mean = mean(attacked - clean), mean(clean)
    centered = clean - clean.mean()
    spread = np.sqrt(np.maximum(mean(centered**2) - mean(centered) ** 2, 0.0))
    return {
        "clean_mean_score": clean_mean,
        "attacked_mean_score": mean(attacked),
        "change": change,
        "delta": np.abs(change),
        "rate_of_means": _over(np.abs(change), clean_mean),
        "mean_of_rates": np.abs(mean(_over(attacked - clean, clean))),
        "raised_share": mean((attacked > clean + _EQUAL).astype(float)),
        "maximum_share": mean((attacked >= at_most).astype(float)),
        "clean_maximum_share": mean((clean >= at_most).astype(float)),
        "places_gained": mean(clean_rank - rank, several),
        "win_share": mean(win, several),
        "clean_win_share": mean(clean_win, several),
        "standardized": _over(change, np.where(spread > _SPREAD, spread, 0.0)),
    }


def spearman_change(clean: Correlated, attacked: Correlated) -> dict[str, float | None]:
    """Spearman under attack less Spearman of the clean texts, with its paired 95 % interval."""
    gap = attacked.minus(clean)
    value, (low, high) = float(gap.values[_SPEARMAN]), gap.intervals()[_SPEARMAN] or (None, None)
    known = attacked.n > 0
    found = (float(clean.values[_SPEARMAN]), value, low, high)
    return dict(zip(_SPEARMAN_CHANGE, found if known else (None,) * 4, strict=True))


def against_clean(
    cell: Cell,
    parts: Mapping[Cell, Mapping[str, np.ndarray]],
    correlated: Mapping[tuple[Cell, str], Correlated],
    levels: Sequence[str],
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """What an attack changes of one cell, an entry a level: `robustness` and `spearman_change`, all None where there is
    no clean cell.

    Args:
        cell: of an attack.
        parts: the columns of scores of each cell.
        correlated: those of each cell and level with the humans, all resampled alike.
        levels, resamples, seed: see `evaluate`.
    """
    clean = clean_cell(cell)
    if clean not in parts:
        unknown = {"paired": 0} | _none((*MEANS, *CHANGES)) | dict.fromkeys(_SPEARMAN_CHANGE)
        return [unknown for _ in levels]
    paired = pair(parts[clean], parts[cell])
    changes = robustness(paired, ScoreRange(*cell.range), resamples, seed)
    both = {
        level: (correlated[clean, level], correlated[cell, level])
        if paired.whole
        else _correlations(paired, level, resamples, seed)
        for level in levels
    }
    return [changes | spearman_change(*both[level]) for level in levels]


def _correlations(paired: Paired, level: str, resamples: int, seed: int) -> tuple[Correlated, Correlated]:
    """Clean and attacked scores against the humans, on the rated texts of both."""
    rated = np.isfinite(paired.human)
    human, groups, systems = (column[rated] for column in (paired.human, paired.groups, paired.systems))
    clean, attacked = (
        correlate(level, side[rated], human, groups, systems, resamples=resamples, seed=seed)
        for side in (paired.clean, paired.attacked)
    )
    return clean, attacked


def _standing(clean: np.ndarray, own: np.ndarray, group: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where a text stands with its `own` score among the clean scores of the others of its group.

    Returns:
        [n] rank, 1 is best and ties share theirs; [n] its share of the first place; [n] whether there are others.
    """
    rank, win, several = np.ones(len(clean)), np.ones(len(clean)), np.zeros(len(clean), dtype=bool)
    for label in range(int(group.max(initial=-1)) + 1):
        rows = np.flatnonzero(group == label)
        apart = clean[rows] - own[rows][:, None]
        others = ~np.eye(len(rows), dtype=bool)
        above = ((apart > _EQUAL) & others).sum(axis=1)
        ties = ((np.abs(apart) <= _EQUAL) & others).sum(axis=1)
        rank[rows] = 1 + above + ties / 2
        win[rows] = np.where(above == 0, 1 / (1 + ties), 0.0)
        several[rows] = len(rows) > 1
    return rank, win, several


def _means(values: np.ndarray, group: np.ndarray, weights: np.ndarray, of: np.ndarray) -> np.ndarray:
    """[B] the mean of `values` [n] over the texts `of` [n] in each resample; NaN where it holds none of them."""
    count = weights.shape[1]
    sums = np.bincount(group[of], weights=values[of], minlength=count)
    sizes = np.bincount(group[of], minlength=count)
    mass = weights @ sizes
    return np.divide(weights @ sums, mass, out=np.full(len(weights), np.nan), where=mass > 0)


def _over(change: np.ndarray, clean: np.ndarray) -> np.ndarray:
    """change / clean; NaN where clean is not above 0."""
    return np.divide(change, clean, out=np.full(len(clean), np.nan), where=clean > 0)


def _none(names: Sequence[str]) -> dict[str, Any]:
    return dict.fromkeys(f"{name}{end}" for name in names for end in ("", "_low", "_high"))
