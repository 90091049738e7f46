"""`attack=adv_suffix`: what configuration says of a phrase that is to be learned, and on which texts it may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from judgebench.attacks.search.scoring import Objective
from judgebench.attacks.search.search import Search
from judgebench.decoding.rules import Decoding
from judgebench.runtime.errors import UserError
from judgebench.types import Example

_LONGEST = 20


@dataclass(frozen=True)
class AdvSuffix:
    """A universal adversarial phrase of the run's own judge (Raina et al. 2024), learned before the run judges with it.

    Args:
        length: words of the phrase; the best shorter ones are judged with as well.
        against: names of decodings whose expected score is raised, a phrase each.
        vocabulary, words: see `select_words`.
        contexts: group_ids to learn on, or how many of the development split's; None is all of these.
        systems: system_ids to learn on, or how many; None is all.
        search: how each word is chosen.
        beam: phrases that are kept from word to word; 1 is greedy.
        refine: how often each place of the finished phrase is tried with other words; 0 leaves it.
        seed: of all that is drawn.

    Raises:
        UserError: a value that is none of these.
    """

    length: int = 4
    against: Sequence[str] = ("expectation",)
    vocabulary: str = "tokenizer"
    words: int | None = None
    contexts: int | Sequence[str] | None = None
    systems: int | Sequence[str] | None = None
    search: Search = field(default_factory=Search)
    beam: int = 1
    refine: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("length", 1), ("beam", 1), ("refine", 0), ("seed", 0)):
            _check_count(name, getattr(self, name), least)
        if self.length > _LONGEST:
            raise UserError(f"attack.length: {self.length} words is no phrase; at most {_LONGEST}.")
        for name in ("words", "contexts", "systems"):
            value = getattr(self, name)
            if name != "words" and _listed(value):
                if not value:
                    raise UserError(f"attack.{name}: an empty list leaves nothing to learn on; null takes all.")
            elif value is not None:
                _check_count(name, value, 1, "" if name == "words" else ", nor a list of names")
        if not isinstance(self.vocabulary, str) or not self.vocabulary.strip():
            raise UserError(
                f"attack.vocabulary: {self.vocabulary!r} is neither tokenizer nor frequent nor the path of a file."
            )
        if not _listed(self.against) or not self.against or len(set(self.against)) < len(self.against):
            raise UserError(
                f"attack.against: {self.against!r} is not a list of different decodings, as [expectation] is."
            )
        if not isinstance(self.search, Search):
            raise UserError(f"search: {self.search!r} is no way of searching; conf/search has them.")

    def objectives(self, decodings: Mapping[str, Decoding], mode: str) -> list[Objective]:
        """The objectives that are maximized, a phrase each.

        Args:
            decodings: the run's.
            mode: how the judge is read.

        Raises:
            UserError: a decoding that is not there or that no search can follow, or a judge without probabilities.
        """
        if mode != "score_tokens":
            raise UserError(
                f"attack=adv_suffix: it needs the judge's probabilities, which judge.mode={mode} does not give; set "
                "judge.mode=score_tokens, or try a phrase that was learned elsewhere with attack=phrase."
            )
        if missing := [name for name in self.against if name not in decodings]:
            raise UserError(
                f"attack.against: the run has no decoding {missing[0]!r}; it has {', '.join(decodings)}. Choose one of "
                f"these, or add it to decoding=[...]."
            )
        return [Objective(name, decodings[name]) for name in self.against]

    def examples(self, examples: Sequence[Example], split: Mapping[str, str], dev: str) -> list[Example]:
        """The texts that the phrase is learned on: of the development split alone, for it is tried on the rest.

        Args:
            split: group_id -> dev or test.
            dev: what the development split is called.

        Raises:
            UserError: contexts or systems that are not there, or that the phrase is to be tried on.
        """
        groups = sorted({example.group_id for example in examples})
        free = [group for group in groups if split[group] == dev]
        if not free:
            raise UserError(
                "attack=adv_suffix: it learns on the development split, and this data has none; set data.dev_share."
            )
        contexts = self._taken("contexts", free, groups)
        systems = self._taken("systems", sorted({example.system_id for example in examples}), None)
        chosen = [one for one in examples if one.group_id in contexts and one.system_id in systems]
        if not chosen:
            raise UserError("attack.contexts, attack.systems: none of these systems has a text in these contexts.")
        return chosen

    def _taken(self, name: str, free: Sequence[str], known: Sequence[str] | None) -> frozenset[str]:
        wanted = getattr(self, name)
        if wanted is None:
            return frozenset(free)
        if isinstance(wanted, int):
            if wanted > len(free):
                where = "the development split has" if known is not None else "the data has"
                more = "raise data.dev_share, or take fewer" if known is not None else "null takes all"
                raise UserError(f"attack.{name}: {wanted} are wanted, and {where} {len(free)}; {more}.")
            drawn = np.random.default_rng([self.seed, len(free)]).permutation(len(free))[:wanted]
            return frozenset(free[i] for i in drawn.tolist())
        asked = [str(one) for one in wanted]
        for one in asked:
            if known is not None and one in known and one not in free:
                raise UserError(
                    f"attack.contexts: {one!r} is of the test split, on which the phrase is to be tried; contexts to "
                    "learn on and to try on must not overlap. Take it from the development split, or raise "
                    "data.dev_share."
                )
            if one not in free:
                raise UserError(f"attack.{name}: there is no {one!r} in the data.")
        return frozenset(asked)

    def settings(self) -> dict[str, Any]:
        """All that its words depend on beside texts and judge, plain; not how many they are."""
        return {
            "vocabulary": self.vocabulary,
            "words": self.words,
            "search": self.search.settings(),
            "beam": self.beam,
            "seed": self.seed,
        }


def _check_count(name: str, value: Any, least: int, otherwise: str = "") -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UserError(f"attack.{name}: {value!r} is not a whole number of at least {least}{otherwise}.")


def _listed(value: Any) -> bool:
    return not isinstance(value, str) and isinstance(value, Sequence)
