"""The exact path: on every piece, and nowhere else, it says what `Contrastive` does."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from judgebench.decoding import Contrastive, Greedy
from judgebench.tuning.optimum import kappa_path

INF = math.inf
VALUES = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
ALPHAS = st.sampled_from([0.0, 0.01, 0.3, 1.0])

# coarse numbers tie and cross in one point all the time; fine ones are what models say
coarse = st.one_of(st.integers(-8, 0).map(float), st.just(-INF))
fine = st.floats(-20, 0).map(lambda x: float(np.float32(round(x, 3))))
elements = st.one_of(coarse, fine)


def every(path):
    """The scores on every piece."""
    return [path.scores(piece) for piece in range(len(path))]


@st.composite
def pairs(draw):
    """Main model's and assistant's log-probabilities, [N, K] float32 each, and the candidates [K]."""
    shape = (draw(st.integers(0, 6)), draw(st.integers(1, 7)))
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


def piece_of(path, kappa):
    """The piece that kappa lies on; None at a breakpoint, where rounding decides."""
    if kappa == 0:
        return 0
    piece = int(np.searchsorted(path.low, kappa, side="right")) - 1
    return piece if path.low[piece] < kappa < path.high[piece] else None


@settings(max_examples=300)
@given(pairs(), ALPHAS)
def test_on_every_piece_it_is_contrastive_decoding_bit_by_bit(pair, alpha):
    path = kappa_path(*pair, alpha)
    for piece, scores in enumerate(every(path)):
        for kappa in inside(path, piece):
            assert piece_of(path, kappa) == piece
            assert np.array_equal(Contrastive(kappa, alpha=alpha).scores(*pair), scores), kappa


@given(pairs(), ALPHAS)
def test_the_pieces_cover_everything_but_breakpoints(pair, alpha):
    path = kappa_path(*pair, alpha)
    assert path.low[0] == 0
    assert path.high[-1] == INF
    gaps = path.low[1:] - path.high[:-1]
    assert (gaps >= 0).all()
    assert (gaps <= 1e-9 * path.low[1:] + 1e-9).all()
    assert (np.diff(path.reached) > 0).all()
    # in every gap some score changes
    for before, after in zip(path.reached[:-1], path.reached[1:], strict=True):
        assert (path.before[before:after] != path.after[before:after]).all()


@given(pairs(), ALPHAS)
def test_it_starts_with_greedy_and_changes_at_most_k_minus_1_times(pair, alpha):
    main, _, values = pair
    path = kappa_path(*pair, alpha)
    assert np.array_equal(path.scores(0), Greedy().scores(main, None, values))
    above_0 = np.bincount(path.example[path.kappa > 0], minlength=len(main))
    assert (above_0 <= len(values) - 1).all()


@given(pairs())
def test_float64_is_taken_as_it_is(pair):
    main, assistant, values = pair
    one, other = kappa_path(main, assistant, values), kappa_path(main.astype(float), assistant.astype(float), values)
    assert np.array_equal(one.kappa, other.kappa)


def test_by_hand():
    # lines -1 - 0.5 k, -2 - k (-1), -4 - k (-3) with m = -1, -2, -4 and a = 0.5, -1, -3 less a constant:
    # the second overtakes at (2 - 1) / 1.5 = 2 / 3, the third the second at 2 / 2 = 1
    main, assistant = np.array([[-1.0, -2.0, -4.0]]), np.array([[-1.0, -2.5, -4.5]])
    path = kappa_path(main, assistant, VALUES[:3])
    assert path.kappa == pytest.approx([2 / 3, 1.0], rel=1e-15)
    assert [scores.tolist() for scores in every(path)] == [[1.0], [2.0], [3.0]]
    assert path.low == pytest.approx([0, 2 / 3, 1])
    assert piece_of(path, 2 / 3) is None
    assert piece_of(path, 0.0) == 0
    assert piece_of(path, 1e6) == 2


def test_a_tie_of_the_main_model_is_decided_by_order_at_0_and_by_the_assistant_above():
    main, assistant = np.array([[-1.0, -1.0]]), np.array([[-1.0, -2.0]])
    path = kappa_path(main, assistant, VALUES[:2])
    assert (path.low[0], path.high[0]) == (0, 0)
    assert [scores.tolist() for scores in every(path)] == [[1.0], [2.0]]
    assert Contrastive(1e-9).scores(main, assistant, VALUES[:2]).tolist() == [2.0]
    # where the assistant prefers the second, nothing changes and 0 is no piece of its own
    assert len(kappa_path(main, assistant[:, ::-1], VALUES[:2])) == 1


def test_equal_lines_give_the_first_candidate():
    main, assistant = np.array([[-2.0, -1.0, -1.0]]), np.array([[-9.0, -5.0, -5.0]])
    assert [scores.tolist() for scores in every(kappa_path(main, assistant, VALUES[:3]))] == [[2.0], [1.0]]


def test_zeros_are_read_as_contrast_reads_them():
    values = VALUES[:3]
    silent = np.full((1, 3), -INF)
    main, assistant = np.array([[-1.0, -2.0, -INF]]), np.array([[-1.0, -INF, -3.0]])
    path = kappa_path(main, assistant, values)
    assert path.kappa.tolist() == [0.5]  # the assistant's zero counts as its -3, the main model's stays impossible
    assert [scores.tolist() for scores in every(path)] == [[1.0], [2.0]]
    assert len(kappa_path(main, silent, values)) == 1
    assert [scores.tolist() for scores in every(kappa_path(silent, assistant, values))] == [[1.0]]


def test_alpha_takes_lines_away():
    main, assistant = np.log([[0.9, 0.06, 0.04]]), np.log([[0.98, 0.01, 0.01]])
    assert len(kappa_path(main, assistant, VALUES[:3])) == 2
    assert len(kappa_path(main, assistant, VALUES[:3], alpha=0.1)) == 1


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="main model's 2 rows, got 1"):
        kappa_path(np.zeros((2, 5)), np.zeros((1, 5)), VALUES)
    with pytest.raises(ValueError, match="assistant must be free of NaN"):
        kappa_path(np.zeros((1, 5)), np.full((1, 5), np.nan), VALUES)
