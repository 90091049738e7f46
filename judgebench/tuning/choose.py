"""Choosing among settings without waste: which judge, decoding and range to take, by all rated
texts of a dimension.

A setting's score of a text is always *held out*: whatever it has learned (a kappa, weights,
thresholds), it has learned from other articles. The choice itself is cross-fitted too: the articles
are dealt to folds; each fold's setting is chosen on the others, its learned parts as well, and
scores the fold's texts. What these scores are worth is what the choice promises. The maximum over
all settings promises more, and does not keep it.

The rule. The plain setting is the simplest: no assistant, nothing learned, the expectation, the
humans' own range; of several that are as simple as each other, the best. Settings compete with it
whose gain chance alone would give to the best of all in at most `LEVEL` of cases, and the best of
these is taken. The signs of the articles' shares in the differences are flipped, in all settings
together (see `judgebench.stats.permutation.flipped_differences`), and each difference is counted in its
own spread (Westfall and Young, "Resampling-Based Multiple Testing", 1993: single step). A level of
.05 would ask whether another setting *is* better; a choice asks which is likelier to be.

The level was chosen on 17 tasks: settings of a recorded model on code, students' answers,
translations and summaries, six judges of summaries, and the judges of eleven public sets. Half of
the articles (at most 60), or ten, choose; the loss is that of Spearman, or of the share of pairs,
to the best setting of the others. Its mean over the tasks is .031 and .036 at levels of .5 and .35;
.036 and .046 at .05, .037 and .047 of the maximum, .087 of always the plain setting. Where settings
hardly differ (code) it is .012 and .010, of the maximum .020 and .047. The worst is 120 translations
of which ten choose: .073, the plain setting .031, the maximum .159. Learning the worth of settings
together (empirical Bayes), and the one standard error rule, gained nothing (`scripts/simulate.py
choice --recorded`, `scripts/external.py`).

Few articles choose, too. Over 38 public tasks, each judge in turn the plain one and half of the
groups choosing, the loss is .0284; of the maximum .0274, of the one standard error rule .0298. With
the plain setting below eight groups it was .0347: two sets of few groups with many texts paid .06.
On no task is the rule more than .018 worse than the best of these. A few articles are a doubtful
ground all the same: `Choice.better` says of each gain whether chance explains it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from judgebench.decoding.rules import Contrastive, Decodings
from judgebench.stats.clusters import (
    FEWEST,
    SIGNIFICANCE,
    Clusters,
    expanded,
    with_intervals,
)
from judgebench.stats.correlation import DistinctPairs, influences, pair_influences
from judgebench.stats.folds import by_other_folds, deal_folds
from judgebench.stats.maps import rescale, rising_slope
from judgebench.stats.permutation import flipped_means, flips
from judgebench.studies.scores import CLEAN, Scores, ScoreSeries, common_rows
from judgebench.tuning.learned import Learner, Learners, Tuned, check_groups
from judgebench.tuning.tuners import EQUAL, FEW_LABELS, CrossFit
from judgebench.types import Array, Record, Rows, Scale, Scales

LEVEL = 0.5
"""The largest chance with which the best of all settings has such a gain without an effect, of
settings that compete with the plain one."""

FLIPS = 4095
"""Of the signs of the articles' shares, behind each choice; all there are of up to 11 articles."""


# --- the worth of settings ----------------------------------------------------------------------


def worth_of(metric: str, scores: Array, human: Array, groups: Array) -> Array:
    """The articles' shares [G, S] in the worth of each setting, which is their mean; larger is
    better, errors count below 0.

    An article's share is the worth and how fast it changes with the article's weight (see
    `judgebench.stats.correlation.influences`). Their spread over sqrt(G) is the standard error: on
    recorded judges that of a difference is .9 to 1.1 of the bootstrap's with 48 articles and more,
    and .7 to 1.1 with 10.

    Args:
        metric: of `judgebench.tuning.tuners.METRICS`.
        scores: [N, S] of settings; human, groups: [N].
    """
    if metric == "agreement":
        right = 1.0 * (np.round(scores) == np.round(human)[:, None])
        values = right.mean(axis=0)
        change = (right - values) / len(human)
    elif metric == "pairs":
        values, change = pair_influences(scores, human)
    elif metric == "error":
        all_rows = np.ones(len(human), dtype=bool)
        loss = np.abs(fit_linear(scores, human, all_rows) - human[:, None])
        values = -loss.mean(axis=0)
        change = (-loss - values) / len(human)
    else:
        values, change = influences(scores, human, metric == "spearman")
    clusters = Clusters.of(groups, resamples=0)
    return np.asarray(values + clusters.count * clusters.totals(change))


