"""Sampling in which every text has a stream of random numbers of its own, whatever stands beside it in the batch."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from judgebench.decoding.rules import checked_logits
from judgebench.runtime.errors import UserError


@dataclass(frozen=True)
class Sampling:
    """Settings by which tokens are drawn.

    Args:
        seed: 0 or above.
        temperature: logits are divided by it, above 0.
        top_p: of each distribution the likeliest tokens are kept that together have at least this probability; 1 keeps
            all.

    Raises:
        UserError: a value that is none of these.
    """

    seed: int
    temperature: float = 1.0
    top_p: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.temperature, int | float) or not 0 < self.temperature < float("inf"):
            raise UserError(f"tutor.temperature: {self.temperature!r} is not a number above 0.")
        if not isinstance(self.top_p, int | float) or not 0 < self.top_p <= 1:
            raise UserError(f"tutor.top_p: {self.top_p!r} is not a number above 0 and at most 1.")


def stream(seed: int, index: int, prompt: np.ndarray) -> np.random.Generator:
    """The random numbers of one text.

    They depend on nothing but the arguments: not on the batch, not on how strongly the text is steered (texts of two
    strengths differ by the strength alone), not on how long it may become.

    Args:
        seed: of the sampling.
        index: which of the texts of this prompt.
        prompt: [tokens] what the tutor reads.
    """
    digest = hashlib.sha256(f"{seed} {index} ".encode())
    digest.update(np.ascontiguousarray(prompt, dtype=np.int32).tobytes())
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest.digest()[:16])))


class Sampler:
    """Draws the next token of each text from the text's own stream; a `Chooser`, and a `Side` of `generate`.

    Args:
        sampling: temperature and top_p.
        streams: [texts] of `stream`.
    """

    def __init__(self, sampling: Sampling, streams: Sequence[np.random.Generator]):
        self._sampling = sampling
        self._streams = list(streams)

    def next_token(self, main: torch.Tensor, assistant: torch.Tensor | None) -> torch.Tensor:
        """See `Chooser.next_token`: the token at which the cumulated probability passes a uniform draw."""
        drawn = torch.tensor([each.random() for each in self._streams], dtype=torch.float64)
        return draw(main, drawn.to(main.device), self._sampling.temperature, self._sampling.top_p)

    def step(self, tokens: torch.Tensor) -> None:
        """See `Side.step`; the streams have gone on already."""

    def keep(self, which: torch.Tensor) -> None:
        """See `Side.keep`."""
        self._streams = [self._streams[i] for i in which.tolist()]


def draw(logits: torch.Tensor, uniform: torch.Tensor, temperature: float = 1.0, top_p: float = 1.0) -> torch.Tensor:
    """One token a row, by inverting the cumulated distribution over the vocabulary.

    Args:
        logits: [rows, vocabulary].
        uniform: [rows] float64 in [0, 1).
        temperature, top_p: see `Sampling`.

    Returns:
        [rows] int64; a token of probability 0 is never drawn.
    """
    probabilities = torch.softmax(checked_logits("main", logits) / temperature, dim=1)
    if top_p < 1:
        ordered, order = probabilities.sort(dim=1, descending=True, stable=True)
        before = ordered.double().cumsum(dim=1) - ordered
        probabilities = torch.zeros_like(ordered).scatter(1, order, ordered.masked_fill(before >= top_p, 0.0))
    reached = probabilities.double().cumsum(dim=1)
    # the last possible token's bound is the whole mass, so a draw below it stays among possible tokens
    return (reached <= uniform[:, None] * reached[:, -1:]).sum(dim=1)
