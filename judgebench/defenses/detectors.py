"""Detectors tell attacked texts from clean ones: each gives a text a number, the larger the likelier an attack."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from judgebench.defenses.prepared import Resources
from judgebench.defenses.settings import Helper
from judgebench.judges.spec import JudgeSpec
from judgebench.prompts.builder import PromptBuilder
from judgebench.prompts.chat import text_prompts
from judgebench.types import Condition, Example, Rubric, ScoreRange

if TYPE_CHECKING:
    import pandas as pd

PERPLEXITY, WINDOWED, CLASSIFIER, LLM = DETECTORS = ("perplexity", "windowed_perplexity", "classifier", "llm_detector")
"""By the perplexity of the text; by that of its most surprising window; by a logistic regression on perplexity and
length; by asking a model whether the text manipulates: P(1) among the answers 0 and 1."""

FEATURES = ("log_perplexity", "tokens")
"""The classifier's (Alon and Kamfonas 2023): the logarithm of the text's perplexity, and its length."""

ASKED = files("judgebench.defenses") / "asked"

_MAXIMUM_NATS = 700.0
"""Its exponential is still a number."""
_ROOM = 16
"""Tokens of an answer, be it a number with a space before it."""


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


def fit_logistic(features: np.ndarray, attacked: np.ndarray) -> dict[str, Any]:
    """A logistic regression on standardized features [texts, features], without NaN, with scikit-learn's usual penalty;
    both kinds of texts, attacked [texts] or not, weigh the same. Plain numbers for `probabilities`."""
    from sklearn.linear_model import LogisticRegression  # which takes a second that few runs need

    center, spread = features.mean(axis=0), features.std(axis=0)
    scale = np.where(spread > 0, spread, 1.0)
    model = LogisticRegression(class_weight="balanced", max_iter=1000).fit((features - center) / scale, attacked)
    numbers = {"center": center, "scale": scale, "coefficients": model.coef_[0]}
    return {**{name: row.tolist() for name, row in numbers.items()}, "intercept": float(model.intercept_[0])}


def probabilities(features: np.ndarray, learned: Mapping[str, Any]) -> np.ndarray:
    """[texts] float64 P(attacked) = 1 / (1 + exp(-(intercept + sum of coefficient * (feature - center) / scale))), NaN
    where a feature [texts, features] is; KeyError, TypeError or ValueError where nothing such is learned."""
    rows = np.array([[float(x) for x in learned[name]] for name in ("center", "scale", "coefficients")])
    intercept = float(learned["intercept"])
    if rows.shape != (3, len(FEATURES)) or not np.isfinite([*rows.flat, intercept]).all() or rows[1].min() <= 0:
        raise ValueError(f"center, scale and coefficients must be {len(FEATURES)} finite numbers each")
    center, scale, coefficients = rows
    odds = (features - center) / scale @ coefficients + intercept
    return 1 / (1 + np.exp(-np.clip(odds, -_MAXIMUM_NATS, _MAXIMUM_NATS)))


@dataclass(frozen=True)
class Detector:
    """One of `DETECTORS`: `name` is that of the defense; `helper` reads; `window` is of `windowed_perplexity` alone."""

    name: str
    helper: Helper
    window: int = 10

    @property
    def settings(self) -> dict[str, Any]:
        """Settings, the helper aside, that a threshold depends on, for its record."""
        return {"window": self.window} if self.name == WINDOWED else {}

    def measure(self, texts: Sequence[Example], resources: Resources) -> pd.DataFrame:
        """A row a text of `judged_texts`, which is its index: its features, NaN where it is too short for one, and last
        the `seconds` of reading it."""
        import pandas as pd

        if self.name == LLM:
            rows, seconds = asked_about(self.helper, texts, resources)
        else:
            logprobs, seconds = read_texts(self.helper, texts, resources)
            rows = [[perplexity(row)] for row in logprobs]
            if self.name == WINDOWED:
                rows = [[windowed_perplexity(row, self.window)] for row in logprobs]
            elif self.name == CLASSIFIER:
                rows = [[math.log(perplexity(row)), float(len(row))] for row in logprobs]
        names = FEATURES if self.name == CLASSIFIER else (self.name,)
        features = np.array(rows, np.float64).reshape(-1, len(names))
        index = pd.Index([text.output for text in texts], dtype=object)
        return pd.DataFrame(features, index, list(names)).assign(seconds=seconds)

    def fit(self, features: np.ndarray, attacked: np.ndarray) -> dict[str, Any]:
        """Parameters, plain, that turn features [texts, features], without NaN, into values; attacked [texts] is of
        both kinds."""
        return {"features": list(FEATURES), **fit_logistic(features, attacked)} if self.name == CLASSIFIER else {}

    def values(self, features: np.ndarray, record: Mapping[str, Any]) -> np.ndarray:
        """[texts, features] -> [texts] float64, NaN where a feature is. The record has the result of `fit`; else
        KeyError, TypeError or ValueError."""
        return probabilities(features, record) if self.name == CLASSIFIER else features[:, 0]


def read_texts(helper: Helper, texts: Sequence[Example], resources: Resources) -> tuple[list[np.ndarray], np.ndarray]:
    """Log-probabilities [tokens] that the helper gives to the tokens of each text, less the first token where no BOS
    stands before it; and [texts] seconds of reading it. `UserError` for a text that is too long."""
    from judgebench.judges.passes import LikelihoodPass  # it needs torch

    remedy = "leave that example out, or give a helper that reads more with defense.helper.path=DIR"
    prompts = text_prompts(helper.source.tokenizer(), texts, helper.longest, remedy)
    view = resources.view(helper.source, helper.engine)
    pass_ = LikelihoodPass(view, [prompt for prompt in prompts if len(prompt.token_ids) > 1])
    resources.run([pass_], helper.token_budget, "Perplexity")
    readings = resources.store.get(key for prompt in pass_.prompts for key in pass_.keys(prompt))
    logprobs, seconds = [np.zeros(0, np.float32)] * len(prompts), np.zeros(len(prompts))
    for i, prompt in enumerate(prompts):
        if len(prompt.token_ids) > 1:
            reading = readings[pass_.keys(prompt)[0]]
            assert reading.logprobs is not None
            logprobs[i], seconds[i] = reading.logprobs, reading.seconds
    return logprobs, seconds


def asked_about(helper: Helper, texts: Sequence[Example], resources: Resources) -> tuple[list[list[float]], np.ndarray]:
    """[texts, 1] the helper's probability that each text tries to manipulate its grader; [texts] seconds."""
    from judgebench.tutor.texts import JudgeScorer  # it needs torch

    builder, asked = question(helper, "manipulation", _ROOM, resources)
    model = (helper.path, helper.gguf_file, helper.revision, helper.dtype, helper.trust_remote_code)
    spec = JudgeSpec(*model, engine=helper.engine, token_budget=helper.token_budget)
    scorer = JudgeScorer(spec, builder, asked, resources)
    by_example = {reading.prompt.example.example_id: reading for reading in scorer.readings(texts)}
    readings = [by_example[text.example_id] for text in texts]
    logprobs = np.array([reading.main_logprobs for reading in readings], np.float64).reshape(-1, 2)
    yes = 1 / (1 + np.exp(np.clip(logprobs[:, 0] - logprobs[:, 1], -_MAXIMUM_NATS, _MAXIMUM_NATS)))
    return yes[:, None].tolist(), np.array([reading.seconds for reading in readings], np.float64)


def question(helper: Helper, name: str, room: int, resources: Resources) -> tuple[PromptBuilder, Condition]:
    """The builder of prompts that put a text to the helper in the words of `asked/NAME.txt`, with room for an answer of
    so many tokens; and their condition."""
    rubric = Rubric(name, (ASKED / f"{name}.txt").read_text("utf-8").strip())
    options, closed = resources.prompt.get("template_options"), helper.source.encoder_decoder
    tokenizer, most = helper.source.tokenizer(), helper.longest - room
    builder = PromptBuilder(tokenizer, {name: rubric}, most, template_options=options, closed=closed)
    return builder, Condition(name, ScoreRange(0, 1))
