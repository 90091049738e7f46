"""A judge whose readings were recorded, its assistant's among them: one file, and no model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from judgebench.data.rows import FileRow
from judgebench.judges.replay import AnswerFields, AnswerFile, AnswerRows, Answers, match
from judgebench.judges.spec import (
    GENERATION,
    LOG_PROBABILITIES,
    PROBABILITIES,
    RECORDED,
    JudgeSettings,
    check_unused,
)
from judgebench.readings.recording import MODES, Recording, prompt_digest
from judgebench.runtime.errors import Mistakes, UserError
from judgebench.types import Generation, Prompt

_AXES = ("dimension", "range", "attack", "defense")


class PlainJudge(JudgeSettings):
    """A judge that has no model and asks nothing; its prompts are the rubrics' plain text (0 tokens)."""

    path: ClassVar[str | None] = None
    mode = "score_tokens"
    engine = "prefix"
    max_new_tokens: ClassVar[int] = 0
    token_budget: ClassVar[int] = 1

    @property
    def gives(self) -> frozenset[str]:
        return frozenset({RECORDED, PROBABILITIES, LOG_PROBABILITIES})

    @property
    def computes_nothing(self) -> str:
        return "judge=recorded has readings only"

    @property
    def source(self) -> AnswerFile:
        return AnswerFile(Path(), "plain text")


@dataclass(frozen=True)
class RecordedSpec(PlainJudge):
    """Settings of a judge whose readings were recorded.

    Args:
        path: a file that `python -m judgebench.record` has written, or the name of one that comes with judgebench.
        mode: see `JudgeSpec`; the file has one of them.
        gguf_file, revision, dtype, trust_remote_code, engine: settings of a model that other parts of a configuration
            read; they stay as they are.

    Raises:
        UserError: a value that is none of these; no such file, or no recorded readings.
    """

    path: str  # type: ignore[misc]
    mode: str = "score_tokens"
    gguf_file: None = None
    revision: None = None
    dtype: str = "auto"
    trust_remote_code: bool = False
    engine: str = "prefix"
    unused: ClassVar = ("gguf_file", "revision", "dtype", "trust_remote_code", "engine")

    def __post_init__(self) -> None:
        mistakes = Mistakes()
        check_unused(self, mistakes, "judge", "judge=recorded loads no model")
        if self.mode not in MODES:
            mistakes.add(f"judge.mode: {self.mode!r} is not one of {', '.join(MODES)}.")
        if not isinstance(self.path, str) or not self.path.strip():
            mistakes.add(
                "judge.path: name the file of recorded readings, as `python -m judgebench.record RUN out=FILE` has "
                "written it."
            )
            mistakes.tell()
        with mistakes.caught():
            held = self.recording.about["mode"]
            if self.mode in MODES and self.mode != held:
                has = "free answers and no probabilities" if held == "generate" else "probabilities and no free answers"
                mistakes.add(f"judge.mode: {self.recording.path.name} has {has}; take judge.mode={held}.")
        mistakes.tell()

    @cached_property
    def recording(self) -> Recording:
        return Recording.open(self.path)

    @property
    def gives(self) -> frozenset[str]:
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

    def answers(self, prompts: Sequence[Prompt], split: Mapping[str, str], dataset: str) -> Answers:
        """The readings of the prompts, each the rows of an example and condition.

        Raises:
            UserError: what `match` raises; texts that were compared where texts are judged alone, or the other way; a
                prompt that is not what was read.
        """
        recording, compares = self.recording, any(prompt.condition.order for prompt in prompts)
        if recording.about["compares"] != compares:
            kinds = ("texts that were judged alone", "texts that were compared")[:: -1 if compares else 1]
            raise UserError(
                f"judge.path: {recording.path.name} has readings of {kinds[1]}, and this run asks for {kinds[0]}; "
                "choose the prompt that was recorded."
            )
        axes = {axis: axis for axis in (*_AXES, *(["order"] if compares else []))}
        fields = AnswerFields("rows", example_id="example_id", **axes)
        # a row for each example and condition, with all readings of it
        readings: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
        for row in recording.rows:
            readings.setdefault(tuple(row[name] for name in ("example_id", *_AXES, "order")), []).append(row)
        rows = [
            FileRow({**own[0], "rows": own}, f"{recording.path.name} example {own[0]['example_id']}", number)
            for number, own in enumerate(readings.values(), start=1)
        ]
        named_by = "the readings and data.fields"
        source = AnswerRows(recording.path.name, rows, fields, lambda row: row.values["rows"], named_by)
        answers = match(source, prompts, split, dataset)
        _check_prompts(recording, answers, answers.answered(prompts))
        return answers


def answer_row(rows: Sequence[Mapping[str, Any]], how: Generation | None) -> Mapping[str, Any] | None:
    """The row of one way of answering, whatever its decoding was called; None where there is none.

    Args:
        how: None asks for log-probabilities.
    """
    for row in rows:
        if how is None and row["main_logprobs"] is not None:
            return row
        if how is not None and row["text"] is not None:
            own = (how.judge, how.lambda_, how.temperature)
            if (row["judge"], row["lambda"], row["temperature"]) == own:
                return row
    return None


def _check_prompts(recording: Recording, answers: Answers, prompts: Sequence[Prompt]) -> None:
    """Raises UserError where a rubric, a text or the candidates are not those that were read."""
    other = [
        prompt
        for prompt in prompts
        for row in [answers.to(prompt)[0]]
        if row["prompt_sha256"] != prompt_digest(prompt)
        or tuple(row["candidates"]) != prompt.condition.range.candidates
    ]
    if other:
        about = recording.about
        raise UserError(
            f"judge.path: {len(other):,} of {len(prompts):,} prompts are not what was read, the first of them about "
            f"example {other[0].example.example_id} ({other[0].condition}): rubric or data have changed since "
            f"{recording.path.name} was recorded (data {about['data']['name']}, rubrics "
            f"{recording.setting('prompt', 'rubrics')}); take those, or record readings of these with a model and "
            "`python -m judgebench.record`."
        )
