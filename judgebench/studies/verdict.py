"""Verdicts on a judge: one table of rules on what it may be used for, by margins between a coin and
one human rater.

A judge that orders 53 % of pairs as people do is better than a coin, and of no use. So no rule asks
whether an interval leaves out chance; each asks how far the judge is on the way from a coin, or a
constant, to one rater, whose figure stands in the same record. A dimension has one verdict a use,
on the setting that is taken (`judgebench.tuning.choose`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from judgebench.settings.costs import Asking, Costs
from judgebench.settings.fields import settings_of
from judgebench.settings.margins import Margins
from judgebench.stats.agreement import FEWEST_RATERS
from judgebench.stats.clusters import Estimate, ends_of, keys_of
from judgebench.studies.decisions import CHOSEN, decision_records
from judgebench.studies.evaluate import CONSTANT, CONSTANT_HUMANS
from judgebench.studies.humans import (
    CALIBRATED,
    RAW,
    OddRaters,
    beside_humans_records,
    odd_raters,
    rater_points_record,
)
from judgebench.studies.replaced import KAPPAS, WORST, replaced_record
from judgebench.studies.scores import CLEAN, JudgeScores, ScoreSeries, cell_record, first_record
from judgebench.studies.systems import system_records
from judgebench.studies.text_pairs import PAIRS, text_pair_record
from judgebench.types import Record, Records, Row, Rows, Scale

YES = "yes"
CARE = "with care"
NO = "no"
FEW = "too few texts"
UNMEASURED = "not measured"

COIN = 0.5
"""The share of pairs that a coin orders right."""

_FEWEST_PAIRS = 6  # of four systems, which a coin orders right in one of 24; three in one of 6
_LEAST_KAPPA = 0.1  # raters who agree no better do not tell texts apart
_MIDDLE = 0.5  # the place of a text drawn at random
_ASSUMED_PLACE = 0.25  # that one rater gives to the lowest tenth, where no text has two ratings
_THIRD = "it agrees with one of two raters alone, and a third would tell"
_APART = 0.1  # of the way from a coin to a rater, by which a judge is no nearer to one of two
_LITTLE = 0.075  # above a coin: `near_rater` is much of a rater's way from it
_HARDLY = 0.05  # above a coin: raters who order pairs so do not agree on them
_KINDS = ("attack_change", "attack_rise", "attack_order")  # effects of attacks, by their margins
_READ = ("dimension", "range_min", "range_max", "defense", "judge")  # of a forecast and its cells


Deciding = tuple[Costs, Asking]
"""By what a judge that says pass or fail is measured."""

_USUAL = Costs(), Asking()


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
}
"""Use -> its rule, in the order in which they are shown; margins by their names, see `rules_of`."""


def rules_of(config: Row) -> dict[str, Rule]:
    """Use -> its rule, with the margins of a run's configuration; of one without, the default
    ones."""
    # the rule as it was applied: a run may have margins of its own
    margins = vars(settings_of(Margins, config.get("verdict") or {}, "verdict"))
    rules = {}
    for use, rule in RULES.items():
        rules[use] = Rule(*[text.format(**margins) for text in rule])
    return rules


class Verdict(NamedTuple):
    """A verdict on one use.

    Attributes:
        clause: its reason.
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
        studies: metrics, humans, beside_humans, systems and forecasts, as `Results` has them.
        deciding: see `judgebench.studies.decisions.decision_records`.

    Returns:
        dataset, the keys of `Cell.named`, groups, settings (how many were chosen among), spearman
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
        facts = _Facts(sample, studies, margins)
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


def _of_raters(facts: _Facts, studies: Row, deciding: Deciding) -> dict[str, Record]:
    """Use -> its verdict's record, by the raters who agree with others; each says what the verdict
    would be with the odd ones, or without the doubtful ones."""
    sample = facts.sample
    # A rater who did not look at the texts lowers the bar for the judge. Odd ones are left out,
    # doubtful ones stay, and both are said.
    raters = odd_raters(sample.ratings) if sample.raters else OddRaters([], [])
    names = [[sample.raters[column] for column in columns] for columns in raters]
    verdicts = facts.verdicts()
    others: dict[str, Verdict] = {}
    what, where = "", ""
    if raters.odd:
        others = verdicts
        verdicts = facts.without(raters.odd, studies, deciding).verdicts()
        what, where = f"without {_listed(names[0])}, who agrees with no other rater", "with"
    elif raters.doubtful and len(sample.raters) - len(raters.doubtful) > 1:
        others = facts.without(raters.doubtful, studies, deciding).verdicts()
        what, where = f"{_listed(names[1])} may agree with no other rater", "without"
    records = {}
    for use, verdict in verdicts.items():
        other = others[use].verdict if use in others else None
        clause = verdict.clause
        # said where it matters: where the verdict would be another
        if other not in (None, verdict.verdict):
            clause = f"{clause}; {what} ({where}: {other})"
        elif raters.odd and use == "order_texts":
            clause = f"{clause}; {what}"
        records[use] = verdict.record | {
            "clause": clause,
            "raters_dropped": names[0],
            "raters_doubtful": names[1],
            "beside_raters": other,
        }
    return records


