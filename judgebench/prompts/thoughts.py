"""Thoughts of a judge before its score: where they end, and the text after which its scores'
probabilities are read."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from judgebench.decoding.thoughts import answer_span, blanked
from judgebench.prompts.tokens import encode_texts
from judgebench.types import Prompt

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

THINK = "<think>"
END_OF_THINK = "</think>"
"""Tags around thoughts, of the Qwen3 and R1 families."""
LEAD = "\n\nFinal Rating:"
"""What stands before a score, as `defenses: cot` asks for it."""

_LED = re.compile(r"^\W*final rating\b", re.IGNORECASE | re.MULTILINE)
_ANSWERS = re.compile(r"final rating\W{0,4}?:", re.IGNORECASE)


def after_thoughts(
    prompt: Prompt, tokens: Sequence[int], tokenizer: PreTrainedTokenizerBase
) -> Prompt:
    """The prompt with a judge's thoughts, the `tokens` of its answer, their end and `LEAD` behind
    it.

    Thoughts in tags, which the chat template or the judge has opened, end at their closing tag;
    where they have none, for the budget was spent, it is closed here. Other thoughts end where the
    judge gives its final rating. A verdict that it has written already would say nothing of the
    other scores: it is cut off, and asked for again.
    """

    def text_of(count: int) -> str:
        return str(tokenizer.decode(list(tokens[:count])))

    # 1. the thoughts: as many tokens as end before their closing tag, or before the final rating
    count = len(tokens)
    text = text_of(count)
    opened = prompt.text.rstrip().endswith(THINK) or text.lstrip().startswith(THINK)
    end = re.search(re.escape(END_OF_THINK) if opened else _LED, text)
    if end is not None:
        lengths = [len(text_of(n)) for n in range(count + 1)]
        count = bisect_right(lengths, end.start()) - 1
        text = text_of(count)
    # 2. what closes them, and leads to the score
    closing = LEAD
    if opened:
        closing = f"\n{END_OF_THINK}{LEAD}"
    (closing_tokens,) = encode_texts(tokenizer, [closing])
    more = np.array([*tokens[:count], *closing_tokens], np.int32)
    ids = np.concatenate([prompt.token_ids, more])
    return replace(prompt, tail=prompt.tail + text + closing, token_ids=ids)


def rating_place(tokens: Sequence[str], led: bool = True) -> int | None:
    """The index of the token with which an answer [tokens] begins its score, behind all thoughts;
    None where it gives none, as where its budget was spent.

    Args:
        led: the score stands behind the last `Final Rating:`; else it begins the answer.

    Example:
        >>> rating_place(["Good", ".\\n", "Final", " Rating", ":", " **", "4", "**"])
        6
        >>> rating_place(["<think>", "Final Rating: 3", "</think>", "\\n", "4"], led=False)
        4
    """
    said = "".join(tokens)
    text = blanked(said)
    start, stop = answer_span(text)
    # 1. the answer, or what leads to its score
    if led:
        if not (leads := [*_ANSWERS.finditer(text, start, stop)]):
            return None
        start = leads[-1].end()
    elif start == 0 and stop == len(text) and text == said:
        return 0
    # 2. the first token there that says something
    starts = np.cumsum([0, *map(len, tokens)])
    for index in range(len(tokens)):
        shown = text[starts[index] : starts[index + 1]]
        if start <= starts[index] < stop and any(c.isalnum() or c in "-−" for c in shown):
            return index
    return None
