"""Labels that are classes: what their words are, which of them is better, and from which on a text
passes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from judgebench.data.rows import Word
from judgebench.runtime.errors import UserError, shown
from judgebench.runtime.fields import NotBlank, check_fields
from judgebench.types import Scale


@dataclass(frozen=True)
class Classes:
    """Meaning of the labels of a dimension.

    Attributes:
        names: the classes, worst first, whose labels are 0, 1, ...; empty where labels are numbers.
        pass_from: the lowest label with which a text passes; None where nothing passes.
        ordered: False where the classes are names without order.
    """

    names: tuple[str, ...] = ()
    pass_from: float | None = None
    ordered: bool = True

    @property
    def scale(self) -> Scale:
        """The lowest and the highest label."""
        return 0.0, len(self.names) - 1.0

    def label(self, given: Any) -> float | None:
        """The label of a class, by its name in any case, or by its place where no name is a number;
        None of what is no class.

        Example:
            >>> Classes(("fail", "pass")).label(Word("PASS")), Classes(("fail", "pass")).label(3)
            (1.0, None)
        """
        names = [name.casefold() for name in self.names]
        name = name_of(given).casefold()
        if name in names:
            return float(names.index(name))
        places = list(map(str, range(len(names))))
        numbered = set(names) & set(places)
        return float(name) if name in places and not numbered else None


ClassName = str | int | float | bool
PassMark = float | Annotated[str, NotBlank()]
PassMarks = PassMark | Mapping[str, PassMark]
"""The lowest label with which a text passes, a number or the name of a class; of all dimensions or
of each."""


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

_BINARY = ("0", "1")
_MOST = 26
"""Classes of a dimension; more words than this are no labels."""


def classes_of(names: Sequence[str], ordered: bool = True) -> Classes:
    """Classes of these names, worst first; of two ordered ones the better one passes."""
    passes = 1.0 if ordered and len(names) == 2 else None
    return Classes(tuple(names), passes, ordered)


def usual_classes(names: Iterable[str]) -> Classes | None:
    """The classes of which names are known to be worse and better, in their own spelling; None of
    others.

    Example:
        >>> usual_classes(["Yes", "No"]).names, usual_classes(["a", "b"])
        (('No', 'Yes'), None)
    """
    spelled = {name.casefold(): name for name in names}
    for pair in _USUAL:
        if set(spelled) <= set(pair):
            return classes_of([spelled.get(name, name) for name in pair])
    return None


@dataclass(frozen=True)
class LabelSettings:
    """Settings of labels that are classes; `UserError` of names that cannot be.

    Attributes:
        classes: their names, worst first: of all dimensions whose labels are words, or of each; None
            where they are told from the labels.
        nominal: True where classes have no order.
    """

    classes: Sequence[ClassName] | Mapping[str, Sequence[ClassName]] | None = None
    nominal: bool = False

    def __post_init__(self) -> None:
        check_fields(self, "data")
        by_key = {"data.classes": self.classes or ()}
        if isinstance(self.classes, Mapping):
            by_key = {f"data.classes.{name}": names for name, names in self.classes.items()}
        for key, names in by_key.items() if self.classes is not None else ():
            texts = {name_of(name).casefold() for name in names}
            if len(texts) < len(names) or "" in texts or not 2 <= len(names) <= _MOST:
                raise UserError(
                    f"{key}: {shown(list(names))} should be 2 to {_MOST} classes, worst first, "
                    "each named once, as in [fail,pass]."
                )

    def named(self, dimensions: Iterable[str]) -> dict[str, list[str]]:
        """Dimension -> the names that are given for its classes; `UserError` of a dimension that is
        none of these."""
        dimensions = list(dimensions)
        by_dimension = self.classes
        if by_dimension is None:
            return {}
        if not isinstance(by_dimension, Mapping):
            by_dimension = dict.fromkeys(dimensions, by_dimension)
        if foreign := [name for name in by_dimension if name not in dimensions]:
            raise UserError(
                f"data.classes.{foreign[0]}: is not a dimension whose labels are classes; there are "
                f"{', '.join(dimensions) or 'none'}."
            )
        return {name: list(map(name_of, names)) for name, names in by_dimension.items()}


Labels = Mapping[str, Mapping[str, float]]
"""Dimension -> rater -> the label that they gave one text."""


def told_classes(
    labels: Iterable[Labels], settings: LabelSettings, graded: bool = False
) -> dict[str, Classes]:
    """Dimension -> the classes that its labels are, of those whose labels are classes: words, or 0
    and 1 alone.

    Args:
        labels: of each text.
        graded: True where numbers are known to be grades.

    Raises:
        UserError: words of which it is unknown which is better, or a word among numbers.
    """
    # 1. the different labels of each dimension, in order of appearance
    by_dimension: dict[str, dict[Any, float]] = {}
    for of_text in labels:
        for dimension, by_rater in of_text.items():
            there = by_dimension.setdefault(dimension, {})
            for label in by_rater.values():
                key = label.text.casefold() if isinstance(label, Word) else label
                there.setdefault(key, label)
    words = {
        dimension: [label for label in there.values() if isinstance(label, Word)]
        for dimension, there in by_dimension.items()
    }
    worded = [dimension for dimension in words if words[dimension]] or list(by_dimension)
    # 2. their classes: given, without order, or known
    if isinstance(settings.classes, Mapping):
        worded = list(by_dimension)
    given = settings.named(worded)
    classes: dict[str, Classes] = {}
    unknown = []
    for dimension, there in by_dimension.items():
        nominal = settings.nominal and dimension in worded
        names = list(map(name_of, there.values()))
        mixed = 0 < len(words[dimension]) < len(there)
        if dimension in given:
            classes[dimension] = classes_of(given[dimension], not nominal)
        elif mixed or len(words[dimension]) > _MOST:
            first = words[dimension][0]
            raise UserError(f"{first.field} must be a number, got {shown(first.text)}.")
        elif nominal:
            classes[dimension] = classes_of(names, False)
        elif words[dimension] and (pair := usual_classes(names)):
            classes[dimension] = pair
        elif words[dimension]:
            unknown.append(
                f"{words[dimension][0].field} is a label in words, and which of them is better is "
                f"unknown: {', '.join(names)}; give data.classes=[WORST,...,BEST], or "
                "data.nominal=true where they have no order."
            )
        elif set(there) == {0.0, 1.0} and not graded:
            classes[dimension] = classes_of(_BINARY)
    if unknown:
        raise UserError(*unknown, give=["data.nominal=true"])
    return classes


def numbered(labels: Labels, classes: Mapping[str, Classes], place: str) -> dict[str, Any]:
    """The labels of a text at a `place` with a number for each class; `UserError` of a label that is
    none of the classes."""
    numbers: dict[str, Any] = dict(labels)
    for dimension in set(classes) & set(labels):
        numbers[dimension] = {}
        for rater, given in labels[dimension].items():
            label = classes[dimension].label(given)
            if label is None:
                raise UserError(
                    f"{place}: the label {name_of(given)!r} for '{dimension}' is none of its "
                    f"classes, {', '.join(classes[dimension].names)}."
                )
            numbers[dimension][rater] = label
    return numbers


def classes_note(classes: Mapping[str, Classes], settings: LabelSettings) -> str | None:
    """A sentence on classes that nobody has given; None where there are none."""
    dimensions: dict[Classes, list[str]] = {}
    given = (
        settings.named(classes) if not isinstance(settings.classes, Mapping) else settings.classes
    )
    for dimension, known in classes.items():
        if dimension not in given:
            dimensions.setdefault(known, []).append(dimension)
    sentences = []
    for known, names in dimensions.items():
        how = " (worst first); data.classes=[WORST,BEST] gives another order."
        if not known.ordered:
            how = ", without order; data.classes=[WORST,...,BEST] orders them."
        sentences.append(f"Labels of {', '.join(names)} are classes: {', '.join(known.names)}{how}")
    return " ".join(sentences) or None


def marked(
    classes: Mapping[str, Classes],
    scale: Mapping[str, Scale],
    dimensions: Sequence[str],
    pass_from: PassMarks | None,
) -> dict[str, Classes]:
    """Dimension -> its classes, with what `data.pass_from` says; `UserError` of a mark that lets no
    text fail, or pass, or of classes without order.

    One mark for all is that of the dimensions whose labels do not say what passes.
    """
    with_marks = dict(classes)
    if pass_from is None:
        return with_marks
    marks = pass_from
    if not isinstance(marks, Mapping):
        known = {name: classes.get(name, Classes()) for name in dimensions}
        unmarked = [name for name in known if known[name].ordered and known[name].pass_from is None]
        marks = dict.fromkeys(unmarked or dimensions, marks)
    for dimension, mark in marks.items():
        if dimension not in dimensions:
            raise UserError(
                f"data.pass_from.{dimension}: is not a dimension with human scores; there are "
                f"{', '.join(dimensions)}."
            )
        of = classes.get(dimension, Classes())
        low, high = scale.get(dimension, (-math.inf, math.inf))
        label = of.label(mark) if of.names else mark
        what = f"data.pass_from: {shown(mark)} of '{dimension}'"
        if not of.ordered:
            raise UserError(
                f"{what}: its classes have no order, so none is better; order them by "
                "data.classes=[WORST,...,BEST], or leave data.pass_from out."
            )
        if label is None or isinstance(label, str) or not low < label <= high:
            possible = f"a number above {low:g}, up to {high:g}"
            if of.names:
                possible = f"one of {', '.join(of.names[1:])}"
            raise UserError(f"{what} should be {possible}, so that a text can fail and pass.")
        with_marks[dimension] = replace(of, pass_from=float(label))
    return with_marks
