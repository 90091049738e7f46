"""Verdicts on a judge that is moved by what should not matter."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from judgebench.stats.clusters import SIGNIFICANCE, Estimate, ends_of
from judgebench.studies.audit import DATA, PROBES, effect_of
from judgebench.studies.findings import JudgeFindings
from judgebench.studies.rules import CARE, FEW, NO, UNMEASURED, YES, Verdict, articles_needed
from judgebench.studies.scores import ScoreSeries
from judgebench.types import Records, Row
from judgebench.words.formats import say

_clause = partial(say, "clause_steady")


def steady_verdict(facts: JudgeFindings, audit: Records) -> Verdict:
    """By the effects of an audit (`judgebench.studies.audit`) that should not matter: no where one
    is beyond the margin, yes where every interval lies within it and texts or prompts were changed,
    with care where no more than the data tell that."""
    cell = facts.sample.cell
    rows = [row for row in audit if ScoreSeries.of(row) == cell and row["neutral"]]
    effects = [_Effect.of(row, facts.margins.steady) for row in rows]
    known = [effect for effect in effects if effect is not None]
    if not known:
        return Verdict(UNMEASURED, _clause(part="none"))
    worst = max(known, key=_Effect.harm)
    said = {"effect": worst, "width": worst.row["width"], "margin": facts.margins.steady}
    fewest = facts.margins.fewest
    groups = worst.row["groups"]
    needed = worst.needed
    if groups < fewest:
        clause = _clause(part="few", fewest=fewest, **said)
        return Verdict(FEW, clause, worst.size, needed=fewest)
    if worst.state == FEW:
        clause = _clause(part="wide", needed=needed, **said)
        return Verdict(FEW, clause, worst.size, needed=needed)
    if worst.state == NO:
        return Verdict(NO, _clause(part="moved", **said), worst.size)
    # what varies in the data is not all that may move it
    instruments = {effect.row["instrument"] for effect in known}
    if PROBES not in instruments:
        return Verdict(CARE, _clause(part=DATA, **said), worst.size)
    return Verdict(YES, _clause(part="steady", **said), worst.size)


class _Effect(NamedTuple):
    """An effect of the audit, as a part of the humans' scale."""

    row: Row
    size: Estimate
    margin: float

    @classmethod
    def of(cls, row: Row, margin: float) -> _Effect | None:
        """The effect of a record; None where it has no interval."""
        size = effect_of(row)
        if size is None or size.low is None:
            return None
        return cls(row, size, margin)

    @property
    def state(self) -> str:
        """Yes within the margin by the interval; no beyond it, and told from chance among all
        effects; else too few texts."""
        low, high = ends_of(self.size)
        if max(high, -low) <= self.margin:
            return YES
        told = (self.row["p_holm"] or 0.0) <= SIGNIFICANCE and not low <= 0 <= high
        return NO if told and abs(self.size.value) > self.margin else FEW

    @property
    def needed(self) -> int | None:
        """Articles whose interval may be as narrow as the margin."""
        low, high = ends_of(self.size)
        return articles_needed(self.row["groups"], high - low, self.margin)

    def harm(self) -> tuple[int, float]:
        """The place of its state, and its size."""
        return (YES, FEW, NO).index(self.state), abs(self.size.value)
