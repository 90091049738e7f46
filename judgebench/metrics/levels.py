"""Moved to `judgebench.stats.levels`."""

from judgebench.stats.levels import *  # noqa: F403
