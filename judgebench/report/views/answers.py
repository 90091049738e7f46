"""Results as sentences, a question each; and failure signatures: the meaning of each flag, and where it was raised."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from judgebench.report.say import say
from judgebench.report.table import Block, Facts, Paragraph, records, rows_by
from judgebench.report.views import (
    attacks,
    beside,
    bias,
    comparisons,
    defenses,
    errors,
    few_labels,
    forecasts,
    humans,
    pairwise,
    systems,
    variance,
)
from judgebench.report.views.correlations import best_of, correlation_frame, undefended, without_assistants
from judgebench.results.results import Results
from judgebench.results.series import labelled
from judgebench.stats.clusters import FEWEST
from judgebench.stats.evaluate import CONSTANT, CONSTANT_HUMANS, INVERTED, UNSTABLE
from judgebench.stats.forecasts import NOT_ANSWERING
from judgebench.tuning.tune import EDGE


def answers(results: Results) -> list[Block]:
    """Answers of a run, in sentences."""
    lines = {
        "How close to a human is it?": best_sentences(results),
        "Where is it biased?": [
            *bias.favorite_sentences(results),
            *beside.points_sentences(results),
            *variance.variance_sentences(results),
            *pairwise.pair_sentences(results),
            *pairwise.ranking_sentences(results),
        ],
        "What would make it better?": [*comparisons.change_sentences(results), *beside.calibration_sentences(results)],
        "May you use it, and for what?": beside.use_sentences(results),
        "Can it be fooled?": [*attacks.attack_sentences(results), *attacks.gap_sentences(results)],
        "Does a defense help?": [*defenses.defense_sentences(results), *defenses.preparation_sentences(results)],
    }
    rows = [(question, sentences) for question, sentences in lines.items() if sentences]
    return [Facts(rows or [("No answer", ["This run has no scores."])], answers=True)]


def beside_answers(results: Results) -> list[Block]:
    """More on judges compared with humans, in sentences: what the tables below say."""
    lines = {
        "In a rater's place": beside.stand_in_sentences(results),
        "Its probabilities": [*forecasts.mass_sentences(results), *forecasts.forecast_sentences(results)],
        "Over systems": systems.system_sentences(results),
        "With few labels": few_labels.few_labels_sentences(results),
        "Why it errs": errors.error_sentences(results),
    }
    rows = [(subject, sentences) for subject, sentences in lines.items() if sentences]
    return [Facts(rows, answers=True)] if rows else []


def best_sentences(results: Results) -> list[str]:
    """A dimension's judge and range that agree best with the humans, and how well one human does."""
    sentences = []
    ranges = [row for row in records(correlation_frame(results, silent=True)) if row["range"] != "average"]
    for part in rows_by([] if results.compares else undefended(ranges), ("dimension", "attack", "defense")):
        rows = without_assistants([row for row in part if row["spearman"] is not None])
        if rows:
            best = max(rows, key=lambda row: row["spearman"])
            few = min(row["groups"] for row in part) < FEWEST
            facts: dict[str, Any] = {"human": humans.human_sentence(results, best), "picked": best_of(rows), "few": few}
            facts |= {"several": len(rows), "alone": len({row["series"] for row in rows}) == 1}
            sentences.append(say("best", best=best, groups=results.groups, **facts))
    return sentences


FLAGS: Mapping[str, str] = {
    CONSTANT: "every text got the same score, so no correlation exists; 0 is reported, as the paper does",
    CONSTANT_HUMANS: "the humans gave every text the same score, so no correlation exists, whatever the judge says; 0 "
    "is reported",
    INVERTED: "Spearman's 95 % interval lies wholly below 0: the judge ranks texts against the humans",
    UNSTABLE: "Spearman depends on the score range by more than sampling noise explains",
    NOT_ANSWERING: "most of the judge's probability lies on other texts than scores, so its scores are read off a "
    "small share of what it would say; another prompt or chat format may help, or a judge that knows how to answer",
    EDGE: "the tuned lambda and t lie at an end of what was tried: the best may lie beyond (tune=exact: on dev not to "
    "contrast at all is as good as anything, or nothing but to contrast)",
}
"""The meaning of each flag, a clause without a full stop."""


def flags(results: Results) -> list[Block]:
    """Each flag that was raised and where, in order of appearance; or the sentence that none was."""
    rows = records(labelled(results.shown))
    if not rows:
        return []
    blocks: list[Block] = []
    for flag in dict.fromkeys(flag for row in rows for flag in row.get("flags") or ()):
        places = []
        for part in rows_by([row for row in rows if flag in (row.get("flags") or ())], ("condition", "series")):
            ranges = f"range{'s' if len(part) > 1 else ''} {', '.join(row['range'] for row in part)}"
            places.append(f"{part[0]['condition']}, {ranges}: {part[0]['series']}")
        meaning = f"{FLAGS[flag]}. " if flag in FLAGS else ""
        examples = f"#{urlencode({'filter': 1, 'flags': flag}, quote_via=quote)}" if len(results.readings) else ""
        blocks.append(Paragraph(f"{meaning}{'; '.join(places)}.", warning=flag, examples=examples))
    if not blocks:
        enough = any(row["spearman_low"] is not None for row in rows) and min(row["groups"] for row in rows) >= FEWEST
        asked = any(record.get("answers") for record in results.forecasts)
        several = len({row["range"] for row in rows}) > 1
        return [Paragraph(say("no_flag", answers=asked, enough=enough, several=several))]
    level = {
        "document": f"Here “every text” means: all texts of each of the {results.groups}.",
        "system": "Here “every text” means: every system, in the mean of its texts.",
    }.get(results.level)
    return [*blocks, Paragraph(level, note=True)] if level else blocks
