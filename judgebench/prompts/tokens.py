"""Texts as tokens of a model's own tokenizer, which may come from anybody."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from judgebench.runtime.errors import UserError
from judgebench.time_limit import SECONDS, NeverEnds, within

if TYPE_CHECKING:
    from transformers import BatchEncoding, PreTrainedTokenizerBase

AT_ONCE = 100
"""Texts for which the time limit is meant."""


def tokenized(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], **options: Any) -> BatchEncoding:
    """What a tokenizer gives for some texts, without the special tokens that it would add.

    Args:
        options: of the tokenizer's call.

    Raises:
        UserError: it breaks down, or does not come to an end.
    """
    try:
        return within(lambda: tokenizer(list(texts), **{"add_special_tokens": False, **options}))
    except NeverEnds:
        raise UserError(
            f"{_named(tokenizer)} has not come to an end after {SECONDS:g} seconds on a few prompts: its "
            "patterns take endlessly long on some texts; give another model."
        ) from None
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # no Exception: so the library calls a fault of its own
            raise
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{_named(tokenizer)} breaks down on a text ({reason}); give another model.") from error


def token_ids(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[list[int]]:
    """The tokens of each text; see `tokenized`."""
    parts = [texts[start : start + AT_ONCE] for start in range(0, len(texts), AT_ONCE)]
    return [ids for part in parts for ids in tokenized(tokenizer, part)["input_ids"]]


def _named(tokenizer: PreTrainedTokenizerBase) -> str:
    return f"The tokenizer {tokenizer.name_or_path or 'without a name'} (judge.path)"
