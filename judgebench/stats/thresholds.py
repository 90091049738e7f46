"""The threshold from which a text passes, and the texts about which people are asked.

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
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from judgebench.settings.costs import Costs
from judgebench.stats.clusters import Clusters, Estimate
from judgebench.stats.folds import by_other_folds, deal_folds
from judgebench.stats.maps import isotonic
from judgebench.stats.shares import clustered_share
from judgebench.types import Array

_FOLDS = 5
_POINTS = 41  # of the curve of mistakes over the share of texts that people see
_SURE = 1 - 0.05  # one-sided, of the interval of mistakes
_MARKS = 400  # candidates for a pass mark


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
        >>> cheapest_threshold(scores, 1.0 * (scores > 1), np.arange(60), 2.5, Costs())
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

    def mark_of(rows: Array, asked: Array | None = None) -> float:
        """The mark that labelled texts teach, whichever are asked about."""
        rows = rows & labelled
        return cheapest_threshold(scores[rows], passed[rows], groups[rows], own, costs)

    mark = mark_of(labelled)
    folds = min(_FOLDS, len(np.unique(groups[labelled])))
    # one group alone has no others: the mark of all has to do
    if folds < 2:
        return scores >= mark, mark
    fold = deal_folds(groups, folds, seed, labelled)
    return scores >= by_other_folds(fold, mark_of), mark


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


def shares_decided(sure: Array, wrong: Array, groups: Array) -> Iterator[tuple[Surest, float]]:
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
    parts = shares_decided(sure, wrong, groups)
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
    found = (
        None
        if most is None
        else surest(*decision_chances(scores >= mark, chances, passed), groups, most)
    )
    if found is None:
        return Band()
    # the scores at which all texts together are as sure
    values = np.unique(scores)
    # what a higher score means must not fall: a band has one border on either side
    chance = isotonic(scores, passed)(values)
    failing = values[(values < mark) & (chance <= 1 - found.level)]
    passing = values[(values >= mark) & (chance >= found.level)]
    fail_to = float(failing[-1]) if len(failing) else None
    pass_from = float(passing[0]) if len(passing) else None
    if fail_to is None and pass_from is None:
        return Band()
    return Band(fail_to, pass_from, found.asked, found.error)


def decision_chances(passes: Array, chances: Array, passed: Array) -> tuple[Array, Array]:
    """[N] how probably decisions are right, and the shares of labels that they miss."""
    return np.where(passes, chances, 1 - chances), np.where(passes, 1 - passed, passed)
