"""Declared layouts of files: which files they are, where their rows lie, which field of a row holds
what, and the examples that rows make.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from itertools import chain, islice
from pathlib import Path
from statistics import multimode
from typing import Annotated, Any, Self

import numpy as np

from judgebench.data.dataset import Dataset, group_hash
from judgebench.data.rows import FileRow, data_files, file_rows, names_within
from judgebench.runtime.values import is_written
from judgebench.settings.fields import Distinct, NotBlank, Words, plain, settings_of
from judgebench.types import Classes, Example, Row, Scale
from judgebench.words.errors import UserError
from judgebench.words.formats import is_known

Scores = Mapping[str, Mapping[str, float]]
"""Dimension -> rater -> the score that they gave one example; empty where it is unrated. Raters
without names are "1", "2", ..."""
_MOST_LETTERS = 60  # of the name of a segment
_PROBED = 50
"""Rows at the beginning of a file among which one must fit its layout."""


@dataclass
class Rated:
    """One text with the scores of its raters, and its place in its file. (Its human scores are not
    in the example.)"""

    example: Example
    scores: Scores
    place: str


Name = Words
"""The name of a field of a row, or its path into objects and lists."""
Names = Name | Annotated[Sequence[Name], NotBlank()]
ByDimension = Names | Annotated[Mapping[str, Names], NotBlank()]
"""One or several fields, of all dimensions or of each."""


@dataclass(frozen=True, kw_only=True)
class RowFields:
    """Fields that rows of all kinds may have; None where they have no such field.

    Attributes:
        example_id: default a row's `example_id`; where it has none, "line-N", N counted from 1.
        group_id: default a row's `group_id`; where it has none, a hash of source and context.
        context: further text after the source; of several fields, their texts with a blank line
            between them.
        no_context: what stands in `context` where there is none.
    """

    example_id: Name | None = None
    group_id: Name | None = None
    context: Names | None = None
    no_context: Name | None = None

    @classmethod
    def parse(cls, fields: Any, where: str = "data.fields") -> Self:
        """From the config key `where`; `UserError` where it is not a mapping, a needed entry is
        missing, or an entry is unknown or not a name."""
        fields = plain(fields)
        if isinstance(fields, Mapping):
            fields = {key: value for key, value in fields.items() if value is not None}
        return settings_of(cls, fields, where)

    def rows_of(self, row: FileRow) -> list[FileRow]:
        """The row, once for each text that it is read for."""
        return [row]

    def example_of(self, row: FileRow) -> str:
        return identifier(row, self.example_id, "example_id") or f"{row.within}line-{row.position}"

    def context_of(self, row: FileRow) -> str:
        """A row's further text; empty where there is none. Of several fields a row may have none."""
        if not self.context or (
            not isinstance(self.context, str) and not any(map(row.has, self.context))
        ):
            return ""
        text = row.text(self.context)
        return "" if text.strip() == self.no_context else text

    def group_of(self, row: FileRow, source: str, context: str) -> str:
        return identifier(row, self.group_id, "group_id") or group_hash(source, context)


def identifier(row: FileRow, field: str | None, column: str) -> str | None:
    """The name in `field`, which a row must have; without a `field`, that in `column` where the row
    has one."""
    return None if field is None and not row.has(column) else row.identifier(field or column)


