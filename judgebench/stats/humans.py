"""Humans among themselves, and a judge compared with them.

A judge is usually compared with the mean of all raters, and a rater with the mean of the others, which has more noise:
the two are no fair pair. Here both sides meet the same means. For each rater, the texts that they and somebody else
rated: Spearman's rho of their ratings, or of a judge's scores, with the mean of the other raters; then the mean over
raters, weighted by their texts (leave one rater out). That of the raters is the human ceiling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from judgebench.stats.agreement import agreement_record, categories_of, disattenuated_record
from judgebench.stats.alternative import alternative_record
from judgebench.stats.clusters import RESAMPLES, Clusters, divided, unknown, with_interval
from judgebench.stats.correlation import (
    DistinctPairs,
    is_constant,
    krippendorff_alpha,
    mean_pairwise_spearman,
    rating_table,
)
from judgebench.stats.points import POINTS_FIGURES, cross_fitted, points_record, rater_points_record, rounded
from judgebench.stats.scores import CLEAN, Cell, Sample, Scores, ratings_of

FEWEST_TEXTS = 10
"""Texts shared with others with which a rater counts: the rho of fewer says next to nothing."""

RAW, CALIBRATED = "raw", "calibrated"
"""Scores mapped linearly to the humans' scale; and those that isotonic regression on other groups' texts makes of
them, see `points.cross_fitted`."""

_DIGITS = 12  # of the ratings' spread, to which means are rounded: those equal in truth must tie
_MEANS = "several ratings of a text, and only one, or their mean, is known."


def means_of_others(ratings: np.ndarray) -> np.ndarray:
    """The mean of the other raters' scores, for each rater: [N, R] -> [N, R]; NaN where the rater gave none, and where
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
    means = divided(scaled.sum(axis=1, keepdims=True) - scaled, np.where(given, others, 0))
    return low + np.round(means, _DIGITS) * spread


@dataclass(frozen=True)
class Panel:
    """Raters of some texts, each compared with the mean of the others.

    Args:
        ratings: [N, R], NaN where a rater gave none.
        groups: [N] labels of the texts' groups, which are resampled: articles, questions.
        resamples, seed: see `clusters.group_weights`.
        names: [N] the texts' example_ids, by which a judge's scores are found; only `beside_raters` needs them.
    """

    ratings: np.ndarray
    groups: np.ndarray
    resamples: int = RESAMPLES
    seed: int = 0
    names: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "ratings", rating_table(self.ratings))

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
    def clusters(self) -> Clusters:
        """Of the groups that hold a text of a counted rater, so that no resample is without any; other texts have
        number 0, and are never summed."""
        known = (~np.isnan(self.others[:, self.counted])).any(axis=1)
        clusters = Clusters.of(np.asarray(self.groups)[known], self.resamples, self.seed)
        number = np.zeros(len(known), dtype=np.int64)
        number[known] = clusters.number
        return Clusters(number, clusters.weights)

    @cached_property
    def ceiling(self) -> np.ndarray:
        """[1 + B] the mean over raters of their rho with the others; NaN in all where `missing`. A constant rater
        counts 0.0."""
        return self._mean(self.ratings)

    def agreement(self, scores: np.ndarray) -> np.ndarray:
        """[1 + B] of a judge's finite scores [N], as `ceiling`: for each rater the judge's rho with the mean of the
        others, on that rater's texts, with the same weights. Resamples are those of `ceiling`, so that differences are
        paired."""
        return self._mean(np.broadcast_to(np.asarray(scores, dtype=np.float64)[:, None], self.ratings.shape))

    def _mean(self, sides: np.ndarray) -> np.ndarray:
        clusters = self.clusters
        total, mass = np.zeros(len(clusters.weights)), np.zeros(len(clusters.weights))
        for column in self.counted:
            rows = ~np.isnan(self.others[:, column])
            texts, side = clusters.sums(1.0 * rows), sides[rows, column]
            if not is_constant(side):
                pairs = DistinctPairs(side, self.others[rows, column], clusters.number[rows], clusters.count)
                total += texts * pairs.spearman(clusters.weights)
            mass += texts
        return divided(total, mass)


def panels_of(
    scores: Scores, ratings: pd.DataFrame, resamples: int = RESAMPLES, seed: int = 0
) -> dict[tuple[str, str], Panel]:
    """Dimension and split -> the raters of its texts, of dimensions with single ratings; see `scores.ratings_of`."""
    panels, dimensions = dict[tuple[str, str], Panel](), set(ratings["dimension"])
    for cell, rows in scores.cells.items():
        if cell.dimension in dimensions and (cell.dimension, cell.split) not in panels:
            names, groups = (scores.columns[name][rows] for name in ("example_id", "group_id"))
            table, _ = ratings_of(ratings, cell.dimension, names.tolist())
            panels[cell.dimension, cell.split] = Panel(table, groups, resamples, seed, names.tolist())
    return panels