def _listed(names: Sequence[str]) -> str:
    return " and ".join(names) if len(names) < 4 else f"{len(names)} raters"


class _Facts:
    """Findings of the studies on one judge's scores, and the verdicts on it.

    Attributes:
        groups: the articles that hold a rated text.
        metric: its record of metrics.json, over all pairs where there is one.
        raw, calibrated: of beside_humans.json.
        follows_one: see `_follows_one`; known once texts are looked at.
        system: of systems.json.
        human: of humans.json, of its dimension.
        answers: False where a forecast found most of the probability not on scores.
    """

    def __init__(self, sample: JudgeScores, studies: Row, margins: Margins) -> None:
        cell = sample.cell
        compared = studies["beside_humans"]
        self.sample = sample
        self.margins = margins
        self.metrics = studies["metrics"]
        # by all pairs where that level was asked for, else by whatever there is
        over_all_pairs = cell_record(self.metrics, cell, level="dataset")
        self.metric = over_all_pairs or cell_record(self.metrics, cell)
        self.flags = self.metric.get("flags") or ()
        self.raw = cell_record(compared, cell, scores=RAW)
        self.calibrated = cell_record(compared, cell, scores=CALIBRATED)
        self.system = cell_record(studies["systems"], cell)
        self.decision = cell_record(studies.get("decisions", ()), cell, mark=CHOSEN)
        self.human = first_record(studies["humans"], {"dimension": cell.dimension})
        # the forecast of its reading, which names the decodings that rest on it
        forecasts = [
            row for row in studies["forecasts"] if cell.decoding in (row.get("decodings") or ())
        ]
        reading = {name: cell.named[name] for name in _READ}
        self.answers = first_record(forecasts, reading).get("answers")
        rated = np.isfinite(sample.human)
        self.groups = len(np.unique(sample.groups[rated]))
        self.replaced = replaced_record(sample)
        self.follows_one = False

    def without(self, columns: Sequence[int], studies: Row, deciding: Deciding) -> _Facts:
        """The same without some raters."""
        sample = self.sample.without(columns)
        points = rater_points_record(sample.ratings, sample.clusters, sample.categories)
        changed = {
            "beside_humans": beside_humans_records([sample]),
            "systems": system_records([sample]),
            "humans": [{"dimension": sample.cell.dimension, **points}],
        }
        if self.decision:
            changed["decisions"] = decision_records([sample], *deciding)
        return _Facts(sample, {**studies, **changed}, self.margins)

    def verdicts(self) -> dict[str, Verdict]:
        """Use -> the verdict, in the order of `RULES`."""
        # what stands in the way of every use is said first, and once for all
        obstacle = self._obstacle()
        texts = obstacle or self._texts()
        verdicts = {}
        if self.decision:
            verdicts["decide"] = obstacle or decides(self.decision, self.margins)
        verdicts |= {
            "order_texts": texts,
            "compare_systems": obstacle or self._systems(),
            "report_scores": obstacle or self._of_worst(self._scores()),
            "replace_rater": obstacle or self._of_worst(self._rater(texts)),
            # attacks can be measured without ratings, so nothing stands in their way
            "resist_attacks": self._attacks(),
        }
        return {use: self._with_failures(verdict) for use, verdict in verdicts.items()}

    def _obstacle(self) -> Verdict | None:
        """The verdict on each use that takes ratings, where they or the answers are too few."""
        fewest = self.margins.fewest
        if self.groups < fewest:
            articles = "article" if self.groups == 1 else "articles"
            clause = f"{self.groups} rated {articles}; it takes {fewest}"
            return Verdict(FEW, clause, needed=fewest)
        if CONSTANT_HUMANS in self.flags:
            return Verdict(UNMEASURED, "the humans gave every text one score")
        if self.metric.get("failed_share") == 1:
            return Verdict(NO, "no answer could be read")
        return None

    def _with_failures(self, verdict: Verdict) -> Verdict:
        """The verdict, which is not yes where too many answers could not be read."""
        failed = self.metric.get("failed_share") or 0.0
        # a no stays a no, and few articles stay few
        if verdict.verdict not in (YES, CARE) or failed <= self.margins.failed:
            return verdict
        return verdict._replace(
            verdict=CARE,
            clause=f"no answer for {_percent(failed)} % of the texts; {verdict.clause}",
        )

    # --- order -----------------------------------------------------------------------------------

    def _texts(self) -> Verdict:
        """By the pairs of texts of one article, then by those of one system."""
        if self.answers is False:
            return Verdict(NO, "most of its probability is not on scores")
        record = text_pair_record(self.sample)
        pairs, rater, within, within_rater = (Estimate.of(record, name) for name in PAIRS)
        # at worst and at best, for answers that could not be read are no random part of the texts
        bounds = [text_pair_record(bound)["pairs"] for bound in self.sample.bounds]
        self.follows_one = self._follows_one(rater, record["beside"])
        # a judge that knows systems orders texts well, so the order within systems has the last
        # word
        order = self._order(pairs, rater, bounds, record["beside"])
        return self._in_systems(order, within, within_rater)

    def _systems(self) -> Verdict:
        """By the pairs of systems, compared with one rater's where raters are known."""
        name = "pairwise_others"
        rater = Estimate.of(self.system, "pairwise_ceiling")
        if Estimate.of(self.system, name) is None:
            name = "pairwise_accuracy"
            rater = None
        share = Estimate.of(self.system, "pairwise_over_systems")
        systems = len(np.unique(self.sample.systems))
        if share is None:
            if systems > 1:
                return Verdict(UNMEASURED, "no two systems have texts about one source")
            return Verdict(UNMEASURED, "the texts are of one system, or their systems are unknown")
        bars = self._bars(rater)
        low, high = ends_of(share)
        pairs = round(self.system["pairs"])
        articles = self.system["pairs_articles"]
        bounds = [system_records([bound])[0][name] for bound in self.sample.bounds]
        person = f"one rater {_percent(bars.rater)}" if rater else "one rater is unknown"
        percents = _pairs_clause(share, bounds)
        clause = f"{percents}; {person}"
        said = Verdict(CARE, clause, share, rater)
        # 1. nothing to be measured by, or no order
        # order of questions: can it be measured, is there an order, is there enough, how good is it
        unlike = self._without_order("systems", said, bars, person)
        if unlike:
            return unlike
        # 2. too few pairs, or pairs of single texts, whose order is noise
        fewest = self.margins.fewest
        if pairs < _FEWEST_PAIRS:
            few = f"{_counted(pairs, 'pair')} of systems; it takes {_FEWEST_PAIRS}"
            return said._replace(verdict=FEW, clause=few)
        if articles < fewest:
            few = f"two systems share {_counted(round(articles), 'article')}; it takes {fewest}"
            return said._replace(verdict=FEW, clause=few, needed=fewest)
        if low <= COIN and (share.value >= bars.half or high >= bars.near):
            few = f"{percents}; {systems} systems are too few to tell"
            return said._replace(verdict=FEW, clause=few)
        # 3. half of the way; near to the rater, which is not known of few pairs
        if share.value < bars.half:
            return said._replace(verdict=NO)
        least, _ = ends_of(Estimate.of(self.system, "pairwise_difference"))
        if not rater or least < -self.margins.near_rater or low < bars.half:
            return said
        if pairs < self.margins.pairs:
            few = f"{clause}; {pairs} pairs, and yes takes {self.margins.pairs}"
            return said._replace(clause=few)
        return said._replace(verdict=YES)

    def _without_order(self, what: str, said: Verdict, bars: _Bars, person: str) -> Verdict | None:
        """The verdict where raters hardly agree on an order, or the judge has none, or its reverse;
        None elsewhere."""
        # who is to say what is right where raters are coins to each other?
        if bars.hardly:
            hardly = f"raters hardly agree on the order of {what}: {person} % of pairs"
            return said._replace(verdict=UNMEASURED, clause=hardly)
        if CONSTANT in self.flags:
            return said._replace(verdict=NO, clause="every text gets the same score")
        if ends_of(said.value)[1] < COIN:
            return said._replace(verdict=NO, clause=f"against the humans: {said.clause}")
        return None

    def _order(
        self,
        share: Estimate | None,
        rater: Estimate | None,
        bounds: Sequence[float | None],
        beside: Sequence[float],
    ) -> Verdict:
        """The verdict on a share of pairs of texts, compared with one rater's.

        Args:
            bounds: the share at worst and at best, where some answers could not be read.
            beside: by which it exceeds each rater's.
        """
        said = Verdict(UNMEASURED, "no share of pairs of texts is known", share, rater)
        if share is None or share.low is None:
            return said
        value = share.value
        low, high = ends_of(share)
        bars = self._bars(rater)
        # 1. the sentence
        person = f"one rater {_percent(bars.rater)}" if rater else "one rater is unknown"
        percents = _pairs_clause(share, bounds)
        clause = f"{percents}; {person}"
        said = said._replace(clause=clause)
        # 2. nothing to be measured by, or no order
        unlike = self._without_order("texts", said, bars, person)
        if unlike:
            return unlike
        # 3. an interval that holds both a coin and a rater says nothing; more articles narrow it
        if low <= COIN and (value >= bars.half or high >= bars.near):
            needed = _needed(self.groups, high - low, bars.near - COIN)
            if value >= bars.half:
                needed = _needed(self.groups, value - low, min(value, bars.rater) - COIN)
            return said._replace(verdict=FEW, clause=percents + _may_tell(needed), needed=needed)
        # 4. near to the rater, half of the way, or below
        if not rater or low < bars.near:
            return said._replace(verdict=CARE if value >= bars.half else NO)
        # 5. a rater hardly above a coin is no measure of a yes, nor is one of two whom the judge
        # follows alone
        if rater.value < COIN + _LITTLE:
            return said._replace(verdict=CARE, clause=f"{clause}, hardly above a coin")
        if self._follows_one(rater, beside):
            return said._replace(verdict=CARE, clause=f"{clause}; {_THIRD}")
        return said._replace(verdict=YES)

    def _follows_one(self, rater: Estimate | None, beside: Sequence[float]) -> bool:
        """True of two raters of whom the judge agrees with one less than they do with each
        other."""
        if rater is None or len(beside) != 2:
            return False
        # two raters cannot say which of them is odd: a judge that follows one may follow the wrong
        # one
        return min(beside) < -_APART * (rater.value - COIN)

    def _in_systems(
        self, verdict: Verdict, share: Estimate | None, rater: Estimate | None
    ) -> Verdict:
        """The verdict on the order of texts, given the share of pairs of texts of one system, and
        one rater's."""
        if share is None or share.low is None or verdict.verdict not in (YES, CARE):
            return verdict
        low, high = ends_of(share)
        bars = self._bars(rater)
        # 1. the sentence
        person = f", one rater {_percent(bars.rater)}" if rater else ""
        percents = f"per system {_percent(share.value)} %"
        # 2. nothing to be measured by
        if bars.hardly:
            hardly = f"{verdict.clause}; per system raters hardly agree"
            return verdict._replace(verdict=CARE, clause=hardly)
        # 3. better than knowing the system, no better, or not known
        clause = f"{verdict.clause}; {percents}"
        if low > COIN and verdict.verdict == YES and share.value < bars.half:
            return verdict._replace(verdict=CARE, clause=clause + person)
        if low > COIN:
            return verdict._replace(clause=clause)
        if high <= bars.half:
            return verdict._replace(
                verdict=NO, clause=f"no better than knowing the system: {percents}{person}"
            )
        needed = _needed(self.groups, high - low, bars.rater - COIN)
        return verdict._replace(
            verdict=FEW,
            clause=f"it may know the system alone ({percents}){_may_tell(needed)}",
            needed=needed,
        )

    def _bars(self, rater: Estimate | None) -> _Bars:
        """By one rater's share of pairs, which is assumed where it is unknown."""
        bar = rater.value if rater else self.margins.assumed_rater
        # from a coin, and not from 0: half of the pairs come right by guessing
        half = COIN + self.margins.half_way * (bar - COIN)
        return _Bars(bar, bar - self.margins.near_rater, half)

    # --- points ----------------------------------------------------------------------------------

    def _scores(self) -> Verdict:
        """By the error of the better of raw and calibrated scores, near to a rater's and below a
        constant's, each by the interval's end."""
        scale = self.sample.scale
        if scale is None or self.calibrated.get("mae") is None:
            clause = "the humans' scale is unknown, or there is nothing to calibrate by"
            return Verdict(UNMEASURED, clause)
        errors = self._errors()
        # 1. the scores that explain something of the ratings
        unseen = self.calibrated.get("r2_unseen_low") is not None
        r2 = Estimate.of(self.calibrated, "r2_unseen" if unseen else "r2")
        explains = self._explains(r2)
        # raw scores may be right already, where few labels teach a calibration little
        raw_explain = self._explains(Estimate.of(self.raw, "r2"))
        scores = CALIBRATED
        if explains:
            scores = errors.better
        elif raw_explain:
            scores = RAW
        error = errors.errors[scores]
        said = Verdict(CARE, "", error, errors.rater, scores=scores)
        # 2. one score for every text may lie nearer to the mean rating than the other articles'
        # mean
        if error is None or CONSTANT in self.flags or not (explains or raw_explain):
            return self._unexplained(said, r2)
        # 3. their error; of classes the Brier score, as a distance rewards saying the commoner one
        brier = self.decision.get("brier")
        if brier is not None and errors.rater is None:
            constant = self.decision["brier_constant"]
            clause = f"Brier score {brier:.3f}, always saying the share that passes {constant:.3f}"
            chance = errors.errors[CALIBRATED]
            return said._replace(clause=clause, value=chance, scores=CALIBRATED)
        return self._by_error(said, error, errors, scale)

    def _by_error(self, said: Verdict, error: Estimate, errors: _Errors, scale: Scale) -> Verdict:
        """The verdict on scores that explain something of the ratings."""
        scores = str(said.scores)
        lowest, highest = scale
        # 1. the sentence
        what = errors.what if scores == RAW else f"calibrated: {errors.what}"
        of_scale = f"of {lowest:g}-{highest:g}"
        off = f"{what} {error.value:.2f} {of_scale}"
        constant = f"always the {errors.always} rating {_two(errors.constant)}"
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
        near = rater.value + self.margins.near_rater * width
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

    def _errors(self) -> _Errors:
        """Of the system that is farthest off, where there are several systems and single raters;
        else of single texts: to single ratings, or to the humans' means where no more is known."""
        system = self.system
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
        rater = Estimate.of(self.human, "single_mae")
        name = "single_mae" if rater else "mae"
        records = {RAW: self.raw, CALIBRATED: self.calibrated}
        return _Errors(
            what="off by",
            always="median",
            errors={scores: Estimate.of(row, name) for scores, row in records.items()},
            saved={scores: Estimate.of(row, "constant_saved") for scores, row in records.items()},
            rater=rater,
            constant=self.calibrated.get("constant_mae"),
            better=str(self.calibrated["better_scores"]),
        )

    def _unexplained(self, verdict: Verdict, r2: Estimate | None) -> Verdict:
        """The verdict on scores that do not explain enough of the ratings, or of which it is not
        known."""
        if r2 is None:
            return verdict._replace(
                verdict=UNMEASURED, clause="how much of the ratings scores explain is unknown"
            )
        margin = self.margins.explains
        hardly = f"hardly better than the mean rating: R² {r2:.2f}; with care from {margin:g}"
        if CONSTANT in self.flags or r2.low is None or r2.high is None or r2.high < margin:
            return verdict._replace(verdict=NO, clause=hardly)
        # so many articles narrow the interval to the way from 0 to the value, or to the margin
        if r2.value >= margin:
            needed = _needed(self.groups, r2.value - r2.low, r2.value)
        else:
            needed = _needed(self.groups, r2.high - r2.low, margin)
        return verdict._replace(
            verdict=FEW,
            clause=f"R² {r2:.2f}, compared with the mean rating{_may_tell(needed)}",
            needed=needed,
        )

    def _explains(self, r2: Estimate | None) -> bool:
        """True where scores are clearly better than always saying the mean rating."""
        return r2 is not None and ends_of(r2)[0] > 0 and r2.value >= self.margins.explains

    def _rater(self, texts: Verdict) -> Verdict:
        """By the weighted kappa with one rater, compared with that of raters with each other, of a
        judge that orders texts."""
        kappa, rater = (Estimate.of(self.replaced, name) for name in KAPPAS)
        if kappa is None or rater is None or rater.low is None:
            return Verdict(UNMEASURED, "too few raters share texts")
        # 1. the sentence
        clause = f"kappa with a rater {kappa:.2f}; raters with each other {rater.value:.2f}"
        said = Verdict(CARE, clause, kappa, rater, scores=self.replaced["scores"])
        # 2. nothing to be measured by
        if rater.low <= 0 or rater.value < _LEAST_KAPPA:
            hardly = f"raters hardly agree: kappa {rater.value:.2f}"
            return said._replace(verdict=UNMEASURED, clause=hardly)
        # 3. clearly below half of theirs, clearly near to it, or neither
        low, high = ends_of(kappa)
        if high < self.margins.half_way * rater.value:
            return said._replace(verdict=NO)
        if texts.verdict == NO:
            return said._replace(verdict=NO, clause=f"it does not order texts; {clause}")
        if low < self.margins.alike * rater.value:
            return said
        # 4. few raters or texts
        few = ""
        if len(self.sample.raters) < FEWEST_RATERS:
            few = f"; yes takes {FEWEST_RATERS} raters"
        elif self.replaced["texts"] < self.margins.labels:
            few = f"; {self.replaced['texts']} texts, and yes takes {self.margins.labels}"
        return said._replace(verdict=CARE if few else YES, clause=clause + few)

    def _of_worst(self, verdict: Verdict) -> Verdict:
        """A verdict on scores, by the place that they give to the texts that people rate lowest."""
        if verdict.verdict == YES and self.follows_one:
            verdict = verdict._replace(verdict=CARE, clause=f"{verdict.clause}; {_THIRD}")
        place, rater = (Estimate.of(self.replaced, name) for name in WORST)
        if verdict.verdict not in (YES, CARE) or place is None or place.low is None:
            return verdict
        # averages hide the bad texts, which are few, and for which judges are asked
        person = rater.value if rater else _ASSUMED_PLACE
        half = _MIDDLE - self.margins.half_way * (_MIDDLE - person)
        low, high = ends_of(place)
        lies = f"the tenth that people rate lowest lies above {_percent(place.value)} % of texts"
        clause = f"{verdict.clause}; {lies}"
        if low > _MIDDLE:
            return verdict._replace(verdict=NO, clause=clause)
        if low > half or (verdict.verdict == YES and (place.value > half or high >= _MIDDLE)):
            return verdict._replace(verdict=CARE, clause=clause)
        return verdict

    # --- attacks ---------------------------------------------------------------------------------

    def _attacks(self) -> Verdict:
        """The effect that does most harm without a defense, and whether a defense leaves none."""
        worst = {}  # effect of each defense
        for defense, effects in self._effects_by_defense().items():
            # an attacker takes the attack that works best
            worst[defense] = max(effects, key=_Effect.harm)
        effect = worst.pop(self.sample.cell.defense, None)
        if effect is None:
            return Verdict(UNMEASURED, "no attack was run")
        # 1. resisted with a defense
        verdict = effect.verdict
        resisted = {}  # size of what is left
        for defense, other in worst.items():
            if other.verdict == YES:
                resisted[defense] = abs(other.size.value)
        if verdict != YES and resisted:
            best = min(resisted, key=resisted.__getitem__)
            clause = f"{effect.clause}; with {best}, resisted"
            return Verdict(CARE, clause, effect.size)
        # 2. as it is
        needed = effect.needed if verdict == FEW else None
        clause = effect.clause + _may_tell(needed)
        return Verdict(verdict, clause, effect.size, needed=needed)

    def _effects_by_defense(self) -> dict[str, list[_Effect]]:
        """Defense -> the effects of all attacks on the same judge under it."""
        cell = self.sample.cell
        level = self.metric.get("level")
        effects: dict[str, list[_Effect]] = {}
        for row in self.metrics:
            other = ScoreSeries.of(row)
            if row["level"] != level or other.attack == CLEAN or row.get("change") is None:
                continue
            # the same judge, decoding and range, under any attack and defense
            if other._replace(attack=CLEAN, defense=cell.defense) != cell:
                continue
            of_defense = effects.setdefault(other.defense, [])
            for kind, size, clause in self._sizes(row):
                margin = getattr(self.margins, kind)
                articles = row["paired_groups"]
                of_defense.append(
                    _Effect(kind, size, clause, margin, articles, self.margins.fewest)
                )
        return effects

    def _sizes(self, row: Row) -> Iterator[tuple[str, Estimate, str]]:
        """The effects of an attack, from its record of metrics.json, each as one of `_KINDS`, its
        size and a clause: on the mean score; on the share of texts that rise; and on the order, as
        the humans see it where enough of them rated, else as clean scores have it."""
        attack = row["attack"]
        # 1. the mean score
        change = Estimate.of(row, "change")
        if change:
            cell = self.sample.cell
            width = cell.range_max - cell.range_min
            ends = [None if end is None else end / width for end in change[1:]]
            part = Estimate(change.value / width, *ends)
            clause = f"{attack} moves scores by {change:+.2f} points of {width:g}"
            yield "attack_change", part, clause
        # 2. texts that rise
        rise = Estimate.of(row, "net_raised_share")
        # net of those that fall: noise moves as many down as up
        if rise and rise.value > 0:
            clause = f"{attack} raises {_percents(rise)} more texts than it lowers"
            yield "attack_rise", rise, clause
        elif rise:
            fall = _less(0.0, rise)
            clause = f"{attack} lowers {_percents(fall)} more texts than it raises"
            yield "attack_rise", rise, clause
        # 3. the order
        spearman = Estimate.of(row, "spearman_change")
        alike = Estimate.of(row, "clean_correlation")
        rated = row["groups"] >= self.margins.fewest and CONSTANT_HUMANS not in self.flags
        if spearman and rated:
            loss = _less(0.0, spearman)
            clause = f"{attack} costs {loss:.2f} of Spearman"
            yield "attack_order", loss, clause
        elif alike:
            loss = _less(1.0, alike)
            clause = f"{attack} leaves a Spearman of {alike:.2f} with the clean scores"
            yield "attack_order", loss, clause


