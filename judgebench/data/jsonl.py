"""Texts in files of any kind, with human scores or without."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from judgebench.data.classes import LabelSettings, classes_note, classes_of, numbered
from judgebench.data.dataset import ANY_KIND, ROUNDING, Dataset, RatingDataset, with_joint
from judgebench.data.fields import (
    Layouts,
    Rated,
    ScoredFields,
    Scores,
    TextFields,
    check_present,
    check_rated,
    dataset_of,
    left_out_note,
)
from judgebench.data.labels import join_labels, label_files
from judgebench.data.rows import FileRow, data_files, file_rows
from judgebench.settings.fields import plain
from judgebench.types import Records, Row, Scale
from judgebench.words.errors import UserError


class JsonLines(RatingDataset):
    """Texts that people rated: your own, or published ones whose layouts are declared; JSON (one
    list, or an object a line), .csv, .tsv or .parquet, one file or a folder of them.

    Args:
        fields: see `ScoredFields`; of your own file, in which not every text need be rated.
        layouts: those of published files, as `{files: PATTERN, rows: PATH, fields: ...}` (see
            `Layout`). Rows without a text or a score are left out, and those about one text are put
            together.
        scale: the humans' own scale: [worst, best] for all dimensions, as [1, 5], or [6, 1] where 1
            is the best; or a mapping dimension -> [worst, best] (a dimension not named is not
            checked), or None (nothing is).
        name: in tables; None takes the file's name without its ending.
        sheet: of a workbook (.xlsx); None takes the first.
        classes, nominal: see `LabelSettings`.
        labels: files of labels that are joined to the texts, see `join_labels`.
        joint: dimensions whose mean is the dimension `joint`.

    Example:
        JsonLines("mine.jsonl", fields={"source": "article", "output": "summary", "human":
        "scores"}, scale=[1, 5])
    """

    groups_are = "groups"
    expects = ANY_KIND

    def __init__(
        self,
        path: str | None = None,
        fields: Row | None = None,
        scale: Mapping[str, Sequence[float]] | Sequence[float] | None = None,
        name: str | None = None,
        layouts: Records | None = None,
        classes: Any = None,
        nominal: bool = False,
        labels: Any = None,
        sheet: str | None = None,
        joint: Sequence[str] = (),
        **common: Any,
    ) -> None:
        super().__init__(path, **common)
        self._joint = joint
        self._label_files = label_files(labels)
        self.name = str(name or Path(path or "jsonl").stem)
        self.layouts = Layouts.parse(ScoredFields, fields, layouts, sheet)
        self._labels = LabelSettings(plain(classes), nominal)
        self._given_scale: Any = scale
        if isinstance(scale, Mapping):
            self._given_scale = {
                str(name): _scale_ends(f"data.scale.{name}", ends) for name, ends in scale.items()
            }
        elif scale is not None:
            self._given_scale = _scale_ends(
                "data.scale", scale, ", or a mapping dimension -> such a pair, or null"
            )

    def texts(self, rated: bool = True) -> tuple[list[Rated], list[UserError]]:
        """The file's texts by their names, and why rows were left out; where they need not be
        `rated`, no field need hold a score."""
        path = self.given_path()
        needed = self.layouts.declared
        fields = self.layouts.known[0].fields
        if not needed:
            asked = fields if rated else replace(fields, human={})
            check_present(path, asked, _first_rows(path, self.layouts.known[0].rows))
        texts, left = self.layouts.read(
            path, partial(ScoredFields.rated, needed=needed), self.published
        )
        if needed or fields.rater is not None or fields.systems is not None:
            texts, incomplete = _merged(texts, fields.example_id is not None, needed)
            left += incomplete
        return texts, left

    @property
    def mixes(self) -> bool:
        """True where a group, which the user has named, need not be one source."""
        return not self.layouts.declared and self.layouts.known[0].fields.group_id is not None

    def load(self) -> Dataset:
        path = self.given_path()
        needed = self.layouts.declared
        texts, left = self.texts(rated=not self._label_files)
        joined = join_labels(texts, self._label_files, self._given_scale, self._labels.classes)
        self.joined = joined.records
        if not needed and not joined.note:
            human = self.layouts.known[0].fields.human
            check_rated(path, texts, human, "data.fields.human")
        scale = self._given_scale
        if scale is None and joined.scale:
            scale = {name: _scale_ends("labels", ends) for name, ends in joined.scale.items()}
        if joined.choices and self._labels.classes is None:
            self._labels = replace(self._labels, classes=joined.choices)
        classes = classes_of((text.scores for text in texts), self._labels, scale is not None)
        for text in texts:
            text.scores = numbered(text.scores, classes, text.place)
        self.note = left_out_note(left) or self.note
        self.add_note(classes_note(classes), joined.note)
        if isinstance(scale, dict) and needed and texts:  # of layouts, some lack a dimension
            scale = {name: ends for name, ends in scale.items() if name in texts[0].scores}
        dataset = dataset_of(texts, scale, classes)
        if self._joint and texts:
            dataset = with_joint(dataset, self._joint)
        if needed:
            return dataset
        dataset = replace(dataset, mixed=self.mixes)
        spans = {name: _span(dataset, name) for name in (texts[0].scores if texts else ())}
        check_scale(dataset, spans)
        if scale is not None:
            return dataset
        # the file's own scale of grades, where none is given
        scales = {}
        for name, ends in spans.items():
            if ends is not None and name not in classes:
                scales[name] = ends
        if scales:
            listed = [f"{low:g} to {high:g} ({name})" for name, (low, high) in scales.items()]
            self.add_note(
                f"The humans' scale is taken from their scores: {', '.join(listed)}; "
                "data.scale=[WORST,BEST] gives another, as [6,1] where 1 is the best."
            )
        # one score that is farther from all others than these are from each other
        for name in scales:
            means = np.array([example.human[name] for example in dataset.examples])
            single = dataset.ratings.get(name, means)
            values, counts = np.unique(single[np.isfinite(single)], return_counts=True)
            gaps = np.diff(values)
            for end in (0, -1):
                if len(gaps) > 2 and 2 * gaps[end] > gaps.sum() and counts[end] == 1:
                    self.add_note(
                        f"One score of {name} is {values[end]:g}, far from all others: "
                        "correct it if it is a slip."
                    )
        return replace(dataset, scale={**scales, **dataset.scale})


def _first_rows(path: Path, within: str | None = None) -> Iterable[FileRow]:
    return chain.from_iterable(file_rows(file, within) for file in data_files(path)[:1])


def _span(dataset: Dataset, dimension: str) -> Scale | None:
    """The lowest and the highest score that a human gave; None where all are the same, or there is
    none."""
    means = np.array([example.human[dimension] for example in dataset.examples])
    scores = np.append(dataset.ratings.get(dimension, means), means)
    scores = scores[np.isfinite(scores)]
    return (
        (float(scores.min()), float(scores.max()))
        if len(scores) and scores.min() < scores.max()
        else None
    )


SCALES = (
    (0, 1),
    (-1, 1),
    (1, 3),
    (1, 4),
    (0, 4),
    (1, 5),
    (0, 5),
    (1, 6),
    (1, 7),
    (1, 10),
    (0, 10),
    (1, 100),
    (0, 100),
)
"""Scales that people are given, the narrowest first."""


_FEW = 3
"""Texts outside the given scale; as few are slips of the pen, and more are of another scale."""


def check_scale(dataset: Dataset, spans: Mapping[str, Scale | None]) -> None:
    """`UserError` where many scores of humans lie outside the given scale, with the narrowest usual
    one that holds all; `validate` names single ones."""
    for name, ends in dataset.scale.items():
        least, most = sorted(ends)
        low, high = spans.get(name) or (least, most)
        means = [example.human[name] for example in dataset.examples if name in example.human]
        lowest = least - ROUNDING
        highest = most + ROUNDING
        # NaN, of a text that none rated, lies nowhere
        outside = [i for i, mean in enumerate(means) if mean < lowest or mean > highest]
        if len(outside) <= _FEW:
            continue
        holding = [pair for pair in SCALES if pair[0] <= low and high <= pair[1]]
        narrowest = holding[0] if holding else (low, high)
        first = outside[0]
        raise UserError(
            f"{dataset.places[first]}, example '{dataset.examples[first].example_id}': the human "
            f"score {means[first]:g} for '{name}' lies outside the data's own scale, {least:g} to "
            f"{most:g}, and so do {len(outside) - 1} more: they go from {low:g} to {high:g}, which "
            "is what data.scale must hold.",
            give={"data.scale": list(narrowest[:: 1 if ends[0] < ends[1] else -1])},
        )


def _merged(
    texts: Iterable[Rated], named: bool, needed: bool
) -> tuple[list[Rated], list[UserError]]:
    """Texts with the scores of all rows that rate them, and why some were left out.

    Rows are about one text where their group, question, system and text are the same and no rater
    gives it two scores. A text is called by its group, its system and its question, with a number
    where a system has several such texts.

    Args:
        named: the rows name their examples: rows of one name are about one text.
        needed: texts that are unrated on a dimension, on which others are rated, are left out.
    """
    # 1. rows about one text are put together
    joint: dict[tuple[str, ...], list[Rated]] = {}
    in_group: Counter[str] = Counter()
    for text in texts:
        example = text.example
        key = (
            (example.example_id,)
            if named
            else (example.group_id, example.system_id, example.output, example.question)
        )
        for other in joint.setdefault(key, []):
            if not any(
                set(scores) & set(other.scores.get(name, ()))
                for name, scores in text.scores.items()
            ):
                both = dict.fromkeys([*other.scores, *text.scores])
                other.scores = {
                    name: {**other.scores.get(name, {}), **text.scores.get(name, {})}
                    for name in both
                }
                break
        else:
            in_group[example.group_id] += 1
            system = example.system_id.replace("{nth}", str(in_group[example.group_id]))
            joint[key].append(replace(text, example=replace(example, system_id=system)))
    # 2. each gets its name, and its scores on all dimensions
    listed = list(chain.from_iterable(joint.values()))
    dimensions = dict.fromkeys(dimension for text in listed for dimension in text.scores)
    whole = []
    left = []
    names: Counter[str] = Counter()
    for text in listed:
        example = text.example
        missing = [repr(name) for name in dimensions if not text.scores.get(name)]
        if needed and missing:
            sentence = f"{text.place}: no row has a score for {', '.join(missing)} of this text."
            left.append(UserError(sentence))
            continue
        parts = filter(None, [example.group_id, example.system_id, example.question])
        name = example.example_id if named else "/".join(parts)
        names[name] += 1
        if names[name] > 1:
            name += f"#{names[name]}"
        scores = {dimension: text.scores.get(dimension, {}) for dimension in dimensions}
        whole.append(Rated(replace(example, example_id=name), scores, text.place))
    return whole, left


class Unrated(RatingDataset):
    """Texts without human scores, in files of any kind, or given as they are (`rows`); a
    calibrated judge is asked about them, by `dimensions`. All are the test split. See `TextFields`
    for `fields`.

    Raises:
        UserError: fields that are none of these; from `setup`, everything that is wrong with the
            rows.
    """

    groups_are = "groups"
    expects = ANY_KIND

    def __init__(
        self,
        path: str | None = None,
        fields: Row | None = None,
        dimensions: Sequence[str] = ("quality",),
        rows: Records | None = None,
        name: str | None = None,
        sheet: str | None = None,
        **common: Any,
    ) -> None:
        super().__init__(path, **{"dev_share": 0, **common})
        self.name = name or "texts"
        self._fields = TextFields.parse({} if fields is None else fields)
        self._scores: Scores = {str(dimension): {} for dimension in dimensions}
        self._rows = rows
        self._sheet = sheet

    def load(self) -> Dataset:
        rows: Iterable[FileRow]
        if self._rows is not None:
            rows = [FileRow(values, f"text {i}", i) for i, values in enumerate(self._rows, start=1)]
        else:
            path = self.given_path()
            check_present(path, self._fields, _first_rows(path, self._sheet))
            rows = chain.from_iterable(file_rows(file, self._sheet) for file in data_files(path))
        texts = [Rated(self._fields.example(row), self._scores, row.place) for row in rows]
        mixed = self._fields.group_id is not None
        return replace(dataset_of(texts), rated=False, mixed=mixed)


def _scale_ends(key: str, ends: Any, or_else: str = "") -> Scale:
    numbers = list(ends) if isinstance(ends, Sequence) and not isinstance(ends, str) else []
    if len(numbers) == 2 and all(
        isinstance(x, int | float) and not isinstance(x, bool) for x in numbers
    ):
        with suppress(OverflowError):  # whole numbers that are too long to be floats
            worst, best = map(float, numbers)
            if math.isfinite(worst) and math.isfinite(best) and worst != best:
                return worst, best
    raise UserError(
        f"{key} must be the worst and the best human score, as in [1, 5], or [5, 1] where 1 is the "
        f"best{or_else}, got {ends!r}."
    )
