"""What the main model finds likely and the assistant does not: contrastive decoding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from judgebench.decoding.law import checked, checked_logits, contrast, expected_value
from judgebench.runtime.errors import UserError

if TYPE_CHECKING:
    import torch

_RULES = ("argmax", "expectation")
LARGEST_KAPPA = 1e9  # beyond it the assistant alone decides, and float32 sums would overflow


@dataclass(frozen=True)
class Contrastive:
    """Contrastive decoding: log p_main - lambda * log p_asst with p_asst = softmax(e / t).

    Eq. 1 of "Contrastive Decoding Mitigates Score Range Bias in LLM-as-a-Judge". The temperature belongs to the
    assistant alone, hence scores depend on `kappa` = lambda / t only: (0.5, 1) and (1, 2) are one decoding. lambda = 0
    with alpha = 0 is greedy, or the expectation, bit for bit. `contrast` has the law and its treatment of zeros.

    Attributes:
        lambda_: weight of the assistant (config key `decoding.lambda`); any finite number, negative ones add it.
        temperature: t of the assistant, above 0.
        alpha: plausibility (Li et al. 2023): what has p_main < alpha * max p_main is dropped; 0 keeps all. Over the
            candidates in `scores`, over the vocabulary in `next_token`.
        rule: `argmax`, or `expectation`: the mean under the softmax of the adjusted scores over the candidates.

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

    kind: ClassVar[str] = "contrastive"
    needs_assistant: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for key, name in (("lambda", "lambda_"), ("temperature", "temperature"), ("alpha", "alpha")):
            object.__setattr__(self, name, _number(f"decoding.{key}", getattr(self, name)))
        if self.temperature <= 0:
            raise UserError(f"decoding.temperature: {self.temperature:g} is not above 0, as a temperature must be.")
        if not 0 <= self.alpha <= 1:
            raise UserError(f"decoding.alpha: {self.alpha:g} is not in [0, 1]; 0 keeps every candidate.")
        if self.rule not in _RULES:
            raise UserError(f"decoding.rule: {self.rule!r} is not one of {', '.join(_RULES)}.")
        if abs(self.lambda_) > LARGEST_KAPPA * self.temperature:
            raise UserError(
                f"decoding.lambda: {self.lambda_:g} at decoding.temperature {self.temperature:g} is too large; "
                f"lambda / temperature may be at most {LARGEST_KAPPA:g}."
            )

    @property
    def kappa(self) -> float:
        """Lambda / t, all that scores depend on."""
        return self.lambda_ / self.temperature

    @property
    def generates(self) -> bool:
        return self.rule == "argmax"

    def scores(self, main: np.ndarray, assistant: np.ndarray | None, values: np.ndarray) -> np.ndarray:
        """See `Decoding.scores`."""
        values = np.asarray(values, dtype=np.float64)
        main = checked("main", main, values)
        if assistant is None:
            raise ValueError("contrastive decoding needs the assistant's log-probabilities, got None")
        import torch

        assistant = checked("assistant", assistant, values)
        if len(main) != len(assistant):
            raise ValueError(f"assistant must have the main model's {len(main)} rows, got {len(assistant)}")
        adjusted = contrast(torch.from_numpy(main), torch.from_numpy(assistant), self.kappa, self.alpha).numpy()
        return values[adjusted.argmax(axis=1)] if self.rule == "argmax" else expected_value(adjusted, values)

    def next_token(self, main: torch.Tensor, assistant: torch.Tensor | None) -> torch.Tensor:
        """See `Decoding.next_token`; with `rule` expectation there is none to choose, which raises `UserError`."""
        if not self.generates:
            raise UserError(
                "decoding.rule: expectation cannot choose the tokens of a generated answer; use decoding.rule=argmax."
            )
        if assistant is None:
            raise ValueError("contrastive decoding needs the assistant's logits, got None")
        main = checked_logits("main", main)
        assistant = checked_logits("assistant", assistant, like=main).to(main.dtype)
        return contrast(main, assistant, self.kappa, self.alpha).argmax(dim=1)


def _number(key: str, given: Any) -> float:
    if isinstance(given, Sequence) and not isinstance(given, str):
        raise UserError(
            f"{key}: {given!r} is a list, and a decoding has one number; take several by turns with -m {key}="
            f"{','.join(map(str, given))}, or choose among them with tune=dev (tune.lambdas, tune.temperatures)."
        )
    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
        raise UserError(f"{key}: {given!r} is not a finite number.")
    return float(given) + 0.0  # -0.0 becomes 0.0, so that records read alike
