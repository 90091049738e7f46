"""The candidate, or the token, that the main model finds most likely."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from judgebench.decoding.law import checked, checked_logits

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Greedy:
    """The most likely candidate of the main model; the baseline of the CD paper.

    Example:
        >>> Greedy().scores(np.log([[0.1, 0.6, 0.3]]), None, np.array([1.0, 2.0, 3.0]))
        array([2.])
    """

    kind: ClassVar[str] = "greedy"
    rule: ClassVar[str] = "argmax"
    needs_assistant: ClassVar[bool] = False
    generates: ClassVar[bool] = True
    lambda_: ClassVar[None] = None
    temperature: ClassVar[None] = None

    def scores(self, main: np.ndarray, assistant: np.ndarray | None, values: np.ndarray) -> np.ndarray:
        """See `Decoding.scores`; `assistant` is not looked at."""
        values = np.asarray(values, dtype=np.float64)
        return values[checked("main", main, values).argmax(axis=1)]

    def next_token(self, main: torch.Tensor, assistant: torch.Tensor | None) -> torch.Tensor:
        """See `Decoding.next_token`; `assistant` is not looked at."""
        return checked_logits("main", main).argmax(dim=1)
