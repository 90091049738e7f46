"""Failure signatures: the meaning of each flag, and where it was raised."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode

import pandas as pd

from judgebench.metrics.evaluation import CONSTANT, CONSTANT_HUMANS, INVERTED, UNSTABLE
from judgebench.metrics.resampling import FEWEST
from judgebench.report.table import Block, Paragraph
from judgebench.results.results import Results
from judgebench.results.series import labelled
from judgebench.tuning.tune import EDGE

FLAGS: Mapping[str, str] = {
    CONSTANT: "every text got the same score, so no correlation exists; 0 is reported, as the paper does",
    CONSTANT_HUMANS: "the humans gave every text the same score, so no correlation exists, whatever the judge says; 0 "
    "is reported",
    INVERTED: "Spearman's 95 % interval lies wholly below 0: the judge ranks texts against the humans",
    UNSTABLE: "Spearman depends on the score range by more than sampling noise explains",
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
    shown = (results.split, results.level)
    rows = labelled(record for record in results.metrics if (record["split"], record["level"]) == shown)
    if not len(rows):
        return []
    raised = {flag: None for found in rows.get("flags", ()) for flag in found or ()}
    if not raised:
        return [Paragraph(_no_flags(rows))]
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
    told = []
    for (condition, series), part in own.groupby(["condition", "series"], sort=False):
        ranges = list(part["range"])
        told.append(f"{condition}, range{'s' if len(ranges) > 1 else ''} {', '.join(ranges)}: {series}")
    return told


def _no_flags(rows: pd.DataFrame) -> str:
    """Kinds of flags that were looked for and not raised, and those that could not be."""
    enough = rows["spearman_low"].notna().any() and rows["groups"].min() >= FEWEST
    several = rows["range"].nunique() > 1
    looked_for = ["says the same of every text"]
    looked_for += ["ranks texts against the humans"] if enough else []
    looked_for += ["depends on the score range by more than noise"] if enough and several else []
    *others, last = looked_for
    listed = f"{', '.join(others)} or {last}" if others else last
    told = f"No flag was raised: no judge or rater {listed}."
    if not enough:
        return f"{told} More takes intervals over at least {FEWEST} groups."
    return told if several else f"{told} Whether scores depend on the range takes several ranges; here is one."
