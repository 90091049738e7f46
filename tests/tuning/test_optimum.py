"""Correlation along the path, and the exact optimum."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from judgebench.decoding import Contrastive
from judgebench.decoding.scores import decode
from judgebench.readings.reading import reading_columns
from judgebench.stats.correlation import is_constant, spearman
from judgebench.tuning import Dev
from judgebench.tuning.optimum import constant_along, curves, kappa_path, optimum, spearman_along
from judgebench.tuning.tune import tune
from tests.tuning.test_path import every
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
    expected = [spearman(scores, human) for scores in every(path)] if len(human) else [0.0]
    assert found == pytest.approx(expected, abs=1e-9)


@given(judged())
def test_each_piece_is_constant_where_its_scores_are(given_):
    path, _ = given_
    assert constant_along(path).tolist() == [is_constant(scores) for scores in every(path)]


def readings(count, candidates, seed=0):
    rng = np.random.default_rng(seed)
    main, assistant = np.log(rng.dirichlet(np.ones(candidates), (2, count))).astype(np.float32)
    return main, assistant, rng


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


values = st.floats(-12, 0).map(lambda x: float(np.float32(round(x, 2))))
log = npst.arrays(np.float32, (8, 4), elements=values)
humans = npst.arrays(np.float64, 8, elements=st.integers(1, 4).map(float))
VALUES = np.array([1.0, 2.0, 3.0, 4.0])


@settings(max_examples=60)
@given(log, log, humans, st.sampled_from([0.0, 0.1]))
def test_nothing_is_better(main, assistant, human, alpha):
    best = optimum(main, assistant, VALUES, human, alpha)
    assert spearman(Contrastive(best.kappa, alpha=alpha).scores(main, assistant, VALUES), human) == pytest.approx(
        best.value, abs=1e-12
    )
    for kappa in [0.0, *np.geomspace(1e-3, 1e3, 40)]:
        scores = Contrastive(float(kappa), alpha=alpha).scores(main, assistant, VALUES)
        if not is_constant(scores):
            assert not best.constant
            assert spearman(scores, human) <= best.value + 1e-12, kappa


@given(log, log, humans)
def test_every_optimal_interval_holds_the_optimum(main, assistant, human):
    best = optimum(main, assistant, VALUES, human)
    assert (best.low, best.high) in best.intervals
    assert best.low <= best.kappa <= best.high
    plain = Contrastive(0.0).scores(main, assistant, VALUES)
    as_good = spearman(plain, human) >= best.value - 1e-12 and is_constant(plain) == best.constant
    assert (best.kappa == 0) == as_good
    if best.kappa > 0:
        ending = [high - low for low, high in best.intervals if math.isfinite(high)]
        assert best.width == max(ending, default=math.inf)
    for low, high in best.intervals:
        kappa = 2 * low + 1 if math.isinf(high) else (low + high) / 2
        scores = Contrastive(kappa).scores(main, assistant, VALUES)
        assert spearman(scores, human) == pytest.approx(best.value, abs=1e-12)
        assert is_constant(scores) == best.constant


def test_by_hand():
    # Three texts; lines cross at 1, 2 and 4. Scores: 1 1 1, then 2 1 1, 2 2 1 and 2 2 2.
    main = np.array([[0.0, -1.0], [0.0, -2.0], [0.0, -4.0]])
    assistant = np.array([[0.0, -1.0]] * 3)
    best = optimum(main, assistant, VALUES[:2], np.array([3.0, 2.0, 1.0]))
    # both middle intervals rank two of three apart: 2 1 1 and 2 2 1 against 3 2 1, 0.866 each
    assert best.value == pytest.approx(math.sqrt(3) / 2)
    assert best.intervals == ((pytest.approx(1.0), pytest.approx(2.0)), (pytest.approx(2.0), pytest.approx(4.0)))
    assert best.kappa == pytest.approx(3.0)
    assert best.width == pytest.approx(2.0)
    assert best.breakpoints == 3


def test_of_equals_one_that_ends_is_taken_before_one_that_does_not():
    # as above, but the third text keeps its 1: 2 1 1 between 1 and 2, and 2 2 1 forever after
    main = np.array([[0.0, -1.0], [0.0, -2.0], [0.0, -4.0]])
    assistant = np.array([[0.0, -1.0], [0.0, -1.0], [0.0, 0.0]])
    best = optimum(main, assistant, VALUES[:2], np.array([3.0, 2.0, 1.0]))
    assert best.intervals == ((pytest.approx(1.0), pytest.approx(2.0)), (pytest.approx(2.0), math.inf))
    assert best.kappa == pytest.approx(1.5)


def test_of_equals_0_is_taken_before_a_wider_interval():
    # 2 1 1 up to 2, then 2 2 1 up to 10: equally good
    main = np.array([[-1.0, 0.0], [0.0, -2.0], [0.0, -10.0]])
    assistant = np.array([[0.0, 0.0], [0.0, -1.0], [0.0, -1.0]])
    best = optimum(main, assistant, VALUES[:2], np.array([3.0, 2.0, 1.0]))
    assert len(best.intervals) == 2
    assert (best.kappa, best.low, best.high) == (0.0, 0.0, pytest.approx(2.0))


def test_what_tells_nothing_apart_is_no_better_than_what_errs():
    # 1 1 up to 1, 2 1 up to 2 against 1 2, then 2 2
    main, assistant = np.array([[0.0, -1.0], [0.0, -2.0]]), np.array([[0.0, -1.0]] * 2)
    best = optimum(main, assistant, VALUES[:2], np.array([1.0, 2.0]))
    assert (best.kappa, best.value, best.constant) == (pytest.approx(1.5), pytest.approx(-1.0), False)
    assert len(best.intervals) == 1


def test_an_interval_that_never_ends_is_taken_at_twice_its_beginning():
    main, assistant = np.array([[0.0, -1.0], [0.0, -2.0]]), np.array([[0.0, -1.0], [-1.0, 0.0]])
    best = optimum(main, assistant, VALUES[:2], np.array([2.0, 1.0]))
    assert best.kappa == pytest.approx(2.0)
    assert math.isinf(best.width)
    assert best.value == pytest.approx(1.0)


def test_where_the_plain_decoding_is_as_good_kappa_is_0():
    main, assistant = np.array([[0.0, -1.0], [-1.0, 0.0]]), np.array([[0.0, -1.0], [-1.0, 0.0]])
    best = optimum(main, assistant, VALUES[:2], np.array([1.0, 2.0]))
    assert (best.kappa, best.low, best.value) == (0.0, 0.0, pytest.approx(1.0))


def test_where_everything_is_constant_kappa_is_0():
    best = optimum(np.zeros((3, 2)), np.zeros((3, 2)), VALUES[:2], np.array([1.0, 2.0, 3.0]))
    assert (best.kappa, best.value, best.constant, best.breakpoints) == (0.0, 0.0, True, 0)
    assert best.intervals == ((0.0, math.inf),)


def test_an_optimum_at_0_alone_is_found():
    # the main model ties on the first text and order makes it right there; any assistant breaks the tie the other way
    main = np.array([[-1.0, -1.0], [-5.0, -1.0]])
    assistant = np.array([[-1.0, -2.0], [-5.0, -1.0]])
    best = optimum(main, assistant, VALUES[:2], np.array([1.0, 2.0]))
    assert best.value == pytest.approx(1.0)
    assert best.intervals[0] == (0.0, 0.0)
