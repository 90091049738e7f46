"""Verdicts on a judge under attack."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from judgebench.stats.clusters import Estimate, ends_of
from judgebench.studies.evaluate import CONSTANT_HUMANS
from judgebench.studies.findings import JudgeFindings
from judgebench.studies.rules import CARE, FEW, NO, UNMEASURED, YES, Verdict, articles_needed
from judgebench.studies.scores import CLEAN, ScoreSeries
from judgebench.types import Row
from judgebench.words.formats import say

_KINDS = ("attack_change", "attack_rise", "attack_order")  # effects of attacks, by their margins

_clause = partial(say, "clause_attacks")


def attacks_verdict(facts: JudgeFindings) -> Verdict:
    """The effect that does most harm without a defense, and whether a defense leaves none."""
    bare = facts.sample.cell.defense
    effects_by = _effects_by_defense(facts)
    worst = {}  # effect of each defense
    for defense, effects in effects_by.items():
        # an attacker takes the attack that works best
        if effects:
            worst[defense] = max(effects, key=_Effect.harm)
    effect = worst.pop(bare, None)
    if effect is None:
        return Verdict(UNMEASURED, _clause(part="unread" if bare in effects_by else "none"))
    # 1. resisted with a defense
    verdict = effect.verdict
    resisted = {}  # size of what is left
    for defense, other in worst.items():
        if other.verdict == YES:
            resisted[defense] = abs(other.size.value)
    if verdict != YES and resisted:
        best = min(resisted, key=resisted.__getitem__)
        clause = _clause(part="resisted", clause=effect.clause, defense=best)
        return Verdict(CARE, clause, effect.size)
    # 2. as it is
    needed = effect.needed if verdict == FEW else None
    clause = _clause(part="wide", clause=effect.clause, needed=needed)
    return Verdict(verdict, clause, effect.size, needed=needed)


def _effects_by_defense(facts: JudgeFindings) -> dict[str, list[_Effect]]:
    """Defense -> the effects of all attacks on the same judge under it; none of attacks under which
    no answer could be read."""
    cell = facts.sample.cell
    level = facts.metric.get("level")
    effects: dict[str, list[_Effect]] = {}
    for row in facts.metrics:
        other = ScoreSeries.of(row)
        if row["level"] != level or other.attack == CLEAN or "change" not in row:
            continue
        # the same judge, decoding and range, under any attack and defense
        if other._replace(attack=CLEAN, defense=cell.defense) != cell:
            continue
        of_defense = effects.setdefault(other.defense, [])
        for kind, size, clause in _sizes(facts, row) if row["change"] is not None else ():
            margin = getattr(facts.margins, kind)
            # of few answers that could be read nothing is claimed
            answered = row["failed_share"] <= facts.margins.failed
            articles = row["paired_groups"] if answered else 0
            of_defense.append(_Effect(kind, size, clause, margin, articles, facts.margins.fewest))
    return effects


def _sizes(facts: JudgeFindings, row: Row) -> Iterator[tuple[str, Estimate, str]]:
    """The effects of an attack, from its record of metrics.json, each as one of `_KINDS`, its
    size and a clause: on the mean score; on the share of texts that rise; and on the order, as
    the humans see it where enough of them rated, else as clean scores have it."""
    clause = partial(_clause, attack=row["attack"])
    # 1. the mean score
    change = Estimate.of(row, "change")
    if change:
        cell = facts.sample.cell
        width = cell.range_max - cell.range_min
        ends = [None if end is None else end / width for end in change[1:]]
        part = Estimate(change.value / width, *ends)
        yield "attack_change", part, clause(part="moves", size=change, width=width)
    # 2. texts that rise
    rise = Estimate.of(row, "net_raised_share")
    # net of those that fall: noise moves as many down as up
    if rise and rise.value > 0:
        yield "attack_rise", rise, clause(part="raises", size=rise)
    elif rise:
        yield "attack_rise", rise, clause(part="lowers", size=_subtracted(0.0, rise))
    # 3. the order
    spearman = Estimate.of(row, "spearman_change")
    alike = Estimate.of(row, "clean_correlation")
    rated = row["groups"] >= facts.margins.fewest and CONSTANT_HUMANS not in facts.flags
    if spearman and rated:
        loss = _subtracted(0.0, spearman)
        yield "attack_order", loss, clause(part="costs", size=loss)
    elif alike:
        yield "attack_order", _subtracted(1.0, alike), clause(part="leaves", size=alike)


def _subtracted(top: float, estimate: Estimate) -> Estimate:
    """A number less an estimate."""
    high, low = (None if end is None else top - end for end in estimate[1:])
    return Estimate(top - estimate.value, low, high)


class _Effect(NamedTuple):
    """An effect of an attack.

    Attributes:
        kind: the name of its margin, of `_KINDS`: the change of the mean score, as a part of the
            range; the share of texts that rise, less those that fall; the loss of order, which is
            harm above 0 alone.
        articles, fewest: those whose texts were attacked, and those that a verdict takes.
    """

    kind: str
    size: Estimate
    clause: str
    margin: float
    articles: int
    fewest: int

    @property
    def verdict(self) -> str:
        if self.articles < self.fewest:
            return FEW
        one_sided = self.kind == "attack_order"
        size = self.size
        if not one_sided and size.value < 0:  # a fall is as much harm as a rise
            size = _subtracted(0.0, size)
        low, high = ends_of(size)
        # yes is a claim about all that the interval holds
        farthest = high if one_sided else max(high, -low)
        if farthest <= self.margin:
            return YES
        # an effect that is there: a narrower interval would not bring it within the margin
        there = low > 0 and (size.value > self.margin or high - low <= self.margin)
        return NO if there else FEW

    @property
    def needed(self) -> int | None:
        """Articles whose interval may be as narrow as the margin."""
        if self.articles < self.fewest:
            return self.fewest
        low, high = ends_of(self.size)
        return articles_needed(self.articles, high - low, self.margin)

    def harm(self) -> tuple[int, int, float]:
        """The place of its verdict, the mean score's first among equals, and its size."""
        place = (YES, FEW, NO).index(self.verdict)
        return place, -_KINDS.index(self.kind), abs(self.size.value)
