"""A judge of one's own: a class in a file, which answers prompts by itself."""

from __future__ import annotations

import hashlib
import inspect
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from judgebench.judges.precomputed.replay import AnswerFile
from judgebench.judges.reader import BaseReader
from judgebench.judges.spec import GENERATION, OWN, PROBABILITIES, NoModel
from judgebench.types import Generation, Prompt, Reading, Row, Split


@dataclass(frozen=True, kw_only=True)
class OwnJudge(NoModel):
    """Base of a judge of one's own: settings, and `answer` or `probabilities`.

    Example:
        @dataclass(frozen=True, kw_only=True)
        class Dictionary(OwnJudge):
            words: Mapping[str, float]

            def answer(self, prompt): ...
    """

    title: str | None = None
    path: ClassVar[str | None] = None

    @property
    def mode(self) -> str:
        own = type(self).probabilities is not OwnJudge.probabilities
        return "score_tokens" if own else "generate"

    @property
    def name(self) -> str:
        return self.title or type(self).__name__

    @property
    def capabilities(self) -> frozenset[str]:
        return frozenset({OWN, PROBABILITIES if self.mode == "score_tokens" else GENERATION})

    @property
    def source(self) -> AnswerFile:
        return AnswerFile(Path(inspect.getfile(type(self))), self.name)

    def reader(self, *asked: Any) -> BaseReader:
        return OwnReader(*asked)

    def answer(self, prompt: Prompt) -> str:
        """What it answers in words."""
        raise NotImplementedError

    def probabilities(self, prompt: Prompt) -> Sequence[float]:
        """Of each of `prompt.condition.range.candidates`, 1 together."""
        raise NotImplementedError


class OwnReader(BaseReader):
    """Asks a judge of one's own; what costs nothing is not stored."""

    origin = "a judge of one's own"

    @property
    def fingerprints(self) -> dict[str, Row]:
        # the class's file and its settings
        known = f"{self.judge.source.sha256()} {self.judge!r}"
        return {
            "main": {"title": self.judge.name, "sha256": hashlib.sha256(known.encode()).hexdigest()}
        }

    def readings(self, split: Split) -> list[Reading]:
        import numpy as np

        readings = []
        for prompt in self._scored:
            began = time.perf_counter()
            shares = np.log(np.asarray(self.judge.probabilities(prompt), np.float32))
            seconds = time.perf_counter() - began
            readings.append(
                self._reading(prompt, split[prompt.example.group_id], shares, None, seconds)
            )
        for prompts, _, reasoned in self._asked:
            for prompt in prompts:
                began = time.perf_counter()
                text = self.judge.answer(prompt)
                how = Generation("main", next(iter(self.of.decodings)), reasoned=reasoned)
                part = split[prompt.example.group_id]
                seconds = time.perf_counter() - began
                readings.append(Reading(prompt, part, text=text, generation=how, seconds=seconds))
        return readings
