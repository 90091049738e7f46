"""Few human ratings of many texts, and a judge's scores of all: means of systems whose intervals hold at 10 to 20
labelled articles, by prediction-powered inference.

**Intervals.** Articles are the unit: their texts are labelled together, and articles to label must be drawn at random.
Where ratings hardly vary, the plain interval of 10 to 20 labelled articles holds the truth in 50 to 85 % of cases. Here
variance follows the mean: on a scale from a to b a mean m allows a variance of at most (m - a)(b - m), and ratings take
a share of it, the dispersion (1 of a rating that knows the two ends alone, 1/3 of one spread evenly). The share is
estimated from all systems together, and of one system it is drawn towards that: a system whose ten ratings were all 5
is not certain to be perfect. The interval has all means that are not refuted with the variance that they would have
themselves; Wilson's interval of a proportion is the case of dispersion 1. Student's t has the labelled articles less
one as degrees of freedom. `scripts/simulate.py` has the coverage.

**Targets.** *These very articles*: the mean that the ratings of all N articles would have, of which n are labelled; the
interval shrinks by sqrt(1 - n / N), and to a point where all are labelled (Cochran, "Sampling Techniques", 1977,
section 2.6). *Articles like these*: the mean over all articles that might have been drawn. Keys that end in `_these`
speak of the former.

**With a judge** the estimate is that of the labels, moved by how far the judge's scores of all texts lie from its
scores of the labelled ones: labels + beta * (judge on all - judge on labelled). With labels 3.0, and a judge that gave
these articles 3.4 and all 3.8 on average, beta .5 makes it 3.2. It is right for any judge, and narrower by a good one.
With the beta chosen here it is PPI++ with power tuning (Angelopoulos, Duchi and Zrnic, arXiv 2311.01453, section 6),
whose lambda is beta / (1 + n / N) for n labelled and N other articles. The correlation behind beta is one for all
systems, corrected for its optimism, and no interval of the combination is reported that is wider than that of the
labels alone: lambda is then 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from judgebench.stats.clusters import CONFIDENCE, divided, left_out
from judgebench.stats.correlation import SPEARMAN, is_constant, resampled_correlations, spearman
from judgebench.stats.scores import Sample

FEWEST_LABELLED = 5
"""Labelled articles from which there are intervals."""

MOST_PAIRED = 12
"""Systems whose pairs are compared."""

TARGETS = {"": False, "_these": True}
"""End of a key -> whether it speaks of these very articles."""

Scale = tuple[float, float] | None

_POOLED = 4.0  # articles' worth of all systems' (or pairs') dispersion or correlation in that of each
_FLAT = 1.0  # ratings' worth of an evenly spread rating, in the dispersion of all systems
_EVEN = 1 / 3  # its dispersion
_CERTAIN = 0.999999  # the rho beyond which Fisher's z is not followed
_STAND_INS = {"main": ("assistant",), "assistant": ("main",), "pair": ("main",)}


class Clustered(NamedTuple):
    """Means of texts by system, where articles are drawn.

    Attributes:
        mean: [S]; NaN of a system without texts.
        apart: [S, G] each article's part in the mean's error: its texts' distance from the mean, summed, over the mean
            number of texts an article. 0 where an article has none.
        articles: [S] with texts of the system.
        squares: [S] sums of apart^2.
        variance: [S] of a single article; 0 with fewer than two.
    """

    mean: np.ndarray
    apart: np.ndarray
    articles: np.ndarray
    squares: np.ndarray
    variance: np.ndarray

    @classmethod
    def of(cls, sums: np.ndarray, sizes: np.ndarray) -> Clustered:
        """Of sums and numbers of texts [S, G]."""
        texts, articles = sizes.sum(axis=1), (sizes > 0).sum(axis=1)
        mean = divided(sums.sum(axis=1), texts)
        apart = np.where(sizes > 0, sums - mean[:, None] * sizes, 0.0) * divided(articles, texts)[:, None]
        apart = np.nan_to_num(apart)
        squares = (apart**2).sum(axis=1)
        return cls(mean, apart, articles, squares, squares / np.maximum(articles - 1, 1))


@dataclass(frozen=True)
class FewLabels:
    """A judge's scores of all texts, and human ratings of some.

    Args:
        human: [N] the mean rating of each text; NaN where nobody rated it.
        judge: [N] the judge's scores, on any scale.
        groups: [N] labels of the articles. Those with ratings must be a random part of all.
        systems: [N] labels of the systems.
        scale: the lowest and highest rating that can be given; None where ratings have no ends, which leaves ratings
            that do not vary with intervals that are too narrow.
    """

    human: np.ndarray
    judge: np.ndarray
    groups: np.ndarray
    systems: np.ndarray
    scale: Scale

    @classmethod
    def of(cls, side: Sample) -> FewLabels:
        """A judge's scores on the humans' scale, with the ratings."""
        human = side.human if side.scale is None else np.clip(side.human, *side.scale)
        return cls(human, side.on_scale, side.groups, side.systems, side.scale)

    @cached_property
    def names(self) -> list[str]:
        """[S] of the systems, sorted."""
        return [str(name) for name in np.unique(np.asarray(self.systems))]

    @cached_property
    def sizes(self) -> tuple[np.ndarray, np.ndarray]:
        """The numbers [S, G] of labelled texts, and of all."""
        every = np.ones(len(self.human))
        return self._sums(every, ~np.isnan(self.human)), self._sums(every, every > 0)

    @cached_property
    def ratings(self) -> Clustered:
        """The humans' of the labelled texts."""
        return Clustered.of(self._sums(self.human, ~np.isnan(self.human)), self.sizes[0])

    @cached_property
    def labelled(self) -> Clustered:
        """The judge's of the labelled texts."""
        return Clustered.of(self._sums(self.judge, ~np.isnan(self.human)), self.sizes[0])

    @cached_property
    def every(self) -> Clustered:
        """The judge's of all texts."""
        return Clustered.of(self._sums(self.judge, np.isfinite(self.judge)), self.sizes[1])

    def _sums(self, values: np.ndarray, where: np.ndarray) -> np.ndarray:
        """[S, G] sums of values over texts by system and article."""
        system = np.unique(np.asarray(self.systems), return_inverse=True)[1]
        labels, group = np.unique(np.asarray(self.groups), return_inverse=True)
        place, shape = system * len(labels) + group, (len(self.names), len(labels))
        return np.bincount(place[where], values[where], shape[0] * shape[1]).reshape(shape)

    def unlabelled(self) -> np.ndarray:
        """[S] the finite population correction of means of these very articles: 1 less the share of a system's articles
        that have ratings, times the share of these articles' texts that do."""
        rated, every = self.sizes
        within = np.where(rated > 0, every, 0).sum(axis=1)
        shares = np.divide(rated.sum(axis=1), within, out=np.zeros(len(rated)), where=within > 0)
        return 1 - shares * (rated > 0).sum(axis=1) / (every > 0).sum(axis=1)


