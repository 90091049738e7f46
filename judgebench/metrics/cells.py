"""Moved to `judgebench.stats.scores`."""

from judgebench.stats.scores import *  # noqa: F403
