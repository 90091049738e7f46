"""Plans for human labels: how many articles, and which, reach a wanted width of the interval.

Of the N articles that the judge reads, or of articles like these: see `few_labels` for the two
targets.

Label all systems' texts of an article: what makes an article hard or easy then cancels in
differences of systems, and costs nothing for single means. Draw the articles spread over the
judge's scores (`articles_to_label`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from judgebench.stats import few_labels
from judgebench.stats.few_labels import FEWEST_LABELLED, FewLabels

MOST_LABELLED = 100_000
"""Articles beyond which no plan asks for labels."""

MEAN = "mean of a system"
DIFFERENCE = "difference of two systems"
"""Values of `of` in the records of a plan."""


def label_plan(
    pilot: FewLabels, widths: Sequence[float], articles: int | None = None, these: bool = False
) -> list[dict[str, Any]]:
    """The labelled articles that reach each wanted width, from a pilot: a few labels, and a judge's
    scores of all.

    Intervals are those of `predicted_means` and `predicted_differences`, with the pilot's means,
    dispersions and correlations; half of their width, averaged over systems or pairs, is what is to
    reach the wanted one. A pilot of 10 articles knows a spread to a quarter of its size, so numbers
    to about a half.

    Args:
        widths: half of each wanted width: 0.2 of an interval that reaches 0.2 to each side.
        articles: all that could be labelled and that the judge reads; the pilot's if None.
        these: systems' means on these very articles are asked for, else on articles like these.

    Returns:
        A record a wanted width (within) and `of`, of `MEAN` and `DIFFERENCE`: labels, predicted:
        articles needed with labels alone and with the judge; saved: how many fewer with it;
        labelled, articles: those that the pilot has, and all; reason: why a number is None, else
            None.
    """
    total = int(pilot.every.articles.max(initial=0)) if articles is None else articles
    usable = pilot.ratings.articles >= FEWEST_LABELLED
    records = []
    for of, enough in ((MEAN, usable.any()), (DIFFERENCE, usable.sum() >= 2)):
        sides = (
            [_half_width(pilot, usable, total, these, judge, of) for judge in (False, True)]
            if enough
            else []
        )
        for within in widths:
            needed: list[int | None] = [None, None]
            for place, half_width in enumerate(sides):
                # labels alone are not bound to the articles that the judge reads
                counts = range(FEWEST_LABELLED, (total if these or place else MOST_LABELLED) + 1)
                first = bisect_left(counts, True, key=lambda count: half_width(count) <= within)
                needed[place] = counts[first] if first < len(counts) else None
            alone, judged = needed
            reason = None
            if not enough:
                reason = f"No plan: it takes {FEWEST_LABELLED} labelled articles of a system, "
                reason += "and two systems for differences."
            elif judged is None:
                more = "" if alone is None else f", and {alone:,} with labels alone would be needed"
                reason = f"All {total:,} articles are too few{more}."
            saved = None if alone is None or judged is None else alone - judged
            records.append(
                {"of": of, "within": within, "labels": alone, "predicted": judged, "saved": saved}
                | {
                    "labelled": int(pilot.ratings.articles.max(initial=0)),
                    "articles": total,
                    "reason": reason,
                }
            )
    return records


def _half_width(
    pilot: FewLabels, usable: np.ndarray, total: int, these: bool, judge: bool, of: str
) -> Callable[[int], float]:
    """The function from a number of labelled articles to half the mean width of the intervals of
    `of`."""
    human = pilot.ratings
    scale = pilot.scale
    mean = human.mean[usable]
    beta = few_labels.shares_of_judge(pilot) if judge else np.zeros(len(usable))
    rest = human.apart - beta[:, None] * pilot.labelled.apart
    share = few_labels.dispersions(
        (rest**2).sum(axis=1)[usable], human.articles[usable] - 1, mean, scale
    )
    # of the judge's mean
    error = np.zeros(len(mean)) if these else (beta**2 * pilot.every.variance)[usable] / total
    correlations = few_labels.pair_correlations(rest[usable], human.articles[usable])
    first, second = np.triu_indices(len(mean), 1)

    def half_width(count: int) -> float:
        times = few_labels.student(count - 1) ** 2
        part = 1 / count - 1 / total if these else 1 / count
        low, high = few_labels.means_not_refuted(mean, times * share * part, times * error, scale)
        if of == DIFFERENCE:
            low, high = few_labels.pair_ends(mean, low, high, correlations, first, second)
        return float((high - low).mean() / 2)

    return half_width


def articles_to_label(
    judge: np.ndarray, groups: np.ndarray, count: int, seed: int = 0
) -> list[str]:
    """The labels of `count` articles to label, drawn at random, spread over the judge's scores [N]
    of their texts; those of the lowest scores first. `ValueError` where there are fewer articles,
    or none is wanted.

    Articles are sorted by their mean score, and every (G / count)-th is taken from a random start
    (systematic sampling): each is as likely as any other, so that all estimates hold, and the
    labelled ones' scores lie close to those of all, so that they are at least as good as with
    articles drawn without regard to scores.
    """
    labels, group = np.unique(np.asarray(groups), return_inverse=True)
    if not 1 <= count <= len(labels):
        raise ValueError(f"between 1 and {len(labels)} articles can be drawn, not {count}")
    means = np.bincount(group, np.asarray(judge, dtype=np.float64)) / np.bincount(group)
    rng = np.random.default_rng(seed)
    order = np.lexsort((rng.random(len(labels)), means))  # equal means in random order
    places = (rng.random() + np.arange(count)) * len(labels) / count
    return [str(labels[order[place]]) for place in np.minimum(places.astype(int), len(labels) - 1)]
