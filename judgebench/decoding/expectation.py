"""The probability-weighted mean of the candidates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from judgebench.decoding.law import checked, expected_value
from judgebench.runtime.errors import UserError

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Expectation:
    """The expected score: sum over k of k * p(k), p normalized over the candidates at t = 1.

    The score of open judges in the CAP paper, and G-Eval's. It has no tokens to choose, so it cannot generate.

    Example:
        >>> Expectation().scores(np.log([[0.25, 0.25, 0.5]]), None, np.array([1.0, 2.0, 3.0]))
        array([2.25])
    """

    kind: ClassVar[str] = "expectation"
    rule: ClassVar[str] = "expectation"
    needs_assistant: ClassVar[bool] = False
    generates: ClassVar[bool] = False
    lambda_: ClassVar[None] = None
    temperature: ClassVar[None] = None

    def scores(self, main: np.ndarray, assistant: np.ndarray | None, values: np.ndarray) -> np.ndarray:
        """See `Decoding.scores`; `assistant` is not looked at."""
        values = np.asarray(values, dtype=np.float64)
        return expected_value(checked("main", main, values), values)

    def next_token(self, main: torch.Tensor, assistant: torch.Tensor | None) -> torch.Tensor:
        """Always raises `UserError`: a mean chooses no token."""
        raise UserError(
            "decoding: expectation cannot choose the tokens of a generated answer; "
            "use greedy, or contrastive with decoding.rule=argmax."
        )
