"""Ways to tell attacked texts from clean ones: each gives a text a number that is the larger the likelier an attack."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np

from judgebench.defenses.logistic import FEATURES, Logistic
from judgebench.defenses.perplexity import perplexity, read_texts, windowed_perplexity
from judgebench.defenses.planned import Means
from judgebench.defenses.settings import Helper
from judgebench.judges.spec import JudgeSpec
from judgebench.prompts.builder import PromptBuilder
from judgebench.tutor.scoring import JudgeScorer
from judgebench.types import Condition, Example, Rubric, ScoreRange

PERPLEXITY, WINDOWED, CLASSIFIER, LLM = DETECTORS = (
    *("perplexity", "windowed_perplexity", "classifier", "llm_detector"),
)
"""By the perplexity of the text; by that of its most surprising window; by a logistic regression on perplexity and
length; by asking a model whether the text manipulates."""

ASKED = files("judgebench.defenses") / "asked"

_ROOM = 16
"""Tokens of a prompt's answer, be it a number with a space before it."""


@dataclass(frozen=True, eq=False)
class Measured:
    """What is measured of texts.

    Attributes:
        texts: no two alike.
        features: [texts, features] float64, NaN where a text is too short for one.
        seconds: [texts] wall time of reading each.
    """

    texts: Sequence[str]
    features: np.ndarray
    seconds: np.ndarray

    def of(self, texts: Sequence[str]) -> np.ndarray:
        """[texts, features] float64 of these; NaN where one was not measured."""
        places = {text: i for i, text in enumerate(self.texts)}
        unknown = np.full(self.features.shape[1], np.nan)
        rows = [self.features[places[text]] if text in places else unknown for text in texts]
        return np.array(rows, np.float64).reshape(-1, self.features.shape[1])

    def seconds_of(self, texts: Set[str]) -> float:
        """Of reading these together."""
        return float(self.seconds[[text in texts for text in self.texts]].sum())


class Detector:
    """One feature, which is its own value; see the module.

    Attributes:
        name: as a defense.
        helper: who reads.
    """

    name: str
    helper: Helper

    @property
    def settings(self) -> dict[str, Any]:
        """What a threshold holds for beside the helper, for its record."""
        return {}

    def measure(self, texts: Sequence[Example], means: Means) -> Measured:
        """The features of texts, [texts, features].

        Args:
            texts: of `JudgedTexts.examples`.
        """
        raise NotImplementedError

    def fit(self, features: np.ndarray, attacked: np.ndarray) -> dict[str, Any]:
        """What must be learned to turn features into values, plain, for its record.

        Args:
            features: [texts, features] without NaN, of training data.
            attacked: [texts] bool, of both kinds.
        """
        return {}

    def values(self, features: np.ndarray, fitted: Mapping[str, Any]) -> np.ndarray:
        """[texts, features] -> [texts] float64; NaN where a feature is.

        Args:
            fitted: what `fit` gives, or a record that holds it.

        Raises:
            KeyError, TypeError, ValueError: it does not hold it.
        """
        return features[:, 0]


@dataclass(frozen=True)
class PerplexityDetector(Detector):
    """The perplexity of a text, or that of its most surprising `window` tokens in a row where a window is given."""

    name: str
    helper: Helper
    window: int | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """See `Detector.settings`."""
        return {} if self.window is None else {"window": self.window}

    def measure(self, texts: Sequence[Example], means: Means) -> Measured:
        """See `Detector.measure`; a text without a second token has no perplexity."""
        rows, seconds = read_texts(self.helper, texts, means)
        window = self.window
        found = [perplexity(row) if window is None else windowed_perplexity(row, window) for row in rows]
        return Measured([text.output for text in texts], np.array(found, np.float64).reshape(-1, 1), seconds)


@dataclass(frozen=True)
class ClassifierDetector(Detector):
    """The probability that a logistic regression on `FEATURES` gives."""

    name: str
    helper: Helper

    def measure(self, texts: Sequence[Example], means: Means) -> Measured:
        """See `Detector.measure`."""
        rows, seconds = read_texts(self.helper, texts, means)
        found = [(math.log(perplexity(row)), float(len(row))) for row in rows]
        features = np.array(found, np.float64).reshape(-1, len(FEATURES))
        return Measured([text.output for text in texts], features, seconds)

    def fit(self, features: np.ndarray, attacked: np.ndarray) -> dict[str, Any]:
        """See `Detector.fit`."""
        return {"features": list(FEATURES), **Logistic.fit(features, attacked).to_json()}

    def values(self, features: np.ndarray, fitted: Mapping[str, Any]) -> np.ndarray:
        """See `Detector.values`."""
        return Logistic.parse(fitted).probabilities(features)


@dataclass(frozen=True)
class LlmDetector(Detector):
    """The helper is asked whether the text tries to manipulate its grader: P(1) among the answers 0 and 1."""

    name: str
    helper: Helper

    def measure(self, texts: Sequence[Example], means: Means) -> Measured:
        """See `Detector.measure`."""
        helper = self.helper
        asked = Condition("manipulation", ScoreRange(0, 1))
        rubric = Rubric(asked.dimension, (ASKED / "manipulation.txt").read_text("utf-8").strip())
        tokenizer, options = helper.source.tokenizer(), means.prompt.get("template_options")
        builder = PromptBuilder(
            tokenizer,
            {asked.dimension: rubric},
            helper.most_tokens - _ROOM,
            template_options=options,
            closed=helper.source.encoder_decoder,
        )
        where = (helper.path, helper.gguf_file, helper.revision, helper.dtype, helper.trust_remote_code)
        spec = JudgeSpec(*where, engine=helper.engine, token_budget=helper.token_budget)
        scorer = JudgeScorer(spec, builder, asked, means.store, means.data, means.trainer, means.models)
        held = {reading.prompt.example.example_id: reading for reading in scorer.readings(texts)}
        readings = [held[text.example_id] for text in texts]
        logprobs = np.array([reading.main_logprobs for reading in readings], np.float64).reshape(-1, 2)
        yes = 1 / (1 + np.exp(np.clip(logprobs[:, 0] - logprobs[:, 1], -700, 700)))  # exp beyond is no number
        seconds = np.array([reading.seconds for reading in readings], np.float64)
        return Measured([text.output for text in texts], yes[:, None], seconds)


def detector_of(name: str, helper: Helper, window: int) -> Detector:
    """The detector of this name, one of `DETECTORS`."""
    if name == CLASSIFIER:
        return ClassifierDetector(name, helper)
    if name == LLM:
        return LlmDetector(name, helper)
    return PerplexityDetector(name, helper, window if name == WINDOWED else None)