@dataclass(frozen=True, kw_only=True)
class TextFields(RowFields):
    """Fields of rows with one text each.

    Attributes:
        source: the article or dialogue that the text answers to.
        output: the judged text.
        system_id: default a row's `system_id`; where it has none, the name out of `systems`, else
            "system".
        systems: where a row holds the texts of several systems: the names of its columns, or the
            one field with an object whose keys they are, or a list of whose texts each has its
            place for a name; in all other entries `{system}` stands for the name.
        turns: the text between the turns of a dialogue in the source, which become lines.
        question: what the text answers of its source; texts of several questions about one source
            are one group.
        segments: fields that say what kind of text it is, such as its language; a row may have
            none.
    """

    source: Names = "source"
    output: Names = "output"
    system_id: Name | None = None
    systems: Names | None = None
    turns: Name | None = None
    question: Name | None = None
    segments: Annotated[Sequence[Name], Distinct()] = ()

    def rows_of(self, row: FileRow) -> list[FileRow]:
        """The row once for each system whose text it holds."""
        if self.systems is None:
            return [row]
        names: Iterable[Any] = self.systems
        if isinstance(self.systems, str):
            held = row.value(self.systems)
            names = range(len(held)) if isinstance(held, list) else row.inner(self.systems).values
        return [row.named(system=str(name)) for name in names]

    def example(self, row: FileRow) -> Example:
        """The example of a row, without human scores."""
        source = row.text(self.source)
        if self.turns:
            source = source.replace(self.turns, "\n")
        context = self.context_of(row)
        system = identifier(row, self.system_id, "system_id")
        return Example(
            example_id=self.example_of(row),
            group_id=self.group_of(row, source, context),
            system_id=system or row.names.get("system", "system"),
            source=source,
            output=row.text(self.output),
            human={},
            context=context,
            question=row.text(self.question) if self.question else "",
            segments={name: _segment(row, name) for name in self.segments},
        )


def _segment(row: FileRow, name: str) -> str:
    """The words of a field on one line, at most so many letters of it; empty where a row has
    none. `UserError` of a list or an object."""
    value = row.value(name)
    if isinstance(value, list | Mapping):
        raise UserError(
            f"{row.place}: '{name}' is a list or an object; data.fields.segments takes fields of "
            f"one value, such as '{name}.language'."
        )
    return "" if value is None else " ".join(str(value).split())[:_MOST_LETTERS]


@dataclass(frozen=True, kw_only=True)
class ScoredFields(TextFields):
    """Fields of rows with one text each and its human scores.

    Attributes:
        human: the field that holds an object dimension -> score; or a mapping dimension -> field of
            its score. A score is a number or the name of a class, or what several raters gave,
            whose mean counts: a list, an object rater -> score, or a list of fields, each of which
            names a rater. Not every rater need have rated everything, and not every text need have
            a rating.
        rater: the field with the name of the rater, where each row is what one rater gave one text.
        raters: the field with a list of objects, one a rater, into which the paths of `human` lead.
        reason: the field with the reason that an earlier judge gave, for people to look at.
    """

    source: Names = field()
    output: Names = field()
    human: Name | Annotated[Mapping[str, Names], NotBlank()]
    rater: Name | None = None
    raters: Name | None = None
    reason: Name | None = None

    def rated(self, row: FileRow, needed: bool = True) -> list[Rated]:
        """The row's one text with the scores of its raters; where they are not `needed`, an unrated
        dimension has none."""
        inner = row
        fields = self.human
        scores: dict[str, dict[str, float]] = {}
        if isinstance(fields, str):
            absent = not needed and not row.has(fields)
            inner = row if absent else row.inner(fields)
            fields = {} if absent else {dimension: dimension for dimension in inner.values}
        for dimension, names in fields.items():
            scores[dimension] = {}
            if self.raters is not None:
                scores[dimension] = _of_each(row.inners(self.raters), names)
            elif needed or inner.is_rated(names):
                scores[dimension] = inner.scores(names, words=not needed)
        if self.rater is not None and any(scores.values()):
            name = row.identifier(self.rater)
            means = mean_scores(scores)
            for dimension, given in scores.items():
                if len(given) == 1:
                    means[dimension] = next(iter(given.values()))  # which may be a word
                scores[dimension] = {name: means[dimension]} if given else {}
        example = self.example(row)
        if self.reason is not None and row.has(self.reason):
            example = replace(example, reason=row.text(self.reason))
        return [Rated(example, scores, row.place)]


