"""Requirements of a judge that is measured again on labelled texts, and its changes since its card:
pure functions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from judgebench.cards.card import JudgeCard
from judgebench.runtime.errors import Mistakes, UserError, shown
from judgebench.runtime.fields import known_keys
from judgebench.stats.clusters import (
    CONFIDENCE,
    ENDS,
    FEWEST,
    SIGNIFICANCE,
    Clusters,
    Estimate,
    Numbers,
    keys_of,
)
from judgebench.stats.correlation import DistinctPairs
from judgebench.stats.paired import IMPROVEMENT, holm, times_noticed
from judgebench.stats.verdict import CARE, NO, RULES, UNMEASURED, YES
from judgebench.types import FAILED, Array, Records, Row

OF_DECISIONS = tuple(f"{name}{end}" for name in ("tpr", "tnr", "kappa") for end in ENDS)
OF_PASSES = tuple(f"pass_rate{end}" for end in ENDS)
"""Figures of a judge that decides, and of the texts that people pass."""

AT_LEAST = tuple(f"{name}{end}" for name in ("spearman", "pairs", "systems") for end in ENDS)
AT_LEAST += OF_DECISIONS + OF_PASSES
AT_MOST = (*(f"error{end}" for end in ENDS), "failed")
"""Figures that `require` bounds from below and from above."""

CHANGES = ("spearman", "error", "bias")
"""Figures whose change since the card is tested."""

_Z = float(special.ndtri(CONFIDENCE[1]))

LEAST = {"yes": YES, "with_care": CARE}

Arrays = dict[str, Array]


class Outcome(NamedTuple):
    """One requirement and its bound; passed, failed, warning or not measured; and the reason in a
    clause."""

    name: str
    bound: str
    state: str
    reason: str

    @property
    def requirement(self) -> str:
        return f"{self.name}: {self.bound}"


class Change(NamedTuple):
    """A figure here less the card's, with its 95 % interval and p; of how many texts that made the
    card, where these are compared in pairs."""

    name: str
    before: float
    now: float
    low: float
    high: float
    p: float
    texts: int | None = None

    @property
    def worse(self) -> bool:
        """True where it is more than chance, and for the worse; a bias is, to either side."""
        rise = self.now - self.before
        return self.p < SIGNIFICANCE and {"spearman": -rise, "error": rise}.get(self.name, 1.0) > 0

    def __str__(self) -> str:
        chance = "p < .001" if self.p < 0.001 else f"p {self.p:.3f}".replace("0.", ".")
        change = Estimate(self.now - self.before, self.low, self.high)
        here = "here" if self.texts is None else f"here, on the same {self.texts} texts"
        return (
            f"{round(self.before, 2) + 0:.2f} on the card, {round(self.now, 2) + 0:.2f} {here}: "
            f"{change:+.2f}, {chance}"
        )


def requirements_of(given: Any, card: JudgeCard) -> dict[str, str | float]:
    """The config key `require`: use -> `yes` or `with_care`, figure -> bound; None takes the card's
    own verdicts. Else `UserError`."""
    if given is None:  # where another defense resists attacks with care, the card does not have it
        given = {
            use["use"]: use["verdict"].replace(" ", "_")
            for use in card.uses
            if use["verdict"] in (YES, CARE)
            and (use["use"], use["verdict"]) != ("resist_attacks", CARE)
        }
    if not isinstance(given, Mapping) or not given:
        raise UserError(
            "require: nothing is required (a card without a verdict of yes or with care asks for "
            "nothing by itself); say what is, as 'require={order_texts: with_care, spearman_low: "
            "0.3}'."
        )
    known_keys(given, [*RULES, *AT_LEAST, *AT_MOST], "require")
    mistakes = Mistakes()
    for name, value in given.items():
        if card.decision is None and name in ("decide", *OF_DECISIONS, *OF_PASSES):
            mistakes.add(
                f"require.{name}: the card does not say pass or fail; `python -m "
                "judgebench.calibrate` with data.pass_from=LABEL, or labels of two classes, makes "
                "one that does."
            )
        elif name in RULES and value not in LEAST:
            mistakes.add(f"require.{name}: {shown(value)} is not one of {', '.join(LEAST)}.")
        elif name not in RULES and (type(value) not in (int, float) or not math.isfinite(value)):
            mistakes.add(f"require.{name}: {shown(value)} is not a number.")
    mistakes.tell()
    return {str(name): value for name, value in given.items()}


def figures_of(
    card: JudgeCard,
    verdict: Records,
    metric: Row,
    rows: Any,
    decision: Row,
    **drawn: int,
) -> Numbers:
    """Figures of labelled texts with the ends of their intervals, of the judge's records of
    verdict.json, its record of metrics.json over all pairs, its rows of scores.parquet that humans
    rated, and its record of decisions.json, if any; `drawn` are resamples and seed."""
    figures = {f"spearman{end}": metric[f"spearman{end}"] for end in ENDS}
    if metric["constant"]:
        figures = dict.fromkeys(figures, 0.0)
    figures["failed"] = metric["failed_share"]
    figure_of = {"order_texts": "pairs", "compare_systems": "systems"}
    for record in verdict:
        name = figure_of.get(record["use"])
        if name is not None:
            figures |= {f"{name}{end}": record[f"value{end}"] for end in ENDS}
    if decision:
        figures |= {name: decision[name] for name in OF_DECISIONS}
        figures |= keys_of("pass_rate", Estimate.of(decision["rates"][0], "rate"))
    rows = rows[rows["status"] != FAILED]
    if card.estimate is not None and len(rows):
        groups = rows["group_id"].to_numpy(dtype=str)
        clusters = Clusters.of(groups, **drawn)
        figures |= clusters.record(_errors(card, rows, clusters))
    return figures


def _errors(card: JudgeCard, rows: Any, clusters: Clusters, column: str = "score") -> Arrays:
    """Error and bias [1 + B] of the card's estimates by a column of scores; none without a map."""
    if card.estimate is None:
        return {}
    scores = rows[column].to_numpy(dtype=float)
    off = card.estimate(scores) - rows["human"].to_numpy(dtype=float)
    return {"error": clusters.mean(np.abs(off)), "bias": clusters.mean(off)}


