"""Means, differences and Spearman of few human ratings and many scores of a judge: prediction-powered inference.

The estimate is that of the labels, moved by how far the judge's scores of all texts lie from its scores of the labelled
ones: labels + beta * (judge on all - judge on labelled). It is right for any judge; a good one makes it narrower. With
the beta chosen here it is PPI++ with power tuning (Angelopoulos, Duchi and Zrnic, arXiv 2311.01453, section 6), whose
lambda is beta / (1 + n / N) for n labelled and N other articles.

The correlation behind beta is one for all systems, corrected for its optimism, and no interval of the combination is
reported that is wider than that of the labels alone: lambda is then 0. See `few_labels` for the intervals, and for the
two targets: keys that end in `_these` speak of these very articles, the others of articles like these.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from judgebench.stats.clusters import left_out
from judgebench.stats.correlation import CORRELATIONS, is_constant, resampled_correlations, spearman
from judgebench.worth.few_labels import FEWEST_LABELLED, Estimates, FewLabels, estimates, from_labels, student

_POOLED = 4.0  # articles' worth of all pairs' correlation in that of each pair of systems
_SPEARMAN = CORRELATIONS.index("spearman")
_CERTAIN = 0.999999  # the rho beyond which Fisher's z is not followed


TARGETS = {"": False, "_these": True}
"""End of a key -> whether it speaks of these very articles."""


def with_judge(data: FewLabels, these: bool = False) -> Estimates:
    """The systems' means from labels and judge; those of the labels alone where these are narrower."""
    human, labelled, every, _ = data.tables
    alone = from_labels(data, these)
    beta = np.where(every.articles > human.articles, shares_of_judge(data), 0.0)
    rest = human.apart - beta[:, None] * labelled.apart
    value = human.mean + beta * (every.mean - labelled.mean)
    found = estimates(data, value, (rest**2).sum(axis=1), beta, these)
    better = (beta > 0) & (found.high - found.low < alone.high - alone.low)
    return Estimates(*(np.where(better, ours, theirs) for ours, theirs in zip(found, alone, strict=True)))


def common_correlation(data: FewLabels) -> float:
    """Pearson's r of humans and judge over the labelled articles within systems, one for all systems, corrected for its
    optimism as adjusted R^2 is; 0.0 where it is negative, or below what chance gives."""
    human, labelled = data.tables.human, data.tables.labelled
    both = human.articles >= 2
    scale = np.sqrt(human.squares * labelled.squares)[both].sum()
    if not scale > 0:
        return 0.0
    r = (human.apart * labelled.apart)[both].sum() / scale
    degrees = (human.articles[both] - 1).sum()
    adjusted = 1 - (1 - r * r) * degrees / (degrees - 1) if degrees > 1 else 0.0
    return math.sqrt(adjusted) if r > 0 and adjusted > 0 else 0.0


def shares_of_judge(data: FewLabels) -> np.ndarray:
    """The betas [S], how far the humans' mean follows the judge's; 0 where one of them does not vary."""
    human, every = data.tables.human, data.tables.every
    spread = np.divide(human.variance, every.variance, out=np.zeros_like(human.mean), where=every.variance > 0)
    return common_correlation(data) * np.sqrt(spread)


def predicted_means(data: FewLabels) -> list[dict[str, Any]]:
    """The systems' means on the humans' scale, three ways.

    Returns:
        A record a system, by name: system; texts, articles: of all; labelled_texts, labelled_articles; labels, judge,
        predicted: the means of the labels alone, of the judge's own scores (on the judge's scale and with its bias: no
        estimate of what humans say) and of both together, each with `_low` and `_high` of its 95 % interval over
        articles like these; lambda: the weight of the judge in `predicted`, as PPI++ counts it; narrower: the share of
        the labels' interval that the judge saves; labels_these_low and _high, predicted_these with its ends,
        lambda_these, narrower_these: the same of these very articles; reason: why there is no interval, else None.
    """
    human, every = data.tables.human, data.tables.every
    sides = {end: (from_labels(data, these), with_judge(data, these)) for end, these in TARGETS.items()}
    with np.errstate(invalid="ignore"):  # of one article
        half = student(every.articles - 1) * np.sqrt(every.variance / np.maximum(every.articles, 1))
    given = ~np.isnan(data.human)
    system = np.asarray(data.systems).astype(str)
    records = []
    for s, name in enumerate(data.names):
        record: dict[str, Any] = {
            "system": name,
            "texts": int((system == name).sum()),
            "articles": int(every.articles[s]),
            "labelled_texts": int(given[system == name].sum()),
            "labelled_articles": int(human.articles[s]),
            **_ends("judge", every.mean[s], every.mean[s] - half[s], every.mean[s] + half[s]),
        }
        for end, (alone, both) in sides.items():
            record |= _ends(f"labels{end}", alone.value[s], alone.low[s], alone.high[s])
            record |= _ends(f"predicted{end}", both.value[s], both.low[s], both.high[s])
            record[f"lambda{end}"] = float(both.beta[s] * (1 - human.articles[s] / every.articles[s]))
            record[f"narrower{end}"] = _narrower(both.high[s] - both.low[s], alone.high[s] - alone.low[s])
        records.append(record | {"reason": _too_few(int(human.articles[s]))})
    return records