def raters_agreement(ratings: pd.DataFrame) -> dict[str, dict[str, float]]:
    """Dimension -> `alpha`, Krippendorff's, and `spearman`, mean over pairs of raters, of single ratings in long form;
    none where no two people rated one text."""
    agreement = {}
    for dimension, part in ratings.groupby("dimension", sort=False):
        table, _ = ratings_of(part, str(dimension), list(dict.fromkeys(part["example_id"])))
        if (alpha := krippendorff_alpha(table)) is not None:
            agreement[str(dimension)] = {"alpha": alpha, "spearman": mean_pairwise_spearman(table) or 0.0}
    return agreement


def human_records(
    panels: Mapping[tuple[str, str], Panel], dataset: str, scale: Mapping[str, tuple[float, float] | None] | None = None
) -> list[dict[str, Any]]:
    """The records of humans.json: of each dimension and split what its raters agree on.

    Args:
        panels: dimension and split -> its panel.
        scale: dimension -> lowest and highest score that a rater may give; None where it is unknown.

    Returns:
        dataset, dimension, split; texts with two ratings or more, their groups, raters (people who rated them),
        ratings_per_text (mean over them); ceiling with `_low` and `_high` of its 95 % interval, groups resampled;
        raters_counted: those behind it; alpha: Krippendorff's, interval; reason: why there is no ceiling, or no
        interval, else None; what `agreement.agreement_record` and `points.rater_points_record` return.
    """
    records = []
    for (dimension, split), panel in panels.items():
        shared, groups = ~np.isnan(panel.others), np.asarray(panel.groups)
        rated, ends = shared.any(axis=1), (scale or {}).get(dimension)
        texts, reason = int(rated.sum()), panel.missing
        if reason is None and len(panel.ceiling) == 1 and panel.resamples:
            reason = "No interval: there is one group, and resampling takes at least two."
        categories = None if ends is None else categories_of(panel.ratings, ends)
        agreement = agreement_record(panel.ratings, groups, categories)
        points = rater_points_record(panel.ratings, groups, categories, panel.resamples, panel.seed)
        records.append(
            {"dataset": dataset, "dimension": dimension, "split": split, "texts": texts}
            | {"groups": len(np.unique(groups[rated])), "raters": int(shared.any(axis=0).sum())}
            | {"ratings_per_text": float(shared.sum() / texts) if texts else None}
            | with_interval("ceiling", panel.ceiling)
            | {"raters_counted": len(panel.counted), "alpha": agreement["alpha_interval"], "reason": reason}
            | agreement
            | points
        )
    return records


def beside_raters(
    records: Sequence[Mapping[str, Any]],
    scores: Scores | Mapping[str, Any] | pd.DataFrame,
    panels: Mapping[tuple[str, str], Panel],
) -> list[dict[str, Any]]:
    """The records of metrics.json; in those of clean texts at dataset level, where a panel has a ceiling, also
    `spearman_others`, of the judge against the same means as each rater (see `Panel.agreement`), and
    `humans_difference`, that less the ceiling, each with `_low` and `_high` of its 95 % interval, paired resample by
    resample. They are None where the judge has not scored all texts of the panel.

    Args:
        records: of `evaluate.evaluate` over the same scores.
        panels: dimension and split -> its panel, with names.
    """
    table, completed = Scores.of(scores), []
    for record in map(dict, records):
        panel = panels.get((record["dimension"], record["split"]))
        if panel is not None and panel.missing is None and (record["level"], record["attack"]) == ("dataset", CLEAN):
            rows = table.part(Cell.of(record))
            known = dict(zip(rows["example_id"].tolist(), rows["score"].tolist(), strict=True))
            values = np.array([known.get(name, np.nan) for name in panel.names])
            if np.isfinite(values).all():
                agreement = panel.agreement(values)
                record |= with_interval("spearman_others", agreement)
                record |= with_interval("humans_difference", agreement - panel.ceiling)
            else:
                record |= unknown(("spearman_others", "humans_difference"))
        completed.append(record)
    return completed


