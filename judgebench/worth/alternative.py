"""The alternative annotator test: may a judge stand in for one of the raters?

Each rater in turn is left out. On each of their texts the judge and the rater are compared with the other raters: the
one that lies closer wins the text, and both do where they are equally close. The judge wins over the rater where its
share of texts won falls short of the rater's by less than epsilon, the price of a person; the judge passes where it
wins over half of the raters. Calderon, Reichart and Dror, "The Alternative Annotator Test for LLM-as-a-Judge" (2025,
arXiv 2501.10970).

Texts of one group (an article) are not independent: its texts are hard, or rated alike, together. The paper's t-test
counts each text as an observation, which makes p too small then. Here the mean difference has a standard error from
the sums of whole groups, and t has one degree of freedom less than there are groups; where each text is a group of its
own, that is the paper's t-test exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import special, stats

from judgebench.metrics.correlation import rating_table
from judgebench.metrics.resampling import (
    FEWEST,
    RESAMPLES,
    divided,
    group_sums,
    interval_ends,
    numbered_groups,
    with_interval,
)

FEWEST_RATED = 30
"""Texts shared with others with which a rater is tested, as in the paper: t is no better with fewer."""

FEWEST_RATERS = 3
"""Raters that the paper asks for; with fewer the test is done, and that is said."""

FALSE_DISCOVERY = 0.05
"""Expected share of raters falsely won over, held by Benjamini and Yekutieli (2001) however the raters depend."""

PASSED = 0.5
"""Winning rate from which on a judge passes."""

EXPERTS, SKILLED, CROWD = 0.2, 0.15, 0.1
"""Values of epsilon that the paper suggests by who the raters are."""

SCORINGS = ("rmse", "accuracy")
"""Closeness to the other raters: less their root mean squared distance, or the share of them with the same rating."""

_TRIED = 101  # ratings, by their quantiles: all there are on usual scales
_TIE = 1e-9  # of the spread: the two are equally close


Sides = tuple[np.ndarray, np.ndarray]


def closer(scores: np.ndarray, ratings: np.ndarray, scoring: str = "rmse") -> Sides:
    """Wins of judge and rater, by which of them lies at least as close to the other raters, for each rating.

    Args:
        scores: [N] a judge's.
        ratings: [N, R], NaN where a rater gave none.
        scoring: one of `SCORINGS`.

    Returns:
        judge, rater: [N, R] 1.0 where that side wins or both are equally close, else 0.0; NaN where the rater gave no
        rating, nobody else did, or the judge gave no score.

    Raises:
        ValueError: another scoring.
    """
    if scoring not in SCORINGS:
        raise ValueError(f"scoring must be rmse or accuracy, got {scoring!r}")
    given = ~np.isnan(ratings)
    compared = given & (given.sum(axis=1, keepdims=True) > 1) & np.isfinite(scores)[:, None]
    spread = float(np.ptp(ratings[given])) if given.any() else 0.0
    tie = _TIE * (spread or 1.0)
    x, s = np.where(given, ratings, 0.0), np.where(np.isfinite(scores), scores, 0.0)[:, None]
    others = np.maximum(given.sum(axis=1, keepdims=True) - 1, 1)
    if scoring == "rmse":
        # The judge's mean squared distance less the rater's: the others' spread, alike in both, is never computed.
        mean = (x.sum(axis=1, keepdims=True) - x) / others
        ahead = (x - s) * (s + x - 2 * mean)
        tie *= spread or 1.0
    else:
        same = given[:, None, :] & (np.abs(x[:, :, None] - x[:, None, :]) <= tie)
        agreeing = given & (np.abs(x - s) <= tie)
        ahead = ((agreeing.sum(axis=1, keepdims=True) - agreeing) - (same.sum(axis=2) - given)).astype(np.float64)
    judge, rater = (np.where(compared, 1.0 * side, np.nan) for side in (ahead >= -tie, ahead <= tie))
    return judge, rater


def clustered_p(differences: np.ndarray, group: np.ndarray, epsilon: float) -> float:
    """The one-sided p of a mean difference below epsilon, groups being independent, texts within them not.

    Args:
        differences: [n] the rater's wins less the judge's.
        group: [n] numbers of the texts' groups.
        epsilon: see `alternative_record`.

    Returns:
        p of Student's t with groups - 1 degrees of freedom; 1.0 with fewer than two groups. Where nothing varies, 0.0
        for a mean below epsilon, else 1.0.
    """
    apart = float(differences.mean()) - epsilon
    sizes = np.bincount(group)
    held = np.flatnonzero(sizes)
    count = len(held)
    if count < 2:
        return 1.0
    sums = group_sums(differences - differences.mean(), group, len(sizes))[held]
    error = np.sqrt(count / (count - 1) * (sums @ sums)) / len(differences)
    if error < _TIE:
        return 0.0 if apart < -_TIE else 1.0
    return float(special.stdtr(count - 1, apart / error))


def _tested(sides: Sides, group: np.ndarray, epsilon: float) -> tuple[list[int], list[float], list[float]]:
    """Columns of the raters that are tested, their p and their corrected p."""
    judge, rater = sides
    columns, found = [], []
    for column in range(judge.shape[1]):
        of = ~np.isnan(judge[:, column])
        if of.sum() >= FEWEST_RATED and len(np.unique(group[of])) >= FEWEST:
            columns.append(column)
            found.append(clustered_p((rater - judge)[of, column], group[of], epsilon))
    corrected = stats.false_discovery_control(found, method="by").tolist() if found else []
    return columns, found, corrected


def alternative_record(
    scores: np.ndarray,
    ratings: np.ndarray,
    groups: np.ndarray,
    epsilon: float = EXPERTS,
    scoring: str = "rmse",
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Any]:
    """The alternative annotator test of a judge.

    Args:
        scores: [N] the judge's on the raters' scale, raw or calibrated; NaN where it gave none. Raters give whole
            categories, and a mean such as 4.7 never ties with them: round such scores first (`points.rounded`), or
            they lose every text on which people agree.
        ratings: [N, R], NaN where a rater gave none.
        groups: [N] labels of the texts' groups; `numpy.arange(N)` gives the paper's own test.
        epsilon: the share of texts that the judge may lose more often than a rater, being cheaper: `EXPERTS`,
            `SKILLED`, `CROWD`.
        scoring: one of `SCORINGS`.

    Returns:
        texts, groups; tested: raters with at least `FEWEST_RATED` shared texts in `FEWEST` groups; epsilon, scoring;
        winning_rate: the share of tested raters over whom the judge wins; passes; paper_winning_rate: the same, texts
        counted as independent; advantage: the share of texts on which the judge lies at least as close to the others as
        the rater, mean over raters, with interval; raters: a record a tested rater (column, texts, groups,
        advantage_judge, advantage_rater, p, p_by, wins).
        favorite: the one rating that wins most if it is given to all texts; favorite_winning_rate, favorite_advantage:
        of a judge that always says that; shuffled_winning_rate, shuffled_advantage: of the judge's own scores, dealt to
        texts at random; favorite_difference, shuffled_difference: the judge's advantage less theirs, with interval,
        paired; by_favorite: the judge passes, as does one of the two from which it cannot be told: no sign of judgment.
        reason: why nobody is tested, else None.

    Raises:
        ValueError: other shapes, infinite ratings, an epsilon outside [0, 1), or another scoring.
    """
    ratings, scores = rating_table(ratings), np.asarray(scores, dtype=np.float64)
    if len(groups) != len(ratings) or scores.shape != (len(ratings),):
        raise ValueError(f"scores {scores.shape}, ratings {ratings.shape} and groups [{len(groups)}] do not fit")
    if not 0 <= epsilon < 1:
        raise ValueError(f"epsilon must be at least 0 and below 1, got {epsilon:g}")
    used = ((~np.isnan(ratings)).sum(axis=1) > 1) & np.isfinite(scores)
    ratings, scores = ratings[used], scores[used]
    group, weights = numbered_groups(np.asarray(groups)[used], resamples, seed)
    sides = closer(scores, ratings, scoring)
    columns, p_values, corrected = _tested(sides, group, epsilon)
    rate, shares = _won(corrected), _advantages(sides[0], columns, group, weights)
    record: dict[str, Any] = {"texts": len(ratings), "groups": weights.shape[1], "tested": len(columns)}
    record |= {"epsilon": epsilon, "scoring": scoring}
    record |= {"winning_rate": rate, "passes": None if rate is None else rate >= PASSED}
    record["paper_winning_rate"] = _won(_tested(sides, np.arange(len(ratings)), epsilon)[2])
    record |= with_interval("advantage", shares, interval_ends(weights.shape[1]))
    record["raters"] = [
        _rater(column, (sides[0][:, column], sides[1][:, column]), group)
        | {"p": p, "p_by": p_by, "wins": p_by <= FALSE_DISCOVERY}
        for column, p, p_by in zip(columns, p_values, corrected, strict=True)
    ]
    record |= _beside_blind(record, (scores, ratings), (columns, group, weights), shares)
    few = f"Nobody is tested: it takes {FEWEST_RATED} texts in {FEWEST} groups that a rater shares with others."
    return record | {"reason": None if columns else few}


def _beside_blind(
    record: dict[str, Any],
    given: tuple[np.ndarray, np.ndarray],
    tested: tuple[Sequence[int], np.ndarray, np.ndarray],
    shares: np.ndarray,
) -> dict[str, Any]:
    """The part of the record that speaks of judges without judgment, of scores and ratings, and the columns, groups and
    weights of what is tested."""
    columns, group, weights = tested
    favorite, blind = _blind(*given, columns, record["scoring"]) if columns else (None, {})
    beside: dict[str, Any] = {"favorite": favorite}
    alike = []
    for name in ("favorite", "shuffled"):
        other, own = None, np.full(len(weights), np.nan)
        if name in blind:
            other = _won(_tested(blind[name], group, record["epsilon"])[2])
            own = _advantages(blind[name][0], columns, group, weights)
        found = with_interval(f"{name}_difference", shares - own, interval_ends(weights.shape[1]))
        low = found[f"{name}_difference_low"]
        passing = bool(record["passes"]) and other is not None and other >= PASSED
        alike.append(passing and (float(shares[0] - own[0]) if low is None else low) <= 0)
        beside |= {f"{name}_winning_rate": other, f"{name}_advantage": float(own[0]) if columns else None, **found}
    return beside | {"by_favorite": any(alike)}


def _won(corrected: Sequence[float]) -> float | None:
    return float(np.mean([p <= FALSE_DISCOVERY for p in corrected])) if corrected else None


def _blind(
    scores: np.ndarray, ratings: np.ndarray, columns: Sequence[int], scoring: str
) -> tuple[float, dict[str, Sides]]:
    """The rating that wins most texts if it is given to all, the lowest of equals; and what `closer` says of it, and
    expects of the judge's scores in any order."""
    places = np.linspace(0, 1, _TRIED)

    def given(value: float) -> Sides:
        return closer(np.full(len(ratings), value), ratings, scoring)

    tried = np.unique(np.quantile(ratings[~np.isnan(ratings)], places, method="nearest"))
    sides = {float(one): given(one) for one in tried}
    best = max(sides, key=lambda one: float(np.nanmean(sides[one][0][:, columns], axis=0).mean()))
    values, counts = np.unique(scores, return_counts=True)
    if len(values) > _TRIED:
        values, counts = np.unique(np.quantile(scores, places, method="nearest"), return_counts=True)
    shuffled = [np.zeros(ratings.shape), np.zeros(ratings.shape)]
    for value, share in zip(values, counts / counts.sum(), strict=True):
        for total, side in zip(shuffled, given(value), strict=True):
            total += share * side
    return best, {"favorite": sides[best], "shuffled": (shuffled[0], shuffled[1])}


def _rater(column: int, sides: Sequence[np.ndarray], group: np.ndarray) -> dict[str, Any]:
    of = ~np.isnan(sides[0])
    judge, rater = (float(side[of].mean()) for side in sides)
    groups = len(np.unique(group[of]))
    return {
        "column": column,
        "texts": int(of.sum()),
        "groups": groups,
        "advantage_judge": judge,
        "advantage_rater": rater,
    }


def _advantages(judge: np.ndarray, columns: Sequence[int], group: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """[1 + B] the mean over tested raters; NaN without any."""
    if not columns:
        return np.full(len(weights), np.nan)
    won, count = judge[:, columns], weights.shape[1]
    sums = weights @ group_sums(np.nan_to_num(won), group, count)
    return np.nanmean(divided(sums, weights @ group_sums(1.0 * ~np.isnan(won), group, count)), axis=1)
