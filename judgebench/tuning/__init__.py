"""Choosing lambda and t of contrastive decoding: on the development split, by grid or exactly, or as published."""

from judgebench.tuning.tuners import Dev, Exact, Published, Shared, Tuner

__all__ = ["Dev", "Exact", "Published", "Shared", "Tuner"]
