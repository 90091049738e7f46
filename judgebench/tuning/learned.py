"""Decodings that learn from human scores, and the outcome of a run's tuning."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from judgebench.decoding.rules import Contrastive, CrossFitted, Decoding, Ranged, has_answer
from judgebench.stats.correlation import influences, spearman
from judgebench.stats.folds import deal_folds
from judgebench.studies.scores import with_flag
from judgebench.tuning.tuners import Setting, best_point
from judgebench.types import LABELS, RANGE, Array, RatingKey, Record, Records, Row, ScoreRange
from judgebench.words.errors import UserError

EDGE = "edge"
"""The flag of a metric record whose lambda and t lie at an end of what was looked at."""


DEALINGS = 11
"""Dealings of the articles into folds, of which the median is shown; odd."""


def check_groups(groups: int, dimension: str) -> None:
    """Raises `UserError` where there are too few rated articles to choose by other articles."""
    if groups < 2:
        raise UserError(
            f"tune=crossfit: humans rated texts of {groups} article{'' if groups == 1 else 's'} on "
            f"{dimension}, and a choice needs two at least, one to choose by and one to test it "
            "on; rate texts of more articles."
        )


class Learner:
    """A decoding that learns from human scores, over the rated texts of a dimension in one range or
    in all.

    Attributes:
        decoding: one that `learns`, one that contrasts, of which `grid` is tried: the best by
            Spearman is taken.
        readings: [N] of the texts, a `Ranged` a range.
        human: [N] on the scale of the first range.
        groups: [N] articles.
        shown: [N] the same texts as a defense shows them, which then are scored by what `readings`
            teach.
    """

    def __init__(
        self,
        decoding: Decoding,
        readings: Sequence[Ranged],
        human: Array,
        groups: Array,
        grid: Sequence[Setting],
        shown: Sequence[Ranged] | None = None,
    ) -> None:
        self.decoding = decoding
        self.readings = readings
        self.human = human
        self.groups = groups
        self.grid = grid
        self.shown = readings if shown is None else shown
        self._learned: dict[bytes, Decoding] = {}

    @cached_property
    def _tried(self) -> tuple[list[Contrastive], Array]:
        """The grid's decodings, of each kappa once, and their scores [N, P]."""
        assert isinstance(self.decoding, Contrastive)
        by_kappa = {setting.same: setting for setting in reversed(self.grid)}
        decodings = []
        for _, (lambda_, temperature) in sorted(by_kappa.items()):
            decodings.append(replace(self.decoding, lambda_=lambda_, temperature=temperature))
        columns = [decoding.scores_across(self.readings) for decoding in decodings]
        return decodings, np.stack(columns, axis=1)

    def learn(self, rows: Array) -> Decoding:
        """The decoding that the texts `rows` [N] (True for each) teach."""
        key = rows.tobytes()
        if key in self._learned:
            return self._learned[key]
        if self.decoding.learns:
            taught = [part.at(rows) for part in self.readings]
            decoding = self.decoding.fitted(taught, self.human[rows])
        else:
            decoding = self._best_of_grid(rows)
        self._learned[key] = decoding
        return decoding

    def _best_of_grid(self, rows: Array) -> Decoding:
        """The decoding of the grid whose scores of the texts `rows` [N] agree best, by Spearman."""
        decodings, scores = self._tried
        known = scores[rows]
        values, _ = influences(known, self.human[rows], ranked=True)
        constant = (known == known[0]).all(axis=0)
        grid = [Setting(decoding.lambda_, decoding.temperature) for decoding in decodings]
        best = best_point(grid, values.tolist(), constant.tolist())
        return decodings[best]

    def at(self, texts: Sequence[int]) -> Learner:
        """The same over some of its texts, by their numbers."""
        rows = np.asarray(texts)
        return Learner(
            self.decoding,
            [part.at(rows) for part in self.readings],
            self.human[rows],
            self.groups[rows],
            self.grid,
            [part.at(rows) for part in self.shown],
        )

    def scarce(self, folds: int) -> Array:
        """[N] True for the texts that teach at worst, when a choice is tested: without the articles
        with most answers, as many as a fold of `folds` and one of twice as many hold together."""
        labels = np.unique(self.groups)
        count = len(labels)
        gone = sum(math.ceil(count / min(parts, count)) for parts in (folds, 2 * folds))
        answered = np.any([has_answer(part.main) for part in self.readings], axis=0)
        by_answers = sorted(labels, key=lambda group: -answered[self.groups == group].sum())
        teaching = by_answers[min(gone, count - 1) :]
        return np.asarray(np.isin(self.groups, teaching))

    def scores(self, rows: Array) -> Array:
        """Scores [N] of all texts by what the texts `rows` teach."""
        return self.learn(rows).scores_across(self.shown)

    def folded(self, folds: int, seed: int) -> CrossFitted:
        """The cross-fitted decoding of a run, and the one that all texts teach.

        How articles are dealt moves its agreement with people by .01 to .03. So of `DEALINGS` the
        one is taken whose Spearman is their median.
        """
        everything = np.ones(len(self.human), dtype=bool)
        whole = self.learn(everything)
        dealt = []
        agreements = []
        for dealing in range(DEALINGS):
            fold = deal_folds(self.groups, folds, seed + dealing)
            parts = [self.learn(fold != number) for number in range(folds)]
            fold_of = dict(zip(self.groups.tolist(), fold.tolist(), strict=True))
            folded = CrossFitted(fold_of, parts, whole)
            dealt.append(folded)
            scores = folded.scores_of(self.groups.tolist(), self.readings)
            agreements.append(spearman(scores, self.human))
        middle = np.argsort(agreements, kind="stable")[DEALINGS // 2]
        return dealt[middle]


Learners = Mapping[tuple[str, ScoreRange, str], Mapping[str, tuple[Learner, list[str]]]]
"""Dimension, range and defense -> a decoding's name -> what was cross-fitted, with the names of its
texts."""


@dataclass(frozen=True)
class Tuned:
    """The outcome of tuning: cell -> name -> the decoding that replaces the configured one of that
    name, or is added, None of one that cannot learn there; the records of tuning.json; dimension,
    range and defense -> name -> what was cross-fitted, with the names of its texts; and dimension
    -> sentences on what could not learn."""

    decodings: Mapping[RatingKey, Mapping[str, Decoding | None]] = field(default_factory=dict)
    records: Sequence[Record] = ()
    learners: Learners = field(default_factory=dict)
    left_out: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def flagged(self, records: Records) -> list[Row]:
        """The records of metrics.json, with `EDGE` among the flags of those whose setting lies at
        an edge."""
        # by its setting too: an answer in words is written under the configured one
        names = ("judge", "dimension", *RANGE, LABELS, "decoding", "lambda", "temperature")
        at_edge = [{**record, "judge": "pair"} for record in self.records if record["edge"]]
        return with_flag(EDGE, records, at_edge, names)