# Means


class Estimates(NamedTuple):
    """[S] estimates, the ends of their 95 % intervals (NaN below `FEWEST_LABELLED`), and the judge's beta in them."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    beta: np.ndarray


def student(degrees: np.ndarray | float) -> np.ndarray:
    """The quantile of Student's t that ends a 95 % interval, of degrees of freedom [...]; infinite below one."""
    degrees = np.asarray(degrees, dtype=np.float64)
    return np.where(degrees >= 1, special.stdtrit(np.maximum(degrees, 1), CONFIDENCE[1]), np.inf)


def dispersions(squares: np.ndarray, degrees: np.ndarray, means: np.ndarray, scale: Scale) -> np.ndarray:
    """The share that each system's variance takes of the most that its mean allows, [S]; without a scale, the variance.

    Of all systems together it is drawn to that of evenly spread ratings, with the weight of one rating in the middle of
    the scale; of one system to that of all, with the weight of four articles.

    Args:
        squares: [S] sums of squared distances from the mean, over articles.
        degrees: [S] articles less one.
        means: [S] of the ratings.

    Example:
        >>> dispersions(np.array([4.0]), np.array([9]), np.array([3.0]), (1, 5))  # (4 + 4/3) / (9 x 2 x 2 + 4)
        array([0.13333333])
    """
    allowed, flat = np.ones_like(means), 0.0
    if scale is not None:
        allowed = np.maximum((means - scale[0]) * (scale[1] - means), 0.0)
        flat = _FLAT * (scale[1] - scale[0]) ** 2 / 4
    mass = (degrees * allowed).sum() + flat
    pooled = (squares.sum() + _EVEN * flat) / mass if mass > 0 else 0.0
    weight = _POOLED * allowed.mean() if len(means) > 1 else 0.0
    if not weight:
        return np.full_like(means, pooled)
    return (squares + weight * pooled) / (degrees * allowed + weight)


