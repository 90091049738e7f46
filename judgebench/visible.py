"""Characters that nobody sees, shown as their numbers: what data and phrases hold may steer a terminal, or turn a line
around so that a number reads as another."""

from __future__ import annotations

import re

_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # control characters but for tab and line end: a terminal obeys them
    "\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff]"  # marks of direction, breaks, and of no width
    "|\r(?!\n)"
)


def visible(text: str) -> str:
    """A text in which every character that steers instead of being read stands as Python would write it.

    Joiners (U+200C, U+200D) stay: scripts and emoji need them.

    Example:
        >>> visible("\\x1b[31mred\\x1b[0m, \\u202edetrever, zero\\u200bwidth")
        '\\\\x1b[31mred\\\\x1b[0m, \\\\u202edetrever, zero\\\\u200bwidth'
        >>> text = "Tab\\tand line\\nstay, as do \u00fc, \u597d and \U0001f469\\u200d\U0001f52c"
        >>> visible(text) == text
        True
    """
    return _UNSEEN.sub(lambda match: _number(ord(match[0])), text)


def _number(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
