"""The words of a phrase, the gaps in prompts where it goes, and the tokens that words have there."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from transformers import PreTrainedTokenizerBase

from judgebench.attacks.attack import PhraseAttack
from judgebench.prompts.builder import PromptBuilder
from judgebench.runtime.errors import UserError
from judgebench.runtime.parsing import read_text
from judgebench.types import Condition, Example, Prompt

PROBES = ("table", "Quickly", "seven", "under")
"""Words that begin and end differently: whatever the prompts with them have in common is not the phrase."""

_AROUND = 48
"""Characters on each side of a gap that its tokens may depend on; tokenizers split texts at blanks before all else."""


@dataclass(frozen=True, eq=False)
class Gap:
    """A prompt with a gap right after its judged text.

    Attributes:
        head, tail: [tokens] int32 before and after the gap; a phrase with the blank before it stands between them.
        before, after: the characters next to the gap on its sides, without that blank.
    """

    example: Example
    condition: Condition
    head: np.ndarray
    tail: np.ndarray
    before: str
    after: str

    def filled(self, phrase: Sequence[int]) -> np.ndarray:
        """[tokens] int32: the prompt with the phrase's tokens in the gap."""
        return np.concatenate([self.head, np.asarray(phrase, np.int32), self.tail])


def gaps_of(
    builder: PromptBuilder, examples: Sequence[Example], conditions: Sequence[Condition], words: int
) -> list[Gap]:
    """The gaps of examples under conditions, condition by condition, with room for a phrase of so many words.

    Raises:
        UserError: the tokenizer joins a phrase with what stands around it; or an article must be shortened: by how much
            depends on the phrase, so that nothing before the gap stays as it is.
    """
    probed = [builder.build(examples, conditions, PhraseAttack("", " ".join([word] * words)).judged) for word in PROBES]
    if cut := [prompt for prompts in probed for prompt in prompts if prompt.source_tokens_cut]:
        raise UserError(
            f"attack=adv_suffix: with a phrase the prompt of example {cut[0].example.example_id} is too long unless "
            "its article is shortened, and on such texts none is learned; raise prompt.max_tokens, or name shorter "
            "articles in attack.contexts."
        )
    return [_cut(prompts) for prompts in zip(*probed, strict=True)]


def in_place(builder: PromptBuilder, gaps: Sequence[Gap], phrase: str, tokens: Sequence[int]) -> bool:
    """True where the whole prompts with `phrase` read as each gap's head, `tokens` and tail: what was scored is then
    what a judge will read."""
    attack = PhraseAttack("", phrase)
    for gap in gaps:
        (prompt,) = builder.build([gap.example], [gap.condition], attack.judged)
        if not np.array_equal(prompt.token_ids, gap.filled(tokens)):
            return False
    return True


def _cut(prompts: Sequence[Prompt]) -> Gap:
    ids = [prompt.token_ids.tolist() for prompt in prompts]
    head, tail = common_ends(ids)
    texts = [prompt.text for prompt in prompts]
    first, last = common_ends(texts)
    before, after = texts[0][:first].rstrip()[-_AROUND:], texts[0][len(texts[0]) - last :][:_AROUND]
    example, condition = prompts[0].example, prompts[0].condition
    if head == 0 or tail == 0:
        raise UserError(
            f"attack: the prompt of example {example.example_id} has no place of its own for a phrase: the tokenizer "
            "joins phrases with the text around them; choose another judge."
        )
    return Gap(example, condition, np.array(ids[0][:head], np.int32), np.array(ids[0][-tail:], np.int32), before, after)


def common_ends(rows: Sequence[Sequence[Hashable]]) -> tuple[int, int]:
    """Numbers of items that all rows begin with alike, and that they end with alike."""
    shortest = min(map(len, rows))
    head = next((i for i in range(shortest) if len({row[i] for row in rows}) > 1), shortest)
    tail = next((i for i in range(shortest) if len({row[-1 - i] for row in rows}) > 1), shortest)
    return head, tail


TOKENIZER, FREQUENT = "tokenizer", "frequent"


def whole_words(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """The words of two letters or more that the tokenizer writes as one token behind a blank, by token id."""
    special = set(tokenizer.all_special_ids)
    tokens = sorted(set(tokenizer.get_vocab().values()) - special)
    texts = [str(tokenizer.decode([token])) for token in tokens]
    found = [text[1:] for text in texts if text[:1] == " " and text[1:].isalpha()]
    if not found:  # sentencepiece's tokenizers drop the first blank when they decode
        pieces = map(str, tokenizer.convert_ids_to_tokens(tokens))
        found = [piece[1:] for piece in pieces if piece[:1] == "\u2581" and piece[1:].isalpha()]
    return [word for word in found if len(word) > 1]


def frequent_words(count: int) -> list[str]:
    """The most frequent English words of letters alone, the most frequent first (`wordfreq`, its large list)."""
    import wordfreq

    frequent = wordfreq.top_n_list("en", 2 * count + 100)  # some are numbers, or have marks in them
    return [word for word in frequent if word.isalpha() and word.isascii()][:count]


def select_words(tokenizer: PreTrainedTokenizerBase, vocabulary: str, words: int | None) -> list[str]:
    """The words that configuration names, each once; `UserError` where there is none.

    Args:
        vocabulary: `tokenizer`, its whole words; `frequent`, the most frequent English words; or the path of a file
            with one word or phrase a line.
        words: how many of them, from the first, the most frequent, or the lowest token id on; None is all (of
            `frequent` 20 000).
    """
    if vocabulary == TOKENIZER:
        found = whole_words(tokenizer)
    elif vocabulary == FREQUENT:
        found = frequent_words(words or 20_000)
    else:
        remedy = f"give {TOKENIZER}, {FREQUENT}, or a UTF-8 file with one word a line"
        text = read_text(Path(vocabulary).expanduser(), f"attack.vocabulary={vocabulary}: it", remedy=remedy)
        found = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    found = list(dict.fromkeys(found))[:words]
    if not found:
        raise UserError(f"attack.vocabulary={vocabulary}: it holds no word; a phrase needs one at least.")
    return found


@dataclass(frozen=True)
class Fitting:
    """Words that survive behind a stem in a gap, the tokens that each adds, and how many words were dropped."""

    words: Sequence[str]
    tokens: Sequence[tuple[int, ...]]
    dropped: int


def fitting(
    tokenizer: PreTrainedTokenizerBase, gap: Gap, words: Sequence[str], before: Sequence[str], after: Sequence[str]
) -> Fitting:
    """The words that stay what they are between the words `before` and `after` of a phrase in a gap.

    A word's tokens are what it puts between tokens that are the same for other words; it survives if these same tokens
    stand there whatever stands next to it.
    """

    def encoded(inside: Sequence[str]) -> list[list[int]]:
        texts = [" ".join([gap.before, *before, word, *after]) + gap.after for word in inside]
        return [list(ids) for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]]

    probes = encoded(PROBES)
    head, tail = common_ends(probes)
    first, last = probes[0][:head], probes[0][len(probes[0]) - tail :]
    kept, tokens = [], []
    for word, ids in zip(words, encoded(words), strict=True):
        if len(ids) > head + tail and ids[:head] == first and ids[len(ids) - tail :] == last:
            kept.append(word)
            tokens.append(tuple(ids[head : len(ids) - tail]))
    return Fitting(kept, tokens, len(words) - len(kept))
