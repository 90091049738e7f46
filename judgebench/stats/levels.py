"""At which level judge and humans are compared: all pairs, within each document, or system against system."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from judgebench.config.fields import LEVELS
from judgebench.stats.clusters import MOST_ENTRIES, Clusters, divided, left_out
from judgebench.stats.correlation import (
    correlate_rows,
    is_constant,
    kendall,
    pearson,
    resampled_correlations,
    spearman,
    vectors,
)

MOST_SYSTEMS = 1000
"""Systems beyond which they have no intervals: each resample would sort all their means."""

_FEWEST_SYSTEMS = 3  # of which drawn ones can differ in their correlation: two always lie on a line


def shown_level(levels: Iterable[str]) -> str:
    """The level that is shown where only one is: dataset where there is one, else the first.

    Example:
        >>> shown_level(["system", "dataset"]), shown_level(["system", "document"])
        ('dataset', 'system')
    """
    names = list(dict.fromkeys(levels))
    return LEVELS[0] if LEVELS[0] in names or not names else names[0]


@dataclass(frozen=True)
class Correlated:
    """The correlations of judge and humans at one level: pearson, spearman, kendall (tau-b).

    Attributes:
        values: [3, 1 + B] of the data, then of each resample of groups.
        n: what was correlated: pairs (dataset), groups (document), systems (system).
        groups: distinct groups, the unit of resampling.
        constant, constant_humans: True where the judge, or the humans, always say the same: over all pairs (dataset),
            within every group (document), in the mean over every system (system). The values are then 0.0.
        constant_groups: document level: groups without a correlation, which count as 0.0, because judge or humans are
            constant there.
        human_constant_groups: document level: those of them in which the humans are constant, as of a group's only
            text, which say nothing about the judge.
        varied: [3] document level: the values without those groups; None at other levels, and where all are such.
        over_systems: [3, B] system level: the correlations where systems are resampled as well as groups; NaN where a
            resample holds no two systems. [3, 0] at other levels, and with fewer than three systems.
        jackknife: [3, J] with each group left out in turn, where that was asked for.
        missing: a sentence that says why there are no correlations, or no intervals; else None.
        known: False where there are no correlations; then values are 0.0, and nothing is resampled.
    """

    values: np.ndarray
    n: int
    groups: int
    constant: bool = False
    constant_humans: bool = False
    constant_groups: int | None = None
    human_constant_groups: int | None = None
    varied: np.ndarray | None = None
    over_systems: np.ndarray = field(default_factory=lambda: np.zeros((3, 0)))
    jackknife: np.ndarray = field(default_factory=lambda: np.zeros((3, 0)))
    missing: str | None = None
    known: bool = True


def correlate(
    level: str,
    judge: np.ndarray,
    human: np.ndarray,
    clusters: Clusters,
    systems: np.ndarray,
    jackknife: bool = False,
) -> Correlated:
    """Judge [N] against humans [N] at one level, in the data and in each resample of the groups.

    - `dataset`: one correlation over all pairs; the CD paper's.
    - `document`: the mean over groups of the correlation within each; G-Eval's, except that groups where it is
      undefined count as 0.0 instead of being left out.
    - `system`: one correlation over the systems, of judge's and humans' means. `values` keeps the systems and
      resamples their means: it speaks for these systems. `over_systems` resamples the systems too, and speaks for
      systems like these: "both" of Deutsch, Dror and Roth, "A Statistical Analysis of Summarization Evaluation Metrics
      Using Resampling Methods" (TACL 2021).

    `systems` [N] are labels.
    """
    judge, human = vectors(judge, human)
    group, count, weights = clusters.number, clusters.count, clusters.weights
    names, system = np.unique(np.asarray(systems), return_inverse=True)
    # 1. why there is nothing to correlate, and why nothing is resampled
    n = {"dataset": len(judge), "document": count, "system": len(names)}[level]
    if missing := _no_correlation(level, group, system):
        return Correlated(np.zeros((3, 1)), n, count, missing=missing, known=False)
    if count < 2 and clusters.resamples:
        missing = "No intervals: there is one group, and resampling takes at least two."
    elif level == "system" and len(names) > MOST_SYSTEMS and clusters.resamples:
        missing = f"No intervals over systems: {len(names):,} are more than the {MOST_SYSTEMS:,} that are resampled."
        weights = weights[:1]
    # 2. correlations of the data, of the resamples, and with each group left out
    rows = np.vstack([weights, left_out(count)]) if jackknife and len(weights) > 1 else weights
    facts: dict[str, Any] = {"constant": is_constant(judge), "constant_humans": is_constant(human)}
    if level == "dataset":
        values = resampled_correlations(judge, human, group, rows)
        data = np.array([[correlation(judge, human)] for correlation in (pearson, spearman, kendall)])
    elif level == "document":
        within = _within_groups(judge, human, group, count)
        values, data = (within @ of.T / np.maximum(of.sum(axis=1), 1) for of in (rows, weights[:1]))
        facts = _constant_groups(judge, human, group, within)
    else:
        means = [_means(side, group, system) for side in (judge, human)]
        values, data = (_over_systems(means, of, len(names)) for of in (rows, weights[:1]))
        constant = (is_constant(side(weights[:1])[0]) for side in means)
        facts = dict(zip(("constant", "constant_humans"), constant, strict=True))
        if len(names) >= _FEWEST_SYSTEMS:
            # another stream than those of groups and flips, which are drawn with the same seed
            rng = np.random.default_rng([clusters.seed, 2])
            facts["over_systems"] = _over_systems(means, weights[1:], len(names), rng)
    # 3. the data by themselves: to the bit the same with resamples and without
    resampled, left = values[:, 1 : len(weights)], values[:, len(weights) :]
    return Correlated(np.hstack([data, resampled]), n, count, jackknife=left, missing=missing, **facts)


def _no_correlation(level: str, group: np.ndarray, system: np.ndarray) -> str | None:
    """The reason why there is nothing to correlate, for any scores."""
    if not len(group):
        return "No correlation: nobody rated these texts."
    if level == "system" and not system.any():
        return "No correlation over systems: all texts are of one system, and it takes at least two."
    if len(group) < 2:
        return "No correlation: there is one text, and it takes at least two."
    if level == "document" and len(np.unique(group)) == len(group):
        return "No correlation within groups: no group has two texts."
    return None


def _within_groups(judge: np.ndarray, human: np.ndarray, group: np.ndarray, count: int) -> np.ndarray:
    """[3, G] each group's own correlations, of as many groups of one size at a time as there are; 0.0 of one text."""
    sizes = np.bincount(group, minlength=count)
    order, starts = np.argsort(group, kind="stable"), sizes.cumsum() - sizes
    within = np.zeros((3, count))
    for size in np.unique(sizes[sizes > 1]):
        here = np.flatnonzero(sizes == size)
        rows = order[starts[here, None] + np.arange(size)]
        within[:, here] = correlate_rows(judge[rows], human[rows])
    return within


