"""Decodings: rules that turn log-probabilities into scores or tokens, and the laws that they rest
on."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from judgebench.types import Record
from judgebench.words.errors import UserError

if TYPE_CHECKING:
    import torch


def _plain(value: Any) -> Any:
    if isinstance(value, Decoding):
        return {"_target_": f"judgebench.decoding.{type(value).__name__}", **value.settings}
    return list(map(_plain, value)) if isinstance(value, list | tuple) else value


class Ranged(NamedTuple):
    """Readings of N texts in one range: log-probabilities of main model and assistant (None without
    one), [N, K] each, of the candidates' values [K], ascending."""

    main: np.ndarray
    assistant: np.ndarray | None
    values: np.ndarray

    def at(self, rows: np.ndarray) -> Ranged:
        """Of some texts: their numbers, or [N] True for each."""
        return Ranged(
            self.main[rows], None if self.assistant is None else self.assistant[rows], self.values
        )


class Decoding:
    """A rule that turns what judges say into scores, or into the next token of a free answer.

    Attributes:
        kind: `greedy`, `expectation`, `contrastive`, or a repair's.
        rule: a score is the best candidate (`argmax`), the mean of all (`expectation`), or what a
            repair says.
        needs_assistant: True where it reads a second model's log-probabilities.
        generates: True where it can choose the tokens of a free answer.
        lambda_, temperature: hyperparameters of contrastive decoding; None for others.
        learns: True while it must be `fitted` to human scores before it can decode.
        taught: True once it was: what it knows is about the main model, and says nothing of the
            assistant alone.
        across: True where it takes the readings of all ranges of a dimension, and gives one score
            in the first of them (see `scores_across`).
    """

    kind: str
    rule: str
    needs_assistant: bool = False
    generates: bool = True
    lambda_: float | None = None
    temperature: float | None = None
    learns: bool = False
    taught: bool = False
    across: bool = False

    @property
    def settings(self) -> Record:
        """The plain values that make it, what it has learned among them: name of a field -> number,
        text or list."""
        return (
            {}
            if not is_dataclass(self)
            else {name: _plain(value) for name, value in vars(self).items()}
        )

    def fitted(self, readings: Sequence[Ranged], human: np.ndarray) -> Decoding:
        """The decoding that human scores [N], on the scale of the first range, teach; itself where
        it learns nothing.

        Args:
            readings: of N texts: one range, or all of a dimension where it is `across`.
        """
        return self

    def scores_across(self, readings: Sequence[Ranged]) -> np.ndarray:
        """Scores [N] of the same texts in one range, or in all, within the values of the first; see
        `scores`."""
        return self.scores(*readings[0])

    def scores(
        self, main: np.ndarray, assistant: np.ndarray | None, values: np.ndarray
    ) -> np.ndarray:
        """Scores from the log-probabilities of the score candidates, computed in float64.

        A row's additive constant changes nothing. Ties go to the first candidate, the lowest score;
        so does a row whose candidates all have probability 0 (see `has_answer`).

        Args:
            main: [N, K] float32 or float64, the main model's log-probabilities; -inf is a
                probability of 0.
            assistant: the same of the assistant; None where `needs_assistant` is False.
            values: [K] the candidates as numbers, ascending.

        Returns:
            [N] float64, each within `values`.

        Raises:
            ValueError: shapes that do not fit, NaN or +inf, values not ascending, or a missing
                assistant.
        """
        raise NotImplementedError

    def next_token(self, main: torch.Tensor, assistant: torch.Tensor | None) -> torch.Tensor:
        """The next token [N] of each row of a free answer, from the logits or log-probabilities [N,
        V] of main model and assistant, over one vocabulary and on one device, in float32 or better;
        ties go to the lowest token id. ValueError as above; UserError where `generates` is
        False."""
        raise UserError(
            f"decoding: {self.kind} with rule {self.rule} cannot choose the tokens of a generated "
            "answer; use greedy, or contrastive with decoding.rule=argmax."
        )


AnyArray = TypeVar("AnyArray", np.ndarray, "torch.Tensor")
"""An array of numpy's or of torch's; laws are the same for both, and recorded readings need no
torch."""


Decodings = Mapping[str, Decoding]
"""Name -> the decoding of that name."""


def _library(array: Any) -> Any:
    """numpy or torch, of which an array is: both have functions of the same names."""
    return np if isinstance(array, np.ndarray) else sys.modules["torch"]