def outcomes_of(
    required: Mapping[str, str | float],
    verdict: Records,
    figures: Mapping[str, float | None],
    reason: str | None = None,
) -> list[Outcome]:
    """An outcome a requirement; `reason` says why nothing could be measured.

    Example:
        >>> outcomes_of({"spearman_low": 0.3}, [], {"spearman_low": 0.21})[0]
        Outcome(name='spearman_low', bound='at least 0.3', state='failed', reason='0.210')
    """
    outcomes = []
    by_use = {record["use"]: record for record in verdict}
    for name, bound in required.items():
        met = None
        if name in RULES:
            text = LEAST[str(bound)]
            record = by_use.get(name, {"verdict": UNMEASURED, "clause": "no rater, no figures"})
            clause = f"{record['verdict']}; {record['clause']}"
            met = {YES: True, CARE: text == CARE, NO: False}.get(record["verdict"])
        else:
            least = name in AT_LEAST
            text = f"at {'least' if least else 'most'} {bound:g}"
            value = figures.get(name)
            clause = "it has no number here"
            if value is not None:
                clause = f"{value:.3f}"
                met = bool(value >= bound if least else value <= bound)  # type: ignore[operator]
        state = "passed" if met else "failed"
        if met is None or reason is not None:
            state = UNMEASURED
        outcomes.append(Outcome(name, text, state, reason or clause))
    return outcomes


def changes_of(card: Row, here: Row) -> list[Change]:
    """The changes of Spearman, of the estimates' error and of their bias, each known with the ends
    of its 95 % interval from two independent samples, in each of which articles are resampled; p is
    corrected by Holm over these.

    The standard error of a figure is the width of its interval over 2 z, z = 1.960; a change is
    normal with the root of the sum of the two squares (the two-sample z test; Wald, 1943). Where
    the samples share texts, p is too large.

    Example:
        Widths .392 and .294 are standard errors .1 and .075; together .125, and -.25 is twice that.

        >>> card = {"spearman": 0.7, "spearman_low": 0.504, "spearman_high": 0.896}
        >>> (change,) = changes_of(card, {"spearman": 0.45, "spearman_low": 0.303, "spearman_high": 0.597})
        >>> round(change.p, 3), round(change.low, 3), round(change.high, 3)
        (0.046, -0.495, -0.005)
    """
    changes = list[Change]()
    for name in CHANGES:
        before: Any = Estimate.of(card, name)
        now: Any = Estimate.of(here, name)
        if before is None or now is None or None in (*before, *now):
            continue
        error = math.hypot(_error_of(before), _error_of(now))
        changes.append(_change(name, before.value, now.value, error))
    return _corrected(changes)


