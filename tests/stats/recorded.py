"""The recorded judges and experts of SummEval, as columns; tests skip where they are absent."""

import json
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

from tests.conftest import SHARED

RECORDED = SHARED / "tasks" / "recorded_judges_summeval.json"
needs_recorded = pytest.mark.skipif(not RECORDED.is_file(), reason="the recorded judges are not there")
DIMENSIONS = ("coherence", "consistency", "fluency", "relevance")


class Recorded(NamedTuple):
    """960 texts of one dimension: 60 articles x 16 systems."""

    raters: np.ndarray  # [960, 3]
    judge: np.ndarray
    groups: np.ndarray
    systems: np.ndarray

    @property
    def human(self) -> np.ndarray:
        return self.raters.mean(axis=1)


@cache
def _loaded() -> dict:
    return json.loads(RECORDED.read_text("utf-8"))


def judges() -> list[str]:
    return sorted(_loaded()["judges"])


def recorded(dimension: str, judge: str) -> Recorded:
    data = _loaded()
    keys = sorted(key for key in data["experts"]["e0"] if key.endswith(f"__{dimension}"))
    groups, systems, _ = zip(*(key.split("__") for key in keys), strict=True)
    raters = np.array([[one[key] for one in data["experts"].values()] for key in keys], dtype=float)
    scores = np.array([data["judges"][judge][key] for key in keys], dtype=float)
    return Recorded(raters, scores, np.array(groups), np.array(systems))
