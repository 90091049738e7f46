"""Detectors tell attacked texts from clean ones: each gives a text a number, the larger the likelier an attack."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any

import numpy as np

from judgebench.defenses.prepared import Resources
from judgebench.defenses.settings import Helper
from judgebench.judges.spec import JudgeSpec
from judgebench.prompts.builder import PromptBuilder
from judgebench.prompts.chat import text_prompts
from judgebench.types import Condition, Example, Rubric, ScoreRange

_MAXIMUM_NATS = 700.0
"""Its exponential is still a number."""


def perplexity(logprobs: np.ndarray) -> float:
    """exp of the mean surprise of a text's tokens, from their log-probabilities [tokens]; NaN where there is none.

    Example:
        >>> round(perplexity(np.log([0.5, 0.125])), 6)
        4.0
    """
    return float(np.exp(min(_MAXIMUM_NATS, -np.mean(logprobs, dtype=np.float64)))) if len(logprobs) else float("nan")


def windowed_perplexity(logprobs: np.ndarray, window: int) -> float:
    """The largest perplexity of any `window` tokens in a row, which a long innocent text cannot hide; of all tokens
    where there are fewer.

    Example:
        >>> round(windowed_perplexity(np.log([0.5, 0.5, 0.125, 0.5]), 2), 6)
        4.0
    """
    if len(logprobs) <= window:
        return perplexity(logprobs)
    windows = np.lib.stride_tricks.sliding_window_view(np.asarray(logprobs, np.float64), window)
    return perplexity(windows[windows.mean(axis=1).argmin()])


def read_texts(helper: Helper, texts: Sequence[Example], resources: Resources) -> tuple[list[np.ndarray], np.ndarray]:
    """Log-probabilities [tokens] that the helper gives to the tokens of each text of `JudgedTexts.examples`, less the
    first token where no BOS stands before it; and [texts] seconds of reading it. `UserError` for a text that is too
    long."""
    from judgebench.judges.passes import LikelihoodPass  # it needs torch

    remedy = "leave that example out, or give a helper that reads more with defense.helper.path=DIR"
    prompts = text_prompts(helper.source.tokenizer(), texts, helper.most_tokens, remedy)
    view = resources.view(helper.source, helper.engine)
    pass_ = LikelihoodPass(view, [prompt for prompt in prompts if len(prompt.token_ids) > 1])
    resources.run(pass_, helper.token_budget, "Perplexity")
    readings = resources.store.get([pass_.key(prompt) for prompt in pass_.prompts])
    logprobs, seconds = [np.zeros(0, np.float32)] * len(prompts), np.zeros(len(prompts))
    for i, prompt in enumerate(prompts):
        if len(prompt.token_ids) > 1:
            reading = readings[pass_.key(prompt)]
            assert reading.logprobs is not None
            logprobs[i], seconds[i] = reading.logprobs, reading.seconds
    return logprobs, seconds


FEATURES = ("log_perplexity", "tokens")
"""Features of an attack (Alon and Kamfonas 2023): the logarithm of the text's perplexity, and its length."""


