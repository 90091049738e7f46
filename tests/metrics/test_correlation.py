"""Correlations against scipy, by hand, and at their edges."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy import stats

from judgebench.metrics.correlation import correlate_rows, is_constant, kendall, pearson, spearman

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
