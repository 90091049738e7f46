"""Two texts a row and which of them is better, as people and a judge say: taken as one text, *the
pair*, whose label is A, B or tie."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from judgebench.data.fields import plain_name
from judgebench.data.rows import FileRow

_ENDS = re.compile(r"(.+)_([ab12])")
_OTHER = re.compile(r"(model|system|name|id|score|rating|winner|label)(_name|_id)?")
"""Names of two columns of texts; and such pairs of names that hold none."""

_PREFERS = re.compile(
    r"prefer|winner|choice|vote|better|best|verdict|judg|label|human|decision|people|annot|llm|gpt|"
    r"claude"
)
_SIDE = re.compile(
    r"(?:the )?(?:model|answer|response|output|assistant|option|text|candidate|completion)?[ _-]*"
    r"(?:(?P<first>a|1|left|first)|(?P<second>b|2|right|second))(?:\.0)?(?: (?:is better|wins))?"
)
_TIES = frozenset(
    [
        "tie",
        "draw",
        "both",
        "equal",
        "same",
        "neither",
        "0",
        "tie(bothbad)",
        "tie(inconsistent)",
        "bothbad",
        "c",
    ]
)
"""Names of columns that say which text is better, and how they say it."""


@dataclass(frozen=True)
class Pairs:
    """The way in which rows of two texts each become rows of one.

    Attributes:
        texts: the columns of both texts.
        preferences: the columns that say which is better.
        classes: the preferences that are there, the best one for the first text last.
    """

    texts: Sequence[str]
    preferences: Sequence[str]
    classes: Sequence[str]

    @property
    def output(self) -> str:
        """The name of the column with both texts."""
        return " or ".join(self.texts)

    @property
    def says(self) -> str:
        """A clause on how they are taken."""
        first, second = self.texts
        return f"A is '{first}', B '{second}'; a pair passes where people prefer A"

    def joined(self, row: FileRow) -> FileRow:
        """A row with both texts as one, and preferences as A, B or tie."""
        cells = {name: value for name, value in row.values.items() if name not in self.texts}
        if all(map(row.has, self.texts)):
            first, second = map(row.text, self.texts)
            cells[self.output] = f"[A]\n{first}\n\n[B]\n{second}"
        for name in self.preferences:
            value = row.value(name)
            cells[name] = preference(value, self.texts) or value
        return replace(row, values=cells)


def pair_of(values: Mapping[str, Sequence[Any]]) -> list[str]:
    """The two columns that hold a text each, as `answer_a` and `answer_b`; none where there are
    none.

    Example:
        >>> pair_of({"model_a": ["x"], "model_b": ["y"], "Response 1": ["A."], "Response 2": ["B."]})
        ['Response 1', 'Response 2']
    """
    first: dict[str, str] = {}
    for name, held in values.items():
        ends = _ENDS.fullmatch(plain_name(name))
        if not ends or _OTHER.fullmatch(ends[1]) or not isinstance(held[0], str):
            continue
        if ends[2] in "a1":
            first[ends[1]] = name
        elif ends[1] in first:
            return [first[ends[1]], name]
    return []


def preference(value: Any, pair: Sequence[str] = ()) -> str | None:
    """A, B or tie, as a cell says it; None of one that says none of them.

    Example:
        >>> [preference(value) for value in ("model_a", 2, "[[B]]", "tie (bothbad)", "good")]
        ['A', 'B', 'B', 'tie', None]
    """
    word = str(value).strip("[] \t").casefold()
    if word in [name.casefold() for name in pair]:
        return "AB"[[name.casefold() for name in pair].index(word)]
    if side := _SIDE.fullmatch(word):
        return "A" if side["first"] else "B"
    return "tie" if word.replace(" ", "").removesuffix(".0") in _TIES else None


def preference_columns(values: Mapping[str, Sequence[Any]]) -> list[str]:
    """The columns that say which of two texts is better, by their names and what stands in them."""
    pair = pair_of(values)
    columns = []
    for name, held in values.items():
        said = {preference(value, pair) for value in held}
        if _PREFERS.search(plain_name(name)) and None not in said and said & {"A", "B"}:
            columns.append(name)
    return columns


def pairs_of(values: Mapping[str, Sequence[Any]], given: Mapping[str, str]) -> Pairs | None:
    """A way to take rows as pairs; None where they are none.

    Args:
        values: column -> what stands in it.
        given: word of the command line -> column.
    """
    texts = pair_of(values)
    columns = preference_columns(values)
    if not texts or not columns or "output" in given:
        return None
    said = {preference(value, texts) for name in columns for value in values[name]} | {"A", "B"}
    return Pairs(texts, columns, [word for word in ("B", "tie", "A") if word in said])
