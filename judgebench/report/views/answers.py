"""Results as sentences, a question each; and failure signatures: the meaning of each flag, and where it was raised."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode

import pandas as pd

from judgebench.report.formats import is_known
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
_CONDITION = ["dimension", "attack", "defense"]


def answers(results: Results) -> list[Block]:
    """Answers of a run, in sentences."""
    asked = {
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
    lines = [(question, sentences) for question, sentences in asked.items() if sentences]
    return [Facts(lines or [("No answer", ["This run has no scores to tell of."])], answers=True)]


def beside_answers(results: Results) -> list[Block]:
    """More on judges beside humans, in sentences: what the tables below say."""
    told = {
        "In a rater's place": stand_in_sentences(results),
        "Its probabilities": [*mass_sentences(results), *forecast_sentences(results)],
        "Over systems": system_sentences(results),
        "With few labels": few_labels_sentences(results),
        "Why it errs": error_sentences(results),
    }
    lines = [(subject, sentences) for subject, sentences in told.items() if sentences]
    return [Facts(lines, answers=True)] if lines else []


def best_sentences(results: Results) -> list[str]:
    """One sentence a dimension: which judge, in which range, agrees best with the humans where there are several, and
    whether by more than chance; and how well one human agrees with the others. Without defense, where there is such.
    Not of texts compared."""
    return [] if results.compares else [one for part in _parts(results) if (one := _best(results, part))]


def spread_sentences(results: Results) -> list[str]:
    """One sentence a dimension with several ranges: how far the main model's greedy scores depend on the range, and
    how far the contrasted pair's do. Spreads have no interval, and that is said, too."""
    return [one for part in _parts(results) if (one := _spread(part))]


def _parts(results: Results) -> list[pd.DataFrame]:
    """The correlations of each condition, without the averages."""
    rows = sized_correlations(results, silent=True)
    if not len(rows):
        return []
    rows = rows[rows["range"] != "average"]
    bare = rows[rows["defense"] == NO_DEFENSE]
    return [part for _, part in (bare if len(bare) else rows).groupby(_CONDITION, sort=False)]


def _best(results: Results, rows: pd.DataFrame) -> str:
    known = without_assistants(records(rows[rows["spearman"].notna()]))
    if not known:
        return ""
    best = max(known, key=lambda row: row["spearman"])
    setting, flags = f" ({best['setting']})" if best["setting"] else "", best["flags"] or ()
    if CONSTANT_HUMANS in flags:
        return f"{best['condition']}: the humans gave every text the same score, so nobody's order can agree with it."
    if CONSTANT in flags:
        sentence = f"{best['condition']}: {best['who']}{setting} gives every text the same score in range "
        sentence += f"{best['range']}, so that no correlation exists, and 0 stands for it ({best['size']})."
        return " ".join(filter(None, [sentence, human_sentence(results, best)]))
    alone = len({row["series"] for row in known}) == 1
    kind = "has" if len(known) == 1 else "agrees best of its ranges," if alone else "agrees best,"
    sentence = f"{best['condition']}: {best['who']}{setting} {kind} Spearman {best['spearman']:.3f}"
    if best["spearman_low"] is None or best["spearman_high"] is None:
        sentence += f" in range {best['range']}, without an interval"
    else:
        sentence += f" [{best['spearman_low']:.3f}, {best['spearman_high']:.3f}] in range {best['range']}"
        if best["spearman_high"] < 0:
            sentence += ", against the humans"
        elif best["spearman_low"] <= 0:
            sentence += ", which may be chance"
    sentences = [f"{sentence} ({best['size']})."]
    if is_known(best["spearman_low"]) and rows["groups"].min() < FEWEST:
        sentences.append(f"Fewer than {FEWEST} {results.groups}: the interval is too narrow.")
    if len(known) > 1:
        sentences.append(f"It is {best_of(known)}, so this figure is optimistic.")
    return " ".join(filter(None, [*sentences, human_sentence(results, best)]))


def _spread(rows: pd.DataFrame) -> str:
    ranges = rows["range"].nunique()
    ends = {
        str(series): part
        for series, part in rows.groupby("series", sort=False)
        if len(part) == ranges and part["spearman"].notna().all()
    }
    if ranges < 2 or _BASELINE not in ends:
        return ""
    pairs = [name for name, part in ends.items() if part["judge"].iloc[0] == "pair"]
    spreads = [f"{name} {'lies ' * (name == _BASELINE)}{_between(ends[name])}" for name in (_BASELINE, *pairs)]
    sentence = f"{rows['condition'].iloc[0]}: over {ranges} ranges, Spearman of {'; of '.join(spreads)}."
    if pairs:
        sentence += " These spreads have no interval: that one is smaller may be chance."
    return sentence


def _between(rows: pd.DataFrame) -> str:
    low, high = rows["spearman"].min(), rows["spearman"].max()
    undefined = sum(CONSTANT in (flags or ()) or CONSTANT_HUMANS in (flags or ()) for flags in rows["flags"])
    sentence = f"between {low:.3f} and {high:.3f}, a spread of {high - low:.3f}"
    return f"{sentence} (undefined in {undefined}, for which 0 stands)" if undefined else sentence


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

_AT: Mapping[str, str] = {
    "document": "“every text” means: all texts of each of the {groups}",
    "system": "“every text” means: every system, in the mean of its texts",
}
"""Level -> what the meanings are about there."""


def flags(results: Results) -> list[Block]:
    """Each flag that was raised and where, in order of appearance; or the sentence that none was."""
    rows = labelled(results.shown)
    if not len(rows):
        return []
    raised = {flag: None for found in rows.get("flags", ()) for flag in found or ()}
    if not raised:
        return [Paragraph(_no_flags(rows, any(one.get("answers") for one in results.forecasts)))]
    blocks: list[Block] = []
    for flag in raised:
        meaning = f"{FLAGS[flag]}. " if flag in FLAGS else ""
        examples = f"#{urlencode({'filter': 1, 'flags': flag}, quote_via=quote)}" if len(results.readings) else ""
        blocks.append(Paragraph(f"{meaning}{'; '.join(_places(rows, flag))}.", warning=flag, examples=examples))
    at = _AT.get(results.level, "").format(groups=results.groups)
    return [*blocks, *([Paragraph(f"Here {at}.", note=True)] if at else [])]


def _places(rows: pd.DataFrame, flag: str) -> list[str]:
    """Condition, ranges and series, one text for each series under a condition."""
    own = rows[[flag in (found or ()) for found in rows["flags"]]]
    sentences = []
    for (condition, series), part in own.groupby(["condition", "series"], sort=False):
        ranges = list(part["range"])
        sentences.append(f"{condition}, range{'s' if len(ranges) > 1 else ''} {', '.join(ranges)}: {series}")
    return sentences


def _no_flags(rows: pd.DataFrame, answers: bool) -> str:
    """Kinds of flags that were looked for and not raised, and those that could not be."""
    enough = rows["spearman_low"].notna().any() and rows["groups"].min() >= FEWEST
    several = rows["range"].nunique() > 1
    looked_for = ["says the same of every text"]
    looked_for += ["answers with other texts than scores"] if answers else []
    looked_for += ["clearly ranks texts against the humans"] if enough else []
    looked_for += ["depends on the score range by more than noise"] if enough and several else []
    *others, last = looked_for
    listed = f"{', '.join(others)} or {last}" if others else last
    sentence = f"No flag was raised: no judge or rater {listed}."
    if not enough:
        return f"{sentence} More takes intervals over at least {FEWEST} groups."
    return sentence if several else f"{sentence} Whether scores depend on the range takes several ranges; here is one."
