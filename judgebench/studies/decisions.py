"""Judges that decide: pass, fail, or ask a human.

**Labels.** The raters of a text may differ, so a text is split: of three labels pass, pass, fail
two thirds of it are a pass. Judge and single raters are then measured alike, by the labels of
single raters, and a text counts once however many people labelled it.

**Shares with intervals.** The true positive rate (TPR) is the share of the texts that people pass
which the judge passes, too; the true negative rate (TNR) is that of the texts that they fail. Texts
of one group succeed or fail together, so n texts are worth fewer: n / (1 + rho (m - 1)), where m is
the mean size of the group that a text is in (Kish, "Survey Sampling", 1965, section 5.4). The
correlation rho is that of the analysis of variance, drawn towards .1 with the weight of ten degrees
of freedom, since no group tells it where all texts are right. The interval is Wilson's (1927) with
this number and Student's t of the groups. On recorded judges of six public data sets, 100 labels of
half of the groups, it holds the share of the other half in 85 % of draws; Wilson's interval of all
texts in 73 %; a right one reaches some 83 %, for the other half is a sample, too. On simulated
groups it holds the truth in 94 to 97 % (`scripts/simulate.py decisions`).

**Pass mark.** A text passes whose score is the mark or more. As the judge says: the label with
which a text passes, on the judge's scale. Chosen: the mark whose mistakes cost least, where it
costs less than the judge's own by more than one standard error over groups. What its mistakes will
cost is measured with the mark that other groups chose. TPR and TNR are of the mark itself, over all
texts: for one number chosen so, their intervals hold what new groups have in 85 to 100 % of draws;
those of decisions by the marks of other groups in 63 to 97 %, since each is another mark's.

**Ask a human.** p(pass) is the share of passes among texts of other groups with such a score, by
isotonic regression. It says how probably a decision by the pass mark is right. The judge decides
the texts of which it is surest, as many as leave the upper end of a one-sided 95 % interval of its
mistakes at `ask.error`; people see the others. A mistake is counted by single labels, of which the
raters' own majority, the best judge that there can be, misses some; `ask.error=rater` takes as the
aim what one rater misses of another's. What that majority could decide is said beforehand. Groups
are all that is assumed to be drawn alike
(Angelopoulos et al., "Learn then Test", arXiv 2110.01052, test a family of rules one by one; a mean
over groups is tested here by the interval above). On simulated judges the bound is broken on new
groups in 0 to 10 % of draws.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy  # its parts come when they are first used

from judgebench.settings.costs import RATER, Asking, Costs
from judgebench.stats.clusters import (
    CONFIDENCE,
    Clusters,
    Estimate,
    ends_of,
    keys_of,
    safe_divide,
    unknown,
    with_agreement_interval,
)
from judgebench.studies.prediction_powered import FewLabels, predicted_means
from judgebench.studies.scores import JudgeScores, assign_folds, cross_fitted, isotonic_means
from judgebench.types import Array, Classes, Ends, Record, Rows

SAID = "as said"
CHOSEN = "chosen mark"
"""The two marks of a record: the judge's own, and the one that mistakes cost least with."""

PASS_FAIL = ("fail", "pass")
"""Names of the classes of graded labels with a pass mark."""

_PRIOR = 0.1  # correlation of texts of a group, where nothing is known
_WEIGHT = 10.0  # degrees of freedom that it is worth
_FOLDS = 5
_POINTS = 41  # of the curve of mistakes over the share of texts that people see
_SURE = 1 - 0.05  # one-sided, of the interval of mistakes
_MARKS = 400  # candidates for a pass mark


# --- shares -------------------------------------------------------------------------------------


def correlation_within(right: Array, mass: Array) -> float:
    """The correlation of texts of one group, at least 0: that of the analysis of variance, drawn
    towards `_PRIOR`.

    Args:
        right, mass: [G] sums over the texts of a group, of what counts and of all.
    """
    total = mass.sum()
    share = right.sum() / total
    # the variance of a text that passes with the probability `share`
    spread = share * (1 - share)
    # expected sum of squares between groups: spread (G - 1 + rho degrees)
    between = (mass * (right / mass - share) ** 2).sum()
    groups = len(mass) - 1
    degrees = max(total - (mass**2).sum() / total - groups, 0.0)
    # all right, all wrong, or a text a group: nothing shows how texts of a group go together
    if spread <= 0 or degrees <= 0:
        return _PRIOR
    excess = between / spread - groups
    # few groups tell a correlation badly: an estimate of 0 by chance would make intervals too
    # narrow
    drawn = (excess + _WEIGHT * _PRIOR) / (degrees + _WEIGHT)
    return float(np.clip(drawn, 0.0, 1.0))


