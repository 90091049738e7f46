"""Scores from what judges say: decodings of log-probabilities, and the parser of free-text answers."""

from judgebench.decoding.answer import parse_answer
from judgebench.decoding.contrastive import Contrastive
from judgebench.decoding.expectation import Expectation
from judgebench.decoding.greedy import Greedy
from judgebench.decoding.law import contrast, expected_value, has_answer
from judgebench.decoding.protocol import Decoding

__all__ = [
    "Contrastive",
    "Decoding",
    "Expectation",
    "Greedy",
    "contrast",
    "expected_value",
    "has_answer",
    "parse_answer",
]
