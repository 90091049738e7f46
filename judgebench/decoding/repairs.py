"""Repairs: decodings of stored readings that mend what the plain expectation gets wrong, by a law
or by human scores.

`Ordinal`, `Ridge` and `Calibrated` learn numbers (`Decoding.fitted`), which are fields of theirs,
so that a card can hold them. A text without an answer teaches nothing and gets the lowest score.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Self

import numpy as np
import scipy  # its parts come when they are first used

from judgebench.decoding.rules import (
    Contrastive,
    Decoding,
    Ranged,
    candidate_distribution,
    checked_logprobs,
    floored,
    has_answer,
)
from judgebench.settings.fields import Amount, OneOf, Positive, check_fields
from judgebench.stats.maps import Knots, isotonic, rescale, rising_slope
from judgebench.types import Array, Scale
from judgebench.words.errors import UserError


class _Repair(Decoding):
    """A decoding whose settings are checked by their annotations, and whose `_scores` meet only
    texts with an answer in any range. Its `rule` is its `kind`, so that contrasts meet their like;
    `learned` is a field, None until fitted."""

    generates = False
    learned: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self, f"decoding.{self.kind}")
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if isinstance(value, list):  # as a card has it
                object.__setattr__(self, field.name, tuple(map(float, value)))
            if isinstance(value, Decoding) and value.learns:
                why = f"{value.kind} learns from human scores, which it would teach again"
                raise UserError(
                    f"decoding.{self.kind}.{field.name}: {why}; give one that learns nothing."
                )
        numbers = [getattr(self, name) for name in self.learned]
        unknown = {part is None for part in numbers}
        sizes = {len(part) for part in numbers if isinstance(part, Sequence)}
        if len(unknown) > 1 or len(sizes) > 1 or 0 in sizes:
            *others, last = self.learned
            names = f"{', '.join(others)} and {last}"
            raise UserError(
                f"decoding.{self.kind}: {names} are learned together; give all that fit, or none."
            )

    @property
    def learns(self) -> bool:  # type: ignore[override]
        return bool(self.learned) and getattr(self, self.learned[0]) is None

    @property
    def needs_assistant(self) -> bool:  # type: ignore[override]
        of = getattr(self, "of", None)
        return of.needs_assistant if isinstance(of, Decoding) else of == "both"

    def scores(self, main: Array, assistant: Array | None, values: Array) -> Array:
        return self.scores_across([Ranged(main, assistant, values)])

    def scores_across(self, readings: Sequence[Ranged]) -> Array:
        if self.learns:
            raise ValueError(
                f"decoding {self.kind} must be fitted to human scores before it decodes"
            )
        answered, rows = self._answered(readings)
        values = answered[0].values
        scores = np.full(len(rows), values[0])
        scores[rows] = np.clip(self._scores(answered), values[0], values[-1])
        return scores

    def _scores(self, readings: Sequence[Ranged]) -> Array:
        raise NotImplementedError

    def _check_size(self, wanted: int) -> None:
        """`UserError` where what was learned is of another number of candidates."""
        name = self.learned[0]
        if (size := len(getattr(self, name))) != wanted:
            what = (
                f"{size} numbers, and here they must be {wanted}; they were learned in another "
                "range"
            )
            raise UserError(f"decoding.{self.kind}.{name}: {what}, or the card is damaged.")

    def _answered(
        self, readings: Sequence[Ranged], human: Array | None = None
    ) -> tuple[list[Ranged], Array]:
        """The ranges that it takes, checked, of texts with an answer in any (and with a human
        score); and [N] True for these. `UserError` where they are to teach and fewer than two."""
        checked = []
        for main, assistant, values in readings if self.across else readings[:1]:
            values = np.asarray(values, dtype=np.float64)
            main = checked_logprobs("main", np.asarray(main), values)
            if not self.needs_assistant:
                assistant = None
            else:
                assistant = checked_logprobs("assistant", np.asarray(assistant), values)
                main, assistant = np.stack([main, assistant])  # which are of the same texts
            checked.append(Ranged(main, assistant, values))
        rows = np.any([has_answer(part.main) for part in checked], axis=0)
        if human is not None:
            rows &= np.isfinite(human)
        if human is not None and rows.sum() < 2:
            few = f"{rows.sum()} rated texts with an answer are too few to learn from"
            raise UserError(
                f"decoding.{self.kind}: {few}; rate more, or take decoding=[expectation]."
            )
        return [part.at(rows) for part in checked], rows


@dataclass(frozen=True)
class Median(_Repair):
    """The median of grouped data (`statistics.median_grouped`): each candidate's probability is
    spread evenly from half a step below to half a step above it, and half of the mass lies below
    the median. Steps count candidates, and are mapped linearly between their values. So it moves
    without jumps with the probabilities, where none of them is 0.

    Example:
        >>> p = [[0.1, 0.1, 0.6, 0.2]]  # 0.2 below 2.5; 0.3 of the next 0.6 make it 1/2
        >>> Median().scores(np.log(p), None, np.array([1.0, 2.0, 3.0, 4.0])).round(6)
        array([3.])
    """

    kind = rule = "median"

    def _scores(self, readings: Sequence[Ranged]) -> Array:
        main, _, values = readings[0]
        p = candidate_distribution(main)
        total = p.cumsum(axis=1)
        at = np.arange(len(main)), (total >= 0.5).argmax(axis=1)
        return np.interp(at[1] + 0.5 - (total[at] - 0.5) / p[at], np.arange(len(values)), values)


@dataclass(frozen=True)
class NullContext(_Repair):
    """Contextual calibration (Zhao et al. 2021, "Calibrate Before Use", section 5): p(k) /
    p_null(k), normalized over candidates, with p_null what the judge says about nothing
    (assistant=null_context). Zhao et al. take the argmax.

    As log p - log p_null is the contrast at kappa = 1, it is `Contrastive` with lambda 1 and
    temperature 1 to the last bit, zeros too; a class of its own, because tuning would choose
    another strength.

    Example:
        >>> main, null = np.log([[0.6, 0.4]]), np.log([[0.9, 0.1]])  # 0.6 / 0.9 to 0.4 / 0.1 is 1 to 6
        >>> NullContext().scores(main, null, np.array([1.0, 2.0])).round(6)  # (1 * 1 + 6 * 2) / 7
        array([1.857143])
    """

    rule: Annotated[str, OneOf(("expectation", "argmax"))] = "expectation"
    kind = "null_context_calibration"
    needs_assistant = True

    def _scores(self, readings: Sequence[Ranged]) -> Array:
        return Contrastive(1.0, rule=self.rule).scores(*readings[0])


# slope and thresholds, in logits, of levels that no human gave: sigmoid(-30) is 1e-13
_FARTHEST = 30.0
_PENALTIES = (1000.0, 100.0, 10.0, 1.0, 0.1)  # of equal ones the first is taken


@dataclass(frozen=True)
class Ordinal(_Repair):
    """Ordinal scaling: the expectation after the judge's cumulative logits are scaled and shifted
    to fit human scores,

        P(Y <= k) = sigmoid(threshold_k + slope * logit P_judge(Y <= k)),   k = 1, ..., K - 1,

    the proportional-odds model (McCullagh 1980) with the judge's log-odds as predictor; `slope`, at
    least 0, is 1 / temperature. Slope 1 with thresholds 0 is the judge's own distribution, slope 0
    the humans' marginal one.

    Fitted by the largest sum of the K - 1 log-likelihoods of Y <= k, which is concave; a human
    score between two candidates is each of them in the share that keeps its mean (quasi-likelihood,
    Papke and Wooldridge 1996). So the scores of texts that teach have the humans' mean. Thresholds
    may descend, for a judge that is too kind and too sure; P then does too for a few texts, whose
    expectation still lies in the range. Zeros are read as in `floored`.

    Example:
        >>> p = [[0.25, 0.75]]  # the odds of 1, 1/3, become e/3, and its probability e / (3 + e) = 0.4754
        >>> Ordinal(slope=1.0, thresholds=(1.0,)).scores(np.log(p), None, np.array([1.0, 2.0])).round(4)
        array([1.5246])
    """

    slope: Amount | None = None
    thresholds: Sequence[float] | None = None
    kind = rule = "ordinal"
    learned = ("thresholds", "slope")
    taught = True

    def fitted(self, readings: Sequence[Ranged], human: Array) -> Self:
        from scipy.optimize import minimize

        [(main, _, values)], rows = self._answered(readings, human)
        logits = _cumulative_logits(main)
        steps = np.diff(values)
        # [N, K - 1], the share of Y <= k
        below = np.clip((values[1:] - human[rows, None]) / steps, 0.0, 1.0)

        def loss(x: Array) -> tuple[float, Array]:
            """The loss and its gradient at the slope and the thresholds."""
            slope = x[0]
            thresholds = x[1:]
            edge = thresholds + slope * logits  # [N, K - 1]
            under = below * scipy.special.log_expit(edge)
            above = (1 - below) * scipy.special.log_expit(-edge)
            likelihood = (under + above).sum()
            pull = below - scipy.special.expit(edge)
            along = (pull * logits).sum()
            gradient = np.array([along, *pull.sum(axis=0)])
            return -likelihood / len(below), -gradient / len(below)

        found = minimize(
            loss,
            np.eye(len(values))[0],
            jac=True,
            method="L-BFGS-B",
            bounds=[(0, _FARTHEST), *[(-_FARTHEST, _FARTHEST)] * len(steps)],
            tol=1e-13,
        )
        slope, *thresholds = found.x.tolist()
        return replace(self, slope=slope, thresholds=tuple(thresholds))

    def _scores(self, readings: Sequence[Ranged]) -> Array:
        main, _, values = readings[0]
        self._check_size(len(values) - 1)
        edge = np.asarray(self.thresholds) + self.slope * _cumulative_logits(main)
        # the expectation, summed by parts
        return values[-1] - (scipy.special.expit(edge) * np.diff(values)).sum(axis=1)


def _normalized(logprobs: Array) -> Array:
    """Log-probabilities [N, K] normalized over the candidates, zeros (-inf) read as in
    `floored`."""
    possible = floored(logprobs)
    return possible - np.logaddexp.reduce(possible, axis=1, keepdims=True)


def _cumulative_logits(main: Array) -> Array:
    """logit P(Y <= k) [N, K - 1] under the judge's distribution, ascending in k."""
    logprobs = _normalized(main)
    above = np.logaddexp.accumulate(logprobs[:, ::-1], axis=1)[:, ::-1]
    return np.logaddexp.accumulate(logprobs, axis=1)[:, :-1] - above[:, 1:]


