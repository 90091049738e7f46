"""Control tokens: what an example says must never be read as one, or a judged text could forge a turn of the chat."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from judgebench.errors import UserError
from judgebench.prompts.rubrics import Filled

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_LOOKS_LIKE_CONTROL = re.compile(r"<\|.+\|>")
_MARKS = ("\n", "\ue000")
"""What no tokenizer joins with a word: a newline, which T5's swallows, and a character that no vocabulary has."""

Span = tuple[int, int]


class ControlTokens:
    """The control tokens of one tokenizer, and how to write their names without saying them.

    Those are its special tokens, and of the others added to its vocabulary the ones that its chat template names
    (`<think>`) or that look like `<|...|>`. Whitespace is never one: templates write it as ordinary text.

    A name inside an example's text is tokenized in two parts, cut after its first character. The recorded text stays
    as it is, and a text without such names is never cut: its tokens are those of the whole.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase):
        self._tokenizer = tokenizer
        template = str(tokenizer.chat_template or "")
        added = tokenizer.added_tokens_decoder
        names = set(tokenizer.all_special_tokens) | {
            token.content
            for token in added.values()
            if token.special or token.content in template or _LOOKS_LIKE_CONTROL.fullmatch(token.content)
        }
        names = {name for name in names if name and not name.isspace()}
        # what cannot be spelled becomes the unknown token in any text; no template speaks through it
        self._ids = {tokenizer.convert_tokens_to_ids(name) for name in names} - {tokenizer.unk_token_id}
        # the longest first, as the tokenizer itself finds them
        self._names = re.compile("|".join(map(re.escape, sorted(names, key=len, reverse=True))) or "(?!)")
        self._mark = next((mark for mark in _MARKS if self._plainly(mark)), _MARKS[0])
        self._marked = self._plainly(self._mark)
        # SentencePiece puts a space before a text's first word, and must not before a part from the middle
        self._starts_with_space = self._plainly(self._mark + "a") != self._marked + self._plainly("a")

    @property
    def pattern(self) -> str:
        """A regular expression for any of the names; it matches nothing where there is none."""
        return self._names.pattern

    def broken(self, filled: Filled) -> tuple[Filled, int]:
        """The prompt as its text must be so that it says no name of a control token, and how many were broken for it.
        Here none is: tokens spell the names (`encode`), and the text stays."""
        return filled, 0

    def cuts(self, text: str, said: Sequence[Span]) -> list[int]:
        """Where `text` must be cut, so that no name of a control token that touches a span of `said` stays whole.

        Args:
            text: a whole prompt.
            said: [start, end) of what the example says in it.
        """
        found, at = [], 0
        while match := self._names.search(text, at):
            start, end = match.span()
            own = any(first < end and start < last for first, last in said)
            at = start + 1 if own else end
            if own:
                found.append(at)
        return found

    def encode(self, text: str, cuts: Sequence[int], where: str) -> list[int]:
        """The tokens of `text`, its parts tokenized one by one.

        Args:
            text: a whole prompt.
            cuts: see `cuts`.
            where: names the prompt in the error.

        Raises:
            UserError: the tokenizer makes a control token out of plain text.
        """
        ends = [*cuts, len(text)]
        parts = [text[start:end] for start, end in zip([0, *cuts], ends, strict=True)]
        ids = [token for row in [self._plainly(parts[0]), *self._inner(parts[1:])] for token in row]
        allowed = sum(len(self._names.findall(part)) for part in parts)
        control = [token for token in ids if token in self._ids]
        if len(control) > allowed:
            raise UserError(
                f"{where}: the text holds a control token ({self._tokenizer.decode(control[-1:])!r}) that this "
                "tokenizer cannot read as plain text; remove it from the text."
            )
        return ids

    def _inner(self, parts: Sequence[str]) -> list[list[int]]:
        """The tokens of each of some parts from the middle of a text; one call for all, since there may be many."""
        rows = self._all_plainly(parts)
        if self._starts_with_space:
            started = self._all_plainly([self._mark + part for part in parts])
            return [self._behind(row, whole) for row, whole in zip(rows, started, strict=True)]
        return rows

    def _behind(self, row: list[int], whole: list[int]) -> list[int]:
        """The tokens of a part behind the mark; `row` are those of the part alone, `whole` of both."""
        long = len(self._marked)
        if whole[:long] != self._marked:
            return row
        if whole == row:  # the part begins with an unknown character too, and one token stands for all in a row
            return row[long - 1 :]
        return whole[long:]

    def _all_plainly(self, texts: Sequence[str]) -> list[list[int]]:
        if not texts:
            return []
        return [list(ids) for ids in self._tokenizer(list(texts), add_special_tokens=False)["input_ids"]]

    def _plainly(self, text: str) -> list[int]:
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])
