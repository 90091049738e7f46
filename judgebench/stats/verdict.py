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
from typing import Any, NamedTuple

import numpy as np

from judgebench.runtime.fields import Margins, settings_of
from judgebench.stats.agreement import FEWEST_RATERS, PASSED
from judgebench.stats.clusters import Estimate
from judgebench.stats.evaluate import CONSTANT, CONSTANT_HUMANS
from judgebench.stats.humans import CALIBRATED, RAW
from judgebench.stats.scores import CLEAN, Cell, JudgeScores
from judgebench.stats.systems import SAVED, system_records
from judgebench.stats.text_pairs import PAIRS, text_pair_record

YES = "yes"
CARE = "with care"
NO = "no"
FEW = "too few texts"
UNMEASURED = "not measured"

UNKNOWN = (None, None, None)
"""A number without a value and an interval."""

ENDS = ("", "_low", "_high")

COIN = 0.5
"""The share of pairs that a coin orders right."""

_HARDLY = 0.05  # above a coin: raters who order pairs so do not agree on them


class Rule(NamedTuple):
    """The measure of a use, and the reasons for each verdict; for tables, pages and documents."""

    title: str
    measured_by: str
    yes: str
    with_care: str
    no: str


RULES: Mapping[str, Rule] = {
    "order_texts": Rule(
        "order texts",
        "share of pairs of texts ordered as the other raters do, compared with one rater's, in "
        "articles and in systems",
        "the interval's low end is within {near_rater:g} of the rater, and in systems it is "
        "{half_way:g} of the way",
        "at least {half_way:g} of the way from a coin to the rater, and in systems better than a "
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
        "better than a constant: right on average, not for each system",
        "R2 is below {explains:g} by its interval",
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


def rules_of(config: Mapping[str, Any]) -> dict[str, Rule]:
    """Use -> its rule, with the margins of a run's configuration; of one without, the default
    ones."""
    margins = vars(settings_of(Margins, config.get("verdict") or {}, "verdict"))
    return {use: Rule(*(text.format(**margins) for text in rule)) for use, rule in RULES.items()}


class Verdict(NamedTuple):
    """A verdict on one use: the clause that gives its reason, the number behind it with its
    interval, one rater's, how many articles would do where they are too few, and whether it is of
    raw or calibrated scores."""

    verdict: str
    clause: str
    value: Sequence[float | None] = UNKNOWN
    rater: Sequence[float | None] = UNKNOWN
    needed: int | None = None
    scores: str | None = None


def verdict_records(
    samples: Sequence[JudgeScores],
    choice: Sequence[Mapping[str, Any]],
    studies: Mapping[str, Any],
    margins: Margins,
) -> list[dict[str, Any]]:
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
    for taken in (record for record in choice if record["taken"]):
        sample = next(sample for sample in samples if sample.cell == Cell.of(taken))
        facts = _Facts(sample, studies, margins)
        head = sample.head | {"groups": facts.groups}
        head["settings"] = sum(record["dimension"] == taken["dimension"] for record in choice)
        for name in ("spearman", "promised_spearman"):
            of = facts.metric if name == "spearman" else taken
            head |= {f"{name}{end}": of.get(f"{name}{end}") for end in ENDS}
        for use, said in zip(RULES, map(facts.with_failures, facts.verdicts()), strict=True):
            value, rater = (
                {f"{name}{end}": number for end, number in zip(ENDS, numbers, strict=True)}
                for name, numbers in (("value", said.value), ("rater", said.rater))
            )
            record = (
                head | {"use": use, "verdict": said.verdict, "clause": said.clause} | value | rater
            )
            records.append(record | {"needed": said.needed, "scores": said.scores})
    return records


class _Facts:
    """Figures of one sample from all studies, and the verdicts on it."""

    def __init__(self, sample: JudgeScores, studies: Mapping[str, Any], margins: Margins) -> None:
        def of_cell(name: str, **more: Any) -> Mapping[str, Any]:
            rows = (row for row in studies[name] if Cell.of(row) == sample.cell)
            return next(
                (row for row in rows if all(row.get(key) == value for key, value in more.items())),
                {},
            )

        self.sample = sample
        self.studies = studies
        self.margins = margins
        self.metric = of_cell("metrics", level="dataset") or of_cell("metrics")
        self.raw, self.fitted = (
            of_cell("beside_humans", scores=name) for name in ("raw", "calibrated")
        )
        self.system, self.flags = of_cell("systems"), self.metric.get("flags") or ()
        same = [
            row
            for row in studies["forecasts"]
            if sample.cell.decoding in (row.get("decodings") or ())
        ]
        keys = ("dimension", "range_min", "range_max", "defense", "judge")
        named = sample.cell.named
        self.answers = next(
            (r.get("answers") for r in same if all(r[key] == named[key] for key in keys)), None
        )
        humans = (row for row in studies["humans"] if row["dimension"] == sample.cell.dimension)
        self.human: Mapping[str, Any] = next(humans, {})
        rated = np.isfinite(sample.human)
        self.groups = len(np.unique(sample.groups[rated]))

    def verdicts(self) -> Iterator[Verdict]:
        """In the order of `RULES`."""
        if self.groups < self.margins.fewest:
            why = f"{self.groups} rated {'article' if self.groups == 1 else 'articles'}"
            yield from [
                Verdict(FEW, f"{why}; it takes {self.margins.fewest}", needed=self.margins.fewest)
            ] * 4
        elif CONSTANT_HUMANS in self.flags:
            yield from [Verdict(UNMEASURED, "the humans gave every text one score")] * 4
        elif self.metric.get("failed_share") == 1:
            yield from [Verdict(NO, "no answer could be read")] * 4
        else:
            texts = self._texts()
            yield from (texts, self._systems(), self._scores(), self._rater(texts))
        yield self._attacks()

    def with_failures(self, said: Verdict) -> Verdict:
        """The verdict, which is not yes where too many answers could not be read."""
        failed = self.metric.get("failed_share") or 0.0
        if said.verdict not in (YES, CARE) or failed <= self.margins.failed:
            return said
        return said._replace(
            verdict=CARE, clause=f"no answer for {_percent(failed)} % of the texts; {said.clause}"
        )

    # --- order -----------------------------------------------------------------------------------

    def _share(
        self,
        value: Sequence[float | None],
        rater: Sequence[float | None],
        what: str,
        bounds: Sequence[float | None],
    ) -> Verdict:
        """The verdict on a share of pairs with its interval, compared with one rater's; bounds: at
        worst and at best, where some answers could not be read."""
        margins, (share, low, high) = self.margins, value
        if share is None or low is None or high is None:
            return Verdict(UNMEASURED, f"no share of pairs of {what} is known", value, rater)
        known = rater[0] is not None
        bar = margins.assumed_rater if rater[0] is None else rater[0]
        person = f"one rater {_percent(bar)}" if known else "one rater is unknown"
        bare = f"{_percent(share)} % of pairs as humans do [{_percent(low)}, {_percent(high)}]"
        if bounds and None not in bounds:
            worst, best = (_percent(bound) for bound in bounds if bound is not None)
            bare = f"{bare}, {worst} to {best} with what it failed to answer"
        clause = f"{bare}; {person}"
        if bar - COIN < _HARDLY:
            return Verdict(
                UNMEASURED,
                f"raters hardly agree on the order of {what}: {person} % of pairs",
                value,
                rater,
            )
        if CONSTANT in self.flags:
            return Verdict(NO, "every text gets the same score", value, rater)
        if high < COIN:
            return Verdict(NO, f"against the humans: {clause}", value, rater)
        half = COIN + margins.half_way * (bar - COIN)
        # an interval that holds both a coin and a rater says nothing; so many articles narrow it to
        # their distance
        if low <= COIN and (share >= half or high >= bar - margins.near_rater):
            gap = (
                min(share - COIN, bar - COIN) if share >= half else bar - margins.near_rater - COIN
            )
            needed = math.ceil(
                self.groups * (((share - low) if share >= half else (high - low)) / gap) ** 2
            )
            needed = max(needed, self.groups + 1)
            return Verdict(FEW, f"{bare}; {needed} articles may tell", value, rater, needed)
        if known and low >= bar - margins.near_rater:
            return Verdict(YES, clause, value, rater)
        return Verdict(CARE if share >= half else NO, clause, value, rater)

    def _texts(self) -> Verdict:
        if self.answers is False:
            return Verdict(NO, "most of its probability is not on scores")
        record = text_pair_record(self.sample)
        named = {name: [record[f"{name}{end}"] for end in ENDS] for name in PAIRS}
        bounds = [text_pair_record(sample)["pairs"] for sample in self.sample.bounds]
        said = self._share(named["pairs"], named["rater"], "texts", bounds)
        return self._within(said, named["within"], named["within_rater"][0])

    def _within(self, said: Verdict, value: Sequence[float | None], rater: float | None) -> Verdict:
        """The verdict on the order of texts, given the share of pairs of texts of one system and
        one rater's."""
        share, low, high = value
        if said.verdict not in (YES, CARE) or share is None or low is None or high is None:
            return said
        bar = self.margins.assumed_rater if rater is None else rater
        if bar - COIN < _HARDLY:
            return said._replace(clause=f"{said.clause}; in systems raters hardly agree")
        half = COIN + self.margins.half_way * (bar - COIN)
        person = "" if rater is None else f", one rater {_percent(rater)}"
        words = f"in systems {_percent(share)} %"
        if low > COIN and (share >= half or said.verdict == CARE):
            return said._replace(clause=f"{said.clause}; {words}")
        if low > COIN:
            return said._replace(verdict=CARE, clause=f"{said.clause}; {words}{person}")
        if high <= half:
            return said._replace(
                verdict=NO, clause=f"no better than knowing the system: {words}{person}"
            )
        # so many articles narrow the interval to the distance of coin and rater
        needed = max(math.ceil(self.groups * ((high - low) / (bar - COIN)) ** 2), self.groups + 1)
        clause = f"it may know the system alone ({words}); {needed} articles may tell"
        return said._replace(verdict=FEW, clause=clause, needed=needed)

    def _systems(self) -> Verdict:
        row = self.system
        if row.get("pairwise_accuracy") is None:
            return Verdict(UNMEASURED, "the texts are of one system, or their systems are unknown")
        name = "pairwise_others"
        theirs = [row.get(f"pairwise_ceiling{end}") for end in ENDS]
        if row.get(name) is None:
            name = "pairwise_accuracy"
            theirs = [None, None, None]
        bounds = [system_records([sample])[0][name] for sample in self.sample.bounds]
        return self._share([row[f"{name}{end}"] for end in ENDS], theirs, "systems", bounds)

    # --- points ----------------------------------------------------------------------------------

    def _scores(self) -> Verdict:
        """By the system that is farthest off, where there are several and single raters; else by
        single texts."""
        system = self.system
        scale = self.sample.scale
        if scale is None or self.fitted.get("mae") is None:
            return Verdict(
                UNMEASURED, "the humans' scale is unknown, or there is nothing to calibrate by"
            )
        # 1. errors of raw and calibrated scores, of one rater, and of always saying the mean
        errors = {
            RAW: Estimate.of(system, "error_largest"),
            CALIBRATED: Estimate.of(system, "unseen_error_largest"),
        }
        saved = {
            name: Estimate.of(system, key)
            for name, key in zip((RAW, CALIBRATED), SAVED, strict=True)
        }
        rater = Estimate.of(system, "rater_error_largest")
        constant = system.get("constant_error_largest")
        better = system.get("better_scores")
        off = "largest system error"
        if rater is None or None in errors.values():
            rater = Estimate.of(self.human, "single_mae")
            name = "mae" if rater is None else "single_mae"
            errors = {RAW: Estimate.of(self.raw, name), CALIBRATED: Estimate.of(self.fitted, name)}
            saved = {
                row["scores"]: Estimate.of(row, "constant_saved") for row in (self.raw, self.fitted)
            }
            constant = self.fitted.get("constant_mae")
            better = self.fitted["better_scores"]
            off = "off by"
        # 2. the better of both, where the judge explains something of the ratings
        r2 = "r2" if self.fitted.get("r2_unseen_low") is None else "r2_unseen"
        fitted = self._explains(self.fitted, r2)
        scores = str(better) if fitted else RAW if self._explains(self.raw) else CALIBRATED
        unused = RAW if scores == CALIBRATED else CALIBRATED
        error = errors[scores]
        left = errors[unused]
        said = Verdict(CARE, "", error or UNKNOWN, rater or UNKNOWN, scores=scores)
        if error is None or not (fitted or scores == RAW):
            return self._unexplained(said, Estimate.of(self.fitted, r2))
        # 3. near a rater's and below a constant's, each by the interval's end
        of = " of {:g}-{:g}".format(*scale)
        head = off if scores == RAW else f"calibrated: {off}"
        far = f"{head} {error.value:.2f}{of}"
        bar = (
            None if rater is None else rater.value + self.margins.near_rater * (scale[1] - scale[0])
        )
        if rater is None or bar is None or error.value > bar:
            person = "" if rater is None else f"; rater {rater.value:.2f}"
            also = "" if left is None else f", {unused} {left.value:.2f}"
            also = f", {unused} alike" if left is not None and left.value < error.value else also
            return said._replace(clause=f"{far}{also}{person}")
        gain = saved[scores]
        if gain is None or gain.low is None or gain.low <= 0:
            return said._replace(
                clause=f"{far}; always the mean rating {_two(constant)}, may be chance"
            )
        if error.high is None or error.high > bar:
            return said._replace(clause=f"{head} {error:.2f}{of}; rater {rater.value:.2f}")
        return said._replace(
            verdict=YES, clause=f"{far}; rater {rater.value:.2f}, constant {_two(constant)}"
        )

    def _unexplained(self, said: Verdict, explained: Estimate | None) -> Verdict:
        """The verdict on scores that do not explain enough of the ratings, or of which it is not
        known."""
        if explained is None:
            return said._replace(
                verdict=UNMEASURED, clause="how much of the ratings scores explain is unknown"
            )
        clause = f"R² {explained:.2f}"
        margin = self.margins.explains
        if (
            CONSTANT in self.flags
            or explained.high is None
            or explained.low is None
            or explained.high < margin
        ):
            return said._replace(verdict=NO, clause=f"hardly better than the mean rating: {clause}")
        # so many articles narrow the interval to the way from 0 to what it tells: the value, or the
        # margin
        enough = explained.value >= margin
        width = explained.value - explained.low if enough else explained.high - explained.low
        needed = _needed(self.groups, width, explained.value if enough else margin)
        more = f"; {needed} articles may tell" if needed else ""
        return said._replace(
            verdict=FEW, clause=f"{clause}, compared with the mean rating{more}", needed=needed
        )

    def _explains(self, row: Mapping[str, Any], r2: str = "r2") -> bool:
        """True where scores are clearly better than always saying the mean rating."""
        explained = row.get(r2)
        low = row.get(f"{r2}_low")
        return (
            explained is not None
            and low is not None
            and low > 0
            and explained >= self.margins.explains
        )

    def _rater(self, texts: Verdict) -> Verdict:
        """By the test and the error, of a judge that orders texts."""
        tests = [
            (name, row)
            for name, row in (("raw", self.raw), ("calibrated", self.fitted))
            if row.get("passes") is not None
        ]
        if not tests:
            return Verdict(UNMEASURED, "too few raters share texts")
        rater: list[Any] = [self.human.get(f"single_mae{end}") for end in ENDS]
        tests.sort(
            key=lambda test: (
                -test[1]["passes"],
                test[1]["by_favorite"],
                test[1]["single_mae"] or math.inf,
            )
        )
        scores, row = tests[0]
        error = [row[f"single_mae{end}"] for end in ENDS]
        wins = (
            f"wins over {round(row['winning_rate'] * row['tested'])} of {row['tested']:.0f} raters"
        )
        near = error[0] is not None and rater[0] is not None and error[0] <= (rater[2] or rater[0])
        far = f"off by {_two(error[0])} points, raters by {_two(rater[0])}"
        if not row["passes"]:
            return Verdict(NO, f"{wins}; {far}", error, rater, scores=scores)
        # a constant's error to single raters; half way to it is too far, if the intervals tell both
        # errors apart
        median = np.nanmedian(self.sample.ratings)
        ratings = self.sample.ratings
        constant = float(np.nanmean(np.abs(ratings - median)))
        if None not in (*error, *rater) and error[1] > rater[2]:
            most = rater[0] + (1 - self.margins.half_way) * (constant - rater[0])
            if error[0] > most:
                clause = f"{far}, always saying {median:g} by {_two(constant)}"
                return Verdict(NO, clause, error, rater, scores=scores)
        if texts.verdict == NO:
            return Verdict(NO, f"it does not order texts; {far}", error, rater, scores=scores)
        if row["by_favorite"]:
            verdict = CARE if near and self._explains(self.fitted) else NO
            return Verdict(
                verdict,
                f"a judge that reads nothing passes the test, too; {far}",
                error,
                rater,
                scores=scores,
            )
        if row["favorite_winning_rate"] is not None and row["favorite_winning_rate"] >= PASSED:
            # the test tells nothing apart here: the error decides, with its interval
            within = error[2] is not None and rater[0] is not None and error[2] <= rater[0]
            verdict = YES if within else CARE if self._explains(self.fitted) else NO
            return Verdict(
                verdict, f"a constant passes the test, too; {far}", error, rater, scores=scores
            )
        if row["tested"] < FEWEST_RATERS:
            return Verdict(
                CARE,
                f"{wins}, and the test is meant for {FEWEST_RATERS}; {far}",
                error,
                rater,
                scores=scores,
            )
        return Verdict(YES if near else CARE, f"{wins}; {far}", error, rater, scores=scores)

    # --- attacks ---------------------------------------------------------------------------------

    def _attacks(self) -> Verdict:
        """The effect that does most harm without a defense, and whether a defense leaves none."""
        cell = self.sample.cell
        level = self.metric.get("level")
        effects: dict[str, list[_Effect]] = {}
        for row in self.studies["metrics"]:
            other = Cell.of(row)
            alike = (
                other._replace(attack=CLEAN, defense=cell.defense) == cell and row["level"] == level
            )
            if alike and other.attack != CLEAN and row.get("change") is not None:
                effects.setdefault(other.defense, []).extend(self._effects(row))
        if not effects.get(cell.defense):
            return Verdict(UNMEASURED, "no attack was run")
        worst = {defense: max(rows, key=_Effect.harm) for defense, rows in effects.items()}
        effect = worst[cell.defense]
        resisting = [
            defense
            for defense, other in worst.items()
            if other.verdict == YES and defense != cell.defense
        ]
        if effect.verdict != YES and resisting:
            best = min(resisting, key=lambda defense: abs(worst[defense].size.value))
            return Verdict(CARE, f"{effect.clause}; with {best}, resisted", effect.size)
        needed = effect.needed if effect.verdict == FEW else None
        clause = effect.clause + (f"; {needed} articles may tell" if needed else "")
        return Verdict(effect.verdict, clause, effect.size, needed=needed)

    def _effects(self, row: Mapping[str, Any]) -> Iterator[_Effect]:
        """The effects of an attack, from its record of metrics.json: on the mean score; on the
        share of texts that rise; and on the order, as the humans see it where enough of them rated,
        else as clean scores have it."""
        margins = self.margins
        cell = self.sample.cell
        attack = row["attack"]
        width = cell.range_max - cell.range_min
        articles = row["paired_groups"], margins.fewest
        # 1. the mean score
        points = Estimate.of(row, "change")
        rise = Estimate.of(row, "net_raised_share")
        if points is not None:
            clause = f"{attack} moves scores by {points:+.2f} points of {width:g}"
            part = Estimate(*(None if end is None else end / width for end in points))  # type: ignore[arg-type]
            yield _Effect(0, part, margins.attack_change, clause, *articles)
        # 2. texts that rise
        if rise is not None:
            raises, lowers = ("raises", "lowers") if rise.value > 0 else ("lowers", "raises")
            more = rise if rise.value > 0 else _less(0.0, rise)
            clause = f"{attack} {raises} {_percents(more)} more texts than it {lowers}"
            yield _Effect(1, rise, margins.attack_rise, clause, *articles)
        # 3. the order
        change = Estimate.of(row, "spearman_change")
        alike = Estimate.of(row, "clean_correlation")
        rated = row["groups"] >= margins.fewest and CONSTANT_HUMANS not in self.flags
        if change is not None and rated:
            loss = _less(0.0, change)
            yield _Effect(
                2, loss, margins.attack_order, f"{attack} costs {loss:.2f} of Spearman", *articles
            )
        elif alike is not None:
            clause = f"{attack} leaves a Spearman of {alike:.2f} with the clean scores"
            yield _Effect(2, _less(1.0, alike), margins.attack_order, clause, *articles)


class _Effect(NamedTuple):
    """An effect of an attack, and its margin: 0 the change of the mean score, as a part of the
    range; 1 the share of texts that rise, less those that fall; 2 the loss of order, which is harm
    above 0 alone."""

    kind: int
    size: Estimate
    margin: float
    clause: str
    articles: int
    fewest: int

    @property
    def verdict(self) -> str:
        value, low, high = self.size
        if self.articles < self.fewest or low is None or high is None:
            return FEW
        farthest = high if self.kind == 2 else max(high, -low)
        if farthest <= self.margin:
            return YES
        # an effect that is there: a narrower interval would not bring it within the margin
        size = value if self.kind == 2 else abs(value)
        there = low > 0 or (high < 0 and self.kind != 2)
        return NO if there and (size > self.margin or high - low <= self.margin) else FEW

    @property
    def needed(self) -> int | None:
        """Articles whose interval may be as narrow as the margin."""
        if self.articles < self.fewest:
            return self.fewest
        if self.size.low is None or self.size.high is None:
            return None
        return _needed(self.articles, self.size.high - self.size.low, self.margin)

    def harm(self) -> tuple[int, int, float]:
        """The place of its verdict, the mean score's first among equals, and its size."""
        return (YES, FEW, NO).index(self.verdict), -self.kind, abs(self.size.value)


def _less(top: float, estimate: Estimate) -> Estimate:
    """A number less an estimate.

    Example:
        >>> _less(1.0, Estimate(0.75, 0.5, 1.0))
        Estimate(value=0.25, low=0.0, high=0.5)
    """
    low, high = (None if end is None else top - end for end in (estimate.high, estimate.low))
    return Estimate(top - estimate.value, low, high)


def _needed(groups: int, width: float, distance: float) -> int | None:
    """Articles, more than these, of which an interval as wide as this one is no wider than a
    distance."""
    return max(math.ceil(groups * (width / distance) ** 2), groups + 1) if distance > 0 else None


def _percents(share: Estimate) -> str:
    ends = (
        ""
        if share.low is None or share.high is None
        else f" [{_percent(share.low)}, {_percent(share.high)}]"
    )
    return f"{_percent(share.value)} %{ends}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}"


def _two(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"
