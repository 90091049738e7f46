"""Moved to `judgebench.stats.evaluate`."""

from judgebench.stats.evaluate import *  # noqa: F403
