"""Where a phrase goes: prompts with a gap after their judged text."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from judgebench.attacks.attack import PhraseAttack
from judgebench.prompts.builder import PromptBuilder
from judgebench.runtime.errors import UserError
from judgebench.types import Condition, Example, Prompt

PROBES = ("table", "Quickly", "seven", "under")
"""Words that begin and end differently: whatever the prompts with them have in common is not the phrase."""

_AROUND = 48
"""Characters on each side of a gap that its tokens may depend on; tokenizers split texts at blanks before all else."""


@dataclass(frozen=True, eq=False)
class Gap:
    """A prompt with a gap right after its judged text.

    Attributes:
        example, condition: what the prompt is about.
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
    """The gaps of examples under conditions, condition by condition.

    Args:
        words: of the longest phrase; prompts leave room for it.

    Raises:
        UserError: the tokenizer joins a phrase with what stands around it, so that no gap can be cut; or an article
            must be shortened: by how much depends on the phrase, so that nothing before the gap stays as it is.
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
    """Whether the whole prompts with `phrase` read as each gap's head, `tokens` and tail: what was scored is what a
    judge will read."""
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
    """How many items all rows begin with alike, and how many they end with alike."""
    shortest = min(map(len, rows))
    head = next((i for i in range(shortest) if len({row[i] for row in rows}) > 1), shortest)
    tail = next((i for i in range(shortest) if len({row[-1 - i] for row in rows}) > 1), shortest)
    return head, tail
