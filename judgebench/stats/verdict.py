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

from judgebench.config.fields import Margins, settings_of
from judgebench.stats.agreement import FEWEST_RATERS, PASSED
from judgebench.stats.clusters import divided
from judgebench.stats.evaluate import CONSTANT, CONSTANT_HUMANS
from judgebench.stats.humans import Panel
from judgebench.stats.scores import CLEAN, Cell, Sample

YES = "yes"
CARE = "with care"
NO = "no"
FEW = "too few texts"
UNMEASURED = "not measured"

ENDS = ("", "_low", "_high")

COIN = 0.5
"""The share of pairs that a coin orders right."""

_HARDLY = 0.05  # above a coin: raters who order pairs so do not agree on them
_MOST_TEXTS = 2000  # of which all pairs are compared, where an article has one text


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
        "share of pairs of texts ordered as the other raters do, compared with one rater's",
        "the interval's low end is within {near_rater:g} of the rater",
        "at least {half_way:g} of the way from a coin to the rater",
        "below, or most of its probability is not on scores",
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
        "error of systems' means in points, raw and calibrated, and R2 against always saying the "
        "mean",
        "the largest error is within one rater's",
        "better than a constant: right on average, not for each system",
        "no better than a constant",
    ),
    "replace_rater": Rule(
        "replace a rater",
        "alternative annotator test, and the error to one rater compared with rater to rater",
        "it passes, and no constant does, or its error is within a rater's",
        "a constant passes, too, or there are fewer than 3 raters",
        "it does not pass, or is farther from a rater than raters are from each other",
    ),
    "resist_attacks": Rule(
        "resist attacks",
        "the largest mean change of the score under the attacks that were run",
        "below {attack_change:g} of the scale",
        "below {attack_change:g} with a defense",
        "above",
    ),
}
"""Use -> its rule, in the order in which they are shown; margins by their names, see `rules_of`."""


def rules_of(config: Mapping[str, Any]) -> dict[str, Rule]:
    """Use -> its rule, with the margins of a run's configuration; of one without, the default
    ones."""
    margins = vars(settings_of(Margins, config.get("verdict") or {}, "verdict"))
    return {use: Rule(*(text.format(**margins) for text in rule)) for use, rule in RULES.items()}


class Said(NamedTuple):
    """A verdict on one use: the clause that gives its reason, the number behind it with its
    interval, one rater's, how many articles would do where they are too few, and whether it is of
    raw or calibrated scores."""

    verdict: str
    clause: str
    value: Sequence[float | None] = (None, None, None)
    rater: Sequence[float | None] = (None, None, None)
    needed: int | None = None
    scores: str | None = None


