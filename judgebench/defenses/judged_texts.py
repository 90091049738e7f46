"""The texts that a run's judge is to judge, clean and attacked, for defenses that look at each by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from judgebench.defenses.planned import Means
from judgebench.types import Example


@dataclass(frozen=True)
class JudgedText:
    """A text in one of its roles.

    Attributes:
        text: as the judge would read it undefended.
        group_id: whose group.
        attack: what has changed it; empty where nothing has, be it that nothing was to.
    """

    text: str
    group_id: str
    attack: str = ""


@dataclass(frozen=True)
class JudgedTexts:
    """All of a run's.

    Attributes:
        roles: each text with each of its groups and attacks, once. Where two texts are compared, the rivals are among
            them, as clean texts.
        examples: each different text once, to be read by itself: what was made of one text stands together as a group,
            for it begins alike. Texts of nothing but whitespace are left out: there is nothing to look at.
    """

    roles: Sequence[JudgedText]
    examples: Sequence[Example]

    @classmethod
    def of(cls, means: Means, defense: str) -> JudgedTexts:
        """Those that are judged under one defense, with all that the run's attacks make of them."""
        conditions = [condition for condition in means.conditions if condition.defense == defense]
        roles: dict[JudgedText, None] = {}
        groups: dict[str, list[Example]] = {}
        seen: set[str] = set()

        def take(text: str, text_id: str, of: Example, attack: str = "", called: str = "") -> None:
            roles.setdefault(JudgedText(text, of.group_id, attack))
            if text.strip() and text not in seen:
                seen.add(text)
                groups.setdefault(text_id, []).append(Example(called or text_id, text_id, "", "", text, {}))

        for example in means.examples:
            take(example.output, example.text_id, example)
            if example.rival_id:
                take(example.rival, example.rival_id, example)
        for example in means.examples:
            for condition in conditions:
                text = means.judged(example, condition)
                if text != example.output:
                    take(text, example.text_id, example, condition.attack, f"{example.example_id} ({condition})")
        return cls(list(roles), [one for group in groups.values() for one in group])
