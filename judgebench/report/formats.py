"""Numbers as people read them: one format a kind, in every table, sentence and page. Unknown numbers are a dash."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from numbers import Real
from typing import Any

Format = Callable[[Any], str]
"""A value, None or NaN where it is unknown -> its text."""

UNKNOWN = "-"
"""What stands for a number that is not known."""


def is_known(value: Any) -> bool:
    """True for a value that is neither None nor NaN."""
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def settled(value: Any) -> float:
    """A number without its last digits, which differ from processor to processor and would send a tie up or down.

    Example:
        >>> two(0.125 - 1e-15), two(0.125 + 1e-15)
        ('0.12', '0.12')
    """
    return round(float(value), 9)


def decimals(digits: int, signed: bool = False) -> Format:
    """The format of numbers with so many decimals; with a sign, where they do not round to 0.

    Example:
        >>> decimals(2)(-0.001), decimals(2, signed=True)(0.256), decimals(2, signed=True)(0.001)
        ('0.00', '+0.26', '0.00')
    """

    def write(value: Any) -> str:
        if not is_known(value):
            return UNKNOWN
        rounded = round(settled(value), digits) + 0.0  # + 0.0: a rounded -0.0 would print a minus
        return f"{rounded:{'+' if signed and rounded else ''}.{digits}f}"

    return write


one, two, three = decimals(1), decimals(2), decimals(3)
"""Seconds; scores; correlations."""

signed_two, signed_three = decimals(2, signed=True), decimals(3, signed=True)
"""Differences of scores; differences of correlations."""


def change(value: Any) -> str:
    """A change of scores: two decimals with their sign, three where two would show a small change as none.

    Example:
        >>> change(0.256), change(-0.004), change(0.0)
        ('+0.26', '-0.004', '0.00')
    """
    return signed_three(value) if is_known(value) and 0 < abs(value) < 0.005 else signed_two(value)


def short(value: Any) -> str:
    """A number of at most 1 without its leading 0, as in an interval.

    Example:
        >>> short(0.354), short(-0.2), short(1.0)
        ('.35', '-.20', '1.00')
    """
    return two(value).replace("0.", ".", 1) if is_known(value) and abs(value) < 0.995 else two(value)


def whole(value: Any) -> str:
    """A number without decimals."""
    return f"{round(value):d}" if is_known(value) else UNKNOWN


def general(value: Any) -> str:
    """A number with up to four digits, as a setting is written."""
    return f"{value:.4g}" if is_known(value) else UNKNOWN


def percent(value: Any) -> str:
    """A share in whole per cent.

    Example:
        >>> percent(0.256), percent(None)
        ('26 %', '-')
    """
    return f"{settled(100 * value):.0f} %" if is_known(value) else UNKNOWN


def percent_one(value: Any) -> str:
    """A share in per cent with one decimal."""
    return f"{settled(100 * value):.1f} %" if is_known(value) else UNKNOWN


def points(value: Any) -> str:
    """A share in whole per cent without its unit, as in an interval of shares."""
    return f"{settled(100 * value):.0f}" if is_known(value) else UNKNOWN


def p_value(value: Any) -> str:
    """A p-value with three decimals, never 0.

    Example:
        >>> p_value(0.0312), p_value(0.0001), p_value(None)
        ('0.031', '<.001', '-')
    """
    if not is_known(value):
        return UNKNOWN
    return "<.001" if value < 0.001 else f"{settled(value):.3f}"


def text(value: Any) -> str:
    """A text as it is; empty where there is none."""
    return str(value) if is_known(value) else ""


def rounded_up(count: Any) -> str:
    """An estimated number of groups: two digits, rounded up.

    Example:
        >>> rounded_up(87), rounded_up(1234), rounded_up(10**9), rounded_up(None)
        ('87', '1,300', '> 1,000,000', '-')
    """
    if not is_known(count):
        return UNKNOWN
    if count > 1_000_000:
        return "> 1,000,000"
    unit = 10 ** max(0, int(math.log10(max(1, count))) - 1)
    return f"{math.ceil(count / unit) * unit:,}"


def singular(words: str) -> str:
    """The word for one of what `words`, a plural, are.

    Example:
        >>> singular("articles"), singular("stories"), singular("people")
        ('article', 'story', 'people')
    """
    return f"{words[:-3]}y" if words.endswith("ies") else words.removesuffix("s")


def span(values: Iterable[Any]) -> str:
    """The lowest and the highest of some counts, or of texts in this order.

    Example:
        >>> span([90.0, 60.0]), span([7, 7])
        ('60 to 90', '7')
    """
    known = list(values)
    low, high = (f"{one:.0f}" if isinstance(one, Real) else str(one) for one in (min(known), max(known)))
    return low if low == high else f"{low} to {high}"


def interval(low: Any, high: Any, form: Format = short) -> str:
    """A 95 % interval, without a space so that it never breaks; empty where an end is unknown.

    Example:
        >>> interval(0.35, 0.47), interval(None, 0.47), interval(-0.1, 1.25, signed_two)
        ('[.35,.47]', '', '[-0.10,+1.25]')
    """
    return f"[{form(low)},{form(high)}]" if is_known(low) and is_known(high) else ""


def spaced(low: Any, high: Any, form: Format) -> str:
    """A 95 % interval in a sentence; empty where an end is unknown.

    Example:
        >>> spaced(0.35, 0.47, two), spaced(None, 0.47, two)
        ('[0.35, 0.47]', '')
    """
    return interval(low, high, form).replace(",", ", ")


def bounded(row: Mapping[Any, Any], name: str, form: Format, of: Format | None = None) -> str:
    """A number of a row in a sentence, with its 95 % interval where it has one.

    Args:
        form: of the ends, and of the number where `of` is None.

    Example:
        >>> bounded({"share": 0.4, "share_low": 0.3, "share_high": 0.5}, "share", points, percent)
        '40 % [30, 50]'
    """
    return f"{(of or form)(row[name])} {spaced(row.get(f'{name}_low'), row.get(f'{name}_high'), form)}".rstrip()


def no_text(value: Any) -> str:
    """Nothing, for a column that shows an interval alone."""
    return ""
