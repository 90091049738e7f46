"""Choosing among settings without waste: which judge, decoding and range to take, by all rated texts of a dimension.

A setting's score of a text is always *held out*: whatever it has learned (a kappa, weights, thresholds), it has learned
from other articles. The choice itself is cross-fitted too: the articles are dealt to folds; each fold's setting is
chosen on the others, its learned parts as well, and scores the fold's texts. What these scores are worth is what the
choice promises. The maximum over all settings promises more, and does not keep it.

The rule. The plain setting is the simplest: no assistant, nothing learned, the expectation, the humans' own range.
Another is taken only where it is better than the plain one by more than the largest of all settings' differences would
be by chance (max-t over resampled articles, 5 %). Of those that are, the simplest within one standard error of the best
is taken (the one standard error rule: Breiman et al., "Classification and Regression Trees", 1984, section 3.4.3).

On 288 Python snippets of 48 intents, 152 settings and half of the intents, the maximum loses .020 of Spearman to the
best setting of the other half, and in one draw of ten .096; this rule .012 and .021. On a fifth of the intents: .067
and .112, against .014 and .015.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy  # its parts come when they are first used

from judgebench.decoding.rules import Contrastive, Decoding, Folded, Ranged
from judgebench.runtime.errors import UserError
from judgebench.stats.clusters import SIGNIFICANCE, Clusters, divided, expanded, with_intervals
from judgebench.stats.correlation import ratio
from judgebench.stats.scores import CLEAN, Cell, Scores, shared
from judgebench.tuning.tuners import CrossFit, Setting, best_point
from judgebench.types import ScoreRange

RESAMPLES = 400
"""Of the articles, behind each choice: its standard errors and the chance level of the largest difference."""


def deal(groups: np.ndarray, folds: int, seed: int) -> np.ndarray:
    """The fold of each text [N], all texts of an article in one: as even as can be, in an order drawn with the seed.

    Example:
        >>> deal(np.array(["a", "a", "b", "c"]), 3, seed=0).tolist()
        [1, 1, 2, 0]
    """
    labels, number = np.unique(groups, return_inverse=True)
    fold = np.empty(len(labels), dtype=np.int64)
    fold[np.random.default_rng(seed).permutation(len(labels))] = np.arange(len(labels)) % folds
    return np.asarray(fold[number])


# --- learning ---------------------------------------------------------------------------------------------------------


class Learner:
    """A decoding that learns from human scores, over the rated texts of a dimension in one range or in all.

    Attributes:
        decoding: one that `learns`, or one that contrasts, of which `grid` is tried: the best by Spearman is taken.
        readings: [N] of the texts, a `Ranged` a range.
        human: [N] on the scale of the first range.
        groups: [N] articles.
    """

    def __init__(
        self,
        decoding: Decoding,
        readings: Sequence[Ranged],
        human: np.ndarray,
        groups: np.ndarray,
        grid: Sequence[Setting],
    ) -> None:
        self.decoding, self.readings, self.human, self.groups, self.grid = decoding, readings, human, groups, grid
        self._learned: dict[bytes, Decoding] = {}

    @cached_property
    def _tried(self) -> tuple[list[Contrastive], np.ndarray]:
        """The grid's decodings, of each kappa once, and their scores [N, P]."""
        assert isinstance(self.decoding, Contrastive)
        by_kappa = {setting.same: setting for setting in reversed(self.grid)}
        decodings = [
            replace(self.decoding, lambda_=setting.lambda_, temperature=setting.temperature)
            for _, setting in sorted(by_kappa.items())
        ]
        return decodings, np.stack([decoding.scores_across(self.readings) for decoding in decodings], axis=1)

    def learn(self, rows: np.ndarray) -> Decoding:
        """The decoding that the texts `rows` [N] (True for each) teach."""
        if rows.tobytes() not in self._learned:
            if self.decoding.learns:
                decoding = self.decoding.fitted([part.at(rows) for part in self.readings], self.human[rows])
            else:
                decodings, scores = self._tried
                clusters = Clusters.of(self.groups[rows], resamples=0)
                values = worth_of("spearman", scores[rows], self.human[rows], clusters)[0]
                constant = (scores[rows] == scores[rows][0]).all(axis=0)
                grid = [Setting(decoding.lambda_, decoding.temperature) for decoding in decodings]
                decoding = decodings[best_point(grid, values.tolist(), constant.tolist())]
            self._learned[rows.tobytes()] = decoding
        return self._learned[rows.tobytes()]

    def at(self, texts: Sequence[int]) -> Learner:
        """The same over some of its texts, by their numbers."""
        rows = np.asarray(texts)
        readings = [part.at(rows) for part in self.readings]
        return Learner(self.decoding, readings, self.human[rows], self.groups[rows], self.grid)

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """Scores [N] of all texts by what the texts `rows` teach."""
        return self.learn(rows).scores_across(self.readings)

    def folded(self, folds: int, seed: int) -> Folded:
        """The cross-fitted decoding of a run, and the one that all texts teach."""
        fold, everything = deal(self.groups, folds, seed), np.ones(len(self.human), dtype=bool)
        parts = [self.learn(fold != number) for number in range(folds)]
        return Folded(dict(zip(self.groups.tolist(), fold.tolist(), strict=True)), parts, self.learn(everything))