def fit_linear(scores: Array, human: Array, rows: Array) -> Array:
    """[N, S] scores of each setting on the humans' scale by least squares over the texts `rows`: a
    + b score, b at least 0."""
    slope = rising_slope(scores[rows], human[rows])  # [S]
    return np.asarray(human[rows].mean() + slope * (scores - scores[rows].mean(axis=0)))


class Choice(NamedTuple):
    """The outcome of the rule: the numbers of two settings; [S] gains over the plain one, their
    standard errors (NaN with one article), and True where a gain is more than chance gives at 5 %."""

    taken: int
    best: int
    gain: Array
    error: Array
    better: Array


def choose(shares: Array, kind: Sequence[int] | None = None, varied: Array | None = None) -> Choice:
    """The setting to take, see the module.

    Args:
        shares: [G, S] see `worth_of`; settings from the simplest to the least simple. Of one
            article the plain setting is taken.
        kind: [S] ascending, equal for settings as simple as each other; None: each is less simple
            than the one before.
        varied: [S] False where a setting gives every text the same score: its worth of 0 is no
            agreement, and it is not taken, unless all are such.

    Example:
        Twelve articles, each with shares in the worth of three settings: both others are better,
            the second more so.

        >>> six = [[0.5, 0.6, 0.7], [0.4, 0.6, 0.6], [0.6, 0.7, 0.9], [0.5, 0.6, 0.8], [0.3, 0.4, 0.6], [0.4, 0.5, 0.7]]
        >>> shares = np.array(six + six)
        >>> choice = choose(shares)
        >>> choice.gain.round(3).tolist(), choice.better.tolist(), choice.taken
        ([0.0, 0.117, 0.267], [False, True, True], 2)
    """
    groups, number = shares.shape
    if varied is None or not varied.any():
        varied = np.ones(number, dtype=bool)
    kinds = np.arange(number) if kind is None else np.asarray(kind)
    values = np.where(varied, shares.mean(axis=0), -np.inf)  # [S]

    def first_best(among: Array) -> int:
        largest = values[among].max()
        return int(np.argmax(among & (values >= largest - EQUAL)))

    def simplest(among: Array) -> Array:
        return among & (kinds == kinds[among].min())

    # 1. gains over the plain setting, the best of the simplest kind
    plain = first_best(simplest(varied))
    best = first_best(varied)
    apart = shares - shares[:, [plain]]  # [G, S]
    gain = apart.mean(axis=0)  # [S]
    if groups < 2:
        return Choice(plain, best, gain, np.full(number, np.nan), np.zeros(number, dtype=bool))
    root = np.sqrt(groups)
    error = apart.std(axis=0, ddof=1) / root
    # 2. gains that chance does not give: each in units of its shares' root mean square, which no
    # flip of signs changes, compared with the largest of all settings under joint flips
    scale = np.sqrt((apart**2).mean(axis=0))
    units = np.where(varied & (scale > 1e-9), scale, np.inf)
    flipped, exact = flips(groups, FLIPS)
    largest = flipped_means((apart / units).T, flipped).max(axis=0)  # [flips]
    sampled = int(not exact)  # the data themselves count as one more flip where flips are drawn
    in_units = gain / units
    reached = largest >= in_units[:, None] - EQUAL  # [S, flips]
    as_large = reached.sum(axis=1) + sampled
    known = (gain > EQUAL) & np.isfinite(units)
    tried = len(largest) + sampled
    better = known & (as_large <= SIGNIFICANCE * tried)
    # 3. the best of those that compete
    competing = known & (as_large <= LEVEL * tried)
    taken = first_best(competing) if competing.any() else plain
    return Choice(taken, best, gain, error, better)


# --- the choice of a dimension ------------------------------------------------------------------


