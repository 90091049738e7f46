"""Effects of attacks, attacked texts against the same texts unattacked, and costs of defenses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from judgebench.metrics.cells import Cell
from judgebench.metrics.levels import Correlated, correlate
from judgebench.metrics.resampling import RESAMPLES, means, unknown, weights_of, with_interval
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
        texts: [n] names of the judged texts where texts are compared, as one stands in several pairs; else None.
    """

    clean: np.ndarray
    attacked: np.ndarray
    human: np.ndarray
    groups: np.ndarray
    systems: np.ndarray
    whole: bool
    texts: np.ndarray | None = None


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
        texts=attacked["text_id"][second] if "text_id" in attacked else None,
    )


def robustness(paired: Paired, score_range: ScoreRange, resamples: int = RESAMPLES, seed: int = 0) -> dict[str, Any]:
    """Changes of the scores by an attack, with paired 95 % percentile intervals: groups are resampled, and with a
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
          has 1/k), clean_win_share: how often it does unattacked. Of groups with two texts at least; else None. Where
          texts are compared, a text stands there with its mean over the rivals that it met;
        - standardized: change over the standard deviation of the clean scores (the root of their mean squared distance
          from their mean, over all texts): judges and decodings differ in how far their scores spread, and the same
          change moves a text past more others where they spread little. None where the clean scores are all the same.

        Each of `MEANS` and `CHANGES` with `_low` and `_high`, which are None with fewer than two groups or without
        resamples; all but `paired` are None where no text was scored on both sides. Delta's interval is that of an
        absolute value, hence never below 0: `change` tells whether it is more than noise.
    """
    if not len(paired.clean):
        return {"paired": 0} | unknown((*MEANS, *CHANGES))
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
    weights = weights_of(len(labels), resamples, seed)
    clean, attacked = paired.clean, paired.attacked

    def mean(values: np.ndarray) -> np.ndarray:
        return means(values, group, weights, np.ones(len(values), dtype=bool))

    at_most = score_range.maximum - score_range.step / 2 - _EQUAL
    own_clean, own_attacked, of_text = _by_text(paired, group)
    clean_rank, clean_win, several = _standing(own_clean, own_clean, of_text)
    rank, win, _ = _standing(own_clean, own_attacked, of_text)

    def mean_text(values: np.ndarray) -> np.ndarray:
        return means(values, of_text, weights, several)

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
        "places_gained": mean_text(clean_rank - rank),
        "win_share": mean_text(win),
        "clean_win_share": mean_text(clean_win),
        "standardized": _over(change, np.where(spread > _SPREAD, spread, 0.0)),
    }


def spearman_change(clean: Correlated, attacked: Correlated) -> dict[str, float | None]:
    """Spearman under attack less Spearman of the clean texts, with its paired 95 % interval; None where unknown."""
    if not (clean.known and attacked.known):
        return dict.fromkeys(_SPEARMAN_CHANGE)
    gap = attacked.minus(clean)
    value, (low, high) = float(gap.values[_SPEARMAN]), gap.intervals()[_SPEARMAN] or (None, None)
    return dict(zip(_SPEARMAN_CHANGE, (float(clean.values[_SPEARMAN]), value, low, high), strict=True))


def against_clean(
    cell: Cell,
    parts: Mapping[Cell, Mapping[str, np.ndarray]],
    correlated: Mapping[tuple[Cell, str], Correlated],
    levels: Sequence[str],
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Changes of one cell by its attack, an entry a level: `robustness` and `spearman_change`, all None where there is
    no clean cell.

    Args:
        cell: of an attack.
        parts: the columns of scores of each cell.
        correlated: those of each cell and level with the humans, all resampled alike.
        levels, resamples, seed: see `evaluate`.
    """
    clean = clean_cell(cell)
    if clean not in parts:
        none = {"paired": 0} | unknown((*MEANS, *CHANGES)) | dict.fromkeys(_SPEARMAN_CHANGE)
        return [none for _ in levels]
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


def _by_text(paired: Paired, group: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """[texts] each text's clean and attacked score, the mean of its pairs where texts are compared, and its group."""
    if paired.texts is None:
        return paired.clean, paired.attacked, group
    _, row, text = np.unique(np.asarray(paired.texts).astype(str), return_index=True, return_inverse=True)
    sizes = np.bincount(text)
    clean, attacked = (np.bincount(text, weights=side) / sizes for side in (paired.clean, paired.attacked))
    return clean, attacked, group[row]


def _standing(clean: np.ndarray, own: np.ndarray, group: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Standing of a text with its `own` score among the clean scores of the others of its group.

    Returns:
        [n] rank, 1 is best and ties share theirs; [n] its share of the first place; [n] whether there are others.
    """
    rank, win, several = np.ones(len(clean)), np.ones(len(clean)), np.zeros(len(clean), dtype=bool)
    order = np.argsort(group, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
        ascending = np.sort(clean[rows])
        below = np.searchsorted(ascending, own[rows] - _EQUAL, "left")
        upto = np.searchsorted(ascending, own[rows] + _EQUAL, "right")
        ahead = clean[rows] - own[rows]  # a text is no other of itself
        above = len(rows) - upto - (ahead > _EQUAL)
        ties = upto - below - (np.abs(ahead) <= _EQUAL)
        rank[rows] = 1 + above + ties / 2
        win[rows] = np.where(above == 0, 1 / (1 + ties), 0.0)
        several[rows] = len(rows) > 1
    return rank, win, several


def _over(change: np.ndarray, clean: np.ndarray) -> np.ndarray:
    """change / clean; NaN where clean is not above 0."""
    return np.divide(change, clean, out=np.full(len(clean), np.nan), where=clean > 0)


def cost_records(
    columns: Mapping[str, Sequence[Any]], ready: Mapping[str, Mapping[str, float]], dataset: str
) -> list[dict[str, Any]]:
    """A record for each defense, in the order of the readings.

    Args:
        columns: those of readings.parquet.
        ready: defense -> its seconds of getting ready, `once`, for each `context` and for each `text`.
        dataset: its name.

    Returns:
        `dataset`, `defense`; `n` readings; `reading_seconds`, their mean, which is what the models took when they read
        the prompt, be it now or in an earlier run; `text_seconds`, of what the defense made for a text alone, or its
        share of what it made for the context of several; `context_seconds`, of what it made for one context, which is
        what a text costs that nobody shares the context with; `once_seconds`, whatever is judged, as this run took;
        `seconds`, the first two together.
    """
    seconds: dict[str, list[float]] = {}
    for defense, taken in zip(columns["defense"], columns["seconds"], strict=True):
        seconds.setdefault(defense, []).append(taken)
    records = []
    for defense, held in seconds.items():
        cost = ready.get(defense, {})
        mean, text = float(np.mean(held)), float(cost.get("text", 0.0))
        records.append(
            {
                "dataset": dataset,
                "defense": defense,
                "n": len(held),
                "reading_seconds": mean,
                "text_seconds": text,
                "context_seconds": float(cost.get("context", 0.0)),
                "once_seconds": float(cost.get("once", 0.0)),
                "seconds": mean + text,
            }
        )
    return records