# --- the worth of settings --------------------------------------------------------------------------------------------


def worth_of(
    metric: str, scores: np.ndarray, human: np.ndarray, clusters: Clusters, centers: np.ndarray | None = None
) -> np.ndarray:
    """The worth [1 + B, S] of each setting, the data first, then each resample; larger is better, errors count below 0.

    Texts keep the ranks that they have in the data: of Spearman's rho they are the data. Its standard error differs
    from that of ranks drawn up in each resample by a few per cent, and takes a hundredth of the time.

    Args:
        metric: of `judgebench.tuning.tuners.METRICS`.
        scores: [N, S] of settings; human: [N]; clusters: of the texts.
        centers: [N, S] for `stability`: the mean of each setting's scores over all ranges, on its own scale.
    """
    if metric == "stability":
        assert centers is not None
        loss = np.abs(scores - centers) / np.maximum(scores.std(axis=0), 1e-12)
    elif metric == "error":
        loss = np.abs(straightened(scores, human) - human[:, None])
    else:
        ranked = metric == "spearman"
        x, y = (scipy.stats.rankdata(scores, axis=0), scipy.stats.rankdata(human)) if ranked else (scores, human)
        x, y = (x - x[0]) - (x - x[0]).mean(axis=0), y - y.mean()
        columns = np.concatenate([x, x * x, x * y[:, None], np.stack([y, y * y, np.ones(len(y))], axis=1)], axis=1)
        totals, number = clusters.sums(columns), scores.shape[1]
        mean_x, square_x, product = (totals[:, i * number : (i + 1) * number] for i in range(3))
        mean_y, square_y, count = (totals[:, 3 * number + i, None] for i in range(3))
        spread = square_x - mean_x * mean_x / count
        spread = np.where(spread > 1e-12 * np.maximum(square_x, 1e-300), spread, 0.0)
        return ratio(product - mean_x * mean_y / count, spread, square_y - mean_y * mean_y / count)
    weights = clusters.weights @ np.bincount(clusters.number, minlength=clusters.count)
    return -divided(clusters.sums(loss), np.broadcast_to(weights[:, None], (len(weights), loss.shape[1])))


def straightened(scores: np.ndarray, human: np.ndarray) -> np.ndarray:
    """[N, S] scores of each setting on the humans' scale by least squares: a + b score, b at least 0."""
    x, y = scores - scores.mean(axis=0), human - human.mean()
    slope = np.maximum(divided(x.T @ y, (x * x).sum(axis=0)), 0.0)
    return human.mean() + np.nan_to_num(slope) * x


class Choice(NamedTuple):
    """The outcome of the rule: the numbers of two settings; [S] gains over the plain one, their standard errors, and
    True where a gain is more than chance."""

    taken: int
    best: int
    gain: np.ndarray
    error: np.ndarray
    better: np.ndarray


def choose(values: np.ndarray, groups: int) -> Choice:
    """The setting to take, see the module.

    Args:
        values: [1 + B, S] see `worth_of`; settings from the simplest to the least simple, so that the first is the
            plain one. With no resamples, as with a single article, the plain one is taken.
        groups: G, the articles: percentile tails of few are too short, and are lengthened as in `clusters.expanded`.

    Example:
        >>> values = np.array([[0.6, 0.8, 0.7], [0.5, 0.75, 0.6], [0.7, 0.85, 0.8]])
        >>> choose(values, groups=40).taken
        1
    """
    gain = values - values[:, :1]
    best = int(np.argmax(values[0]))
    if len(values) < 3 or groups < 2:
        return Choice(0, best, gain[0], np.full(gain.shape[1], np.nan), np.zeros(gain.shape[1], dtype=bool))
    # 1. the largest difference that chance gives, in standard errors, with Student's longer tails for few articles
    error = gain[1:].std(axis=0) * math.sqrt(groups / (groups - 1))
    known = np.where(error > 1e-9, error, np.inf)
    share = 2 * (1 - expanded(groups)[1])  # below .05, the fewer the articles
    largest = ((gain[1:] - gain[0]) / known).max(axis=1)
    better = gain[0] / known > np.quantile(largest, 1 - min(share, SIGNIFICANCE))
    if not better.any():
        return Choice(0, best, gain[0], error, better)
    # 2. of those that are better, the simplest that the best of them does not beat by more than a standard error
    top = int(np.argmax(np.where(better, values[0], -np.inf)))
    behind = values[:, [top]] - values
    near = behind[0] <= behind[1:].std(axis=0) * math.sqrt(groups / (groups - 1))
    return Choice(int(np.argmax(better & near)), best, gain[0], error, better)


