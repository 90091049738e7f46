"""Moved to `judgebench.stats.correlation`."""

from judgebench.stats.correlation import DistinctPairs as DistinctPairs
from judgebench.stats.correlation import resampled_correlations as resampled_correlations