@dataclass(frozen=True)
class Candidates:
    """Settings to choose among, in one dimension: N rated texts under S settings, the simplest
    first.

    Attributes:
        scores: [N, S] held out, each setting on its own scale.
        learners: the settings that learn, by their numbers.
        human, groups: [N].
        kind: [S] see `choose`.
    """

    scores: Array
    learners: Mapping[int, Learner]
    human: Array
    groups: Array
    metric: str = "spearman"
    kind: Sequence[int] | None = None

    def taught(self, rows: Array, folds: int, seed: int) -> Array:
        """[N, S] scores, those that learn held out within the texts `rows`, and by all of these for
        other texts."""
        # texts that do not teach are a fold of their own, which all of `rows` teach
        fold = np.where(rows, deal_folds(self.groups, folds, seed), -1)
        scores = self.scores.copy()
        for number, learner in self.learners.items():

            def answer(teaching: Array, asked: Array, learner: Learner = learner) -> Array:
                teaching = teaching & rows
                return learner.scores(teaching if teaching.any() else rows)[asked]

            scores[:, number] = by_other_folds(fold, answer)
        return scores

    def cross_fitted(self, folds: int, seed: int) -> tuple[Array, dict[int, Any]]:
        """[N, S] scores as the run has them, each fold's by what the others teach; and the settings
        that learn, by their numbers."""
        scores = self.scores.copy()
        learned = {}
        for number, learner in self.learners.items():
            folded = learner.folded(folds, seed)
            scores[:, number] = folded.scores_of(learner.groups.tolist(), learner.shown)
            learned[number] = folded
        return scores, learned

    def choose(self, rows: Array, scores: Array) -> Choice:
        """The choice by the texts `rows`, of what is `taught`."""
        known = scores[rows]
        shares = worth_of(self.metric, known, self.human[rows], self.groups[rows])
        varied = (known != known[0]).any(axis=0)
        return choose(shares, self.kind, varied)

    def promise(self, folds: int, repeats: int, resamples: int, seed: int) -> Record:
        """The worth of the rule's choice on articles that did not choose: `taken`, the share of
        folds that took each setting, [S]; and spearman, pearson and error, with 95 % intervals,
        means over `repeats` dealings of the folds.

        Articles are resampled outside of the folds: each keeps its held-out scores. For the
        correlations they are standardized over all texts of their setting, without a look at the
        humans', so that a setting that every fold takes keeps its own; for the error they reach the
        humans' scale by the straight line of the other folds. Twice `folds` test the choice: it
        promises too little where it is made on many articles fewer than the card's.
        """
        clusters = Clusters.of(self.groups, resamples, seed)
        parts = min(2 * folds, clusters.count)
        times_taken = np.zeros(self.scores.shape[1])  # [S]
        figures: dict[str, list[Array]] = defaultdict(list)
        for repeat in range(repeats):
            # 1. each fold's choice by the other folds, and the scores that it gives

            def answer(teaching: Array, asked: Array, seed: int = seed + repeat + 1) -> Array:
                scores = self.taught(teaching, folds, seed)
                setting = self.choose(teaching, scores).taken
                times_taken[setting] += 1
                column = scores[:, setting]
                standard = (column - column.mean()) / (column.std() or 1.0)
                estimate = fit_linear(column[:, None], self.human, teaching)[:, 0]
                return np.stack([standard, estimate, column])[:, asked]

            fold = deal_folds(self.groups, parts, seed + repeat)
            standard, estimate, plain = by_other_folds(fold, answer)
            # 2. their worth, [1 + B] each
            pairs = DistinctPairs(standard, self.human, clusters.number, clusters.count)
            error = np.abs(estimate - self.human)
            figures["spearman"].append(pairs.spearman(clusters.weights))
            figures["pearson"].append(pairs.pearson(clusters.weights))
            figures["error"].append(clusters.mean(error))
            if self.metric in ("pairs", "agreement"):
                held_out = standard if self.metric == "pairs" else plain
                shares = worth_of(self.metric, held_out[:, None], self.human, self.groups)
                drawn = clusters.weights @ shares[:, 0] / clusters.count
                figures[self.metric].append(np.clip(drawn, 0.0, 1.0))
        # 3. means over the dealings
        means = {name: np.mean(values, axis=0) for name, values in figures.items()}
        taken = {"taken": times_taken / times_taken.sum()}
        return taken | with_intervals(means, expanded(clusters.count))


