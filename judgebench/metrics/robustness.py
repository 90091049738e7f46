"""Moved to `judgebench.stats.robustness`."""

from judgebench.stats.robustness import *  # noqa: F403
