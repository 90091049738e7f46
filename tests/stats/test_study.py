"""What holds for all studies: of any data they make records of JSON, with a reason where a number is unknown."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from judgebench.pipeline import STUDIES
from tests.stats.sides import cell, side

NAN = np.nan
RNG = np.random.default_rng(3)
WHOLE = side()
MAIN = np.log(RNG.dirichlet(np.ones(5), 60)) - 0.2


def cut(count):
    """The first texts of `WHOLE`."""
    parts = {name: getattr(WHOLE, name)[:count] for name in ("names", "groups", "systems", "scores", "ratings")}
    return replace(WHOLE, **parts, logprobs={"main": MAIN[:count]}, texts=["a"] * count)


ODD = {
    "generated answers": {"logprobs": {}, "scores": np.full(60, 3.0)},
    "no assistant": {"logprobs": {"main": MAIN}, "cell": cell("pair", "contrastive", 0.5, 1.0)},
    "nobody rated": {"ratings": np.full((60, 1), NAN), "raters": ()},
    "raters without a rating": {"ratings": np.full((60, 3), NAN)},
    "one rated text": {"ratings": np.where(np.arange(60)[:, None] == 7, WHOLE.ratings, NAN)},
    "a part is rated": {"ratings": np.where(np.arange(60)[:, None] % 12 < 6, WHOLE.ratings, NAN)},
    "means alone": {"ratings": WHOLE.human[:, None], "raters": ()},
    "no scale": {"scale": None},
    "a scale of no length": {"scale": (3.0, 3.0), "ratings": np.full((60, 3), 3.0)},
    "one group": {"groups": 1},
    "one system": {"systems": np.full(60, "s")},
    "a system each": {"systems": np.arange(60).astype(str)},
    "a constant judge": {"logprobs": {"main": np.log(np.full((60, 5), 0.2))}, "scores": np.full(60, 3.0)},
    "constant humans": {"ratings": np.full((60, 3), 4.0)},
    "rows without an answer": {"logprobs": {"main": np.full((60, 5), -np.inf)}},
    "ragged": {"ratings": np.where(RNG.random((60, 3)) < 0.5, NAN, WHOLE.ratings)},
    "certain": {"logprobs": {"main": np.where(np.eye(5)[np.arange(60) % 5] > 0, 0.0, -np.inf)}},
    "no texts": {"texts": ()},
    "no name": {"model": None},
}


REASONS = {
    "beside_humans": {
        "mae": "points_reason",
        "winning_rate": "alternative_reason",
        "reliability": "disattenuated_reason",
    },
    "variance": {"texts_share": "reason"},
    "systems": {"pairwise_accuracy": "reason", "pairwise_others": "pairwise_reason", "error": "error_reason"},
    "forecasts": {"rps": "reason", "mass": "mass_reason", "coverage": "coverage_reason", "risk": "risk_reason"},
    "errors": {"bias": "reason"},
    "few_labels": {"narrower": "reason"},
}
"""Figures of each study -> where the reason stands if one is None."""


@pytest.mark.parametrize("study", STUDIES)
@pytest.mark.parametrize("odd", ODD)
def test_odd_data_have_reasons_and_no_nan(study, odd):
    records = STUDIES[study]([side(**ODD[odd])])
    json.dumps(records, allow_nan=False)
    for record in records:
        for figure, reason in REASONS[study].items():
            assert record.get(figure, 0) is not None or record[reason], figure


@pytest.mark.parametrize("study", STUDIES)
@pytest.mark.parametrize("count", [0, 1, 2])
def test_so_few_texts_are_no_mistake(study, count):
    json.dumps(STUDIES[study]([cut(count)] if count else []), allow_nan=False)
