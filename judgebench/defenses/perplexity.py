"""Perplexity of texts under a helper, whole or window by window (Jain et al. 2023; Alon and Kamfonas 2023)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from judgebench.defenses.planned import Means
from judgebench.defenses.settings import Helper
from judgebench.judges.loop import compute
from judgebench.judges.passes import LikelihoodPass, ModelView
from judgebench.prompts.chat import text_prompts
from judgebench.types import Example

_MOST_NATS = 700.0
"""Its exponential is still a number."""


def perplexity(logprobs: np.ndarray) -> float:
    """exp of the mean surprise of a text's tokens.

    Args:
        logprobs: [tokens] of each token given those before.

    Returns:
        NaN where there is no token.

    Example:
        >>> round(perplexity(np.log([0.5, 0.125])), 6)
        4.0
    """
    return float(np.exp(min(_MOST_NATS, -np.mean(logprobs, dtype=np.float64)))) if len(logprobs) else float("nan")


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


def helper_voice(helper: Helper, means: Means) -> ModelView:
    """The helper, by content."""
    return ModelView(helper.source, helper.source.fingerprint(means.store.file_digest), helper.engine)


def read_texts(helper: Helper, texts: Sequence[Example], means: Means) -> tuple[list[np.ndarray], np.ndarray]:
    """How likely the helper finds the tokens of each text.

    Args:
        texts: of `JudgedTexts.examples`.

    Returns:
        For each text [tokens] float32 log-probabilities, less the first token where no BOS stands before it: none where
        that is the only one. And [texts] seconds of reading it.

    Raises:
        UserError: a text is longer than the helper can read, or the helper cannot be read.
    """
    remedy = "leave that example out, or give a helper that reads more with defense.helper.path=DIR"
    prompts = text_prompts(helper.source.tokenizer(), texts, helper.most_tokens, remedy)
    pass_ = LikelihoodPass(helper_voice(helper, means), [prompt for prompt in prompts if len(prompt.token_ids) > 1])
    compute([pass_], helper.token_budget, means.store, means.models, means.data, means.trainer, "Perplexity")
    keys = [pass_.key(prompt) for prompt in prompts]
    held = means.store.get(keys)
    read = {pass_.key(prompt) for prompt in pass_.prompts}
    found = [held[key].logprobs if key in read else None for key in keys]
    seconds = np.array([held[key].seconds if key in read else 0.0 for key in keys])
    return [np.zeros(0, np.float32) if logprobs is None else logprobs for logprobs in found], seconds
