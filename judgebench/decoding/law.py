"""The laws of decoding as pure functions: contrast, expectation, and what may enter them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def contrast(main: torch.Tensor, assistant: torch.Tensor, kappa: float, alpha: float = 0.0) -> torch.Tensor:
    """Scores adjusted by contrastive decoding: log p_main - lambda * log p_asst, up to a constant of each row.

    Eq. 1 of "Contrastive Decoding Mitigates Score Range Bias in LLM-as-a-Judge" with p_asst = softmax(e / t). As
    log softmax(e / t) is e / t minus a constant of the row, and e is the log-probability at t = 1 plus another, the
    adjusted score is `main - (lambda / t) * assistant` plus a constant of the row. Neither argmax nor softmax over
    the row sees that constant: both depend on kappa = lambda / t alone, and for both it is one whether the rows were
    normalized over the vocabulary, over the candidates, or not at all.

    Probabilities of 0 (-inf):
        - of the main model stay impossible: -inf, whatever the assistant says;
        - of the assistant alone would make a candidate infinitely good. A 0 is in truth an underflow, or a token that a
          served model did not list, so it is read as the smallest probability that the assistant does give in that
          row. A row in which the assistant gives none says nothing and leaves `main` as it is.

    The plausibility constraint of Li et al. (2023) drops what has p_main < alpha * max p_main; alpha = 0 keeps all.

    Args:
        main, assistant: [N, K] logits or log-probabilities of one floating type, free of NaN and +inf.
        kappa: lambda / t; 0 returns `main` bit for bit.
        alpha: in [0, 1].

    Returns:
        [N, K] adjusted scores of the same type.
    """
    adjusted = main
    if kappa != 0:  # 0 * inf is NaN, and lambda = 0 must be the plain decoding to the last bit
        adjusted = main - kappa * floored(assistant)
    if alpha > 0:
        adjusted = adjusted.masked_fill(~plausible(main, alpha), -math.inf)
    return adjusted


def floored(assistant: torch.Tensor) -> torch.Tensor:
    """`assistant` [N, K] with every zero (-inf) read as the smallest probability of its row; 0 in a row of zeros."""
    known = assistant.isfinite()
    floor = assistant.masked_fill(~known, math.inf).amin(dim=1, keepdim=True)
    floor = floor.where(floor.isfinite(), floor.new_zeros(()))
    return assistant.where(known, floor)


def plausible(main: torch.Tensor, alpha: float) -> torch.Tensor:
    """What `main` [N, K] keeps under the plausibility constraint, [N, K] bool: p_main >= alpha * max p_main.

    Whatever alpha is, a row of zeros (-inf) keeps them all, and they stay impossible.
    """
    if alpha == 0:
        return ~main.isnan()  # of which there are none
    return ~(main < main.amax(dim=1, keepdim=True) + math.log(alpha))


def expected_value(logprobs: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The mean of `values` under probabilities normalized over the candidates: sum over k of values_k * p_k.

    Args:
        logprobs: [N, K] float64, up to a constant of each row; -inf is a probability of 0.
        values: [K] ascending.

    Returns:
        [N] float64 within `values`; the lowest value where every candidate has probability 0.
    """
    top = logprobs.max(axis=1, keepdims=True)
    silent = np.isneginf(top)
    weights = np.exp(logprobs - np.where(silent, 0.0, top))
    weights[silent[:, 0], 0] = 1.0
    # Not a matrix product: BLAS may round a row by its place in the batch, and equal rows must give equal scores.
    means = (weights * values).sum(axis=1) / weights.sum(axis=1)
    return np.clip(means, values[0], values[-1])


def has_answer(main: np.ndarray) -> np.ndarray:
    """Whether any candidate of a row has a probability above 0: [N, K] log-probabilities -> [N] bool.

    A row without one (a served model that listed no candidate) decodes to the lowest score, which then is a failure
    and not a judgment.
    """
    return np.asarray(~np.isneginf(main).all(axis=1))


def checked(name: str, logprobs: np.ndarray, values: np.ndarray) -> np.ndarray:
    """A fresh, contiguous float64 copy of `logprobs` [N, K] that fits `values` [K].

    Raises:
        ValueError: shapes that do not fit, NaN or +inf, or values that do not ascend.
    """
    copy = np.array(logprobs, dtype=np.float64, order="C")
    if values.ndim != 1 or not values.size or not np.isfinite(values).all() or (np.diff(values) <= 0).any():
        raise ValueError(f"values must be a list of ascending finite numbers, got {values!r}")
    if copy.ndim != 2 or copy.shape[1] != values.size:
        raise ValueError(f"{name} must have shape [N, {values.size}], got {list(copy.shape)}")
    if np.isnan(copy).any() or np.isposinf(copy).any():
        raise ValueError(f"{name} must be free of NaN and +inf")
    return copy


def checked_logits(name: str, logits: torch.Tensor, like: torch.Tensor | None = None) -> torch.Tensor:
    """`logits` [N, V] in float32 or better, shaped as `like`.

    Raises:
        ValueError: another shape, NaN or +inf.
    """
    if logits.ndim != 2 or not logits.shape[1]:
        raise ValueError(f"{name} must have shape [N, V], got {list(logits.shape)}")
    if like is not None and logits.shape != like.shape:
        raise ValueError(f"{name} must have the main model's shape {list(like.shape)}, got {list(logits.shape)}")
    if logits.dtype.itemsize < 8:
        logits = logits.float()
    # One reduction instead of two masks over the vocabulary: the maximum is NaN where any entry is, +inf likewise.
    top = logits.amax(dim=1)
    if not bool((top < math.inf).all()):
        raise ValueError(f"{name} must be free of NaN and +inf")
    return logits
