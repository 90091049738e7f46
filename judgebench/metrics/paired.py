"""Moved to `judgebench.stats.paired`."""

from judgebench.stats.paired import *  # noqa: F403