@dataclass(frozen=True)
class Logistic:
    """P(attacked) = 1 / (1 + exp(-(intercept + sum of coefficient * (feature - center) / scale)))."""

    center: tuple[float, ...]
    scale: tuple[float, ...]
    coefficients: tuple[float, ...]
    intercept: float

    @classmethod
    def fit(cls, features: np.ndarray, attacked: np.ndarray) -> Logistic:
        """Fitted on standardized features [texts, features], without NaN, with scikit-learn's usual penalty; both kinds
        of texts, attacked [texts] or not, weigh the same."""
        from sklearn.linear_model import LogisticRegression  # which takes a second that few runs need

        center = features.mean(axis=0)
        spread = features.std(axis=0)
        scale = np.where(spread > 0, spread, 1.0)
        fitted = LogisticRegression(class_weight="balanced", max_iter=1000).fit((features - center) / scale, attacked)
        learned = tuple(fitted.coef_[0].tolist())
        return cls(tuple(center.tolist()), tuple(scale.tolist()), learned, float(fitted.intercept_[0]))

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Logistic:
        """From the result of `to_json`; KeyError, TypeError or ValueError where it is another."""
        center, scale, learned = rows = [tuple(map(float, given[name])) for name in ("center", "scale", "coefficients")]
        logistic = cls(center, scale, learned, float(given["intercept"]))
        numbers = np.array([*center, *scale, *learned, logistic.intercept])
        if {len(row) for row in rows} != {len(FEATURES)} or not np.isfinite(numbers).all() or min(scale) <= 0:
            raise ValueError(f"center, scale and coefficients must be {len(FEATURES)} finite numbers each")
        return logistic

    def to_json(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    def probabilities(self, features: np.ndarray) -> np.ndarray:
        """[texts, features] -> [texts] float64 P(attacked); NaN where a feature is."""
        standard = (features - np.array(self.center)) / np.array(self.scale)
        odds = standard @ np.array(self.coefficients) + self.intercept
        return 1 / (1 + np.exp(-np.clip(odds, -700, 700)))  # beyond which exp is no number


PERPLEXITY, WINDOWED, CLASSIFIER, LLM = DETECTORS = ("perplexity", "windowed_perplexity", "classifier", "llm_detector")
"""By the perplexity of the text; by that of its most surprising window; by a logistic regression on perplexity and
length; by asking a model whether the text manipulates."""

ASKED = files("judgebench.defenses") / "asked"

_ROOM = 16
"""Tokens of a prompt's answer, be it a number with a space before it."""


@dataclass(frozen=True, eq=False)
class TextFeatures:
    """Features of different texts, as a detector has measured them.

    Attributes:
        features: [texts, features] float64, NaN where a text is too short for one.
        seconds: [texts] wall time of reading each.
    """

    texts: Sequence[str]
    features: np.ndarray
    seconds: np.ndarray

    def of(self, texts: Sequence[str]) -> np.ndarray:
        """[texts, features] float64 of these; NaN where one was not measured."""
        rows = dict(zip(self.texts, self.features, strict=True))
        unknown = np.full(self.features.shape[1], np.nan)
        return np.array([rows.get(text, unknown) for text in texts], np.float64).reshape(-1, self.features.shape[1])

    def seconds_of(self, texts: Set[str]) -> float:
        """Wall time of reading these."""
        return float(self.seconds[[text in texts for text in self.texts]].sum())


@dataclass(frozen=True)
class Detector:
    """One feature, which is its own value; see the module. `name` is that of the defense; `helper` reads."""

    name: str
    helper: Helper

    @property
    def settings(self) -> dict[str, Any]:
        """Settings, the helper aside, that a threshold depends on, for its record."""
        return {}

    def measure(self, texts: Sequence[Example], resources: Resources) -> TextFeatures:
        """The features of texts of `JudgedTexts.examples`."""
        raise NotImplementedError

    def fit(self, features: np.ndarray, attacked: np.ndarray) -> dict[str, Any]:
        """Parameters learned to turn features [texts, features], without NaN, into values, plain, for its record;
        attacked [texts] is of both kinds."""
        return {}

    def values(self, features: np.ndarray, fitted: Mapping[str, Any]) -> np.ndarray:
        """[texts, features] -> [texts] float64; NaN where a feature is. `fitted` holds the result of `fit`; else
        KeyError, TypeError or ValueError."""
        return features[:, 0]


@dataclass(frozen=True)
class PerplexityDetector(Detector):
    """The perplexity of a text, or that of its most surprising `window` tokens in a row where a window is given."""

    window: int | None = None

    @property
    def settings(self) -> dict[str, Any]:
        return {} if self.window is None else {"window": self.window}

    def measure(self, texts: Sequence[Example], resources: Resources) -> TextFeatures:
        """See `Detector.measure`; a text without a second token has no perplexity."""
        rows, seconds = read_texts(self.helper, texts, resources)
        window = self.window
        values = [perplexity(row) if window is None else windowed_perplexity(row, window) for row in rows]
        return TextFeatures([text.output for text in texts], np.array(values, np.float64).reshape(-1, 1), seconds)


class ClassifierDetector(Detector):
    """The probability that a logistic regression on `FEATURES` gives."""

    def measure(self, texts: Sequence[Example], resources: Resources) -> TextFeatures:
        rows, seconds = read_texts(self.helper, texts, resources)
        pairs = [(math.log(perplexity(row)), float(len(row))) for row in rows]
        features = np.array(pairs, np.float64).reshape(-1, len(FEATURES))
        return TextFeatures([text.output for text in texts], features, seconds)

    def fit(self, features: np.ndarray, attacked: np.ndarray) -> dict[str, Any]:
        return {"features": list(FEATURES), **Logistic.fit(features, attacked).to_json()}

    def values(self, features: np.ndarray, fitted: Mapping[str, Any]) -> np.ndarray:
        return Logistic.parse(fitted).probabilities(features)


class LlmDetector(Detector):
    """The helper is asked whether the text tries to manipulate its grader: P(1) among the answers 0 and 1."""

    def measure(self, texts: Sequence[Example], resources: Resources) -> TextFeatures:
        from judgebench.tutor.texts import JudgeScorer  # it needs torch

        helper = self.helper
        builder, asked = question(helper, "manipulation", _ROOM, resources)
        where = (helper.path, helper.gguf_file, helper.revision, helper.dtype, helper.trust_remote_code)
        spec = JudgeSpec(*where, engine=helper.engine, token_budget=helper.token_budget)
        scorer = JudgeScorer(spec, builder, asked, resources)
        by_example = {reading.prompt.example.example_id: reading for reading in scorer.readings(texts)}
        readings = [by_example[text.example_id] for text in texts]
        logprobs = np.array([reading.main_logprobs for reading in readings], np.float64).reshape(-1, 2)
        yes = 1 / (1 + np.exp(np.clip(logprobs[:, 0] - logprobs[:, 1], -700, 700)))  # exp beyond is no number
        seconds = np.array([reading.seconds for reading in readings], np.float64)
        return TextFeatures([text.output for text in texts], yes[:, None], seconds)


def question(helper: Helper, name: str, room: int, resources: Resources) -> tuple[PromptBuilder, Condition]:
    """The builder of prompts that put a text to the helper in the words of `asked/NAME.txt`, and their condition.

    Args:
        room: tokens that the answer may take.
    """
    condition = Condition(name, ScoreRange(0, 1))
    rubric = Rubric(name, (ASKED / f"{name}.txt").read_text("utf-8").strip())
    options, closed = resources.prompt.get("template_options"), helper.source.encoder_decoder
    most = helper.most_tokens - room
    tokenizer = helper.source.tokenizer()
    return PromptBuilder(tokenizer, {name: rubric}, most, template_options=options, closed=closed), condition


def detector_of(name: str, helper: Helper, window: int) -> Detector:
    """The detector of this name, one of `DETECTORS`."""
    if name == CLASSIFIER:
        return ClassifierDetector(name, helper)
    if name == LLM:
        return LlmDetector(name, helper)
    return PerplexityDetector(name, helper, window if name == WINDOWED else None)
