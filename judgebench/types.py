"""The nouns of judgebench, as frozen dataclasses. Every other room speaks in these."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from judgebench.words.errors import UserError, shown

Array = np.ndarray
"""Shapes stand in docstrings, as in [N, K]."""

Record = dict[str, Any]
Row = Mapping[str, Any]
"""A row of a table or of a file of the run folder: column -> value; a `Row` is only read."""

Rows = list[Record]
Records = Sequence[Row]
"""Several of them."""

Key = tuple[Any, ...]
"""Values of several columns, by which rows are looked up or joined."""

Columns = Mapping[str, Array]
"""Named arrays of one length: column -> [rows]."""

_Item = TypeVar("_Item")
_Of = TypeVar("_Of")


def by_key(items: Iterable[_Item], key: Callable[[_Item], _Of]) -> dict[_Of, list[_Item]]:
    """Items by their keys, in order of appearance.

    Example:
        >>> by_key([3, 2, 5], lambda number: number % 2)
        {1: [3, 5], 0: [2]}
    """
    groups: dict[_Of, list[_Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


PARSED = "parsed"
FAILED = "failed"
CLAMPED = "clamped"
"""Statuses of a score: read as given; not readable, so the range's minimum stands in; outside the
range, so moved to its nearest end."""

RANGE = ("range_min", "range_max", "range_step")
LABELS = "range_labels"
"""Columns that name a `ScoreRange` in every table; `LABELS` only in tables with a range that has
some."""

_MOST_CANDIDATES = 1001
_LARGEST = 1e9
_MOST_PLACES = 6
_MOST_LABELS = 26
_LABEL = re.compile(r"[^\W\d_](?:[ -]?[^\W_])*")
_COMMA = ", "  # between labels in a column; no label holds one


@dataclass(frozen=True)
class Example:
    """One judged text with its human scores.

    Attributes:
        example_id: unique within its data set.
        group_id: the article or dialogue that this text answers to; the unit of splitting and
            resampling.
        system_id: the author of the text.
        source: the article, or the dialogue so far.
        output: the judged text.
        human: dimension -> human score, on the data's own scale.
        context: further text that the judged one may draw on (TopicalChat's fact), empty where
            there is none.
        rival_id, rival: example_id and text of another system's output for the same source, which
            the judged text is compared with; empty where it is judged alone. The example is then
            the pair, called `<text_id>~<rival_id>` unless `own_id` names the judged text, and
            `human` is by how much the humans prefer the judged text: its score less the rival's, or
            their answer when they compared the two.
        rival_system_id: the author of the rival.
        question: what the text answers of its source, where texts of a group answer different
            questions; a prompt has it after the source. Else empty.
        own_id: the judged text's name in a pair whose name does not contain it, as where several
            people compared the same two texts; else empty.
        reason: why an earlier judge judged the text so, for people who look at it; else empty.
        segments: what the data says of the text besides, as its language, by column.
    """

    example_id: str
    group_id: str
    system_id: str
    source: str
    output: str
    human: Mapping[str, float]
    context: str = ""
    rival_id: str = ""
    rival: str = ""
    rival_system_id: str = ""
    own_id: str = ""
    question: str = ""
    reason: str = ""
    segments: Mapping[str, str] = field(default_factory=dict)

    @property
    def text_id(self) -> str:
        """The example_id of the judged text by itself, without what it is compared with."""
        if self.own_id:
            return self.own_id
        return (
            self.example_id.removesuffix(f"~{self.rival_id}") if self.rival_id else self.example_id
        )


@dataclass(frozen=True)
class ScoreRange:
    """The scores that a judge may give, as numbers minimum, minimum + step, ..., maximum; higher is
    better.

    Attributes:
        labels: what a judge says for each number, worst first, where that is not the number itself:
            the numbers counted down, where the lowest is the best, or letters and words. See
            `reversed` and `worded`.

    Example:
        >>> ScoreRange(1, 5).candidates
        ('1', '2', '3', '4', '5')
        >>> ScoreRange(1, 2, 0.5).candidates
        ('1.0', '1.5', '2.0')
        >>> best_is_one, letters = ScoreRange.parse([5, 1]), ScoreRange.parse(["C", "B", "A"])
        >>> best_is_one.candidates, best_is_one.values, str(best_is_one)
        (('5', '4', '3', '2', '1'), (1.0, 2.0, 3.0, 4.0, 5.0), '5-1')
        >>> letters.candidates, letters.values, str(letters)
        (('C', 'B', 'A'), (1.0, 2.0, 3.0), 'C-A')
    """

    minimum: float
    maximum: float
    step: float = 1.0
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        numbers = (self.minimum, self.maximum, self.step)
        if not all(_is_moderate(x) for x in numbers):
            raise UserError(
                f"range {shown(list(numbers))}: minimum, maximum and step must be finite, at most "
                f"{_LARGEST:g}."
            )
        name = f"range [{self.minimum:g}, {self.maximum:g}] with step {self.step:g}"
        if self.minimum >= self.maximum:
            raise UserError(
                f"{name}: the minimum must lie below the maximum, as in [1, 5], or [5, 1] where 1 "
                "is the best."
            )
        if self.step <= 0:
            raise UserError(f"{name}: the step must be above 0.")
        if max(map(_places, numbers)) > _MOST_PLACES:
            raise UserError(f"{name}: scores may have at most {_MOST_PLACES} decimals.")
        # with so few digits, decimal division is exact wherever it comes out even
        steps = (_decimal(self.maximum) - _decimal(self.minimum)) / _decimal(self.step)
        if steps != steps.to_integral_value():
            raise UserError(
                f"{name}: the step must lead from the minimum to the maximum in whole steps."
            )
        if steps >= _MOST_CANDIDATES:
            raise UserError(
                f"{name}: that is {int(steps) + 1} scores; at most {_MOST_CANDIDATES} are "
                "supported."
            )
        if self.labels and len(self.labels) != steps + 1:
            raise UserError(
                f"{name}: {len(self.labels)} labels for {int(steps) + 1} scores; give one each."
            )

    @classmethod
    def parse(cls, given: Sequence[float | str]) -> ScoreRange:
        """From configuration: `[minimum, maximum]` or `[minimum, maximum, step]`, the larger number
        first where the lowest score is the best, as in `[5, 1]`; or labels, worst first, as in `[E,
        D, C, B, A]`; else `UserError`."""
        entries: list[Any] = []
        if isinstance(given, Sequence) and not isinstance(given, str):
            entries = list(given)
        # 1. labels
        texts = [entry for entry in entries if isinstance(entry, str)]
        if any(text[:1].isalpha() for text in texts):
            return cls(1.0, float(max(len(entries), 2)), 1.0, _labels(entries))
        # 2. numbers
        are_numbers = all(
            isinstance(entry, int | float) and not isinstance(entry, bool) for entry in entries
        )
        if len(entries) not in (2, 3) or not are_numbers:
            raise UserError(
                f"ranges: {shown(given)} is not a range; give [minimum, maximum] or [minimum, "
                "maximum, step] each, as in 'ranges=[[1,5]]', or labels from worst to best, as in "
                "'ranges=[[E,D,C,B,A]]'."
            )
        numbers: list[Any] = [float(x) if _is_moderate(x) else x for x in entries]
        first, last, step = (*numbers, 1.0)[:3]
        if first > last and _is_moderate(first) and _is_moderate(last):
            upwards = cls(last, first, step)
            return cls(last, first, step, upwards.candidates[::-1])
        return cls(first, last, step)

    @classmethod
    def of(cls, row: Row) -> ScoreRange:
        """The range that a row of a table is about, from its `columns`."""
        low, high, step = [float(row[name]) for name in RANGE]
        labels = row.get(LABELS)
        if not labels or not isinstance(labels, str):  # a missing one is NaN in a frame
            return cls(low, high, step)
        return cls(low, high, step, tuple(labels.split(_COMMA)))

    @property
    def ends(self) -> Scale:
        """The lowest and the highest score."""
        return self.minimum, self.maximum

    @property
    def columns(self) -> Record:
        """The range as columns of a table; `LABELS` only where it has labels."""
        numbers = dict(zip(RANGE, (self.minimum, self.maximum, self.step), strict=True))
        return numbers | ({LABELS: _COMMA.join(self.labels)} if self.labels else {})

    @property
    def given(self) -> list[Any]:
        """The form in which `parse` takes it."""
        if self.worded:
            return list(self.labels)
        ends = [self.minimum, self.maximum]
        return [*(ends[::-1] if self.labels else ends), self.step]

    @property
    def order(self) -> Key:
        """Sorts ranges by their numbers, those with labels after those without."""
        return self.minimum, self.maximum, self.step, self.labels

    @property
    def worded(self) -> bool:
        """True where the labels are letters or words, so that nothing lies between two scores."""
        return bool(self.labels) and self.labels[0][0].isalpha()

    @property
    def reversed(self) -> bool:
        """True where the labels are the numbers counted down: a judge that says 1 of 5-1 gives the
        best score, 5."""
        return bool(self.labels) and not self.worded

    @cached_property
    def values(self) -> tuple[float, ...]:
        """The scores as numbers, ascending."""
        return tuple(float(value) for value in self._decimals)

    @cached_property
    def candidates(self) -> tuple[str, ...]:
        """The scores as a judge writes them, worst first; numbers all with the same number of
        decimals."""
        return self.labels or tuple(self.text(float(value)) for value in self._decimals)

    def mirrored(self, value: float) -> float:
        """The score behind a number that a judge said, and the number behind a score: on a
        `reversed` range the one as far from the other end, elsewhere itself."""
        return (
            float(_decimal(self.minimum) + _decimal(self.maximum) - _decimal(value))
            if self.reversed
            else value
        )

    def threshold(self, given: float | str) -> float:
        """The worst score that passes, from the configuration's `costs.threshold`: a number as the judge
        says it, or a letter or word; `UserError` of one that lets no text fail, or none pass."""
        if isinstance(given, str):
            words = [label.casefold() for label in self.candidates]
            known = given.casefold() in words
            score = self.values[words.index(given.casefold())] if known else math.nan
        else:
            score = self.mirrored(given)
        if self.minimum < score <= self.maximum:
            return score
        remedy = f"a number above {self.minimum:g}, up to {self.maximum:g}"
        if self.reversed:
            remedy = f"a number below {self.maximum:g}, down to {self.minimum:g}"
        if self.worded:
            remedy = ", ".join(self.labels[1:])
        raise UserError(
            f"costs.threshold: {shown(given)} is no mark in range {self}, from which a text passes; "
            f"give {remedy}."
        )

    def threshold_text(self, threshold: float) -> str | None:
        """A threshold as the judge's scores are written: a number, or the worst word that passes;
        None where no word does.

        Example:
            >>> ScoreRange.parse(["fail", "pass"]).threshold_text(1.5)
            'pass'
            >>> ScoreRange.parse([5, 1]).threshold_text(3.5)
            '2.5 or lower'
        """
        if not self.worded:
            lower = " or lower" if self.reversed else ""
            return f"{self.mirrored(threshold):.4g}{lower}"
        words = zip(self.candidates, self.values, strict=True)
        return next((word for word, value in words if value >= threshold), None)

    def text(self, value: float) -> str:
        """`value` as a judge says it: a number with as many decimals as this range's scores have;
        of letters and words the nearest, the lower of two."""
        if self.worded:
            at = math.ceil(value - self.minimum - 0.5)
            return self.labels[min(max(at, 0), len(self.labels) - 1)]
        return f"{self.mirrored(value):z.{self._most_places}f}"  # z: no minus before a zero

    @cached_property
    def _most_places(self) -> int:
        return max(map(_places, (self.minimum, self.maximum, self.step)))

    def __str__(self) -> str:
        worst = self.text(self.minimum)
        best = self.text(self.maximum)
        ends = f"{worst}{' to ' if worst.startswith('-') or best.startswith('-') else '-'}{best}"
        return ends if self.step == 1 else f"{ends} by {self.step:g}"

    @property
    def _decimals(self) -> list[Decimal]:
        low = _decimal(self.minimum)
        high = _decimal(self.maximum)
        step = _decimal(self.step)
        return [low + step * i for i in range(int((high - low) / step) + 1)]


Split = Mapping[str, str]
"""Group -> `dev` or `test`."""

RatingKey = tuple[str, ScoreRange]
"""A dimension in a range, of an experiment. Tuning looks at its clean texts without a defense; what
is chosen serves the others too."""

Scale = tuple[float, float]
"""The lowest and the highest score that a human could give."""

Scales = Mapping[str, Scale | None]
"""Dimension -> its scale; None where that is unknown, and where humans prefer and do not score."""

Ends = tuple[float, float]
"""The low and the high end of an interval."""


@dataclass(frozen=True)
class Classes:
    """Classes that the labels of a dimension name.

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
        """The lowest and the highest label of named classes."""
        return 0.0, len(self.names) - 1.0


def _labels(entries: Sequence[Any]) -> tuple[str, ...]:
    """Labels of scores, as they were given; else `UserError`."""
    fault = ""
    if not all(isinstance(label, str) for label in entries):
        fault = " mixes numbers and labels; give two numbers, or labels from worst to best"
    elif bad := [label for label in entries if not _LABEL.fullmatch(label)]:
        fault = (
            f": the label {shown(bad[0])} must begin with a letter and hold letters, digits, "
            "hyphens and single spaces alone"
        )
    elif not 2 <= len(entries) <= _MOST_LABELS:
        count = f"{len(entries)} label{'s' if len(entries) > 1 else ''}"
        fault = f": that is {count}; give 2 to {_MOST_LABELS}, from worst to best"
    elif len({label.casefold() for label in entries}) < len(entries):
        fault = " names a label twice, which may not differ in capitals alone; give each once"
    if fault:
        raise UserError(
            f"ranges: {shown(entries)}{fault}, as in 'ranges=[[E,D,C,B,A]]' or "
            "'ranges=[[poor,fair,good]]'."
        )
    return tuple(entries)


def _decimal(value: float) -> Decimal:
    return Decimal(repr(float(value)))


def _is_moderate(value: float) -> bool:
    # false for NaN, and compares whole numbers that are too long to be floats
    return -_LARGEST <= value <= _LARGEST


def _places(value: float) -> int:
    exponent = _decimal(value).normalize().as_tuple().exponent
    return max(0, -int(exponent))


@dataclass(frozen=True)
class Rubric:
    """A question to the judge: a template with `{min_range}`, `{max_range}` and the `{{...}}`
    fields of an example.

    Attributes:
        forms: name -> the template in which a defense asks instead, where the rubric's authors have
            worded one.
    """

    dimension: str
    template: str
    forms: Mapping[str, str] = field(default_factory=dict, compare=False)


PLACES = ScoreRange(1, 2)
"""Answers of a judge that compares two texts: the place of the better one."""

TIE = 0.0
PLACES_OR_TIE = ScoreRange(TIE, 2)
"""Its answers where it may also find them equally good: a place, or 0."""

FIRST = "first"
SECOND = "second"
ORDERS = (FIRST, SECOND)
"""Places of the judged text when it is compared with its rival."""


def answered_place(answer: float) -> float:
    """The place that an answer of `PLACES` or `PLACES_OR_TIE` names; a tie lies midway between the
    two.

    Example:
        >>> [answered_place(answer) for answer in PLACES_OR_TIE.values]
        [1.5, 1.0, 2.0]
    """
    return (PLACES.minimum + PLACES.maximum) / 2 if answer == TIE else float(answer)


@dataclass(frozen=True)
class Condition:
    """Circumstances in which an example is judged: one cell of the experiment.

    Attributes:
        order: one of `ORDERS` where texts are compared; empty where they are judged alone.
    """

    dimension: str
    range: ScoreRange
    attack: str = "none"
    defense: str = "none"
    order: str = ""

    def __str__(self) -> str:
        parts = [self.dimension, str(self.range)]
        if self.attack != "none":
            parts.append(f"attack {self.attack}")
        if self.defense != "none":
            parts.append(f"defense {self.defense}")
        if self.order:
            parts.append(f"judged text {self.order}")
        return ", ".join(parts)


@dataclass(frozen=True)
class Prompt:
    """The exact text that a judge reads about one example under one condition.

    Attributes:
        prefix: text up to the first character that is the example's own; equal for its whole group.
        tail: the rest, chat template included.
        token_ids: [tokens] int32, the tokens of `prefix + tail`, special tokens included once.
        source_tokens_cut: tokens taken off the end of the article to make the prompt fit; 0 if
            none.
        control_tokens: how often the example's own texts name a control token of the tokenizer,
            such as `<|im_end|>`. `token_ids` spell each name as plain text; tokenizing `text` again
            would make control tokens of them, and would mend words that a defense has broken into
            other tokens.
        choices: letter -> score, where the rubric asks for letters of a multiple choice.
        fold: name of the groups that a defense shows the same further texts; empty for most, see
            `Defense.fold`.
    """

    example: Example
    condition: Condition
    prefix: str
    tail: str
    token_ids: np.ndarray = field(compare=False)
    source_tokens_cut: int = 0
    control_tokens: int = 0
    choices: Mapping[str, float] = field(default_factory=dict, compare=False)
    fold: str = ""

    @property
    def alike(self) -> tuple[Condition, str]:
        """Condition and fold: prompts of both begin with the same words."""
        return self.condition, self.fold

    @property
    def text(self) -> str:
        return self.prefix + self.tail


@dataclass(frozen=True)
class Generation:
    """Origin of a free answer: the judge that wrote it, under which decoding.

    Attributes:
        reasoned: whether it was to reason first, so that only what it declares its final rating
            counts.
    """

    judge: str
    decoding: str
    lambda_: float | None = None
    temperature: float | None = None
    reasoned: bool = False


@dataclass(frozen=True)
class Reading:
    """A judge's answer about one example under one condition.

    Attributes:
        main_logprobs, assistant_logprobs: [candidates] log P(candidate as the next text) over the
            full vocabulary at t = 1; None where there is no assistant, or where the answer was
            generated.
        text, generation: the generated answer and its origin; None in score_tokens mode.
        seconds: wall time of the forward passes behind it, shared evenly among the prompts of a
            batch.
        answers: every answer, where the same prompt was asked several times; else empty.
    """

    prompt: Prompt
    split: str
    main_logprobs: tuple[float, ...] | None = None
    assistant_logprobs: tuple[float, ...] | None = None
    text: str | None = None
    generation: Generation | None = None
    seconds: float = 0.0
    answers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Score:
    """A judge's score and how it came about: `parsed`, `failed` or `clamped`."""

    value: float
    status: str = field(default=PARSED)
