"""A judge of one's own: a class in a file, which answers prompts by itself."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from judgebench.decoding.rules import Decoding
from judgebench.judges.precomputed.replay import AnswerFile
from judgebench.judges.reader import BaseReader
from judgebench.judges.spec import GENERATION, OWN, PROBABILITIES, NoModel
from judgebench.runtime.files import sha256_of, user_path
from judgebench.types import Array, Generation, Prompt, Record, Row
from judgebench.words.errors import UserError, reason, shown

_TOLERANCE = 1e-3
"""How far the sum of probabilities may lie from 1."""


@dataclass(kw_only=True)
class OwnJudge(NoModel):
    """A judge that a class of yours is: a dataclass, whose fields are its settings, with `answer`
    or `probabilities`. It runs in this process, and needs no torch.

    A prompt has the rubric's `text`, the `example` with its `source` and `output`, and the
    `condition`, whose `range` has the `candidates` as texts and their `values`.

    Args:
        title: what tables call it; None takes the name of the class.

    Example:
        @dataclass
        class Length(OwnJudge):
            most: int = 100

            def answer(self, prompt):
                highest = prompt.condition.range.maximum
                return str(min(highest, highest * len(prompt.example.output) // self.most))

    Raises:
        UserError: a class that has neither method, or stands in no file.
    """

    title: str | None = None

    def __post_init__(self) -> None:
        if not (self._defines("answer") or self._defines("probabilities")):
            raise UserError(
                f"judge: {self._called} says nothing of a text; define answer(self, prompt), which "
                "gives a text, or probabilities(self, prompt), a number for each of "
                "prompt.condition.range.candidates."
            )
        if self.title is not None and not (isinstance(self.title, str) and self.title.strip()):
            raise UserError(
                f"judge.title: {shown(self.title)} is no name; give text, or null for the class's."
            )

    def answer(self, prompt: Prompt) -> str:
        """The judge's answer in words, which is parsed as a model's is."""
        raise NotImplementedError("it gives no answer in words, which a defense asks for")

    def probabilities(self, prompt: Prompt) -> Sequence[float] | Array:
        """[candidates] probability of each of `prompt.condition.range.candidates`, 1 together."""
        raise NotImplementedError("it gives no probabilities")

    def files(self) -> Iterable[str | Path]:
        """Files besides the class's own on which answers depend, as that of a trained model: a
        judge card states the SHA-256 of all."""
        return ()

    @property
    def mode(self) -> str:
        """`score_tokens` of a judge with probabilities, else `generate`."""
        return "score_tokens" if self._defines("probabilities") else "generate"

    @property
    def name(self) -> str:
        return self.title or type(self).__name__

    @property
    def capabilities(self) -> frozenset[str]:
        return frozenset({OWN, PROBABILITIES if self.mode == "score_tokens" else GENERATION})

    @property
    def source(self) -> AnswerFile:
        """The file of the class; its prompts are the rubric's plain text."""
        try:
            return AnswerFile(Path(inspect.getfile(type(self))), self.name)
        except (TypeError, OSError) as error:
            raise UserError(
                f"judge: {self._called} stands in no file, so that nobody else could use it; write "
                "it into one."
            ) from error

    def reader(self, *asked: Any) -> BaseReader:
        return OwnReader(*asked)

    def sha256(self) -> str:
        """Digest of all that answers depend on: the class's file, its settings, and `files`."""
        settings = json.dumps(dataclasses.asdict(self), sort_keys=True, default=str)
        digest = hashlib.sha256(settings.encode())
        for file in (self.source.path, *map(user_path, self.files())):
            digest.update(sha256_of(file).encode())
        return digest.hexdigest()

    @property
    def _called(self) -> str:
        return f"{type(self).__module__}.{type(self).__qualname__}"

    def _defines(self, method: str) -> bool:
        return getattr(type(self), method) is not getattr(OwnJudge, method)


class OwnReader(BaseReader):
    """Asks a judge of one's own about each prompt. Nothing is stored: it is asked again in every
    run."""

    judge: OwnJudge
    origin = "none: a class of one's own"

    @property
    def fingerprints(self) -> dict[str, Row]:
        return {"main": {"title": self.judge.name, "sha256": self.judge.sha256()}}

    def said(self, prompt: Prompt, how: Generation | None) -> Record:
        """See `BaseReader.said`; `UserError` where the class fails on a prompt, or says what is no
        answer."""
        if how is None:
            shares, seconds = self._asked_about(prompt, self.judge.probabilities)
            return {"main_logprobs": self._logprobs(prompt, shares), "seconds": seconds}
        text, seconds = self._asked_about(prompt, self.judge.answer)
        if not isinstance(text, str):
            raise self._fault(prompt, f"answer gives {shown(text)}, which is no text")
        return {"text": text, "seconds": seconds}

    def _ways(self, reasoned: bool) -> list[tuple[Generation, Decoding]]:
        """It answers in one way, whatever decodings there are."""
        return super()._ways(reasoned)[:1]

    def _asked_about(self, prompt: Prompt, method: Callable[[Prompt], Any]) -> tuple[Any, float]:
        """The answer of a method of the class to a prompt, and the seconds that it took."""
        began = time.perf_counter()
        try:
            said = method(prompt)
        except Exception as error:
            # the line of the class's own file in which it failed, the innermost
            frames = traceback.extract_tb(error.__traceback__)
            own = [
                frame.lineno for frame in frames if frame.filename == str(self.judge.source.path)
            ]
            line = f" in line {own[-1]}" if own else ""
            raise self._fault(
                prompt,
                f"{method.__name__} fails{line} with {type(error).__name__} ({reason(error)})",
                "; HYDRA_FULL_ERROR=1 in front of the command shows where",
            ) from error
        return said, time.perf_counter() - began

    def _logprobs(self, prompt: Prompt, shares: Any) -> tuple[float, ...]:
        """[candidates] log-probabilities, once the probabilities are checked."""
        candidates = prompt.condition.range.candidates
        try:
            values = np.asarray(shares, dtype=np.float64)
        except (TypeError, ValueError):
            values = np.empty(0)
        fault = None
        if values.shape != (len(candidates),):
            fault = f"which are not {len(candidates)} numbers, one for each of {shown(candidates)}"
        elif not np.isfinite(values).all() or (values < 0).any():
            fault = "of which one is no probability"
        elif abs(values.sum() - 1) > _TOLERANCE:
            fault = f"whose sum is {values.sum():.4g} and not 1"
        if fault is not None:
            raise self._fault(prompt, f"probabilities gives {shown(shares)}, {fault}")
        with np.errstate(divide="ignore"):
            return tuple(np.log(values / values.sum()).tolist())

    def _fault(self, prompt: Prompt, fault: str, more: str = "") -> UserError:
        """The mistake of the class about a prompt."""
        judge = self.judge
        return UserError(
            f"judge: {judge._called} ({judge.source.path}): about example "
            f"{prompt.example.example_id} ({prompt.condition}) {fault}; mend the class{more}."
        )
