"""A text by itself as a model reads it: no rubric, no chat template."""

from __future__ import annotations

from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

from judgebench.prompts.builder import plain_bos
from judgebench.prompts.control import ControlTokens
from judgebench.runtime.errors import UserError
from judgebench.types import Condition, Example, Prompt, ScoreRange

_ALONE = Condition("text", ScoreRange(0, 1))
"""Whoever plans batches asks for a condition; nothing depends on it."""


def text_prompts(
    tokenizer: PreTrainedTokenizerBase, examples: Sequence[Example], max_tokens: int, remedy: str
) -> list[Prompt]:
    """The judged text of each example, in order, after the BOS that the tokenizer itself puts before a plain text.
    Names of control tokens are spelled as plain text (see `ControlTokens`).

    Args:
        max_tokens: longest text that the model can read.
        remedy: what to do about a longer one, for the error.

    Returns:
        Prompts with an empty prefix; of no tokens where the text is empty and nothing stands before it.

    Raises:
        UserError: a text is too long; names the example and both numbers of tokens.
    """
    control, before = ControlTokens(tokenizer), plain_bos(tokenizer)
    prompts = []
    for example in examples:
        text = before + example.output
        own = int(bool(before))
        ids, broken = control.spell(text, [(len(before), len(text))], own, f"example {example.example_id}")
        if len(ids) > max_tokens:
            raise UserError(
                f"The text of example {example.example_id} has {len(ids)} tokens, and the model reads at most "
                f"{max_tokens}; {remedy}."
            )
        prompts.append(Prompt(example, _ALONE, "", text, ids, 0, broken))
    return prompts
