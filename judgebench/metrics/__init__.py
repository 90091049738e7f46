"""How well scores agree with humans: correlations, their intervals, and the agreement of the humans themselves."""

from judgebench.metrics.agreement import krippendorff_alpha, mean_pairwise_spearman
from judgebench.metrics.bootstrap import group_weights, interval, resampled_correlations
from judgebench.metrics.correlation import CORRELATIONS, is_constant, kendall, pearson, spearman
from judgebench.metrics.evaluate import (
    CONSTANT,
    CONSTANT_HUMANS,
    INVERTED,
    MOST_RESAMPLES,
    check_settings,
    evaluate,
)
from judgebench.metrics.levels import LEVELS, Correlated, correlate, difference, shown_level

__all__ = [
    "CONSTANT",
    "CONSTANT_HUMANS",
    "CORRELATIONS",
    "INVERTED",
    "LEVELS",
    "MOST_RESAMPLES",
    "Correlated",
    "check_settings",
    "correlate",
    "difference",
    "evaluate",
    "group_weights",
    "interval",
    "is_constant",
    "kendall",
    "krippendorff_alpha",
    "mean_pairwise_spearman",
    "pearson",
    "resampled_correlations",
    "shown_level",
    "spearman",
]