def paired_changes(
    card: JudgeCard, rows: Any, scores: Mapping[str, float], **drawn: int
) -> list[Change]:
    """The changes of `changes_of` on the same texts, whose articles are resampled together; p is of
    the normal law with their standard error (that of G articles times sqrt(G / (G - 1))).

    Args:
        rows: of scores.parquet that humans rated.
        scores: example -> the card's score of it.
        drawn: resamples and seed.
    """
    # 1. the texts that both have scored
    rows = rows.assign(before=rows["example_id"].map(scores), now=rows["score"].round(6))
    rows = rows[rows["status"] != FAILED].dropna(subset="before")
    humans = rows["human"].to_numpy(dtype=float)
    clusters = Clusters.of(rows["group_id"].to_numpy(dtype=str), **drawn)
    count = clusters.count
    if len(clusters.weights) < 3:  # without resamples
        return []
    # 2. the figures [1 + B] of both
    sides = []
    for column in ("before", "now"):
        pairs = DistinctPairs(rows[column], humans, clusters.number, count)
        sides.append(
            {"spearman": pairs.spearman(clusters.weights), **_errors(card, rows, clusters, column)}
        )
    # 3. their changes
    changes = []
    for name, before in sides[0].items():
        now = sides[1][name]
        error = (now - before)[1:].std(ddof=1) / math.sqrt(1 - 1 / count)
        changes.append(_change(name, before[0], now[0], error, len(rows)))
    return _corrected(changes)


def noticed(card: JudgeCard, groups: int, groups_are: str, paired: bool = False) -> str:
    """A sentence on the fall of Spearman that the gate will notice with so many groups, by the
    interval on the card; empty where it has none. A standard error falls as 1 / sqrt(groups). In
    pairs the fall is the largest: both would agree no more than by chance."""
    figures = card_figures(card)
    before = Estimate.of(figures, "spearman")
    of_card = figures.get("groups")
    if before is None or before.low is None or not of_card or not groups:
        return ""
    # 1. what is noticed of a figure with as many groups as the card, and with these
    times = times_noticed(1 if card.estimate is None else len(CHANGES))
    there = times * _error_of(before)
    here = there * math.sqrt(of_card / groups)
    # 2. of the difference; and the groups where both sides have as many
    fall = math.hypot(here if paired else there, here)
    needed = 2 * of_card * (there / IMPROVEMENT) ** 2
    rounded = float(f"{max(FEWEST, needed):.2g}")
    less = " or less" if paired else ""
    return (
        f"With these {groups} {groups_are} the gate notices a fall of {fall:.2f}{less} of "
        f"Spearman in four of five cases; a fall of {IMPROVEMENT:g} takes {rounded:,.0f}{less}, "
        "here and on the card."
    )


def more_low_rated(card: JudgeCard, human: Array, groups: Array, resamples: int, seed: int) -> str:
    """A sentence where more of these texts are rated below the middle of the scale than of those
    that made the card, and its intervals of single texts hold fewer of such; else empty.

    Args:
        human, groups: [N] the humans' scores, and the articles.
    """
    figures = card_figures(card)
    there = Estimate.of(figures, "low_share")
    held = Estimate.of(figures, "low_coverage")
    whole = Estimate.of(figures, "coverage")
    if card.scale is None or there is None or held is None or whole is None:
        return ""
    # 1. the shares of low-rated texts, here and there, whose intervals do not meet
    clusters = Clusters.of(groups, resamples, seed)
    below = 1.0 * (human < sum(card.scale) / 2)
    here = clusters.record({"share": clusters.mean(below)})
    lowest = here["share_low"]
    if lowest is None or there.high is None or lowest <= there.high:
        return ""
    # 2. of which the intervals hold fewer
    if held.high is None or held.high >= whole.value:
        return ""
    return (
        f"Humans rate {100 * (here['share'] or 0):.0f} % of these texts worse than the middle of "
        f"the scale, and {100 * there.value:.0f} % of the card's: its intervals of single texts hold "
        f"{100 * held.value:.0f} % of such, {100 * whole.value:.0f} % of all."
    )


def card_figures(card: JudgeCard) -> Row:
    """The figures that a card promised, those of its choice first, by the names of `CHANGES`."""
    test = card.figures.get("test", {})
    error = keys_of("error", Estimate.of(test, "mean_absolute_error"))
    return {**error, **test, **card.figures.get("promised", {})}


def _error_of(estimate: Any) -> float:
    """The standard error of an estimate, by the width of its interval, which it has."""
    return float(estimate.high - estimate.low) / (2 * _Z)


def _change(name: str, before: float, now: float, error: float, texts: int | None = None) -> Change:
    """A change with its interval and p, of the normal law with this standard error."""
    change = now - before
    p = float(change == 0)
    if error > 0:
        tail = special.ndtr(-abs(change) / error)
        p = 2 * float(tail)
    reach = _Z * error
    return Change(name, before, now, change - reach, change + reach, p, texts)


def _corrected(changes: list[Change]) -> list[Change]:
    """The changes with p corrected by Holm over all of them."""
    chances = np.array([change.p for change in changes])
    corrected = holm(chances).tolist()
    return [change._replace(p=p) for change, p in zip(changes, corrected, strict=True)]
