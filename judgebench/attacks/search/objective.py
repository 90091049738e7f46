"""What a search for a phrase maximizes: the score that a judge is expected to give, as a law on log-probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from judgebench.decoding.rules import Contrastive, Decoding, Expectation, contrast
from judgebench.runtime.errors import UserError


@dataclass(frozen=True)
class Objective:
    """The expected score of a decoding, as in the CAP paper (2.1): sum over k of value_k * p(k), p normalized over the
    candidates; where the decoding contrasts, under the softmax of the adjusted scores.

    Args:
        name: of the decoding, as in scores.parquet.
        decoding: `Expectation`, or `Contrastive` by its expectation.

    Raises:
        UserError: a decoding that picks one candidate: its score moves in jumps, which no search can follow.
    """

    name: str
    decoding: Decoding

    def __post_init__(self) -> None:
        if not isinstance(self.decoding, Expectation | Contrastive) or self.decoding.rule != "expectation":
            raise UserError(
                f"attack.against: {self.name} picks one candidate, so that most words change nothing in its score; "
                "choose expectation or contrastive_expectation (a decoding with decoding.rule=expectation)."
            )

    def of(self, main: torch.Tensor, assistant: torch.Tensor | None, values: torch.Tensor) -> torch.Tensor:
        """[N] the expected values.

        Args:
            main: [N, K] log-probabilities of the candidates.
            assistant: the same of the assistant, where the decoding needs it.
            values: [K] what each candidate is worth.
        """
        adjusted = main
        if isinstance(self.decoding, Contrastive):
            assert assistant is not None
            adjusted = contrast(main, assistant, self.decoding.kappa, self.decoding.alpha)
        return torch.softmax(adjusted, dim=1) @ values.to(adjusted)
