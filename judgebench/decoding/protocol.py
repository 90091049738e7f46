"""What every decoding must have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    import torch


@runtime_checkable
class Decoding(Protocol):
    """A rule that turns what judges say into scores, or into the next token of a free answer.

    Attributes:
        kind: `greedy`, `expectation` or `contrastive`.
        rule: what a score is: `argmax`, the best candidate; `expectation`, the mean of the candidates.
        needs_assistant: whether it reads a second model's log-probabilities.
        generates: whether it can choose the tokens of a free answer.
        lambda_, temperature: the knobs of contrastive decoding; None for those without.
    """

    @property
    def kind(self) -> str: ...
    @property
    def rule(self) -> str: ...
    @property
    def needs_assistant(self) -> bool: ...
    @property
    def generates(self) -> bool: ...
    @property
    def lambda_(self) -> float | None: ...
    @property
    def temperature(self) -> float | None: ...

    def scores(self, main: np.ndarray, assistant: np.ndarray | None, values: np.ndarray) -> np.ndarray:
        """Scores from the log-probabilities of the score candidates, computed in float64.

        A row's additive constant changes nothing, so it does not matter whether log-probabilities are normalized over
        the vocabulary or over the candidates. Ties go to the first candidate, the lowest score; so does a row whose
        candidates all have probability 0 (see `has_answer`).

        Args:
            main: [N, K] float32 or float64, the main model's log-probabilities; -inf is a probability of 0.
            assistant: the same of the assistant; None where `needs_assistant` is False.
            values: [K] the candidates as numbers, ascending.

        Returns:
            [N] float64, each within `values`.

        Raises:
            ValueError: shapes that do not fit, NaN or +inf, values not ascending, or a missing assistant.
        """
        ...

    def next_token(self, main: torch.Tensor, assistant: torch.Tensor | None) -> torch.Tensor:
        """The next token of each row of a free answer, computed in float32 or better.

        Args:
            main: [N, V] the main model's logits or log-probabilities.
            assistant: the same of the assistant, over the same vocabulary and on the same device.

        Returns:
            [N] int64; ties go to the lowest token id.

        Raises:
            ValueError: as above.
            UserError: where `generates` is False.
        """
        ...
