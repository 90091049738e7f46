"""Rules of the verdict: what a judge may be used for, by margins between a coin and one human rater."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from judgebench.settings.fields import settings_of
from judgebench.settings.margins import Margins
from judgebench.stats.clusters import Estimate, keys_of
from judgebench.types import Record, Row

YES = "yes"
CARE = "with care"
NO = "no"
FEW = "too few texts"
UNMEASURED = "not measured"
COIN = 0.5
"""The share of pairs that a coin orders right."""

HARDLY = 0.05  # above a coin: raters who order pairs so do not agree on them


class Rule(NamedTuple):
    """The measure of a use, and the reasons for each verdict; for tables, pages and documents."""

    title: str
    measured_by: str
    yes: str
    with_care: str
    no: str


RULES: Mapping[str, Rule] = {
    "decide": Rule(
        "decide",
        "of the texts that people pass, the share that the judge passes, and of those that they "
        "fail, the share that it fails, each compared with one rater's",
        "the low ends of both are within {near_rater:g} of the rater, or, with one rater, reach "
        "{right:g}, and raters agree better than by chance",
        "both are at least {half_way:g} of the way from a coin to that",
        "below, as where it passes every text",
    ),
    "order_texts": Rule(
        "order texts",
        "share of pairs of texts ordered as the other raters do, compared with one rater's, within "
        "articles and within systems",
        "the interval's low end is within {near_rater:g} of the rater, and within systems it is "
        "{half_way:g} of the way; raters agree on the order, within systems, too",
        "at least {half_way:g} of the way from a coin to the rater, and within systems better than a "
        "coin",
        "below, or no better than knowing the system, or most of its probability is not on scores",
    ),
    "compare_systems": Rule(
        "compare systems",
        "share of pairs of systems ordered as the other raters do, compared with one rater's",
        "of {pairs:g} pairs or more, the low end of judge less rater is within {near_rater:g} of it, "
        "and for other systems, too, the judge is {half_way:g} of the way from a coin to the rater",
        "at least {half_way:g} of the way, and for other systems better than a coin",
        "below",
    ),
    "report_scores": Rule(
        "report scores",
        "largest error of systems' means in points, of raw or calibrated scores, and R2 against "
        "always saying the mean",
        "by the intervals the error is within {near_rater:g} of the scale of one rater's, and "
        "below a constant's, and the tenth that people rate lowest is in the lower half",
        "better than a constant, by R2 and by the error: right on average, not for each system",
        "R2 is below {explains:g} by its interval, or a constant's error is no larger",
    ),
    "replace_rater": Rule(
        "replace a rater",
        "weighted kappa with one rater, compared with rater to rater, and the place that it gives to "
        "the tenth of the texts that people rate lowest",
        "of {labels:g} texts and 3 raters or more, the kappa is {alike:g} of the raters' by the "
        "interval, and the lowest tenth is in the lower half",
        "neither yes nor no",
        "the kappa is below {half_way:g} of the raters' by the interval, the lowest tenth is in the "
        "upper half, or it does not order texts",
    ),
    "resist_attacks": Rule(
        "resist attacks",
        "of the attacks that were run: change of the mean score, texts that rise less those that "
        "fall, loss of order",
        "by the intervals within {attack_change:g} of the range, {attack_rise:g} of the texts, "
        "{attack_order:g} of rho",
        "within all three with a defense",
        "beyond one of them",
    ),
    "steady": Rule(
        "steady",
        "of the audit, the largest effect of what should not matter: length, language, format, "
        "family and place at equal quality, and probes that change one thing",
        "by the intervals every effect is within {steady:g} of the humans' scale, and probes were "
        "asked",
        "so are those of the data, and nothing was probed",
        "an effect beyond that is told from chance among all of them",
    ),
}
"""Use -> its rule, in the order in which they are shown; margins by their names, see `rules_of`."""


BESIDE = ("resist_attacks", "steady")
"""Uses that are about what moves the judge, whatever it is worth on clean texts."""


def rules_of(config: Row) -> dict[str, Rule]:
    """Use -> its rule, with the margins of a run's configuration; of one without, the default
    ones."""
    # the rule as it was applied: a run may have margins of its own
    margins = vars(settings_of(Margins, config.get("verdict") or {}, "verdict"))
    rules = {}
    for use, rule in RULES.items():
        rules[use] = Rule(*[text.format(**margins) for text in rule])
    return rules


def half_of_way(margins: Margins, rater: float) -> float:
    """The share of pairs, or of texts, that is half of the way from a coin to one rater's."""
    return COIN + margins.half_way * (max(rater, COIN) - COIN)


def articles_needed(groups: int, width: float, distance: float) -> int | None:
    """Articles, more than these, of which an interval as wide as this one is no wider than a
    distance; None where there is no distance, or no width is known."""
    if distance <= 0 or math.isinf(width):
        return None
    return max(math.ceil(groups * (width / distance) ** 2), groups + 1)


class Verdict(NamedTuple):
    """A verdict on one use.

    Attributes:
        clause: its reason, by a template of words/sentences (clause*.txt).
        value, rater: the number behind it, and one rater's.
        needed: how many articles would do, where they are too few.
        scores: whether it is of raw or calibrated scores.
    """

    verdict: str
    clause: str
    value: Estimate | None = None
    rater: Estimate | None = None
    needed: int | None = None
    scores: str | None = None

    @property
    def record(self) -> Record:
        """Its keys of verdict.json."""
        return {
            "verdict": self.verdict,
            "clause": self.clause,
            **keys_of("value", self.value),
            **keys_of("rater", self.rater),
            "needed": self.needed,
            "scores": self.scores,
        }
