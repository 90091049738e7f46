"""Agreement among humans: Krippendorff's alpha, Gwet's AC2, intraclass correlations, and what a correlation would be
with raters who do not err.

All take ragged ratings [N, R], NaN where a rater gave none, and give each figure for the data and for every resample of
the groups at once, exactly as if the resample had been built: `group` [N] numbers each text's group, and `weights`
[B, G] says how often each group counts. Raters are not resampled: figures speak for these raters.

Where nearly all ratings are equal, alpha and ICC rest on the few texts that differ, and no interval that knows only
these holds the truth often enough (73 to 88 % on 10 to 40 simulated articles of 8 texts, nine ratings in ten the
highest; AC2's 93 to 95 %): `scripts/simulate_agreement.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from judgebench.metrics.correlation import MOST_ENTRIES, rating_table
from judgebench.metrics.resampling import (
    RESAMPLES,
    divided,
    group_sums,
    interval_ends,
    jackknife_weights,
    numbered_groups,
    with_agreement_interval,
    with_interval,
)
from judgebench.metrics.weighted import resampled_correlations

MOST_CATEGORIES = 101
"""Numbers of a scale beyond which it is no list of categories: 0 to 100 still is."""

_SAME = 1e-9  # numbers no farther apart are one category
_SINGULAR = 1e10  # condition of the equations beyond which their answer is rounding


def categories_of(ratings: np.ndarray, scale: tuple[float, float]) -> np.ndarray | None:
    """The whole numbers from one end of the scale to the other; None where they are too many, or where a rating [N, R]
    is none of them.

    Example:
        >>> categories_of(np.array([[2.0, 4.0], [np.nan, 3.0]]), (1, 5)).tolist()
        [1.0, 2.0, 3.0, 4.0, 5.0]
    """
    low, high = scale
    if low != int(low) or high != int(high) or not 1 <= high - low < MOST_CATEGORIES:
        return None
    given = ratings[~np.isnan(ratings)]
    fits = (given == np.round(given)).all() and ((given >= low) & (given <= high)).all()
    return np.arange(low, high + 1.0) if fits else None


def alphas(ratings: np.ndarray, group: np.ndarray, weights: np.ndarray, metric: str = "interval") -> np.ndarray:
    """[B] Krippendorff's alpha of each row of weights; NaN where it is undefined. See `krippendorff_alpha`, which is
    its first value; in a resample the ordinal distances are those of the resample's own ratings."""
    paired = (~np.isnan(ratings)).sum(axis=1) >= 2
    found = np.full(len(weights), np.nan)
    # Texts with the same ratings count together: with three raters and five scores there are 35 kinds of texts.
    kinds, kind = np.unique(np.sort(np.where(np.isnan(ratings), np.inf, ratings)[paired]), axis=0, return_inverse=True)
    given = np.isfinite(kinds)
    values, index = np.unique(kinds[given], return_inverse=True)
    if len(values) < 2 or paired.sum() < 2:  # of one text what raters differ by is all that varies
        return found
    size = given.sum(axis=1)
    starts = np.concatenate([[0], size.cumsum()[:-1]])
    held = sparse.csr_array((np.ones(len(kind)), (kind.ravel(), group[paired])), shape=(len(kinds), weights.shape[1]))
    owner = sparse.csr_array((np.ones(len(index)), (index, np.repeat(np.arange(len(kinds)), size))))
    step = max(1, MOST_ENTRIES // (4 * len(index)))
    for start in range(0, len(weights), step):
        drawn = held @ weights[start : start + step].T.astype(np.float64)  # [kinds, b]
        totals = (owner @ drawn).T  # [b, K] how often each value was given
        n = totals.sum(axis=1)
        # Ordinal: two ranks are as far apart as there are ratings between them, each end counted half.
        places = totals.cumsum(axis=1) - (totals + n[:, None]) / 2
        if metric == "interval":
            places = np.broadcast_to(values - values.mean(), totals.shape)
        at = places[:, index]
        sums, squares = (np.add.reduceat(part, starts, axis=1) for part in (at, at * at))
        observed = (drawn.T * (size * squares - sums**2) / (size - 1)).sum(axis=1)
        expected = n * (totals * places**2).sum(axis=1) - (totals * places).sum(axis=1) ** 2
        varied = (totals > 0).sum(axis=1) > 1
        found[start : start + step] = np.where(varied, 1 - (n - 1) * divided(observed, expected * varied), np.nan)
    return found


def agreement_weights(categories: np.ndarray, kind: str = "quadratic") -> np.ndarray:
    """[K, K] how far two of the ascending categories [K] agree, 1 being the same; Gwet (2014), section 3.5.

    Args:
        kind: `quadratic`, 1 - (squared distance / largest squared distance); `ordinal`, by the pairs of categories
            that lie between the two, ends counted; `identity`, which makes AC2 Gwet's AC1.

    Raises:
        ValueError: another kind, or fewer than two categories.
    """
    places = np.arange(len(categories))
    if len(places) < 2:
        raise ValueError("agreement takes at least two categories")
    if kind == "identity":
        return np.eye(len(places))
    if kind not in ("quadratic", "ordinal"):
        raise ValueError(f"kind must be quadratic, ordinal or identity, got {kind!r}")
    spread = np.abs(places[:, None] - places) + 1
    apart = spread * (spread - 1) / 2.0 if kind == "ordinal" else np.subtract.outer(categories, categories) ** 2
    return 1 - apart / apart.max()


def ac2(
    ratings: np.ndarray, group: np.ndarray, weights: np.ndarray, categories: np.ndarray, kind: str = "quadratic"
) -> np.ndarray:
    """[B] Gwet's AC2 of each row of weights, with 1 for agreement; it stays meaningful where nearly all ratings are
    equal, where kappa and alpha fall to 0. NaN where no text has two ratings. Gwet, "Handbook of Inter-Rater
    Reliability" (2014), section 3.5; ragged ratings as there: agreement over texts with two ratings or more, the shares
    of the categories over all rated texts.

    Args:
        categories: [K] all numbers that a rater may give, ascending: those never given count, too.
        kind: see `agreement_weights`.

    Raises:
        ValueError: a rating that is no category.
    """
    counts = _counts(ratings, categories)
    size = counts.sum(axis=1)
    rated, paired = size > 0, size > 1
    alike = agreement_weights(categories, kind)
    share = (counts * (counts @ alike - 1)).sum(axis=1)[paired] / (size * (size - 1))[paired]
    groups = weights.shape[1]
    agreed = divided(
        weights @ group_sums(share, group[paired], groups), weights @ np.bincount(group[paired], minlength=groups)
    )
    given = counts[rated] / size[rated, None]
    texts = weights @ np.bincount(group[rated], minlength=groups)
    shares = weights @ group_sums(given, group[rated], groups) / np.maximum(texts, 1)[:, None]
    kinds = len(categories)
    chance = alike.sum() / (kinds * (kinds - 1)) * (shares * (1 - shares)).sum(axis=1)
    return (agreed - chance) / (1 - chance)


def _counts(ratings: np.ndarray, categories: np.ndarray) -> np.ndarray:
    """[N, K] how often each text got each category."""
    given = ~np.isnan(ratings)
    values = ratings[given]
    nearest = np.abs(values[:, None] - categories).argmin(axis=1) if len(values) else np.empty(0, dtype=int)
    if (np.abs(values - categories[nearest]) > _SAME).any():
        raise ValueError("a rating lies between the categories")
    counts = np.zeros((len(ratings), len(categories)))
    np.add.at(counts, (np.nonzero(given)[0], nearest), 1.0)
    return counts


class Components(NamedTuple):
    """Parts of the variance of a rating, each [B]; a part may come out below 0.

    Attributes:
        text, rater, rest: of the texts, of the raters' severity, and of everything else.
        raters: ratings of a text, the harmonic mean.
        unshared: share of the raters' part by which the texts' means differ: 0 where all raters rated all texts, so
            that severity moves all means alike.
    """

    text: np.ndarray
    rater: np.ndarray
    rest: np.ndarray
    raters: np.ndarray
    unshared: np.ndarray

    @property
    def single(self) -> np.ndarray:
        """ICC(2,1): the texts' share of the variance of one rating, agreement in points wanted."""
        return _share(self.text, self.rater + self.rest)

    @property
    def mean(self) -> np.ndarray:
        """ICC(2,k): the texts' share of the variance of a mean of `raters` ratings, by raters drawn anew."""
        return _share(self.text, (self.rater + self.rest) / self.raters)

    @property
    def reliability(self) -> np.ndarray:
        """The texts' share of the variance of the texts' mean ratings as they stand, which limits any correlation with
        them: ICC(3,k), that is Cronbach's alpha, where all raters rated all texts."""
        return _share(self.text, self.rater * self.unshared + self.rest / self.raters)


def _share(text: np.ndarray, noise: np.ndarray) -> np.ndarray:
    return divided(text, text + noise)


def variance_components(ratings: np.ndarray, group: np.ndarray, weights: np.ndarray) -> Components:
    """Parts of the variance, texts and raters both random, for each row of weights; NaN where they cannot be told
    apart, as where each text has raters of its own, or where all ratings are equal.

    Henderson's method I ("Estimation of Variance and Covariance Components", 1953): sums of squares of totals, set
    equal to their expectations. Where all raters rated all texts, it is the analysis of variance behind Shrout and
    Fleiss (1979).
    """
    given = ~np.isnan(ratings)
    rated = given.any(axis=1)
    given, group, groups = given[rated], group[rated], weights.shape[1]
    x = np.where(given, ratings[rated] - (np.nanmean(ratings) if rated.any() else 0.0), 0.0)
    size = given.sum(axis=1)
    columns = np.stack(
        [np.ones(len(x)), size, size**2, 1 / size, x.sum(axis=1), x.sum(axis=1) ** 2 / size, (x**2).sum(axis=1)], axis=1
    )
    texts, n, squares, inverse, total, of_texts, raw = (weights @ group_sums(columns, group, groups)).T
    counts, sums, loads = (
        weights @ group_sums(part, group, groups) for part in (1.0 * given, x, given / size[:, None])
    )
    found = np.full((3, len(weights)), np.nan)
    raters = (counts > 0).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        of_raters = np.where(counts > 0, sums**2 / counts, 0.0).sum(axis=1)
        mean, k_text, k_rater = total**2 / n, squares / n, (counts**2).sum(axis=1) / n
        unshared = (inverse - (loads**2).sum(axis=1) / texts) / (texts - 1)
    left = [
        [n - k_text, texts - k_rater, texts - 1],
        [raters - k_text, n - k_rater, raters - 1],
        [k_text - raters, k_rater - texts, n - texts - raters + 1],
    ]
    right = np.stack([of_texts - mean, of_raters - mean, raw - of_texts - of_raters + mean], axis=1)
    equations = np.moveaxis(np.array(left, dtype=np.float64), 2, 0) / np.maximum(n, 1)[:, None, None]
    right /= np.maximum(n, 1)[:, None]
    solvable = np.isfinite(equations).all(axis=(1, 2)) & np.isfinite(right).all(axis=1) & (raw > _SAME * _SAME)
    solvable[solvable] &= np.linalg.cond(equations[solvable]) < _SINGULAR
    found[:, solvable] = np.linalg.solve(equations[solvable], right[solvable][..., None])[..., 0].T
    text, rater, rest = found
    return Components(text, rater, rest, divided(texts, inverse), np.maximum(unshared, 0.0))


def disattenuated(correlations: np.ndarray, reliability: np.ndarray) -> np.ndarray:
    """[B] correlations, divided by the root of the reliability [B] of the humans' means: Spearman, "The Proof and
    Measurement of Association between Two Things" (1904). An estimate of the correlation with raters who do not err;
    it may exceed 1. NaN where the reliability is not above 0. For ranks it is an approximation."""
    known = reliability > 0
    return np.divide(
        correlations, np.sqrt(np.where(known, reliability, 1.0)), out=np.full(len(known), np.nan), where=known
    )


FIGURES = ("alpha_interval", "alpha_ordinal", "ac2", "ac2_ordinal", "icc_single", "icc_mean", "reliability")
"""Figures of agreement in the order of `agreement_record`."""


def agreement_record(
    ratings: np.ndarray,
    groups: np.ndarray,
    categories: Sequence[float] | np.ndarray | None = None,
) -> dict[str, Any]:
    """The agreement of raters among themselves.

    Args:
        ratings: [N, R], NaN where a rater gave none.
        groups: [N] labels of the texts' groups, which are left out in turn.
        categories: all numbers that a rater may give, ascending (see `categories_of`); None where there is no list.

    Returns:
        texts, groups, raters: rated ones; ratings: their number; raters_per_text: harmonic mean, the k of ICC(2,k);
        `FIGURES` with `_low` and `_high` of their 95 % intervals (see `with_agreement_interval`); reason: sentences
        that say why figures are None, else None.

    Raises:
        ValueError: other shapes, or infinite ratings.
    """
    ratings = rating_table(ratings)
    if len(groups) != len(ratings):
        raise ValueError(f"ratings [N, R] and groups [N] do not fit: {list(ratings.shape)}, {len(groups)}")
    rated = ~np.isnan(ratings).all(axis=1)
    ratings = ratings[rated]
    labels, group = np.unique(np.asarray(groups)[rated], return_inverse=True)
    weights = jackknife_weights(len(labels))
    parts = variance_components(ratings, group, weights)
    found = {f"alpha_{metric}": alphas(ratings, group, weights, metric) for metric in ("interval", "ordinal")}
    fitting, between = categories is not None and len(categories) > 1, False
    for name, kind in (("ac2", "quadratic"), ("ac2_ordinal", "ordinal")):
        found[name] = np.full(len(weights), np.nan)
        if fitting and not between:
            try:
                found[name] = ac2(ratings, group, weights, np.asarray(categories, dtype=np.float64), kind)
            except ValueError:
                between = True
    found |= {"icc_single": parts.single, "icc_mean": parts.mean, "reliability": parts.reliability}
    count = weights.shape[1]
    record: dict[str, Any] = {
        "texts": len(ratings),
        "groups": count,
        "raters": int((~np.isnan(ratings)).any(axis=0).sum()),
        "ratings": int((~np.isnan(ratings)).sum()),
        "raters_per_text": float(parts.raters[0]) if len(ratings) else None,
    }
    for name in FIGURES:
        record |= with_agreement_interval(name, found[name])
    return record | {"reason": _reasons(ratings, record, fitting, between)}


def _reasons(ratings: np.ndarray, record: Mapping[str, Any], fitting: bool, between: bool) -> str | None:
    given = ~np.isnan(ratings)
    said = []
    if not (given.sum(axis=1) > 1).any():
        return "No agreement among humans: no text has the ratings of two people."
    values = ratings[given]
    if (values == values[0]).all():
        said.append("No alpha and no ICC: all ratings are equal.")
    elif record["icc_single"] is None:
        said.append("No ICC: texts and raters cannot be told apart, because too few raters share texts.")
    if not fitting:
        said.append("No AC2: the scale is no list of categories.")
    elif between:
        said.append("No AC2: some ratings lie between the categories of the scale.")
    if record["groups"] < 2:
        said.append("No intervals: there is one group, and they take at least two.")
    return " ".join(said) or None


def disattenuated_record(
    scores: np.ndarray, ratings: np.ndarray, groups: np.ndarray, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Any]:
    """The correlations of a judge's scores [N] (NaN where it gave none) with the humans' means, as they are and
    disattenuated.

    Args:
        ratings, groups: see `agreement_record`.

    Returns:
        texts; groups; reliability of the humans' means (see `Components.reliability`), on the texts that the judge
        scored; pearson, spearman, disattenuated_pearson, disattenuated_spearman; all with intervals; reason.
    """
    ratings, scores = rating_table(ratings), np.asarray(scores, dtype=np.float64)
    used = ~np.isnan(ratings).all(axis=1) & np.isfinite(scores)
    ratings, scores = ratings[used], scores[used]
    group, weights = numbered_groups(np.asarray(groups)[used], resamples, seed)
    human = np.nanmean(ratings, axis=1) if len(ratings) else np.empty(0)
    ends = interval_ends(weights.shape[1])
    reliability = variance_components(ratings, group, weights).reliability
    record: dict[str, Any] = {"texts": len(scores), "groups": weights.shape[1]}
    left = variance_components(ratings, group, jackknife_weights(weights.shape[1])).reliability
    record |= with_agreement_interval("reliability", left)
    found = resampled_correlations(scores, human, group, weights)
    for row, name in zip(found, ("pearson", "spearman"), strict=False):
        record |= with_interval(name, row, ends)
        record |= with_interval(f"disattenuated_{name}", disattenuated(row, reliability), ends)
    reason = None
    if record["reliability"] is None:
        reason = "No reliability of the humans' means: too few raters share texts, or all ratings are equal."
    elif record["disattenuated_spearman"] is None:
        reason = "Nothing to divide by: the humans' means are no more alike than chance (reliability not above 0)."
    return record | {"reason": reason}
