"""Scores from what judges say: decodings of log-probabilities, and the parser of free-text
answers."""

from judgebench.decoding.parser import parse_answer
from judgebench.decoding.repairs import Calibrated, Median, NullContext, Ordinal, RangeMean, Ridge
from judgebench.decoding.rules import (
    Contrastive,
    Decoding,
    Expectation,
    Greedy,
    contrast,
    expected_value,
    has_answer,
)

__all__ = [
    "Contrastive",
    "Decoding",
    "Expectation",
    "Greedy",
    "contrast",
    "expected_value",
    "has_answer",
]
__all__ += ["Calibrated", "Median", "NullContext", "Ordinal", "RangeMean", "Ridge"]
__all__ += ["parse_answer"]