def _of_each(raters: Sequence[FileRow], names: str | Sequence[str]) -> dict[str, float]:
    """Rater -> score, of objects each of which holds one rater's; by their numbers."""
    scores = {}
    for number, inner in enumerate(raters, start=1):
        if inner.is_rated(names):
            (scores[str(number)],) = inner.scores(names).values()
    return scores


def mean_scores(scores: Scores) -> dict[str, float]:
    """Dimension -> the human score, the mean over raters; NaN where there is none."""
    return {
        name: sum(rated.values()) / len(rated) if rated else math.nan
        for name, rated in scores.items()
    }


def dataset_of(
    texts: Sequence[Rated],
    scale: Mapping[str, Scale] | Scale | None = None,
    classes: Mapping[str, Classes] | None = None,
) -> Dataset:
    """The data set of some texts; the human score of each is the mean of its raters', of classes
    without order the commonest, and every example has all dimensions. A `scale` that is a pair is
    that of all dimensions whose labels are no `classes`."""
    for name in texts[0].example.segments if texts else ():
        if not any(text.example.segments[name] for text in texts):
            raise UserError(f"data.fields.segments: no text has '{name}'.")
    # single scores are kept of dimensions in which some example has two or more: [examples,
    # raters], NaN for none
    several: dict[str, None] = {}
    for text in texts:
        for dimension, scores in text.scores.items():
            if any(map(math.isnan, scores.values())):
                raise UserError(
                    f"{text.place}, example '{text.example.example_id}': the human score nan for "
                    f"'{dimension}' is not a finite number; give one, or null where the text is "
                    "unrated."
                )
            if len(scores) > 1:
                several[dimension] = None
    names: dict[str, None] = {}
    for text in texts:
        for dimension in several:
            names |= dict.fromkeys(text.scores.get(dimension, ()))
    raters = list(names)
    ratings = {}
    for dimension in several:
        table = []
        for text in texts:
            scores = text.scores.get(dimension, {})
            table.append([scores.get(rater, math.nan) for rater in raters])
        ratings[dimension] = np.array(table)
    unrated = dict.fromkeys((dimension for text in texts for dimension in text.scores), math.nan)
    classes = classes or {}
    examples = []
    for text in texts:
        human = {**unrated, **mean_scores(text.scores)}
        # classes without order have no mean: the commonest, and of several the first
        for dimension, labels in text.scores.items():
            if labels and not classes.get(dimension, Classes()).ordered:
                human[dimension] = min(multimode(labels.values()))
        examples.append(replace(text.example, human=human))
    scales = dict(dict.fromkeys(unrated, scale) if isinstance(scale, tuple) else scale or {})
    scales |= {name: known.scale for name, known in classes.items()}
    places = [text.place for text in texts]
    return Dataset(examples, scales, ratings, places, raters=raters, classes=classes)


def check_rated(path: Path, texts: Sequence[Rated], fields: str | Row, key: str) -> None:
    """`UserError` where a dimension is unrated, with the field that the config `key` names for
    it."""
    if isinstance(fields, str):
        rated = {name for text in texts for name in text.scores}
        fields = {name: f"{fields}.{name}" for name in rated} or {"any dimension": fields}
    for name, named in fields.items():
        scored = any(text.scores.get(name) for text in texts)
        if texts and not scored:
            names = named if isinstance(named, str) else ", ".join(named)
            raise UserError(
                f"{path.name}: no row has a human score for {name} in field '{names}'; {key} says "
                "which fields hold scores."
            )


# --- fields that a file lacks -------------------------------------------------------------------

USUAL = {
    "source": "source article document doc input inputs question prompt query request user_input "
    "instruction dialogue context passage frage eingabe aufgabe quelle artikel pregunta entrada "
    "fuente domanda entree",
    "output": "output outputs summary response answer model_answer reply completion actual_output "
    "generated_text prediction translation candidate antwort ausgabe zusammenfassung ubersetzung "
    "respuesta resumen risposta reponse text texto texte",
    "human": "human rating ratings score scores grade stars label quality annotations note bewertung",
}
"""Entry of `data.fields` -> names that files have for it, the likeliest first."""