def wilson(share: float, texts: float, quantile: float) -> Ends:
    """The ends of Wilson's interval (1927): the shares p with (share - p)^2 <= quantile^2 p (1 - p)
    / texts.

    Example:
        >>> low, high = wilson(0.9, 100, 1.96)
        >>> round(low, 3), round(high, 3)
        (0.826, 0.945)
    """
    # a quadratic in p, whose two roots are the ends
    k = quantile**2 / texts
    middle = (share + k / 2) / (1 + k)
    half = math.sqrt(k * share * (1 - share) + k**2 / 4) / (1 + k)
    # the share itself is never refuted, were it by rounding
    return max(0.0, min(middle - half, share)), min(1.0, max(middle + half, share))


def clustered_share(
    right: Array,
    mass: Array,
    groups: Array,
    confidence: float = CONFIDENCE[1],
    labelled: tuple[float, float] | None = None,
) -> Estimate | None:
    """A share of texts with its interval for texts of other groups, see the module; None where
    there are none, and no interval with one group.

    Args:
        right: [N] 1 for a text that counts, else 0, or a part.
        mass: [N] the part of each text that is among those of which the share is taken.
        confidence: the quantile at the upper end.
        labelled: the shares of all texts, and of all groups, that have labels: the interval then is
            for these very texts.

    Example:
        >>> right = np.array([1.0, 1.0, 0.0, 1.0])
        >>> f"{clustered_share(right, np.ones(4), np.array([1, 1, 2, 3])):.2f}"
        '0.75 [0.09, 0.99]'
    """
    _, number = np.unique(groups, return_inverse=True)
    sums = np.bincount(number, mass * right), np.bincount(number, mass)
    there = sums[1] > 0
    # a group without a text of the class says nothing of its share
    of_right, of_mass = sums[0][there], sums[1][there]
    total = float(of_mass.sum())
    if not total:
        return None
    share = float(of_right.sum() / total)
    degrees = len(of_mass) - 1
    if degrees < 1:
        return Estimate(share)
    within = correlation_within(of_right, of_mass)
    # the mean size of the group that a text is in, and not of a group: large groups hold more texts
    size = float((of_mass**2).sum() / total)
    if labelled is not None:
        texts, all_groups = labelled
        if texts >= 1:
            return Estimate(share, share, share)
        # Of these very texts only those without labels are unknown: groups that are all labelled
        # bring no noise of groups, and n texts of N are worth n / (1 - n / N).
        within *= 1 - all_groups
        degrees = max(math.ceil(total) - 1, 1) if all_groups >= 1 else degrees
        total /= 1 - texts
    # Kish's design effect: n correlated texts know as much as so many independent ones
    effective = total / (1 + within * max(size - 1, 0.0))
    quantile = float(scipy.special.stdtrit(degrees, confidence))
    return Estimate(share, *wilson(share, effective, quantile))


# --- people and judge, class by class -----------------------------------------------------------


def label_shares(ratings: Array, classes: Classes) -> Array:
    """[N, K] the share of each text's labels that name each class, worst first; NaN where nobody
    labelled it. With `pass_from` there are two classes: fail and pass.

    Args:
        ratings: [N, R] of single raters, NaN where one gave none; or [N, 1] of means, which of two
            named classes are shares themselves.

    Example:
        >>> label_shares(np.array([[4.0, 2.0], [5.0, np.nan]]), Classes(pass_from=4)).tolist()
        [[0.5, 0.5], [0.0, 1.0]]
    """
    given = ~np.isnan(ratings)
    count = given.sum(axis=1)
    # 1. of classes, the labels that name each
    if classes.pass_from is None:
        labels = np.arange(len(classes.names))
        nearest = np.round(ratings)
        named = (nearest[..., None] == labels) & given[..., None]  # [N, R, K]
        counts = 1.0 * named.sum(axis=1)
        return safe_divide(counts, count[:, None])
    # 2. else those that pass
    # means carry rounding errors: a 4 that passes must not fail as 3.9999999999
    passes = 1.0 * (ratings >= classes.pass_from - 1e-9)
    if len(classes.names) == 2:
        passes = ratings
    known = np.where(given, passes, 0.0)
    passed = safe_divide(known.sum(axis=1), count)
    return np.stack([1 - passed, passed], axis=1)


