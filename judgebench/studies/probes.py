"""Probes as the studies see them: their names among the conditions of a run."""

from __future__ import annotations

from typing import NamedTuple

from judgebench.types import Condition

PROBE = "probe "
"""The beginning of the attack, or of the defense, of a condition that is a probe."""


class Asked(NamedTuple):
    """A probe as the study takes it.

    Attributes:
        of_text: True for a changed text, False for a changed prompt.
        neutral: True where it should not matter.
        missing: why there is nothing to say where it changes no prompt.
    """

    name: str
    of_text: bool
    neutral: bool
    missing: str

    @property
    def title(self) -> str:
        """Its name as words."""
        return self.name.replace("_", " ")

    @property
    def condition(self) -> tuple[str, str]:
        """Its attack and its defense."""
        name = f"{PROBE}{self.name}"
        return (name, Condition.defense) if self.of_text else (Condition.attack, name)
