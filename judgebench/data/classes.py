"""Labels that are classes: what their words are, which of them is better, and from which on a text
passes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from judgebench.data.rows import Word
from judgebench.settings.fields import NotBlank, check_fields
from judgebench.types import Classes, Record, Scale
from judgebench.words.errors import UserError, shown

ClassName = str | int | float | bool
PassMark = float | Annotated[str, NotBlank()]
PassMarks = PassMark | Mapping[str, PassMark]
"""The lowest label with which a text passes, a number or the name of a class; of all dimensions or
of each."""

Labels = Mapping[str, Mapping[str, float]]
"""Dimension -> rater -> the label that they gave one text."""


def label_of(classes: Classes, given: Any) -> float | None:
    """The label of a class, by its name in any case, or by its place where no name is a number;
    None of what is no class.

    Example:
        >>> label_of(Classes(("fail", "pass")), "PASS"), label_of(Classes(("fail", "pass")), 3)
        (1.0, None)
    """
    names = [name.casefold() for name in classes.names]
    places = list(map(str, range(len(names))))
    name = name_of(given).casefold()
    for known in [names] if set(names) & set(places) else [names, places]:
        if name in known:
            return float(known.index(name))
    return None


def name_of(given: Any) -> str:
    """The name of a class that may be given as a number or a truth value."""
    if isinstance(given, Word):
        return given.text
    if isinstance(given, bool):
        return str(given).lower()
    return given.strip() if isinstance(given, str) else f"{given:.15g}"


_USUAL = (
    ("fail", "pass"),
    ("failed", "passed"),
    ("no", "yes"),
    ("false", "true"),
    ("bad", "good"),
    ("incorrect", "correct"),
    ("wrong", "right"),
    ("invalid", "valid"),
    ("unsafe", "safe"),
    ("unfaithful", "faithful"),
    ("hallucinated", "faithful"),
    ("reject", "accept"),
    ("not relevant", "relevant"),
    ("irrelevant", "relevant"),
)
"""Pairs of words of which the second is the better one."""


def better_last(words: Iterable[str]) -> list[str] | None:
    """The two names, worse first, that some labels have, spelled as they are; None where it is not
    known which of them is better."""
    spelled = {word.casefold(): word for word in words}
    for pair in _USUAL:
        if spelled and set(spelled) <= set(pair):
            return [spelled.get(name, name) for name in pair]
    return None


_BINARY = ("0", "1")
_MOST = 26
"""Classes of a dimension; more words than this are no labels."""


@dataclass(frozen=True)
class LabelSettings:
    """Settings of labels that are classes; `UserError` of names that cannot be.

    Attributes:
        classes: their names, worst first: of all dimensions whose labels are words, or of each; None
            where the labels tell them.
        nominal: True where classes have no order.
    """

    classes: Sequence[ClassName] | Mapping[str, Sequence[ClassName]] | None = None
    nominal: bool = False

    def __post_init__(self) -> None:
        check_fields(self, "data")


def classes_of(
    labels: Iterable[Labels],
    settings: LabelSettings,
    graded: bool = False,
    orderless: bool = False,
) -> dict[str, Classes]:
    """Dimension -> the classes that its labels are, of those whose labels are classes: words, or 0
    and 1 alone. Of two classes in order, the better one passes.

    Args:
        labels: of each text.
        graded: True where numbers are known to be grades.
        orderless: True where words have no order unless it is known.

    Raises:
        UserError: words of which it is unknown which is better, a word among numbers, or classes
            that cannot be.
    """
    # 1. the different labels of each dimension, in order of appearance
    by_dimension: dict[str, dict[str, float]] = {}
    for of_text in labels:
        for dimension, by_rater in of_text.items():
            there = by_dimension.setdefault(dimension, {})
            for label in by_rater.values():
                there.setdefault(name_of(label).casefold(), label)
    # 2. dimensions of words, or else all, whose classes are named
    words = {
        dimension: [label for label in there.values() if isinstance(label, Word)]
        for dimension, there in by_dimension.items()
    }
    worded = [dimension for dimension in words if words[dimension]] or list(words)
    given = settings.classes or {}
    if not isinstance(given, Mapping):
        given = dict.fromkeys(worded, given)
    if foreign := [name for name in given if name not in words]:
        raise UserError(
            f"data.classes.{foreign[0]}: is not a dimension with labels; there are "
            f"{', '.join(words)}."
        )
    # 3. their classes: as named, without order, or known
    classes: dict[str, Classes] = {}
    unknown = []
    for dimension, there in by_dimension.items():
        spoken = words[dimension]
        names = [name_of(label) for label in given.get(dimension, there.values())]
        nominal = settings.nominal and dimension in worded
        if dimension not in given:
            if spoken and (len(spoken) < len(there) or len(spoken) > _MOST):
                raise UserError(f"{spoken[0].field} must be a number, got {shown(spoken[0].text)}.")
            pairs = [pair for pair in _USUAL if spoken and set(there) <= set(pair)]
            if not nominal and pairs:
                spelled = dict(zip(there, names, strict=True))
                names = [spelled.get(name, name) for name in pairs[0]]
            elif spoken and not nominal and not orderless:
                unknown.append(
                    f"{spoken[0].field} holds one of {', '.join(names)}, and which of them is "
                    "better is unknown; give data.classes=[WORST,...,BEST], or data.nominal=true "
                    "where they have no order."
                )
            nominal = nominal or bool(spoken and not pairs)
            if not spoken and not nominal and (graded or set(there) != set(_BINARY)):
                continue
            names = names if spoken or nominal else list(_BINARY)
        if len(set(map(str.casefold, names))) < len(names) or not 2 <= len(names) <= _MOST:
            raise UserError(
                f"data.classes: {shown(names)} of '{dimension}' should be 2 to {_MOST} classes, "
                "worst first, each named once, as in [fail,pass]."
            )
        passes = 1.0 if len(names) == 2 and not nominal else None
        classes[dimension] = Classes(tuple(names), passes, not nominal)
    if unknown:
        raise UserError(*unknown, give={"data.nominal": True})
    return classes


def numbered(labels: Labels, classes: Mapping[str, Classes], place: str) -> Record:
    """The labels of a text at a `place` with a number for each class; `UserError` of a label that is
    none of the classes."""
    numbers: Record = dict(labels)
    for dimension in set(classes) & set(labels):
        numbers[dimension] = {}
        for rater, given in labels[dimension].items():
            label = label_of(classes[dimension], given)
            if label is None:
                raise UserError(
                    f"{place}: the label {shown(name_of(given))} for '{dimension}' is none of its "
                    f"classes, {', '.join(classes[dimension].names)}."
                )
            numbers[dimension][rater] = label
    return numbers


def classes_note(classes: Mapping[str, Classes]) -> str:
    """A sentence on each kind of classes; empty where there are none."""
    dimensions: dict[Classes, list[str]] = {}
    for dimension, known in classes.items():
        dimensions.setdefault(known, []).append(dimension)
    sentences = []
    for known, names in dimensions.items():
        how = " (worst first); data.classes=[WORST,BEST] gives another order."
        if not known.ordered:
            how = ", without order; data.classes=[WORST,...,BEST] orders them."
        sentences.append(f"Labels of {', '.join(names)} are classes: {', '.join(known.names)}{how}")
    return " ".join(sentences)


def marked(
    classes: Mapping[str, Classes],
    scale: Mapping[str, Scale],
    dimensions: Sequence[str],
    pass_from: PassMarks,
) -> dict[str, Classes]:
    """Dimension -> its classes, with what `data.pass_from` says; `UserError` of a mark that lets no
    text fail, or pass, or of classes without order.

    One mark for all is that of the dimensions whose labels do not say what passes.

    Args:
        scale: dimension -> worst and best label, of which the best counts as the highest.
    """
    marks = pass_from
    if not isinstance(marks, Mapping):
        open_to_marks = []
        for name in dimensions:
            known = classes.get(name, Classes())
            if known.ordered and known.pass_from is None:
                open_to_marks.append(name)
        marks = dict.fromkeys(open_to_marks or dimensions, marks)
    with_marks = dict(classes)
    for dimension, mark in marks.items():
        known = classes.get(dimension, Classes())
        low, high = scale.get(dimension, (-math.inf, math.inf))
        label: Any = label_of(known, mark) if known.names else mark
        ends = f"a number above {low:g}, up to {high:g}"
        if low > high and not isinstance(label, str):
            ends = f"a number below {low:g}, down to {high:g}"
            low, high, label = high, low, low + high - label
        fault = ""
        if dimension not in dimensions:
            fault = f"is no dimension with human scores; there are {', '.join(dimensions)}"
        elif not known.ordered:
            fault = "has classes without order; order them by data.classes=[WORST,...,BEST]"
        elif label is None or isinstance(label, str) or not low < label <= high:
            possible = ", ".join(known.names[1:]) or ends
            fault = (
                f"has no such mark, from which a text passes; give {possible}, or marks of some "
                "dimensions alone, as data.pass_from={DIMENSION: MARK}"
            )
        if fault:
            raise UserError(f"data.pass_from: {shown(mark)}: '{dimension}' {fault}.")
        with_marks[dimension] = replace(known, pass_from=float(label))
    return with_marks