# --- the choice of a dimension ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Candidates:
    """Settings to choose among, in one dimension: N rated texts under S settings, the simplest first.

    Attributes:
        scores: [N, S] held out, each setting on its own scale.
        learners: the settings that learn, by their numbers.
        human, groups: [N].
        family: [S] a label of judge, decoding and defense: settings that differ in the range alone.
        maximum: True to take the setting with the largest worth, as a sweep does, instead of the rule's.
    """

    scores: np.ndarray
    learners: Mapping[int, Learner]
    human: np.ndarray
    groups: np.ndarray
    family: Sequence[Any]
    metric: str = "spearman"
    maximum: bool = False

    def taught(self, rows: np.ndarray, folds: int, seed: int) -> np.ndarray:
        """[N, S] scores, those that learn held out within the texts `rows`, and by all of these for other texts."""
        scores, fold = self.scores.copy(), deal(self.groups, folds, seed)
        for number, learner in self.learners.items():
            scores[:, number] = learner.scores(rows)
            for part in np.unique(fold[rows]):
                held_out = rows & (fold == part)
                teaching = rows & (fold != part)
                scores[held_out, number] = learner.scores(teaching if teaching.any() else rows)[held_out]
        return scores

    def choose(self, rows: np.ndarray, scores: np.ndarray, seed: int) -> Choice:
        """The choice by the texts `rows`."""
        clusters = Clusters.of(self.groups[rows], 0 if self.maximum else RESAMPLES, seed)
        centers = self.centers(scores)[rows] if self.metric == "stability" else None
        if self.maximum:
            values = worth_of(self.metric, scores[rows], self.human[rows], clusters)[0]
            best = int(np.argmax(values))
            return Choice(best, best, values - values[0], np.full(len(values), np.nan), values > values[0])
        return choose(worth_of(self.metric, scores[rows], self.human[rows], clusters, centers), clusters.count)

    def centers(self, scores: np.ndarray) -> np.ndarray:
        """[N, S] the mean over the ranges of each family's standardized scores, on each setting's own scale."""
        spread, means = scores.std(axis=0), scores.mean(axis=0)
        standard = divided(scores - means, np.broadcast_to(np.maximum(spread, 1e-12), scores.shape))
        of_family = [
            standard[:, [j for j, other in enumerate(self.family) if other == name]].mean(axis=1)
            for name in self.family
        ]
        return means + np.stack(of_family, axis=1) * spread

    def promise(self, folds: int, repeats: int, resamples: int, seed: int) -> dict[str, Any]:
        """The worth of the rule's choice on articles that did not choose: `taken`, the share of folds that took each
        setting, [S]; and spearman, pearson and error with 95 % intervals, means over `repeats` dealings of the folds.

        Articles are resampled outside of the folds: each keeps its held-out scores. A fold's scores reach the humans'
        scale by the straight line of its setting over all texts, so that a setting that every fold takes keeps its own
        ranks.
        """
        # 1. each fold's choice by the other folds, and the scores that it gives
        taken = np.zeros(self.scores.shape[1])
        clusters, figures = Clusters.of(self.groups, resamples, seed), dict[str, list[np.ndarray]]()
        for repeat in range(repeats):
            fold, kept = deal(self.groups, folds, seed + repeat), np.empty(len(self.human))
            for number in np.unique(fold):
                rows = fold != number
                scores = self.taught(rows, folds, seed + repeat + 1)
                setting = self.choose(rows, scores, seed).taken
                kept[~rows] = straightened(scores[:, [setting]], self.human)[~rows, 0]
                taken[setting] += 1
            # 2. their worth
            for metric in ("spearman", "pearson", "error"):
                values = worth_of(metric, kept[:, None], self.human, clusters)[:, 0]
                figures.setdefault(metric, []).append(-values if metric == "error" else values)
        means = {name: np.mean(values, axis=0) for name, values in figures.items()}
        return {"taken": taken / taken.sum()} | with_intervals(means, expanded(clusters.count))


