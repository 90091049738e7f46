"""Markdown in texts: whether there is any, and the same words without it."""

from __future__ import annotations

import re

_FENCE = re.compile(r"^ {0,3}(?:```|~~~)[\w+-]* *(?:\n|\Z)", re.MULTILINE)
_HEAD = re.compile(r"^ {0,3}#{1,6} +(?=\S)", re.MULTILINE)
_BULLET = re.compile(r"^( *)(?:[*+-]|\d{1,3}[.)]) +(?=\S)", re.MULTILINE)
_QUOTE = re.compile(r"^ {0,3}> ?", re.MULTILINE)
_RULE = re.compile(r"^ {0,3}(?=[ :|-]*---)[ :|-]+$\n?", re.MULTILINE)
_STRONG = re.compile(r"(?<![\w*])\*\*(?=\S)([^\n*]{1,500})(?<=\S)\*\*(?![\w*])")
_CODE = re.compile(r"`([^`\n]{1,500})`")
_LINK = re.compile(r"!?\[([^\]\n]{1,200})\]\((?:[a-z]+:|[/#.]|www)[^)\s]{1,500}\)")
# a line of code may begin with one of these, too, so one alone is no sign
_SURE_HEAD = re.compile(r"^ {0,3}(?:##+ +\S|# +\S[^\n]*\n\s*\n)", re.MULTILINE)
_LIST = re.compile(rf"(?:{_BULLET.pattern}[^\n]*\n+){{2}}", re.MULTILINE)
_MARKS = dict.fromkeys([_FENCE, _RULE, _HEAD, _QUOTE], "")
_MARKS |= dict.fromkeys([_BULLET, _LINK, _STRONG, _CODE], r"\1")
_SIGNS = (_FENCE, _SURE_HEAD, _LIST, _STRONG, _LINK)


def has_markdown(text: str) -> bool:
    """True for a text with a heading, a list, bold words, a block of code or a link as
    Markdown has them; one sign that code may hold, too, does not do.

    Example:
        >>> has_markdown("- one\\n- two"), has_markdown("2 * 3 is six.")
        (True, False)
    """
    return any(sign.search(f"{text}\n") for sign in _SIGNS)


def plain_words(text: str) -> str:
    """A text without the marks of Markdown: the words stay, in their lines. One that has none stays
    as it is.

    Example:
        >>> plain_words("# Plan\\n\\n1. **Read** the `code`.")
        'Plan\\n\\nRead the code.'
    """
    if not has_markdown(text):
        return text
    for mark, words in _MARKS.items():
        text = mark.sub(words, text)
    return text