_SAYS = {
    "source": "the article that a text answers to",
    "output": "the judged text",
    "human": "what people gave it",
}


def check_present(path: Path, fields: Any, rows: Iterable[FileRow]) -> None:
    """`UserError` where none of a file's first rows has a field that is needed, with the fields
    that are likely meant.

    Args:
        fields: `TextFields` or `ScoredFields`.
    """
    first = list(islice(rows, _PROBED))
    there = {
        name: row.values[name] for row in reversed(first) for name in row.values if row.has(name)
    }
    named = {
        entry: getattr(fields, entry)
        for entry in _SAYS
        if isinstance(getattr(fields, entry, None), str)
    }
    absent = {}
    for entry, name in named.items():
        if "{" not in name and not any(row.has(name) for row in first):
            absent[entry] = name
    if not first or not absent:
        return
    meant = {}
    for entry in absent:
        fits = is_known if entry == "human" else lambda held: isinstance(held, str)
        meant[entry] = usual_name(there, USUAL[entry], fits, named.values())
    alone = meant.get("source", "") is None  # a text that answers to nothing is its own source
    if alone:
        meant["source"] = meant.get("output") or named["output"]
    lacking = ", ".join(f"'{name}' ({_SAYS[entry]})" for entry, name in absent.items())
    listed = ", ".join(f"'{name}'" for name in there) or "none"
    give: dict[str, Any] = {}
    for entry, name in meant.items():
        if name:
            # a field of one score is also its dimension
            graded = entry == "human" and not isinstance(there[name], Mapping)
            if graded and not is_written(dimension := {name: name}):
                dimension = {"quality": name}
            give[f"data.fields.{entry}"] = dimension if graded else name
    if alone and hasattr(fields, "human"):  # a card has a rubric of its own
        give["data.rubrics"] = "text"
    raise UserError(
        f"{path.name}: no field {lacking} is there; its fields are {listed}, and data.fields says "
        "which of them holds what.",
        give=give if None not in meant.values() else {},
    )


def plain_name(name: str) -> str:
    """A column's name in small letters without accents, with one line for other signs."""
    folded = unicodedata.normalize("NFKD", re.sub(r"['’]s\b", "", name))
    words = re.sub(r"([a-z])([A-Z])", r"\1_\2", re.sub(r"[\u0300-\u036f]", "", folded))
    return re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")


def usual_name(
    there: Row, usual: str, fits: Callable[[Any], bool] = is_known, but: Collection[str] = ()
) -> str | None:
    """The first column that has a usual name, and something that `fits`; None without such a one.

    Args:
        there: column -> what stands in it; but: columns that something else is taken from.
        usual: names, the likeliest first.

    Example:
        >>> usual_name({"Model Answer": "Yes.", "id": 7}, "output model_answer")
        'Model Answer'
    """
    plain = {plain_name(name): name for name in reversed([*there]) if name not in but}
    likely = (plain[name] for name in usual.split() if name in plain)
    return next((name for name in likely if fits(there[name])), None)


# --- layouts ------------------------------------------------------------------------------------

Read = Callable[[Any, FileRow], list[Rated]]
"""Fields, row -> its texts."""


@dataclass(frozen=True)
class Layout:
    """Form of some files.

    Attributes:
        fields: which field of a row holds what.
        files: a pattern of their names, as `*.json`; of a path with folders where it has a slash.
        rows: the path of the list of rows in a JSON file that is one object, or the sheet of a
            workbook; None where the file is the list, and takes the first sheet.
    """

    fields: Any
    files: str = "*"
    rows: str | None = None

    def takes(self, file: Path) -> bool:
        """True of a file whose name fits the pattern."""
        return fnmatch(file.as_posix(), f"*/{self.files}") or fnmatch(file.as_posix(), self.files)

    def rows_of(self, file: Path) -> Iterator[FileRow]:
        """Rows of a file, each once for each of its texts."""
        return chain.from_iterable(map(self.fields.rows_of, file_rows(file, self.rows)))


