"""A judge without a model: it repeats what some judge answered earlier, so that it is measured like any other."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import lightning as L
from tokenizers import Tokenizer
from tokenizers.models import BPE
from transformers import PretrainedConfig, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from judgebench.data.rows import json_lines
from judgebench.errors import UserError
from judgebench.judges.answers import AnswerFields, Answers, match
from judgebench.judges.loop import Models, Trainers
from judgebench.types import Generation, Prompt, Reading

KEY = "judge.path"
_MODEL = ("gguf_file", "revision", "dtype", "trust_remote_code", "engine")


@dataclass(frozen=True)
class AnswerFile:
    """The source of a replayed judge: a file, and no model.

    Attributes:
        path: the file.
        title: see `Source.title`.
    """

    path: Path
    title: str
    encoder_decoder: ClassVar[bool] = False

    def tokenizer(self) -> PreTrainedTokenizerBase:
        """One that knows no token and has no chat template: a prompt is the rubric's plain text, of 0 tokens."""
        return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(BPE()))

    def config(self) -> Any:
        """The configuration of a model that reads a text of any length."""
        return PretrainedConfig()

    def sha256(self) -> str:
        """Of the file's bytes, in hexadecimal."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class ReplaySpec:
    """Which answers are scored, as configuration says it.

    Args:
        path: a file with one JSON object a line, one row an answer.
        fields: which field of a row holds what; see `AnswerFields`.
        title: what tables call the judge; None takes the file's name without its ending.
        mode: `generate`, for the answers are free text.
        gguf_file, revision, dtype, trust_remote_code, engine: what other parts of a configuration take from the judge;
            there is no model, so they stay as they are.

    Raises:
        UserError: a value that is none of these.
    """

    path: str
    fields: Mapping[str, Any]
    title: str | None = None
    mode: str = "generate"
    gguf_file: None = None
    revision: None = None
    dtype: str = "auto"
    trust_remote_code: bool = False
    engine: str = "prefix"
    # nothing is computed
    max_new_tokens: ClassVar[int] = 0
    token_budget: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if not isinstance(self.path, str) or not self.path.strip():
            raise UserError("judge.path: name the file with the judge's answers, one JSON object a line.")
        if self.title is not None and (not isinstance(self.title, str) or not self.title.strip()):
            raise UserError(f"judge.title: {self.title!r} is not a name; give text, or null for the file's name.")
        if self.mode != "generate":
            raise UserError(
                f"judge.mode: judge=replay has texts and no probabilities, so it cannot be {self.mode!r}; leave it at "
                "generate."
            )
        for one in dataclasses.fields(self):
            if one.name in _MODEL and getattr(self, one.name) != one.default:
                raise UserError(
                    f"judge.{one.name}: judge=replay loads no model, so {getattr(self, one.name)!r} would change "
                    f"nothing; leave it at {'null' if one.default is None else one.default}."
                )
        AnswerFields.parse(self.fields)

    @cached_property
    def source(self) -> AnswerFile:
        """Where the judge comes from."""
        path = Path(self.path).expanduser()
        return AnswerFile(path, self.title or path.stem)

    def answers(self, prompts: Sequence[Prompt], split: Mapping[str, str], dataset: str) -> Answers:
        """The file's answers to the prompts; see `judgebench.judges.answers.match`."""
        named, path = AnswerFields.parse(self.fields), self.source.path
        named.check(list(dict.fromkeys(prompt.condition for prompt in prompts)))
        return match(json_lines(path, KEY), named, prompts, split, path.name, dataset)


@dataclass
class Replayer:
    """Gives the readings of prompts that were answered earlier, as a `Reader` gives those that it computes.

    Args:
        source: the file.
        answers: what it says.
        prompts: those that have an answer.
        decoding: what tables call the way in which the answers came about.
        worded: defenses under which the judge was to reason first, see `Reader`.

    Attributes:
        models: none.
    """

    source: AnswerFile
    answers: Answers
    prompts: Sequence[Prompt]
    decoding: str = "greedy"
    worded: Mapping[str, int] = field(default_factory=dict)
    models: Models = field(default_factory=Models)

    @property
    def fingerprints(self) -> dict[str, dict[str, str]]:
        """Role -> title and SHA-256 of the file."""
        return {"main": {"title": self.source.title, "sha256": self.source.sha256()}}

    def read(self, data: L.LightningDataModule, trainer: Trainers) -> None:
        """Nothing is to be computed."""

    def readings(self, split: Mapping[str, str]) -> list[Reading]:
        """One a prompt.

        Args:
            split: group_id -> dev or test.
        """
        return [
            Reading(
                prompt,
                split[prompt.example.group_id],
                text=self.answers.text(prompt),
                generation=Generation("main", self.decoding, reasoned=prompt.condition.defense in self.worded),
            )
            for prompt in self.prompts
        ]

    @staticmethod
    def device(trainer: L.Trainer | None) -> str:
        """The name of what computed."""
        return "none: the answers were given earlier"
