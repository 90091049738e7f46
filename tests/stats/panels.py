"""Recorded judges and experts, ragged ratings, and resamples built in full: shared by tests of agreement."""

import numpy as np
import pytest

from judgebench.stats.clusters import Clusters
from tests.stats.recorded import RECORDED, judges, recorded

FIVE = np.arange(1.0, 6.0)


def panel(dimension: str) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Ratings [960, 3] of the experts, articles [960], and the scores [960] of each judge."""
    if not RECORDED.is_file():
        pytest.skip("../shared/data/tasks/recorded_judges_summeval.json is not there")
    data = {name: recorded(dimension, name) for name in judges()}
    first = next(iter(data.values()))
    return first.raters, first.groups, {name: columns.judge for name, columns in data.items()}


def ragged(seed: int, texts: int = 60, raters: int = 4, share: float = 0.7) -> tuple[np.ndarray, np.ndarray]:
    """Ratings 1 to 5 [texts, raters] with gaps, and twelve groups; raters differ in severity."""
    rng = np.random.default_rng(seed)
    quality = rng.normal(size=(texts, 1)) + rng.normal(0, 0.4, raters)
    ratings = np.clip(np.round(3 + quality + rng.normal(0, 0.8, (texts, raters))), 1, 5)
    ratings[rng.random(ratings.shape) > share] = np.nan
    return ratings, np.concatenate([np.arange(12), rng.integers(0, 12, texts - 12)])


def built(group: np.ndarray, row: np.ndarray) -> np.ndarray:
    """The texts of a resample, by its weights [G]: each as often as its group was drawn."""
    return np.repeat(np.arange(len(group)), row[group].astype(int))


def alone(texts: int) -> Clusters:
    """All texts in one group, without resamples."""
    return Clusters.of(np.zeros(texts), 0)
