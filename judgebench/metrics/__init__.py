"""How well scores agree with humans: correlations, their intervals, and the agreement of the humans themselves."""

from judgebench.metrics.agreement import krippendorff_alpha, mean_pairwise_spearman
from judgebench.metrics.bootstrap import group_weights, interval, resampled_correlations
from judgebench.metrics.correlation import CORRELATIONS, is_constant, kendall, pearson, spearman
from judgebench.metrics.evaluate import CONSTANT, INVERTED, evaluate
from judgebench.metrics.levels import LEVELS, Correlated, correlate, difference

__all__ = [
    "CONSTANT",
    "CORRELATIONS",
    "INVERTED",
    "LEVELS",
    "Correlated",
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
    "spearman",
]
