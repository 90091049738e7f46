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

from judgebench.runtime.fields import Margins, settings_of
from judgebench.stats.agreement import FEWEST_RATERS, PASSED
from judgebench.stats.clusters import Estimate, ends_of, keys_of
from judgebench.stats.decisions import CHOSEN
from judgebench.stats.evaluate import CONSTANT, CONSTANT_HUMANS
from judgebench.stats.humans import CALIBRATED, RAW
from judgebench.stats.scores import CLEAN, Cell, JudgeScores, cell_record, first_record
from judgebench.stats.systems import system_records
from judgebench.stats.text_pairs import PAIRS, text_pair_record
from judgebench.types import Record, Records, Row, Rows, Scale

YES = "yes"
CARE = "with care"
NO = "no"
FEW = "too few texts"
UNMEASURED = "not measured"

COIN = 0.5
"""The share of pairs that a coin orders right."""

_HARDLY = 0.05  # above a coin: raters who order pairs so do not agree on them
_KINDS = ("attack_change", "attack_rise", "attack_order")  # effects of attacks, by their margins
_READ = ("dimension", "range_min", "range_max", "defense", "judge")  # of a forecast and its cells


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
        "{right:g}",
        "both are at least {half_way:g} of the way from a coin to that",
        "below, as where it passes every text",
    ),
    "order_texts": Rule(
        "order texts",
        "share of pairs of texts ordered as the other raters do, compared with one rater's, within "
        "articles and within systems",
        "the interval's low end is within {near_rater:g} of the rater, and within systems it is "
        "{half_way:g} of the way",
        "at least {half_way:g} of the way from a coin to the rater, and within systems better than a "
        "coin",
        "below, or no better than knowing the system, or most of its probability is not on scores",
    ),
    "compare_systems": Rule(
        "compare systems",
        "share of pairs of systems ordered as the other raters do, compared with one rater's",
        "the interval's low end is within {near_rater:g} of the rater",
        "at least {half_way:g} of the way from a coin to the rater",
        "below",
    ),
    "report_scores": Rule(
        "report scores",
        "largest error of systems' means in points, of raw or calibrated scores, and R2 against "
        "always saying the mean",
        "by the intervals the error is within {near_rater:g} of the scale of one rater's, and "
        "below a constant's",
        "better than a constant, by R2 and by the error: right on average, not for each system",
        "R2 is below {explains:g} by its interval, or a constant's error is no larger",
    ),
    "replace_rater": Rule(
        "replace a rater",
        "alternative annotator test, and the error to one rater compared with rater to rater",
        "it passes, and no constant does, or its error is within a rater's",
        "a constant passes, too, or there are fewer than 3 raters",
        "it does not pass, its error is less than {half_way:g} of the way from a constant's to a "
        "rater's, or it does not order texts",
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
) -> Rows:
    """The records of verdict.json: for each dimension a record a use, of `RULES`.

    Args:
        choice: see `judgebench.tuning.choose.choice_records`; one setting of a dimension is taken.
        studies: metrics, humans, beside_humans, systems and forecasts, as `Results` has them.

    Returns:
        dataset, the keys of `Cell.named`, groups, settings (how many were chosen among), spearman
        and promised_spearman with their intervals; use, verdict, clause; value, rater and their
        intervals; needed; scores.
    """
    records = []
    for advised in choice:
        if not advised["taken"]:
            continue
        cell = Cell.of(advised)
        sample = next(sample for sample in samples if sample.cell == cell)
        facts = _Facts(sample, studies, margins)
        head = {
            **sample.head,
            "groups": facts.groups,
            "settings": sum(record["dimension"] == cell.dimension for record in choice),
            **keys_of("spearman", Estimate.of(facts.metric, "spearman")),
            **keys_of("promised_spearman", Estimate.of(advised, "promised_spearman")),
        }
        for use, verdict in facts.verdicts().items():
            records.append(head | {"use": use} | verdict.record)
    return records


