"""Verdicts on the order of texts, and of systems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from judgebench.stats.clusters import Estimate, ends_of
from judgebench.studies.evaluate import CONSTANT
from judgebench.studies.findings import JudgeFindings
from judgebench.studies.rules import (
    CARE,
    COIN,
    FEW,
    HARDLY,
    NO,
    UNMEASURED,
    YES,
    Verdict,
    articles_needed,
    half_of_way,
)
from judgebench.studies.systems import system_records
from judgebench.studies.text_pairs import PAIRS, text_pair_record
from judgebench.words.formats import say

_FEWEST_PAIRS = 6  # of four systems, which a coin orders right in one of 24; three in one of 6
_APART = 0.1  # of the way from a coin to a rater, by which a judge is no nearer to one of two
_LITTLE = 0.075  # above a coin: `near_rater` is much of a rater's way from it

_clause = partial(say, "clause_order")


def texts_verdict(facts: JudgeFindings) -> Verdict:
    """By the pairs of texts of one article, then by those of one system."""
    if facts.answers is False:
        return Verdict(NO, _clause(part="not on scores"))
    record = text_pair_record(facts.sample)
    pairs, rater, within, within_rater = (Estimate.of(record, name) for name in PAIRS)
    bounds = [text_pair_record(bound)["pairs"] for bound in facts.sample.bounds]
    facts.follows_one = _follows_one(rater, record["beside"])
    return _in_systems(facts, _order(facts, pairs, rater, bounds), within, within_rater)


def systems_verdict(facts: JudgeFindings) -> Verdict:
    """By the pairs of systems, compared with one rater's where raters are known."""
    name = "pairwise_others"
    rater = Estimate.of(facts.system, "pairwise_ceiling")
    if Estimate.of(facts.system, name) is None:
        name = "pairwise_accuracy"
        rater = None
    share = Estimate.of(facts.system, "pairwise_over_systems")
    systems = len(np.unique(facts.sample.systems))
    if share is None:
        return Verdict(UNMEASURED, _clause(part="no source" if systems > 1 else "one system"))
    bars = _Bars.of(facts, rater)
    low, high = ends_of(share)
    bounds = [system_records([bound])[0][name] for bound in facts.sample.bounds]
    clause = partial(_clause, share=share, rater=rater, bounds=bounds)
    said = Verdict(CARE, clause(part="pairs"), share, rater)
    # 1. nothing to be measured by, or no order
    if unlike := _without_order(facts, "systems", said, bars, clause):
        return unlike
    # 2. too few pairs, or pairs of single texts, whose order is noise
    pairs = round(facts.system["pairs"])
    articles = round(facts.system["pairs_articles"])
    fewest = facts.margins.fewest
    if pairs < _FEWEST_PAIRS:
        few = clause(part="few pairs", number=pairs, fewest=_FEWEST_PAIRS)
        return said._replace(verdict=FEW, clause=few)
    if facts.system["pairs_articles"] < fewest:
        few = clause(part="few articles", number=articles, fewest=fewest)
        return said._replace(verdict=FEW, clause=few, needed=fewest)
    if low <= COIN and (share.value >= bars.half or high >= bars.near):
        return said._replace(verdict=FEW, clause=clause(part="few systems", systems=systems))
    # 3. half of the way; near to the rater, which is not known of few pairs
    if share.value < bars.half:
        return said._replace(verdict=NO)
    least, _ = ends_of(Estimate.of(facts.system, "pairwise_difference"))
    if not rater or least < -facts.margins.near_rater or low < bars.half:
        return said
    if pairs < facts.margins.pairs:
        few = clause(part="too few for yes", number=pairs, fewest=facts.margins.pairs)
        return said._replace(clause=few)
    return said._replace(verdict=YES)


def _without_order(
    facts: JudgeFindings, what: str, said: Verdict, bars: _Bars, clause: Callable[..., str]
) -> Verdict | None:
    """The verdict where raters hardly agree on an order, or the judge has none, or its reverse;
    None elsewhere."""
    if bars.hardly:
        hardly = clause(part="hardly agree", what=what)
        return said._replace(verdict=UNMEASURED, clause=hardly)
    if CONSTANT in facts.flags:
        return said._replace(verdict=NO, clause=clause(part="constant"))
    if ends_of(said.value)[1] < COIN:
        return said._replace(verdict=NO, clause=clause(part="reversed"))
    return None


