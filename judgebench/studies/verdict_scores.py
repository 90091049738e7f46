"""Verdicts on scores as points, and on a judge that replaces a rater."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from judgebench.stats.agreement import FEWEST_RATERS
from judgebench.stats.clusters import Estimate, ends_of
from judgebench.studies.evaluate import CONSTANT
from judgebench.studies.findings import JudgeFindings
from judgebench.studies.humans import CALIBRATED, RAW
from judgebench.studies.replaced import KAPPAS, WORST
from judgebench.studies.rules import CARE, FEW, NO, UNMEASURED, YES, Verdict, articles_needed
from judgebench.types import Scale
from judgebench.words.formats import say

_LEAST_KAPPA = 0.1  # raters who agree no better do not tell texts apart
_MIDDLE = 0.5  # the place of a text drawn at random
_ASSUMED_PLACE = 0.25  # that one rater gives to the lowest tenth, where no text has two ratings

_clause = partial(say, "clause_scores")


def scores_verdict(facts: JudgeFindings) -> Verdict:
    """By the error of the better of raw and calibrated scores, near to a rater's and below a
    constant's, each by the interval's end."""
    scale = facts.sample.scale
    if scale is None or facts.calibrated.get("mae") is None:
        return Verdict(UNMEASURED, _clause(part="unknown"))
    errors = _errors(facts)
    # 1. the scores that explain something of the ratings
    unseen = facts.calibrated.get("r2_unseen_low") is not None
    r2 = Estimate.of(facts.calibrated, "r2_unseen" if unseen else "r2")
    explains = _explains(facts, r2)
    raw_explain = _explains(facts, Estimate.of(facts.raw, "r2"))
    scores = CALIBRATED
    if explains:
        scores = errors.better
    elif raw_explain:
        scores = RAW
    error = errors.errors[scores]
    said = Verdict(CARE, "", error, errors.rater, scores=scores)
    # 2. one score for every text may lie nearer to the mean rating than the other articles'
    # mean
    if error is None or CONSTANT in facts.flags or not (explains or raw_explain):
        return _unexplained(facts, said, r2)
    # 3. their error; of classes the Brier score, as a distance rewards saying the commoner one
    if facts.decision.get("brier") is not None and errors.rater is None:
        clause = _clause(part="brier", decision=facts.decision)
        return said._replace(clause=clause, value=errors.errors[CALIBRATED], scores=CALIBRATED)
    return _by_error(facts, said, error, errors, scale)


def _by_error(
    facts: JudgeFindings, said: Verdict, error: Estimate, errors: _Errors, scale: Scale
) -> Verdict:
    """The verdict on scores that explain something of the ratings."""
    lowest, highest = scale
    saved = errors.saved[str(said.scores)]
    near = math.inf
    if errors.rater:
        near = errors.rater.value + facts.margins.near_rater * (highest - lowest)
    # a constant costs nothing: a judge that is no nearer than that is no use for scores
    if saved is not None and saved.value <= 0:
        verdict, part = NO, "constant"
    # as near as a rater, and nearer than always saying the mean, each by the interval's end
    elif errors.rater is None or error.value > near:
        verdict, part = CARE, "far"
    elif ends_of(saved)[0] <= 0:
        verdict, part = CARE, "chance"
    elif ends_of(error)[1] > near:
        verdict, part = CARE, "interval"
    else:
        verdict, part = YES, "near"
    clause = _clause(part=part, error=error, errors=errors, scores=said.scores, scale=scale)
    return said._replace(verdict=verdict, clause=clause)


def _errors(facts: JudgeFindings) -> _Errors:
    """Of the system that is farthest off, where there are several systems and single raters;
    else of single texts: to single ratings, or to the humans' means where no more is known."""
    system = facts.system
    of_systems = _Errors(
        what="largest system error",
        always="mean",
        errors={
            RAW: Estimate.of(system, "error_largest"),
            CALIBRATED: Estimate.of(system, "unseen_error_largest"),
        },
        saved={
            RAW: Estimate.of(system, "error_largest_saved"),
            CALIBRATED: Estimate.of(system, "unseen_error_largest_saved"),
        },
        rater=Estimate.of(system, "rater_error_largest"),
        constant=system.get("constant_error_largest"),
        better=str(system.get("better_scores")),
    )
    # scores are reported of systems, so the worst of these is what a reader may be misled by
    if of_systems.rater and all(of_systems.errors.values()):
        return of_systems
    rater = Estimate.of(facts.human, "single_mae")
    name = "single_mae" if rater else "mae"
    records = {RAW: facts.raw, CALIBRATED: facts.calibrated}
    return _Errors(
        what="off by",
        always="median",
        errors={scores: Estimate.of(row, name) for scores, row in records.items()},
        saved={scores: Estimate.of(row, "constant_saved") for scores, row in records.items()},
        rater=rater,
        constant=facts.calibrated.get("constant_mae"),
        better=str(facts.calibrated["better_scores"]),
    )