@dataclass(frozen=True)
class Layouts:
    """Layouts in which a data set goes round.

    Attributes:
        known: of several that fit a file, the first counts by which its rows can be read.
        declared: False where the fields are those of a user's own file, each row of which must be
            right. Of published files, rows without a text or a score are left out.
    """

    known: Sequence[Layout]
    declared: bool = True

    @classmethod
    def parse(
        cls, kind: type[RowFields], fields: Any, layouts: Any, sheet: str | None = None
    ) -> Layouts:
        """From the config keys `data.fields`, with the sheet of a workbook, and `data.layouts`, of
        which one is given; else `UserError`."""
        layouts = plain(layouts)
        if layouts is None:
            parsed_fields = kind.parse({} if fields is None else fields)
            return cls([Layout(parsed_fields, rows=sheet)], declared=False)
        if fields is not None:
            raise UserError(
                "data.fields and data.layouts are both given; fields of layouts lie in "
                "data.layouts."
            )
        if not isinstance(layouts, list) or not layouts:
            raise UserError(
                f"data.layouts: {layouts!r} should be a list of {{files: PATTERN, fields: ...}}."
            )
        parsed = []
        for i, entry in enumerate(layouts):
            where = f"data.layouts[{i}]"
            layout = settings_of(Layout, entry, where)
            parsed.append(replace(layout, fields=kind.parse(layout.fields, f"{where}.fields")))
        return cls(parsed)

    def read(
        self, path: Path, read: Read, published: str | None = None
    ) -> tuple[list[Rated], list[UserError]]:
        """Texts of a file, or of those in a folder that have a known layout; and why rows were left
        out. `UserError` where there is no such file, and for a row that is wrong, or, where rows
        may be left out, all of them.

        Args:
            published: where such files can be had, for an error.
        """
        # 1. the files, each with the first layout by which one of its first rows can be read
        chosen = []
        for file in data_files(path):
            fitting = [layout for layout in self.known if layout.takes(file)]
            if not fitting and not path.is_dir():
                fitting = list(self.known)
            if len(fitting) > 1:
                readable = (layout for layout in fitting if self._fits(layout, file, read))
                fitting = [next(readable, fitting[0])]
            chosen += [(file, layout) for layout in fitting]
        if not chosen:
            patterns = " or ".join(dict.fromkeys(layout.files for layout in self.known))
            expected = published or "a file, or a folder with some"
            raise UserError(
                f"{path}: this folder has no file {patterns}; data.path must be {expected}."
            )
        # 2. their texts
        texts = []
        left = []
        names = names_within([file for file, _ in chosen], path)
        for (file, layout), within in zip(chosen, names, strict=True):
            for row in layout.rows_of(file):
                try:
                    texts += self._texts(layout, replace(row, within=within), read)
                except UserError as error:
                    if not self.declared:
                        raise
                    left.append(error)
        if left and not texts:
            raise left[0]
        return texts, left

    def _fits(self, layout: Layout, file: Path, read: Read) -> bool:
        """True where one of the first rows can be read; a file may end, or break, before as
        many."""
        with suppress(UserError):
            for row in list(islice(layout.rows_of(file), _PROBED)):
                with suppress(UserError):
                    self._texts(layout, row, read)
                    return True
        return False

    def _texts(self, layout: Layout, row: FileRow, read: Read) -> list[Rated]:
        texts = read(layout.fields, row)
        for example in [rated.example for rated in texts] if self.declared else ():
            for what, text in (("judged text", example.output), ("source", example.source)):
                if not text.strip():
                    raise UserError(f"{row.place}: the {what} is empty.")
        return texts


def left_out_note(left: Sequence[UserError]) -> str | None:
    """A note on rows that were left out; None where none was."""
    rows = "1 row is" if len(left) == 1 else f"{len(left)} rows are"
    return f"{rows} left out, the first because of this: {left[0]}" if left else None
