"""Failure signatures: what a flag means, and where it was raised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from judgebench.metrics.evaluation import CONSTANT, CONSTANT_HUMANS, INVERTED, UNSTABLE
from judgebench.metrics.resampling import FEWEST
from judgebench.report.results import Block, has_intervals
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
"""What a flag means, for readers who meet it first here."""

FLAGS_AT: Mapping[str, str] = {
    "document": "“every text” means: all texts of each of the {groups}",
    "system": "“every text” means: every system, in the mean of its texts",
}
"""Level -> what the meanings speak of there."""


@dataclass(frozen=True)
class Raised:
    """A flag that occurs.

    Attributes:
        meaning: a clause without a full stop; empty for a flag that nobody has explained.
        where: condition, ranges and series, one text for each series under a condition.
    """

    name: str
    meaning: str
    where: Sequence[str]


def raised(blocks: Sequence[Block]) -> list[Raised]:
    """Each flag that occurs, in order of appearance."""
    places: dict[str, dict[tuple[str, str], list[str]]] = {}
    for block in blocks:
        for section in block.sections:
            for row in section.rows:
                for flag in row.flags:
                    at = places.setdefault(flag, {}).setdefault((block.condition, str(row.series)), [])
                    at.append(str(section.range))
    return [
        Raised(flag, FLAGS.get(flag, ""), [f"{condition}, {_ranges(at)}: {who}" for (condition, who), at in by.items()])
        for flag, by in places.items()
    ]


def none_note(blocks: Sequence[Block]) -> str:
    """The sentences where no flag was raised: of what was looked for, and of what could not be."""
    enough = has_intervals(blocks) and min(block.groups[0] for block in blocks) >= FEWEST
    several = any(len(block.sections) > 1 for block in blocks)
    looked_for = ["says the same of every text"]
    looked_for += ["ranks texts against the humans"] if enough else []
    looked_for += ["depends on the score range by more than noise"] if enough and several else []
    *most, last = looked_for
    listed = f"{', '.join(most)} or {last}" if most else last
    told = f"No flag was raised: no judge or rater {listed}."
    if not enough:
        return f"{told} More takes intervals over at least {FEWEST} groups."
    return told if several else f"{told} Whether scores depend on the range takes several ranges; here is one."


def _ranges(found: Sequence[str]) -> str:
    return f"range{'s' if len(found) > 1 else ''} {', '.join(found)}"