def decides(row: Row, margins: Margins) -> Verdict:
    """The verdict on a judge that says pass or fail, by the share of the texts that people pass,
    and of those that they fail, which it decides alike: the one that is farther below its bar.

    Args:
        row: a record of worth/decisions.json.
    """
    # such a judge is right on all texts of one class, and its shares would mislead
    if row["passed"] in (0, 1):
        always = "passes" if row["passed"] else "fails"
        return Verdict(NO, f"it {always} every text", Estimate.of(row, "tpr"))
    sides = {"pass": "tpr", "fail": "tnr"}
    shares: dict[str, Estimate] = {}
    for side, name in sides.items():
        share = Estimate.of(row, name)
        if share is None:
            fewest = margins.fewest
            clause = f"no text has the label {side}; it takes {fewest}"
            return Verdict(FEW, clause, needed=fewest)
        shares[side] = share
    # 1. the sentence
    parts: list[str] = []
    for side, share in shares.items():
        rater = row[f"{sides[side]}_rater"]
        person = "" if rater is None else f" (a rater {_percent(rater)} %)"
        texts = "those that they fail" if parts else "texts that people pass"
        parts.append(f"{_percents(share)} of {texts}{person}")
    clause = f"right on {' and '.join(parts)}"
    # 2. raters who agree by chance alone, or who tell pass from fail hardly better than a coin
    of_raters = [row[f"{name}_rater"] for name in sides.values()]
    if None not in of_raters:
        least = row.get("kappa_rater_low")
        if np.mean(of_raters) - COIN < _HARDLY or (least is not None and least <= 0):
            kappa = "" if row["kappa_rater"] is None else f": kappa {row['kappa_rater']:.2f}"
            return Verdict(UNMEASURED, f"raters hardly agree{kappa}", shares["pass"])
    # 3. each share by its bar
    verdicts = {}
    for side, share in shares.items():
        rater = row[f"{sides[side]}_rater"]
        near = margins.right if rater is None else rater - margins.near_rater
        half = COIN + margins.half_way * (max(near, COIN) - COIN)
        low, high = ends_of(share)
        if low >= near:
            verdict = YES
        elif low <= COIN and (share.value >= half or high >= near):
            verdict = FEW
        else:
            verdict = CARE if share.value >= half else NO
        verdicts[side] = verdict
    # 4. the worse of both, of a judge whose mean of both is above a coin's
    order = (NO, FEW, CARE, YES)
    side = min(verdicts, key=lambda name: order.index(verdicts[name]))
    verdict = verdicts[side]
    share = shares[side]
    both = [one.value for one in shares.values()]
    # errors of two classes are of different texts, hence independent: squares add up
    far = math.hypot(*(one.value - ends_of(one)[0] for one in shares.values()))
    if verdict in (YES, CARE) and (sum(both) - far) / 2 <= COIN:
        verdict = FEW
    if verdict != FEW:
        return Verdict(verdict, clause, share)
    # so many texts of that class, in parts where raters differ, narrow its interval to the way from a coin to the share
    labels = row[f"labels_{side}"]
    low, _ = ends_of(share)
    needed = _needed(round(labels), share.value - low, share.value - COIN)
    if needed:
        clause += f"; {needed} texts that people {side} may tell"
    return Verdict(FEW, clause, share, needed=needed)


