"""The exact path says what `Contrastive` does, on every piece and nowhere else; correlation along it; the optimum."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from judgebench.decoding import Contrastive, Greedy
from judgebench.decoding.scores import decode
from judgebench.readings.reading import reading_columns
from judgebench.stats.correlation import is_constant, spearman
from judgebench.tuning import Dev
from judgebench.tuning.tune import tune
from judgebench.tuning.tuners import constant_along, curves, kappa_path, optimum, spearman_along
from tests.tuning.test_tune import ARGMAX, DECODINGS, by_hand, readings_of

INF = math.inf
VALUES = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
ALPHAS = st.sampled_from([0.0, 0.01, 0.3, 1.0])

# coarse numbers tie and cross in one point all the time; fine ones are what models say
coarse = st.one_of(st.integers(-8, 0).map(float), st.just(-INF))
fine = st.floats(-20, 0).map(lambda x: float(np.float32(round(x, 3))))


def every(path):
    """The scores on every piece."""
    return [path.scores(piece) for piece in range(len(path))]


@st.composite
def pairs(draw):
    """Main model's and assistant's log-probabilities, [N, K] float32 each, and the candidates [K]."""
    shape = (draw(st.integers(0, 6)), draw(st.integers(1, 7)))
    elements = st.one_of(coarse, fine)
    main, assistant = (draw(npst.arrays(np.float32, shape, elements=elements)) for _ in range(2))
    return main, assistant, np.arange(shape[1]) + 1.0


def inside(path, piece):
    """Some kappas on a piece, its middle first."""
    low, high = path.low[piece], path.high[piece]
    if low == high:
        return [0.0]
    if math.isinf(high):
        return [2 * low + 1.0, 5 * low + 10.0]
    return [(low + high) / 2, low + (high - low) / 64, high - (high - low) / 64]


@given(pairs(), ALPHAS)
def test_on_every_piece_it_is_contrastive_decoding_bit_by_bit(pair, alpha):
    path = kappa_path(*pair, alpha)
    for piece, scores in enumerate(every(path)):
        for kappa in inside(path, piece):
            assert path.low[piece] <= kappa <= path.high[piece]
            assert np.array_equal(Contrastive(kappa, alpha=alpha).scores(*pair), scores), kappa


@given(pairs(), ALPHAS)
def test_the_pieces_cover_everything_but_breakpoints_at_which_some_score_changes(pair, alpha):
    path = kappa_path(*pair, alpha)
    assert (path.low[0], path.high[-1]) == (0, INF)
    gaps = path.low[1:] - path.high[:-1]
    assert (gaps >= 0).all()
    assert (gaps <= 1e-9 * path.low[1:] + 1e-9).all()
    assert (np.diff(path.reached) > 0).all()
    for before, after in zip(path.reached[:-1], path.reached[1:], strict=True):
        assert (path.before[before:after] != path.after[before:after]).all()


@given(pairs(), ALPHAS)
def test_it_starts_with_greedy_and_changes_at_most_k_minus_1_times(pair, alpha):
    main, _, values = pair
    path = kappa_path(*pair, alpha)
    assert np.array_equal(path.scores(0), Greedy().scores(main, None, values))
    assert (np.bincount(path.example[path.kappa > 0], minlength=len(main)) <= len(values) - 1).all()
    assert np.array_equal(path.kappa, kappa_path(main.astype(float), pair[1].astype(float), values, alpha).kappa)


PATHS = {
    # lines -1 - 0.5 k, -2 - k (-1), -4 - k (-3) with m = -1, -2, -4 and a = 0.5, -1, -3 less a constant:
    # the second overtakes at (2 - 1) / 1.5 = 2 / 3, the third the second at 2 / 2 = 1
    "three lines": ([-1.0, -2.0, -4.0], [-1.0, -2.5, -4.5], [0, 2 / 3, 1], [1, 2, 3]),
    # the first of a tie wins at 0, and above it the one that the assistant likes less
    "a tie of the main model": ([-1.0, -1.0], [-1.0, -2.0], [0, 0], [1, 2]),
    "where the assistant prefers the second nothing changes": ([-1.0, -1.0], [-2.0, -1.0], [0], [1]),
    "equal lines give the first candidate": ([-2.0, -1.0, -1.0], [-9.0, -5.0, -5.0], [0, 0.25], [2, 1]),
    # the assistant's zero counts as its -3, the main model's stays impossible
    "zeros": ([-1.0, -2.0, -INF], [-1.0, -INF, -3.0], [0, 0.5], [1, 2]),
    "a silent assistant": ([-1.0, -2.0, -INF], [-INF, -INF, -INF], [0], [1]),
    "a silent main model": ([-INF, -INF, -INF], [-1.0, -INF, -3.0], [0], [1]),
}


@pytest.mark.parametrize("name", PATHS)
def test_paths_by_hand(name):
    main, assistant, low, scores = PATHS[name]
    path = kappa_path(np.array([main]), np.array([assistant]), VALUES[: len(main)])
    assert path.low == pytest.approx(low)
    assert [part.tolist() for part in every(path)] == [[score] for score in scores]


def test_alpha_takes_lines_away():
    main, assistant = np.log([[0.9, 0.06, 0.04]]), np.log([[0.98, 0.01, 0.01]])
    assert len(kappa_path(main, assistant, VALUES[:3])) == 2
    assert len(kappa_path(main, assistant, VALUES[:3], alpha=0.1)) == 1


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="main model's 2 rows, got 1"):
        kappa_path(np.zeros((2, 5)), np.zeros((1, 5)), VALUES)
    with pytest.raises(ValueError, match="assistant must be free of NaN"):
        kappa_path(np.zeros((1, 5)), np.full((1, 5), np.nan), VALUES)
    path = kappa_path(np.zeros((2, 3)), np.zeros((2, 3)), np.arange(3.0))
    for human, why in ((np.zeros(3), r"human must have shape \[2\]"), (np.array([1.0, np.nan]), "finite")):
        with pytest.raises(ValueError, match=why):
            spearman_along(path, human)


@given(pairs(), st.data())
def test_each_piece_has_the_correlation_of_its_scores(pair, data):
    path, count = kappa_path(*pair), len(pair[0])
    elements = data.draw(st.sampled_from([st.integers(1, 3).map(float), st.floats(1, 5)]))
    human = data.draw(npst.arrays(np.float64, count, elements=elements))
    expected = [spearman(scores, human) for scores in every(path)] if count else [0.0]
    assert spearman_along(path, human) == pytest.approx(expected, abs=1e-9)
    assert constant_along(path).tolist() == [is_constant(scores) for scores in every(path)]


def test_a_curve_is_spearman_at_every_kappa():
    readings = readings_of(("coherence", "relevance"), attacks=("none", "bed"))
    clean = [reading for reading in readings if reading.prompt.condition.attack == "none"]
    frame, scores = pd.DataFrame(reading_columns(readings)), pd.DataFrame(decode(readings, ARGMAX))
    for record in tune(readings, DECODINGS, Dev()).records:
        steps = curves(frame, scores, record)
        assert set(steps) == (set() if record["rule"] == "expectation" else {"dev", "test"})
        ranges = {reading.prompt.condition.range for reading in clean}
        (score_range,) = (one for one in ranges if one.minimum == record["range_min"])
        for split, curve in steps.items():
            assert curve.start[0] == 0
            assert (np.diff(curve.value) != 0).all()
            for kappa in np.geomspace(1e-3, 50, 40):
                value = curve.value[np.searchsorted(curve.start, kappa, side="right") - 1]
                assert value == pytest.approx(by_hand(clean, record["dimension"], score_range, split, kappa), abs=1e-12)
        if steps:
            assert steps["dev"].value.max() == pytest.approx(record["exact"]["dev"], abs=1e-12)


log = npst.arrays(np.float32, (8, 4), elements=st.floats(-12, 0).map(lambda x: float(np.float32(round(x, 2)))))
humans = npst.arrays(np.float64, 8, elements=st.integers(1, 4).map(float))


@given(log, log, humans, st.sampled_from([0.0, 0.1]))
def test_nothing_is_better(main, assistant, human, alpha):
    best = optimum(main, assistant, VALUES[:4], human, alpha)

    def at(kappa):
        scores = Contrastive(float(kappa), alpha=alpha).scores(main, assistant, VALUES[:4])
        return spearman(scores, human), is_constant(scores)

    assert at(best.kappa) == (pytest.approx(best.value, abs=1e-12), best.constant)
    for value, constant in map(at, [0.0, *np.geomspace(1e-3, 1e3, 40)]):
        assert constant or not (best.constant or value > best.value + 1e-12)


@given(log, log, humans)
def test_every_optimal_interval_holds_the_optimum(main, assistant, human):
    best = optimum(main, assistant, VALUES[:4], human)
    assert (best.low, best.high) in best.intervals
    assert best.low <= best.kappa <= best.high
    plain = Contrastive(0.0).scores(main, assistant, VALUES[:4])
    as_good = spearman(plain, human) >= best.value - 1e-12 and is_constant(plain) == best.constant
    assert (best.kappa == 0) == as_good
    if best.kappa > 0:
        assert best.width == max([high - low for low, high in best.intervals if math.isfinite(high)], default=INF)
    for low, high in best.intervals:
        scores = Contrastive(2 * low + 1 if math.isinf(high) else (low + high) / 2).scores(main, assistant, VALUES[:4])
        assert spearman(scores, human) == pytest.approx(best.value, abs=1e-12)
        assert is_constant(scores) == best.constant


OPTIMA = {
    # lines cross at 1, 2 and 4: scores 1 1 1, then 2 1 1, 2 2 1 and 2 2 2; both middle ones rank two of three apart
    "the wider of two": ([-1, -2, -4], [-1, -1, -1], [3, 2, 1], math.sqrt(3) / 2, 3.0, (2.0, 4.0)),
    # the third text keeps its 1: 2 1 1 between 1 and 2, and 2 2 1 forever after
    "one that ends": ([-1, -2, -4], [-1, -1, 0], [3, 2, 1], math.sqrt(3) / 2, 1.5, (1.0, 2.0)),
    # 1 1 up to 1, 2 1 up to 2 against 1 2, then 2 2: no correlation is no better than a negative one
    "an error": ([-1, -2], [-1, -1], [1, 2], -1.0, 1.5, (1.0, 2.0)),
    "twice the beginning of one that never ends": ([-1, -2], [-1, 1], [2, 1], 1.0, 2.0, (1.0, INF)),
    # the main model ties on the first text and order makes it right there; any assistant breaks the tie the other way
    "0 alone": ([0, 4], [-1, 4], [1, 2], 1.0, 0.0, (0.0, 0.0)),
    "all constant": ([0, 0], [0, 0], [1, 2], 0.0, 0.0, (0.0, INF)),
}


@pytest.mark.parametrize("name", OPTIMA)
def test_optima_by_hand(name):
    height, slope, human, value, kappa, interval = OPTIMA[name]
    main, assistant = (np.array([[0.0, step] for step in steps]) for steps in (height, slope))
    best = optimum(main - 9, assistant - 9, VALUES[:2], np.array(human, float))
    assert (best.value, best.kappa) == (pytest.approx(value), pytest.approx(kappa))
    assert (best.low, best.high) == pytest.approx(interval)
