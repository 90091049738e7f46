"""Humans among themselves, and a judge compared with them.

A judge is usually compared with the mean of all raters, and a rater with the mean of the others,
which has more noise: the two are no fair pair. Here both sides meet the same means. For each rater,
the texts that they and somebody else rated: Spearman's rho of their ratings, or of a judge's
scores, with the mean of the other raters; then the mean over raters, weighted by their texts (leave
one rater out). That of the raters is the human ceiling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy  # its parts come when they are first used

from judgebench.stats.agreement import FEWEST_RATED, alternative_record, categories_of
from judgebench.stats.clusters import (
    CONFIDENCE,
    FEWEST,
    RESAMPLES,
    Clusters,
    Numbers,
    chunks,
    resampled_and_left_out,
    safe_divide,
    unknown,
    with_agreement_interval,
    with_intervals,
    with_jackknife,
)
from judgebench.stats.correlation import (
    is_constant,
    krippendorff_alpha,
    mean_pairwise_spearman,
    spearman,
)
from judgebench.stats.maps import nearest_place
from judgebench.studies.agreement import agreement_record
from judgebench.studies.panel import FEWEST_TEXTS, Panel, means_of_others
from judgebench.studies.scores import CLEAN, JudgeScores, Scores, ScoreSeries, ratings_of
from judgebench.types import Array, Record, Records, Rows, Scales

RAW = "raw"
CALIBRATED = "calibrated"
"""Scores mapped linearly to the humans' scale; and those that isotonic regression on other groups'
texts makes of them, see `scores.cross_fitted`."""

_MEANS = "several ratings of a text, and only one, or their mean, is known."
_NO_SCORES = {
    RAW: "The humans' scale is unknown, so that scores of a range cannot be mapped to it.",
    CALIBRATED: (
        "No calibrated scores: they take rated texts of two groups, to learn from one and to score "
        "the other."
    ),
}

POINTS_FIGURES = ("bias", "mae", "exact", "adjacent", "kappa", "icc")
"""Figures of agreement in points: mean of judge less human; mean distance; share of texts with the
same category, and with the same or a neighboring one; quadratic weighted kappa; ICC(2,1)."""

_CORRECTED = ("kappa", "icc")  # for chance: their intervals are those of `with_agreement_interval`
_COLUMNS = 12  # numbers of a pair and text that are added up
_AGREES = 2 / 3  # of the others' rho among themselves, below which a rater agrees with nobody
_MOST_RHO = 0.999  # whose z is finite
_VARIES = 1e-18  # a variance that is more than rounding


# --- raters who did not rate ---------------------------------------------------------------------


class OddRaters(NamedTuple):
    """Columns of raters who agree with no other rater, and of those of whom it is not known whether
    they do: the low end of their rho with the others is not above 0."""

    odd: list[int]
    doubtful: list[int]


def odd_raters(ratings: Array) -> OddRaters:
    """Raters of [N, R] whose agreement with the others says that they did not rate the texts.

    A rater is odd who gives one score to all texts that others tell apart. Of three or more, also a
    rater whose rho with the mean of the others is below two thirds of the median of theirs among
    themselves, by the upper end of its interval (Fisher's z, all raters together at 95 %); the
    one with the lowest end first, and then the others again. Raters of fewer than `FEWEST_TEXTS`
    shared texts are not looked at.
    """
    left = ratings.copy()
    odd: list[int] = []
    while True:
        ends = _rho_with_others(left)
        # the rater of whom it is surest that they agree little
        worst = min(ends, key=lambda column: ends[column].high, default=None)
        for column, end in ends.items():
            if end.constant:
                worst = column
        if worst is None:
            break
        # measured by the others among themselves: with the odd one in, their mean agrees less, too
        without = left.copy()
        without[:, worst] = np.nan
        among = [end.rho for end in _rho_with_others(without).values()]
        low = len(ends) > 2 and ends[worst].high < _AGREES * np.median(among or [0.0])
        if not (ends[worst].constant or low):
            break
        odd.append(worst)
        left = without
    return OddRaters(sorted(odd), [column for column, end in ends.items() if end.low <= 0])


class _Rho(NamedTuple):
    """A rater's rho with the mean of the others, and whether the rater alone is constant."""

    rho: float
    low: float
    high: float
    constant: bool


def _rho_with_others(ratings: Array) -> dict[int, _Rho]:
    """Column of each rater of at least `FEWEST_TEXTS` texts that others rated -> rho."""
    others = means_of_others(ratings)
    compared = ((~np.isnan(others)).sum(axis=0) >= FEWEST_TEXTS).sum()
    # by Bonferroni: of many good raters one would look odd by chance
    normal = -scipy.special.ndtri(CONFIDENCE[0] / max(compared, 1))  # of all at once
    found = {}
    for column, means in enumerate(others.T):
        rows = ~np.isnan(means)
        if rows.sum() < FEWEST_TEXTS or is_constant(means[rows]):
            continue
        constant = bool(is_constant(ratings[rows, column]))
        rho = 0.0 if constant else spearman(ratings[rows, column], means[rows])
        # Fisher's z: normal with the standard error 1 / sqrt(n - 3), where rho itself is skewed
        middle = np.arctanh(np.clip(rho, -_MOST_RHO, _MOST_RHO))
        far = normal / np.sqrt(rows.sum() - 3)
        ends = np.tanh([middle - far, middle + far]).tolist()
        found[column] = _Rho(rho, ends[0], ends[1], constant)
    return found


def panels_of(
    scores: Scores, ratings: pd.DataFrame, resamples: int = RESAMPLES, seed: int = 0
) -> dict[tuple[str, str], Panel]:
    """Dimension and split -> the raters of its texts, of dimensions with single ratings; see
    `scores.ratings_of`."""
    panels = dict[tuple[str, str], Panel]()
    dimensions = set(ratings["dimension"])
    for cell in scores.cells:
        key = (cell.dimension, cell.split)
        if cell.dimension not in dimensions or key in panels:
            continue
        part = scores.part(cell)
        names = part["example_id"].tolist()
        table, _ = ratings_of(ratings, cell.dimension, names)
        panels[key] = Panel(table, Clusters.of(part["group_id"], resamples, seed), names)
    return panels


def raters_agreement(ratings: pd.DataFrame) -> dict[str, dict[str, float]]:
    """Dimension -> `alpha`, Krippendorff's, and `spearman`, mean over pairs of raters, of single
    ratings in long form; none where no two people rated one text."""
    agreement = {}
    for dimension, part in ratings.groupby("dimension", sort=False):
        table, _ = ratings_of(part, str(dimension), list(dict.fromkeys(part["example_id"])))
        alpha = krippendorff_alpha(table)
        if alpha is not None:
            rho = mean_pairwise_spearman(table) or 0.0
            agreement[str(dimension)] = {"alpha": alpha, "spearman": rho}
    return agreement


def human_records(
    panels: Mapping[tuple[str, str], Panel],
    dataset: str,
    scale: Scales | None = None,
) -> Rows:
    """The records of humans.json: of the panel of each dimension and split what its raters agree
    on, over the texts with two ratings or more. Scale: dimension -> lowest and highest score that a
    rater may give; None where it is unknown."""
    records = []
    for (dimension, split), panel in panels.items():
        shared = ~np.isnan(panel.others)
        ends = (scale or {}).get(dimension)
        rated = shared.any(axis=1)
        reason = panel.missing
        if reason is None and len(panel.ceiling) == 1 and panel.of_texts.resamples:
            reason = "No interval: there is one group, and resampling takes at least two."
        categories = None if ends is None else categories_of(panel.ratings, ends)
        agreement = agreement_record(panel.ratings, panel.of_texts)
        record = {
            "dataset": dataset,
            "dimension": dimension,
            "split": split,
            "texts": int(rated.sum()),
            "groups": panel.of_texts.at(rated).count,
            "raters": int(shared.any(axis=0).sum()),
            "ratings_per_text": float(shared.sum() / rated.sum()) if rated.any() else None,
            **with_intervals({"ceiling": panel.ceiling}),
            "raters_counted": len(panel.counted),
            "alpha": agreement["alpha_interval"],
            "reason": reason,
            **agreement,
            **rater_points_record(panel.ratings, panel.of_texts, categories),
        }
        records.append(record)
    return records


def beside_raters(
    records: Records, scores: Scores, panels: Mapping[tuple[str, str], Panel]
) -> Rows:
    """The records of metrics.json; in those of clean texts at dataset level, where a panel has a
    ceiling, also `spearman_others`, of the judge against the same means as each rater (see
    `Panel.agreement`), and `humans_difference`, that less the ceiling, paired resample by resample;
    both on the texts whose answers could be read. They are None where the judge was not asked about
    all texts of the panel."""
    completed = []
    for record in map(dict, records):
        panel = panels.get((record["dimension"], record["split"]))
        clean = record["level"] == "dataset" and record["attack"] == CLEAN
        if clean and panel is not None and panel.missing is None:
            record |= _with_panel(scores, ScoreSeries.of(record), panel)
        completed.append(record)
    return completed


def _with_panel(scores: Scores, cell: ScoreSeries, panel: Panel) -> Numbers:
    """The keys of `beside_raters` of one cell."""
    part = scores.answered.part(cell)
    score_of = pd.Series(part["score"], part["example_id"])
    values = score_of.reindex(list(panel.names)).to_numpy()
    read = np.isfinite(values)
    asked = scores.part(cell)["example_id"]
    # asked and not answered: judge and raters are then compared on the texts that it answered
    if not read.all() and set(panel.names) <= set(asked):
        panel = Panel(panel.ratings[read], panel.of_texts.at(read))
        values = values[read]
    if not np.isfinite(values).all() or panel.missing is not None:
        return unknown(("spearman_others", "humans_difference"))
    agreement = panel.agreement(values)
    figures = {
        "spearman_others": agreement,
        "humans_difference": agreement - panel.ceiling,
    }
    return with_intervals(figures)


# --- agreement in points ------------------------------------------------------------------------
# A correlation forgives a judge that is a point too strict, or that uses half of the scale; these
# figures do not. Each comes twice: with the humans' mean, and with single raters (each rater's own
# figure, mean over raters weighted by texts), where raters among each other are the measure: see
# `rater_points_record`.


def rounded(values: Array, categories: Array) -> Array:
    """[...] the nearest of the ascending categories [K] itself, half up; NaN for NaN.

    Example:
        >>> rounded(np.array([1.4, 2.5, 9.0, np.nan]), np.array([1.0, 2.0, 3.0])).tolist()
        [1.0, 3.0, 3.0, nan]
    """
    return np.where(np.isnan(values), np.nan, categories[nearest_place(values, categories)])


def pair_figures(
    judge: Array, human: Array, clusters: Clusters, categories: Array | None
) -> dict[str, Array]:
    """`POINTS_FIGURES`, each [1 + B, P], of P pairs of judge and human [N, P] on one scale; NaN in
    either leaves a text out of that pair. Categories [K] are all numbers that a rater may give,
    ascending.

    Kappa and ICC are of the numbers as they are: on whole categories kappa is Cohen's (1968) with
    quadratic weights, and between them it is Lin's concordance (1989), no rounding done. Exact and
    adjacent agreement are of the nearest categories, half up; NaN without categories.

    Example:
        >>> figures = pair_figures(np.array([[1.0], [2.0], [4.0]]), np.array([[1.0], [3.0], [5.0]]),
        ...                        Clusters.of([0, 1, 2], 0), np.arange(1.0, 6.0))
        >>> {name: round(float(values[0, 0]), 3) for name, values in figures.items()}
        {'bias': -0.667, 'mae': 0.667, 'exact': 0.333, 'adjacent': 1.0, 'kappa': 0.857, 'icc': 0.9}
    """
    # 1. columns [N, P], of which texts without a pair are 0, and whose numbers are small
    scored = np.isfinite(judge) & np.isfinite(human)
    apart = np.where(scored, judge - human, 0.0)
    texts = np.maximum(scored.sum(axis=0), 1)
    # squares of numbers around 0 lose no digits, and none of the figures changes with a shift
    center = np.where(scored, human, 0.0).sum(axis=0) / texts
    x = np.where(scored, judge - center, 0.0)
    y = np.where(scored, human - center, 0.0)
    columns = {
        "mass": 1.0 * scored,
        "bias": apart,
        "mae": np.abs(apart),
        "x": x,
        "y": y,
        "xx": x * x,
        "yy": y * y,
        "squared": apart * apart,
    }
    if categories is not None:
        steps = np.abs(nearest_place(judge, categories) - nearest_place(human, categories))
        columns["exact"] = 1.0 * (scored & (steps == 0))
        columns["adjacent"] = 1.0 * (scored & (steps <= 1))
    # 2. means over texts [1 + B, P], of all columns in one sum
    side_by_side = np.hstack(list(columns.values()))
    sums = np.split(clusters.sums(side_by_side), len(columns), axis=1)
    mass = sums[0]
    means = {name: safe_divide(part, mass) for name, part in zip(columns, sums, strict=True)}
    unknown_share = np.full(mass.shape, np.nan)
    of_x = means["x"]
    of_y = means["y"]
    squares = means["xx"] + means["yy"]
    squared = means["squared"]
    # 3. kappa: of one text judge and human are constants, so that chance and distance are the same
    # E(x - y')^2 of independent x, y': what the same scores would be apart if dealt to any texts
    chance = squares - 2 * of_x * of_y
    varies = (chance > _VARIES) & (mass > 1)
    kappa = 1 - safe_divide(squared, np.where(varies, chance, 0.0))
    # 4. ICC(2,1) of the same two, by Shrout and Fleiss (1979): sums of squares, each divided by the
    # texts
    several = np.where(mass > 1, mass, np.nan)
    unbiased = several / (several - 1)
    between = (of_x - of_y) ** 2 / 2
    total = squares - (of_x + of_y) ** 2 / 2
    # half of the squared difference of two is between them and the residual together
    residual = np.maximum(squared / 2 - between, 0.0)
    of_texts = unbiased * (total - between - residual)
    rest = unbiased * residual
    below = of_texts + rest + 2 * (several * between - rest) / several
    varies = (total > _VARIES) & (below > 0)
    figures = {name: means.get(name, unknown_share) for name in POINTS_FIGURES[:4]}
    return figures | {
        "kappa": kappa,
        "icc": safe_divide(of_texts - rest, np.where(varies, below, 0.0)),
    }


def single_figures(
    judges: Array, ratings: Array, clusters: Clusters, categories: Array | None
) -> dict[str, Array]:
    """`POINTS_FIGURES`, each [1 + B], with single raters: the mean over pairs of a judge [N, J] and
    a rater [N, R] of their figures, weighted by texts; a pair whose figure is NaN stays out. Where
    both are the same array, raters meet each other, never themselves, and in both directions: their
    bias is 0."""
    among_raters = judges is ratings
    rows = len(clusters.weights)
    # 1. pairs of a judge and a rater, a column each
    counts = judges.shape[1], ratings.shape[1]
    judge_columns, rater_columns = np.indices(counts).reshape(2, -1)
    if among_raters:
        # a pair of raters has one figure, whichever comes first; only bias has a direction
        once = judge_columns < rater_columns
        judge_columns = judge_columns[once]
        rater_columns = rater_columns[once]
    # 2. sums over the pairs, weighted by texts [1 + B]
    total = dict.fromkeys(POINTS_FIGURES, np.zeros(rows))
    mass = dict.fromkeys(POINTS_FIGURES, np.zeros(rows))
    entries = _COLUMNS * max(rows, len(ratings))
    # some pairs at a time: a hundred raters make 4,950 of them
    for part in chunks(len(judge_columns), entries):
        judge = judges[:, judge_columns[part]]
        rater = ratings[:, rater_columns[part]]
        both = np.isfinite(judge) & np.isfinite(rater)
        texts = clusters.sums(1.0 * both)  # [1 + B, pairs]
        for name, values in pair_figures(judge, rater, clusters, categories).items():
            counted = np.where(np.isfinite(values), texts, 0.0)
            weighted = counted * np.nan_to_num(values)
            total[name] = total[name] + weighted.sum(axis=1)
            mass[name] = mass[name] + counted.sum(axis=1)
    figures = {name: safe_divide(total[name], mass[name]) for name in POINTS_FIGURES}
    if among_raters:
        figures["bias"] = 0.0 * figures["bias"]
    return figures


def points_record(
    scores: Array,
    ratings: Array,
    clusters: Clusters,
    categories: Array | None = None,
) -> Record:
    """The agreement in points of a judge with the humans: `POINTS_FIGURES` with their mean, and as
    single_* with single raters, with 95 % intervals; points_reason: why some are None, else None.

    Args:
        scores: [N] on the humans' scale (see `rescale`, `cross_fitted`); NaN where there is none.
        ratings: [N, R], NaN where a rater gave none; [N, 1] of means where nothing else is known.
        categories: all numbers that a rater may give, ascending; None where there is no list.
    """
    used = ~np.isnan(ratings).all(axis=1) & np.isfinite(scores)
    scores = scores[used, None]
    ratings = ratings[used]
    clusters = with_jackknife(clusters.at(used))
    human = np.nanmean(ratings, axis=1)[:, None] if len(ratings) else scores
    with_mean = pair_figures(scores, human, clusters, categories)  # each [1 + B + J, 1]
    with_mean = {name: values[:, 0] for name, values in with_mean.items()}
    single = single_figures(scores, ratings, clusters, categories)
    record = {
        "texts": len(scores),
        "groups": clusters.count,
        **_intervals("", with_mean, clusters),
        **_intervals("single_", single, clusters),
    }
    reasons = []
    if not len(scores):
        reason = "No agreement in points: no text has a score and a rating."
        return record | {"points_reason": reason}
    if categories is None:
        reasons.append("No exact or adjacent agreement: the scale is no list of categories.")
    if record["kappa"] is None:
        reasons.append(
            "No kappa: judge and humans always say the same one number, or there is one text."
        )
    if record["icc"] is None:
        reasons.append("No ICC: neither judge nor humans vary over texts.")
    if clusters.count < 2:
        reasons.append("No intervals: there is one group, and resampling takes at least two.")
    return record | {"points_reason": " ".join(reasons) or None}


def rater_points_record(
    ratings: Array, clusters: Clusters, categories: Array | None = None
) -> Numbers:
    """The agreement in points of single raters with each other, single_* as in `points_record`:
    what a judge can be measured by. Every pair counts in both directions, so that their bias is
    0."""
    used = (~np.isnan(ratings)).sum(axis=1) > 1
    ratings = ratings[used]
    clusters = with_jackknife(clusters.at(used))
    return _intervals("single_", single_figures(ratings, ratings, clusters, categories), clusters)


def _intervals(kind: str, figures: Mapping[str, Array], clusters: Clusters) -> Numbers:
    """Figures [1 + B + J] by their names after `kind`: those corrected for chance by the jackknife,
    others by the resamples; without resamples no intervals."""
    record: Numbers = {}
    for name, values in figures.items():
        resampled, left_out = resampled_and_left_out(values, clusters)
        if name in _CORRECTED:
            jackknifed = left_out if clusters.resamples else values[:1]
            # Corrected for chance they are skewed, and percentiles hold the truth less often than
            # the jackknife's interval (see `with_agreement_interval`).
            record |= with_agreement_interval(f"{kind}{name}", jackknifed)
        else:
            record |= clusters.record({f"{kind}{name}": resampled})
    return record


# --- each judge and the humans ------------------------------------------------------------------


def beside_humans_records(samples: Sequence[JudgeScores]) -> Rows:
    """The records of worth/beside_humans.json: two a judge, decoding and range, `RAW` and
    `CALIBRATED`; assistants, which serve a pair and are no judges, are left out."""
    records = []
    for sample in samples:
        if sample.cell.judge == "assistant":
            continue
        nothing = np.full(len(sample.scores), np.nan)
        scores = nothing if sample.scale is None else sample.on_scale
        records.append(_beside_humans(sample, RAW, scores, nothing))
        records.append(
            _beside_humans(sample, CALIBRATED, sample.calibrated, sample.calibrated_unseen)
        )
    return records


def _beside_humans(sample: JudgeScores, kind: str, scores: Array, unseen: Array) -> Record:
    """The record of one kind of scores [N] on the humans' scale; unseen: [N] those that texts of
    other systems teach, NaN where there are none."""
    missing = None if np.isfinite(scores).any() else _NO_SCORES[kind]
    # 1. in points
    points = points_record(scores, sample.ratings, sample.clusters, sample.categories)
    reason = missing or points["points_reason"]
    if not sample.raters:
        points |= unknown([f"single_{name}" for name in POINTS_FIGURES])
        single = f"Figures with one rater take {_MEANS}"
        reason = f"{reason} {single}" if reason else single
    points["points_reason"] = reason
    # 2. as a rater
    # raters give whole categories: a 4.7 would never tie with one, and lose by that
    tested = scores if sample.categories is None else rounded(scores, sample.categories)
    test = alternative_record(tested, sample.ratings, sample.clusters)
    raters = []
    for row in test["raters"]:
        raters.append({"rater": sample.raters[row.pop("column")]} | row)
    few = (
        f"No rater is tested: it takes {FEWEST_RATED} texts in {FEWEST} groups that a rater shares "
        "with others."
    )
    test |= {"raters": raters, "alternative_reason": None if test["tested"] else few}
    if not sample.raters:
        test["alternative_reason"] = f"The test takes {_MEANS}"
    if missing:
        test["alternative_reason"] = missing
    with_others = unknown(["tested_spearman_others"])
    if sample.panel.missing is None and np.isfinite(tested).all():
        agreement = sample.panel.agreement(tested)
        with_others = with_intervals({"tested_spearman_others": agreement})
    return {
        **sample.head,
        "scores": kind,
        **points,
        # compared with the other scores, and with a constant
        **_saved_record(sample, kind, scores),
        # what scores explain
        **explained_record(sample, scores, sample.constant),
        **explained_record(sample, unseen, sample.constant_unseen, "_unseen"),
        **test,
        **with_others,
    }


def _saved_record(sample: JudgeScores, kind: str, scores: Array) -> Record:
    """The error that calibration saves, text by text, and which scores are better; and what
    scores [N] save of the error of the one best score for all texts."""
    rated = np.isfinite(scores) & np.isfinite(sample.human)
    record: Record = {
        **unknown(["mae_saved"]),
        "mae_constant": None,
        "better_scores": None,
        **unknown(["constant_saved"]),
        "constant_mae": None,
    }
    if sample.scale is None or not rated.any():
        return record
    clusters = sample.clusters.at(rated)
    scores = scores[rated]
    # 1. of calibration
    if kind == CALIBRATED:
        human = sample.human[rated]
        off = np.abs(scores - human)
        raw_off = np.abs(sample.on_scale[rated] - human)
        off_constant = np.abs(human - np.median(human))
        record |= clusters.record({"mae_saved": clusters.mean(raw_off - off)})
        record["mae_constant"] = float(off_constant.mean())
        # by the distance from single ratings: on nine public sets, with 100 labels, the smaller one
        # loses .003 of the scale to the better of other groups, always calibrating .012; raw scores
        # that must be nearer without any fifth of the articles .004
        single = sample.ratings[rated]
        raw = _distance(sample.on_scale[rated], single, clusters)[0]
        record["better_scores"] = (
            RAW if raw < _distance(scores, single, clusters)[0] else CALIBRATED
        )
    # 2. of a constant
    ratings = sample.ratings[rated]
    # of absolute distances the median is the best constant, as the mean is of squares
    best = np.full(len(ratings), np.nanmedian(ratings))
    constant = _distance(best, ratings, clusters)
    saved = constant - _distance(scores, ratings, clusters)
    record |= clusters.record({"constant_saved": saved})
    record["constant_mae"] = float(constant[0])
    return record


def _distance(scores: Array, ratings: Array, clusters: Clusters) -> Array:
    """[1 + B] the mean absolute distance of scores [N] from single ratings [N, R]."""
    apart = np.abs(scores[:, None] - ratings)
    sums = clusters.sums(np.nansum(apart, axis=1))
    return safe_divide(sums, clusters.sums(1.0 * np.isfinite(apart).sum(axis=1)))


def explained_record(sample: JudgeScores, scores: Array, constant: Array, end: str = "") -> Numbers:
    """The part of the humans' means that scores [N] explain, compared with always saying the mean
    rating, `constant` [N], which is learned as calibrated scores are, or it would know the texts that
    it is measured on: from texts of other groups, or of other systems.

    rmse: root mean square distance from the humans' mean; rmse_constant: that of the mean rating;
    r2: 1 less the ratio of their squares; with `end` in their names. None without scores or scale.
    """
    rmse = f"rmse{end}"
    r2 = f"r2{end}"
    rmse_constant = f"rmse_constant{end}"
    human = sample.human
    rated = np.isfinite(scores) & np.isfinite(constant) & np.isfinite(human)
    if sample.scale is None or not rated.any():
        return unknown([rmse, r2]) | {rmse_constant: None}
    clusters = sample.clusters.at(rated)
    squares = (scores - human)[rated] ** 2
    squares_constant = (constant - human)[rated] ** 2
    errors = clusters.mean(squares)  # [1 + B]
    spread = clusters.mean(squares_constant)
    record = clusters.record({rmse: np.sqrt(errors), r2: 1 - safe_divide(errors, spread)})
    record[rmse_constant] = float(np.sqrt(spread[0]))
    return record
