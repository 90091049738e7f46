"""Phrases that were learned against a judge: the small file that carries one from run to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from judgebench.attacks.attack import PhraseAttack, read_phrase
from judgebench.runtime.errors import UserError

ADV_SUFFIX = "adv_suffix"
"""What attacks by learned phrases are called, before their length."""


@dataclass(frozen=True)
class LearnedPhrase:
    """A universal phrase and how it was learned.

    Attributes:
        by_length: the best phrase of 1, 2, ... words.
        against: the decoding whose expected score it raises.
        contexts, systems: the group_ids and system_ids that it was learned on.
        learned: all else that is known of it, plain: judge, tokenizer, data, prompt, scores, search, cost.
        prefix: what its attacks are called, before the length.
    """

    by_length: Sequence[str]
    against: str
    contexts: frozenset[str]
    systems: frozenset[str]
    learned: Mapping[str, Any] = field(default_factory=dict)
    prefix: str = ADV_SUFFIX

    @property
    def phrase(self) -> str:
        """The longest."""
        return self.by_length[-1]

    def attacks(self) -> list[PhraseAttack]:
        """`adv_suffix_1`, `adv_suffix_2`, ...: the best phrase of each length, as an attack."""
        return [PhraseAttack(f"{self.prefix}_{n}", phrase) for n, phrase in enumerate(self.by_length, 1)]

    def to_json(self) -> dict[str, Any]:
        """The content of a phrase file."""
        return {
            "phrase": self.phrase,
            "by_length": list(self.by_length),
            "against": self.against,
            "contexts": sorted(self.contexts),
            "systems": sorted(self.systems),
            "learned": dict(self.learned),
        }


@dataclass(frozen=True)
class PhraseFile:
    """A phrase that another run has learned, to be tried on this run's judge.

    Args:
        phrase_file: JSON with "phrase", and what else `LearnedPhrase.to_json` gives, as far as it is known.

    Raises:
        UserError: it cannot be read, or holds no phrase.
    """

    phrase_file: str

    def __post_init__(self) -> None:
        if not isinstance(self.phrase_file, str) or not self.phrase_file.strip():
            raise UserError(
                "attack.phrase_file: name the phrase.json that a run with attack=adv_suffix has left in its attack/ "
                "folder."
            )

    def load(self) -> LearnedPhrase:
        """The phrase."""
        content = read_phrase(Path(self.phrase_file).expanduser(), "attack.phrase_file")
        by_length = content.get("by_length", [content["phrase"]])
        listed = {name: content.get(name, []) for name in ("contexts", "systems")}
        known = content.get("learned", {})
        if not all(map(_texts, (by_length, *listed.values()))) or not isinstance(known, Mapping):
            raise UserError(
                f"attack.phrase_file={self.phrase_file}: by_length, contexts and systems must be lists of texts, and "
                "learned an object; leave out what is not known."
            )
        by_length = [phrase.strip() for phrase in by_length]
        if not all(by_length) or by_length[-1:] != [content["phrase"]]:
            raise UserError(
                f"attack.phrase_file={self.phrase_file}: by_length must hold the best phrases of 1, 2, ... words, none "
                f"of them empty, and end with phrase, {content['phrase']!r}; or leave it out."
            )
        return LearnedPhrase(
            by_length,
            str(content.get("against", "expectation")),
            frozenset(listed["contexts"]),
            frozenset(listed["systems"]),
            known,
        )


def _texts(given: Any) -> bool:
    """True of a list of texts."""
    return isinstance(given, list) and all(isinstance(text, str) for text in given)
