"""An attack of the user's own, held to what `Attack` promises."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from judgebench.attacks.attack import Attack
from judgebench.runtime.errors import UserError
from judgebench.types import Condition, Example

_TWICE = 8
"""Texts that are asked for twice: an attack that draws without a seed of the text's own is found out by then."""


@dataclass(frozen=True, eq=False)
class HeldAttack(Attack):
    """An attack whose every text is made once: prompts, files and report show the same one, however dear it was.

    Args:
        attack: whoever wrote it.

    Raises:
        UserError: in `judged`: it made something else than text, or other text of the same.
    """

    attack: Attack
    _made: dict[Any, str] = field(default_factory=dict)

    @property
    def name(self) -> str:  # type: ignore[override]
        """See `Attack`."""
        return self.attack.name

    def attacked(self, text: str, condition: Condition) -> str:
        """See `Attack.attacked`."""
        return self.attack.attacked(text, condition)

    def judged(self, example: Example, condition: Condition) -> str:
        """See `Attack.judged`."""
        key = (example.example_id, example.output, condition)
        if key not in self._made:
            made = self._checked(self.attack.judged(example, condition), example)
            if len(self._made) < _TWICE and self.attack.judged(example, condition) != made:
                raise UserError(
                    f"attacks: {self.name} makes another text of example {example.example_id} each time that it is "
                    "asked, so that what is reported would not be what was judged; draw from a seed and the text, as "
                    'in random.Random(f"{seed} {text}").'
                )
            self._made[key] = made
        return self._made[key]

    def _checked(self, made: Any, example: Example) -> str:
        where = f"attacks: {self.name} makes of the text of example {example.example_id}"
        if not isinstance(made, str):
            raise UserError(f"{where} {made!r}, which is {type(made).__name__}; it must return text.")
        try:
            made.encode()
        except UnicodeEncodeError as error:
            raise UserError(f"{where} something that cannot be written as UTF-8 ({error}); mend its text.") from error
        return made