def matrices(shares: Array, said: Array, clusters: Clusters) -> Array:
    """[1 + J, K, K] the texts of each class by people (rows) and by the judge (columns): of all
    groups, then with each left out.

    Args:
        shares: [N, K] see `label_shares`; said: [N] the judge's class.
    """
    classes = shares.shape[1]
    # a text whose raters differ is split over rows: people have no one class that could be wrong
    columns = 1.0 * (said[:, None] == np.arange(classes))
    cells = (shares[:, :, None] * columns[:, None, :]).reshape(len(said), -1)
    return clusters.jackknifed.sums(cells).reshape(-1, classes, classes)


def rater_matrices(ratings: Array, classes: Classes, clusters: Clusters) -> Array:
    """[1 + J, K, K] the same of two raters of one text: each pair counts in both directions, and a
    text with several raters once; the data alone where no text has two."""
    raters = np.isfinite(ratings).sum(axis=1)
    several = raters > 1
    raters = raters[several]
    shares = label_shares(ratings[several], classes)
    counts = shares * raters[:, None]
    # pairs of labels, without those of a label with itself: [N, K, K]
    pairs = counts[:, :, None] * counts[:, None, :]
    diagonal = np.eye(shares.shape[1])
    pairs -= counts[:, :, None] * diagonal
    # ordered pairs of different raters, so that a text with ten raters weighs no more than one with
    # two
    weight = raters * (raters - 1)
    of_texts = pairs / weight[:, None, None]
    if not several.any():
        return np.zeros((1, *pairs.shape[1:]))
    cells = of_texts.reshape(len(raters), -1)
    return clusters.at(several).jackknifed.sums(cells).reshape(-1, *pairs.shape[1:])


def agreement_of(matrix: Array) -> Array:
    """The share of texts in one class by both, [..., K, K] -> [...]."""
    total = matrix.sum(axis=(-1, -2))
    return safe_divide(np.trace(matrix, axis1=-2, axis2=-1), total)


def kappa_of(matrix: Array) -> Array:
    """Cohen's kappa (1960), [..., K, K] -> [...]: agreement beyond what the shares of the classes
    give by chance; NaN where both name one class alone.

    Example:
        >>> kappa_of(np.array([[20.0, 5.0], [10.0, 15.0]])).round(2).tolist()
        0.4
    """
    total = matrix.sum(axis=(-1, -2))
    people = safe_divide(matrix.sum(axis=-1), total[..., None])
    judge = safe_divide(matrix.sum(axis=-2), total[..., None])
    # agreement of two who name classes as often as they do, whatever the text
    chance = (people * judge).sum(axis=-1)
    return safe_divide(agreement_of(matrix) - chance, 1 - chance)


def share_of_pairs(scores: Array, passed: Array, groups: Array) -> Estimate | None:
    """The area under the ROC curve (AUC): the share of pairs of a text that people pass and one
    that they fail in which the former has the higher score, half of those with equal scores. None
    where one class is missing.

    The standard error is that of sums over groups of the texts' parts in it (DeLong, DeLong and
    Clarke-Pearson, 1988; Obuchowski, 1997, for groups); the interval is Student's t of the logit.

    Args:
        passed: [N] the share of a text's labels that pass it.

    Example:
        >>> share_of_pairs(np.array([1.0, 2.0, 2.0, 3.0]), np.array([0.0, 0.0, 1.0, 1.0]), np.arange(4)).value
        0.875
    """
    failed = 1 - passed
    if not passed.sum() or not failed.sum():
        return None
    # by ranks: counting all pairs would take N * N
    order, place = np.unique(scores, return_inverse=True)

    def share_below(mass: Array) -> Array:
        of_score = np.bincount(place, mass, len(order))
        below = np.cumsum(of_score) - of_score / 2
        return np.asarray(below[place] / mass.sum())

    ahead = share_below(failed)  # of a text that passes
    behind = 1 - share_below(passed)
    value = float((passed * ahead).sum() / passed.sum())
    # DeLong's structural components: each text's part in the area's error
    apart = passed * (ahead - value) / passed.sum() + failed * (behind - value) / failed.sum()
    sums = Clusters.of(groups, 0).totals(apart)
    spread = value * (1 - value)
    if len(sums) < 2 or spread <= 0:
        return Estimate(value)
    variance = (sums**2).sum() * len(sums) / (len(sums) - 1)
    reach = scipy.special.stdtrit(len(sums) - 1, CONFIDENCE[1]) * math.sqrt(variance) / spread
    logit = math.log(value / (1 - value))
    low, high = scipy.special.expit([logit - reach, logit + reach]).tolist()
    return Estimate(value, low, high)