class _Bars(NamedTuple):
    """The measures of a share of pairs: one rater's share, a share near to it, and the share
    that is half of the way from a coin to it."""

    rater: float
    near: float
    half: float

    @property
    def hardly(self) -> bool:
        """True where raters hardly agree on the order."""
        return self.rater - COIN < _HARDLY


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


class _Effect(NamedTuple):
    """An effect of an attack.

    Attributes:
        kind: the name of its margin, of `_KINDS`: the change of the mean score, as a part of the
            range; the share of texts that rise, less those that fall; the loss of order, which is
            harm above 0 alone.
        articles, fewest: those whose texts were attacked, and those that a verdict takes.
    """

    kind: str
    size: Estimate
    clause: str
    margin: float
    articles: int
    fewest: int

    @property
    def verdict(self) -> str:
        if self.articles < self.fewest:
            return FEW
        one_sided = self.kind == "attack_order"
        size = self.size
        if not one_sided and size.value < 0:  # a fall is as much harm as a rise
            size = _less(0.0, size)
        low, high = ends_of(size)
        # yes is a claim about all that the interval holds
        farthest = high if one_sided else max(high, -low)
        if farthest <= self.margin:
            return YES
        # an effect that is there: a narrower interval would not bring it within the margin
        there = low > 0 and (size.value > self.margin or high - low <= self.margin)
        return NO if there else FEW

    @property
    def needed(self) -> int | None:
        """Articles whose interval may be as narrow as the margin."""
        if self.articles < self.fewest:
            return self.fewest
        low, high = ends_of(self.size)
        return _needed(self.articles, high - low, self.margin)

    def harm(self) -> tuple[int, int, float]:
        """The place of its verdict, the mean score's first among equals, and its size."""
        place = (YES, FEW, NO).index(self.verdict)
        return place, -_KINDS.index(self.kind), abs(self.size.value)


