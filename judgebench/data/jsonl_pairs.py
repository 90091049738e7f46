"""Your own labelled pairs: one JSON object a line, two texts and which of them people preferred."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from judgebench.data.fields import context_of, example_of, group_of, parse_fields, system_of
from judgebench.data.loaded import Loaded
from judgebench.data.module import JudgeDataModule
from judgebench.data.rows import Row, json_lines
from judgebench.errors import UserError
from judgebench.types import Example

FIRST, SECOND, TIE = LABELS = ("first", "second", "tie")
"""What a preference says, and how much it is worth to the first text."""
_WORTH = {FIRST: 1.0, SECOND: -1.0, TIE: 0.0}

_NEEDED = ("source", "first", "second", "preference")
_OPTIONAL = ("first_system", "second_system", "example_id", "group_id", "context")


@dataclass(frozen=True)
class PairFields:
    """Which field of a row holds what; None where the rows have no such field.

    Attributes:
        source: what both texts answer to.
        first, second: the two texts.
        preference: a field, of the data's one dimension; or a mapping dimension -> field.
        first_system, second_system: what wrote them; default "first" and "second".
        example_id: default a row's `example_id`; where it has none, "line-N", N counted from 1.
        group_id: default a hash of source and context.
        context: default empty.
    """

    source: str
    first: str
    second: str
    preference: str | Mapping[str, str]
    first_system: str | None = None
    second_system: str | None = None
    example_id: str | None = None
    group_id: str | None = None
    context: str | None = None

    @classmethod
    def parse(cls, given: Any) -> PairFields:
        """From configuration.

        Raises:
            UserError: no mapping, a needed entry is missing, an entry is unknown or not a name, or one system is named
                without the other.
        """
        example = "{source: prompt, first: answer_a, second: answer_b, preference: winner}"
        names = parse_fields(given, _NEEDED, _OPTIONAL, "preference", "its field", example)
        if ("first_system" in names) != ("second_system" in names):
            raise UserError(
                "data.fields: first_system and second_system go together; name the fields of both, or none."
            )
        return cls(**names)


@dataclass(frozen=True)
class Labels:
    """The words that stand for preferences, in any case.

    Attributes:
        meanings: word, in lower case -> 1 where the first text is preferred, -1 the second, 0 neither.
    """

    meanings: Mapping[str, float] = field(default_factory=lambda: dict(_WORTH))

    @classmethod
    def parse(cls, given: Any) -> Labels:
        """From configuration: first, second and tie, each a word or a list of words.

        Raises:
            UserError: anything else, or one word with two meanings.
        """
        if not isinstance(given, Mapping) or set(given) != set(LABELS):
            raise UserError(
                f"data.labels must say what stands for {', '.join(LABELS)}, as in {{first: model_a, second: model_b, "
                f"tie: [tie, both bad]}}, got {given!r}."
            )
        meanings: dict[str, float] = {}
        for meaning, words in given.items():
            for word in [words] if isinstance(words, str) else words or ():
                if not isinstance(word, str) or not word.strip():
                    raise UserError(f"data.labels.{meaning}: {word!r} is not a word.")
                if meanings.setdefault(word.strip().lower(), _WORTH[meaning]) != _WORTH[meaning]:
                    raise UserError(f"data.labels.{meaning}: {word!r} stands for something else already.")
        return cls(meanings)

    def read(self, row: Row, name: str) -> float:
        """By how much a row's field prefers the first text: what its word means, or the number that it holds."""
        value = row.values.get(name)
        if isinstance(value, str):
            if (word := value.strip().lower()) not in self.meanings:
                raise UserError(
                    f"{row.place}: field '{name}' must be one of {', '.join(map(repr, self.meanings))} (data.labels), "
                    f"or a number above 0 where the first text is preferred, got {value[:40]!r}."
                )
            return self.meanings[word]
        return row.number(name)


class JsonPairs(JudgeDataModule):
    """Pairs of texts with what people preferred, one JSON object a line. Several people may have compared the same two:
    a row each; together they are one comparison.

    Args:
        path: the file.
        fields: which field of a row holds what; see PairFields.
        labels: which words stand for first, second and tie; see Labels.
        dimension: what the preference is about, where `fields.preference` is one field.
        name: what tables call the data; None takes the file's name without its ending.
        **common: see JudgeDataModule.
    """

    groups_are = "groups"
    paired = True

    def __init__(
        self,
        path: str | None = None,
        fields: Mapping[str, Any] | None = None,
        labels: Mapping[str, Any] | None = None,
        dimension: str = "overall",
        name: str | None = None,
        **common: Any,
    ) -> None:
        super().__init__(path, **common)
        self.name = str(name) if name else (Path(path).stem if path else "jsonl_pairs")
        self.fields = PairFields.parse({} if fields is None else fields)
        self.labels = Labels() if labels is None else Labels.parse(labels)
        if not isinstance(dimension, str) or not dimension:
            raise UserError(f"data.dimension: {dimension!r} is not a name; say what was compared, as overall.")
        self.dimension = dimension

    def load(self) -> Loaded:
        path = self.given_path("a file with one JSON object a line")
        return load_pairs(path, self.fields, self.labels, self.dimension)


def load_pairs(path: Path, fields: PairFields, labels: Labels, dimension: str) -> Loaded:
    """The pairs of a JSON-lines file.

    A text goes by its group and its system, with a number where one system has several texts in a group.

    Raises:
        UserError: what json_lines raises, or a row lacks a field or has one of the wrong type; names the line.
    """
    examples: list[Example] = []
    places: list[str] = []
    known: dict[tuple[str, str], list[str]] = {}
    preferences = {dimension: fields.preference} if isinstance(fields.preference, str) else fields.preference
    for row in json_lines(path):
        source, context = row.text(fields.source), context_of(row, fields.context)
        group = group_of(row, fields.group_id, source, context)
        texts = [_output(row, one) for one in (fields.first, fields.second)]
        systems = [
            system_of(row, one, default)
            for one, default in ((fields.first_system, FIRST), (fields.second_system, SECOND))
        ]
        names = [_text_name(known, group, system, text) for system, text in zip(systems, texts, strict=True)]
        if names[0] == names[1]:
            raise UserError(f"{row.place}: both texts are the same one of {systems[0]!r}; remove the row.")
        examples.append(
            Example(
                example_id=example_of(row, fields.example_id),
                group_id=group,
                system_id=systems[0],
                source=source,
                output=texts[0],
                human={name: labels.read(row, one) for name, one in preferences.items()},
                context=context,
                rival_id=names[1],
                rival=texts[1],
                rival_system_id=systems[1],
                own_id=names[0],
            )
        )
        places.append(row.place)
    return Loaded(examples, {}, places=places)


def _output(row: Row, name: str) -> str:
    text = row.text(name)
    if not text.strip():
        raise UserError(f"{row.place}: field '{name}' is an empty text; write it, or remove the row.")
    return text


def _text_name(known: dict[tuple[str, str], list[str]], group: str, system: str, text: str) -> str:
    held = known.setdefault((group, system), [])
    if text not in held:
        held.append(text)
    number = held.index(text)
    return f"{group}/{system}" + (f"#{number + 1}" if number else "")