def _constant_groups(judge: np.ndarray, human: np.ndarray, group: np.ndarray, within: np.ndarray) -> dict[str, Any]:
    """The attributes of `Correlated` that speak of groups in which judge or humans are constant."""
    varies = []
    for values in (judge, human):
        low, high = np.full(within.shape[1], np.inf), np.full(within.shape[1], -np.inf)
        np.minimum.at(low, group, values)
        np.maximum.at(high, group, values)
        varies.append(low < high)
    judge_varies, human_varies = varies
    return {
        "constant": not judge_varies.any(),
        "constant_humans": not human_varies.any(),
        "constant_groups": int((~(judge_varies & human_varies)).sum()),
        "human_constant_groups": int((~human_varies).sum()),
        "varied": within[:, human_varies].mean(axis=1) if human_varies.any() else None,
    }


Means = Callable[[np.ndarray], np.ndarray]


def _means(values: np.ndarray, group: np.ndarray, system: np.ndarray) -> Means:
    """[B, G] weights -> [B, S] the systems' means in each resample, shifted and scaled by what correlations do not see;
    NaN where a system was not drawn.

    Rounded to 12 digits of the spread: means that are equal in truth must tie, whatever order they were summed in.
    """
    spread = np.ptp(values)
    scaled = (values - values.min()) / spread if spread > 0 else np.zeros(len(values))
    # sparse: where each text has a group and a system of its own, the tables would grow with the square of the texts
    sizes, sums = (sparse.csr_array((each, (system, group))) for each in (np.ones(len(values)), scaled))

    def at(weights: np.ndarray) -> np.ndarray:
        drawn = weights.T.astype(np.float64)
        return np.ascontiguousarray(np.round(divided(sums @ drawn, sizes @ drawn), 12).T)

    return at


def _over_systems(
    means: Sequence[Means], weights: np.ndarray, count: int, rng: np.random.Generator | None = None
) -> np.ndarray:
    """[3, B] the correlations over systems in each resample of the groups; with `rng`, of as many systems drawn from
    it, and NaN where these are not two."""
    correlations = np.zeros((3, len(weights)))
    step = max(1, MOST_ENTRIES // count)
    for start in range(0, len(weights), step):
        x, y = (side(weights[start : start + step]) for side in means)
        part = correlations[:, start : start + step]
        if rng is not None:
            drawn = rng.integers(0, count, x.shape)
            x, y = (np.take_along_axis(side, drawn, axis=1) for side in (x, y))
        present = ~np.isnan(x)
        whole = present.all(axis=1)
        part[:, whole] = correlate_rows(x[whole], y[whole])
        for row in np.flatnonzero(~whole):  # a system whose articles were not drawn has no mean in this resample
            of = present[row]
            part[:, row] = correlate_rows(x[row : row + 1, of], y[row : row + 1, of])[:, 0]
        if rng is not None:
            last, first = np.where(present, drawn, -1).max(axis=1), np.where(present, drawn, count).min(axis=1)
            part[:, last <= first] = np.nan
    return correlations