def contrast(main: AnyArray, assistant: AnyArray, kappa: float, alpha: float = 0.0) -> AnyArray:
    """Scores adjusted by contrastive decoding: log p_main - lambda * log p_asst, up to a constant
    of each row.

    Eq. 1 of "Contrastive Decoding Mitigates Score Range Bias in LLM-as-a-Judge" with p_asst =
    softmax(e / t). As log softmax(e / t) is e / t minus a constant of the row, and e is the
    log-probability at t = 1 plus another, the adjusted score is `main - (lambda / t) * assistant`
    plus a constant of the row, which neither argmax nor softmax sees: both depend on kappa = lambda
    / t alone, however the rows were normalized.

    Probabilities of 0 (-inf):
        - of the main model stay impossible: -inf, for any assistant;
        - of the assistant alone would make a candidate infinitely good. A 0 is in truth an
          underflow, or a token that a served model did not list, so it is read as the smallest
          probability of the assistant in that row; a row without any leaves `main` as it is.

    The plausibility constraint of Li et al. (2023) drops what has p_main < alpha * max p_main;
    alpha = 0 keeps all.

    Args:
        main, assistant: [N, K] logits or log-probabilities of one floating type, free of NaN and
            +inf.
        kappa: lambda / t; 0 returns `main` bit for bit.
        alpha: in [0, 1].

    Returns:
        [N, K] adjusted scores of the same type.
    """
    adjusted = main
    if kappa != 0:  # 0 * inf is NaN, and lambda = 0 must be the plain decoding to the last bit
        adjusted = main - kappa * floored(assistant)
    if alpha > 0:
        adjusted = _library(main).where(plausible(main, alpha), adjusted, -math.inf)
    return adjusted


def floored(assistant: AnyArray) -> AnyArray:
    """`assistant` [N, K] with every zero (-inf) read as the smallest probability of its row; 0 in a
    row of zeros."""
    of = _library(assistant)
    possible = of.isfinite(assistant)
    floor = of.amin(of.where(possible, assistant, math.inf), axis=1, keepdims=True)
    result: AnyArray = of.where(possible, assistant, of.where(of.isfinite(floor), floor, 0.0))
    return result


def plausible(main: AnyArray, alpha: float) -> AnyArray:
    """The plausibility constraint: [N, K] -> [N, K] bool, true where p_main >= alpha * max p_main;
    everywhere in a row of zeros (-inf)."""
    of = _library(main)
    if alpha == 0:
        return ~of.isnan(main)  # of which there are none
    return ~(main < of.amax(main, axis=1, keepdims=True) + math.log(alpha))


_DIGITS = 12  # behind the point: means that differ there differ by rounding alone


