"""The words of a phrase, the gaps in prompts where it goes, and the tokens that words have there."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from judgebench.attacks.attack import PhraseAttack
from judgebench.prompts.builder import PromptBuilder
from judgebench.runtime.errors import UserError
from judgebench.runtime.files import user_path
from judgebench.runtime.parsing import read_text
from judgebench.types import Condition, Example

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PROBES = ("table", "Quickly", "seven", "under")
"""Words that begin and end differently: what the prompts with them have in common is not the phrase."""

AROUND = 48
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
    """The gaps of examples under conditions, condition by condition, with room for a phrase of so many words."""
    # where an article must be shortened, it depends on the phrase by how much, and nothing before the gap stays
    probed = [builder.build(examples, conditions, PhraseAttack("", " ".join([word] * words)).judged) for word in PROBES]
    if cut := [prompt for prompts in probed for prompt in prompts if prompt.source_tokens_cut]:
        raise UserError(
            f"attack=adv_suffix: with a phrase the prompt of example {cut[0].example.example_id} is too long unless "
            "its article is shortened, and on such texts none is learned; raise prompt.max_tokens, or name shorter "
            "articles in attack.contexts."
        )
    gaps = []
    for prompts in zip(*probed, strict=True):
        example, ids, text = prompts[0].example, prompts[0].token_ids, prompts[0].text
        head, tail = common_ends([prompt.token_ids.tolist() for prompt in prompts])
        if head == 0 or tail == 0:
            raise UserError(
                f"attack: the prompt of example {example.example_id} has no place of its own for a phrase: the "
                "tokenizer joins phrases with the text around them; choose another judge."
            )
        first, last = common_ends([prompt.text for prompt in prompts])
        before, after = text[:first].rstrip()[-AROUND:], text[len(text) - last :][:AROUND]
        ids = ids.astype(np.int32)
        gaps.append(Gap(example, prompts[0].condition, ids[:head], ids[-tail:], before, after))
    return gaps


def in_place(builder: PromptBuilder, gaps: Sequence[Gap], phrase: str, tokens: Sequence[int]) -> bool:
    """True where the whole prompts with `phrase` read as each gap's head, `tokens` and tail: what was scored is then
    what a judge will read."""
    attack = PhraseAttack("", phrase)
    prompts = (builder.build([gap.example], [gap.condition], attack.judged)[0] for gap in gaps)
    return all(np.array_equal(prompt.token_ids, gap.filled(tokens)) for prompt, gap in zip(prompts, gaps, strict=True))


def common_ends(rows: Sequence[Sequence[Hashable]]) -> tuple[int, int]:
    """Numbers of items that all rows begin with alike, and that they end with alike."""
    shortest = min(map(len, rows))
    head = next((i for i in range(shortest) if len({row[i] for row in rows}) > 1), shortest)
    tail = next((i for i in range(shortest) if len({row[-1 - i] for row in rows}) > 1), shortest)
    return head, tail


def whole_words(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """The words of two letters or more that the tokenizer writes as one token behind a blank, by token id."""
    tokens = sorted(set(tokenizer.get_vocab().values()) - set(tokenizer.all_special_ids))
    texts = [str(tokenizer.decode([token])) for token in tokens]
    words = [text[1:] for text in texts if text[:1] == " " and text[1:].isalpha()]
    if not words:  # sentencepiece's tokenizers drop the first blank when they decode
        pieces = map(str, tokenizer.convert_ids_to_tokens(tokens))
        words = [piece[1:] for piece in pieces if piece[:1] == "\u2581" and piece[1:].isalpha()]
    return [word for word in words if len(word) > 1]


def frequent_words(count: int) -> list[str]:
    """The most frequent English words of letters alone (`wordfreq`, its large list), the most frequent first."""
    import wordfreq

    frequent = wordfreq.top_n_list("en", 2 * count + 100)  # some are numbers, or have marks in them
    return [word for word in frequent if word.isalpha() and word.isascii()][:count]


def select_words(tokenizer: PreTrainedTokenizerBase, vocabulary: str, words: int | None) -> list[str]:
    """The words that configuration names, each once.

    Args:
        vocabulary: `tokenizer`, its whole words; `frequent`, the most frequent English words; or the path of a file
            with one word or phrase a line.
        words: how many of them, from the first, the most frequent, or the lowest token id on; None is all (of
            `frequent` 20 000).
    """
    if vocabulary == "tokenizer":
        listed = whole_words(tokenizer)
    elif vocabulary == "frequent":
        listed = frequent_words(words or 20_000)
    else:
        remedy = "give tokenizer, frequent, or a UTF-8 file with one word a line"
        text = read_text(user_path(vocabulary), f"attack.vocabulary={vocabulary}: it", remedy=remedy)
        listed = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    if not listed:
        raise UserError(f"attack.vocabulary={vocabulary}: it holds no word; a phrase needs one at least.")
    return list(dict.fromkeys(listed))[:words]


def fitting(
    tokenizer: PreTrainedTokenizerBase, gap: Gap, words: Sequence[str], before: Sequence[str], after: Sequence[str]
) -> list[tuple[str, tuple[int, ...]]]:
    """The words that stay what they are between the words `before` and `after` of a phrase in a gap, each with the
    tokens that it adds: what it puts between tokens that are the same for other words. A word survives if these same
    tokens stand there next to any word.
    """

    def encoded(inside: Sequence[str]) -> list[list[int]]:
        texts = [" ".join([gap.before, *before, word, *after]) + gap.after for word in inside]
        return [list(ids) for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]]

    probes = encoded(PROBES)
    head, tail = common_ends(probes)
    first, last = probes[0][:head], probes[0][len(probes[0]) - tail :]
    return [
        (word, tuple(ids[head : len(ids) - tail]))
        for word, ids in zip(words, encoded(words), strict=True)
        if len(ids) > head + tail and ids[:head] == first and ids[len(ids) - tail :] == last
    ]
