"""Verdicts on scores as points, and on a judge that replaces a rater."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from judgebench.stats.agreement import FEWEST_RATERS
from judgebench.stats.clusters import Estimate, ends_of
from judgebench.studies.clauses import articles_needed, may_tell, percent_of, two_decimals
from judgebench.studies.evaluate import CONSTANT
from judgebench.studies.findings import JudgeFindings
from judgebench.studies.humans import CALIBRATED, RAW
from judgebench.studies.replaced import KAPPAS, WORST
from judgebench.studies.rules import CARE, FEW, NO, THIRD, UNMEASURED, YES, Verdict
from judgebench.types import Scale

_LEAST_KAPPA = 0.1  # raters who agree no better do not tell texts apart
_MIDDLE = 0.5  # the place of a text drawn at random
_ASSUMED_PLACE = 0.25  # that one rater gives to the lowest tenth, where no text has two ratings


def scores_verdict(facts: JudgeFindings) -> Verdict:
    """By the error of the better of raw and calibrated scores, near to a rater's and below a
    constant's, each by the interval's end."""
    scale = facts.sample.scale
    if scale is None or facts.calibrated.get("mae") is None:
        clause = "the humans' scale is unknown, or there is nothing to calibrate by"
        return Verdict(UNMEASURED, clause)
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
    brier = facts.decision.get("brier")
    if brier is not None and errors.rater is None:
        constant = facts.decision["brier_constant"]
        clause = f"Brier score {brier:.3f}, always saying the share that passes {constant:.3f}"
        chance = errors.errors[CALIBRATED]
        return said._replace(clause=clause, value=chance, scores=CALIBRATED)
    return _by_error(facts, said, error, errors, scale)


def _by_error(
    facts: JudgeFindings, said: Verdict, error: Estimate, errors: _Errors, scale: Scale
) -> Verdict:
    """The verdict on scores that explain something of the ratings."""
    scores = str(said.scores)
    lowest, highest = scale
    # 1. the sentence
    what = errors.what if scores == RAW else f"calibrated: {errors.what}"
    of_scale = f"of {lowest:g}-{highest:g}"
    off = f"{what} {error.value:.2f} {of_scale}"
    constant = f"always the {errors.always} rating {two_decimals(errors.constant)}"
    saved = errors.saved[scores]
    # a constant costs nothing: a judge that is no nearer than that is no use for scores
    if saved is not None and saved.value <= 0:
        return said._replace(verdict=NO, clause=f"{off}; {constant}")
    # 2. as near as a rater
    rater = errors.rater
    other = errors.other(scores)
    if rater is None:
        return said._replace(clause=off + other)
    person = f"; rater {rater.value:.2f}"
    width = highest - lowest
    near = rater.value + facts.margins.near_rater * width
    if error.value > near:
        return said._replace(clause=off + other + person)
    # 3. nearer than always saying the mean, each by the interval's end
    least_saved, _ = ends_of(saved)
    if least_saved <= 0:
        return said._replace(clause=f"{off}; {constant}, may be chance")
    _, farthest = ends_of(error)
    if farthest > near:
        return said._replace(clause=f"{what} {error:.2f} {of_scale}{person}")
    return said._replace(verdict=YES, clause=f"{off}{person}, {constant}")


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


def _unexplained(facts: JudgeFindings, verdict: Verdict, r2: Estimate | None) -> Verdict:
    """The verdict on scores that do not explain enough of the ratings, or of which it is not
    known."""
    if r2 is None:
        return verdict._replace(
            verdict=UNMEASURED, clause="how much of the ratings scores explain is unknown"
        )
    margin = facts.margins.explains
    hardly = f"hardly better than the mean rating: R² {r2:.2f}; with care from {margin:g}"
    if CONSTANT in facts.flags or r2.low is None or r2.high is None or r2.high < margin:
        return verdict._replace(verdict=NO, clause=hardly)
    # so many articles narrow the interval to the way from 0 to the value, or to the margin
    if r2.value >= margin:
        needed = articles_needed(facts.groups, r2.value - r2.low, r2.value)
    else:
        needed = articles_needed(facts.groups, r2.high - r2.low, margin)
    return verdict._replace(
        verdict=FEW,
        clause=f"R² {r2:.2f}, compared with the mean rating{may_tell(needed)}",
        needed=needed,
    )


def _explains(facts: JudgeFindings, r2: Estimate | None) -> bool:
    """True where scores are clearly better than always saying the mean rating."""
    return r2 is not None and ends_of(r2)[0] > 0 and r2.value >= facts.margins.explains


def rater_verdict(facts: JudgeFindings, texts: Verdict) -> Verdict:
    """By the weighted kappa with one rater, compared with that of raters with each other, of a
    judge that orders texts."""
    kappa, rater = (Estimate.of(facts.replaced, name) for name in KAPPAS)
    if kappa is None or rater is None or rater.low is None:
        return Verdict(UNMEASURED, "too few raters share texts")
    # 1. the sentence
    clause = f"kappa with a rater {kappa:.2f}; raters with each other {rater.value:.2f}"
    said = Verdict(CARE, clause, kappa, rater, scores=facts.replaced["scores"])
    # 2. nothing to be measured by
    if rater.low <= 0 or rater.value < _LEAST_KAPPA:
        hardly = f"raters hardly agree: kappa {rater.value:.2f}"
        return said._replace(verdict=UNMEASURED, clause=hardly)
    # 3. clearly below half of theirs, clearly near to it, or neither
    low, high = ends_of(kappa)
    if high < facts.margins.half_way * rater.value:
        return said._replace(verdict=NO)
    if texts.verdict == NO:
        return said._replace(verdict=NO, clause=f"it does not order texts; {clause}")
    if low < facts.margins.alike * rater.value:
        return said
    # 4. few raters or texts
    few = ""
    if len(facts.sample.raters) < FEWEST_RATERS:
        few = f"; yes takes {FEWEST_RATERS} raters"
    elif facts.replaced["texts"] < facts.margins.labels:
        few = f"; {facts.replaced['texts']} texts, and yes takes {facts.margins.labels}"
    return said._replace(verdict=CARE if few else YES, clause=clause + few)


def by_lowest(facts: JudgeFindings, verdict: Verdict) -> Verdict:
    """A verdict on scores, by the place that they give to the texts that people rate lowest."""
    if verdict.verdict == YES and facts.follows_one:
        verdict = verdict._replace(verdict=CARE, clause=f"{verdict.clause}; {THIRD}")
    place, rater = (Estimate.of(facts.replaced, name) for name in WORST)
    if verdict.verdict not in (YES, CARE) or place is None or place.low is None:
        return verdict
    # averages hide the bad texts, which are few, and for which judges are asked
    person = rater.value if rater else _ASSUMED_PLACE
    half = _MIDDLE - facts.margins.half_way * (_MIDDLE - person)
    low, high = ends_of(place)
    lies = f"the tenth that people rate lowest lies above {percent_of(place.value)} % of texts"
    clause = f"{verdict.clause}; {lies}"
    if low > _MIDDLE:
        return verdict._replace(verdict=NO, clause=clause)
    if low > half or (verdict.verdict == YES and (place.value > half or high >= _MIDDLE)):
        return verdict._replace(verdict=CARE, clause=clause)
    return verdict


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

    def other(self, scores: str) -> str:
        """A clause on the error of the other scores; empty where it is unknown."""
        name = RAW if scores == CALIBRATED else CALIBRATED
        error = self.errors[scores]
        other = self.errors[name]
        if error is None or other is None:
            return ""
        return f", {name} alike" if other.value < error.value else f", {name} {other.value:.2f}"