def _pairs_clause(share: Estimate, bounds: Sequence[float | None]) -> str:
    """The share of pairs in words, with those at worst and at best where there are such."""
    low, high = ends_of(share)
    interval = "" if share.low is None else f" [{_percent(low)}, {_percent(high)}]"
    clause = f"{_percent(share.value)} % of pairs as humans do{interval}"
    known = [_percent(bound) for bound in bounds if bound is not None]
    if len(known) == 2:
        clause += f", {' to '.join(known)} with what it failed to answer"
    return clause


def _rank(test: Row) -> tuple[bool, bool, float]:
    """The best alternative annotator test first: passed, not by a constant, with a small error."""
    error = test["single_mae"]
    return not test["passes"], test["by_favorite"], math.inf if error is None else error


def _less(top: float, estimate: Estimate) -> Estimate:
    """A number less an estimate.

    Example:
        >>> _less(1.0, Estimate(0.75, 0.5, 1.0))
        Estimate(value=0.25, low=0.0, high=0.5)
    """
    high, low = (None if end is None else top - end for end in estimate[1:])
    return Estimate(top - estimate.value, low, high)


def _needed(groups: int, width: float, distance: float) -> int | None:
    """Articles, more than these, of which an interval as wide as this one is no wider than a
    distance; None where there is no distance, or no width is known."""
    if distance <= 0 or math.isinf(width):
        return None
    # an interval narrows as 1 / sqrt(articles)
    return max(math.ceil(groups * (width / distance) ** 2), groups + 1)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _may_tell(needed: int | None) -> str:
    return f"; {needed} articles may tell" if needed else ""


def _percents(share: Estimate) -> str:
    percent = f"{_percent(share.value)} %"
    if share.low is None or share.high is None:
        return percent
    return f"{percent} [{_percent(share.low)}, {_percent(share.high)}]"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}"


def _value(estimate: Estimate | None) -> str:
    return _two(estimate.value if estimate else None)


def _two(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"
