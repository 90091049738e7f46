"""Verdicts on a judge that is moved by what should not matter."""

from __future__ import annotations

import numpy as np

from judgebench.stats.clusters import SIGNIFICANCE, ends_of
from judgebench.studies.audit import DATA, PROBES, effect_of
from judgebench.studies.findings import JudgeFindings
from judgebench.studies.rules import CARE, FEW, NO, UNMEASURED, YES, Verdict, articles_needed
from judgebench.studies.scores import ScoreSeries
from judgebench.types import Records, Row
from judgebench.words.formats import say

_STATES = (YES, FEW, NO)


def steady_verdict(facts: JudgeFindings, audit: Records) -> Verdict:
    """By the effects of an audit (`judgebench.studies.audit`) that should not matter: no where one
    is beyond the margin, yes where every interval lies within it and texts or prompts were changed,
    with care where no more than the data tell that."""
    margin = facts.margins.steady
    fewest = facts.margins.fewest
    cell = facts.sample.cell
    effects = {}
    for row in audit:
        if row["p"] is not None and row["neutral"] and ScoreSeries.of(row) == cell:
            state = _STATES.index(effect_state(row, margin))
            effects[state, abs(effect_of(row).value)] = row
    if not effects:
        return Verdict(UNMEASURED, say("clause_steady", part="none"))
    # the largest effect of the worst state
    place, _ = max(effects)
    row = effects[max(effects)]
    size = effect_of(row)
    verdict = part = _STATES[place]
    needed = None
    if row["groups"] < fewest:
        verdict, part, needed = FEW, "groups", fewest
    elif verdict == FEW:
        needed = articles_needed(row["groups"], np.ptp(ends_of(size)), margin)
    # what varies in the data is not all that may move it
    elif verdict == YES and PROBES not in {each["instrument"] for each in effects.values()}:
        verdict, part = CARE, DATA
    clause = say("clause_steady", part=part, row=row, margin=margin, needed=needed)
    return Verdict(verdict, clause, size, needed=needed)


def effect_state(row: Row, margin: float) -> str:
    """Of a record with an interval: yes where that lies within the margin, a part of the scale; no
    where the effect is beyond it and told from chance among all effects; else too few texts."""
    size = effect_of(row)
    low, high = ends_of(size)
    if max(high, -low) <= margin:
        return YES
    return NO if row["p_holm"] <= SIGNIFICANCE and abs(size.value) > margin else FEW
