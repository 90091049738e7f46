"""Verdicts on a judge: one table of rules on what it may be used for, by margins between a coin and
one human rater.

A judge that orders 53 % of pairs as people do is better than a coin, and of no use. So no rule asks
whether an interval leaves out chance; each asks how far the judge is on the way from a coin, or a
constant, to one rater, whose figure stands in the same record. A dimension has one verdict a use,
on the setting that is taken (`judgebench.tuning.choose`).
"""

from __future__ import annotations

from collections.abc import Sequence

from judgebench.settings.costs import Asking, Costs
from judgebench.settings.margins import Margins
from judgebench.stats.clusters import Estimate, keys_of
from judgebench.studies.evaluate import CONSTANT_HUMANS
from judgebench.studies.findings import Deciding, JudgeFindings
from judgebench.studies.humans import OddRaters, odd_raters
from judgebench.studies.rules import CARE, FEW, NO, UNMEASURED, YES, Verdict
from judgebench.studies.scores import JudgeScores, ScoreSeries
from judgebench.studies.verdict_attacks import attacks_verdict
from judgebench.studies.verdict_decisions import decides
from judgebench.studies.verdict_order import systems_verdict, texts_verdict
from judgebench.studies.verdict_scores import by_lowest, rater_verdict, scores_verdict
from judgebench.studies.verdict_steady import steady_verdict
from judgebench.types import Record, Records, Row, Rows
from judgebench.words.formats import say

_USUAL = Costs(), Asking()


def verdict_records(
    samples: Sequence[JudgeScores],
    choice: Records,
    studies: Row,
    margins: Margins,
    deciding: Deciding = _USUAL,
) -> Rows:
    """The records of verdict.json: for each dimension a record a use, of `RULES`.

    Args:
        choice: see `judgebench.tuning.choose.choice_records`; one setting of a dimension is taken.
        studies: metrics, humans, beside_humans, systems and forecasts, as `Results` has them, and
            audit where there is one.
        deciding: see `judgebench.studies.decisions.decision_records`.

    Returns:
        dataset, the keys of `ScoreSeries.named`, groups, settings (how many were chosen among), spearman
        and promised_spearman with their intervals; use, verdict, clause; value, rater and their
        intervals; needed; scores; raters_dropped and raters_doubtful, see `humans.odd_raters`; beside_raters:
        the verdict with the dropped raters, or without the doubtful ones.
    """
    records = []
    for advised in choice:
        if not advised["taken"]:
            continue
        cell = ScoreSeries.of(advised)
        sample = next(sample for sample in samples if sample.cell == cell)
        # one verdict a use, of the setting that was chosen: of many settings some would pass by
        # chance
        facts = JudgeFindings(sample, studies, margins)
        head = {
            **sample.head,
            "groups": facts.groups,
            "settings": sum(record["dimension"] == cell.dimension for record in choice),
            **keys_of("spearman", Estimate.of(facts.metric, "spearman")),
            **keys_of("promised_spearman", Estimate.of(advised, "promised_spearman")),
        }
        for use, verdict in _of_raters(facts, studies, deciding).items():
            records.append(head | {"use": use} | verdict)
    return records


def _of_raters(facts: JudgeFindings, studies: Row, deciding: Deciding) -> dict[str, Record]:
    """Use -> its verdict's record, by the raters who agree with others; each says what the verdict
    would be with the odd ones, or without the doubtful ones."""
    sample = facts.sample
    # A rater who did not look at the texts lowers the bar for the judge. Odd ones are left out,
    # doubtful ones stay, and both are said.
    raters = odd_raters(sample.ratings) if sample.raters else OddRaters([], [])
    names = [[sample.raters[column] for column in columns] for columns in raters]
    verdicts = _verdicts(facts)
    others: dict[str, Verdict] = {}
    if raters.odd:
        others = verdicts
        verdicts = _verdicts(facts.without(raters.odd, studies, deciding))
    elif raters.doubtful and len(sample.raters) - len(raters.doubtful) > 1:
        others = _verdicts(facts.without(raters.doubtful, studies, deciding))
    odd, doubtful = names
    records = {}
    for use, verdict in verdicts.items():
        other = others[use].verdict if use in others else None
        # said where it matters: where the verdict would be another
        clause = say(
            "clause",
            part="raters",
            clause=verdict.clause,
            use=use,
            odd=odd,
            doubtful=doubtful,
            other=None if other == verdict.verdict else other,
        )
        records[use] = verdict.record | {
            "clause": clause,
            "raters_dropped": odd,
            "raters_doubtful": doubtful,
            "beside_raters": other,
        }
    return records


def _verdicts(facts: JudgeFindings) -> dict[str, Verdict]:
    """Use -> the verdict, in the order of `RULES`."""
    obstacle = _obstacle(facts)
    texts = obstacle or texts_verdict(facts)
    verdicts = {}
    if facts.decision:
        verdicts["decide"] = obstacle or decides(facts.decision, facts.margins)
    verdicts |= {
        "order_texts": texts,
        "compare_systems": obstacle or systems_verdict(facts),
        "report_scores": obstacle or by_lowest(facts, scores_verdict(facts)),
        "replace_rater": obstacle or by_lowest(facts, rater_verdict(facts, texts)),
        "resist_attacks": attacks_verdict(facts),
    }
    # where it was asked for alone
    if facts.audit is not None:
        verdicts["steady"] = steady_verdict(facts, facts.audit)
    return {use: _with_failures(facts, verdict) for use, verdict in verdicts.items()}


def _obstacle(facts: JudgeFindings) -> Verdict | None:
    """The verdict on each use that takes ratings, where they or the answers are too few."""
    fewest = facts.margins.fewest
    if facts.groups < fewest:
        clause = say("clause", part="few", groups=facts.groups, fewest=fewest)
        return Verdict(FEW, clause, needed=fewest)
    if CONSTANT_HUMANS in facts.flags:
        return Verdict(UNMEASURED, say("clause", part="one rating"))
    if facts.metric.get("failed_share") == 1:
        return Verdict(NO, say("clause", part="unread"))
    return None


def _with_failures(facts: JudgeFindings, verdict: Verdict) -> Verdict:
    """The verdict, which is not yes where too many answers could not be read."""
    failed = facts.metric.get("failed_share") or 0.0
    if verdict.verdict not in (YES, CARE) or failed <= facts.margins.failed:
        return verdict
    clause = say("clause", part="failed", failed=failed, clause=verdict.clause)
    return verdict._replace(verdict=CARE, clause=clause)
