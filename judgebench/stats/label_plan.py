"""Plans for human labels: how many articles, and which, reach a wanted width of the interval.

Of the N articles that the judge reads, or of articles like these: see `few_labels` for the two targets.

Label all systems' texts of an article: what makes an article hard or easy then cancels in differences of systems, and
costs nothing for single means. Draw the articles spread over the judge's scores (`articles_to_label`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from judgebench.stats.few_labels import (
    FEWEST_LABELLED,
    FewLabels,
    dispersions,
    means_not_refuted,
    pair_correlations,
    pair_ends,
    shares_of_judge,
    student,
)

MOST_LABELLED = 100_000
"""Articles beyond which nobody is asked to label."""

MEAN, DIFFERENCE = "mean of a system", "difference of two systems"
"""Values of `of` in the records of a plan."""


def labels_needed(
    within: float, spread: float, correlation: float, articles: int, these: bool = False
) -> tuple[int | None, int | None]:
    """The labelled articles with which the 95 % interval of a mean reaches no farther than `within` to each side.

    Args:
        within: half of the wanted width.
        spread: the standard deviation of an article's mean rating.
        correlation: of judge and humans over articles.
        articles: all there are, which the judge reads.
        these: the mean of these very articles is asked for, else that of articles like these.

    Returns:
        Of labels alone, and with the judge on all articles (PPI++, power-tuned); None where all articles are too few.

    Raises:
        ValueError: numbers out of their range.

    Example:
        >>> labels_needed(0.2, 0.8, 0.6, 1000)
        (64, 43)
        >>> labels_needed(0.2, 0.8, 0.6, 100, these=True), labels_needed(0.2, 0.8, 0.6, 100)
        ((40, 30), (64, 54))
    """
    if not (within > 0 and spread >= 0 and -1 <= correlation <= 1 and articles > 0):
        raise ValueError("within and articles must be above 0, spread at least 0, and correlation from -1 to 1")
    kept = 1 - correlation**2

    def half(count: int, part: float) -> float:
        variance = part * (1 / count - 1 / articles) if these else part / count + (1 - part) / articles
        return float(student(count - 1) * spread * np.sqrt(variance))

    found = [_fewest(lambda count, part=part: half(count, part), within, articles) for part in (1.0, kept)]  # type: ignore[misc]
    return found[0], found[1]


def _fewest(half: Callable[[int], float], within: float, most: int) -> int | None:
    """The fewest labelled articles, `FEWEST_LABELLED` to `most`, with which `half` (falling) is at most `within`."""
    low, high = FEWEST_LABELLED, most
    if high < low or not half(high) <= within:
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if half(middle) <= within else (middle + 1, high)
    return low


def label_plan(
    pilot: FewLabels, widths: Sequence[float], articles: int | None = None, these: bool = False
) -> list[dict[str, Any]]:
    """The labelled articles that reach each wanted width, from a pilot: a few labels, and a judge's scores of all.

    Intervals are those of `predicted_means` and `predicted_differences`, with the pilot's means, dispersions and
    correlations; half of their width, averaged over systems or pairs, is what is to reach the wanted one. A pilot of 10
    articles knows a spread to a quarter of its size, so numbers to about a half.

    Args:
        widths: half of each wanted width: 0.2 of an interval that reaches 0.2 to each side.
        articles: all that could be labelled and that the judge reads; the pilot's own if None.
        these: systems' means on these very articles are asked for, else on articles like these.

    Returns:
        A record a wanted width and `of`, of `MEAN` and `DIFFERENCE`: of; within; labels, predicted: articles needed
        with labels alone and with the judge; saved: how many fewer with it; labelled: those that the pilot has;
        reason: why a number is None, else None.
    """
    total = int(pilot.every.articles.max(initial=0)) if articles is None else articles
    labelled = int(pilot.ratings.articles.max(initial=0))
    usable = pilot.ratings.articles >= FEWEST_LABELLED
    records = []
    for of, enough in ((MEAN, usable.any()), (DIFFERENCE, usable.sum() >= 2)):
        planned = _Planned(pilot, usable, total, these) if enough else None
        for within in widths:
            needed: list[int | None] = [None, None]
            if planned:
                side = planned.of_means if of == MEAN else planned.of_differences
                needed = [
                    _fewest(lambda count, judge=judge, side=side: side(count, judge), within, most)  # type: ignore[misc]
                    for judge, most in ((False, total if these else MOST_LABELLED), (True, total))
                ]
            alone, judged = needed
            saved = alone - judged if alone is not None and judged is not None else None
            reason = _reason(alone, judged, total, bool(enough))
            records.append(
                {"of": of, "within": within, "labels": alone, "predicted": judged, "saved": saved}
                | {"labelled": labelled, "articles": total, "reason": reason}
            )
    return records


def _reason(alone: int | None, judged: int | None, total: int, enough: bool) -> str | None:
    if not enough:
        return f"No plan: it takes {FEWEST_LABELLED} labelled articles of a system, and two systems for differences."
    if judged is None:
        more = "" if alone is None else f", and {alone:,} with labels alone would be needed"
        return f"All {total:,} articles are too few{more}."
    return None


class _Planned:
    """Half the mean width of the intervals with other numbers of labelled articles."""

    def __init__(self, pilot: FewLabels, usable: np.ndarray, total: int, these: bool) -> None:
        human, labelled, every = pilot.ratings, pilot.labelled, pilot.every
        self.scale, self.total, self.mean, self.these = pilot.scale, total, human.mean[usable], these
        beta = shares_of_judge(pilot)
        self.sides = {}
        for judge, part in ((False, np.zeros_like(beta)), (True, beta)):
            rest = human.apart - part[:, None] * labelled.apart
            share = dispersions((rest**2).sum(axis=1)[usable], human.articles[usable] - 1, self.mean, pilot.scale)
            fixed = (part**2 * every.variance)[usable]
            self.sides[judge] = share, fixed, pair_correlations(rest[usable], human.articles[usable])

    def _ends(self, count: int, judge: bool) -> tuple[np.ndarray, np.ndarray]:
        times = student(count - 1) ** 2
        share, fixed, _ = self.sides[judge]
        if self.these:
            relative, fixed = times * share * (1 / count - 1 / self.total), np.zeros(len(self.mean))
        else:
            relative, fixed = times * share / count, times * fixed / self.total
        return means_not_refuted(self.mean, relative, fixed, self.scale)

    def of_means(self, count: int, judge: bool) -> float:
        low, high = self._ends(count, judge)
        return float((high - low).mean() / 2)

    def of_differences(self, count: int, judge: bool) -> float:
        first, second = np.triu_indices(len(self.mean), 1)
        low, high = pair_ends(self.mean, *self._ends(count, judge), self.sides[judge][2], first, second)
        return float((high - low).mean() / 2)


def articles_to_label(judge: np.ndarray, groups: np.ndarray, count: int, seed: int = 0) -> list[str]:
    """The articles to label: drawn at random, spread over the judge's mean scores.

    Articles are sorted by their mean score, and every (G / count)-th is taken from a random start (systematic
    sampling): each is as likely as any other, so that all estimates hold, and the labelled ones' scores lie close to
    those of all, so that they are at least as good as with articles drawn without regard to scores.

    Args:
        judge: [N] scores of the texts.
        groups: [N] labels of the articles.
        count: how many to draw.

    Returns:
        Their labels, those of the lowest scores first.

    Raises:
        ValueError: there are fewer articles, or none is wanted.
    """
    labels, group = np.unique(np.asarray(groups), return_inverse=True)
    if not 1 <= count <= len(labels):
        raise ValueError(f"between 1 and {len(labels)} articles can be drawn, not {count}")
    means = np.bincount(group, np.asarray(judge, dtype=np.float64)) / np.bincount(group)
    rng = np.random.default_rng(seed)
    order = np.lexsort((rng.random(len(labels)), means))  # equal means in random order
    places = (rng.random() + np.arange(count)) * len(labels) / count
    return [str(labels[order[place]]) for place in np.minimum(places.astype(int), len(labels) - 1)]
