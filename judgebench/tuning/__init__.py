"""Choosing lambda and t of contrastive decoding: on the development split, by grid or exactly, or as published."""

from judgebench.tuning.curves import Curve, curves
from judgebench.tuning.optimum import Optimum, optimum
from judgebench.tuning.tune import EDGE, Tuned, check_tuning, tune
from judgebench.tuning.tuners import PER_RANGE, Dev, Exact, Published, Shared, Tuner

__all__ = [
    "EDGE",
    "PER_RANGE",
    "Curve",
    "Dev",
    "Exact",
    "Optimum",
    "Published",
    "Shared",
    "Tuned",
    "Tuner",
    "check_tuning",
    "curves",
    "optimum",
    "tune",
]
