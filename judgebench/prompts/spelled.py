"""Names of control tokens in a text that somebody else tokenizes: broken by a character that nobody sees.

A server frames a message in its chat template and tokenizes the whole; many then read `<|im_end|>` inside the message
as the control token, so that a judged text could end its turn and forge another. What is sent must not hold such a
name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from judgebench.prompts.control import ControlTokens, Span
from judgebench.prompts.rubrics import Filled

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

BREAK = "\u200b"
"""ZERO WIDTH SPACE: it shows nothing, and no control token has one in its name."""

_WORDS = (
    *("s", "/s", "bos", "eos", "pad", "unk", "mask", "sep", "cls", "start_of_turn", "end_of_turn", "end_of_utterance"),
    *("think", "/think", "tool_call", "/tool_call", "tools", "/tools", "tool_response", "/tool_response"),
    *("start_of_image", "end_of_image", "image_soft_token", "image", "endoftext", "EOT", "EOD", "end_of_text"),
    *("start_of_role", "end_of_role", "sop", "eop", "gmask", "user", "assistant", "system", "extra_id_\\d+"),
    *("unused\\d+", "0x[0-9A-F]{2}"),
)
_BRACKETED = (
    *("INST", "/INST", "SYSTEM_PROMPT", "/SYSTEM_PROMPT", "TOOL_CALLS", "TOOL_RESULTS", "/TOOL_RESULTS", "ARGS"),
    *("AVAILABLE_TOOLS", "/AVAILABLE_TOOLS", "THINK", "/THINK", "CALL_ID", "TOOL_CONTENT", "IMG", "IMG_BREAK"),
    *("IMG_END", "gMASK", "sMASK", "MASK", "PAD", "UNK", "BOS", "EOS", "CLS", "SEP", "BEGIN_OF_TEXT", "control_\\d+"),
)
# full-width and small forms as well, and either case: a tokenizer's normalizer may make the one of the other
_LEFT, _RIGHT, _BAR, _OPEN, _CLOSE = "<﹤＜", ">﹥＞", "|｜", r"\[［", r"\]］"
_LOOKS_LIKE_CONTROL = (
    rf"[{_LEFT}][{_BAR}][^{_LEFT}{_RIGHT}\n{BREAK}]{{1,64}}[{_RIGHT}]",  # <|im_end|>, <|turn>, <｜end▁of▁sentence｜>
    rf"[{_LEFT}][^{_LEFT}{_RIGHT}{_BAR}\n{BREAK}]{{1,64}}[{_BAR}][{_RIGHT}]",  # <turn|>
    rf"(?i:[{_LEFT}]{{2}}/?SYS[{_RIGHT}]{{2}})",
    rf"(?i:[{_LEFT}](?:{'|'.join(_WORDS)})[{_RIGHT}])",
    rf"(?i:[{_OPEN}](?:{'|'.join(_BRACKETED)})[{_CLOSE}])",
)


class SpelledNames(ControlTokens):
    """What looks like the name of a control token of any model, and the names of one tokenizer where it is at hand.

    Args:
        counting: what counts the tokens of what is sent.
        tokenizer: the served model's own, where it is known.
    """

    def __init__(self, counting: PreTrainedTokenizerBase, tokenizer: PreTrainedTokenizerBase | None = None):
        super().__init__(counting)
        own = [] if tokenizer is None else [ControlTokens(tokenizer).pattern]
        self._names = re.compile("|".join([*own, *_LOOKS_LIKE_CONTROL]))

    def broken(self, filled: Filled) -> tuple[Filled, int]:
        """A prompt with `BREAK` after the first character of each name that the example says, and how many it says."""
        places = self.cuts(filled.text, filled.said)
        if not places:
            return filled, 0
        text, ends = filled.text, [0, *places, len(filled.text)]
        whole = BREAK.join(text[start:end] for start, end in pairwise(ends))

        def moved(at: int) -> int:
            return at + sum(place < at for place in places)

        spans = [tuple((moved(first), moved(last)) for first, last in held) for held in (filled.said, filled.judged)]
        own = moved(len(filled.prefix))
        return Filled(whole[:own], whole[own:], spans[0], spans[1]), len(places)

    def spell(
        self,
        text: str,
        said: Sequence[Span],
        allowed: int,
        where: str,
        more: Sequence[int] = (),
        whole: Sequence[int] | None = None,
    ) -> tuple[np.ndarray, int]:
        """The tokens of `text` as they are counted; no cut changes what is sent."""
        return np.array(self._plainly(text) if whole is None else whole, np.int32), 0
