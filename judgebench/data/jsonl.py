"""Your own labelled data: one JSON object a line, field names as you have them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from judgebench.data.fields import context_of, example_of, group_of, parse_fields, system_of
from judgebench.data.loaded import Loaded
from judgebench.data.module import JudgeDataModule
from judgebench.data.rows import Row, json_lines
from judgebench.runtime.errors import UserError
from judgebench.types import Example

_NEEDED = ("source", "output", "human")
_OPTIONAL = ("example_id", "group_id", "system_id", "context")


@dataclass(frozen=True)
class Fields:
    """Which field of a row holds what; None where the rows have no such field.

    Attributes:
        human: the field that holds an object dimension -> score; or a mapping dimension -> field of its score. A score
            is a number, or the list of what several raters gave, whose mean counts.
        example_id: default a row's `example_id`; where it has none, "line-N", N counted from 1.
        group_id: default a row's `group_id`; where it has none, a hash of source and context.
        system_id: default a row's `system_id`; where it has none, "system".
        context: default empty.
    """

    source: str
    output: str
    human: str | Mapping[str, str]
    example_id: str | None = None
    group_id: str | None = None
    system_id: str | None = None
    context: str | None = None

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Fields:
        """From configuration.

        Raises:
            UserError: no mapping, a needed entry is missing, an entry is unknown or not a name.
        """
        example = "{source: article, output: summary, human: scores}"
        return cls(**parse_fields(given, _NEEDED, _OPTIONAL, "human", "the field of its score", example))


class JsonLines(JudgeDataModule):
    """Your own labelled data, one JSON object a line.

    Args:
        path: the file.
        fields: which field of a row holds what; see Fields.
        scale: the humans' own scale: [low, high] for all dimensions, or a mapping dimension -> [low, high] (a
            dimension not named is not checked), or None (nothing is).
        name: what tables call the data; None takes the file's name without its ending.
        **common: see JudgeDataModule.

    Example:
        JsonLines("mine.jsonl", fields={"source": "article", "output": "summary", "human": "scores"}, scale=[1, 5])
    """

    groups_are = "groups"

    def __init__(
        self,
        path: str | None = None,
        fields: Mapping[str, Any] | None = None,
        scale: Mapping[str, Sequence[float]] | Sequence[float] | None = None,
        name: str | None = None,
        **common: Any,
    ) -> None:
        super().__init__(path, **common)
        self.name = str(name) if name else (Path(path).stem if path else "jsonl")
        self.fields = Fields.parse({} if fields is None else fields)
        self._given_scale = _parse_scale(scale)

    def load(self) -> Loaded:
        return load_jsonl(self.given_path("a file with one JSON object a line"), self.fields, self._given_scale)


def load_jsonl(
    path: Path, fields: Fields, scale: Mapping[str, tuple[float, float]] | tuple[float, float] | None
) -> Loaded:
    """The examples of a JSON-lines file.

    Raises:
        UserError: what json_lines raises, or a row lacks a field or has one of the wrong type; names the line.
    """
    examples: list[Example] = []
    places: list[str] = []
    rated: list[dict[str, list[float]]] = []
    for row in json_lines(path):
        source = row.text(fields.source)
        context = context_of(row, fields.context)
        scores = _scores(row, fields.human)
        examples.append(
            Example(
                example_id=example_of(row, fields.example_id),
                group_id=group_of(row, fields.group_id, source, context),
                system_id=system_of(row, fields.system_id),
                source=source,
                output=row.text(fields.output),
                human={dimension: sum(given) / len(given) for dimension, given in scores.items()},
                context=context,
            )
        )
        for dimension, given in scores.items():
            _check_raters(given, scale if isinstance(scale, tuple) else (scale or {}).get(dimension), dimension, row)
        rated.append(scores)
        places.append(row.place)
    if isinstance(scale, tuple):
        scale = dict.fromkeys(examples[0].human, scale) if examples else {}
    return Loaded(examples, scale or {}, _ratings(rated), places)


def _ratings(rated: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, np.ndarray]:
    """Dimension -> [examples, raters], where as many have scored every example, two at least."""
    found = {}
    for dimension in rated[0] if rated else ():
        counts = {len(scores.get(dimension, ())) for scores in rated}
        if len(counts) == 1 and min(counts) >= 2:
            found[dimension] = np.array([scores[dimension] for scores in rated])
    return found


def _scores(row: Row, fields: str | Mapping[str, str]) -> dict[str, list[float]]:
    """Dimension -> what its raters have given."""
    if isinstance(fields, str):
        scores = row.inner(fields)
        return {dimension: scores.scores(dimension) for dimension in scores.values}
    return {dimension: row.scores(field) for dimension, field in fields.items()}


def _check_raters(given: Sequence[float], scale: tuple[float, float] | None, dimension: str, row: Row) -> None:
    """What one of several raters gave may lie outside the scale though the mean does not."""
    for i, value in enumerate(given, start=1):
        if len(given) > 1 and scale is not None and not scale[0] <= value <= scale[1]:
            raise UserError(
                f"{row.place}: the score {value:g} of rater {i} for '{dimension}' lies outside the data's own scale, "
                f"{scale[0]:g} to {scale[1]:g}; leave out what is no score."
            )


def _parse_scale(given: Any) -> dict[str, tuple[float, float]] | tuple[float, float] | None:
    if given is None:
        return None
    if isinstance(given, Mapping):
        return {str(dimension): _pair(f"data.scale.{dimension}", pair) for dimension, pair in given.items()}
    return _pair("data.scale", given, ", or a mapping dimension -> such a pair, or null")


def _pair(key: str, given: Any, or_else: str = "") -> tuple[float, float]:
    numbers = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else []
    if len(numbers) == 2 and all(isinstance(x, int | float) and not isinstance(x, bool) for x in numbers):
        with suppress(OverflowError):  # whole numbers that are too long to be floats
            low, high = map(float, numbers)
            if math.isfinite(low) and math.isfinite(high) and low < high:
                return low, high
    raise UserError(f"{key} must be the lowest and the highest human score, as in [1, 5]{or_else}, got {given!r}.")