def choice_records(
    scores: Scores,
    dataset: str,
    decodings: Decodings,
    tuned: Tuned,
    tuner: Any,
    scale: Scales,
    resamples: int,
    reads: bool = True,
    labels: Mapping[str, tuple[int, bool]] | None = None,
) -> Rows:
    """The worth of each setting of judge, decoding, range and defense, and the one taken: a record
    a setting, from the simplest of a dimension to the least simple, the plain one first.

    Args:
        decodings: name -> the configured decoding.
        tuner: `CrossFit`; another, or none: the choice is cross-fitted as by its defaults, and a
            dimension with rated texts of a single article has no records.
        scale: dimension -> the humans' scale: a range equal to it is their own.
        labels: dimension -> the number of values that labels have, and whether they are ordered;
            without it they are many.
        reads: whether the assistant takes a pass of its own for each text.

    Returns:
        JSON's own types, never NaN: dataset, dimension, the keys of `ScoreSeries.named`; metric, n,
        groups; worth, gain (over the plain setting) and gain_se, in the metric's units, larger is
        better; better: the gain is more than chance; taken, best; share: of the folds that take it;
        settings: what all texts teach it; kappas: of each fold, where it contrasts; and for the
            setting that is taken promised_spearman, promised_pearson and promised_error with
            `_low` and `_high`, null elsewhere; ranges, readings: how many ranges,
        and passes over a prompt of the text, a score takes; and, of the one that is taken,
        left_out: sentences on what could not learn or be chosen for the metric, where there are
            some.
    """
    records = []
    cells = [cell for cell in scores.cells if cell.attack == CLEAN and cell.split == scores.split]
    crossfit = tuner if isinstance(tuner, CrossFit) else CrossFit()
    for dimension in dict.fromkeys(cell.dimension for cell in cells):
        # 1. the settings, the simplest first, and their scores of the texts that all of them scored
        here = [cell for cell in cells if cell.dimension == dimension]
        left_out = [*tuned.left_out.get(dimension, ())]
        metric = crossfit.metric_of(*(labels or {}).get(dimension, (FEW_LABELS, True)))
        settings, among = _candidates(
            scores, here, decodings, tuned.learners, metric, scale.get(dimension)
        )
        human = among.human
        groups = len(set(among.groups))
        if crossfit is tuner:
            check_groups(groups, dimension)
        elif groups < 2:
            continue
        # 2. the choice by all of them, and what it promises
        folds = min(crossfit.folds, groups)
        rows = np.ones(len(human), dtype=bool)
        held_out, learned = among.cross_fitted(folds, crossfit.seed)
        choice = among.choose(rows, held_out)
        promise = among.promise(folds, crossfit.repeats, resamples, crossfit.seed)
        shares = worth_of(metric, held_out, human, among.groups)
        worths = shares.mean(axis=0)
        for number, cell in enumerate(settings):
            record = {
                "dataset": dataset,
                **cell.named,
                "metric": metric,
                "n": len(human),
                "groups": groups,
                "worth": float(worths[number]),
                "gain": float(choice.gain[number]),
                "gain_se": float(choice.error[number]),
                "better": bool(choice.better[number]),
                "taken": number == choice.taken,
                "best": number == choice.best,
                "share": float(promise["taken"][number]),
                "settings": None,
                "kappas": None,
            }
            # 3. what it learned, and what a score takes
            if number in learned:
                folded = learned[number]
                kappas = [part.kappa for part in folded.parts if isinstance(part, Contrastive)]
                record |= {"settings": folded.whole.settings, "kappas": kappas or None}
            decoding = decodings.get(cell.decoding)
            ranges = len({of.range for of in here}) if decoding and decoding.across else 1
            passes = 2 if reads and cell.judge == "pair" else 1
            record |= {"ranges": ranges, "readings": ranges * passes}
            for name in promise:
                if name != "taken":
                    record[f"promised_{name}"] = promise[name] if record["taken"] else None
            if left_out and record["taken"]:
                record["left_out"] = left_out
            records.append(record)
    return records


def _candidates(
    scores: Scores,
    cells: Sequence[ScoreSeries],
    decodings: Decodings,
    learners: Learners,
    metric: str,
    own: Scale | None,
) -> tuple[list[ScoreSeries], Candidates]:
    """The settings among the cells of a dimension, the simplest first; an assistant alone is
    another judge."""

    def simplicity(cell: ScoreSeries) -> tuple[bool, ...]:
        decoding = decodings.get(cell.decoding)
        return (
            cell.judge == "pair",
            bool(decoding and decoding.learns),
            bool(decoding and decoding.across),
            cell.defense != CLEAN,
            getattr(decoding, "rule", "argmax") != "expectation",
            (cell.range.minimum, cell.range.maximum) != own or bool(cell.range.labels),
            getattr(decoding, "kind", "greedy") not in ("greedy", "expectation"),
        )

    # 1. the settings, and the texts that all of them scored
    settings = [cell for cell in cells if cell.judge in ("main", "pair")]
    settings.sort(key=simplicity)
    kinds = [simplicity(cell) for cell in settings]
    # the texts that all settings answered; all texts where those are of too few groups to choose by
    for table in (scores.answered, scores):
        parts = common_rows([table.rated(cell) for cell in settings])
        if len(np.unique(parts[0]["group_id"])) >= FEWEST:
            break
    human = parts[0]["human"]
    groups = parts[0]["group_id"].astype(str)
    names = parts[0]["example_id"].tolist()
    # 2. scores [N, S], and what each setting that learns learns by; of one judge: what needs no
    # assistant says nothing of it
    learned = {}
    values = np.stack([part["score"] for part in parts], axis=1)
    if metric == "agreement" and own is not None:
        for number, cell in enumerate(settings):
            values[:, number] = rescale(values[:, number], cell.range.ends, own)
    for number, cell in enumerate(settings):
        of_cell = learners.get((cell.dimension, cell.range, cell.defense), {})
        if cell.decoding in of_cell:
            learner, texts = of_cell[cell.decoding]
            place = {name: row for row, name in enumerate(texts)}
            learned[number] = learner.at([place[name] for name in names])
    kind = [sorted(set(kinds)).index(name) for name in kinds]
    return settings, Candidates(values, learned, human, groups, metric, kind)