# --- the pass mark ------------------------------------------------------------------------------


def own_mark(sample: JudgeScores, pass_from: float) -> float:
    """The lowest score that passes as the judge says it, in its range: between two labels the
    nearer one counts."""
    low, high = sample.scale or (sample.cell.range_min, sample.cell.range_max)
    # between two labels the nearer one counts: the border lies half a step below the one that
    # passes
    step = 0.0 if sample.categories is None else 1.0
    share = (pass_from - step / 2 - low) / (high - low)
    width = sample.cell.range_max - sample.cell.range_min
    return float(sample.cell.range_min + share * width)


def cheapest_threshold(
    scores: Array, passed: Array, groups: Array, own: float, costs: Costs
) -> float:
    """The mark whose mistakes cost least, see the module. Every mark lies between two scores, so
    that it passes some texts and fails others.

    On judges of four public sets, 100 labels, costs are .2627 of a mistake a text on other groups;
    the judge's own marks have .2707, the least cost without the standard error .2611; where it is
    right already .2299, .2295 and .2326.

    Args:
        scores: [N] of labelled texts; passed: [N] the share of a text's labels that pass it.
        own: the judge's own mark.

    Example:
        >>> scores = np.repeat([1.0, 2.0, 3.0], 20)
        >>> best_mark(scores, 1.0 * (scores > 1), np.arange(60), 2.5, Costs())
        1.5
    """
    # 1. marks between scores, its own first
    values = np.unique(scores)
    # all marks between two scores decide alike, so their middle stands for them
    middles = (values[1:] + values[:-1]) / 2
    if len(middles) > _MARKS:
        spaced = np.linspace(0, len(middles) - 1, _MARKS)
        middles = middles[spaced.astype(int)]
    marks = np.append(own, middles)
    # 2. the cost of the mistakes of each, in each group
    passes = scores[:, None] >= marks  # [N, M]
    wrong_pass = costs.false_pass * (1 - passed)
    wrong_fail = costs.false_fail * passed
    cost = np.where(passes, wrong_pass[:, None], wrong_fail[:, None])
    clusters = Clusters.of(groups, 0)
    totals = clusters.totals(cost)  # [G, M]
    # 3. the least one, where it saves more than a standard error
    best = int(totals.sum(axis=0).argmin())
    saved = totals[:, 0] - totals[:, best]
    if len(saved) < 2:
        return own
    # The standard error of a sum over groups, paired: both marks judge the same texts. The best of
    # many marks looks better than it is, so it has to earn its place.
    error = math.sqrt(len(saved)) * saved.std(ddof=1)
    return float(marks[best]) if saved.sum() > error + 1e-9 else own


def decided(
    scores: Array, passed: Array, groups: Array, own: float, costs: Costs, seed: int
) -> tuple[Array, float]:
    """[N] True for a text that passes, each by the mark of other groups, and the mark of all."""
    labelled = np.isfinite(passed)
    labels, number = np.unique(groups, return_inverse=True)
    rated = np.unique(number[labelled])
    mark = cheapest_threshold(scores[labelled], passed[labelled], groups[labelled], own, costs)
    # one group alone has no others: the mark of all has to do
    marks = np.full(len(scores), mark)
    folds = min(_FOLDS, len(rated))
    fold = assign_folds(len(labels), rated, max(folds, 1), np.random.default_rng(seed))[number]
    for part in range(folds) if folds > 1 else ():
        out = fold == part
        teaching = labelled & ~out
        marks[out] = cheapest_threshold(
            scores[teaching], passed[teaching], groups[teaching], own, costs
        )
    return scores >= marks, mark


