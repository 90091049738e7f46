"""Flags that a result may raise."""

from __future__ import annotations

from collections.abc import Mapping

from judgebench.studies.evaluate import CONSTANT, CONSTANT_HUMANS, INVERTED, UNSTABLE
from judgebench.studies.probability_scores import NOT_ANSWERING
from judgebench.tuning.learned import EDGE

FLAGS: Mapping[str, str] = {
    CONSTANT: "every text got the same score, so no correlation exists; 0 is reported, as the "
    "paper does",
    CONSTANT_HUMANS: "the humans gave every text the same score, so no correlation exists, "
    "whatever the judge says; 0 is reported",
    INVERTED: "Spearman's 95 % interval lies wholly below 0: the judge ranks texts against the "
    "humans",
    UNSTABLE: "Spearman depends on the score range by more than sampling noise explains",
    NOT_ANSWERING: "most of the judge's probability lies on other texts than scores, so its scores "
    "are read off a small share of what it would say; another prompt or chat format "
    "may help, or a judge that knows how to answer",
    EDGE: "the tuned lambda and t lie at an end of what was tried: the best may lie beyond",
}
"""The meaning of each flag, a clause without a full stop."""