@dataclass(frozen=True)
class Ridge(_Repair):
    """Ridge regression (Hoerl and Kennard 1970) of human scores on log-probabilities, clipped to
    the range:

        score = intercept + sum over features of weight * (feature - center)

    Features are log-probabilities, normalized over the candidates, zeros read as in `floored`; a
    range without an answer counts as its centers. They are standardized over the texts that teach,
    and |error|^2 + penalty * |weights|^2 is minimized, the intercept free.

    Attributes:
        of: `judge`, or `both`: the assistant's, too.
        across: True takes those of all ranges side by side.
        penalty: above 0; None becomes that of 0.1, 1, 10, 100, 1000 with the least squared error of
            texts left out by turns, which is error / (1 - leverage) (Allen 1974, PRESS).

    Example:
        >>> main, values = np.log([[0.2, 0.8], [0.8, 0.2]]), np.array([1.0, 2.0])
        >>> ridge = Ridge(penalty=4.0).fitted([Ranged(main, None, values)], np.array([2.0, 1.0]))
        >>> ridge.scores(main, None, values).round(6)  # two mirrored features of weight 1 / (4 + 4): 1.5 +- 2 / 8
        array([1.75, 1.25])
    """

    of: Annotated[str, OneOf(("judge", "both"))] = "judge"
    across: bool = False
    penalty: Positive | None = None
    intercept: float | None = None
    weights: Sequence[float] | None = None
    center: Sequence[float] | None = None
    kind = rule = "ridge"
    learned = ("weights", "center", "intercept")
    taught = True

    def fitted(self, readings: Sequence[Ranged], human: Array) -> Self:
        answered, rows = self._answered(readings, human)
        mean = float(np.mean(human[rows]))
        error = human[rows] - mean
        # 1. standardized features, 0 without an answer
        features = np.ma.masked_invalid(self._features(answered))
        center = features.mean(axis=0).filled(0.0)
        scale = features.std(axis=0).filled(0.0)
        scale = np.where(scale > 1e-9, scale, 1.0)
        # 2. the penalty, and the weights at it, by one decomposition
        standard = ((features - center) / scale).filled(0.0)
        left, singular, right = np.linalg.svd(standard, full_matrices=False)
        along = left.T @ error
        squares: dict[float, float] = {}  # of errors of texts that did not teach
        for penalty in _PENALTIES if self.penalty is None else [self.penalty]:
            shrunk = singular**2 / (singular**2 + penalty)
            residual = error - left @ (shrunk * along)
            untaught = 1 - 1 / len(error) - left**2 @ shrunk
            squares[penalty] = np.square(residual / untaught).sum()
        penalty = min(squares, key=squares.__getitem__)
        inverse = singular / (singular**2 + penalty)
        weights = right.T @ (inverse * along) / scale
        return replace(
            self,
            penalty=penalty,
            intercept=mean,
            weights=tuple(weights.tolist()),
            center=tuple(center.tolist()),
        )

    def _scores(self, readings: Sequence[Ranged]) -> Array:
        features = self._features(readings)
        self._check_size(features.shape[1])
        centered = np.nan_to_num(features - np.asarray(self.center))
        return self.intercept + (centered * np.asarray(self.weights)).sum(axis=1)

    def _features(self, readings: Sequence[Ranged]) -> Array:
        """[N, features]; NaN where a model has no answer."""
        parts = [part for reading in readings for part in reading[:2] if part is not None]
        columns = []
        for part in parts:
            answered = has_answer(part)[:, None]
            columns.append(np.where(answered, _normalized(part), np.nan))
        return np.hstack(columns)


