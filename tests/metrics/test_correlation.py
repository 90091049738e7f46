"""Correlations and agreement of raters: scipy's values, identities, and what has none."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy import stats

from judgebench.metrics.correlation import (
    correlate_rows,
    is_constant,
    kendall,
    krippendorff_alpha,
    mean_pairwise_spearman,
    pearson,
    spearman,
)

ALL = [(pearson, stats.pearsonr), (spearman, stats.spearmanr), (kendall, stats.kendalltau)]
EACH = pytest.mark.parametrize(("ours", "scipys"), ALL)

scores = st.one_of(st.integers(1, 5).map(float), st.floats(1, 5).map(lambda x: round(x, 3)))
pairs = st.integers(2, 40).flatmap(lambda n: st.tuples(*[npst.arrays(np.float64, n, elements=scores)] * 2))


@EACH
@given(pair=pairs)
def test_it_is_scipys(ours, scipys, pair):
    x, y = pair
    expected = 0.0 if is_constant(x) or is_constant(y) else scipys(x, y).statistic
    assert ours(x, y) == pytest.approx(expected, abs=1e-12)
    rows = correlate_rows(np.stack([x, y]), np.stack([y, y]))
    assert rows[[pearson, spearman, kendall].index(ours), 0] == pytest.approx(expected, abs=1e-12)


def test_by_hand():
    x, y = [1, 2, 3, 4], [1, 2, 2, 5]
    # deviations -1.5 -.5 .5 1.5 and -1.5 -.5 -.5 2.5: 6 / sqrt(5 * 9); ranks 1 2.5 2.5 4: 4.5 / sqrt(5 * 4.5)
    assert pearson(x, y) == pytest.approx(6 / 45**0.5, abs=1e-15)
    assert spearman(x, y) == pytest.approx(4.5 / 22.5**0.5, abs=1e-15)
    # of 6 pairs 5 agree and 1 is tied in y: 5 / sqrt(6 * 5)
    assert kendall(x, y) == pytest.approx(5 / 30**0.5, abs=1e-15)


@EACH
@given(pair=pairs)
def test_identities(ours, scipys, pair):
    x, y = pair
    assert -1 <= ours(x, y) <= 1
    assert ours(x, y) == pytest.approx(ours(y, x), abs=1e-12)
    assert ours(x, -y) == pytest.approx(-ours(x, y), abs=1e-12)
    assert ours(x, 2 * y + 1) == pytest.approx(ours(x, y), abs=1e-12)
    if not is_constant(x):
        assert ours(x, x) == pytest.approx(1, abs=1e-12)


@given(pair=pairs)
def test_ranks_alone_matter_to_spearman_and_kendall(pair):
    x, y = pair
    assert spearman(np.exp(x), y) == pytest.approx(spearman(x, y), abs=1e-12)
    assert kendall(np.exp(x), y) == pytest.approx(kendall(x, y), abs=1e-12)


@EACH
@pytest.mark.parametrize(
    ("x", "y"), [([], []), ([1], [2]), ([2, 2, 2], [1, 2, 3]), ([1, 2, 3], [2, 2, 2]), ([0.1] * 7, [0.3] * 7)]
)
def test_what_is_constant_correlates_zero(ours, scipys, x, y):
    assert ours(x, y) == 0.0


def test_a_constant_is_exact():
    assert is_constant(np.array([]))
    assert is_constant(np.array([2.7]))
    assert is_constant(np.full(9, 0.1))
    almost = np.array([1.0, 1.0, np.nextafter(1.0, 2.0)])
    assert not is_constant(almost)
    assert spearman(almost, [1, 2, 3]) == pytest.approx(stats.spearmanr(almost, [1, 2, 3]).statistic)
    assert pearson(almost, [1, 2, 3]) == pytest.approx(3**0.5 / 2, abs=1e-12)


@EACH
def test_what_is_no_pair_of_vectors_is_refused(ours, scipys):
    with pytest.raises(ValueError, match="one length"):
        ours([1, 2, 3], [1, 2])
    with pytest.raises(ValueError, match="finite"):
        ours([1, 2, np.nan], [1, 2, 3])


_ = np.nan
# Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), example C/D: 4 observers, 12 units.
PUBLISHED = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, _, _, _],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, _, 3],
        [_, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, _],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, _],
    ]
).T


def test_alpha_of_the_published_example():
    assert krippendorff_alpha(PUBLISHED) == pytest.approx(0.849, abs=5e-4)
    assert krippendorff_alpha(PUBLISHED, "ordinal") == pytest.approx(0.815, abs=5e-4)


def test_alpha_by_hand():
    # Two raters, (1, 1), (1, 2), (2, 2): observed (2 ordered pairs of distance 1) / 6; expected 2 * 3 * 3 / (6 * 5)
    assert krippendorff_alpha(np.array([[1, 1], [1, 2], [2, 2]])) == pytest.approx(1 - (2 / 6) / (18 / 30))


def test_alpha_at_its_ends():
    assert krippendorff_alpha(np.array([[1, 1], [2, 2], [3, 3]])) == 1.0
    assert krippendorff_alpha(np.array([[1, 2], [2, 1]])) < 0
    assert krippendorff_alpha(np.array([[2, 2], [2, 2]])) is None
    assert krippendorff_alpha(np.array([[2, _], [_, 3]])) is None
    assert krippendorff_alpha(np.empty((0, 3))) is None


def test_alpha_of_intervals_does_not_see_scale_or_origin():
    assert krippendorff_alpha(3 * PUBLISHED - 7) == pytest.approx(krippendorff_alpha(PUBLISHED))
    assert krippendorff_alpha(PUBLISHED**3, "ordinal") == pytest.approx(krippendorff_alpha(PUBLISHED, "ordinal"))


def test_a_single_rating_says_nothing():
    more = np.vstack([PUBLISHED, [[5, _, _, _]]])
    assert krippendorff_alpha(more) == pytest.approx(krippendorff_alpha(PUBLISHED))


def test_alpha_of_noise_is_about_zero():
    noise = np.random.default_rng(0).integers(1, 6, (4000, 3)).astype(float)
    assert krippendorff_alpha(noise) == pytest.approx(0, abs=0.03)
    assert krippendorff_alpha(noise, "ordinal") == pytest.approx(0, abs=0.03)


def test_mean_pairwise_spearman_by_hand():
    # (a, b) agree: 1; (a, c) and (b, c) are reversed: -1
    assert mean_pairwise_spearman(np.array([[1, 2, 3], [2, 3, 2], [3, 4, 1]])) == pytest.approx(-1 / 3)
    assert mean_pairwise_spearman(np.array([[1, 1], [2, 1], [3, 1]])) == 0.0
    assert mean_pairwise_spearman(np.array([[1, _, 1], [2, _, 2], [3, 1, 3]])) == pytest.approx(1)
    assert mean_pairwise_spearman(np.array([[1, 2]])) is None


def test_what_is_no_table_of_ratings_is_refused():
    with pytest.raises(ValueError, match="examples, raters"):
        krippendorff_alpha(np.array([1.0, 2.0]))
    with pytest.raises(ValueError, match="metric"):
        krippendorff_alpha(PUBLISHED, "nominal")
    with pytest.raises(ValueError, match="finite"):
        mean_pairwise_spearman(np.array([[1.0, np.inf]]))