def means_not_refuted(
    value: np.ndarray, relative: np.ndarray, fixed: np.ndarray, scale: Scale
) -> tuple[np.ndarray, np.ndarray]:
    """The lowest and the highest mean m [S] with (value - m)^2 <= relative * (m - a)(b - m) + fixed, at the most the
    ends a and b of the scale; without a scale, with (value - m)^2 <= relative + fixed.

    With relative = z^2 / n and fixed = 0 on a scale from 0 to 1 it is Wilson's interval.
    """
    if scale is None:
        half = np.sqrt(relative + fixed)
        return value - half, value + half
    low, high = scale
    middle = (value + relative * (low + high) / 2) / (1 + relative)
    inner = middle**2 - (value**2 + relative * low * high - fixed) / (1 + relative)
    half = np.sqrt(np.maximum(inner, 0.0))
    # the value itself is never refuted, were it by rounding
    return np.clip(middle - half, low, value), np.clip(middle + half, value, high)


def estimates(data: FewLabels, beta: np.ndarray, these: bool) -> Estimates:
    """The systems' means with the parts `beta` [S] of the judge; 0 are the labels alone."""
    human, every = data.ratings, data.every
    value = human.mean + beta * (every.mean - data.labelled.mean)
    squares = ((human.apart - beta[:, None] * data.labelled.apart) ** 2).sum(axis=1)
    value = value if data.scale is None else np.clip(value, *data.scale)
    usable, share = human.articles >= 2, np.full(len(value), np.nan)
    share[usable] = dispersions(squares[usable], human.articles[usable] - 1, human.mean[usable], data.scale)
    times = student(human.articles - 1) ** 2
    with np.errstate(invalid="ignore", divide="ignore"):
        relative = times * share / human.articles * (data.unlabelled() if these else 1.0)
        # the judge's mean over these very articles has no error
        fixed = np.zeros(len(value)) if these else times * beta**2 * every.variance / every.articles
        low, high = means_not_refuted(value, relative, fixed, data.scale)
    known = human.articles >= FEWEST_LABELLED
    return Estimates(value, np.where(known, low, np.nan), np.where(known, high, np.nan), beta)


def from_labels(data: FewLabels, these: bool = False) -> Estimates:
    """The systems' means from their labels alone."""
    return estimates(data, np.zeros(len(data.names)), these)


def with_judge(data: FewLabels, these: bool = False) -> Estimates:
    """The systems' means from labels and judge; those of the labels alone where these are narrower."""
    alone = from_labels(data, these)
    both = estimates(data, np.where(data.every.articles > data.ratings.articles, shares_of_judge(data), 0.0), these)
    better = (both.beta > 0) & (both.high - both.low < alone.high - alone.low)
    return Estimates(*(np.where(better, ours, theirs) for ours, theirs in zip(both, alone, strict=True)))


def common_correlation(data: FewLabels) -> float:
    """Pearson's r of humans and judge over the labelled articles within systems, one for all systems, corrected for its
    optimism as adjusted R^2 is; 0.0 where it is negative, or below what chance gives."""
    human, labelled = data.ratings, data.labelled
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
    spread = np.nan_to_num(divided(data.ratings.variance, data.every.variance))
    return common_correlation(data) * np.sqrt(spread)


def predicted_means(data: FewLabels) -> list[dict[str, Any]]:
    """The systems' means on the humans' scale, three ways.

    Returns:
        A record a system, by name: system; texts, articles: of all; labelled_texts, labelled_articles; labels, judge,
        predicted: the means of the labels alone, of the judge's own scores (on the judge's scale and with its bias: no
        estimate of what humans say) and of both together, each with `_low` and `_high` of its 95 % interval over
        articles like these; lambda: the weight of the judge in `predicted`, as PPI++ counts it; narrower: the share of
        the labels' interval that the judge saves; labels_these, predicted_these with their ends, lambda_these,
        narrower_these: the same of these very articles; reason: why there is no interval, else None.
    """
    human, every = data.ratings, data.every
    sides = {end: (from_labels(data, these), with_judge(data, these)) for end, these in TARGETS.items()}
    with np.errstate(invalid="ignore"):  # of one article
        half = student(every.articles - 1) * np.sqrt(every.variance / np.maximum(every.articles, 1))
    rated, texts = (sizes.sum(axis=1) for sizes in data.sizes)
    records = []
    for s, name in enumerate(data.names):
        record: dict[str, Any] = {"system": name, "texts": int(texts[s]), "articles": int(every.articles[s])}
        record |= {"labelled_texts": int(rated[s]), "labelled_articles": int(human.articles[s])}
        record |= _ends("judge", every.mean[s], every.mean[s] - half[s], every.mean[s] + half[s])
        for end, (alone, both) in sides.items():
            record |= _ends(f"labels{end}", alone.value[s], alone.low[s], alone.high[s])
            record |= _ends(f"predicted{end}", both.value[s], both.low[s], both.high[s])
            record[f"lambda{end}"] = float(both.beta[s] * (1 - human.articles[s] / every.articles[s]))
            record[f"narrower{end}"] = _narrower(both.high[s] - both.low[s], alone.high[s] - alone.low[s])
        records.append(record | {"reason": _too_few(int(human.articles[s]))})
    return records


