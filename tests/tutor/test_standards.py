import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgebench.runtime.errors import UserError
from judgebench.tutor.vectors import best_layer, chance_separability, project, retain, separability


def sets(seed, high=6, low=5, layers=3, hidden=4):
    draw = np.random.default_rng(seed)
    return draw.normal(1, 1, (high, layers, hidden)), draw.normal(0, 1, (low, layers, hidden))


def test_separability_by_hand():
    # high: (1, 0), (5, 0) around hv = (3, 0), each 2 away; low: (0, 3), (0, 5) around (0, 4), each 1 away
    high, low = np.array([[[1.0, 0.0]], [[5.0, 0.0]]]), np.array([[[0.0, 3.0]], [[0.0, 5.0]]])
    assert separability(high, low) == pytest.approx([5 / (2 + 1)])


def test_sets_of_equal_states():
    same = np.ones((4, 1, 3))
    assert separability(same, same).tolist() == [0.0]
    assert separability(same, same + 1).tolist() == [math.inf]


@given(st.integers(0, 10_000), st.floats(0.01, 100), st.floats(-100, 100))
def test_separability_is_a_ratio_of_distances(seed, factor, shift):
    high, low = sets(seed)
    found = separability(high, low)
    np.testing.assert_allclose(separability(high * factor + shift, low * factor + shift), found, rtol=1e-6)
    np.testing.assert_allclose(separability(low, high), found)
    turn = np.linalg.qr(np.random.default_rng(seed).normal(size=(4, 4)))[0]
    np.testing.assert_allclose(separability(high @ turn, low @ turn), found, rtol=1e-6)
    # all principal components are a turn, too
    np.testing.assert_allclose(separability(high, low, components=4), found, rtol=1e-6)


def test_chance_is_reached_by_sets_that_differ_in_nothing_and_passed_by_sets_that_do():
    draw = np.random.default_rng(0)
    states = draw.normal(size=(40, 60, 16))
    chance = chance_separability(states[:20], states[20:])
    passed = (separability(states[:20], states[20:]) > chance).mean()
    assert passed <= 0.15  # 0.05 is expected of 60 layers
    # 16 directions, two means of 20 each: |hv - lv| is about sqrt(16 * 2 / 20), each distance about sqrt(16)
    assert chance.mean() == pytest.approx(np.sqrt(2 / 20) / 2, rel=0.4)
    states[:20] += 1
    assert (separability(states[:20], states[20:]) > chance_separability(states[:20], states[20:])).all()
    np.testing.assert_array_equal(chance, chance_separability(*np.split(draw_again(), 2)))


def draw_again():
    return np.random.default_rng(0).normal(size=(40, 60, 16))


def test_fewer_components_are_measured_alone():
    high, low = sets(1)
    ours, theirs, _ = project(high[:, 1], low[:, 1], 2)
    assert separability(high, low, 2)[1] == pytest.approx(separability(ours[:, None], theirs[:, None])[0])


def test_the_best_layer_is_the_first_of_the_best_counted_from_1():
    assert best_layer(np.array([0.1, 0.7, 0.7, 0.2])) == 2


@given(st.integers(0, 10_000))
def test_projection_is_principal_components(seed):
    high, low = (x[:, 0] for x in sets(seed))
    ours, theirs, shares = project(high, low, 4)
    together, points = np.concatenate([high, low]), np.concatenate([ours, theirs])
    # distances stay, axes are uncorrelated, and their variances are the covariance's eigenvalues
    np.testing.assert_allclose(
        np.linalg.norm(points[:, None] - points, axis=2),
        np.linalg.norm(together[:, None] - together, axis=2),
        atol=1e-9,
    )
    values = np.linalg.eigvalsh(np.cov(together.T))[::-1]
    np.testing.assert_allclose(np.cov(points.T), np.diag(values), atol=1e-9)
    np.testing.assert_allclose(shares, values / values.sum())
    assert (ours.mean(axis=0) >= theirs.mean(axis=0)).all()


def test_projection_of_states_on_a_line():
    line = np.outer(np.arange(4.0), [3.0, 4.0])
    ours, theirs, shares = project(line[2:], line[:2], 3)
    np.testing.assert_allclose(ours[:, 0] - theirs[:, 0], [10, 10])
    np.testing.assert_allclose(shares, [1, 0, 0], atol=1e-12)
    assert ours.shape == theirs.shape == (2, 3)


def test_the_outer_fifths_are_retained():
    scores = np.arange(21.0)[::-1] / 4
    kept = retain(scores)
    assert (kept.low_threshold, kept.high_threshold) == (1.0, 4.0)
    assert scores[kept.high].min() == 4.0
    assert scores[kept.low].max() == 1.0
    assert len(kept.high) == len(kept.low) == 5
    wider = retain(scores, 40, 60)
    assert (wider.low_threshold, wider.high_threshold) == (2.0, 3.0)


@given(st.lists(st.floats(1, 5), min_size=30, max_size=60, unique=True), st.integers(0, 5))
def test_sets_are_those_beyond_the_percentiles_whatever_has_no_score(scores, missing):
    scores = np.array([*scores, *[np.nan] * missing])
    kept = retain(scores)
    known = scores[~np.isnan(scores)]
    assert kept.low_threshold == np.percentile(known, 20)
    assert set(kept.high) == {i for i, x in enumerate(scores) if x >= np.percentile(known, 80)}
    assert not set(kept.high) & set(kept.low)


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        (np.full(50, 3.0), "gives 3 to the candidates from percentile 20 to 80"),
        (np.arange(10.0), r"2 of 10 candidates scored at or above percentile 80 .* too few to average: the high set "
                          r"needs at least 4; raise tutor.candidates"),
        (np.full(5, np.nan), "none of 5 candidates has a score"),
        (np.zeros(0), "none of 0 candidates has a score"),
    ],
)  # fmt: skip
def test_sets_that_cannot_be_averaged_are_refused(scores, said):
    with pytest.raises(UserError, match=said):
        retain(scores)


def test_the_small_set_is_named():
    with pytest.raises(UserError, match=r"1 of 20 candidates scored at or below percentile 5 .* low set"):
        retain(np.arange(20.0), low_percentile=5)
