"""Results as sentences, a question each; and failure signatures: the meaning of each flag, and where it was raised."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

import pandas as pd

from judgebench.report.say import say
from judgebench.report.table import Block, Facts, Paragraph, records
from judgebench.report.views.attacks import attack_sentences, gap_sentences
from judgebench.report.views.beside import calibration_sentences, points_sentences, stand_in_sentences
from judgebench.report.views.bias import favorite_sentences
from judgebench.report.views.comparisons import change_sentences
from judgebench.report.views.correlations import best_of, sized_correlations, without_assistants
from judgebench.report.views.defenses import defense_sentences, preparation_sentences
from judgebench.report.views.errors import error_sentences
from judgebench.report.views.few_labels import few_labels_sentences
from judgebench.report.views.forecasts import forecast_sentences, mass_sentences
from judgebench.report.views.humans import human_sentence
from judgebench.report.views.pairwise import pair_sentences, ranking_sentences
from judgebench.report.views.systems import system_sentences
from judgebench.report.views.uses import use_sentences
from judgebench.report.views.variance import variance_sentences
from judgebench.results.results import Results
from judgebench.results.series import NO_DEFENSE, labelled
from judgebench.stats.clusters import FEWEST
from judgebench.stats.evaluate import CONSTANT, CONSTANT_HUMANS, INVERTED, UNSTABLE
from judgebench.stats.forecasts import NOT_ANSWERING
from judgebench.tuning.tune import EDGE

_BASELINE = "main, greedy"


def answers(results: Results) -> list[Block]:
    """Answers of a run, in sentences."""
    lines = {
        "How close to a human is it?": best_sentences(results),
        "Where is it biased?": [
            *favorite_sentences(results),
            *points_sentences(results),
            *(variance_sentences(results) or spread_sentences(results)),
            *pair_sentences(results),
            *ranking_sentences(results),
        ],
        "What would make it better?": [*change_sentences(results), *calibration_sentences(results)],
        "May you use it, and for what?": use_sentences(results),
        "Can it be fooled?": [*attack_sentences(results), *gap_sentences(results)],
        "Does a defense help?": [*defense_sentences(results), *preparation_sentences(results)],
    }
    rows = [(question, sentences) for question, sentences in lines.items() if sentences]
    return [Facts(rows or [("No answer", ["This run has no scores to tell of."])], answers=True)]


def beside_answers(results: Results) -> list[Block]:
    """More on judges compared with humans, in sentences: what the tables below say."""
    lines = {
        "In a rater's place": stand_in_sentences(results),
        "Its probabilities": [*mass_sentences(results), *forecast_sentences(results)],
        "Over systems": system_sentences(results),
        "With few labels": few_labels_sentences(results),
        "Why it errs": error_sentences(results),
    }
    rows = [(subject, sentences) for subject, sentences in lines.items() if sentences]
    return [Facts(rows, answers=True)] if rows else []


def best_sentences(results: Results) -> list[str]:
    """One sentence a dimension: which judge, in which range, agrees best with the humans where there are several, and
    whether by more than chance; and how well one human agrees with the others. Without defense, where there is such.
    Not of texts compared."""
    sentences = []
    for part in [] if results.compares else _conditions(results):
        rows = without_assistants(records(part[part["spearman"].notna()]))
        if not rows:
            continue
        best = max(rows, key=lambda row: row["spearman"])
        setting = f" ({best['setting']})" if best["setting"] else ""
        facts: dict[str, Any] = {
            "judge": f"{best['who']}{setting}",
            "human": human_sentence(results, best),
            "groups": results.groups,
        }
        facts |= {"several": len(rows), "alone": len({row["series"] for row in rows}) == 1, "picked": best_of(rows)}
        facts |= {"few": part["groups"].min() < FEWEST, "flags": best["flags"] or ()}
        sentences.append(say("best", best=best, CONSTANT=CONSTANT, CONSTANT_HUMANS=CONSTANT_HUMANS, **facts))
    return sentences


def spread_sentences(results: Results) -> list[str]:
    """One sentence a dimension with several ranges: how far the main model's greedy scores depend on the range, and
    how far the contrasted pair's do. Spreads have no interval, and that is said, too."""
    sentences = []
    for part in _conditions(results):
        ranges, spreads = part["range"].nunique(), []
        for series, rows in part.groupby("series", sort=False):
            whole = len(rows) == ranges and rows["spearman"].notna().all()
            if whole and (series == _BASELINE or rows["judge"].iloc[0] == "pair"):
                undefined = sum(bool({CONSTANT, CONSTANT_HUMANS} & set(flags or ())) for flags in rows["flags"])
                spreads.append((str(series), rows["spearman"].min(), rows["spearman"].max(), undefined))
        spreads.sort(key=lambda spread: spread[0] != _BASELINE)
        if ranges > 1 and spreads and spreads[0][0] == _BASELINE:
            sentences.append(say("spread", condition=part["condition"].iloc[0], ranges=ranges, spreads=spreads))
    return sentences


def _conditions(results: Results) -> list[pd.DataFrame]:
    """The correlations of each condition, without the averages; without defense, where there are such."""
    rows = sized_correlations(results, silent=True)
    if not len(rows):
        return []
    rows = rows[rows["range"] != "average"]
    bare = rows[rows["defense"] == NO_DEFENSE]
    return [part for _, part in (bare if len(bare) else rows).groupby(["dimension", "attack", "defense"], sort=False)]


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
    rows = labelled(results.shown)
    if not len(rows):
        return []
    blocks: list[Block] = []
    for flag in dict.fromkeys(flag for flags_ in rows.get("flags", ()) for flag in flags_ or ()):
        where = rows[[flag in (flags_ or ()) for flags_ in rows["flags"]]]
        places = [f"{condition}, range{'s' if len(part) > 1 else ''} {', '.join(part['range'])}: {series}"
                  for (condition, series), part in where.groupby(["condition", "series"], sort=False)]  # fmt: skip
        meaning = f"{FLAGS[flag]}. " if flag in FLAGS else ""
        examples = f"#{urlencode({'filter': 1, 'flags': flag}, quote_via=quote)}" if len(results.readings) else ""
        blocks.append(Paragraph(f"{meaning}{'; '.join(places)}.", warning=flag, examples=examples))
    if not blocks:
        enough = rows["spearman_low"].notna().any() and rows["groups"].min() >= FEWEST
        asked = any(record.get("answers") for record in results.forecasts)
        return [Paragraph(say("no_flag", answers=asked, enough=enough, several=rows["range"].nunique() > 1))]
    at = {
        "document": f"“every text” means: all texts of each of the {results.groups}",
        "system": "“every text” means: every system, in the mean of its texts",
    }.get(results.level)
    return [*blocks, *([Paragraph(f"Here {at}.", note=True)] if at else [])]
