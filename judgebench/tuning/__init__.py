"""Choosing: lambda and t of contrastive decoding on the development split, by grid or exactly, or
as published; what decodings learn, and judge, decoding and range, cross-fitted."""

from judgebench.tuning.tuners import CrossFit, Dev, Exact, Published, Shared, Tuner

__all__ = ["CrossFit", "Dev", "Exact", "Published", "Shared", "Tuner"]