def _ends(name: str, value: float, low: float, high: float) -> dict[str, float | None]:
    numbers = zip((name, f"{name}_low", f"{name}_high"), (value, low, high), strict=True)
    return {key: float(one) if np.isfinite(one) else None for key, one in numbers}


def _narrower(ours: float, theirs: float) -> float | None:
    return float(1 - ours / theirs) if theirs > 0 else None


def _too_few(articles: int) -> str | None:
    if articles >= FEWEST_LABELLED:
        return None
    counted = "1 group has" if articles == 1 else f"{articles} groups have"
    return f"No interval: {counted} ratings, and it takes {FEWEST_LABELLED}."


def predicted_differences(data: FewLabels, pairs: Sequence[tuple[str, str]] = ()) -> list[dict[str, Any]]:
    """The difference first - second of two systems' means on the humans' scale, from labels alone and with the judge.

    The ends follow from those of the two means and the correlation of the two over articles (Zou and Donner,
    "Construction of confidence limits about effect measures", 2008), which is drawn towards that of all pairs.

    Args:
        pairs: names of systems; all pairs in alphabetical order if there are none.

    Returns:
        A record a pair: first, second; labels, predicted, each with `_low` and `_high`; narrower; told_apart: True
        where the interval of `predicted` leaves out 0 (each pair by itself); the same of these very articles, as
        labels_these and so on; reason. See `predicted_means`.
    """
    places = {name: s for s, name in enumerate(data.names)}
    pairs = pairs or [(one, other) for s, one in enumerate(data.names) for other in data.names[s + 1 :]]
    first, second = (np.array([places[pair[side]] for pair in pairs], dtype=int) for side in (0, 1))
    human, labelled = data.tables.human, data.tables.labelled
    records: list[dict[str, Any]] = [{"first": one, "second": other} for one, other in pairs]
    for end, these in TARGETS.items():
        sides: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        for found in (from_labels(data, these), with_judge(data, these)):
            rest = human.apart - found.beta[:, None] * labelled.apart
            r = pair_correlations(rest, human.articles)
            ends = pair_ends(found.value, found.low, found.high, r, first, second)
            sides.append((found.value[first] - found.value[second], *ends))
        # One side's interval may be narrower for each mean and yet wider for their difference.
        keep = sides[1][2] - sides[1][1] < sides[0][2] - sides[0][1]
        labels, both = sides[0], tuple(np.where(keep, ours, theirs) for theirs, ours in zip(*sides, strict=True))
        for k, record in enumerate(records):
            record |= _ends(f"labels{end}", *(side[k] for side in labels))
            record |= _ends(f"predicted{end}", *(side[k] for side in both))
            record[f"narrower{end}"] = _narrower(both[2][k] - both[1][k], labels[2][k] - labels[1][k])
            low, high = record[f"predicted{end}_low"], record[f"predicted{end}_high"]
            record[f"told_apart{end}"] = None if low is None else bool(low > 0 or high < 0)
    for k, record in enumerate(records):
        record["reason"] = _too_few(int(min(human.articles[first[k]], human.articles[second[k]])))
    return records


