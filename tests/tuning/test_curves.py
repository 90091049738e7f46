"""Correlations along a path are those of its scores, computed anew; the step functions of figures follow from them."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy import stats

from judgebench.decoding.scores import decode
from judgebench.metrics.correlation import is_constant, spearman
from judgebench.readings.reading import reading_columns
from judgebench.tuning import Dev
from judgebench.tuning.optimum import constant_along, curves, kappa_path, spearman_along
from judgebench.tuning.tune import tune
from tests.tuning.test_tune import ARGMAX, DECODINGS, by_hand, readings_of


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
    found = spearman_along(path, human)
    assert found.shape == (len(path),)
    expected = [spearman(scores, human) for scores in path.all_scores()] if len(human) else [0.0]
    assert found == pytest.approx(expected, abs=1e-9)


@given(judged())
def test_each_piece_is_constant_where_its_scores_are(given_):
    path, _ = given_
    assert constant_along(path).tolist() == [is_constant(scores) for scores in path.all_scores()]


def readings(count, candidates, seed=0):
    rng = np.random.default_rng(seed)
    main, assistant = np.log(rng.dirichlet(np.ones(candidates), (2, count))).astype(np.float32)
    return main, assistant, rng


def test_it_is_scipys():
    main, assistant, rng = readings(40, 5)
    path, human = kappa_path(main, assistant, np.arange(5) + 1.0), rng.integers(3, 16, 40) / 3
    assert len(path) > 40
    expected = [stats.spearmanr(scores, human).statistic for scores in path.all_scores()]
    assert spearman_along(path, human) == pytest.approx(expected, abs=1e-12)


def test_41_candidates_and_continuous_humans():
    main, assistant, rng = readings(60, 41)
    path, human = kappa_path(main, assistant, np.arange(41) / 10 + 1), rng.normal(size=60)
    expected = [spearman(scores, human) for scores in path.all_scores()]
    assert spearman_along(path, human) == pytest.approx(expected, abs=1e-12)


def test_constant_humans_give_0_everywhere():
    main, assistant, _ = readings(10, 4)
    path = kappa_path(main, assistant, np.arange(4) + 1.0)
    assert not spearman_along(path, np.full(10, 0.1)).any()


@pytest.mark.parametrize(
    ("human", "why"), [(np.zeros(3), r"human must have shape \[2\]"), (np.array([1.0, np.nan]), "finite")]
)
def test_humans_must_fit(human, why):
    path = kappa_path(np.zeros((2, 3)), np.zeros((2, 3)), np.arange(3.0))
    with pytest.raises(ValueError, match=why):
        spearman_along(path, human)


def test_a_curve_is_spearman_at_every_kappa():
    readings = readings_of(("coherence", "relevance"), attacks=("none", "bed"))
    frame, scores = pd.DataFrame(reading_columns(readings)), pd.DataFrame(decode(readings, ARGMAX))
    for record in tune(readings, DECODINGS, Dev()).records:
        found = curves(frame, scores, record)
        if record["rule"] == "expectation":
            assert found == {}
            continue
        assert set(found) == {"dev", "test"}
        clean = [r for r in readings if r.prompt.condition.attack == "none"]
        score_range = next(
            r.prompt.condition.range for r in readings if r.prompt.condition.range.minimum == record["range_min"]
        )
        for split, curve in found.items():
            assert curve.start[0] == 0
            assert (np.diff(curve.value) != 0).all()
            for kappa in np.geomspace(1e-3, 50, 40):
                value = curve.value[np.searchsorted(curve.start, kappa, side="right") - 1]
                assert value == pytest.approx(by_hand(clean, record["dimension"], score_range, split, kappa), abs=1e-12)
        assert found["dev"].value.max() == pytest.approx(record["exact"]["dev"], abs=1e-12)