def _ends(name: str, value: float, low: float, high: float) -> dict[str, float | None]:
    numbers = {name: value, f"{name}_low": low, f"{name}_high": high}
    return {key: float(number) if np.isfinite(number) else None for key, number in numbers.items()}


def _narrower(ours: float, theirs: float) -> float | None:
    return float(1 - ours / theirs) if theirs > 0 else None


def _too_few(articles: int) -> str | None:
    if articles >= FEWEST_LABELLED:
        return None
    counted = "1 group has" if articles == 1 else f"{articles} groups have"
    return f"No interval: {counted} ratings, and it takes {FEWEST_LABELLED}."


# Differences


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
    articles = data.ratings.articles
    records: list[dict[str, Any]] = [{"first": one, "second": other} for one, other in pairs]
    for end, these in TARGETS.items():
        sides: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        for means in (from_labels(data, these), with_judge(data, these)):
            correlations = pair_correlations(data.ratings.apart - means.beta[:, None] * data.labelled.apart, articles)
            ends = pair_ends(means.value, means.low, means.high, correlations, first, second)
            sides.append((means.value[first] - means.value[second], *ends))
        # one side's interval may be narrower for each mean and yet wider for their difference
        keep = sides[1][2] - sides[1][1] < sides[0][2] - sides[0][1]
        labels, both = sides[0], tuple(np.where(keep, ours, theirs) for theirs, ours in zip(*sides, strict=True))
        for k, record in enumerate(records):
            record |= _ends(f"labels{end}", *(side[k] for side in labels))
            record |= _ends(f"predicted{end}", *(side[k] for side in both))
            record[f"narrower{end}"] = _narrower(both[2][k] - both[1][k], labels[2][k] - labels[1][k])
            low, high = record[f"predicted{end}_low"], record[f"predicted{end}_high"]
            record[f"told_apart{end}"] = None if low is None else bool(low > 0 or high < 0)
    for k, record in enumerate(records):
        record["reason"] = _too_few(int(min(articles[first[k]], articles[second[k]])))
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
    r, apart, far = correlations[first, second], value[first] - value[second], []
    for one, other in ((low, high), (high, low)):
        a, b = (value - one)[first], (other - value)[second]
        far.append(np.sqrt(np.maximum(a * a + b * b - 2 * r * a * b, 0.0)))
    return apart - far[0], apart + far[1]


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


# Spearman


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
    given = ~np.isnan(human)
    ours, shift, every = (
        _fisher(scores[rows], side[rows], groups[rows])
        for side, rows in ((human, given), (stand_in, given), (stand_in, np.ones_like(given)))
    )
    count, total = len(ours) - 1, len(every) - 1
    reason = _too_few(count) or (None if ours.any() else "No interval: the ratings, or the scores, do not vary.")
    sides = {"judge": (every[0], _half(every) if total >= FEWEST_LABELLED else np.nan)}
    record: dict[str, float | str | None] = {}
    for end, these in TARGETS.items():
        alone = ours[0], np.nan if reason else _half(ours) * (math.sqrt(1 - count / total) if these else 1.0)
        beta, reach = (0.0, np.nan) if reason else _moved(ours, shift, every, these)
        both = ours[0] + beta * (every[0] - shift[0]), reach
        widths = [float(np.tanh(value + half) - np.tanh(value - half)) for value, half in (both, alone)]
        if not widths[0] < widths[1]:
            beta, both, widths = 0.0, alone, [widths[1]] * 2
        sides |= {f"labels{end}": alone, f"predicted{end}": both}
        record[f"lambda{end}"] = float(beta * (total - count) / total)
        record[f"narrower{end}"] = None if reason else _narrower(*widths)
    for name, (value, reach) in sides.items():
        record |= _ends(name, *np.tanh([value, value - reach, value + reach]))
    return record | {"reason": reason}