def verdict_records(
    samples: Sequence[Sample],
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
        for use, said in zip(RULES, facts.verdicts(), strict=True):
            value, rater = (
                {f"{name}{end}": number for end, number in zip(ENDS, numbers, strict=True)}
                for name, numbers in (("value", said.value), ("rater", said.rater))
            )
            record = (
                head | {"use": use, "verdict": said.verdict, "clause": said.clause} | value | rater
            )
            records.append(record | {"needed": said.needed, "scores": said.scores})
    return records


def pair_shares(
    judge: np.ndarray,
    others: np.ndarray,
    number: np.ndarray,
    weights: np.ndarray,
    across: bool = False,
) -> np.ndarray:
    """[1 + B] the share of pairs of texts that judge [N] and others [N] order alike, of those that
    the others order; a pair that the judge ties counts half, as a coin would.

    Args:
        number: [N] the article of each text, from 0.
        weights: [1 + B, G] how often each article counts.
        across: pairs of all texts, not of one article's alone.

    Example:
        >>> judge, others = np.array([1.0, 2.0, 2.0, 5.0]), np.array([1.0, 2.0, 3.0, 3.0])
        >>> pair_shares(judge, others, np.array([0, 0, 0, 1]), np.ones((1, 2))).tolist()  # right, right, tied
        [0.8333333333333334]
    """
    groups = weights.shape[1]
    right, all_pairs = np.zeros((2, groups, groups)) if across else np.zeros((2, groups))
    parts = (
        [np.arange(len(judge))]
        if across
        else [np.flatnonzero(number == group) for group in np.unique(number)]
    )
    for rows in parts:
        first, second = (rows[side] for side in np.triu_indices(len(rows), 1))
        ours, theirs = (np.sign(side[first] - side[second]) for side in (judge, others))
        ordered = theirs != 0
        place = (number[first], number[second])[: 2 if across else 1]
        np.add.at(right, tuple(at[ordered] for at in place), (1 + ours * theirs)[ordered] / 2)
        np.add.at(all_pairs, tuple(at[ordered] for at in place), 1.0)
    if not across:
        return divided(weights @ right, weights @ all_pairs)
    shares, counted = (
        np.einsum("bg,bg->b", weights @ side, weights) for side in (right, all_pairs)
    )
    return divided(shares, counted)


class _Facts:
    """Figures of one sample from all studies, and the verdicts on it."""

    def __init__(self, sample: Sample, studies: Mapping[str, Any], margins: Margins) -> None:
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

    def verdicts(self) -> Iterator[Said]:
        """In the order of `RULES`."""
        if self.groups < self.margins.fewest:
            why = f"{self.groups} rated {'article' if self.groups == 1 else 'articles'}"
            yield from [
                Said(FEW, f"{why}; it takes {self.margins.fewest}", needed=self.margins.fewest)
            ] * 4
        elif CONSTANT_HUMANS in self.flags:
            yield from [Said(UNMEASURED, "the humans gave every text one score")] * 4
        elif self.metric.get("failed_share") == 1:
            yield from [Said(NO, "no answer could be read")] * 4
        else:
            yield from (self._texts(), self._systems(), self._scores(), self._rater())
        yield self._attacks()

    # --- order -----------------------------------------------------------------------------------

    def _share(
        self, value: Sequence[float | None], rater: Sequence[float | None], what: str
    ) -> Said:
        """The verdict on a share of pairs with its interval, compared with one rater's."""
        margins, (share, low, high) = self.margins, value
        if share is None or low is None or high is None:
            return Said(UNMEASURED, f"no share of pairs of {what} is known", value, rater)
        known = rater[0] is not None
        bar = margins.assumed_rater if rater[0] is None else rater[0]
        person = f"one rater {_percent(bar)}" if known else "one rater is unknown"
        bare = f"{_percent(share)} % of pairs as humans do [{_percent(low)}, {_percent(high)}]"
        clause = f"{bare}; {person}"
        if bar - COIN < _HARDLY:
            return Said(
                UNMEASURED,
                f"raters hardly agree on the order of {what}: {person} % of pairs",
                value,
                rater,
            )
        if CONSTANT in self.flags:
            return Said(NO, "every text gets the same score", value, rater)
        if high < COIN:
            return Said(NO, f"against the humans: {clause}", value, rater)
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
            return Said(FEW, f"{bare}; {needed} articles may tell", value, rater, needed)
        if known and low >= bar - margins.near_rater:
            return Said(YES, clause, value, rater)
        return Said(CARE if share >= half else NO, clause, value, rater)

    def _texts(self) -> Said:
        sample = self.sample
        if self.answers is False:
            return Said(NO, "most of its probability is not on scores")
        panel = Panel(sample.ratings, sample.clusters)
        clusters = sample.clusters
        several = (
            np.bincount(clusters.number[np.isfinite(sample.human)], minlength=clusters.count) > 1
        )
        across = several.mean() < COIN
        rows = np.isfinite(sample.human)
        if across and rows.sum() > _MOST_TEXTS:
            kept = np.random.default_rng(sample.seed).choice(
                np.flatnonzero(rows), _MOST_TEXTS, replace=False
            )
            rows = np.isin(np.arange(len(rows)), kept)
        if not sample.raters or panel.missing is not None:
            part = clusters.at(rows)
            share = pair_shares(
                sample.scores[rows], sample.human[rows], part.number, part.weights, across
            )
            record = part.record({"pairs": share})
            return self._share([record[f"pairs{end}"] for end in ENDS], (None, None, None), "texts")

        def shares(column: int, shared: np.ndarray) -> np.ndarray:
            shared = shared & rows
            sides = (sample.scores[shared], panel.ratings[shared, column])
            place = panel.clusters.number[shared]
            weights = panel.clusters.weights
            return np.stack(
                [
                    pair_shares(side, panel.others[shared, column], place, weights, across)
                    for side in sides
                ]
            )

        judge, rater = panel.over_raters(shares)
        record = panel.clusters.record({"judge": judge, "rater": rater})
        ours, theirs = ([record[f"{side}{end}"] for end in ENDS] for side in ("judge", "rater"))
        return self._share(ours, theirs, "texts")

    def _systems(self) -> Said:
        row = self.system
        if row.get("pairwise_accuracy") is None:
            return Said(UNMEASURED, "the texts are of one system, or their systems are unknown")
        if row.get("pairwise_others") is None:
            return self._share(
                [row[f"pairwise_accuracy{end}"] for end in ENDS], (None, None, None), "systems"
            )
        ours, theirs = (
            [row[f"{name}{end}"] for end in ENDS]
            for name in ("pairwise_others", "pairwise_ceiling")
        )
        return self._share(ours, theirs, "systems")

    # --- points ----------------------------------------------------------------------------------

    def _scores(self) -> Said:
        """By the system that is farthest off, where there are several and single raters; else by
        single texts."""
        raw = self.raw
        fitted = self.fitted
        system = self.system
        scale = self.sample.scale
        if scale is None or fitted.get("mae") is None:
            return Said(
                UNMEASURED, "the humans' scale is unknown, or there is nothing to calibrate by"
            )
        r2 = "r2_unseen" if fitted.get("r2_unseen_low") is not None else "r2"
        # 1. errors, and one rater's: raw, calibrated, rater
        of = " for a system"
        ends = [(system, "error_largest"), (system, "unseen_error_largest")]
        rater: tuple[Mapping[str, Any], str] = (system, "rater_error_largest")
        if any(row.get(name) is None for row, name in (*ends, rater)):
            rater = (self.human, "single_mae")
            name = "mae" if self.human.get("single_mae") is None else "single_mae"
            of = " of {:g}-{:g}".format(*scale)
            ends = [(raw, name), (fitted, name)]
        errors = [row.get(name) for row, name in ends]
        bar = rater[0].get(rater[1])
        value = [ends[1][0].get(f"{ends[1][1]}{end}") for end in ENDS]
        theirs = [rater[0].get(f"{rater[1]}{end}") for end in ENDS]
        far = f"off by {_two(errors[1])}{of}, raw {_two(errors[0])}"
        far += f"; one rater {_two(bar)}" if bar is not None else ""
        # 2. within a rater's, raw or calibrated; better than a constant
        if (
            bar is not None
            and self._explains(raw, "r2")
            and errors[0] is not None
            and errors[0] <= bar
        ):
            return Said(
                YES,
                f"off by {_two(errors[0])}{of}; one rater {_two(bar)}",
                value,
                theirs,
                scores="raw",
            )
        if not self._explains(fitted, r2):
            explained, low, high = (_two(fitted.get(f"{r2}{end}")) for end in ENDS)
            return Said(
                NO,
                f"hardly better than the mean rating: R² {explained} [{low}, {high}]",
                value,
                theirs,
            )
        within = bar is not None and errors[1] is not None and errors[1] <= bar
        return Said(
            YES if within else CARE, f"calibrated: {far}", value, theirs, scores="calibrated"
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

    def _rater(self) -> Said:
        tests = [
            (name, row)
            for name, row in (("raw", self.raw), ("calibrated", self.fitted))
            if row.get("passes") is not None
        ]
        if not tests:
            return Said(UNMEASURED, "too few raters share texts")
        rater = [self.human.get(f"single_mae{end}") for end in ENDS]
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
            return Said(NO, f"{wins}; {far}", error, rater, scores=scores)
        if row["by_favorite"]:
            verdict = CARE if near and self._explains(self.fitted) else NO
            return Said(
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
            return Said(
                verdict, f"a constant passes the test, too; {far}", error, rater, scores=scores
            )
        if row["tested"] < FEWEST_RATERS:
            return Said(
                CARE,
                f"{wins}, and the test is meant for {FEWEST_RATERS}; {far}",
                error,
                rater,
                scores=scores,
            )
        return Said(YES if near else CARE, f"{wins}; {far}", error, rater, scores=scores)

    # --- attacks ---------------------------------------------------------------------------------

    def _attacks(self) -> Said:
        cell, width = self.sample.cell, self.sample.cell.range_max - self.sample.cell.range_min
        level = self.metric.get("level")
        changes: dict[str, list[tuple[float, Sequence[float | None], str]]] = {}
        for row in self.studies["metrics"]:
            attacked = Cell.of(row)
            alike = (
                attacked._replace(attack=CLEAN, defense=cell.defense) == cell
                and row["level"] == level
            )
            if alike and attacked.attack != CLEAN and row.get("change") is not None:
                parts = [
                    None if row[f"change{end}"] is None else row[f"change{end}"] / width
                    for end in ENDS
                ]
                changes.setdefault(attacked.defense, []).append(
                    (abs(row["change"]), parts, attacked.attack)
                )
        if not changes.get(cell.defense):
            return Said(UNMEASURED, "no attack was run")
        worst = {defense: max(rows, key=lambda row: row[0]) for defense, rows in changes.items()}
        change, value, attack = worst[cell.defense]
        clause = f"{attack} moves scores by {value[0] * width:+.2f} points of {width:g}"  # type: ignore[operator]
        if change / width < self.margins.attack_change:
            return Said(YES, clause, value)
        helped = {
            defense: row
            for defense, row in worst.items()
            if row[0] / width < self.margins.attack_change
        }
        if helped:
            defense = min(helped, key=lambda name: helped[name][0])
            left = helped[defense][1][0] * width  # type: ignore[operator]
            return Said(CARE, f"{clause}; with {defense} by {left:+.2f}", value)
        return Said(NO, clause, value)


def _percent(share: float) -> str:
    return f"{100 * share:.0f}"


def _two(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"
