"""A judge whose readings were recorded, its assistant's among them: one file, and no model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from judgebench.data.rows import FileRow
from judgebench.judges.precomputed.answers import Answers
from judgebench.judges.precomputed.replay import AnswerFields, AnswerFile, match
from judgebench.judges.reader import BaseReader
from judgebench.judges.spec import (
    GENERATION,
    LOG_PROBABILITIES,
    PROBABILITIES,
    RECORDED,
    NoModel,
)
from judgebench.readings.reading import MODES, Recording, holds, prompt_digest
from judgebench.settings.fields import Annotated, OneOf, check_fields
from judgebench.types import Generation, Prompt, Reading, Records, Row, Split
from judgebench.words.errors import Mistakes, UserError

_AXES = ("dimension", "range", "attack", "defense")


class PlainJudge(NoModel):
    """A judge that has no model and asks nothing; its prompts are the rubrics' plain text (0
    tokens)."""

    path: ClassVar[str | None] = None
    mode = "score_tokens"

    @property
    def capabilities(self) -> frozenset[str]:
        return frozenset({RECORDED, PROBABILITIES, LOG_PROBABILITIES})

    def reader(self, *asked: Any) -> BaseReader:
        return RecordedReader(*asked)

    @property
    def source(self) -> AnswerFile:
        return AnswerFile(Path(), "plain text")


@dataclass(frozen=True)
class RecordedSpec(PlainJudge):
    """Settings of a judge whose readings were recorded; `UserError` for a value that is none, or a
    file without them.

    Args:
        path: a file that `python -m judgebench record` has written, or the name of one that comes
            with judgebench.
        mode: see `JudgeSpec`; the file has one of them.
    """

    path: str  # type: ignore[misc]
    mode: Annotated[str, OneOf(MODES)] = "score_tokens"

    def __post_init__(self) -> None:
        mistakes = Mistakes()
        with mistakes.caught():
            check_fields(self, "judge", of=("mode",))
        if not isinstance(self.path, str) or not self.path.strip():
            mistakes.add(
                "judge.path: name the file of recorded readings, as `python -m judgebench record "
                "RUN out=FILE` has written it."
            )
            mistakes.tell()
        with mistakes.caught():
            recorded = self.recording.about["mode"]
            if self.mode in MODES and self.mode != recorded:
                has = ["probabilities and no free answers", "free answers and no probabilities"][
                    recorded == "generate"
                ]
                mistakes.add(
                    f"judge.mode: {self.recording.path.name} has {has}; take judge.mode={recorded}."
                )
        mistakes.tell()

    @cached_property
    def recording(self) -> Recording:
        return Recording.open(self.path)

    @property
    def capabilities(self) -> frozenset[str]:
        scores = {GENERATION} if self.mode == "generate" else {PROBABILITIES, LOG_PROBABILITIES}
        return frozenset({RECORDED, *scores})

    @property
    def source(self) -> AnswerFile:
        return AnswerFile(self.recording.path, self.recording.title)

    @property
    def name(self) -> str:
        return str(self.recording.setting("judge", "path") or self.recording.title)

    @property
    def note(self) -> str:
        return self.recording.sentence

    def answers(self, prompts: Sequence[Prompt], split: Split, dataset: str) -> Answers:
        return answers_of(self.recording, prompts, split, dataset)


class RecordedReader(BaseReader):
    """Gives recorded readings, as a `Reader` gives those that it computes."""

    judge: RecordedSpec
    origin = "none: recorded readings"

    @property
    def fingerprints(self) -> dict[str, dict[str, str]]:
        models = self.judge.recording.models
        return {"main": models["main"]} if self.assistant.kind == "none" else models

    def readings(self, split: Split) -> list[Reading]:
        """The readings of all prompts, see `Reader.readings`; `UserError` for what was not
        recorded: an answer under a lambda or t, or log-probabilities."""
        readings = []
        for prompt in self._scored:
            row = self._row(prompt, None)
            part = split[prompt.example.group_id]
            main = tuple(row["main_logprobs"])
            other = None
            if self.assistant.kind != "none":
                other = tuple(row["assistant_logprobs"])
            readings.append(Reading(prompt, part, main, other, seconds=row["seconds"]))
        for prompts, _, reasoned in self._asked:
            for how, _ in self._ways(reasoned):
                for prompt in prompts:
                    row = self._row(prompt, how)
                    part = split[prompt.example.group_id]
                    readings.append(
                        Reading(
                            prompt, part, generation=how, text=row["text"], seconds=row["seconds"]
                        )
                    )
        return readings

    def _row(self, prompt: Prompt, how: Generation | None) -> Row:
        """The row of a way of answering, or of log-probabilities; else `UserError`."""
        assert self.answers is not None
        row = answer_row(self.answers.to(prompt), how)
        alone = how is not None or self.assistant.kind == "none"
        if row is not None and (alone or row["assistant_logprobs"] is not None):
            return row
        what = "log-probabilities"
        if row is not None:
            what = "log-probabilities of the assistant"
        elif how is not None:
            what = f"free answers of {how.judge} by {how.decoding}"
            if how.lambda_ is not None:
                what += f" (lambda {how.lambda_:g}, t {how.temperature:g})"
        raise UserError(
            f"judge: {self.judge.recording.path.name} has no {what} for example "
            f"{prompt.example.example_id} ({prompt.condition}); choose what was recorded, or "
            "record it too."
        )


def answers_of(
    recording: Recording, prompts: Sequence[Prompt], split: Split, dataset: str
) -> Answers:
    """The readings of the prompts, each the rows of an example and condition; `UserError` for texts
    that were compared where texts are judged alone, or the other way, and for a prompt that is not
    what was read."""
    about = recording.about
    compares = any(prompt.condition.order for prompt in prompts)
    if about["compares"] != compares:
        kinds = ("texts that were judged alone", "texts that were compared")[
            :: -1 if compares else 1
        ]
        raise UserError(
            f"judge.path: {recording.path.name} has readings of {kinds[1]}, and this run asks for "
            f"{kinds[0]}; choose the prompt that was recorded."
        )
    # 1. a row for each example and condition, with all readings of it
    axes = {axis: axis for axis in (*_AXES, *(["order"] if compares else []))}
    readings: dict[tuple[str, ...], list[Row]] = {}
    for row in recording.rows:
        readings.setdefault(
            tuple(row[name] for name in ("example_id", *_AXES, "order")), []
        ).append(row)
    rows = [
        FileRow(
            {**same[0], "rows": same},
            f"{recording.path.name} example {same[0]['example_id']}",
            number,
        )
        for number, same in enumerate(readings.values(), start=1)
    ]
    fields = AnswerFields("rows", example_id="example_id", **axes)
    answers = match(
        recording.path.name, rows, fields, lambda row: row.values["rows"], prompts, split, dataset
    )
    # 2. rubric, text and candidates must be those that were read
    answered = answers.answered(prompts)
    other = [
        prompt
        for prompt in answered
        for row in answers.to(prompt)[:1]
        if (
            not holds(row, prompt)
            if "prompt" in row
            else row["prompt_sha256"] != prompt_digest(prompt)
        )
        or tuple(row["candidates"]) != prompt.condition.range.candidates
    ]
    if other:
        raise UserError(
            f"judge.path: {len(other):,} of {len(answered):,} prompts are not what was read, the "
            f"first of them about example {other[0].example.example_id} ({other[0].condition}): "
            f"rubric or data have changed since {recording.path.name} was recorded (data "
            f"{about['data']['name']}, rubrics {recording.setting('prompt', 'rubrics')}); take "
            "those, or record readings of these with a model and `python -m judgebench record`."
        )
    return answers


def answer_row(rows: Records, how: Generation | None) -> Row | None:
    """The row of one way of answering, whatever its decoding was called, or with `how` None of
    log-probabilities; None where there is none."""
    if how is None:
        return next((row for row in rows if row["main_logprobs"] is not None), None)
    way = {"judge": how.judge, "lambda": how.lambda_, "temperature": how.temperature}
    return next(
        (row for row in rows if row["text"] is not None and way.items() <= row.items()), None
    )
