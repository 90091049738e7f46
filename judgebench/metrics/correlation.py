"""Moved to `judgebench.stats.correlation`."""

from judgebench.stats.clusters import MOST_ENTRIES as MOST_ENTRIES
from judgebench.stats.correlation import *  # noqa: F403