# --- ask a human --------------------------------------------------------------------------------


class Band(NamedTuple):
    """Scores between which the judge asks a human.

    Attributes:
        fail_to, pass_from: the highest score that fails, and the lowest that passes; None where
            none does. Of a judge that decides nothing both are.
        asked: the share of texts that people see.
        error: mistakes among the others, with the upper end of the one-sided interval; None where
            people see all.
    """

    fail_to: float | None = None
    pass_from: float | None = None
    asked: float = 1.0
    error: Estimate | None = None


class Surest(NamedTuple):
    """The texts of which a judge is surest: how sure at least, the share of the others, and the
    mistakes among these."""

    level: float
    asked: float
    error: Estimate


def ask_curve(sure: Array, wrong: Array) -> list[tuple[float, float, float]]:
    """Points of a curve: the probability that a decision is right from which on the judge decides,
    the share of texts that people then see, and the share of mistakes among the others; from few
    asked to many.

    Args:
        sure: [N] how probably the decision of each text is right, by other groups; wrong: [N] the
            share of its labels that the decision misses.
    """
    levels = np.unique(sure)
    # quantiles, so that each step of the curve decides as many texts more
    if len(levels) > _POINTS:
        levels = np.unique(np.quantile(sure, np.linspace(0, 1, _POINTS)))
    curve = []
    for level in levels.tolist():
        decides = sure >= level
        curve.append((level, float(1 - decides.mean()), float(wrong[decides].mean())))
    return curve


def _shares_decided(sure: Array, wrong: Array, groups: Array) -> Iterator[tuple[Surest, float]]:
    """The texts of each level of `ask_curve`, from few asked to many, and the upper end of their
    mistakes, where there is one."""
    for level, asked, _ in ask_curve(sure, wrong):
        decides = sure >= level
        error = clustered_share(wrong[decides], np.ones(decides.sum()), groups[decides], _SURE)
        if error is not None and error.high is not None:
            yield Surest(level, asked, error), error.high


def surest(sure: Array, wrong: Array, groups: Array, most: float) -> Surest | None:
    """As many texts as keep the upper end of their mistakes at `most`; None where none do. See
    `ask_curve`; groups: [N]."""
    # from few asked to many, so the first that keeps the bound asks the fewest
    parts = _shares_decided(sure, wrong, groups)
    return next((part for part, high in parts if high <= most), None)


def band_of(
    scores: Array, mark: float, chances: Array, passed: Array, groups: Array, most: float | None
) -> Band:
    """The band around a pass mark that leaves most texts to the judge, see the module; none where
    the aim is unknown.

    Args:
        scores, passed, groups: [N] of labelled texts; chances: [N] p(pass) by other groups.
        most: the largest share of mistakes.
    """
    found = None if most is None else surest(*_sides(scores >= mark, chances, passed), groups, most)
    if found is None:
        return Band()
    # the scores at which all texts together are as sure
    values, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    # what a higher score means must not fall: a band has one border on either side
    chance = isotonic_means(np.bincount(place, passed) / counts, counts)
    failing = values[(values < mark) & (chance <= 1 - found.level)]
    passing = values[(values >= mark) & (chance >= found.level)]
    fail_to = float(failing[-1]) if len(failing) else None
    pass_from = float(passing[0]) if len(passing) else None
    if fail_to is None and pass_from is None:
        return Band()
    return Band(fail_to, pass_from, found.asked, found.error)


def _sides(passes: Array, chances: Array, passed: Array) -> tuple[Array, Array]:
    """[N] how probably decisions are right, and the shares of labels that they miss."""
    return np.where(passes, chances, 1 - chances), np.where(passes, 1 - passed, passed)


