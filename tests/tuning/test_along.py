"""Correlations along a path are those of its scores, computed anew."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy import stats

from judgebench.decoding.path import kappa_path
from judgebench.metrics.correlation import is_constant, kendall, pearson, spearman
from judgebench.tuning.along import constant_along, kendall_along, pearson_along, spearman_along

WAYS = ((pearson_along, pearson), (spearman_along, spearman), (kendall_along, kendall))


@st.composite
def judged(draw):
    """A path and the humans, discrete or not."""
    shape = (draw(st.integers(0, 12)), draw(st.integers(1, 6)))
    cells = st.floats(-20, 0).map(lambda x: float(np.float32(round(x, 2))))
    main, assistant = (draw(npst.arrays(np.float32, shape, elements=cells)) for _ in range(2))
    scores = draw(st.sampled_from([st.integers(1, 3).map(float), st.floats(1, 5)]))
    human = draw(npst.arrays(np.float64, shape[0], elements=scores))
    return kappa_path(main, assistant, np.arange(shape[1]) * 0.5), human


@settings(max_examples=150)
@given(judged())
def test_each_piece_has_the_correlation_of_its_scores(given_):
    path, human = given_
    for along, plain in WAYS:
        found = along(path, human)
        assert found.shape == (len(path),)
        # Pearson's r of humans that differ in the last digits is all rounding
        close = 2.0 if along is pearson_along and len(human) and 0 < np.ptp(human) < 1e-6 else 1e-9
        expected = [plain(scores, human) for scores in path.all_scores()] if len(human) else [0.0]
        assert found == pytest.approx(expected, abs=close)


@given(judged())
def test_each_piece_is_constant_where_its_scores_are(given_):
    path, _ = given_
    assert constant_along(path).tolist() == [is_constant(scores) for scores in path.all_scores()]


def readings(count, candidates, seed=0):
    rng = np.random.default_rng(seed)
    main, assistant = np.log(rng.dirichlet(np.ones(candidates), (2, count))).astype(np.float32)
    return main, assistant, rng


def test_they_are_scipys():
    main, assistant, rng = readings(40, 5)
    path, human = kappa_path(main, assistant, np.arange(5) + 1.0), rng.integers(3, 16, 40) / 3
    assert len(path) > 40
    for along, theirs in zip((w[0] for w in WAYS), (stats.pearsonr, stats.spearmanr, stats.kendalltau), strict=True):
        expected = [theirs(scores, human).statistic for scores in path.all_scores()]
        assert along(path, human) == pytest.approx(expected, abs=1e-12)


def test_41_candidates_and_continuous_humans():
    main, assistant, rng = readings(60, 41)
    path, human = kappa_path(main, assistant, np.arange(41) / 10 + 1), rng.normal(size=60)
    for along, plain in WAYS:
        assert along(path, human) == pytest.approx([plain(s, human) for s in path.all_scores()], abs=1e-12)


def test_constant_humans_give_0_everywhere():
    main, assistant, _ = readings(10, 4)
    path = kappa_path(main, assistant, np.arange(4) + 1.0)
    for along, _plain in WAYS:
        assert not along(path, np.full(10, 0.1)).any()


def test_humans_must_fit():
    path = kappa_path(np.zeros((2, 3)), np.zeros((2, 3)), np.arange(3.0))
    with pytest.raises(ValueError, match=r"human must have shape \[2\]"):
        spearman_along(path, np.zeros(3))
    with pytest.raises(ValueError, match="finite"):
        kendall_along(path, np.array([1.0, np.nan]))