class _Facts:
    """Findings of the studies on one judge's scores, and the verdicts on it.

    Attributes:
        groups: the articles that hold a rated text.
        metric: its record of metrics.json, over all pairs where there is one.
        raw, calibrated: of beside_humans.json.
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

    def verdicts(self) -> dict[str, Verdict]:
        """Use -> the verdict, in the order of `RULES`."""
        obstacle = self._obstacle()
        texts = obstacle or self._texts()
        verdicts = {}
        if self.decision:
            verdicts["decide"] = obstacle or decides(self.decision, self.margins)
        verdicts |= {
            "order_texts": texts,
            "compare_systems": obstacle or self._systems(),
            "report_scores": obstacle or self._scores(),
            "replace_rater": obstacle or self._rater(texts),
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
        bounds = [text_pair_record(bound)["pairs"] for bound in self.sample.bounds]
        order = self._order("texts", pairs, rater, bounds)
        return self._in_systems(order, within, within_rater)

    def _systems(self) -> Verdict:
        """By the pairs of systems, compared with one rater's where raters are known."""
        name = "pairwise_others"
        rater = Estimate.of(self.system, "pairwise_ceiling")
        if Estimate.of(self.system, name) is None:
            name = "pairwise_accuracy"
            rater = None
        share = Estimate.of(self.system, name)
        if share is None:
            systems = len(np.unique(self.sample.systems))
            if systems > 1:
                return Verdict(UNMEASURED, "no two systems have texts about one source")
            return Verdict(UNMEASURED, "the texts are of one system, or their systems are unknown")
        bounds = [system_records([bound])[0][name] for bound in self.sample.bounds]
        return self._order("systems", share, rater, bounds)

    def _order(
        self,
        what: str,
        share: Estimate | None,
        rater: Estimate | None,
        bounds: Sequence[float | None],
    ) -> Verdict:
        """The verdict on a share of pairs, compared with one rater's.

        Args:
            bounds: the share at worst and at best, where some answers could not be read.
        """
        said = Verdict(UNMEASURED, f"no share of pairs of {what} is known", share, rater)
        if share is None or share.low is None:
            return said
        value = share.value
        low, high = ends_of(share)
        bars = self._bars(rater)
        # 1. the sentence
        person = f"one rater {_percent(bars.rater)}" if rater else "one rater is unknown"
        percents = _pairs_clause(share, bounds)
        clause = f"{percents}; {person}"
        # 2. nothing to be measured by, or no order
        if bars.hardly:
            hardly = f"raters hardly agree on the order of {what}: {person} % of pairs"
            return said._replace(clause=hardly)
        if CONSTANT in self.flags:
            return said._replace(verdict=NO, clause="every text gets the same score")
        if high < COIN:
            return said._replace(verdict=NO, clause=f"against the humans: {clause}")
        # 3. an interval that holds both a coin and a rater says nothing; more articles narrow it
        if low <= COIN and (value >= bars.half or high >= bars.near):
            needed = _needed(self.groups, high - low, bars.near - COIN)
            if value >= bars.half:
                needed = _needed(self.groups, value - low, min(value, bars.rater) - COIN)
            return said._replace(verdict=FEW, clause=percents + _may_tell(needed), needed=needed)
        # 4. near to the rater, half of the way, or below
        if rater and low >= bars.near:
            return said._replace(verdict=YES, clause=clause)
        return said._replace(verdict=CARE if value >= bars.half else NO, clause=clause)

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
            return verdict._replace(clause=f"{verdict.clause}; per system raters hardly agree")
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
        """By the alternative annotator test and the error, of a judge that orders texts."""
        tests = [row for row in (self.raw, self.calibrated) if row.get("passes") is not None]
        if not tests:
            return Verdict(UNMEASURED, "too few raters share texts")
        # 1. raw or calibrated scores, whichever do better
        row = min(tests, key=_rank)
        error = Estimate.of(row, "single_mae")
        rater = Estimate.of(self.human, "single_mae")
        # 2. the sentence
        wins = round(row["winning_rate"] * row["tested"])
        wins_over = f"wins over {wins} of {row['tested']:.0f} raters"
        off = f"off by {_value(error)} points, raters by {_value(rater)}"
        clause = f"{wins_over}; {off}"
        near = bool(error and rater and error.value <= (rater.high or rater.value))
        said = Verdict(YES if near else CARE, clause, error, rater, scores=row["scores"])
        # 3. what it fails
        if not row["passes"]:
            return said._replace(verdict=NO)
        constant = self._nearer_to_a_constant(error, rater)
        if constant:
            return said._replace(verdict=NO, clause=f"{off}, {constant}")
        if texts.verdict == NO:
            return said._replace(verdict=NO, clause=f"it does not order texts; {off}")
        # 4. a test that shows nothing, since a constant passes, too: the error decides
        partly = CARE if self._explains(Estimate.of(self.calibrated, "r2")) else NO
        if row["by_favorite"]:
            return said._replace(
                verdict=partly if near else NO,
                clause=f"a judge that reads nothing passes the test, too; {off}",
            )
        if (row["favorite_winning_rate"] or 0.0) >= PASSED:
            clause = f"a constant passes the test, too; {off}"
            _, farthest = ends_of(error)
            within = rater and farthest <= rater.value
            return said._replace(verdict=YES if within else partly, clause=clause)
        # 5. a test of few raters
        if row["tested"] < FEWEST_RATERS:
            return said._replace(
                verdict=CARE,
                clause=f"{wins_over}, and the test is meant for {FEWEST_RATERS}; {off}",
            )
        return said

    def _nearer_to_a_constant(self, error: Estimate | None, rater: Estimate | None) -> str:
        """A clause on the best constant where the error to single raters is more than half of the
        way to its error, if their intervals set error and rater apart; else empty."""
        if error is None or rater is None:
            return ""
        if ends_of(error)[0] <= ends_of(rater)[1]:
            return ""
        ratings = self.sample.ratings
        median = np.nanmedian(ratings)
        off = np.abs(ratings - median)
        constant = float(np.nanmean(off))
        way = constant - rater.value
        allowed = (1 - self.margins.half_way) * way
        if error.value <= rater.value + allowed:
            return ""
        return f"always saying {median:g} by {_two(constant)}"

    # --- attacks ---------------------------------------------------------------------------------

    def _attacks(self) -> Verdict:
        """The effect that does most harm without a defense, and whether a defense leaves none."""
        worst = {}  # effect of each defense
        for defense, effects in self._effects_by_defense().items():
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
            other = Cell.of(row)
            if row["level"] != level or other.attack == CLEAN or row.get("change") is None:
                continue
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
    # 2. each share by its bar
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
    # 3. the worse of both
    order = (NO, FEW, CARE, YES)
    side = min(verdicts, key=lambda name: order.index(verdicts[name]))
    verdict = verdicts[side]
    share = shares[side]
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
    interval = f"[{_percent(low)}, {_percent(high)}]"
    clause = f"{_percent(share.value)} % of pairs as humans do {interval}"
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
    return max(math.ceil(groups * (width / distance) ** 2), groups + 1)


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
