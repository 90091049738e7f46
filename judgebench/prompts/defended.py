"""What a defense may do while a prompt is built; the defenses themselves are in `judgebench.defenses`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from judgebench.types import Condition, Example, Rubric


class Defense(Protocol):
    """What is done against what a judged text says, before the judge reads it.

    Each step may leave what it is given as it is. All give the same for the same arguments.

    Attributes:
        name: in the column `defense` of every table.
    """

    @property
    def name(self) -> str: ...

    def text(self, text: str, example: Example, condition: Condition) -> str:
        """What stands in the place of a text to be judged.

        Args:
            text: the judged text after the attack, or its rival where two are compared.
            example, condition: what the prompt is about.
        """
        ...

    def rubric(self, rubric: Rubric, said: Sequence[str]) -> Rubric:
        """What is asked around the texts of one group. To share what comes before them, it must be asked alike.

        Args:
            said: every text of the group that is the examples' and not the rubric's.
        """
        ...

    def cuts(self, text: str, example: Example) -> Sequence[int]:
        """Where in a text to be judged tokens must end, as places in `text`; it reads the same, in other tokens."""
        ...