def expected_value(logprobs: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The mean [N] of `values` [K], ascending, under probabilities normalized over the candidates,
    from log-probabilities [N, K] up to a constant of each row; the lowest value where every
    candidate has probability 0. Means are rounded to `_DIGITS` digits, so that distributions of one
    mean give one score: of three judges 1, 2, 3 and 2, 2, 2 are a tie."""
    weights = _weights(logprobs)
    weights[~weights.any(axis=1), 0] = 1.0
    # Not a matrix product: BLAS may round a row by its place in the batch, and equal rows must give
    # equal scores.
    means = (weights * values).sum(axis=1) / weights.sum(axis=1)
    return np.clip(means.round(_DIGITS), values[0], values[-1])


def candidate_distribution(logprobs: np.ndarray) -> np.ndarray:
    """Probabilities [N, K] normalized over the candidates, under which `expected_value` takes the
    mean, from log-probabilities [N, K] up to a constant of each row; a row of zeros where every
    candidate has probability 0."""
    weights = _weights(logprobs)
    total = weights.sum(axis=1, keepdims=True)
    return np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)


def _weights(logprobs: np.ndarray) -> np.ndarray:
    """[N, K] probabilities up to a factor of each row: 1 for its likeliest candidate; all 0 where
    all are."""
    top = logprobs.max(axis=1, keepdims=True)
    weights: np.ndarray = np.exp(logprobs - np.where(np.isneginf(top), 0.0, top))
    return weights


def has_answer(main: np.ndarray) -> np.ndarray:
    """True for rows with a candidate of a probability above 0: [N, K] log-probabilities -> [N]
    bool. Other rows (a served model that listed no candidate) decode to the lowest score, which
    then is a failure and not a judgment."""
    return np.asarray(~np.isneginf(main).all(axis=1))


def checked_logprobs(name: str, logprobs: np.ndarray, values: np.ndarray) -> np.ndarray:
    """A fresh, contiguous float64 copy of `logprobs` [N, K] that fits `values` [K]; ValueError for
    shapes that do not fit, NaN or +inf, or values that do not ascend."""
    copy = np.array(logprobs, dtype=np.float64, order="C")
    if (
        values.ndim != 1
        or not values.size
        or not np.isfinite(values).all()
        or (np.diff(values) <= 0).any()
    ):
        raise ValueError(f"values must be a list of ascending finite numbers, got {values!r}")
    if copy.ndim != 2 or copy.shape[1] != values.size:
        raise ValueError(f"{name} must have shape [N, {values.size}], got {list(copy.shape)}")
    if np.isnan(copy).any() or np.isposinf(copy).any():
        raise ValueError(f"{name} must be free of NaN and +inf")
    return copy


def checked_logits(
    name: str, logits: torch.Tensor, like: torch.Tensor | None = None
) -> torch.Tensor:
    """`logits` [N, V] in float32 or better, shaped as `like`; ValueError for another shape, NaN or
    +inf."""
    if logits.ndim != 2 or not logits.shape[1]:
        raise ValueError(f"{name} must have shape [N, V], got {list(logits.shape)}")
    if like is not None and logits.shape != like.shape:
        raise ValueError(
            f"{name} must have the main model's shape {list(like.shape)}, got {list(logits.shape)}"
        )
    if logits.dtype.itemsize < 8:
        logits = logits.float()
    # One reduction instead of two masks over the vocabulary: the maximum is NaN where any entry is,
    # +inf likewise. On a GPU to look is to wait for it: there who generates looks at many steps at
    # once.
    if logits.device.type == "cpu" and not bool((logits.amax(dim=1) < math.inf).all()):
        raise ValueError(f"{name} must be free of NaN and +inf")
    return logits


@dataclass(frozen=True)
class CrossFitted(Decoding):
    """Cross-fitted decodings: each text is decoded by what the articles of other folds have taught.

    Attributes:
        folds: article -> its fold; an article of which humans rated no text has none.
        parts: the decoding of each fold, taught by all others.
        whole: taught by all articles, for those without a fold.
    """

    folds: Mapping[str, int]
    parts: Sequence[Decoding]
    whole: Decoding

    taught = True

    @property
    def kind(self) -> str:  # type: ignore[override]
        return self.whole.kind

    @property
    def rule(self) -> str:  # type: ignore[override]
        return self.whole.rule

    @property
    def needs_assistant(self) -> bool:  # type: ignore[override]
        return self.whole.needs_assistant

    @property
    def across(self) -> bool:  # type: ignore[override]
        return self.whole.across

    def scores_of(self, groups: Sequence[str], readings: Sequence[Ranged]) -> np.ndarray:
        """Scores [N] of texts of the articles `groups` [N]; see `Decoding.scores_across`."""
        fold = np.array([self.folds.get(group, -1) for group in groups])
        scores = np.zeros(len(fold))
        for number in np.unique(fold):
            rows = np.flatnonzero(fold == number)
            decoding = self.whole if number < 0 else self.parts[number]
            scores[rows] = decoding.scores_across([part.at(rows) for part in readings])
        return scores


class _ByLogprobs(Decoding):
    """A decoding whose scores are the best candidate or the mean of all, as its `rule` says."""

    def scores(
        self, main: np.ndarray, assistant: np.ndarray | None, values: np.ndarray
    ) -> np.ndarray:
        values = np.asarray(values, dtype=np.float64)
        adjusted = self.adjusted(main, assistant, values)
        if self.rule == "argmax":
            return values[adjusted.argmax(axis=1)]
        return expected_value(adjusted, values)

    def adjusted(
        self, main: np.ndarray, assistant: np.ndarray | None, values: np.ndarray
    ) -> np.ndarray:
        """[N, K] float64 log-probabilities by which `scores` decides, up to a constant of each row:
        the main model's own, as long as a decoding changes nothing in them."""
        return checked_logprobs("main", main, values)


@dataclass(frozen=True)
class Greedy(_ByLogprobs):
    """The most likely candidate of the main model; the baseline of the CD paper.

    Example:
        >>> Greedy().scores(np.log([[0.1, 0.6, 0.3]]), None, np.array([1.0, 2.0, 3.0]))
        array([2.])
    """

    kind = "greedy"
    rule = "argmax"

    def next_token(self, main: torch.Tensor, assistant: torch.Tensor | None) -> torch.Tensor:
        return checked_logits("main", main).argmax(dim=1)


@dataclass(frozen=True)
class Expectation(_ByLogprobs):
    """The expected score: sum over k of k * p(k), p normalized over the candidates at t = 1.

    The score of open judges in the CAP paper, and G-Eval's. It has no tokens to choose, so it
    cannot generate.

    Example:
        >>> Expectation().scores(np.log([[0.25, 0.25, 0.5]]), None, np.array([1.0, 2.0, 3.0]))
        array([2.25])
    """

    kind = "expectation"
    rule = "expectation"
    generates = False


LARGEST_KAPPA = 1e9  # beyond it the assistant alone decides, and float32 sums would overflow


@dataclass(frozen=True)
class Contrastive(_ByLogprobs):
    """Contrastive decoding: log p_main - lambda * log p_asst with p_asst = softmax(e / t).

    Eq. 1 of "Contrastive Decoding Mitigates Score Range Bias in LLM-as-a-Judge". The temperature
    belongs to the assistant alone, hence scores depend on `kappa` = lambda / t only: (0.5, 1) and
    (1, 2) are one decoding. lambda = 0 with alpha = 0 is greedy, or the expectation, bit for bit.
    `contrast` has the law and its treatment of zeros.

    Attributes:
        lambda_: weight of the assistant (config key `decoding.lambda`); any finite number, negative
            ones add it.
        temperature: t of the assistant, above 0.
        alpha: plausibility (Li et al. 2023): what has p_main < alpha * max p_main is dropped; 0
            keeps all. Over the candidates in `scores`, over the vocabulary in `next_token`.
        rule: `argmax`, or `expectation`: the mean under the softmax of the adjusted scores over the
            candidates.
        fixed: tuning leaves lambda and temperature as they are.

    Raises:
        UserError: a value outside of what is said above.

    Example:
        >>> main, assistant = np.log([[0.6, 0.4]]), np.log([[0.9, 0.1]])
        >>> Contrastive(lambda_=0.5).scores(main, assistant, np.array([1.0, 2.0]))
        array([2.])
    """

    lambda_: float
    temperature: float = 1.0
    alpha: float = 0.0
    rule: str = "argmax"
    fixed: bool = False

    kind = "contrastive"
    needs_assistant = True

    def __post_init__(self) -> None:
        for name in ("lambda_", "temperature", "alpha"):
            key = f"decoding.{name.removesuffix('_')}"
            value = getattr(self, name)
            if isinstance(value, Sequence) and not isinstance(value, str):
                raise UserError(
                    f"{key}: {value!r} is a list, and a decoding has one number; take several by "
                    f"turns with -m {key}={','.join(map(str, value))}, or choose among them with "
                    "tune=dev (tune.lambdas, tune.temperatures)."
                )
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not math.isfinite(value)
            ):
                raise UserError(f"{key}: {value!r} is not a finite number.")
            # -0.0 becomes 0.0, so that records read alike
            object.__setattr__(self, name, float(value) + 0.0)
        if self.temperature <= 0:
            raise UserError(
                f"decoding.temperature: {self.temperature:g} is not above 0, as a temperature must "
                "be."
            )
        if not 0 <= self.alpha <= 1:
            raise UserError(
                f"decoding.alpha: {self.alpha:g} is not in [0, 1]; 0 keeps every candidate."
            )
        if self.rule not in ("argmax", "expectation"):
            raise UserError(f"decoding.rule: {self.rule!r} is not one of argmax, expectation.")
        if abs(self.lambda_) > LARGEST_KAPPA * self.temperature:
            raise UserError(
                f"decoding.lambda: {self.lambda_:g} at decoding.temperature {self.temperature:g} "
                f"is too large; lambda / temperature may be at most {LARGEST_KAPPA:g}."
            )

    @property
    def kappa(self) -> float:
        """Lambda / t, all that scores depend on."""
        return self.lambda_ / self.temperature

    @property
    def generates(self) -> bool:  # type: ignore[override]
        return self.rule == "argmax"

    def adjusted(
        self, main: np.ndarray, assistant: np.ndarray | None, values: np.ndarray
    ) -> np.ndarray:
        main = checked_logprobs("main", main, values)
        if assistant is None:
            raise ValueError(
                "contrastive decoding needs the assistant's log-probabilities, got None"
            )
        assistant = checked_logprobs("assistant", assistant, values)
        if len(main) != len(assistant):
            raise ValueError(
                f"assistant must have the main model's {len(main)} rows, got {len(assistant)}"
            )
        return contrast(main, assistant, self.kappa, self.alpha)

    def next_token(self, main: torch.Tensor, assistant: torch.Tensor | None) -> torch.Tensor:
        if not self.generates:
            return super().next_token(main, assistant)
        if assistant is None:
            raise ValueError("contrastive decoding needs the assistant's logits, got None")
        main = checked_logits("main", main)
        assistant = checked_logits("assistant", assistant, like=main).to(main.dtype)
        return contrast(main, assistant, self.kappa, self.alpha).argmax(dim=1)