def _fisher(scores: np.ndarray, human: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """[1 + G] Fisher's z of rho, and each group's part in it: the jackknife's pseudo-values."""
    labels, group = np.unique(groups, return_inverse=True)
    if len(labels) < 2 or is_constant(scores) or is_constant(human):
        return np.zeros(1 + len(labels))
    without = resampled_correlations(scores, human, group, left_out(len(labels)))[SPEARMAN]
    whole, parts = (np.arctanh(np.clip(rho, -_CERTAIN, _CERTAIN)) for rho in (spearman(scores, human), without))
    count = len(parts)
    return np.concatenate([[whole], count * whole - (count - 1) * parts])


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
    variance = residual * (1 / count - 1 / total + leverage)
    if not these:
        variance = residual * (1 / count + leverage) + beta**2 * every[1:].var(ddof=1) / total
    return beta, float(student(count - 2) * np.sqrt(variance))


# The study


def few_labels_records(sides: Sequence[Sample]) -> list[dict[str, Any]]:
    """The records of worth/few_labels.json, of texts of which humans rated a part: one a judge, decoding and range.

    After `Sample.head`:

    - texts, articles, labelled_texts, labelled_articles;
    - systems: those of `predicted_means`, the judge's scores mapped to the humans' scale; and judge_misses, True where
      the judge's own interval leaves out `predicted`; None where one of them is unknown;
    - narrower, labels_within, predicted_within: the mean over systems of the share that the judge saves, and half of
      the mean width of the intervals of labels alone and of both, for articles like these; narrower_these,
      labels_these_within, predicted_these_within: of these very articles, the target of a page;
    - misses, counted: systems whose own interval by the judge misses, of those where that is known;
    - differences: those of `predicted_differences`, of all pairs of the `MOST_PAIRED` systems that `predicted` ranks
      highest, the better one first;
    - spearman: `predicted_spearman` with another judge's scores, `stand_in`, in the place of humans; None where there
      is no other judge;
    - reason: why there are no intervals, else None.
    """
    rated = [side for side in sides if 0 < (~np.isnan(side.human)).sum() < len(side.names)]
    return [_record(side, _stand_in(side, sides)) for side in rated]


def _stand_in(side: Sample, sides: Sequence[Sample]) -> Sample | None:
    """The scores of another model on the same texts, in the same range."""
    for other in sides:
        alike = all(getattr(other.cell, name) == getattr(side.cell, name) for name in ("dimension", "range", "defense"))
        if (
            alike
            and other.cell.judge in _STAND_INS.get(side.cell.judge, ())
            and np.array_equal(other.names, side.names)
        ):
            return other
    return None


def _record(side: Sample, stand_in: Sample | None) -> dict[str, Any]:
    data, given = FewLabels.of(side), ~np.isnan(side.human)
    systems = predicted_means(data)
    for row in systems:
        ends = row["predicted_low"], row["judge_low"], row["judge_high"]
        row["judge_misses"] = None if None in ends else not row["judge_low"] <= row["predicted"] <= row["judge_high"]
    known = [row for row in systems if row["narrower"] is not None]
    missed = [row["judge_misses"] for row in systems if row["judge_misses"] is not None]
    record: dict[str, Any] = side.head | {"texts": len(side.names), "articles": len(np.unique(side.groups))}
    record |= {"labelled_texts": int(given.sum()), "labelled_articles": len(np.unique(side.groups[given]))}
    for end in TARGETS:
        record[f"narrower{end}"] = _mean(row[f"narrower{end}"] for row in known)
        for name in (f"labels{end}", f"predicted{end}"):
            record[f"{name}_within"] = _mean((row[f"{name}_high"] - row[f"{name}_low"]) / 2 for row in known)
    # pairs of the best systems
    best = sorted((row for row in systems if row["predicted"] is not None), key=lambda row: -float(row["predicted"]))
    names = [row["system"] for row in best[:MOST_PAIRED]]
    pairs = [(name, other) for i, name in enumerate(names) for other in names[i + 1 :]]
    correlation: Mapping[str, Any] | None = None
    if stand_in is not None:
        correlation = {"stand_in": f"{stand_in.cell.judge}, {stand_in.cell.decoding}"} | predicted_spearman(
            side.scores, side.human, stand_in.scores, side.groups
        )
    reasons = [str(row["reason"]) for row in systems if row["reason"]]
    return record | {
        "misses": sum(missed) if missed else None,
        "counted": len(missed),
        "systems": systems,
        "differences": predicted_differences(data, pairs) if pairs else [],
        "spearman": correlation,
        "reason": None if known or not reasons else reasons[0],
    }


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
