"""From examples and conditions to the exact prompts that a judge reads: rubric, chat template, tokens, length."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from judgebench.errors import UserError
from judgebench.prompts.rubrics import fill
from judgebench.types import Condition, Example, Prompt, Rubric

TRUNCATIONS = ("error", "source")


class PromptBuilder:
    """Builds prompts for one tokenizer.

    Args:
        tokenizer: the main model's; its chat template is applied once if it has one, else the text stands plain with
            the tokenizer's BOS before it.
        rubrics: dimension -> rubric.
        max_tokens: longest prompt that the judge can read.
        truncate: `error`, or `source`: shorten the article of a group until its longest prompt fits.
        template_options: passed to the chat template, as a fixed date for those that print today's.

    Raises:
        UserError: an unknown `truncate`.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        rubrics: Mapping[str, Rubric],
        max_tokens: int,
        truncate: str = "error",
        template_options: Mapping[str, Any] | None = None,
    ):
        if truncate not in TRUNCATIONS:
            raise UserError(f"prompt.truncate: {truncate!r} is not one of {', '.join(TRUNCATIONS)}.")
        self.tokenizer = tokenizer
        self._rubrics = rubrics
        self._max_tokens = max_tokens
        self._truncate = truncate
        self._options = dict(template_options or {})
        self._bos = _plain_bos(tokenizer)

    def build(self, examples: Iterable[Example], conditions: Sequence[Condition]) -> list[Prompt]:
        """The prompts, condition by condition, the examples of a group together.

        Raises:
            UserError: a prompt is too long; names the example and both numbers of tokens.
        """
        groups: dict[str, list[Example]] = {}
        for example in examples:
            groups.setdefault(example.group_id, []).append(example)
        return [
            prompt
            for condition in conditions
            for group in groups.values()
            for prompt in self._of_group(group, condition)
        ]

    def null(self, condition: Condition) -> Prompt:
        """The prompt about nothing: the condition's rubric with an empty source and an empty judged text."""
        nothing = Example(example_id="", group_id="", system_id="", source="", output="", human={})
        return self._of_group([nothing], condition)[0]

    def _of_group(self, group: Sequence[Example], condition: Condition) -> list[Prompt]:
        prompts = self._with_source(group, condition, None, 0)
        excess = max(len(prompt.token_ids) for prompt in prompts) - self._max_tokens
        if excess <= 0:
            return prompts
        if self._truncate == "error":
            raise _too_long(prompts, self._max_tokens, "set prompt.truncate=source to shorten its article")
        source = group[0].source
        encoded = self.tokenizer(source, add_special_tokens=False, return_offsets_mapping=True)
        ends = [end for _, end in encoded["offset_mapping"]]
        cut = 0
        while excess > 0:
            cut += excess
            if cut > len(ends):
                raise _too_long(prompts, self._max_tokens, "it does not fit even without its article")
            kept = source[: ends[len(ends) - cut - 1]] if cut < len(ends) else ""
            prompts = self._with_source(group, condition, kept, cut)
            excess = max(len(prompt.token_ids) for prompt in prompts) - self._max_tokens
        return prompts

    def _with_source(
        self, group: Sequence[Example], condition: Condition, source: str | None, cut: int
    ) -> list[Prompt]:
        rubric = self._rubrics[condition.dimension]
        halves = [self._in_chat(*fill(rubric, condition.range, example, source)) for example in group]
        encoded = self.tokenizer([prefix + tail for prefix, tail in halves], add_special_tokens=False)["input_ids"]
        shared = halves[0][0]
        return [
            # one string object for the whole group: a run holds many thousands of prompts
            Prompt(example, condition, shared if prefix == shared else prefix, tail, np.array(ids, np.int32), cut)
            for example, (prefix, tail), ids in zip(group, halves, encoded, strict=True)
        ]

    def _in_chat(self, prefix: str, tail: str) -> tuple[str, str]:
        # templates trim what they are given; trimmed beforehand, the text stands in the result as it is
        prefix, tail = prefix.lstrip(), tail.rstrip()
        if self.tokenizer.chat_template is None:
            return self._bos + prefix, tail
        content = prefix + tail
        turn = [{"role": "user", "content": content}]
        text = str(
            self.tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True, **self._options)
        )
        at = text.find(content)
        if at < 0:
            raise UserError(
                "The tokenizer's chat template changes the text that it is given, so that the judge would not read "
                "what is recorded; give another with judge.path of a tokenizer without a template, or mend it."
            )
        return text[: at + len(prefix)], text[at + len(prefix) :]


def _plain_bos(tokenizer: PreTrainedTokenizerBase) -> str:
    """The BOS that the tokenizer itself would put before a plain text, or nothing."""
    ids = tokenizer("a")["input_ids"]
    starts = tokenizer.bos_token_id is not None and ids[:1] == [tokenizer.bos_token_id]
    return str(tokenizer.bos_token) if starts else ""


def _too_long(prompts: Sequence[Prompt], limit: int, remedy: str) -> UserError:
    longest = max(prompts, key=lambda prompt: len(prompt.token_ids))
    return UserError(
        f"The prompt of example {longest.example.example_id} ({longest.condition}) has {len(longest.token_ids)} "
        f"tokens, and the judge reads at most {limit}; {remedy}."
    )