@dataclass(frozen=True)
class Calibrated(_Repair):
    """A map of another decoding's scores, never descending, with the least squared error; clipped
    to the range.

    `linear` is the regression line, level where it would descend: it keeps the order of texts.
    `isotonic` is the best of all such maps (Zadrozny and Elkan 2002), linear between the scores
    that it has seen, level beyond; it ties texts.

    Example:
        >>> sure = Ranged(np.log(np.eye(3) + 1e-12), None, np.array([1.0, 2.0, 3.0]))
        >>> calibrated = Calibrated(Median()).fitted([sure], np.array([2.0, 2.5, 3.0]))  # 1, 2, 3 become these
        >>> calibrated.scores(np.log([[0.5, 0.5, 1e-12]]), None, sure.values).round(6)  # 1.5 before
        array([2.25])
    """

    of: Decoding
    shape: Annotated[str, OneOf(("linear", "isotonic"))] = "linear"
    knots: Sequence[float] | None = None
    levels: Sequence[float] | None = None
    kind = rule = "calibrated"
    learned = ("levels", "knots")
    taught = True

    @property
    def across(self) -> bool:  # type: ignore[override]
        return self.of.across

    def fitted(self, readings: Sequence[Ranged], human: Array) -> Self:
        answered, rows = self._answered(readings, human)
        human = np.asarray(human, dtype=np.float64)[rows]
        scores = self.of.scores_across(answered)
        knots = answered[0].values[[0, -1]]
        levels = human.mean() + rising_slope(scores, human) * (knots - scores.mean())
        if self.shape == "isotonic":
            knots, levels = isotonic(scores, human)
        return replace(
            self,
            knots=tuple(knots.tolist()),
            levels=tuple(levels.tolist()),
        )

    def _scores(self, readings: Sequence[Ranged]) -> Array:
        line = Knots(np.asarray(self.knots), np.asarray(self.levels))
        return line(self.of.scores_across(readings))


def _ends(reading: Ranged) -> Scale:
    """The lowest and the highest candidate."""
    return reading.values[0], reading.values[-1]


@dataclass(frozen=True)
class RangeMean(_Repair):
    """The mean over all ranges of another decoding's scores, each range mapped linearly, end to
    end, to the first: a judge's liking for single numbers cancels in part. Ranges without an answer
    are left out; of one range it is `of`.

    Example:
        >>> first = Ranged(np.log([[1e-12, 1.0, 1e-12]]), None, np.array([1.0, 3.0, 5.0]))  # 3
        >>> second = Ranged(np.log([[1.0, 1e-12, 1e-12]]), None, np.array([0.0, 1.0, 2.0]))  # the lowest: 1 of 1 to 5
        >>> RangeMean(Median()).scores_across([first, second]).round(6)
        array([2.])
    """

    of: Decoding
    kind = rule = "range_mean"
    across = True

    def _scores(self, readings: Sequence[Ranged]) -> Array:
        mapped = []
        for reading in readings:
            scores = self.of.scores(*reading)
            mapped.append(rescale(scores, _ends(reading), _ends(readings[0])))
        answered = np.array([has_answer(main) for main, _, _ in readings])
        return np.average(mapped, axis=0, weights=answered)
