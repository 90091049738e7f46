"""Verdicts on a judge that is moved by what should not matter."""

from __future__ import annotations

from judgebench.stats.clusters import ENDS, SIGNIFICANCE, Estimate
from judgebench.studies.audit import DATA, PROBES, UNPROBED
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
    rows = [row for row in audit if row["p"] is not None and row["neutral"]]
    rows = [row for row in rows if ScoreSeries.of(row) == cell]
    if not rows:
        return Verdict(UNMEASURED, say("clause_steady", part="none"))
    # the largest effect of the worst state
    rows.sort(key=lambda row: (_STATES.index(effect_state(row, margin)), abs(row["effect"])))
    row = rows[-1]
    low, value, high = sorted(row[f"effect{end}"] / row["width"] for end in ENDS)
    size = Estimate(value, low, high)
    verdict = part = effect_state(row, margin)
    needed = None
    if row["groups"] < fewest:
        verdict, part, needed = FEW, "groups", fewest
    elif verdict == FEW:
        needed = articles_needed(row["groups"], high - low, margin)
    # what varies in the data is not all that may move it
    elif (
        verdict == YES
        and not {other["factor"] for other in rows if other["instrument"] == PROBES} - UNPROBED
    ):
        verdict, part = CARE, DATA
    clause = say("clause_steady", part=part, row=row, margin=margin, needed=needed)
    return Verdict(verdict, clause, size, needed=needed)


def effect_state(row: Row, margin: float) -> str:
    """Of a record with an interval: yes where that lies within the margin, a part of the scale; no
    where the effect is beyond it and told from chance among all effects; else too few texts."""
    margin = margin * row["width"]
    if max(row["effect_high"], -row["effect_low"]) <= margin:
        return YES
    return NO if row["p_holm"] <= SIGNIFICANCE and abs(row["effect"]) > margin else FEW
