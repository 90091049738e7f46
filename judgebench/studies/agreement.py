"""Agreement of raters among themselves."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from judgebench.stats.agreement import FIGURES, MOST_BLOCKS, variance_components
from judgebench.stats.clusters import (
    Clusters,
    Numbers,
    jackknife,
    with_agreement_interval,
    without_nan,
)
from judgebench.stats.correlation import krippendorff_alpha
from judgebench.types import Array, Record

_METRICS: tuple[Literal["interval", "ordinal"], ...] = ("interval", "ordinal")


def agreement_record(ratings: Array, clusters: Clusters) -> Record:
    """The agreement of raters [N, R] among themselves: `FIGURES` with 95 % intervals (see
    `with_agreement_interval`), groups left out in turn; raters_per_text: harmonic mean, the k of
    ICC(2,k); agreement_reason: sentences that say why figures are None, else None."""
    rated = ~np.isnan(ratings).all(axis=1)
    ratings = ratings[rated]
    clusters = clusters.at(rated)
    values = without_nan(ratings)

    def of_texts(rows: Array) -> Numbers:
        part = ratings[rows]
        # of one text, what raters differ by is all that varies
        several = ((~np.isnan(part)).sum(axis=1) > 1).sum() > 1
        alphas: Numbers = {}
        for metric in _METRICS:
            # by the jackknife: alpha pools pairs of ratings over all texts, and is no mean of texts
            alphas[f"alpha_{metric}"] = krippendorff_alpha(part, metric) if several else None
        return alphas

    # neighboring groups are left out together where there are many, for each alpha takes all texts
    blocks = clusters.number // max(1, math.ceil(clusters.count / MOST_BLOCKS))
    figures = jackknife(of_texts, blocks)
    figures |= variance_components(ratings, clusters.jackknifed)
    record = {"raters_per_text": float(figures["raters"][0]) if len(ratings) else None}
    for name in FIGURES:
        record |= with_agreement_interval(name, figures[name])
    if not ((~np.isnan(ratings)).sum(axis=1) > 1).any():
        return record | {
            "agreement_reason": "No agreement among humans: no text has the ratings of two people."
        }
    reasons = []
    if (values == values[0]).all():
        reasons.append("No alpha and no ICC: all ratings are equal.")
    elif record["icc_single"] is None:
        reasons.append(
            "No ICC: texts and raters cannot be told apart, because too few raters share texts."
        )
    if clusters.count < 2:
        reasons.append("No intervals: there is one group, and they take at least two.")
    return record | {"agreement_reason": " ".join(reasons) or None}
