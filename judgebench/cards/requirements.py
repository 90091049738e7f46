"""Requirements of a judge that is measured again on labelled texts, and its changes since its card:
pure functions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import special

from judgebench.cards.card import RIGHT, JudgeCard
from judgebench.settings.fields import known_keys
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
from judgebench.stats.permutation import holm
from judgebench.studies.decisions import CHOSEN
from judgebench.studies.paired import IMPROVEMENT
from judgebench.studies.rules import BESIDE, CARE, NO, RULES, UNMEASURED, YES
from judgebench.studies.scores import first_record
from judgebench.types import FAILED, Array, Records, Row
from judgebench.words.errors import Mistakes, UserError, shown
from judgebench.words.formats import in_groups, say

if TYPE_CHECKING:
    from judgebench.results.results import Results

OF_DECISIONS = tuple(f"{name}{end}" for name in ("tpr", "tnr", "kappa") for end in ENDS)
OF_PASSES = tuple(f"pass_rate{end}" for end in ENDS)
"""Figures of a judge that decides, and of the texts that people pass."""

AT_LEAST = tuple(f"{name}{end}" for name in ("spearman", "pairs", "systems") for end in ENDS)
AT_LEAST += OF_DECISIONS + OF_PASSES
AT_MOST = (*(f"error{end}" for end in ENDS), "failed")
"""Figures that `require` bounds from below and from above."""

LEVELS = {"spearman": 0.05, "tpr": 0.01, "tnr": 0.01, "error": 0.005, "bias": 0.005}
"""Figure -> the risk with which its change since the card is worse on other texts, of a bias to
either side, of others to the worse: .08 together (for how often they fail a judge that has not
changed see `scripts/gates.py` and docs/ci.md)."""

MATERIAL = 0.1
"""A fall of Spearman, or of TPR and TNR, that a lower verdict must exclude to be chance."""

_TITLES = {
    "spearman": "Spearman",
    "tpr": "TPR",
    "tnr": "TNR",
    "error": "the estimates' error",
    "bias": "their bias",
}
_MANY = 10**6  # groups where their number is unknown
_PAIRED = 3  # figures that are compared on the same texts
_Z = float(special.ndtri(CONFIDENCE[1]))

LEAST = {"yes": YES, "with_care": CARE}
LEAST_OF = {verdict: word for word, verdict in LEAST.items()}

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


class Side(NamedTuple):
    """A figure of a judge, and its standard errors towards lower and higher values."""

    value: float
    below: float
    above: float

    def times(self, factor: float) -> Side:
        """The same with so many times the errors, as of other numbers of articles."""
        return Side(self.value, factor * self.below, factor * self.above)


class Change(NamedTuple):
    """A figure here less the card's.

    Attributes:
        low, high: of its 95 % interval.
        p: of a change for the worse, or of any in pairs; with `worse` where it is below `level`.
        half: the fall that half of such comparisons notice.
        most: the largest fall that is not excluded, one-sided at 5 %.
        texts: how many texts that made the card are compared in pairs; None on other texts.
    """

    name: str
    before: float
    now: float
    low: float
    high: float
    p: float
    level: float = SIGNIFICANCE
    half: float = 0.0
    most: float = math.inf
    texts: int | None = None

    @property
    def fall(self) -> float:
        """The change for the worse: a rise of an error, a bias to either side."""
        rise = self.now - self.before
        return {"error": rise, "bias": abs(rise)}.get(self.name, -rise)

    @property
    def worse(self) -> bool:
        """True where it is more than chance, and for the worse."""
        return self.p < self.level and self.fall > 0

    def __str__(self) -> str:
        chance = "p < .001" if self.p < 0.001 else f"p {self.p:.3f}".replace("0.", ".")
        change = Estimate(self.now - self.before, self.low, self.high)
        here = "here" if self.texts is None else f"here, on the same {self.texts} texts"
        return (
            f"{round(self.before, 2) + 0:.2f} on the card, {round(self.now, 2) + 0:.2f} {here}: "
            f"{change:+.2f}, {chance}"
        )


class Measured:
    """The judge of a card, as a run has measured it on labelled texts.

    Args:
        drawn: resamples and seed.

    Attributes:
        verdict: its records of verdict.json.
        rows: its rows of scores.parquet, of clean texts that humans rated.
        reason: why nothing could be measured; None where something was.
        figures: see `figures_of`; none where nothing could be measured.
    """

    def __init__(self, results: Results, card: JudgeCard, drawn: Mapping[str, int]) -> None:
        self.card = card
        self.drawn = drawn
        judge = card.series["judge"]
        self.verdict = [
            {**row, "clause": in_groups(row["clause"], results.groups)} for row in results.verdict
        ]
        rows = results.scores
        clean = (rows["attack"] == "none") & (rows["judge"] == judge)
        self.rows = rows[clean & rows["human"].notna()]
        self.reason: str | None = None
        self.figures: Numbers = {}
        place = {"level": "dataset", "attack": "none", "judge": judge}
        metric = first_record(results.metrics, place)
        # where the texts do not do, the verdict says the same of all uses that they decide
        clauses = {row["clause"] for row in self.verdict if row["use"] not in BESIDE}
        if not metric or not clauses:
            self.reason = f"too few rated {results.groups}"
        elif len(clauses) == 1:
            self.reason = clauses.pop()
        else:
            decision = first_record(results.decisions, {"judge": judge, "mark": CHOSEN})
            self.figures = figures_of(card, self.verdict, metric, self.rows, decision, **drawn)

    def changes(self, scores: Mapping[str, float] | None) -> list[Change]:
        """The changes since the card: of the same texts where it has `scores` of them, by example;
        else of other texts."""
        if self.reason is not None:
            return []
        if scores is not None:
            return paired_changes(self.card, self.rows, scores, **self.drawn)
        return changes_of(card_figures(self.card), self.figures)


def own_verdicts(card: JudgeCard) -> dict[str, str]:
    """Use -> the card's verdict of yes, or with care; where another defense resists attacks with
    care, the card does not have it."""
    own = {use["use"]: use["verdict"] for use in card.uses if use["verdict"] in LEAST_OF}
    if own.get("resist_attacks") == CARE:
        own.pop("resist_attacks")
    own.pop("steady", None)  # probes are asked again where it is required
    return own


def requirements_of(given: Any, card: JudgeCard) -> dict[str, str | float]:
    """The config key `require`: use -> `yes` or `with_care`, figure -> bound; None takes the card's
    own verdicts, and that a judge which says pass or fail may decide. Else `UserError`."""
    if given is None:
        given = {use: LEAST_OF[verdict] for use, verdict in own_verdicts(card).items()}
        if card.decision is not None:
            given.setdefault("decide", "with_care")
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
                "judgebench calibrate` with data.pass_from=LABEL, or labels of two classes, makes "
                "one that does."
            )
        elif name == "steady" and card.parts["defenses"] not in ([], ["none"]):
            mistakes.add(
                "require.steady: probes are asked without a defense, and the card's judge reads "
                "under one; leave it out."
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
    figures["groups"] = metric["groups"]
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


def by_changes(
    outcomes: Sequence[Outcome], card: JudgeCard, changes: Sequence[Change]
) -> list[Outcome]:
    """The outcomes of the card's own verdicts, where no other was asked for: one that is lower here
    has failed where a figure is worse beyond chance; else it has passed where a fall by `MATERIAL`
    is excluded, and too few texts are here where it is not.

    A verdict changes with a figure's estimate and interval, so that of a judge which has not changed
    it is lower on other texts in three gates of ten.
    """
    own = own_verdicts(card)
    worse = [_TITLES[change.name] for change in changes if change.worse]
    own.pop("resist_attacks", None)
    judged = []
    for outcome in outcomes:
        measures = ("tpr", "tnr") if outcome.name == "decide" else ()
        compared = [change for change in changes if change.name in measures]
        if not compared:  # in pairs there is no TPR
            compared = [change for change in changes if change.name == "spearman"]
        if outcome.state != "passed" and outcome.name in own and compared:
            farthest = max(compared, key=lambda change: change.most)
            fall = f"a fall of {_TITLES[farthest.name]} by {max(farthest.most, 0):.2f}"
            state = UNMEASURED
            why = f": by chance or by {fall}, too few texts to tell"
            if worse:
                state = "failed"
                why = f", {worse[0]} is worse"
            elif farthest.most < MATERIAL:
                state = "passed"
                why = f": by chance, for {fall} is excluded"
            said = f"{outcome.reason}; {own[outcome.name]} on the card{why}"
            outcome = outcome._replace(state=state, reason=said)
        judged.append(outcome)
    return judged


def drifts(changes: Sequence[Change], drift: str) -> list[Outcome]:
    """An outcome a change; one that is more than chance and for the worse fails, or warns, as the
    config key `drift` says."""
    worse = {"fail": "failed", "warn": "warning"}[drift]
    return [
        Outcome(
            f"drift_{change.name}",
            "within chance",
            worse if change.worse else "passed",
            str(change),
        )
        for change in changes
    ]


def not_required(required: Mapping[str, str | float], card: JudgeCard, verdict: Records) -> str:
    """A sentence on the uses that are not required, with the verdicts of the card and of these
    texts; empty where all are."""
    others = []
    for record in verdict:
        there = card.verdicts.get(record["use"], UNMEASURED)
        here = record["verdict"]
        if record["use"] not in required and {there, here} != {UNMEASURED}:
            others.append((RULES[record["use"]].title, there, here))
    return say("gate", part="not_required", others=others)


def untested(card: JudgeCard, changes: Sequence[Change]) -> str:
    """A sentence on the figures of other texts whose change could not be tested; empty where all
    were."""
    known = {change.name for change in changes}
    if card.decision is None:
        known |= {"tpr", "tnr"}
    missing = [title for name, title in _TITLES.items() if name not in known]
    return say("gate", part="untested", missing=missing)


def sides_of(figures: Row, percentiles: bool = False) -> dict[str, Side]:
    """Figures of a sample of articles, of `LEVELS`, with their standard errors, from the ends of
    their 95 % intervals; without those that have none.

    The ends of a share are Wilson's, so each side has an error of its own (as Newcombe's interval
    of a difference takes them, "Interval estimation for the difference between independent
    proportions", 1998, method 10). Others are of resampled articles (see `expanded`), or with
    `percentiles` the plain ones of Spearman; both are widened by G / (G - 1).

    Example:
        >>> sides_of({"groups": 21, "tpr": 0.9, "tpr_low": 0.7, "tpr_high": 0.95})["tpr"].below.__round__(3)
        0.096
    """
    groups = int(figures.get("groups") or _MANY)
    sides = dict[str, Side]()
    if groups < 2:
        return sides
    reach = float(special.stdtrit(groups - 1, CONFIDENCE[1]))
    wider = groups / (groups - 1)
    for name in LEVELS:
        figure = Estimate.of(figures, name)
        if figure is None or figure.low is None or figure.high is None:
            continue
        errors = np.array([figure.value - figure.low, figure.high - figure.value]) / reach
        if name not in ("tpr", "tnr"):
            errors[:] = errors.mean() * math.sqrt(wider)
        if name == "spearman" and percentiles:
            errors *= math.sqrt(wider) * reach / _Z
        sides[name] = Side(figure.value, *errors.tolist())
    return sides


def changes_of(card: Row, here: Row) -> list[Change]:
    """The changes of figures of `LEVELS` from a card's sample of articles to another, independent
    one, each a record with `groups` (without: many): by Student's t of the smaller sample, for the
    worse by the figure's level.

    Example:
        Standard errors .1 and .075 are .125 together, and -.25 is twice that.

        >>> card = {"spearman": 0.7, "spearman_low": 0.504, "spearman_high": 0.896}
        >>> (change,) = changes_of(card, {"spearman": 0.45, "spearman_low": 0.303, "spearman_high": 0.597})
        >>> round(change.p, 3), round(change.half, 3), round(change.most, 3), change.worse
        (0.023, 0.206, 0.456, True)
    """
    before = sides_of(card)
    now = sides_of(here, percentiles=True)
    sizes = [record.get("groups") or _MANY for record in (card, here)]
    if min(sizes) < 2:
        return []
    narrower = math.sqrt(sizes[0] / sizes[1])
    changes = []
    for name, level in LEVELS.items():
        if name not in before or name not in now:
            continue
        there = before[name]
        found = now[name]
        # what no resample varies, as the Spearman of one score for all, varies as on the other side
        if not any(found[1:]):
            found = there.times(narrower)._replace(value=found.value)
        elif not any(there[1:]):
            there = found.times(1 / narrower)._replace(value=there.value)
        change = _change_of(name, level, there, found, min(sizes) - 1)
        sides = 2 if name == "bias" else 1
        changes.append(change._replace(p=sides * change.p))
    return changes


_SAME = 1e-9
"""A difference of two figures below which they are one."""


def _change_of(name: str, level: float, card: Side, here: Side, freedom: int) -> Change:
    """A change by Student's t with so many degrees of freedom; p one-sided, of a bias to its side."""

    def quantile(share: float) -> float:
        return float(special.stdtrit(freedom, share))

    # the errors that a rise of the figure is measured by, and a fall of it
    rising = math.hypot(card.above, here.below)
    falling = math.hypot(card.below, here.above)
    change = here.value - card.value
    # the same figure, computed from the same scores in another order: its last digits are no change
    change = 0.0 if abs(change) < _SAME else change
    up = change > 0 if name == "bias" else name == "error"
    worse, better = (rising, falling) if up else (falling, rising)
    fall = change if up else -change
    p = (1 - np.sign(fall)) / 2
    if worse > 0:
        p = special.stdtr(freedom, -fall / worse)
    low = change - quantile(CONFIDENCE[1]) * rising
    high = change + quantile(CONFIDENCE[1]) * falling
    half = quantile(1 - level) * worse
    most = fall + quantile(1 - SIGNIFICANCE) * better
    return Change(name, card.value, here.value, low, high, float(p), level, half, most)


