"""Choosing: lambda and t of contrastive decoding on the development split, by grid, or as
published; what decodings learn, and judge, decoding and range, cross-fitted."""

from judgebench.tuning.tuners import CrossFit, Dev, Published, Tuner

__all__ = ["CrossFit", "Dev", "Published", "Tuner"]