def pair_ends(
    value: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    correlations: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The ends [P] of the intervals of differences first - second of estimates [S], from their own ends [S] and their
    correlations [S, S]: Zou and Donner (2008), equation 11."""
    r, apart, ends = correlations[first, second], value[first] - value[second], []
    for one, other in ((low, high), (high, low)):
        a, b = (value - one)[first], (other - value)[second]
        ends.append(np.sqrt(np.maximum(a * a + b * b - 2 * r * a * b, 0.0)))
    return apart - ends[0], apart + ends[1]


def pair_correlations(apart: np.ndarray, articles: np.ndarray) -> np.ndarray:
    """[S, S] of the errors of two systems' means over articles, drawn towards that of all pairs."""
    products = apart @ apart.T
    norms = np.sqrt(np.outer(np.diag(products), np.diag(products)))
    off = ~np.eye(len(products), dtype=bool)
    if not norms[off].sum() > 0:
        return np.zeros_like(products)
    pooled = products[off].sum() / norms[off].sum()
    weight = _POOLED / max(articles.max() - 1, 1) * norms[off].mean()
    return np.clip((products + weight * pooled) / (norms + weight), -1.0, 1.0)


def predicted_spearman(
    scores: np.ndarray, human: np.ndarray, stand_in: np.ndarray, groups: np.ndarray
) -> dict[str, float | str | None]:
    """Spearman's rho of some column with the humans, from few ratings and a stand-in for humans on all texts.

    The column is another judge's scores, or any property of the texts, such as their length; the stand-in must not be
    the column itself, whose rho with itself says nothing. Rho is taken as Fisher's z, each article's part in it from
    the jackknife, and these parts as in `predicted_means`: `ppboot` of the same paper's authors (Zrnic, arXiv
    2405.18379) resamples instead.

    Args:
        scores: [N] the column.
        human: [N] mean ratings, NaN where nobody rated.
        stand_in: [N] scores of a judge.
        groups: [N] labels of the articles.

    Returns:
        labels, judge, predicted: rho on the labelled texts, of the column with the stand-in on all texts, and of both
        together, each with `_low` and `_high` of its 95 % interval; lambda, narrower, those of these very articles
        (`_these`), reason: see `predicted_means`.
    """
    human, groups = np.asarray(human, dtype=np.float64), np.asarray(groups)
    given = ~np.isnan(human)
    ours, shift, every = (
        _fisher(np.asarray(scores)[of], np.asarray(side)[of], groups[of])
        for side, of in ((human, given), (stand_in, given), (stand_in, np.ones_like(given)))
    )
    count, total = len(ours) - 1, len(every) - 1
    reason = _too_few(count) or (None if ours.any() else "No interval: the ratings, or the scores, do not vary.")
    sides = {"judge": (every[0], _half(every) if total >= FEWEST_LABELLED else np.nan)}
    record: dict[str, float | str | None] = {}
    for end, these in TARGETS.items():
        alone = ours[0], np.nan if reason else _half(ours) * (math.sqrt(1 - count / total) if these else 1.0)
        beta, reach = (0.0, np.nan) if reason else _moved(ours, shift, every, these)
        moved = ours[0] + beta * (every[0] - shift[0]), reach
        if not _width(*moved) < _width(*alone):
            beta, moved = 0.0, alone
        sides |= {f"labels{end}": alone, f"predicted{end}": moved}
        record[f"lambda{end}"] = float(beta * (total - count) / total)
        record[f"narrower{end}"] = None if reason else _narrower(_width(*moved), _width(*alone))
    for name, (value, reach) in sides.items():
        record |= _ends(name, *np.tanh([value, value - reach, value + reach]))
    return record | {"reason": reason}


def _width(value: float, reach: float) -> float:
    return float(np.tanh(value + reach) - np.tanh(value - reach))


def _half(parts: np.ndarray) -> float:
    """Half of the interval of a value [1 + G] with its groups' parts, in its own units."""
    count = len(parts) - 1
    return float(student(count - 1) * np.sqrt(parts[1:].var(ddof=1) / count))


def _moved(ours: np.ndarray, shift: np.ndarray, every: np.ndarray, these: bool) -> tuple[float, float]:
    """beta, and half of the moved value's interval, from values and parts [1 + n], [1 + n] and [1 + n + N]: those of
    the humans, and of the stand-in on the labelled groups and on all. It pays for the beta that it learns: a
    regression's residuals, leverage and degrees of freedom."""
    count, total = len(ours) - 1, len(every) - 1
    apart = shift[1:] - shift[1:].mean()
    squares = float(apart @ apart)
    if total == count or squares == 0 or ours[1:].std() == 0:
        return 0.0, np.inf
    r = float(np.corrcoef(ours[1:], shift[1:])[0, 1])
    kept = max(1 - (1 - r * r) * (count - 1) / (count - 2), 0.0)
    beta = math.copysign(math.sqrt(kept), r) * float(ours[1:].std() / every[1:].std())
    residual = (ours - beta * shift)[1:].var() * count / (count - 2)
    leverage = (every[0] - shift[0]) ** 2 / squares
    variance = residual * (1 / count + leverage) + beta**2 * every[1:].var(ddof=1) / total
    if these:
        variance = residual * (1 / count - 1 / total + leverage)
    return beta, float(student(count - 2) * np.sqrt(variance))


def _fisher(scores: np.ndarray, human: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """[1 + G] Fisher's z of rho, and each group's part in it: the jackknife's pseudo-values."""
    labels, group = np.unique(groups, return_inverse=True)
    if len(labels) < 2 or is_constant(scores) or is_constant(human):
        return np.zeros(1 + len(labels))
    without = resampled_correlations(scores, human, group, left_out(len(labels)))[_SPEARMAN]
    whole, parts = (np.arctanh(np.clip(rho, -_CERTAIN, _CERTAIN)) for rho in (spearman(scores, human), without))
    count = len(parts)
    return np.concatenate([[whole], count * whole - (count - 1) * parts])
