"""Numbers as people read them: one format a kind, in every table, sentence and page. Unknown
numbers are a dash.

`say` fills the sentences of a report with them: a Jinja template a question (sentences/*.txt).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from numbers import Real
from pathlib import Path
from typing import Any

import jinja2

from judgebench.words import formats

Format = Callable[[Any], str]
"""A value, None or NaN where it is unknown -> its text."""

Bounded = tuple[Any, Any, Any]
"""A number and the ends of its 95 % interval, None where they are unknown."""

UNKNOWN = "-"
"""The text of a number that is not known."""


def is_known(value: Any) -> bool:
    """True for a value that is neither None nor NaN."""
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def settled(value: Any) -> float:
    """A number without its last digits, which differ from processor to processor and would send a
    tie up or down.

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


def _of_known(form: Format) -> Format:
    return lambda value: form(value) if is_known(value) else UNKNOWN


one = decimals(1)
two = decimals(2)
three = decimals(3)
"""Seconds; scores; correlations."""
signed_two = decimals(2, signed=True)
signed_three = decimals(3, signed=True)
"""Differences of scores; differences of correlations."""
percent = _of_known(lambda share: f"{decimals(0)(100 * share)} %")
percent_one = _of_known(lambda share: f"{one(100 * share)} %")
"""A share in whole per cent; with one decimal."""
points = _of_known(lambda share: decimals(0)(100 * share))
"""A share in whole per cent without its unit, as in an interval of shares."""
signed_points = _of_known(lambda share: decimals(0, signed=True)(100 * share))
"""A difference of shares in percentage points, with its sign."""
whole = _of_known(lambda number: f"{round(number):d}")
thousands = _of_known(lambda number: f"{number:,.0f}")
"""A number without decimals; with a comma behind the thousands."""
general = _of_known(lambda number: f"{number:.4g}")
"""A number with up to four digits, as a setting is written."""


def change(value: Any) -> str:
    """A change of scores: two decimals with their sign, three where two would show a small change
    as none.

    Example:
        >>> change(0.256), change(-0.004), change(0.0)
        ('+0.26', '-0.004', '0.00')
    """
    return signed_three(value) if is_known(value) and 0 < abs(value) < 0.005 else signed_two(value)


def short(value: Any) -> str:
    """A number of at most 1 without its leading 0, as in an interval."""
    number = two(value)
    return number.replace("0.", ".", 1) if is_known(value) and abs(value) < 0.995 else number


def p_value(value: Any) -> str:
    """A p-value with three decimals, never 0."""
    return "<.001" if is_known(value) and value < 0.001 else three(value)


def text(value: Any) -> str:
    """A text as it is; empty where there is none."""
    return str(value) if is_known(value) else ""


def no_text(value: Any) -> str:
    """Nothing, for a column that shows an interval alone."""
    return ""


def rounded_up(count: Any) -> str:
    """An estimated number of groups: two digits, rounded up.

    Example:
        >>> rounded_up(87), rounded_up(1234), rounded_up(10**9), rounded_up(None)
        ('87', '1,300', '> 1,000,000', '-')
    """
    if not is_known(count):
        return UNKNOWN
    unit = 10 ** max(0, int(math.log10(max(1, count))) - 1)
    return f"{math.ceil(count / unit) * unit:,}" if count <= 1_000_000 else "> 1,000,000"


def singular(words: str) -> str:
    """The word for one of what `words`, a plural, are.

    Example:
        >>> singular("articles"), singular("stories"), singular("people")
        ('article', 'story', 'people')
    """
    return f"{words[:-3]}y" if words.endswith("ies") else words.removesuffix("s")


def in_groups(words: str, groups: str) -> str:
    """Words on articles, with a data set's own word for its groups.

    Example:
        >>> in_groups("1 rated article; 20 articles may tell", "stories")
        '1 rated story; 20 stories may tell'
    """
    words = re.sub(r"\barticles\b", groups, words)
    return re.sub(r"\barticle\b", singular(groups), words)


def span(values: Iterable[Any]) -> str:
    """The lowest and the highest of some counts, or of texts in this order.

    Example:
        >>> span([90.0, 60.0]), span([7, 7])
        ('60 to 90', '7')
    """
    numbers = list(values)
    ends = [
        f"{end:.0f}" if isinstance(end, Real) else str(end) for end in (min(numbers), max(numbers))
    ]
    return " to ".join(dict.fromkeys(ends))


def interval(low: Any, high: Any, form: Format = short) -> str:
    """A 95 % interval, without a space so that it never breaks; empty where an end is unknown."""
    return f"[{form(low)},{form(high)}]" if is_known(low) and is_known(high) else ""


def spaced(low: Any, high: Any, form: Format) -> str:
    """A 95 % interval in a sentence; empty where an end is unknown."""
    return interval(low, high, form).replace(",", ", ")


def estimated(estimate: Bounded | None, form: Format, of: Format | None = None) -> str:
    """A number in a sentence, with its 95 % interval where it has one; `form` is that of the ends,
    and of the number where `of` is None.

    Example:
        >>> estimated((0.4, 0.3, 0.5), points, percent), estimated(None, two)
        ('40 % [30, 50]', '-')
    """
    if estimate is None:
        return UNKNOWN
    value, low, high = estimate
    return f"{(of or form)(value)} {spaced(low, high, form)}".rstrip()


def bounded(row: Mapping[Any, Any], name: str, form: Format, of: Format | None = None) -> str:
    """The same of a row's number.

    Example:
        >>> bounded({"share": 0.4, "share_low": 0.3, "share_high": 0.5}, "share", points, percent)
        '40 % [30, 50]'
    """
    return estimated((row[name], row.get(f"{name}_low"), row.get(f"{name}_high")), form, of)


# --- sentences ----------------------------------------------------------------------------------


_FORMATS = (
    "change",
    "percent",
    "percent_one",
    "points",
    "short",
    "signed_two",
    "signed_three",
    "singular",
    "thousands",
    "three",
    "two",
)


def _source(name: str) -> str:
    """A template on one line: lines of the file end where it is convenient, and values keep their
    own white space."""
    return " ".join(
        (Path(__file__).parent / "sentences" / name).read_text(encoding="utf-8").split()
    )


_TEMPLATES = jinja2.Environment(
    loader=jinja2.FunctionLoader(_source), undefined=jinja2.StrictUndefined
)
FORMATS: dict[str, Format] = {name: getattr(formats, name) for name in _FORMATS}
"""Formats by their names, as sentences and lines of several numbers call them."""
_TEMPLATES.filters |= FORMATS
_TEMPLATES.tests["known"] = formats.is_known
_NUMBERS = (*_FORMATS, "bounded", "estimated", "spaced", "span")
_TEMPLATES.globals |= {name: getattr(formats, name) for name in _NUMBERS}


def say(question: str, **facts: Any) -> str:
    """The answer to a question in words, such as `say("use", yes=names)`; empty where there is
    nothing to say. A bound that a sentence names is a fact as others are: `say("no_flag", rows=rows,
    FEWEST=FEWEST)`."""
    return _TEMPLATES.get_template(f"{question}.txt").render(facts).strip()