def aim_record(ratings: Array, classes: Classes, groups: Array, asking: Asking) -> Record:
    """Aim of a band, and how far any judge can come: functions of the labels alone.

    Args:
        ratings: [N, R] see `label_shares`; groups: [N].

    Returns:
        ask_aim: the largest share of mistakes, None where a rater's is asked for and is unknown, or
            is none, or is a coin's; rater_error: of another rater's labels those that one misses,
            majority_error: of all labels those that the raters' majority misses, both None where no
            text has two; ask_least: the share of texts that people see at least, were the judge that
            majority: 1 where no band is possible; ask_lowest: the lowest aim with which one is, None
            with a single group.
    """
    passed = label_shares(ratings, classes)[:, 1]
    known = np.isfinite(passed)
    passed = passed[known]
    labels = np.isfinite(ratings).sum(axis=1)
    several = ratings.shape[1] > 1 and labels.max(initial=0) > 1
    matrix = rater_matrices(ratings, classes, Clusters.of(groups, 0))[0]
    rater = None
    if several:
        rater = 1 - float(agreement_of(matrix))
    # labels that the majority of the same raters misses: no judge can miss fewer
    missed = np.minimum(passed, 1 - passed)
    aim: Any = asking.error
    # a rater who misses half is a coin, and no aim
    if aim == RATER:
        aim = rater if rater is not None and 0 < rater < 0.5 else None
    # the majority is sure of a text as its labels are of one class
    columns = 1 - missed, missed, groups[known]
    best = None if aim is None else surest(*columns, float(aim))
    shown = [high for _, high in _shares_decided(*columns)]
    return {
        "ask_aim": aim,
        "rater_error": rater,
        "majority_error": float(missed.mean()) if several else None,
        "ask_least": best.asked if best else 1.0,
        "ask_lowest": min(shown, default=None),
    }


# --- the study ----------------------------------------------------------------------------------


def decision_records(samples: Sequence[JudgeScores], costs: Costs, asking: Asking) -> Rows:
    """The records of worth/decisions.json, of labels that are classes: one a judge, decoding and
    range as the judge says it (`SAID`), and where texts pass a second with the chosen mark.

    Returns:
        mark, pass_mark (in the judge's range; None where nothing passes), cost (of mistakes, a
        text, by the mark of other groups where it is chosen), texts, groups (with labels), classes;

        - matrix: texts of each class by people (rows) and by the judge (columns);
        - agreement, kappa, and of one rater and of the commoner class agreement_rater, kappa_rater,
          agreement_constant; recalls: of each class the share that the judge finds, with intervals;
        - where texts pass: tpr and tnr with the ends for other groups, and in `_these` for these
          very texts; tpr_rater, tnr_rater: of one rater, by another; labels_pass, labels_fail: how
          many of each; balanced: mean of tpr and tnr; rarer: the class that fewer people name, with
          its precision and f1; passed, passed_people: shares;
        - auc; brier: of p(pass) by other groups, brier_word: of p(pass) by the decision alone,
          brier_constant: of always saying the share that passes; brier_saved: brier_word less
          brier, with interval;
        - rates: see `pass_rates`;
        - with the chosen mark fail_to, pass_from, asked, ask_error: see `Band`; ask_aim,
          rater_error, majority_error, ask_least, ask_lowest: see `aim_record`; and curve: see `ask_curve`.
    """
    records = []
    for sample in samples:
        classes = sample.classes
        if classes is None or sample.scale is None:
            continue
        shares = label_shares(sample.ratings, classes)
        if not np.isfinite(shares).any():
            continue
        if classes.pass_from is None:
            nearest = np.round(sample.on_scale).astype(int)
            said = np.clip(nearest, 0, shares.shape[1] - 1)
            records.append(_record(sample, classes, shares, said) | {"mark": SAID})
            continue
        records += _with_marks(sample, classes, shares[:, 1], costs, asking)
    return records


