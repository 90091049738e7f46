"""Factors that vary in the data by themselves, and may move a judge: length, format, place in the
file, and segments: what the data says of a text, as its language, and the family of its system."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from itertools import chain
from typing import NamedTuple

import numpy as np

from judgebench.data.markdown import has_markdown
from judgebench.types import Array, Example

MOST_LEVELS = 8
"""Levels of a segment that have an effect each; rarer ones are taken together."""

OTHERS = "others"
FAMILY = "family"

_UNKNOWN = "nothing in the data says it; data.fields.segments names a column that does"

_WORD = re.compile(r"\w+")


class Factor(NamedTuple):
    """Something that varies, or a value of it.

    Attributes:
        name: as "language".
        level: whose effect it is, as "de, not en"; None where there is none.
        values: [N].
        reason: why there is no effect.
    """

    name: str
    level: str | None = None
    values: Array = np.zeros(0)
    reason: str | None = None


def factors_of(examples: Sequence[Example], places: Array, judge: str) -> Iterator[Factor]:
    """All that varies in some texts.

    Args:
        places: [N] of the texts in their file, from 0.
        judge: the name of its model, by which it is known for one of a family.
    """
    # 1. the text, and its place
    texts = [example.output for example in examples]
    if any(texts):
        words = np.array([len(_WORD.findall(text)) for text in texts])
        yield Factor("length", "twice the words", np.log2(np.maximum(words, 1)))
        yield Factor("format", "Markdown", np.array(list(map(has_markdown, texts)), float))
    else:
        yield Factor("length and format", reason="the texts are not at hand")
    yield Factor("place in the file", "last, not first", places / max(places.max(), 1))
    # 2. segments; families are those of the systems' names, unless the data has them
    segments = chain.from_iterable(example.segments for example in examples)
    for name in dict.fromkeys(["language", FAMILY, *segments]):
        labels = [example.segments.get(name, "") for example in examples]
        if name == FAMILY and not any(labels):
            labels = [family_of(example.system_id) for example in examples]
        yield from _levels(name, labels, family_of(judge) if name == FAMILY else "")


def _levels(name: str, labels: Sequence[str], own: str) -> Iterator[Factor]:
    """A factor a level, but for the commonest, with which the others are compared; the judge's
    `own` one is compared with all others."""
    import pandas as pd  # it takes long to import

    column = pd.Series(labels, dtype=object).replace("", "unknown")
    common = column.value_counts().index[:MOST_LEVELS]
    column = column.where(column.isin([*common, own]), OTHERS)
    mine = (column == own).to_numpy()
    base, *others = sorted(dict.fromkeys([*common, *column]), key=lambda level: level == own)
    if not others:
        reason = f"one {name} alone: {base}" if any(labels) else _UNKNOWN
        yield Factor(name, reason=reason)
    for level in others:
        values = 1.0 * (column == level).to_numpy()
        called = f"{level}, not {base}"
        if level == own:
            called = f"{level} (its own), not others"
        else:
            # the others among themselves: nothing is said of its own twice
            values = np.where(mine, 0.0, values - values[~mine].mean())
        yield Factor(name, called, values)


def family_of(name: str) -> str:
    """The family of a model by the words of its name; empty where none is known.

    Example:
        >>> family_of("Qwen2.5-Coder-1.5B"), family_of("openai/gpt-4o"), family_of("snippet")
        ('qwen', 'gpt', '')
    """
    match = _families().search(name.lower())
    return str(match.lastgroup) if match else ""


@cache
def _families() -> re.Pattern[str]:
    """A group a family."""
    return re.compile((files("judgebench.studies") / "families.txt").read_text("utf-8"), re.VERBOSE)
