"""Agreement among humans: Krippendorff's alpha and intraclass correlations.

All take ragged ratings [N, R], NaN where a rater gave none. Raters are not resampled: figures speak
for these raters. Where nearly all ratings are equal, alpha and ICC rest on the few texts that
differ, and no interval that knows only these holds the truth often enough (73 to 88 % on 10 to 40
simulated articles of 8 texts, nine ratings in ten the highest): `scripts/simulate.py`.

The *alternative annotator test* asks whether a judge may stand in for one of the raters. Each rater
in turn is left out. On each of their texts the judge and the rater are compared with the other
raters: the one that lies closer wins the text, and both do where they are equally close. The judge
wins over the rater where its share of texts won falls short of the rater's by less than epsilon,
the price of a person; the judge passes where it wins over half of the raters. Calderon, Reichart
and Dror, "The Alternative Annotator Test for LLM-as-a-Judge" (2025, arXiv 2501.10970).

Texts of one group (an article) are not independent: its texts are hard, or rated alike, together.
The paper's t-test counts each text as an observation, which makes p too small then. Here the mean
difference has a standard error from the sums of whole groups, and t has one degree of freedom less
than there are groups; where each text is a group of its own, that is the paper's t-test exactly.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy  # its parts come when they are first used

from judgebench.stats.clusters import FEWEST, Clusters, safe_divide, without_nan
from judgebench.types import Array, Record, Scale

MOST_CATEGORIES = 101
"""Numbers of a scale beyond which it is no list of categories: 0 to 100 still is."""

MOST_BLOCKS = 200
"""Parts of the texts that are left out in turn for the intervals of alpha."""

FIGURES = ("alpha_interval", "alpha_ordinal", "icc_single", "icc_mean", "reliability")
"""Figures of agreement in the order of `agreement_record`."""

_SAME = 1e-9  # numbers no farther apart are one category
_SINGULAR = 1e10  # condition of the equations beyond which their answer is rounding


def categories_of(ratings: Array, scale: Scale) -> Array | None:
    """The whole numbers from one end of the scale to the other; None where they are too many, or
    where a rating [N, R] is none of them.

    Example:
        >>> categories_of(np.array([[2.0, 4.0], [np.nan, 3.0]]), (1, 5)).tolist()
        [1.0, 2.0, 3.0, 4.0, 5.0]
    """
    low, high = scale
    if low != int(low) or high != int(high) or not 1 <= high - low < MOST_CATEGORIES:
        return None
    values = without_nan(ratings)
    fits = (values == np.round(values)).all() and ((values >= low) & (values <= high)).all()
    return np.arange(low, high + 1.0) if fits else None


def variance_components(ratings: Array, clusters: Clusters) -> dict[str, Array]:
    """Parts of the variance of ratings [N, R], texts and raters both random, each [1 + B]; NaN
    where they cannot be separated, as where each text has raters of its own, or where all ratings
    are equal. A part may come out below 0.

    Henderson's method I ("Estimation of Variance and Covariance Components", 1953): sums of squares
    of totals, set equal to their expectations. Where all raters rated all texts, it is the analysis
    of variance behind Shrout and Fleiss (1979).

    Returns:
        text, rater, rest: parts of the texts, of the raters' severity, and of everything else;
            raters: ratings of a
        text, the harmonic mean; unshared: share of the raters' part by which the texts' means
        differ, 0 where all raters rated all texts, so that severity moves all means alike.

        icc_single: ICC(2,1), the texts' share of the variance of one rating, agreement in points
            wanted; icc_mean:
        ICC(2,k), of a mean of `raters` ratings, by raters drawn again; reliability: of the texts'
        mean ratings as they
        stand, which limits any correlation with them: ICC(3,k), or Cronbach's alpha, where all
            raters rated all texts.
    """
    # The sums of squares of texts, of raters and of the rest are each linear in the three parts of
    # the variance, with coefficients that depend on who rated what alone. Three equations, then.
    # 1. sums over texts, ratings centered
    given = ~np.isnan(ratings)  # [N, R]
    rated = given.any(axis=1)
    center = np.nanmean(ratings) if rated.any() else 0.0
    x = np.where(given, ratings - center, 0.0)
    size = np.maximum(given.sum(axis=1), 1)
    columns = (
        np.ones(len(x)),
        size,
        size**2,
        1 / size,
        x.sum(axis=1),
        x.sum(axis=1) ** 2 / size,
        (x**2).sum(axis=1),
    )
    texts, n, squares, inverse, total, of_texts, raw = clusters.sums(  # [1 + B] each
        np.stack(columns, axis=1), rated
    ).T
    counts = clusters.sums(1.0 * given, rated)  # [1 + B, R]
    sums = clusters.sums(x, rated)
    # how many texts' worth each rater's severity moves
    loads = clusters.sums(given / size[:, None], rated)
    # 2. sums of squares of raters' totals, and expectations of all of them
    raters = (counts > 0).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        of_raters = np.where(counts > 0, sums**2 / counts, 0.0).sum(axis=1)
        mean = total**2 / n
        k_text = squares / n
        k_rater = (counts**2).sum(axis=1) / n
        unshared = np.maximum((inverse - (loads**2).sum(axis=1) / texts) / (texts - 1), 0.0)
    left = [
        [n - k_text, texts - k_rater, texts - 1],
        [raters - k_text, n - k_rater, raters - 1],
        [k_text - raters, k_rater - texts, n - texts - raters + 1],
    ]
    right = np.stack([of_texts - mean, of_raters - mean, raw - of_texts - of_raters + mean], axis=1)
    # 3. three equations a row of weights
    ratings_drawn = np.maximum(n, 1)[:, None]
    equations = np.moveaxis(np.array(left, dtype=np.float64), 2, 0)  # [1 + B, 3, 3]
    equations = equations / ratings_drawn[..., None]
    right /= ratings_drawn
    solvable = np.isfinite(equations).all(axis=(1, 2))
    solvable &= np.isfinite(right).all(axis=1)
    solvable &= raw > _SAME * _SAME
    solvable[solvable] &= np.linalg.cond(equations[solvable]) < _SINGULAR
    parts = np.full((3, len(n)), np.nan)
    solution = np.linalg.solve(equations[solvable], right[solvable][..., None])
    parts[:, solvable] = solution[..., 0].T
    text, rater, rest = parts
    mean_size = safe_divide(texts, inverse)
    return {
        "text": text,
        "rater": rater,
        "rest": rest,
        "raters": mean_size,
        "unshared": unshared,
        # what is not the text's: one rating has all of it, a mean of k the k-th part
        "icc_single": safe_divide(text, text + rater + rest),
        "icc_mean": safe_divide(text, text + (rater + rest) / mean_size),
        "reliability": safe_divide(text, text + rater * unshared + rest / mean_size),
    }


# --- alternative annotator test -----------------------------------------------------------------


FEWEST_RATED = 30
"""Texts shared with others with which a rater is tested, as in the paper: t is no better with
fewer."""

FEWEST_RATERS = 3
"""Raters that the paper asks for; with fewer the test is done, and that is said."""

FALSE_DISCOVERY = 0.05
"""Expected share of raters falsely won over, kept by Benjamini and Yekutieli (2001) however the
raters depend."""

PASSED = 0.5
"""Winning rate from which on a judge passes."""

EXPERTS = 0.2
"""Epsilon, the share of texts that a judge may lose more often than a rater, being cheaper: what the
paper suggests where raters are experts; .15 for skilled annotators, .1 for crowd workers."""

_TRIED = 101  # ratings, by their quantiles: all there are on usual scales
_TIE = 1e-9  # of the spread: the two are equally close

Sides = tuple[np.ndarray, np.ndarray]
"""[N, R] wins of judge and rater, see `closer`."""


def closer(scores: Array, ratings: Array) -> Sides:
    """Wins of judge and rater, by which of them has the smaller root mean squared distance from the
    other raters.

    Args:
        scores: [N] a judge's, or one for all texts.
        ratings: [N, R], NaN where a rater gave none.

    Returns:
        judge, rater: [N, R] 1.0 where that side wins or both are equally close, else 0.0; NaN where
            the rater gave no
        rating, nobody else did, or the judge gave no score.

    Example:
        >>> judge, rater = closer(np.array([4.0]), np.array([[5.0, 4.0, 4.0]]))
        >>> judge.tolist(), rater.tolist()  # the first rater is farther from 4, 4; the others tie
        ([[1.0, 1.0, 1.0]], [[0.0, 1.0, 1.0]])
    """
    given = ~np.isnan(ratings)  # [N, R]
    raters = given.sum(axis=1, keepdims=True)  # [N, 1]
    scored = np.isfinite(scores)[:, None]
    compared = given & (raters > 1) & scored
    spread = 0.0
    if given.any():
        spread = float(np.ptp(ratings[given]))
    tie = _TIE * (spread or 1.0) ** 2
    # the judge's mean squared distance less the rater's: the others' spread, alike in both, is
    # never computed
    x = np.where(given, ratings, 0.0)  # [N, R]
    s = np.where(
        scored,
        scores[:, None],
        0.0,
    )
    sums = x.sum(axis=1, keepdims=True) - x
    others = np.maximum(raters - 1, 1)
    mean = sums / others
    # (x - m)^2 - (s - m)^2 = (x - s)(x + s - 2 m), with m the mean of the others
    ahead = (x - s) * (s + x - 2 * mean)
    judge_wins = 1.0 * (ahead >= -tie)
    rater_wins = 1.0 * (ahead <= tie)
    judge = np.where(compared, judge_wins, np.nan)
    rater = np.where(compared, rater_wins, np.nan)
    return judge, rater


def clustered_p(differences: Array, group: Array, epsilon: float) -> float:
    """The one-sided p of a mean difference (the rater's wins less the judge's) below epsilon,
    groups being independent, texts [n] within them not: Student's t with groups - 1 degrees of
    freedom; 1.0 with fewer than two groups. Where nothing varies, 0.0 for a mean below epsilon,
    else 1.0."""
    # the null hypothesis: the rater wins more often than the judge by epsilon or more
    apart = float(differences.mean()) - epsilon
    number = np.unique(group, return_inverse=True)[1]
    count = int(number.max()) + 1
    if count < 2:
        return 1.0
    freedom = count - 1
    centered = differences - differences.mean()
    # texts of a group move together: what counts is how far whole groups lie off
    sums = np.bincount(number, centered)
    variance = count / freedom * (sums @ sums)
    error = np.sqrt(variance) / len(differences)
    if error < _TIE:
        return 0.0 if apart < -_TIE else 1.0
    return float(scipy.special.stdtr(freedom, apart / error))


def alternative_record(
    scores: Array,
    ratings: Array,
    clusters: Clusters,
) -> Record:
    """The alternative annotator test of a judge, with the epsilon of `EXPERTS`.

    Args:
        scores: [N] the judge's on the raters' scale, raw or calibrated; NaN where it gave none.
            Raters give whole categories, and a mean such as 4.7 never ties with them: round such
            scores first (`humans.rounded`), or they lose every text on which people agree.
        ratings: [N, R], NaN where a rater gave none.
        clusters: of the texts; one a text gives the paper's test.

    Returns:
        tested: raters with at least `FEWEST_RATED` shared texts in `FEWEST` groups; winning_rate:
            the share of them
        over whom the judge wins; paper_winning_rate: the same, texts counted as independent;
        advantage: the share of texts on which the judge lies at least as close to the others as the
            rater, mean over raters.
        favorite: the one rating that wins most if it is given to all texts, and favorite_*: a judge
            that always says
        that; shuffled_*: the judge's scores, dealt to texts at random; _difference: the judge's
        advantage less theirs,
        paired. by_favorite: the judge passes, as does one of the two from which it cannot be told:
            no sign of judgment.
    """
    used = ((~np.isnan(ratings)).sum(axis=1) > 1) & np.isfinite(scores)
    ratings = ratings[used]
    scores = scores[used]
    clusters = clusters.at(used)
    # 1. who wins each text, and over whom the judge wins
    sides = closer(scores, ratings)
    group = clusters.number
    tested, rate = _tested(sides, group)
    columns = list(tested)
    passes = None if rate is None else rate >= PASSED
    advantage = _advantage(sides[0], columns, clusters)
    record: Record = {
        "tested": len(columns),
        "epsilon": EXPERTS,
        "scoring": "rmse",
        "winning_rate": rate,
        "passes": passes,
        "paper_winning_rate": _tested(sides, np.arange(len(ratings)))[1],
        **clusters.record({"advantage": advantage}),
        "raters": [],
    }
    # 2. each rater
    judge, rater = sides
    for column, (p, p_by) in tested.items():
        rows = ~np.isnan(judge[:, column])
        record["raters"].append(
            {
                "column": column,
                "texts": int(rows.sum()),
                "groups": len(np.unique(group[rows])),
                "advantage_judge": float(judge[rows, column].mean()),
                "advantage_rater": float(rater[rows, column].mean()),
                "p": p,
                "p_by": p_by,
                "wins": p_by <= FALSE_DISCOVERY,
            }
        )
    # 3. judges without judgment
    favorite, blind = _blind(scores, ratings, columns) if columns else (None, {})
    record["favorite"] = favorite
    by_favorite = False
    for name in ("favorite", "shuffled"):
        # a test that a judge without a look at the texts passes as well says nothing of this one
        other_rate = None
        other = np.full(len(advantage), np.nan)
        if name in blind:
            other_rate = _tested(blind[name], group)[1]
            other = _advantage(blind[name][0], columns, clusters)
        difference = advantage - other
        record |= {
            f"{name}_winning_rate": other_rate,
            f"{name}_advantage": float(other[0]) if columns else None,
            **clusters.record({f"{name}_difference": difference}),
        }
        low = record[f"{name}_difference_low"]
        alike = (float(difference[0]) if low is None else low) <= 0
        if passes and other_rate is not None and other_rate >= PASSED and alike:
            by_favorite = True
    return record | {"by_favorite": by_favorite}


def _tested(sides: Sides, group: Array) -> tuple[dict[int, tuple[float, float]], float | None]:
    """Columns of the raters that are tested -> p and corrected p; and the winning rate, None
    without any."""
    judge, rater = sides
    columns = []
    p_values = []
    for column in range(judge.shape[1]):
        rows = ~np.isnan(judge[:, column])
        groups = group[rows]
        if rows.sum() >= FEWEST_RATED and len(np.unique(groups)) >= FEWEST:
            differences = (rater - judge)[rows, column]
            # only raters with enough texts, or p would be that of a few texts
            columns.append(column)
            p_values.append(clustered_p(differences, groups, EXPERTS))
    if not columns:
        return {}, None
    corrected = _by_false_discovery(np.array(p_values)).tolist()
    rate = float(np.mean([p <= FALSE_DISCOVERY for p in corrected]))
    pairs = zip(p_values, corrected, strict=True)
    return dict(zip(columns, pairs, strict=True)), rate


def _by_false_discovery(p_values: Array) -> Array:
    """P-values [m] corrected so that so large a share of those below a level is false at most,
    however they depend on each other: the least of p_(j) m / j * (1 + 1/2 + ... + 1/m) over the
    ranks j from its own on (Benjamini and Yekutieli, "The control of the false discovery rate in
    multiple testing under dependency", 2001, theorem 1.3).

    Example:
        >>> _by_false_discovery(np.array([0.04, 0.01])).round(12).tolist()
        [0.06, 0.03]
    """
    order = np.argsort(p_values)
    ranks = np.arange(1, len(p_values) + 1)
    raised = p_values[order] * len(ranks) / ranks * (1 / ranks).sum()
    corrected = np.empty_like(p_values)
    corrected[order] = np.minimum.accumulate(raised[::-1])[::-1].clip(0, 1)
    return corrected


def _advantage(judge: Array, columns: Sequence[int], clusters: Clusters) -> Array:
    """[1 + B] the share of texts that the judge wins, mean over tested raters; NaN without any."""
    if not columns:
        return np.full(len(clusters.weights), np.nan)
    won = judge[:, columns]
    texts = clusters.sums(1.0 * ~np.isnan(won))
    shares = safe_divide(clusters.sums(np.nan_to_num(won)), texts)  # [1 + B, raters]
    return np.nanmean(shares, axis=1)


def _blind(scores: Array, ratings: Array, columns: Sequence[int]) -> tuple[float, dict[str, Sides]]:
    """The rating that wins most texts if it is given to all, the lowest of equals; and what
    `closer` says of it, and expects of the judge's scores in any order."""

    def always(score: float) -> Sides:
        return closer(np.full(len(ratings), score), ratings)

    # 1. each rating, given to all texts
    places = np.linspace(0, 1, _TRIED)
    given = without_nan(ratings)
    tried = np.unique(np.quantile(given, places, method="nearest"))
    sides = {rating: always(rating) for rating in tried.tolist()}
    won = {}
    for rating, (judge, _) in sides.items():
        tested = judge[:, columns]
        shares = np.nanmean(tested, axis=0)  # [raters]
        won[rating] = float(shares.mean())
    best = max(won, key=won.__getitem__)
    # 2. the mean over all orders of the scores: each text gets each score as often as there are
    if len(np.unique(scores)) > _TRIED:
        scores = np.quantile(scores, places, method="nearest")
    values, counts = np.unique(scores, return_counts=True)
    shares = counts / counts.sum()
    shuffled_judge = np.zeros(ratings.shape)
    shuffled_rater = np.zeros(ratings.shape)
    for value, share in zip(values, shares, strict=True):
        judge, rater = always(value)
        shuffled_judge += share * judge
        shuffled_rater += share * rater
    return best, {"favorite": sides[best], "shuffled": (shuffled_judge, shuffled_rater)}