def check_groups(groups: int, dimension: str, key: str) -> None:
    """Raises `UserError` where there are too few rated articles to choose by other articles."""
    if groups < 2:
        raise UserError(
            f"{key}: humans rated texts of {groups} article{'' if groups == 1 else 's'} on {dimension}, and a choice "
            "needs two at least, one to choose by and one to test it on; rate texts of more articles."
        )


def choice_records(
    scores: Scores,
    dataset: str,
    decodings: Mapping[str, Decoding],
    learners: Mapping[tuple[str, ScoreRange], Mapping[str, tuple[Learner, list[str]]]],
    tuner: CrossFit,
    scale: Mapping[str, tuple[float, float] | None],
    resamples: int,
) -> list[dict[str, Any]]:
    """The worth of each setting of judge, decoding, range and defense, and the one taken: a record a setting, from the
    simplest of a dimension to the least simple, the plain one first.

    Args:
        decodings: name -> the configured decoding.
        learners: (dimension, range) -> name -> what was cross-fitted, with the texts' names.
        scale: dimension -> the humans' scale: a range equal to it is their own.

    Returns:
        JSON's own types, never NaN: dataset, dimension, the keys of `Cell.named`; metric, n, groups; worth, gain (over
        the plain setting) and gain_se, in the metric's units, larger is better; better: the gain is more than chance;
        taken, best; share: of the folds that take it; settings: what all texts teach it; kappas: of each fold, where it
        contrasts; and for the setting that is taken promised_spearman, promised_pearson and promised_error with `_low`
        and `_high`, null elsewhere.
    """
    records: list[dict[str, Any]] = []
    cells = [cell for cell in scores.cells if cell.attack == CLEAN and cell.split == scores.split]
    for dimension in dict.fromkeys(cell.dimension for cell in cells):
        # 1. the settings, the simplest first; an assistant alone is another judge
        def simplicity(cell: Cell, own: tuple[float, float] | None = scale.get(dimension)) -> tuple[bool, ...]:
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

        settings = [cell for cell in cells if cell.dimension == dimension and cell.judge in ("main", "pair")]
        settings.sort(key=simplicity)
        # 2. their scores of the texts that all of them scored
        parts = shared([rated_part(scores, cell) for cell in settings])
        human, groups, names = parts[0]["human"], parts[0]["group_id"].astype(str), parts[0]["example_id"].tolist()
        check_groups(len(set(groups)), dimension, "tune=crossfit")
        learned = {}
        for number, cell in enumerate(settings):
            of_cell = learners.get((dimension, cell.range), {}) if cell.defense == CLEAN else {}
            if cell.decoding in of_cell and cell.judge == (
                "pair" if decodings[cell.decoding].needs_assistant else "main"
            ):
                learner, texts = of_cell[cell.decoding]
                learned[number] = learner.at([texts.index(name) for name in names])
        values = np.stack([part["score"] for part in parts], axis=1)
        families = [(cell.judge, cell.decoding, cell.defense) for cell in settings]
        among = Candidates(values, learned, human, groups, families, tuner.metric)
        # 3. the choice by all of them, and what it promises
        folds, rows = min(tuner.folds, len(set(groups))), np.ones(len(human), dtype=bool)
        held_out = among.taught(rows, folds, tuner.seed)
        choice = among.choose(rows, held_out, tuner.seed)
        promise = among.promise(folds, tuner.repeats, resamples, tuner.seed)
        centers = among.centers(held_out) if tuner.metric == "stability" else None
        worths = worth_of(tuner.metric, held_out, human, Clusters.of(groups, resamples=0), centers)[0]
        for number, cell in enumerate(settings):
            folded = learned[number].folded(folds, tuner.seed) if number in learned else None
            record = {"dataset": dataset} | cell.named | {"metric": tuner.metric, "n": len(human)}
            record |= {"groups": len(set(groups)), "worth": float(worths[number]), "gain": float(choice.gain[number])}
            error = float(choice.error[number])
            record |= {"gain_se": error if math.isfinite(error) else None, "better": bool(choice.better[number])}
            record |= {"taken": number == choice.taken, "best": number == choice.best}
            record |= {"share": float(promise["taken"][number]), "settings": folded and folded.whole.settings}
            kappas = [part.kappa for part in folded.parts if isinstance(part, Contrastive)] if folded else []
            record["kappas"] = kappas or None
            for name in [f"{name}{end}" for name in ("spearman", "pearson", "error") for end in ("", "_low", "_high")]:
                record[f"promised_{name}"] = promise[name] if number == choice.taken else None
            records.append(record)
    return records


def rated_part(scores: Scores, cell: Cell) -> dict[str, np.ndarray]:
    """The columns of a cell's rows that humans rated."""
    rows = scores.cells[cell]
    return scores.part(cell, rows[np.isfinite(scores.columns["human"][rows])])
