"""Thoughts inside an answer: the tags around them, and the part of the text that is the answer.

All that reads an answer reads this part alone: the parser its text, a served judge the place of its
score.
"""

from __future__ import annotations

import re

_NAMES = r"think(?:ing)?|thoughts?|reasoning|scratchpad|analysis|reflection"
_TAG = re.compile(
    rf"<(?P<end>/?)(?:\w{{1,20}}[:_])?(?P<name>{_NAMES})(?:\s[^<>]{{0,100}})?(?<!/)>"
    r"|◁(?P<end_kimi>/?)think▷"
    r"|\[(?P<end_mistral>/?)think\]"
    r"|<\|(?:begin|start|(?P<end_named>end))_(?:of_)?(?:thought|thinking)\|>"
    # the channels of gpt-oss; a server may leave out the marks around their names
    r"|<\|channel\|>\s{0,9}(?:analysis|commentary|(?P<end_channel>final(?:<\|message\|>)?))"
    r"|\A(?-i:analysis(?=[A-Z]))|(?P<end_plain>(?-i:assistantfinal))",
    re.IGNORECASE,
)
_MARKS = {"◁": "kimi", "[": "mistral"}
_EXPLANATIONS = ("reasoning", "analysis", "reflection")
"""Tags that judges also put around the reasons behind a score."""


def answer_span(text: str) -> tuple[int, int]:
    """Beginning and end of the answer in a text that may hold thoughts: what follows the last of
    them, up to thoughts that do not end, for the budget was spent. Tags may be nested. A closing
    tag alone ends thoughts that the chat template has opened. Reasons between tags behind a score
    are no thoughts before it.

    Example:
        >>> text = "<think>Score: 2? <think>No.</think> Score: 3?</think>4"
        >>> text[slice(*answer_span(text))]
        '4'
        >>> text = "<think>Score: 2? <think>No.</think> Final Rating: 3"
        >>> text[slice(*answer_span(text))]
        ''
    """
    start = 0
    first = begin = len(text)
    opened: list[str] = []
    kind = ""
    for tag in _TAG.finditer(text):
        kind = _kind(tag)
        parts = tag.groupdict().items()
        ends = any(value for name, value in parts if name.startswith("end"))
        if not ends:
            if not opened:
                begin = tag.start()
                first = min(first, begin)
            if kind != "channel" or kind not in opened:
                opened.append(kind)
        elif kind in opened:
            del opened[len(opened) - 1 - opened[::-1].index(kind) :]
            start = start if opened else tag.end()
        elif not opened:
            start = tag.end()
            first = 0
    if opened:
        return start, begin
    if kind in _EXPLANATIONS and not re.search(r"\w", text[start:]) and text[:first].strip():
        return 0, first
    return start, len(text)


def _kind(tag: re.Match[str]) -> str:
    if tag["name"]:
        return tag["name"].lower()
    if tag[0].startswith("<|") and "channel" not in tag[0].lower():
        return "named"
    return _MARKS.get(tag[0][0], "channel")