def beside_humans_records(sides: Sequence[Sample]) -> list[dict[str, Any]]:
    """The records of beside_humans.json: two a judge, decoding and range, `RAW` and `CALIBRATED`; assistants, which
    serve a pair and judge for nobody, are left out.

    Returns:
        the head; scores: raw or calibrated; what `points.points_record` says; mae_saved with its interval: the raw
        scores' mae less the calibrated ones', paired text by text, and mae_constant, of the one score for all texts
        that has the least, both of calibrated scores alone; what `explained_record` says; what
        `alternative.alternative_record` says of the scores, rounded to what a rater may give, each of `raters` with
        its name (rater); tested_spearman_others with its interval: of these rounded scores, see `Panel.agreement`;
        reliability of the humans' means and disattenuated_spearman with intervals, of raw scores alone, with
        disattenuated_reason.
    """
    records = []
    for side in sides:
        if side.cell.judge == "assistant":
            continue
        raw = np.full(len(side.scores), np.nan) if side.scale is None else side.on_scale
        calibrated = cross_fitted(side.scores, side.human, side.groups, seed=side.seed)
        records += [_beside(side, RAW, raw), _beside(side, CALIBRATED, calibrated)]
    return records


def _beside(side: Sample, kind: str, scores: np.ndarray) -> dict[str, Any]:
    drawn = {"resamples": side.resamples, "seed": side.seed}
    missing = None
    if not np.isfinite(scores).any():
        missing = "No calibrated scores: they take rated texts of two groups, to learn from one and to score the other."
        if kind == RAW:
            missing = "The humans' scale is unknown, so that scores of a range cannot be mapped to it."
    # in points
    points = points_record(scores, side.ratings, side.groups, side.categories, **drawn)
    reasons = [missing or points["points_reason"]]
    if not side.raters:
        points |= unknown([f"single_{name}" for name in POINTS_FIGURES])
        reasons.append(f"Figures with one rater take {_MEANS}")
    points["points_reason"] = " ".join(filter(None, reasons)) or None
    record = side.head | {"scores": kind} | points
    # what calibration saves, and what scores explain
    known = np.isfinite(scores) & np.isfinite(side.human)
    record |= unknown(["mae_saved"]) | {"mae_constant": None}
    if kind == CALIBRATED and side.scale is not None and known.any():
        human, clusters = side.human[known], Clusters.of(side.groups[known], side.resamples, side.seed)
        saved = np.abs(side.on_scale[known] - human) - np.abs(scores[known] - human)
        record |= clusters.record({"mae_saved": clusters.mean(saved)})
        record["mae_constant"] = float(np.abs(human - np.median(human)).mean())
    record |= explained_record(side, scores, side.groups)
    unseen = np.full(len(scores), np.nan)
    if kind == CALIBRATED:
        unseen = cross_fitted(side.scores, side.human, side.systems, seed=side.seed)
    record |= explained_record(side, unseen, side.systems, "_unseen")
    # as a rater
    tested = scores if side.categories is None else rounded(scores, side.categories)
    test = alternative_record(tested, side.ratings, side.groups, **drawn)
    reason = missing or (test["alternative_reason"] if side.raters else f"The test takes {_MEANS}")
    test["raters"] = [{"rater": side.raters[rater.pop("column")]} | rater for rater in test["raters"]]
    record |= test | {"alternative_reason": reason} | unknown(["tested_spearman_others"])
    panel = Panel(side.ratings, side.groups, side.resamples, side.seed)
    if panel.missing is None and np.isfinite(tested).all():
        record |= with_interval("tested_spearman_others", panel.agreement(tested))
    # as of raters who do not err
    names = unknown(("reliability", "disattenuated_spearman"))
    if kind != RAW:
        return record | names | {"disattenuated_reason": "It is of raw scores alone."}
    if not side.raters:
        return record | names | {"disattenuated_reason": f"Reliability takes {_MEANS}"}
    true = disattenuated_record(side.scores, side.ratings, side.groups, **drawn)
    return record | {name: true[name] for name in (*names, "disattenuated_reason")}


def explained_record(side: Sample, scores: np.ndarray, left_out: np.ndarray, end: str = "") -> dict[str, float | None]:
    """The part of the humans' means that scores [N] explain, compared with always saying the mean rating, which is
    learned as calibrated scores are: from texts of other groups, or of other systems, `left_out` [N].

    Args:
        end: of the names below.

    Returns:
        rmse: root mean square distance from the humans' mean; rmse_constant: that of the mean rating; r2: 1 less the
        ratio of their squares. Intervals of rmse and r2. None without scores or scale.
    """
    constant = cross_fitted(side.scores, side.human, left_out, "constant", seed=side.seed)
    known = np.isfinite(scores) & np.isfinite(constant) & np.isfinite(side.human)
    if side.scale is None or not known.any():
        return unknown([f"rmse{end}", f"r2{end}"]) | {f"rmse_constant{end}": None}
    clusters = Clusters.of(side.groups[known], side.resamples, side.seed)
    errors, spread = (clusters.mean((values - side.human)[known] ** 2) for values in (scores, constant))
    record = clusters.record({f"rmse{end}": np.sqrt(errors), f"r2{end}": 1 - divided(errors, spread)})
    return record | {f"rmse_constant{end}": float(np.sqrt(spread[0]))}
