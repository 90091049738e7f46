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

from judgebench.stats.clusters import FEWEST, Clusters, divided

FEWEST_RATED = 30
"""Texts shared with others with which a rater is tested, as in the paper: t is no better with fewer."""

FEWEST_RATERS = 3
"""Raters that the paper asks for; with fewer the test is done, and that is said."""

FALSE_DISCOVERY = 0.05
"""Expected share of raters falsely won over, kept by Benjamini and Yekutieli (2001) however the raters depend."""

PASSED = 0.5
"""Winning rate from which on a judge passes."""

EXPERTS = 0.2
"""Epsilon that the paper suggests where raters are experts; .15 for skilled annotators, .1 for crowd workers."""

_TRIED = 101  # ratings, by their quantiles: all there are on usual scales
_TIE = 1e-9  # of the spread: the two are equally close

Sides = tuple[np.ndarray, np.ndarray]
"""[N, R] wins of judge and rater, see `closer`."""


def closer(scores: np.ndarray, ratings: np.ndarray) -> Sides:
    """Wins of judge and rater, by which of them has the smaller root mean squared distance from the other raters.

    Args:
        scores: [N] a judge's, or one for all texts.
        ratings: [N, R], NaN where a rater gave none.

    Returns:
        judge, rater: [N, R] 1.0 where that side wins or both are equally close, else 0.0; NaN where the rater gave no
        rating, nobody else did, or the judge gave no score.

    Example:
        >>> judge, rater = closer(np.array([4.0]), np.array([[5.0, 4.0, 4.0]]))
        >>> judge.tolist(), rater.tolist()  # the first rater is farther from 4, 4; the others tie
        ([[1.0, 1.0, 1.0]], [[0.0, 1.0, 1.0]])
    """
    given = ~np.isnan(ratings)
    compared = given & (given.sum(axis=1, keepdims=True) > 1) & np.isfinite(scores)[:, None]
    spread = float(np.ptp(ratings[given])) if given.any() else 0.0
    tie = _TIE * (spread or 1.0) ** 2
    x, s = np.where(given, ratings, 0.0), np.where(np.isfinite(scores), scores, 0.0)[:, None]
    others = np.maximum(given.sum(axis=1, keepdims=True) - 1, 1)
    # the judge's mean squared distance less the rater's: the others' spread, alike in both, is never computed
    ahead = (x - s) * (s + x - 2 * (x.sum(axis=1, keepdims=True) - x) / others)
    judge, rater = (np.where(compared, 1.0 * side, np.nan) for side in (ahead >= -tie, ahead <= tie))
    return judge, rater


def clustered_p(differences: np.ndarray, group: np.ndarray, epsilon: float) -> float:
    """The one-sided p of a mean difference (the rater's wins less the judge's) below epsilon, groups being independent,
    texts [n] within them not: Student's t with groups - 1 degrees of freedom; 1.0 with fewer than two groups. Where
    nothing varies, 0.0 for a mean below epsilon, else 1.0."""
    apart = float(differences.mean()) - epsilon
    number = np.unique(group, return_inverse=True)[1]
    count = int(number.max()) + 1
    if count < 2:
        return 1.0
    sums = np.bincount(number, differences - differences.mean())
    error = np.sqrt(count / (count - 1) * (sums @ sums)) / len(differences)
    if error < _TIE:
        return 0.0 if apart < -_TIE else 1.0
    return float(special.stdtr(count - 1, apart / error))


