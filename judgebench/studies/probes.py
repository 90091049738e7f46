"""Probes: changes of a text or a prompt that should not matter, one at a time."""

from __future__ import annotations

from typing import Any, NamedTuple

PROBE = "probe "
"""The beginning of the attack, or of the defense, of a condition that is a probe."""


class Probe(NamedTuple):
    """A change of a text, or of a prompt.

    Attributes:
        part: the attack, or the defense, that makes it; its name is the probe's behind `PROBE`.
        condition: its attack and its defense, one of which is `part`.
        neutral: True where it should not matter to what is judged.
        missing: why there is nothing to say where it changes no prompt.
    """

    name: str
    part: Any = None
    condition: tuple[str, str] = ("", "")
    neutral: bool = True
    missing: str = "it changes no prompt"

    @property
    def title(self) -> str:
        """Its name as words."""
        return self.name.replace("_", " ")