def _order(
    facts: JudgeFindings,
    share: Estimate | None,
    rater: Estimate | None,
    bounds: Sequence[float | None],
) -> Verdict:
    """The verdict on a share of pairs of texts, compared with one rater's; `bounds`: the share at
    worst and at best, where some answers could not be read."""
    if share is None or share.low is None:
        return Verdict(UNMEASURED, _clause(part="no share"), share, rater)
    value = share.value
    low, high = ends_of(share)
    bars = _Bars.of(facts, rater)
    clause = partial(_clause, share=share, rater=rater, bounds=bounds)
    said = Verdict(CARE, clause(part="pairs"), share, rater)
    # 1. nothing to be measured by, or no order
    if unlike := _without_order(facts, "texts", said, bars, clause):
        return unlike
    # 2. an interval that holds both a coin and a rater says nothing; more articles narrow it
    if low <= COIN and (value >= bars.half or high >= bars.near):
        needed = articles_needed(facts.groups, high - low, bars.near - COIN)
        if value >= bars.half:
            needed = articles_needed(facts.groups, value - low, min(value, bars.rater) - COIN)
        return said._replace(verdict=FEW, clause=clause(part="wide", needed=needed), needed=needed)
    # 3. near to the rater, half of the way, or below
    if not rater or low < bars.near:
        return said._replace(verdict=CARE if value >= bars.half else NO)
    # 4. a rater hardly above a coin is no measure of a yes, nor is one of two whom the judge
    # follows alone
    if rater.value < COIN + _LITTLE:
        return said._replace(clause=clause(part="hardly above"))
    if facts.follows_one:
        return said._replace(clause=clause(part="one alone"))
    return said._replace(verdict=YES)


def _follows_one(rater: Estimate | None, beside: Sequence[float]) -> bool:
    """True of two raters of whom the judge agrees with one less than they do with each other.

    Args:
        beside: by which its share of pairs exceeds each rater's.
    """
    if rater is None or len(beside) != 2:
        return False
    # two raters cannot say which of them is odd: a judge that follows one may follow the wrong
    # one
    return min(beside) < -_APART * (rater.value - COIN)


def _in_systems(
    facts: JudgeFindings, said: Verdict, share: Estimate | None, rater: Estimate | None
) -> Verdict:
    """The verdict on the order of texts, given the share of pairs of texts of one system, and
    one rater's."""
    if share is None or share.low is None or said.verdict not in (YES, CARE):
        return said
    low, high = ends_of(share)
    bars = _Bars.of(facts, rater)
    verdict, part, needed = said.verdict, "within", said.needed
    # nothing to be measured by
    if bars.hardly:
        verdict, part = CARE, "within, hardly agree"
    # better than knowing the system, no better, or not known
    elif low > COIN and verdict == YES and share.value < bars.half:
        verdict, part = CARE, "within, care"
    elif low <= COIN and high <= bars.half:
        verdict, part = NO, "within, no better"
    elif low <= COIN:
        needed = articles_needed(facts.groups, high - low, bars.rater - COIN)
        verdict, part = FEW, "within, wide"
    clause = _clause(part=part, clause=said.clause, share=share, rater=rater, needed=needed)
    return said._replace(verdict=verdict, clause=clause, needed=needed)


class _Bars(NamedTuple):
    """The measures of a share of pairs: one rater's share, a share near to it, and the share
    that is half of the way from a coin to it."""

    rater: float
    near: float
    half: float

    @classmethod
    def of(cls, facts: JudgeFindings, rater: Estimate | None) -> _Bars:
        """By one rater's share of pairs, which is assumed where it is unknown."""
        margins = facts.margins
        bar = rater.value if rater else margins.assumed_rater
        return cls(bar, bar - margins.near_rater, half_of_way(margins, bar))

    @property
    def hardly(self) -> bool:
        """True where raters hardly agree on the order."""
        return self.rater - COIN < HARDLY