def alternative_record(
    scores: np.ndarray, ratings: np.ndarray, clusters: Clusters, epsilon: float = EXPERTS
) -> dict[str, Any]:
    """The alternative annotator test of a judge.

    Args:
        scores: [N] the judge's on the raters' scale, raw or calibrated; NaN where it gave none. Raters give whole
            categories, and a mean such as 4.7 never ties with them: round such scores first (`humans.rounded`), or
            they lose every text on which people agree.
        ratings: [N, R], NaN where a rater gave none.
        clusters: of the texts; one a text gives the paper's test.
        epsilon: the share of texts that the judge may lose more often than a rater, being cheaper, from 0 to 1.

    Returns:
        tested: raters with at least `FEWEST_RATED` shared texts in `FEWEST` groups; winning_rate: the share of them
        over whom the judge wins; paper_winning_rate: the same, texts counted as independent; advantage: the share of
        texts on which the judge lies at least as close to the others as the rater, mean over raters.
        favorite: the one rating that wins most if it is given to all texts, and favorite_*: a judge that always says
        that; shuffled_*: the judge's scores, dealt to texts at random; _difference: the judge's advantage less theirs,
        paired. by_favorite: the judge passes, as does one of the two from which it cannot be told: no sign of judgment.
    """
    used = ((~np.isnan(ratings)).sum(axis=1) > 1) & np.isfinite(scores)
    ratings, scores, clusters = ratings[used], scores[used], clusters.at(used)
    sides, group = closer(scores, ratings), clusters.number
    tested, rate = _tested(sides, group, epsilon)
    columns, passes = list(tested), None if rate is None else rate >= PASSED
    advantage = _advantage(sides[0], columns, clusters)
    record: dict[str, Any] = {"tested": len(columns), "epsilon": epsilon, "scoring": "rmse"}
    record |= {"winning_rate": rate, "passes": passes}
    record["paper_winning_rate"] = _tested(sides, np.arange(len(ratings)), epsilon)[1]
    record |= clusters.record({"advantage": advantage}) | {"raters": []}
    for column, (p, p_by) in tested.items():
        rows = ~np.isnan(sides[0][:, column])
        head: dict[str, Any] = {"column": column, "texts": int(rows.sum()), "groups": len(np.unique(group[rows]))}
        judge, rater = (float(side[rows, column].mean()) for side in sides)
        head |= {"advantage_judge": judge, "advantage_rater": rater}
        record["raters"].append(head | {"p": p, "p_by": p_by, "wins": p_by <= FALSE_DISCOVERY})
    # judges without judgment
    favorite, blind = _blind(scores, ratings, columns) if columns else (None, {})
    record["favorite"], by_favorite = favorite, False
    for name in ("favorite", "shuffled"):
        other_rate, other = None, np.full(len(advantage), np.nan)
        if name in blind:
            other_rate, other = _tested(blind[name], group, epsilon)[1], _advantage(blind[name][0], columns, clusters)
        record |= {f"{name}_winning_rate": other_rate, f"{name}_advantage": float(other[0]) if columns else None}
        record |= clusters.record({f"{name}_difference": advantage - other})
        low = record[f"{name}_difference_low"]
        alike = (float(advantage[0] - other[0]) if low is None else low) <= 0
        by_favorite |= bool(passes) and other_rate is not None and other_rate >= PASSED and alike
    few = f"No rater is tested: it takes {FEWEST_RATED} texts in {FEWEST} groups that a rater shares with others."
    return record | {"by_favorite": by_favorite, "alternative_reason": None if columns else few}


def _tested(sides: Sides, group: np.ndarray, epsilon: float) -> tuple[dict[int, tuple[float, float]], float | None]:
    """Columns of the raters that are tested -> p and corrected p; and the winning rate, None without any."""
    judge, rater = sides
    p_values = {}
    for column in range(judge.shape[1]):
        rows = ~np.isnan(judge[:, column])
        if rows.sum() >= FEWEST_RATED and len(np.unique(group[rows])) >= FEWEST:
            p_values[column] = clustered_p((rater - judge)[rows, column], group[rows], epsilon)
    if not p_values:
        return {}, None
    corrected = stats.false_discovery_control(list(p_values.values()), method="by").tolist()
    rate = float(np.mean([p <= FALSE_DISCOVERY for p in corrected]))
    return dict(zip(p_values, zip(p_values.values(), corrected, strict=True), strict=True)), rate


def _advantage(judge: np.ndarray, columns: Sequence[int], clusters: Clusters) -> np.ndarray:
    """[1 + B] the share of texts that the judge wins, mean over tested raters; NaN without any."""
    if not columns:
        return np.full(len(clusters.weights), np.nan)
    won = judge[:, columns]
    return np.nanmean(divided(clusters.sums(np.nan_to_num(won)), clusters.sums(1.0 * ~np.isnan(won))), axis=1)


def _blind(scores: np.ndarray, ratings: np.ndarray, columns: Sequence[int]) -> tuple[float, dict[str, Sides]]:
    """The rating that wins most texts if it is given to all, the lowest of equals; and what `closer` says of it, and
    expects of the judge's scores in any order."""
    places = np.linspace(0, 1, _TRIED)
    tried = np.unique(np.quantile(ratings[~np.isnan(ratings)], places, method="nearest")).tolist()
    sides = {rating: closer(np.full(len(ratings), rating), ratings) for rating in tried}
    best = max(sides, key=lambda rating: float(np.nanmean(sides[rating][0][:, columns], axis=0).mean()))
    values, counts = np.unique(scores, return_counts=True)
    if len(values) > _TRIED:
        values, counts = np.unique(np.quantile(scores, places, method="nearest"), return_counts=True)
    shuffled = np.zeros((2, *ratings.shape))
    for value, share in zip(values, counts / counts.sum(), strict=True):
        shuffled += share * np.array(closer(np.full(len(ratings), value), ratings))
    return best, {"favorite": sides[best], "shuffled": (shuffled[0], shuffled[1])}
