"""At which level judge and humans are compared: all pairs, within each document, or system against system."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from judgebench.config.fields import LEVELS
from judgebench.metrics.resampling import RESAMPLES, Resampled, group_weights, left_out, percentile_interval
from judgebench.runtime.errors import UserError
from judgebench.stats.correlation import (
    MOST_ENTRIES,
    correlate_rows,
    is_constant,
    kendall,
    pearson,
    resampled_correlations,
    spearman,
    vectors,
)

MOST_SYSTEMS = 1000
"""Systems beyond which they have no intervals: each resample would sort all their means anew."""

_FEWEST_SYSTEMS = 3
"""Systems of which drawn ones can differ in their correlation: two always lie on a line."""


def shown_level(levels: Iterable[str]) -> str:
    """The level that is told where only one is: dataset where there is one, else the first.

    Example:
        >>> shown_level(["system", "dataset"]), shown_level(["system", "document"])
        ('dataset', 'system')
    """
    found = list(dict.fromkeys(levels))
    return LEVELS[0] if LEVELS[0] in found or not found else found[0]


@dataclass(frozen=True)
class Correlated(Resampled):
    """The correlations of judge and humans at one level.

    Attributes:
        values, resampled, jackknife: see `Resampled`; S is 3: pearson, spearman, kendall (tau-b).
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
            resample holds no two systems. [3, 0] at other levels, with fewer than three systems, and where `resampled`
            is.
        missing: a sentence that says why there are no correlations, or no intervals; else None.
        known: False where there are no correlations; then values are 0.0, and nothing is resampled.
    """

    n: int
    groups: int
    constant: bool
    constant_humans: bool = False
    constant_groups: int | None = None
    human_constant_groups: int | None = None
    varied: np.ndarray | None = None
    over_systems: np.ndarray = field(default_factory=lambda: np.zeros((3, 0)))
    missing: str | None = None
    known: bool = True

    def over_systems_intervals(self) -> list[tuple[float, float] | None]:
        """[3] the percentile intervals over systems and groups; see `percentile_interval`."""
        return [percentile_interval(row[~np.isnan(row)]) for row in self.over_systems]


def correlate(
    level: str,
    judge: np.ndarray,
    human: np.ndarray,
    groups: np.ndarray,
    systems: np.ndarray,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Correlated:
    """Judge [N] against humans [N] at one level, with resamples of the groups [N] of labels, alike for equal sets of
    groups.

    - `dataset`: one correlation over all pairs; the CD paper's.
    - `document`: the mean over groups of the correlation within each; G-Eval's, except that groups where it is
      undefined count as 0.0 instead of being left out.
    - `system`: one correlation over the systems, of judge's and humans' means. `resampled` keeps the systems and
      resamples their means: it speaks for these systems. `over_systems` resamples the systems too, and speaks for
      systems like these: "both" of Deutsch, Dror and Roth, "A Statistical Analysis of Summarization Evaluation Metrics
      Using Resampling Methods" (TACL 2021).

    Raises:
        UserError: an unknown level.
        ValueError: shapes that do not fit, NaN or infinite values.
    """
    if level not in LEVELS:
        raise UserError(f"levels: {level!r} is not one of {', '.join(LEVELS)}.")
    judge, human = vectors(judge, human)
    if len(groups) != len(judge) or len(systems) != len(judge):
        raise ValueError(f"groups and systems must have {len(judge)} labels, got {len(groups)} and {len(systems)}")
    labels, group = np.unique(np.asarray(groups), return_inverse=True)
    system = np.unique(np.asarray(systems), return_inverse=True)[1]
    count = len(labels)
    if missing := _no_correlation(level, group, system):
        n = {"dataset": len(judge), "document": count, "system": int(system.max(initial=-1)) + 1}[level]
        empty = np.zeros((3, 0))
        return Correlated(np.zeros(3), empty, empty, n, count, False, missing=missing, known=False)
    missing = _no_intervals(level, count, system) if resamples else None
    drawn = group_weights(count, 0 if missing else resamples, seed)
    weights = np.vstack([drawn, left_out(count)]) if len(drawn) else drawn
    found = correlations_at(level, judge, human, group, system, weights)
    resampled, jackknife = found[:, : len(drawn)], found[:, len(drawn) :]
    if level == "dataset":
        values = np.array([pearson(judge, human), spearman(judge, human), kendall(judge, human)])
        facts: dict[str, Any] = {"n": len(judge), "constant": is_constant(judge), "constant_humans": is_constant(human)}
    else:
        values = correlations_at(level, judge, human, group, system, np.ones((1, count), dtype=np.int32))[:, 0]
        if level == "document":
            facts = _document_facts(judge, human, group, system, count)
        else:
            facts = _system_facts(judge, human, group, system, drawn, seed)
    return Correlated(values, resampled, jackknife, groups=count, missing=missing, **facts)


def correlations_at(
    level: str, judge: np.ndarray, human: np.ndarray, group: np.ndarray, system: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """The correlations [3, B] of each resample at one level of `LEVELS`, see `correlate`.

    Args:
        group, system: [N] numbered from 0, without gaps.
        weights: [B, G] how often each group was drawn, at least one in each resample.
    """
    if level == "dataset":
        return resampled_correlations(judge, human, group, weights)
    if level == "document":
        within = _within(judge, human, group, weights.shape[1])
        return within @ weights.T / np.maximum(weights.sum(axis=1), 1)
    return _of_systems(judge, human, group, system, weights, None)


def _document_facts(
    judge: np.ndarray, human: np.ndarray, group: np.ndarray, system: np.ndarray, count: int
) -> dict[str, Any]:
    """The attributes of `Correlated` that speak of groups in which judge or humans are constant."""
    judge_varies, human_varies = (_varies_in(side, group, count) for side in (judge, human))
    varied = correlations_at("document", judge, human, group, system, human_varies[None])[:, 0]
    return {
        "n": count,
        "constant": not judge_varies.any(),
        "constant_humans": not human_varies.any(),
        "constant_groups": int((~(judge_varies & human_varies)).sum()),
        "human_constant_groups": int((~human_varies).sum()),
        "varied": varied if human_varies.any() else None,
    }


def _system_facts(
    judge: np.ndarray, human: np.ndarray, group: np.ndarray, system: np.ndarray, drawn: np.ndarray, seed: int
) -> dict[str, Any]:
    every = np.ones((1, drawn.shape[1]), dtype=np.int32)
    ours, theirs = (_means(side, group, system)(every)[0] for side in (judge, human))
    facts: dict[str, Any] = {"n": len(ours), "constant": is_constant(ours), "constant_humans": is_constant(theirs)}
    if len(ours) >= _FEWEST_SYSTEMS:
        # Another stream than those of groups and flips, which are drawn with the same seed.
        rng = np.random.default_rng([seed, 2])
        facts["over_systems"] = _of_systems(judge, human, group, system, drawn, rng)
    return facts


def _no_correlation(level: str, group: np.ndarray, system: np.ndarray) -> str | None:
    """The reason why there is nothing to correlate, whatever judge and humans say."""
    if not len(group):
        return "No correlation: nobody rated these texts."
    if level == "system" and not system.any():
        return "No correlation over systems: all texts are of one system, and it takes at least two."
    if len(group) < 2:
        return "No correlation: there is one text, and it takes at least two."
    if level == "document" and len(np.unique(group)) == len(group):
        return "No correlation within groups: no group has two texts."
    return None


def _no_intervals(level: str, groups: int, system: np.ndarray) -> str | None:
    """The reason why nothing is resampled."""
    if groups < 2:
        return "No intervals: there is one group, and resampling takes at least two."
    if level == "system" and (systems := int(system.max()) + 1) > MOST_SYSTEMS:
        return f"No intervals over systems: {systems:,} are more than the {MOST_SYSTEMS:,} that are resampled."
    return None


def _of_systems(
    judge: np.ndarray,
    human: np.ndarray,
    group: np.ndarray,
    system: np.ndarray,
    weights: np.ndarray,
    rng: np.random.Generator | None,
) -> np.ndarray:
    """[3, B] the correlations over systems in each resample of the groups; with `rng`, of as many systems drawn from
    it, and NaN where these are not two."""
    means = [_means(side, group, system) for side in (judge, human)]
    count = int(system.max()) + 1
    correlations = np.zeros((3, len(weights)))
    step = max(1, MOST_ENTRIES // count)
    for start in range(0, len(weights), step):
        x, y = (of(weights[start : start + step]) for of in means)
        found = correlations[:, start : start + step]
        if rng is not None:
            drawn = rng.integers(0, count, x.shape)
            there = ~np.isnan(np.take_along_axis(x, drawn, axis=1))
            one = np.where(there, drawn, -1).max(axis=1), np.where(there, drawn, count).min(axis=1)
            x, y = (np.take_along_axis(side, drawn, axis=1) for side in (x, y))
        there = ~np.isnan(x)
        whole = there.all(axis=1)
        found[:, whole] = correlate_rows(x[whole], y[whole])
        for row in np.flatnonzero(~whole):  # a system whose articles were not drawn has no mean in this resample
            held = there[row]
            found[:, row] = correlate_rows(x[row : row + 1, held], y[row : row + 1, held])[:, 0]
        if rng is not None:
            found[:, one[0] <= one[1]] = np.nan
    return correlations


def _within(judge: np.ndarray, human: np.ndarray, group: np.ndarray, count: int) -> np.ndarray:
    """[3, G] each group's own correlations; 0.0 where judge or humans are constant in it."""
    sizes = np.bincount(group, minlength=count)
    order, starts = np.argsort(group, kind="stable"), sizes.cumsum() - sizes
    found = np.zeros((3, count))
    for size in np.unique(sizes[sizes > 1]):
        here = np.flatnonzero(sizes == size)
        rows = order[starts[here, None] + np.arange(size)]
        found[:, here] = correlate_rows(judge[rows], human[rows])
    return found


def _varies_in(values: np.ndarray, group: np.ndarray, count: int) -> np.ndarray:
    """[G] whether a group holds two different values."""
    low, high = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(low, group, values)
    np.maximum.at(high, group, values)
    return low < high


def _means(values: np.ndarray, group: np.ndarray, system: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """[B, G] weights -> [B, S] the systems' means in each resample, shifted and scaled by what correlations do not see;
    NaN where a system was not drawn.

    Rounded to 12 digits of the spread: means that are equal in truth must tie, whatever order they were summed in.
    """
    spread = np.ptp(values) if len(values) else 0.0
    scaled = (values - values.min()) / spread if spread > 0 else np.zeros(len(values))
    # Sparse: where each text has a group and a system of its own, the tables would grow with the square of the texts.
    sizes, sums = (sparse.csr_array((each, (system, group))) for each in (np.ones(len(values)), scaled))

    def at(weights: np.ndarray) -> np.ndarray:
        drawn = weights.T.astype(np.float64)
        mass = sizes @ drawn
        means = np.divide(sums @ drawn, mass, out=np.full_like(mass, np.nan), where=mass > 0)
        return np.ascontiguousarray(np.round(means, 12).T)

    return at