def _with_marks(
    sample: JudgeScores, classes: Classes, passed: Array, costs: Costs, asking: Asking
) -> Rows:
    """The records of both marks; passed: [N] shares of labels, NaN where there is none."""
    scores = sample.scores
    groups = sample.groups
    labelled = np.isfinite(passed)
    shares = np.stack([1 - passed, passed], axis=1)
    own = own_mark(sample, float(classes.pass_from or 0.0))
    if costs.threshold is None:
        by_others, mark = decided(scores, passed, groups, own, costs, sample.seed)
    else:
        mark = sample.cell.range.threshold(costs.threshold)
        by_others = scores >= mark
    chances = cross_fitted(scores, passed, groups, seed=sample.seed)
    records = []
    for kind, at, promised in ((SAID, own, scores >= own), (CHOSEN, mark, by_others)):
        said = scores >= at
        false_pass = costs.false_pass * (1 - passed)
        false_fail = costs.false_fail * passed
        cost = np.where(promised, false_pass, false_fail)[labelled]
        # p(pass) by the score, and by the bare word
        by_word = cross_fitted(1.0 * said, passed, groups, seed=sample.seed)
        known = labelled & np.isfinite(chances)
        h = passed[known]
        off, off_word = (
            h * (1 - p[known]) ** 2 + (1 - h) * p[known] ** 2 for p in (chances, by_word)
        )
        clusters = sample.clusters.at(known)
        saved = clusters.record({"brier_saved": clusters.mean(off_word - off)})
        base = float(passed[labelled].mean())
        auc = share_of_pairs(scores[labelled], passed[labelled], groups[labelled])
        records.append(
            {
                **_record(sample, classes, shares, said.astype(int)),
                "mark": kind,
                "pass_mark": at,
                "cost": float(cost.mean()),
                **_shares_record(sample, classes, passed, said),
                **(saved if known.any() else unknown(["brier_saved"])),
                "brier": float(off.mean()) if known.any() else None,
                "brier_word": float(off_word.mean()) if known.any() else None,
                "brier_constant": base * (1 - base),
                **keys_of("auc", auc),
                "rates": pass_rates(sample, passed, said, chances),
            }
        )
    # the band is of the chosen mark's record
    record = records[-1]
    record |= aim_record(sample.ratings, classes, groups, asking)
    band = Band()
    record["curve"] = []
    if known.any():
        columns = chances[known], passed[known]
        band = band_of(scores[known], mark, *columns, groups[known], record["ask_aim"])
        curve = ask_curve(*_sides(scores[known] >= mark, *columns))
        record["curve"] = [list(point[1:]) for point in curve]
    record |= {
        "fail_to": band.fail_to,
        "pass_from": band.pass_from,
        "asked": band.asked,
        **keys_of("ask_error", band.error),
    }
    return records


def _record(sample: JudgeScores, classes: Classes, shares: Array, said: Array) -> Record:
    """The figures of any classes; said: [N] the judge's class."""
    labelled = np.isfinite(shares).all(axis=1)
    clusters = sample.clusters.at(labelled)
    shares = shares[labelled]
    said = said[labelled]
    names = list(classes.names)
    if classes.pass_from is not None and len(names) != 2:
        names = list(PASS_FAIL)
    jackknifed = matrices(shares, said, clusters)
    matrix = jackknifed[0]
    right = shares[np.arange(len(said)), said]
    people = shares.mean(axis=0)
    agreement = clustered_share(right, np.ones(len(said)), clusters.number)
    record = {
        **sample.head,
        "texts": len(said),
        "groups": clusters.count,
        "classes": names,
        "matrix": matrix.tolist(),
        "agreement_constant": float(people.max()),
        "pass_mark": None,
        **keys_of("agreement", agreement),
        **with_agreement_interval("kappa", kappa_of(jackknifed)),
    }
    raters = rater_matrices(sample.ratings, classes, sample.clusters)
    several = len(sample.raters) > 1 and bool(raters[0].any())
    record["agreement_rater"] = float(agreement_of(raters[0])) if several else None
    kappas = kappa_of(raters) if several else np.array([np.nan])
    record |= with_agreement_interval("kappa_rater", kappas)
    recalls = []
    for number, name in enumerate(names):
        recall = clustered_share(1.0 * (said == number), shares[:, number], clusters.number)
        called = matrix[:, number].sum()
        recalls.append(
            {
                "class": name,
                **keys_of("recall", recall),
                "precision": float(matrix[number, number] / called) if called else None,
            }
        )
    record["recalls"] = recalls
    return record


