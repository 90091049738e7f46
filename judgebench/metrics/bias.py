"""Moved to `judgebench.stats.bias`."""

from judgebench.stats.bias import *  # noqa: F403
