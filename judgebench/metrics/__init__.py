"""How well scores agree with humans, and whether one judge does better than another by more than noise."""

from judgebench.config.settings import MOST_RESAMPLES
from judgebench.metrics.agreement import krippendorff_alpha, mean_pairwise_spearman
from judgebench.metrics.attack_differences import DIFFERENCES, LESS, MORE, attack_differences
from judgebench.metrics.bootstrap import group_weights, resampled_correlations
from judgebench.metrics.compare import BETTER, NOT_TOLD_APART, WORSE, compare, default_pairs
from judgebench.metrics.correlation import CORRELATIONS, is_constant, kendall, pearson, spearman
from judgebench.metrics.diagnostics import UNSTABLE_ABOVE, family_records, family_similarity
from judgebench.metrics.evaluate import (
    CONSTANT,
    CONSTANT_HUMANS,
    INVERTED,
    UNSTABLE,
    check_settings,
    evaluate,
)
from judgebench.metrics.intervals import bca_interval, interval
from judgebench.metrics.levels import LEVELS, Correlated, correlate, shown_level
from judgebench.metrics.permutation import holm
from judgebench.metrics.power import groups_needed
from judgebench.metrics.robustness import CHANGES, CLEAN, robustness
from judgebench.metrics.suffix import ALL, SEEN, UNSEEN, Suffix, suffix_records

__all__ = [
    "ALL",
    "BETTER",
    "CHANGES",
    "CLEAN",
    "CONSTANT",
    "CONSTANT_HUMANS",
    "CORRELATIONS",
    "DIFFERENCES",
    "INVERTED",
    "LESS",
    "LEVELS",
    "MORE",
    "MOST_RESAMPLES",
    "NOT_TOLD_APART",
    "SEEN",
    "UNSEEN",
    "UNSTABLE",
    "UNSTABLE_ABOVE",
    "WORSE",
    "Correlated",
    "Suffix",
    "attack_differences",
    "bca_interval",
    "check_settings",
    "compare",
    "correlate",
    "default_pairs",
    "evaluate",
    "family_records",
    "family_similarity",
    "group_weights",
    "groups_needed",
    "holm",
    "interval",
    "is_constant",
    "kendall",
    "krippendorff_alpha",
    "mean_pairwise_spearman",
    "pearson",
    "resampled_correlations",
    "robustness",
    "shown_level",
    "spearman",
    "suffix_records",
]