def _shares_record(sample: JudgeScores, classes: Classes, passed: Array, said: Array) -> Record:
    """TPR, TNR and what follows from them; said: [N] True for a text that the judge passes."""
    labelled = np.isfinite(passed)
    groups = sample.groups
    of_texts = float(labelled.mean())
    of_groups = len(np.unique(groups[labelled])) / len(np.unique(groups))
    record: Record = {}
    raters = rater_matrices(sample.ratings, classes, sample.clusters)[0]
    shares = {}
    for name, right, mass, number in (
        ("tpr", said, passed, 1),
        ("tnr", ~said, 1 - passed, 0),
    ):
        columns = 1.0 * right[labelled], mass[labelled], groups[labelled]
        shares[name] = clustered_share(*columns)
        record |= keys_of(name, shares[name])
        these = clustered_share(*columns, labelled=(of_texts, of_groups))
        ends = keys_of(f"{name}_these", these)
        record |= {key: value for key, value in ends.items() if key != f"{name}_these"}
        rated = raters[number].sum()
        several = len(sample.raters) > 1 and rated > 0
        record[f"{name}_rater"] = float(raters[number, number] / rated) if several else None
    both = [share.value for share in shares.values() if share is not None]
    record["balanced"] = sum(both) / 2 if len(both) == 2 else None
    # the class that fewer people name
    people = passed[labelled].mean()
    rarer = int(people < 0.5)
    of_class = passed if rarer else 1 - passed
    # precision and F1 of the class that is looked for: of the common one both are high for any
    # judge
    called = said if rarer else ~said
    precision = clustered_share(of_class[labelled], 1.0 * called[labelled], groups[labelled])
    recall = shares["tpr" if rarer else "tnr"]
    f1 = None
    if precision is not None and recall is not None:
        above = 2 * precision.value * recall.value
        f1 = above / (precision.value + recall.value) if above else 0.0
    names = classes.names if len(classes.names) == 2 else PASS_FAIL
    record |= {
        "rarer": names[rarer],
        "f1": f1,
        "passed": float(said.mean()),
        "passed_people": float(people),
        "labels_pass": float(passed[labelled].sum()),
        "labels_fail": float((1 - passed[labelled]).sum()),
    }
    return record | keys_of("precision", precision)


def pass_rates(sample: JudgeScores, passed: Array, said: Array, chances: Array) -> Rows:
    """The share of texts that people pass, of all texts and of each system, from labels and judge:
    `rate` for texts like these, `rate_these` for these very ones, each with its interval.

    By labels alone, by prediction-powered inference with the judge's scores (`judgebench.stats.
    few_labels`, whose intervals hold at rates near 0 and 1), or with p(pass) in their place, the
    efficient estimator (Chen et al., arXiv 2601.05420): the narrowest. On simulated rates of .5 to
    .99 each holds the truth in 94 to 100 %. judge: the share that the judge passes; rogan_gladen:
    the judge's share corrected by TPR and TNR (Rogan and Gladen, 1978), as others do.
    """
    labelled = np.isfinite(passed)
    wholes = {"": np.zeros(len(passed)), "system": sample.systems}
    if len(np.unique(sample.systems)) < 2:
        wholes.pop("system")
    right = 1.0 * said
    tpr = np.average(right[labelled], weights=passed[labelled] + 1e-300)
    tnr = np.average(1 - right[labelled], weights=1 - passed[labelled] + 1e-300)
    rows = []
    for kind, systems in wholes.items():
        raw = predicted_means(FewLabels(passed, sample.on_scale, sample.groups, systems, (0, 1)))
        by_chance = raw
        if np.isfinite(chances).all():
            data = FewLabels(passed, chances, sample.groups, systems, (0, 1))
            by_chance = predicted_means(data)
        names = np.unique(systems)
        for name, first, second in zip(names, raw, by_chance, strict=True):
            row = {
                "system": str(name) if kind else "",
                "method": "labels alone",
                **{key: first[key] for key in ("texts", "labelled_texts", "reason")},
            }
            for end in ("", "_these"):
                found = {}
                widths = {}
                for method, of in (("judge's scores", first), ("p(pass)", second)):
                    found[method] = Estimate.of(of, f"predicted{end}")
                    low, high = ends_of(found[method])
                    widths[method] = high - low
                method = min(widths, key=widths.__getitem__)
                row |= keys_of(f"rate{end}", found[method])
                if not end and first["lambda"]:
                    row["method"] = method
            here = systems == name
            judged = float(right[here].mean())
            row["judge"] = judged
            slope = tpr + tnr - 1
            # judged = rate * TPR + (1 - rate) * (1 - TNR), solved for the rate
            corrected = (judged + tnr - 1) / slope if slope > 0 else None
            row["rogan_gladen"] = None if corrected is None else min(max(corrected, 0.0), 1.0)
            rows.append(row)
    return rows
