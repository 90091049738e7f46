"""A panel: what several judges have said of the same texts, combined into one judge, which has no
model of its own.

A member gives a distribution over the candidates: its log-probabilities, or, where a score is all
that there is, the two candidates around it, in shares whose mean it is. So does the panel; it is
decoded and recorded as any judge.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from judgebench.decoding.parser import parse_answer
from judgebench.decoding.rules import candidate_distribution, expected_value, has_answer
from judgebench.judges.precomputed.answers import Answers, Key, answer_key
from judgebench.judges.precomputed.recorded import RecordedSpec, answers_of
from judgebench.judges.precomputed.replay import ReplaySpec
from judgebench.judges.spec import (
    LOG_PROBABILITIES,
    PANEL,
    PROBABILITIES,
    RECORDED,
    UNKNOWN_PROMPTS,
)
from judgebench.readings.reading import Recording
from judgebench.runtime.files import user_path
from judgebench.settings.fields import (
    Annotated,
    NotBlank,
    OneOf,
    Words,
    check_fields,
    settings_of,
)
from judgebench.types import CLAMPED, FAILED, Array, Condition, Prompt, Row, Split, by_key
from judgebench.words.errors import Mistakes, UserError

_POOLS = ("mean", "geometric")
_SAME = 1e-9
"""Standard deviation of scores up to which they are one."""


def score_shares(scores: Array, values: Array) -> Array:
    """Log-probabilities [N, K] over `values` [K], ascending, whose means are the scores [N]; all
    -inf for NaN.

    Example:
        >>> np.exp(score_shares(np.array([2.25, 3.0]), np.array([1.0, 2.0, 3.0]))).tolist()
        [[0.0, 0.75, 0.25], [0.0, 0.0, 1.0]]
    """
    shares = np.zeros((len(scores), len(values)))
    rows = np.flatnonzero(np.isfinite(scores))
    lower = np.clip(np.searchsorted(values, scores[rows], side="right") - 1, 0, len(values) - 2)
    upper = (scores[rows] - values[lower]) / (values[lower + 1] - values[lower])
    shares[rows, lower], shares[rows, lower + 1] = 1 - upper, upper
    with np.errstate(divide="ignore"):
        return np.log(shares)


def pool(logprobs: Array, weights: Array, geometric: bool = False) -> Array:
    """Log-probabilities [N, K] of M members together, from theirs [M, N, K] and weights [M, N] of
    any sum. Who has no answer to a text is left out there; who is left alone is the pool, to the
    last bit.

    The linear pool (Stone, "The opinion pool", 1961) is sum_m w_m q_m(k), q_m normalized over the
    candidates; the geometric one exp sum_m w_m log p_m(k), in which one member's 0 is all's (Genest
    and Zidek, "Combining probability distributions", 1986).

    Example:
        >>> members = np.log([[[0.8, 0.2]], [[0.2, 0.8]]])
        >>> np.exp(pool(members, np.array([[3.0], [1.0]]))).round(12).tolist()
        [[0.65, 0.35]]
        >>> np.exp(pool(members, np.ones((2, 1)), geometric=True)).round(12).tolist()
        [[0.4, 0.4]]
    """
    # 1. weights [M, N] of the members that answer, of sum 1; equal ones where theirs are all 0
    answered = np.array([has_answer(member) for member in logprobs])
    shares = answered * weights
    shares = np.where(shares.any(axis=0), shares, answered)
    sums = np.where(answered.any(axis=0), shares.sum(axis=0), 1.0)
    shares = shares / sums
    factors = shares[:, :, None]
    # 2. the pool [N, K]
    if geometric:
        terms = factors * np.where(factors > 0, logprobs, 0.0)
        together = terms.sum(axis=0)
    else:
        terms = factors * [candidate_distribution(member) for member in logprobs]
        with np.errstate(divide="ignore"):
            together = np.log(terms.sum(axis=0))
    # 3. who is left alone, as it is
    lone = np.flatnonzero((shares > 0).sum(axis=0) <= 1)
    together[lone] = logprobs[shares[:, lone].argmax(axis=0), lone]
    return np.asarray(together)


def standardized_mean(scores: Array, values: Array) -> Array:
    """Scores [N] of M members together, from theirs [M, N], NaN where one has none: the mean of
    their standard scores over the texts, with the members' mean and standard deviation on average,
    held within the candidates `values`. A member that says the same of every text is left out where
    another does not; NaN where none has a score.

    Example:
        >>> harsh_and_kind = np.array([[1.0, 2.0], [4.0, 5.0]])  # both order the texts alike
        >>> standardized_mean(harsh_and_kind, np.array([1.0, 5.0])).tolist()
        [2.5, 3.5]
    """
    known = np.ma.masked_invalid(scores)
    # 1. members that tell texts apart
    spread = known.std(axis=1).filled(0.0)
    tells = spread > _SAME
    if not tells.any():
        means = known.mean(axis=0)
        return np.asarray(means.filled(np.nan))
    telling = known[tells]
    # 2. the mean of their standard scores
    center = telling.mean(axis=1)
    deviation = telling.std(axis=1)
    units = (telling - center[:, None]) / deviation[:, None]
    standard = units.mean(axis=0)
    # 3. on the scale of all of them
    together = center.mean() + deviation.mean() * standard
    held = np.ma.clip(together, values[0], values[-1])
    return np.asarray(held.filled(np.nan))


class MemberReading(NamedTuple):
    """Log-probabilities [K] of a member's answer and of its assistant's (None without one), and
    seconds."""

    main: Any
    assistant: Any
    seconds: float


@dataclass(frozen=True)
class Member:
    """A judge of a panel.

    Attributes:
        path: recorded readings, or the name of some that come with judgebench; a run folder; or
            answers (.jsonl).
        judge: main, or the assistant by itself.
        fields: of answers, see `AnswerFields`.
    """

    path: Words
    judge: Annotated[str, OneOf(("main", "assistant"))] = "main"
    fields: Row | None = None

    @cached_property
    def source(self) -> Recording | ReplaySpec:
        path = user_path(self.path)
        if path.suffix == ".jsonl":
            names = {name: name for name in ("text", "example_id", "group_id", "system_id")}
            return ReplaySpec(self.path, {**names, **(self.fields or {})})
        return Recording.of_run(path) if path.is_dir() else Recording.open(self.path)

    @cached_property
    def name(self) -> str:
        source = self.source.source if isinstance(self.source, ReplaySpec) else self.source
        return source.title if self.judge == "main" else f"{source.title}'s assistant"

    def readings(
        self, prompts: Sequence[Prompt], split: Split, dataset: str
    ) -> dict[Key, MemberReading]:
        """Its readings of the prompts, see `JudgeSettings.answers`; `UserError` of one without
        log-probabilities or a score."""
        if isinstance(self.source, ReplaySpec):
            answers = self.source.answers(prompts, split, dataset)
        else:
            answers = answers_of(self.source, prompts, split, dataset)
        readings = {}
        for prompt in answers.answered(prompts):
            row = self._row(answers.to(prompt))
            main = row.get(f"{self.judge}_logprobs")
            if main is None and (row["text"] is None or prompt.condition.order):
                raise UserError(
                    f"judge.path: {answers.file} lacks its {self.judge}'s log-probabilities; leave "
                    "it out."
                )
            if main is None:
                main = self._shares(row["text"], prompt, answers.file)
            other = row.get("assistant_logprobs") if self.judge == "main" else None
            readings[answer_key(prompt)] = MemberReading(main, other, row.get("seconds", 0.0))
        return readings

    def _row(self, answer: Any) -> Row:
        """Its own row of an answer: a text, or the rows of a recording."""
        rows = [{"text": answer, "judge": "main"}] if isinstance(answer, str) else answer
        ours = (row for row in rows if row["judge"] in (None, self.judge))
        return next(ours, {"text": None})

    def _shares(self, text: str, prompt: Prompt, file: str) -> Array:
        """Log-probabilities [K] of an answer in words; `UserError` of a score that is out of a range
        which the answers do not state."""
        scores = prompt.condition.range
        score = parse_answer(text, scores, prompt.choices)
        stated = not isinstance(self.source, ReplaySpec) or self.source.fields.get("range")
        if score.status == CLAMPED and not stated:
            raise UserError(
                f"judge.path: {file} does not say its range, and says {text!r} of example "
                f"{prompt.example.example_id}, which {scores} does not have; take the range that "
                "was asked for, as 'ranges=[[0,4]]', name the field with it, as fields={range: "
                "range}, or empty an answer that is a slip."
            )
        value = np.nan if score.status == FAILED else score.value
        return score_shares(np.array([value]), np.array(scores.values))[0]


@contextmanager
def member_named(number: int) -> Iterator[None]:
    """Names a member by its place in a `UserError` that is raised inside."""
    try:
        yield
    except UserError as error:
        key = f"judge.members[{number}]"
        named = re.sub(r"\bjudge\.(?=(path|fields)\b)", f"{key}.", str(error))
        raise UserError(named if key in named else f"{key}: {named}") from error


@dataclass(frozen=True, kw_only=True)
class PanelSpec(RecordedSpec):
    """Settings of a panel; `UserError` for a value that is none, or a member that cannot be read.

    Args:
        members: each a path, or a mapping as `Member`.
        combine: `mean` or `geometric`: a `pool`; or of the members' expected scores the `median`,
            or the mean in standard units of each member (`standardized`), which depends on the
            texts that are judged together.
        weights: [members] of any sum, of a pool, in place of equal ones.
    """

    members: Annotated[list[Any], NotBlank()]
    combine: Annotated[str, OneOf(("mean", "geometric", "median", "standardized"))] = "mean"
    weights: list[float] | None = None
    path: ClassVar[None] = None  # type: ignore[misc]
    note = None  # type: ignore[assignment]

    @property
    def capabilities(self) -> frozenset[str]:
        replayed = all(isinstance(member.source, ReplaySpec) for member in self.judges)
        unknown = {UNKNOWN_PROMPTS} if replayed else set()
        return frozenset({PANEL, RECORDED, PROBABILITIES, LOG_PROBABILITIES, *unknown})

    def __post_init__(self) -> None:
        mistakes = Mistakes()
        with mistakes.caught():
            check_fields(self, "judge", of=("members", "combine", "weights"))
            weights = self.weights
            pooled = self.combine in _POOLS
            if weights is not None and not (
                pooled and len(weights) == len(self.members) and min(weights) >= 0 < sum(weights)
            ):
                raise UserError(
                    f"judge.weights: {weights} should be one number a member, none below 0, not all "
                    "0; of a pool alone."
                )
            self.recording  # noqa: B018 - opens the members' files
        mistakes.tell()

    @cached_property
    def judges(self) -> list[Member]:
        members = []
        for number, entry in enumerate(self.members):
            if isinstance(entry, str):
                entry = {"path": entry}
            members.append(settings_of(Member, entry, f"judge.members[{number}]"))
        return members

    def _each(self, asked: Callable[[Member], Any]) -> list[Any]:
        """Answers of all members; `UserError` of one that has none, by its place."""
        answers = []
        for number, member in enumerate(self.judges):
            with member_named(number):
                answers.append(asked(member))
        return answers

    @cached_property
    def recording(self) -> Recording:
        """A recording's title and models; its rows come with `answers`, and whether they compare
        texts."""
        names = self._each(lambda member: member.name)
        return Recording(
            user_path("the panel"),
            {
                "models": {
                    "main": {"title": f"{self.combine} of {len(names)} judges", "members": names}
                },
                "compares": None,
                "config": {},
            },
        )

    def answers(self, prompts: Sequence[Prompt], split: Split, dataset: str) -> Answers:
        """The panel's readings, each a row as recorded ones; `UserError` for a member that lacks
        texts which others have, has other candidates, or has read other texts or another rubric."""
        # 1. what each member has read: all of them the same
        read = self._each(lambda member: member.readings(prompts, split, dataset))
        named = list(zip(self.judges, read, strict=True))
        asked = [prompt for prompt in prompts if any(answer_key(prompt) in its for its in read)]
        gone = {
            member.name: sum(answer_key(prompt) not in its for prompt in asked)
            for member, its in named
        }
        if lacking := ", ".join(f"{name} lacks {n:,}" for name, n in gone.items() if n):
            raise UserError(
                f"judge.members: of {len(asked):,} prompts {lacking}; have it read them, or leave "
                "it out."
            )
        # 2. cell by cell, whose texts have the same candidates
        cells = by_key(asked, lambda prompt: prompt.condition)
        rows = {}
        failed = np.zeros(len(read), dtype=int)
        for texts in cells.values():
            keys = list(map(answer_key, texts))
            main = np.array([[its[key].main for key in keys] for its in read], dtype=np.float64)
            others = [[its[key].assistant for key in keys] for its in read]
            failed += np.isneginf(main).all(axis=2).sum(axis=1)
            together, pair = self._together(main, others, texts[0].condition)
            for i, key in enumerate(keys):
                row = {
                    "main_logprobs": together[i],
                    "assistant_logprobs": pair and pair[i],
                    "text": None,
                    "seconds": sum(its[key].seconds for its in read),
                }
                rows[key] = [row]
        counts = zip(self.judges, (len(asked) - failed).tolist(), strict=True)
        scored = ", ".join(f"{member.name} {count:,}" for member, count in counts)
        missing = [prompt for prompt in prompts if answer_key(prompt) not in rows]
        return Answers(f"a panel ({self.combine} of {scored})", len(rows), rows, (), (), missing)

    def _together(
        self, main: Array, others: Any, cell: Condition
    ) -> tuple[list[Any], list[Any] | None]:
        """Log-probabilities [N, K] of the members together, and of their assistants (None where
        scores are combined, or one has none), from `main` [M, N, K] and `others`, about texts of a
        cell."""
        values = np.array(cell.range.values)
        scores = np.array([expected_value(member, values) for member in main])
        scores[[~has_answer(member) for member in main]] = np.nan
        if self.combine in _POOLS:
            geometric = self.combine == "geometric"
            weights = np.ones(scores.shape)
            if self.weights is not None:
                weights *= np.array(self.weights)[:, None]
            pair = None
            if all(row is not None for part in others for row in part):
                pair = pool(np.array(others), weights * np.isfinite(scores), geometric).tolist()
            return pool(main, weights, geometric).tolist(), pair
        if cell.order:
            raise UserError(
                f"judge.combine: {self.combine} is for texts judged alone; take mean or geometric."
            )
        if self.combine == "median":
            middle = np.ma.median(np.ma.masked_invalid(scores), axis=0).filled(np.nan)
        else:
            middle = standardized_mean(scores, values)
        return score_shares(middle, values).tolist(), None
