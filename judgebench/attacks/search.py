"""Search for a universal adversarial phrase: its settings and its words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from judgebench.attacks.attack import ADV_SUFFIX, Attack
from judgebench.decoding.rules import Decodings
from judgebench.runtime.files import user_path
from judgebench.runtime.parsing import read_text
from judgebench.settings.fields import (
    Annotated,
    Count,
    Distinct,
    Ge,
    Gt,
    Le,
    Natural,
    NotBlank,
    Words,
    check_fields,
)
from judgebench.types import Example, Record, Split
from judgebench.words.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from judgebench.attacks.scoring import Objective

_Share = Annotated[float, Gt(0), Le(1)]

FEWEST = 4
"""Words that a round leaves for each phrase of the beam, at least: what few gaps say is noisy."""


@dataclass(frozen=True)
class Search:
    """Rounds of exact scores, in ever more gaps for ever fewer words, if wanted behind a shortlist
    by the gradient. Exhaustive search is one round without a shortlist.

    Args:
        shortlist: share of the words that the gradient leaves to be scored at all; 1 takes no
            gradient.
        anchors: words at which the objective is linearized for it.
        gradient_contexts: share of the gaps whose gradients are averaged.
        contexts: for each round the share of the gaps in which words are scored; ascending, the
            last is 1.
        survivors: for each round but the last the share of its words that go on to the next.

    Example:
        >>> Search(contexts=[0.25, 1], survivors=[0.1]).rounds(gaps=8, words=1000, beam=1)
        [(2, 100), (8, 1)]
    """

    shortlist: _Share = 1.0
    anchors: Count = 4
    gradient_contexts: _Share = 1.0
    contexts: Annotated[Sequence[_Share], NotBlank()] = (1.0,)
    survivors: Sequence[_Share] = ()

    def __post_init__(self) -> None:
        check_fields(self, "search")

    def faults(self) -> Iterator[str]:
        contexts = list(self.contexts)
        if contexts != sorted(contexts) or contexts[-1] != 1:
            yield (
                f"search.contexts: {contexts} must ascend to 1: what is kept is scored in every "
                "context."
            )
        if len(self.survivors) != len(contexts) - 1:
            yield (
                f"search.survivors: it has {len(self.survivors)} entries and search.contexts "
                f"{len(contexts)}; give one for each round but the last."
            )

    @property
    def takes_gradient(self) -> bool:
        return self.shortlist < 1

    def rounds(self, gaps: int, words: int, beam: int) -> list[tuple[int, int]]:
        """For each round how many gaps words are scored in, and how many of them go on; in the last
        round `beam`."""
        rounds = []
        for share, survivors in zip(self.contexts, [*self.survivors, 0.0], strict=True):
            words = self._left(survivors, words, beam) if survivors else min(beam, words)
            rounds.append((int(np.ceil(share * gaps)), words))
        return rounds

    def shortlisted(self, words: int, beam: int) -> int:
        """The number of words that the gradient leaves."""
        return self._left(self.shortlist, words, beam)

    @staticmethod
    def _left(share: float, words: int, beam: int) -> int:
        return min(words, max(int(np.ceil(share * words)), FEWEST * beam))

    def settings(self) -> Record:
        """All that its result depends on, plain."""
        return {
            "shortlist": float(self.shortlist),
            "anchors": self.anchors,
            "gradient_contexts": float(self.gradient_contexts),
            "contexts": [float(x) for x in self.contexts],
            "survivors": [float(x) for x in self.survivors],
        }


_KEY = f"attacks: {ADV_SUFFIX}"
_Texts = Count | Annotated[Sequence[str], NotBlank()]


@dataclass(frozen=True)
class AdvSuffix(Attack):
    """The attacks `adv_suffix_1`, `adv_suffix_2`, ...: universal adversarial phrases of one word,
    of two (Raina et al. 2024), learned before the run judges with them, or taken from another run.

    Args:
        search: how each word is chosen.
        phrase_file: the phrase that another run has left in its attack/phrase.json; None learns
            one, as the others say.
        length: words of the phrase; the best shorter ones are judged with as well.
        against: names of decodings whose expected score is raised, a phrase each.
        vocabulary, words: see `select_words`.
        contexts: group_ids to learn on, or how many of the development split's; None is all of
            these.
        systems: system_ids to learn on, or how many; None is all.
        beam: phrases that are kept from word to word; 1 is greedy.
        refine: how often each place of the finished phrase is tried with other words, as GCG does;
            0 leaves it.
        seed: of all that is drawn.
    """

    search: Search = field(default_factory=Search)
    phrase_file: Words | None = None
    length: Annotated[int, Ge(1), Le(20)] = 4
    against: Annotated[Sequence[str], NotBlank(), Distinct()] = ("expectation",)
    vocabulary: Words = "tokenizer"
    words: Count | None = None
    contexts: _Texts | None = 8
    systems: _Texts | None = 2
    beam: Count = 1
    refine: Natural = 0
    seed: Natural = 0
    name = ADV_SUFFIX
    needs_dev: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fields(self, _KEY)

    def faults(self) -> Iterator[str]:
        idle = [each.name for each in fields(self)[2:] if getattr(self, each.name) != each.default]
        if self.phrase_file is not None and idle:
            yield (
                f"{_KEY}.{idle[0]}: the phrase of phrase_file is learned already, so this would "
                "change nothing; leave it out."
            )

    def objectives(self, decodings: Decodings, mode: str) -> list[Objective]:
        """The objectives that are maximized, a phrase each."""
        from judgebench.attacks.scoring import Objective  # it needs torch

        if mode != "score_tokens":
            raise UserError(
                f"{_KEY} needs the judge's probabilities, which judge.mode={mode} "
                "does not give; set judge.mode=score_tokens, or try a phrase that was learned "
                "elsewhere, as 'attacks=[{name: adv_suffix, phrase_file: FILE}]'."
            )
        if missing := [name for name in self.against if name not in decodings]:
            raise UserError(
                f"{_KEY}.against: the run has no decoding {missing[0]!r}; it has "
                f"{', '.join(decodings)}. Choose one of these, or add it to decoding=[...]."
            )
        return [Objective(name, decodings[name]) for name in self.against]

    def examples(self, examples: Sequence[Example], split: Split, dev: str) -> list[Example]:
        """The texts that the phrase is learned on: of the development split alone, for it is tried
        on the rest. `UserError` for contexts or systems that are not there, or that the phrase is
        to be tried on.

        Args:
            split: group_id -> dev or test.
            dev: the name of the development split.
        """
        groups = sorted({example.group_id for example in examples})
        free = [group for group in groups if split[group] == dev]
        if not free:
            raise UserError(
                f"{_KEY} learns on the development split, and this data has none; "
                "set data.dev_share."
            )
        contexts = self._taken("contexts", free, groups)
        systems = self._taken("systems", sorted({example.system_id for example in examples}), None)
        chosen = [
            text for text in examples if text.group_id in contexts and text.system_id in systems
        ]
        if not chosen:
            raise UserError(
                f"{_KEY}.contexts, {_KEY}.systems: none of these systems has a text in these "
                "contexts."
            )
        return chosen

    def _taken(self, name: str, free: Sequence[str], known: Sequence[str] | None) -> frozenset[str]:
        wanted = getattr(self, name)
        if wanted is None:
            return frozenset(free)
        if isinstance(wanted, int):
            if wanted > len(free):
                where = "the development split has" if known is not None else "the data has"
                more = (
                    "raise data.dev_share, or take fewer" if known is not None else "null takes all"
                )
                raise UserError(
                    f"{_KEY}.{name}: {wanted} are wanted, and {where} {len(free)}; {more}."
                )
            drawn = np.random.default_rng([self.seed, len(free)]).permutation(len(free))[:wanted]
            return frozenset(free[i] for i in drawn.tolist())
        wanted = frozenset(map(str, wanted))
        for entry in sorted(wanted - set(free)):
            if known is not None and entry in known:
                raise UserError(
                    f"{_KEY}.contexts: {entry!r} is of the test split, on which the phrase is to "
                    "be tried; contexts to learn on and to try on must not overlap. Take it from "
                    "the development split, or raise data.dev_share."
                )
            raise UserError(f"{_KEY}.{name}: there is no {entry!r} in the data.")
        return wanted

    def settings(self) -> Record:
        """All that its words depend on, texts and judge aside, plain; not how many they are."""
        return {
            "vocabulary": self.vocabulary,
            "words": self.words,
            "search": self.search.settings(),
            "beam": self.beam,
            "seed": self.seed,
        }


# --- vocabulary ---------------------------------------------------------------------------------


def whole_words(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """The words of two letters or more that the tokenizer writes as one token behind a blank, by
    token id."""
    tokens = sorted(set(tokenizer.get_vocab().values()) - set(tokenizer.all_special_ids))
    texts = [str(tokenizer.decode([token])) for token in tokens]
    words = [text[1:] for text in texts if text[:1] == " " and text[1:].isalpha()]
    if not words:  # sentencepiece's tokenizers drop the first blank when they decode
        pieces = map(str, tokenizer.convert_ids_to_tokens(tokens))
        words = [piece[1:] for piece in pieces if piece[:1] == "\u2581" and piece[1:].isalpha()]
    return [word for word in words if len(word) > 1]


def frequent_words(count: int) -> list[str]:
    """The most frequent English words of letters alone (`wordfreq`, its large list), the most
    frequent first."""
    import wordfreq

    frequent = wordfreq.top_n_list("en", 2 * count + 100)  # some are numbers, or have marks in them
    return [word for word in frequent if word.isalpha() and word.isascii()][:count]


def select_words(
    tokenizer: PreTrainedTokenizerBase, vocabulary: str, words: int | None
) -> list[str]:
    """The words that configuration names, each once.

    Args:
        vocabulary: `tokenizer`, its whole words; `frequent`, the most frequent English words; or
            the path of a file with one word or phrase a line.
        words: how many of them, from the first, the most frequent, or the lowest token id on; None
            is all (of `frequent` 20 000).
    """
    if vocabulary == "tokenizer":
        listed = whole_words(tokenizer)
    elif vocabulary == "frequent":
        listed = frequent_words(words or 20_000)
    else:
        text = read_text(
            user_path(vocabulary),
            f"{_KEY}.vocabulary={vocabulary}: it",
            remedy="give tokenizer, frequent, or a UTF-8 file with one word a line",
        )
        listed = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    if not listed:
        raise UserError(
            f"{_KEY}.vocabulary={vocabulary}: it holds no word; a phrase needs one at least."
        )
    return list(dict.fromkeys(listed))[:words]
