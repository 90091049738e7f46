"""Prices of a served model's tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from judgebench.runtime.errors import UserError, shown

_MOST = 1e9


@dataclass(frozen=True)
class Price:
    """Prices of tokens in USD per million; None where they are not known.

    Attributes:
        cached_input: of prompt tokens that the server had in its cache; None: as `input`.
    """

    input: float | None = None
    cached_input: float | None = None
    output: float | None = None

    @classmethod
    def parse(cls, given: Any, role: str) -> Price:
        """From the config key `<role>.price`.

        Raises:
            UserError: no mapping, an unknown entry, or one that is no price.
        """
        given = {} if given is None else given
        known = ("input", "cached_input", "output")
        if not isinstance(given, Mapping) or set(given) - set(known):
            raise UserError(
                f"{role}.price: must be a mapping with {', '.join(known)}, in USD per million tokens, got "
                f"{shown(given)}."
            )
        for name, value in given.items():
            if value is not None and (not is_number(value) or not 0 <= value <= _MOST):
                raise UserError(
                    f"{role}.price.{name}: {shown(value)} is not a price; give USD per million tokens, or null."
                )
        return cls(**given)

    @property
    def known(self) -> bool:
        """True if the cost of a request follows from them."""
        return self.input is not None and self.output is not None

    def of(self, prompt: float, cached: float, completion: float) -> float | None:
        """The cost in USD of so many tokens; `cached` are those of the prompt's that were in the cache.

        Example:
            >>> Price(2.0, 0.5, 8.0).of(1_000_000, 600_000, 100_000)
            1.9
        """
        if self.input is None or self.output is None:
            return None
        cheap = self.input if self.cached_input is None else self.cached_input
        return ((prompt - cached) * self.input + cached * cheap + completion * self.output) / 1e6


def is_number(value: object) -> bool:
    """True for a value of a configuration that is a number, and no NaN."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value
