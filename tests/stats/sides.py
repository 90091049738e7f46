"""A judge beside humans as studies take it, made by hand."""

from __future__ import annotations

import numpy as np

from judgebench.decoding.rules import Expectation
from judgebench.stats.scores import Cell, Sample


def cell(judge="main", decoding="expectation", lambda_=None, temperature=None, ends=(1.0, 5.0), dimension="coherence"):
    return Cell("test", dimension, *ends, 1.0, "none", "none", judge, decoding, lambda_, temperature)


def side(logprobs=None, scores=None, groups=12, **more) -> Sample:
    """60 texts of twelve articles and five systems, three raters from 1 to 5, and a judge that knows them a little."""
    rng = np.random.default_rng(0)
    quality = np.clip(np.round(rng.normal(3, 1, (60, 1)) + rng.normal(0, 0.6, (60, 3))), 1, 5)
    if logprobs is None:
        made = -0.8 * np.abs(np.arange(1, 6) - quality[:, :1] - rng.normal(0, 1, (60, 1)))
        logprobs = {"main": made - np.log(np.exp(made).sum(axis=1, keepdims=True)) - 0.1}
    if scores is None:
        scores = Expectation().scores(logprobs["main"], None, np.arange(1.0, 6.0))
    given = {
        "dataset": "made",
        "cell": cell(),
        "names": np.array([f"t{i}" for i in range(60)]),
        "groups": np.array([f"g{i % groups}" for i in range(60)]),
        "systems": np.array([f"M{i // 12}" for i in range(60)]),
        "ratings": quality,
        "raters": ("ann", "bob", "cid"),
        "scale": (1.0, 5.0),
        "over_vocabulary": ("main", "assistant"),
        "texts": ["word " * (1 + i % 7) for i in range(60)],
        "model": "gpt-4o",
        "resamples": 40,
    }
    return Sample(**(given | {"logprobs": logprobs, "scores": scores} | more))
