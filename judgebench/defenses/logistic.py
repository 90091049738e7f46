"""A logistic regression that is saved as numbers: fitted by scikit-learn, applied by numpy alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

FEATURES = ("log_perplexity", "tokens")
"""What an attack is told by (Alon and Kamfonas 2023): the logarithm of the text's perplexity, and its length."""


@dataclass(frozen=True)
class Logistic:
    """P(attacked) = 1 / (1 + exp(-(intercept + sum of coefficient * (feature - center) / scale))).

    Attributes:
        center, scale, coefficients: one for each of `FEATURES`.
        intercept: of the standardized features.
    """

    center: tuple[float, ...]
    scale: tuple[float, ...]
    coefficients: tuple[float, ...]
    intercept: float

    @classmethod
    def fit(cls, features: np.ndarray, attacked: np.ndarray) -> Logistic:
        """Fitted on standardized features with scikit-learn's usual penalty; both kinds of texts weigh the same.

        Args:
            features: [texts, features] float64, without NaN.
            attacked: [texts] bool, of both kinds.
        """
        from sklearn.linear_model import LogisticRegression  # which takes a second that few runs need

        center = features.mean(axis=0)
        spread = features.std(axis=0)
        scale = np.where(spread > 0, spread, 1.0)
        found = LogisticRegression(class_weight="balanced", max_iter=1000).fit((features - center) / scale, attacked)
        learned = tuple(found.coef_[0].tolist())
        return cls(tuple(center.tolist()), tuple(scale.tolist()), learned, float(found.intercept_[0]))

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Logistic:
        """From what `to_json` gives.

        Raises:
            KeyError, TypeError, ValueError: it holds something else.
        """
        center, scale, learned = rows = [tuple(map(float, given[name])) for name in ("center", "scale", "coefficients")]
        found = cls(center, scale, learned, float(given["intercept"]))
        numbers = np.array([*found.center, *found.scale, *found.coefficients, found.intercept])
        if {len(row) for row in rows} != {len(FEATURES)} or not np.isfinite(numbers).all() or min(found.scale) <= 0:
            raise ValueError(f"center, scale and coefficients must be {len(FEATURES)} finite numbers each")
        return found

    def to_json(self) -> dict[str, Any]:
        """Plain."""
        return {name: list(held) if isinstance(held, tuple) else held for name, held in asdict(self).items()}

    def probabilities(self, features: np.ndarray) -> np.ndarray:
        """[texts, features] -> [texts] float64 P(attacked); NaN where a feature is."""
        standard = (features - np.array(self.center)) / np.array(self.scale)
        odds = standard @ np.array(self.coefficients) + self.intercept
        return 1 / (1 + np.exp(-np.clip(odds, -700, 700)))  # beyond which exp is no number
