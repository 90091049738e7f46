"""What a defense may do while a prompt is built; the defenses themselves are in `judgebench.defenses`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from judgebench.types import Condition, Example, Rubric


class Defense:
    """What is done against what a judged text says, before the judge reads it.

    Each step leaves what it is given as it is, unless a defense says otherwise. All give the same for the same
    arguments.

    One of your own: subclass it in a file of yours, say mine.py, and name the class in the config key `defenses`, as in
    `'defenses=[none,{_target_: mine.Plain, most: 60}]'`, where mine.py lies in the folder in which the command is
    started (or on PYTHONPATH). The entry's other keys are passed to the class. One that must compute something before
    prompts can be built, such as a threshold found on development texts, is a `judgebench.defenses.Planned`.

    Attributes:
        name: in the column `defense` of every table.
        answer_tokens: where the judge answers in words, its number last, the most tokens of such an answer; None where
            it answers as `judge.mode` has it.
        learnable: whether a phrase can be learned under it: its words must be the same tokens wherever they stand.
        compares: whether it can stand around two texts that are compared.

    Example:
        >>> class Plain(Defense):
        ...     name = "plain"
        ...
        ...     def __init__(self, most: int = 1000):
        ...         self.most = most
        ...
        ...     def text(self, text: str, example: Example, condition: Condition) -> str:
        ...         return text.encode("ascii", "ignore").decode()[: self.most]
        >>> Plain(most=2).text("T\u200bext", None, None)
        'Te'
    """

    name: str
    answer_tokens: int | None = None
    learnable: ClassVar[bool] = True
    compares: ClassVar[bool] = True

    def text(self, text: str, example: Example, condition: Condition) -> str:
        """What stands in the place of a text to be judged.

        Args:
            text: the judged text after the attack, or its rival where two are compared.
            example, condition: what the prompt is about.
        """
        return text

    def rubric(self, rubric: Rubric, said: Sequence[str]) -> Rubric:
        """What is asked around the texts of one group. To share what comes before them, it must be asked alike.

        Args:
            said: every text of the group that is the examples' and not the rubric's.
        """
        return rubric

    def more(self, example: Example, condition: Condition) -> Mapping[str, str]:
        """Field -> text of the `{{fields}}` that `rubric` has added, alike for a group; like the example's own texts
        they are never read as a template, nor as control tokens."""
        return {}

    def cuts(self, text: str, example: Example) -> Sequence[int]:
        """Where in a text to be judged tokens must end, as places in `text`; it reads the same, in other tokens."""
        return ()
