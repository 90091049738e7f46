"""The human ceiling: how well one rater agrees with the others, and how well a judge does with the same others.

A judge is usually compared with the mean of all raters, and a rater with the mean of the others, which has more noise:
the two are no fair pair. Here both sides meet the same means. For each rater, the texts that they and somebody else
rated: Spearman's rho of their ratings, or of a judge's scores, with the mean of the other raters; then the mean over
raters, weighted by their texts (leave one rater out).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from judgebench.metrics.cells import CELL, Cell, cells, checked
from judgebench.metrics.correlation import is_constant
from judgebench.metrics.resampling import RESAMPLES, unknown, weights_of, with_interval
from judgebench.metrics.robustness import CLEAN
from judgebench.metrics.weighted import DistinctPairs
from judgebench.types import LABELS
from judgebench.worth.points import rater_points_record
from judgebench.worth.reliability import FIGURES, agreement_record, categories_of

FEWEST_TEXTS = 10
"""Texts shared with others with which a rater counts: the rho of fewer says next to nothing."""

_DIGITS = 12  # of the ratings' spread, to which means are rounded: those equal in truth must tie


def means_of_others(ratings: np.ndarray) -> np.ndarray:
    """The mean of the other raters' scores, for each rating: [N, R] -> [N, R]; NaN where the rater gave none, and where
    nobody else did.

    Example:
        >>> means_of_others(np.array([[1.0, 2.0, 4.0], [3.0, np.nan, 5.0], [2.0, np.nan, np.nan]])).tolist()
        [[3.0, 2.5, 1.5], [5.0, nan, 3.0], [nan, nan, nan]]
    """
    given = ~np.isnan(ratings)
    if not given.any():
        return np.full(ratings.shape, np.nan)
    low, spread = np.nanmin(ratings), np.nanmax(ratings) - np.nanmin(ratings)
    scaled = np.where(given, (ratings - low) / (spread or 1.0), 0.0)
    others = given.sum(axis=1, keepdims=True) - 1
    sums = scaled.sum(axis=1, keepdims=True) - scaled
    means = np.divide(sums, others, out=np.full(ratings.shape, np.nan), where=given & (others > 0))
    return low + np.round(means, _DIGITS) * spread


@dataclass(frozen=True)
class Panel:
    """Raters of some texts, each beside the mean of the others.

    Args:
        ratings: [N, R], NaN where a rater gave none.
        groups: [N] labels of the texts' groups, which are resampled: articles, questions.
        resamples, seed: see `resampling.group_weights`.
        names: [N] the texts' example_ids, by which a judge's scores are found; only `beside_raters` needs them.

    Raises:
        ValueError: other shapes, or infinite ratings.
    """

    ratings: np.ndarray
    groups: np.ndarray
    resamples: int = RESAMPLES
    seed: int = 0
    names: Sequence[str] = ()

    def __post_init__(self) -> None:
        ratings = np.asarray(self.ratings, dtype=np.float64)
        if ratings.ndim != 2 or len(self.groups) != len(ratings):
            raise ValueError(f"ratings [N, R] and groups [N] do not fit: {list(ratings.shape)}, {len(self.groups)}")
        if np.isinf(ratings).any():
            raise ValueError("ratings must be finite, or NaN where there is none")
        object.__setattr__(self, "ratings", ratings)

    @cached_property
    def others(self) -> np.ndarray:
        """[N, R], see `means_of_others`."""
        return means_of_others(self.ratings)

    @cached_property
    def texts(self) -> np.ndarray:
        """[R] of each rater the texts that somebody else rated, too."""
        return (~np.isnan(self.others)).sum(axis=0)

    @cached_property
    def counted(self) -> list[int]:
        """Columns of the raters with at least `FEWEST_TEXTS` such texts."""
        return [int(column) for column in np.flatnonzero(self.texts >= FEWEST_TEXTS)]

    @property
    def missing(self) -> str | None:
        """A sentence that says why there is no ceiling; None where there is one."""
        if not self.texts.any():
            return "No human ceiling: no text has the ratings of two people."
        if not self.counted:
            return f"No human ceiling: nobody rated {FEWEST_TEXTS} texts that others rated, too."
        return None

    @cached_property
    def ceiling(self) -> np.ndarray:
        """[1 + B] the mean over raters of their rho with the others, in the data and in each resample of the groups;
        NaN in all where `missing`. A constant rater counts 0.0."""
        return self._mean(self.ratings)

    def agreement(self, scores: np.ndarray) -> np.ndarray:
        """[1 + B] of a judge's scores [N], as `ceiling`: for each rater the judge's rho with the mean of the others, on
        that rater's texts, with the same weights. Resamples are those of `ceiling`, so that differences are paired.

        Raises:
            ValueError: another shape, or a score that is not finite.
        """
        scores = np.asarray(scores, dtype=np.float64)
        if scores.shape != self.ratings.shape[:1] or not np.isfinite(scores).all():
            raise ValueError(f"scores must be {len(self.ratings)} finite numbers")
        return self._mean(np.broadcast_to(scores[:, None], self.ratings.shape))

    @cached_property
    def _group(self) -> tuple[np.ndarray, int]:
        """[N] numbers of the groups that hold a counted text, so that no resample is without any; and their count."""
        held = (~np.isnan(self.others[:, self.counted])).any(axis=1)
        labels, number = np.unique(np.asarray(self.groups)[held], return_inverse=True)
        group = np.full(len(held), -1)
        group[held] = number
        return group, len(labels)

    def _mean(self, sides: np.ndarray) -> np.ndarray:
        group, count = self._group
        weights = weights_of(count, self.resamples, self.seed)
        if self.missing:
            return np.full(len(weights), np.nan)
        total, mass = np.zeros(len(weights)), np.zeros(len(weights))
        for column in self.counted:
            of = ~np.isnan(self.others[:, column])
            texts = weights @ np.bincount(group[of], minlength=count)
            side = sides[of, column]
            if not is_constant(side):
                pairs = DistinctPairs(side, self.others[of, column], group[of], count)
                total += texts * pairs.spearman(weights)
            mass += texts
        return np.divide(total, mass, out=np.full(len(weights), np.nan), where=mass > 0)


def human_records(
    panels: Mapping[tuple[str, str], Panel], dataset: str, scale: Mapping[str, tuple[float, float] | None] | None = None
) -> list[dict[str, Any]]:
    """The records of humans.json: of each dimension and split what its raters agree on.

    Args:
        panels: dimension and split -> its panel.
        scale: dimension -> lowest and highest score that a rater may give; None where nobody knows.

    Returns:
        dataset, dimension, split; texts with two ratings or more, their groups, raters (people who rated them),
        ratings_per_text (mean over them); ceiling with `_low` and `_high` of its 95 % interval, groups resampled;
        raters_counted: those behind it; alpha: Krippendorff's, interval; reason: why there is no ceiling, or no
        interval, else None; raters_per_text and the figures of `reliability.agreement_record` with intervals, and
        agreement_reason; single_* of `points.rater_points_record` with intervals: one rater beside another.
    """
    scale = scale or {}
    return [
        {"dataset": dataset, "dimension": dimension, "split": split} | _record(panel, scale.get(dimension))
        for (dimension, split), panel in panels.items()
    ]


def _record(panel: Panel, scale: tuple[float, float] | None) -> dict[str, Any]:
    shared = ~np.isnan(panel.others)
    held = shared.any(axis=1)
    texts = int(held.sum())
    values = panel.ceiling
    reason = panel.missing
    if reason is None and len(values) == 1 and panel.resamples:
        reason = "No interval: there is one group, and resampling takes at least two."
    groups = np.asarray(panel.groups)
    categories = None if scale is None else categories_of(panel.ratings, scale)
    agreement = agreement_record(panel.ratings, groups, categories)
    figures = {name: agreement[name] for name in ("raters_per_text", *unknown(FIGURES))}
    figures["agreement_reason"] = agreement["reason"]
    points = rater_points_record(panel.ratings, groups, categories, panel.resamples, panel.seed)
    return {
        "texts": texts,
        "groups": len(np.unique(groups[held])),
        "raters": int(shared.any(axis=0).sum()),
        "ratings_per_text": float(shared.sum() / texts) if texts else None,
        **with_interval("ceiling", values),
        "raters_counted": len(panel.counted),
        "alpha": figures["alpha_interval"],
        "reason": reason,
        **figures,
        **{name: value for name, value in points.items() if name.startswith("single_")},
    }


def beside_raters(
    records: Sequence[Mapping[str, Any]], scores: Mapping[str, np.ndarray], panels: Mapping[tuple[str, str], Panel]
) -> list[dict[str, Any]]:
    """The records of metrics.json; in those of clean texts at dataset level, where a panel has a ceiling, also
    `spearman_others`, of the judge against the same means as each rater (see `Panel.agreement`), and
    `humans_difference`, that less the ceiling, each with `_low` and `_high` of its 95 % interval, paired resample by
    resample. They are None where the judge has not scored all texts of the panel.

    Args:
        records: of `evaluation.evaluate` over the same scores.
        scores: see there.
        panels: dimension and split -> its panel, with names.
    """
    columns = checked(scores)
    rows_of = cells(columns)
    found = []
    for record in map(dict, records):
        panel = panels.get((record["dimension"], record["split"]))
        if panel is not None and panel.missing is None and (record["level"], record["attack"]) == ("dataset", CLEAN):
            rows = rows_of[Cell._make([*(record[name] for name in CELL), record.get(LABELS) or ""])]
            given = dict(zip(columns["example_id"][rows].tolist(), columns["score"][rows].tolist(), strict=True))
            record |= _beside(panel, [given.get(name, np.nan) for name in panel.names])
        found.append(record)
    return found


def _beside(panel: Panel, scores: Sequence[float]) -> dict[str, float | None]:
    if not np.isfinite(scores).all():
        return unknown(("spearman_others", "humans_difference"))
    values = panel.agreement(np.array(scores))
    return with_interval("spearman_others", values) | with_interval("humans_difference", values - panel.ceiling)