def _unexplained(facts: JudgeFindings, said: Verdict, r2: Estimate | None) -> Verdict:
    """The verdict on scores that do not explain enough of the ratings, or of which it is not
    known."""
    if r2 is None:
        return said._replace(verdict=UNMEASURED, clause=_clause(part="unexplained"))
    margin = facts.margins.explains
    if CONSTANT in facts.flags or r2.low is None or r2.high is None or r2.high < margin:
        return said._replace(verdict=NO, clause=_clause(part="hardly", r2=r2, margin=margin))
    # so many articles narrow the interval to the way from 0 to the value, or to the margin
    if r2.value >= margin:
        needed = articles_needed(facts.groups, r2.value - r2.low, r2.value)
    else:
        needed = articles_needed(facts.groups, r2.high - r2.low, margin)
    clause = _clause(part="few", r2=r2, needed=needed)
    return said._replace(verdict=FEW, clause=clause, needed=needed)


def _explains(facts: JudgeFindings, r2: Estimate | None) -> bool:
    """True where scores are clearly better than always saying the mean rating."""
    return r2 is not None and ends_of(r2)[0] > 0 and r2.value >= facts.margins.explains


def rater_verdict(facts: JudgeFindings, texts: Verdict) -> Verdict:
    """By the weighted kappa with one rater, compared with that of raters with each other, of a
    judge that orders texts."""
    kappa, rater = (Estimate.of(facts.replaced, name) for name in KAPPAS)
    if kappa is None or rater is None or rater.low is None:
        return Verdict(UNMEASURED, say("clause_rater", part="few shared"))
    margins = facts.margins
    number = facts.replaced["texts"]
    low, high = ends_of(kappa)
    fewest = None
    # 1. nothing to be measured by
    if rater.low <= 0 or rater.value < _LEAST_KAPPA:
        verdict, part = UNMEASURED, "hardly"
    # 2. clearly below half of theirs, clearly near to it, or neither
    elif high < margins.half_way * rater.value:
        verdict, part = NO, "kappa"
    elif texts.verdict == NO:
        verdict, part = NO, "no order"
    elif low < margins.alike * rater.value:
        verdict, part = CARE, "kappa"
    # 3. few raters or texts
    elif len(facts.sample.raters) < FEWEST_RATERS:
        verdict, part, fewest = CARE, "few raters", FEWEST_RATERS
    elif number < margins.labels:
        verdict, part, fewest = CARE, "few texts", margins.labels
    else:
        verdict, part = YES, "kappa"
    clause = say("clause_rater", part=part, kappa=kappa, rater=rater, texts=number, fewest=fewest)
    return Verdict(verdict, clause, kappa, rater, scores=facts.replaced["scores"])


def by_lowest(facts: JudgeFindings, said: Verdict) -> Verdict:
    """A verdict on scores, by the place that they give to the texts that people rate lowest."""
    if said.verdict == YES and facts.follows_one:
        said = said._replace(verdict=CARE, clause=_clause(part="one alone", clause=said.clause))
    place, rater = (Estimate.of(facts.replaced, name) for name in WORST)
    if said.verdict not in (YES, CARE) or place is None or place.low is None:
        return said
    # averages hide the bad texts, which are few, and for which judges are asked
    person = rater.value if rater else _ASSUMED_PLACE
    half = _MIDDLE - facts.margins.half_way * (_MIDDLE - person)
    low, high = ends_of(place)
    verdict = CARE
    if low > _MIDDLE:
        verdict = NO
    elif low <= half and (said.verdict == CARE or (place.value <= half and high < _MIDDLE)):
        return said
    clause = _clause(part="lowest", clause=said.clause, place=place.value)
    return said._replace(verdict=verdict, clause=clause)


class _Errors(NamedTuple):
    """Errors in points, and what a use of scores compares them with.

    Attributes:
        what: the words before an error.
        always: what a constant says: the mean, or the median, which is nearest to single ratings.
        errors, saved: of raw and of calibrated scores; and what each saves of a constant's error.
        rater, constant: the errors of one rater, and of that constant.
        better: raw or calibrated.
    """

    what: str
    always: str
    errors: Mapping[str, Estimate | None]
    saved: Mapping[str, Estimate | None]
    rater: Estimate | None
    constant: float | None
    better: str
