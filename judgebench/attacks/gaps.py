"""Gaps in prompts, where a phrase goes, and the words that stay what they are in them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from judgebench.attacks.attack import PhraseAttack
from judgebench.prompts.builder import PromptBuilder
from judgebench.types import Array, Condition, Example
from judgebench.words.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PROBES = ("table", "Quickly", "seven", "under")
"""Words that begin and end differently: what the prompts with them have in common is not the
phrase."""

AROUND = 48
"""Characters on each side of a gap that its tokens may depend on; tokenizers split texts at blanks
before all else."""


@dataclass(frozen=True, eq=False)
class Gap:
    """A prompt with a gap right after its judged text.

    Attributes:
        head, tail: [tokens] int32 before and after the gap; a phrase with the blank before it
            stands between them.
        before, after: the characters next to the gap on its sides, without that blank.
    """

    example: Example
    condition: Condition
    head: Array
    tail: Array
    before: str
    after: str

    def filled(self, phrase: Sequence[int]) -> Array:
        """[tokens] int32: the prompt with the phrase's tokens in the gap."""
        return np.concatenate([self.head, np.asarray(phrase, np.int32), self.tail])


def gaps_of(
    builder: PromptBuilder, examples: Sequence[Example], conditions: Sequence[Condition], words: int
) -> list[Gap]:
    """The gaps of examples under conditions, condition by condition, with room for a phrase of so
    many words."""
    # where an article must be shortened, it depends on the phrase by how much, and nothing before
    # the gap stays
    probed = [
        builder.build(examples, conditions, PhraseAttack("", " ".join([word] * words)).judged)
        for word in PROBES
    ]
    if cut := [prompt for prompts in probed for prompt in prompts if prompt.source_tokens_cut]:
        raise UserError(
            f"attacks: adv_suffix: with a phrase the prompt of example {cut[0].example.example_id} "
            "is too long unless its article is shortened, and on such texts none is learned; raise "
            "prompt.max_tokens, or name shorter articles in its contexts."
        )
    gaps = []
    for prompts in zip(*probed, strict=True):
        example = prompts[0].example
        ids = prompts[0].token_ids
        text = prompts[0].text
        head, tail = common_ends([prompt.token_ids.tolist() for prompt in prompts])
        if head == 0 or tail == 0:
            raise UserError(
                f"attacks: adv_suffix: the prompt of example {example.example_id} has no place of its own for a "
                "phrase: the tokenizer joins phrases with the text around them; choose another "
                "judge."
            )
        first, last = common_ends([prompt.text for prompt in prompts])
        before = text[:first].rstrip()[-AROUND:]
        after = text[len(text) - last :][:AROUND]
        ids = ids.astype(np.int32)
        gaps.append(Gap(example, prompts[0].condition, ids[:head], ids[-tail:], before, after))
    return gaps


def in_place(
    builder: PromptBuilder, gaps: Sequence[Gap], phrase: str, tokens: Sequence[int]
) -> bool:
    """True where the whole prompts with `phrase` read as each gap's head, `tokens` and tail: what
    was scored is then what a judge will read."""
    attack = PhraseAttack("", phrase)
    prompts = (builder.build([gap.example], [gap.condition], attack.judged)[0] for gap in gaps)
    return all(
        np.array_equal(prompt.token_ids, gap.filled(tokens))
        for prompt, gap in zip(prompts, gaps, strict=True)
    )


def common_ends(rows: Sequence[Sequence[Hashable]]) -> tuple[int, int]:
    """Numbers of items that all rows begin with alike, and that they end with alike."""
    shortest = min(map(len, rows))
    head = next((i for i in range(shortest) if len({row[i] for row in rows}) > 1), shortest)
    tail = next((i for i in range(shortest) if len({row[-1 - i] for row in rows}) > 1), shortest)
    return head, tail


def fitting(
    tokenizer: PreTrainedTokenizerBase,
    gap: Gap,
    words: Sequence[str],
    before: Sequence[str],
    after: Sequence[str],
) -> list[tuple[str, tuple[int, ...]]]:
    """The words that stay what they are between the words `before` and `after` of a phrase in a
    gap, each with the tokens that it adds: what it puts between tokens that are the same for other
    words. A word survives if these same tokens stand there next to any word.
    """

    def encoded(inside: Sequence[str]) -> list[list[int]]:
        texts = []
        for word in inside:
            phrase = " ".join([gap.before, *before, word, *after])
            texts.append(phrase + gap.after)
        encoding = tokenizer(texts, add_special_tokens=False)
        return [list(ids) for ids in encoding["input_ids"]]

    # 1. the tokens that stand before and behind any word
    probes = encoded(PROBES)
    head, tail = common_ends(probes)
    probe = probes[0]
    first = probe[:head]
    last = probe[len(probe) - tail :]
    # 2. the words whose own tokens stand between these
    survivors = []
    for word, ids in zip(words, encoded(words), strict=True):
        end = len(ids) - tail
        if end > head and ids[:head] == first and ids[end:] == last:
            survivors.append((word, tuple(ids[head:end])))
    return survivors
