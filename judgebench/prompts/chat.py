"""Texts as a model reads them: in its chat template, or plain with the marks that its tokenizer puts around them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from judgebench.prompts.rubrics import Filled
from judgebench.prompts.tokens import ControlTokens, Span, tokenized
from judgebench.runtime.errors import UserError
from judgebench.types import Condition, Example, Prompt, ScoreRange

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_ALONE = Condition("text", ScoreRange(0, 1))
"""The condition of a text by itself: whoever plans batches asks for one; nothing depends on it."""


class ChatFormat:
    """One user turn in a tokenizer's chat template, if it has one; else the text plain, with the tokenizer's BOS before
    it.

    Args:
        options: passed to the template.
        closed: True ends a plain text with the tokenizer's EOS, where it would put one.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, options: Mapping[str, Any] | None, closed: bool):
        self._tokenizer = tokenizer
        self._options = dict(options or {})
        taken = {*inspect.signature(tokenizer.apply_chat_template).parameters, "messages"} - {"kwargs"}
        if clash := sorted(taken & set(self._options)):
            raise UserError(
                f"prompt.template_options.{clash[0]}: judgebench itself decides how the template is applied; leave it "
                "out."
            )
        self._bos, eos = _plain_marks(tokenizer)
        self._eos = eos if closed else ""

    def __call__(self, filled: Filled) -> Filled:
        """A text as a model reads it."""
        # templates trim their content; trimmed beforehand, the text stands in the result as it is
        content = filled.text.strip()
        trimmed = len(filled.text) - len(filled.text.lstrip())
        text, places = self._bos + content + self._eos, [len(self._bos)]
        if self._tokenizer.chat_template is not None:
            options: Any = {"tokenize": False, "add_generation_prompt": True, **self._options}
            try:
                text = str(self._tokenizer.apply_chat_template([{"role": "user", "content": content}], **options))
            # a template is a program of its own, and raises what it likes
            except Exception as error:
                reason = " ".join(str(error).split())[:300] or type(error).__name__
                raise UserError(
                    f"The chat template of the tokenizer {self._tokenizer.name_or_path or 'without a name'} "
                    f"(judge.path) fails on one user turn ({type(error).__name__}: {reason.rstrip('.')}); mend it, or "
                    "give another."
                ) from error
            places = [match.start() for match in re.finditer(re.escape(content), text)] if content else [0]
        if not places:
            raise UserError(
                "The tokenizer's chat template changes the text that it is given, so that the judge would not read "
                "what is recorded; give another with judge.path of a tokenizer without a template, or mend it."
            )

        def moved(spans: Sequence[Span], at: int) -> list[Span]:
            shift, end = at - trimmed, at + len(content)
            return [(max(first + shift, at), min(last + shift, end)) for first, last in spans]

        # a template may give its content twice, and the example speaks in both places
        said = tuple(span for at in places for span in moved(filled.said, at))
        start = max(len(filled.prefix) + places[0] - trimmed, places[0])
        return Filled(text[:start], text[start:], said, tuple(moved(filled.judged, places[0])))


def text_prompts(
    tokenizer: PreTrainedTokenizerBase, examples: Sequence[Example], max_tokens: int, remedy: str
) -> list[Prompt]:
    """The judged text of each example, in order, after the BOS that the tokenizer itself puts before a plain text; no
    tokens where there is neither. Names of control tokens are spelled as plain text (see `ControlTokens`). `UserError`
    for a text that is too long, which ends with `remedy`."""
    control, (before, _) = ControlTokens(tokenizer), _plain_marks(tokenizer)
    prompts = []
    for example in examples:
        text = before + example.output
        said, allowed = [(len(before), len(text))], int(bool(before))
        ids, broken = control.spell(text, said, allowed, f"example {example.example_id}")
        if len(ids) > max_tokens:
            raise UserError(
                f"The text of example {example.example_id} has {len(ids)} tokens, and the model reads at most "
                f"{max_tokens}; {remedy}."
            )
        prompts.append(Prompt(example, _ALONE, "", text, ids, 0, broken))
    return prompts


def _plain_marks(tokenizer: PreTrainedTokenizerBase) -> tuple[str, str]:
    """The BOS and the EOS that the tokenizer itself would put around a plain text, or nothing."""
    (ids,) = tokenized(tokenizer, ["a"], add_special_tokens=True)["input_ids"]
    starts = tokenizer.bos_token_id is not None and ids[:1] == [tokenizer.bos_token_id]
    ends = tokenizer.eos_token_id is not None and ids[-1:] == [tokenizer.eos_token_id]
    return str(tokenizer.bos_token) if starts else "", str(tokenizer.eos_token) if ends else ""
