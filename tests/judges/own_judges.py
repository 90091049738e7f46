"""Judges of one's own, as tests name them by `_target_`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from judgebench.judges.own import OwnJudge


@dataclass
class Dictionary(OwnJudge):
    """Rates a text by the words in it that it knows, each from 0 to 1."""

    words: Mapping[str, float]

    def answer(self, prompt: Any) -> Any:
        values = [self.words[word] for word in re.findall(r"\w+", prompt.example.output.lower()) if word in self.words]
        scores = prompt.condition.range
        share = sum(values) / len(values) if values else 0.5
        return str(round(scores.minimum + share * (scores.maximum - scores.minimum)))


@dataclass
class Likely(Dictionary):
    """The same, with a probability of each score."""

    def probabilities(self, prompt: Any) -> Sequence[float]:
        values = np.array(prompt.condition.range.values)
        near = np.exp(-abs(values - float(self.answer(prompt))))
        return (near / near.sum()).tolist()


@dataclass
class Gives(OwnJudge):
    """Says what it is told to."""

    what: Any = None

    def probabilities(self, prompt: Any) -> Any:
        return prompt.nowhere if self.what == "fail" else self.what


@dataclass
class Says(Gives):
    """The same, in words."""

    probabilities = OwnJudge.probabilities

    def answer(self, prompt: Any) -> Any:
        return prompt.nowhere if self.what == "fail" else self.what


class Silent(OwnJudge):
    """Has neither method."""
