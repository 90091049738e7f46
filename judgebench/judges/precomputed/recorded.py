"""A judge whose readings were recorded, its assistant's among them: one file, and no model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
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
from judgebench.readings.reading import AXES, MODES, Recording, holds, prompt_digest
from judgebench.settings.fields import Annotated, OneOf, check_fields
from judgebench.types import Generation, Prompt, Record, Records, Row, Split, by_key
from judgebench.words.errors import Mistakes, UserError


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

    def said(self, prompt: Prompt, how: Generation | None) -> Record:
        """See `BaseReader.said`; `UserError` for what was not recorded: an answer under a lambda or
        t, or log-probabilities."""
        row = self._row(prompt, how)
        if how is not None:
            return {"text": row["text"], "seconds": row["seconds"]}
        held: Record = {"main_logprobs": tuple(row["main_logprobs"]), "seconds": row["seconds"]}
        if self.assistant.kind != "none":
            held["assistant_logprobs"] = tuple(row["assistant_logprobs"])
        return held

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
    """The readings of the prompts, see `matched`; `UserError` for texts that were compared where
    texts are judged alone, or the other way, and for a prompt that is not what was read."""
    about = recording.about
    compares = any(prompt.condition.order for prompt in prompts)
    if about["compares"] != compares:
        kinds = {True: "texts that were compared", False: "texts that were judged alone"}
        raise UserError(
            f"judge.path: {recording.path.name} has readings of {kinds[about['compares']]}, and "
            f"this run asks for {kinds[compares]}; choose the prompt that was recorded."
        )
    answers = matched(recording, prompts, split, dataset)
    answered = answers.answered(prompts)
    other = [prompt for prompt in answered if not was_read(answers.to(prompt)[0], prompt)]
    if other:
        raise UserError(
            f"judge.path: {len(other):,} of {len(answered):,} prompts are not what was read, the "
            f"first of them about example {other[0].example.example_id} ({other[0].condition}): "
            f"rubric or data have changed since {recording.path.name} was recorded (data "
            f"{about['data']['name']}, rubrics {recording.setting('prompt', 'rubrics')}); take "
            "those, or record readings of these with a model and `python -m judgebench record`."
        )
    return answers


def matched(recording: Recording, prompts: Sequence[Prompt], split: Split, dataset: str) -> Answers:
    """The readings that answer the prompts, each the rows of an example and condition."""
    name = recording.path.name
    readings = by_key(recording.rows, itemgetter("example_id", *AXES))
    rows = []
    for number, same in enumerate(readings.values(), start=1):
        place = f"{name} example {same[0]['example_id']}"
        rows.append(FileRow({**same[0], "rows": same}, place, number))
    # what is judged alone has no order
    axes = [axis for axis in AXES if axis != "order" or recording.about["compares"]]
    names = {name: name for name in ("example_id", *axes)}
    fields = AnswerFields("rows", **names)
    return match(name, rows, fields, lambda row: row.values["rows"], prompts, split, dataset)


def was_read(row: Row, prompt: Prompt) -> bool:
    """True where a prompt is what a row was read of: rubric, text and candidates."""
    if tuple(row["candidates"]) != prompt.condition.range.candidates:
        return False
    if "prompt" in row:  # of a run folder
        return holds(row, prompt)
    return bool(row["prompt_sha256"] == prompt_digest(prompt))


def answer_row(rows: Records, how: Generation | None) -> Row | None:
    """The row of one way of answering, whatever its decoding was called, or with `how` None of
    log-probabilities; None where there is none."""
    if how is None:
        return next((row for row in rows if row["main_logprobs"] is not None), None)
    way = {"judge": how.judge, "lambda": how.lambda_, "temperature": how.temperature}
    return next(
        (row for row in rows if row["text"] is not None and way.items() <= row.items()), None
    )