def paired_changes(
    card: JudgeCard, rows: Any, scores: Mapping[str, float], **drawn: int
) -> list[Change]:
    """The changes of Spearman, and of the estimates' error and bias, on the same texts, whose
    articles are resampled together; p is two-sided, of the normal law with their standard error
    (that of G articles times sqrt(G / (G - 1))), corrected by Holm.

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
        sides_of_one = Side(before[0], error, error), Side(now[0], 0.0, 0.0)
        changes.append(_change_of(name, SIGNIFICANCE, *sides_of_one, _MANY))
    # to both sides, and of all of them by Holm
    corrected = holm(np.array([2 * min(change.p, 1 - change.p) for change in changes]))
    return [
        change._replace(p=float(p), texts=len(rows))
        for change, p in zip(changes, corrected, strict=True)
    ]


def noticed(card: JudgeCard, groups: int, groups_are: str, paired: bool = False) -> str:
    """A sentence on the falls that half of such gates notice with so many groups, by the intervals
    on the card; empty where it has none. A standard error falls as 1 / sqrt(groups). In pairs the
    fall is the largest: both would agree no more than by chance."""
    figures = card_figures(card)
    of_card = figures.get("groups") or 0
    sides = sides_of(figures)
    if "spearman" not in sides or groups < 2:
        return ""
    # 1. the falls of figures; in pairs the largest, with the level of Holm's first
    levels = {name: LEVELS[name] for name in ("spearman", "tpr", "tnr") if name in sides}
    freedom = min(groups, of_card) - 1
    if paired:
        levels = {"spearman": SIGNIFICANCE / (2 * _PAIRED)}
        freedom = _MANY
    narrower = math.sqrt(of_card / groups)
    falls = []
    for name, level in levels.items():
        here = sides[name].times(narrower)
        change = _change_of(name, level, here if paired else sides[name], here, freedom)
        falls.append((_TITLES[name], change.half))
    # 2. the groups with which they notice a small one, where both sides have as many
    both = (sides["spearman"],) * 2
    change = _change_of("spearman", levels["spearman"], *both, _MANY)
    needed = max(FEWEST, of_card * (change.half / IMPROVEMENT) ** 2)
    return say(
        "gate",
        part="noticed",
        groups=groups,
        groups_are=groups_are,
        paired=paired,
        falls=falls,
        small=IMPROVEMENT,
        needed=float(f"{needed:.2g}"),
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
    shares = {"here": here["share"], "there": there.value, "held": held.value}
    return say("gate", part="low_rated", whole=whole.value, **shares)


def card_figures(card: JudgeCard) -> Row:
    """The figures that a card promised, by the names of `LEVELS`: those of its choice, and of its
    pass mark."""
    test = card.figures.get("test", {})
    error = keys_of("error", Estimate.of(test, "mean_absolute_error"))
    marked = {name: (card.decision or {}).get(name) for name in RIGHT}
    return {**test, **card.figures.get("promised", {}), **marked, **error}
