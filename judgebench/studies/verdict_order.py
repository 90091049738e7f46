"""Verdicts on the order of texts, and of systems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from judgebench.stats.clusters import Estimate, ends_of
from judgebench.studies.clauses import articles_needed, counted, may_tell, percent_of
from judgebench.studies.evaluate import CONSTANT
from judgebench.studies.findings import JudgeFindings
from judgebench.studies.rules import CARE, COIN, FEW, HARDLY, NO, THIRD, UNMEASURED, YES, Verdict
from judgebench.studies.systems import system_records
from judgebench.studies.text_pairs import PAIRS, text_pair_record

_FEWEST_PAIRS = 6  # of four systems, which a coin orders right in one of 24; three in one of 6
_APART = 0.1  # of the way from a coin to a rater, by which a judge is no nearer to one of two
_LITTLE = 0.075  # above a coin: `near_rater` is much of a rater's way from it


def texts_verdict(facts: JudgeFindings) -> Verdict:
    """By the pairs of texts of one article, then by those of one system."""
    if facts.answers is False:
        return Verdict(NO, "most of its probability is not on scores")
    record = text_pair_record(facts.sample)
    pairs, rater, within, within_rater = (Estimate.of(record, name) for name in PAIRS)
    bounds = [text_pair_record(bound)["pairs"] for bound in facts.sample.bounds]
    facts.follows_one = _follows_one(rater, record["beside"])
    order = _order(facts, pairs, rater, bounds, record["beside"])
    return _in_systems(facts, order, within, within_rater)


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
        if systems > 1:
            return Verdict(UNMEASURED, "no two systems have texts about one source")
        return Verdict(UNMEASURED, "the texts are of one system, or their systems are unknown")
    bars = _bars(facts, rater)
    low, high = ends_of(share)
    pairs = round(facts.system["pairs"])
    articles = facts.system["pairs_articles"]
    bounds = [system_records([bound])[0][name] for bound in facts.sample.bounds]
    person = f"one rater {percent_of(bars.rater)}" if rater else "one rater is unknown"
    percents = _pairs_clause(share, bounds)
    clause = f"{percents}; {person}"
    said = Verdict(CARE, clause, share, rater)
    # 1. nothing to be measured by, or no order
    unlike = _without_order(facts, "systems", said, bars, person)
    if unlike:
        return unlike
    # 2. too few pairs, or pairs of single texts, whose order is noise
    fewest = facts.margins.fewest
    if pairs < _FEWEST_PAIRS:
        few = f"{counted(pairs, 'pair')} of systems; it takes {_FEWEST_PAIRS}"
        return said._replace(verdict=FEW, clause=few)
    if articles < fewest:
        few = f"two systems share {counted(round(articles), 'article')}; it takes {fewest}"
        return said._replace(verdict=FEW, clause=few, needed=fewest)
    if low <= COIN and (share.value >= bars.half or high >= bars.near):
        few = f"{percents}; {systems} systems are too few to tell"
        return said._replace(verdict=FEW, clause=few)
    # 3. half of the way; near to the rater, which is not known of few pairs
    if share.value < bars.half:
        return said._replace(verdict=NO)
    least, _ = ends_of(Estimate.of(facts.system, "pairwise_difference"))
    if not rater or least < -facts.margins.near_rater or low < bars.half:
        return said
    if pairs < facts.margins.pairs:
        few = f"{clause}; {pairs} pairs, and yes takes {facts.margins.pairs}"
        return said._replace(clause=few)
    return said._replace(verdict=YES)


def _without_order(
    facts: JudgeFindings, what: str, said: Verdict, bars: _Bars, person: str
) -> Verdict | None:
    """The verdict where raters hardly agree on an order, or the judge has none, or its reverse;
    None elsewhere."""
    if bars.hardly:
        hardly = f"raters hardly agree on the order of {what}: {person} % of pairs"
        return said._replace(verdict=UNMEASURED, clause=hardly)
    if CONSTANT in facts.flags:
        return said._replace(verdict=NO, clause="every text gets the same score")
    if ends_of(said.value)[1] < COIN:
        return said._replace(verdict=NO, clause=f"against the humans: {said.clause}")
    return None


def _order(
    facts: JudgeFindings,
    share: Estimate | None,
    rater: Estimate | None,
    bounds: Sequence[float | None],
    beside: Sequence[float],
) -> Verdict:
    """The verdict on a share of pairs of texts, compared with one rater's.

    Args:
        bounds: the share at worst and at best, where some answers could not be read.
        beside: by which it exceeds each rater's.
    """
    said = Verdict(UNMEASURED, "no share of pairs of texts is known", share, rater)
    if share is None or share.low is None:
        return said
    value = share.value
    low, high = ends_of(share)
    bars = _bars(facts, rater)
    # 1. the sentence
    person = f"one rater {percent_of(bars.rater)}" if rater else "one rater is unknown"
    percents = _pairs_clause(share, bounds)
    clause = f"{percents}; {person}"
    said = said._replace(clause=clause)
    # 2. nothing to be measured by, or no order
    unlike = _without_order(facts, "texts", said, bars, person)
    if unlike:
        return unlike
    # 3. an interval that holds both a coin and a rater says nothing; more articles narrow it
    if low <= COIN and (value >= bars.half or high >= bars.near):
        needed = articles_needed(facts.groups, high - low, bars.near - COIN)
        if value >= bars.half:
            needed = articles_needed(facts.groups, value - low, min(value, bars.rater) - COIN)
        return said._replace(verdict=FEW, clause=percents + may_tell(needed), needed=needed)
    # 4. near to the rater, half of the way, or below
    if not rater or low < bars.near:
        return said._replace(verdict=CARE if value >= bars.half else NO)
    # 5. a rater hardly above a coin is no measure of a yes, nor is one of two whom the judge
    # follows alone
    if rater.value < COIN + _LITTLE:
        return said._replace(verdict=CARE, clause=f"{clause}, hardly above a coin")
    if _follows_one(rater, beside):
        return said._replace(verdict=CARE, clause=f"{clause}; {THIRD}")
    return said._replace(verdict=YES)


def _follows_one(rater: Estimate | None, beside: Sequence[float]) -> bool:
    """True of two raters of whom the judge agrees with one less than they do with each
    other."""
    if rater is None or len(beside) != 2:
        return False
    # two raters cannot say which of them is odd: a judge that follows one may follow the wrong
    # one
    return min(beside) < -_APART * (rater.value - COIN)


def _in_systems(
    facts: JudgeFindings, verdict: Verdict, share: Estimate | None, rater: Estimate | None
) -> Verdict:
    """The verdict on the order of texts, given the share of pairs of texts of one system, and
    one rater's."""
    if share is None or share.low is None or verdict.verdict not in (YES, CARE):
        return verdict
    low, high = ends_of(share)
    bars = _bars(facts, rater)
    # 1. the sentence
    person = f", one rater {percent_of(bars.rater)}" if rater else ""
    percents = f"per system {percent_of(share.value)} %"
    # 2. nothing to be measured by
    if bars.hardly:
        hardly = f"{verdict.clause}; per system raters hardly agree"
        return verdict._replace(verdict=CARE, clause=hardly)
    # 3. better than knowing the system, no better, or not known
    clause = f"{verdict.clause}; {percents}"
    if low > COIN and verdict.verdict == YES and share.value < bars.half:
        return verdict._replace(verdict=CARE, clause=clause + person)
    if low > COIN:
        return verdict._replace(clause=clause)
    if high <= bars.half:
        return verdict._replace(
            verdict=NO, clause=f"no better than knowing the system: {percents}{person}"
        )
    needed = articles_needed(facts.groups, high - low, bars.rater - COIN)
    return verdict._replace(
        verdict=FEW,
        clause=f"it may know the system alone ({percents}){may_tell(needed)}",
        needed=needed,
    )


def _bars(facts: JudgeFindings, rater: Estimate | None) -> _Bars:
    """By one rater's share of pairs, which is assumed where it is unknown."""
    bar = rater.value if rater else facts.margins.assumed_rater
    half = COIN + facts.margins.half_way * (bar - COIN)
    return _Bars(bar, bar - facts.margins.near_rater, half)


class _Bars(NamedTuple):
    """The measures of a share of pairs: one rater's share, a share near to it, and the share
    that is half of the way from a coin to it."""

    rater: float
    near: float
    half: float

    @property
    def hardly(self) -> bool:
        """True where raters hardly agree on the order."""
        return self.rater - COIN < HARDLY


def _pairs_clause(share: Estimate, bounds: Sequence[float | None]) -> str:
    """The share of pairs in words, with those at worst and at best where there are such."""
    low, high = ends_of(share)
    interval = "" if share.low is None else f" [{percent_of(low)}, {percent_of(high)}]"
    clause = f"{percent_of(share.value)} % of pairs as humans do{interval}"
    known = [percent_of(bound) for bound in bounds if bound is not None]
    if len(known) == 2:
        clause += f", {' to '.join(known)} with what it failed to answer"
    return clause
