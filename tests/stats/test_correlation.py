"""Correlations and agreement of raters: scipy's and krippendorff's values, identities, and what has none; the bootstrap
by weights is the bootstrap by building every resample."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy import stats

from judgebench.stats.clusters import group_weights
from judgebench.stats.correlation import (
    correlate_rows,
    is_constant,
    kendall,
    krippendorff_alpha,
    mean_pairwise_spearman,
    pearson,
    resampled_correlations,
    spearman,
)

OURS = (pearson, spearman, kendall)
SCIPYS = (stats.pearsonr, stats.spearmanr, stats.kendalltau)
EACH = pytest.mark.parametrize(("ours", "scipys"), list(zip(OURS, SCIPYS, strict=True)))

scores = st.one_of(st.integers(1, 5).map(float), st.floats(1, 5).map(lambda x: round(x, 3)))
pairs = st.integers(2, 40).flatmap(lambda n: st.tuples(*[npst.arrays(np.float64, n, elements=scores)] * 2))


@EACH
@given(pair=pairs)
def test_it_is_scipys(ours, scipys, pair):
    x, y = pair
    expected = 0.0 if is_constant(x) or is_constant(y) else scipys(x, y).statistic
    assert ours(x, y) == pytest.approx(expected, abs=1e-12)
    assert ours(y, -2 * x - 1) == pytest.approx(-expected, abs=1e-12)
    rows = correlate_rows(np.stack([x, y]), np.stack([y, y]))
    assert rows[OURS.index(ours), 0] == pytest.approx(expected, abs=1e-12)


@EACH
@pytest.mark.parametrize(
    ("x", "y"), [([], []), ([1], [2]), ([2, 2, 2], [1, 2, 3]), ([1, 2, 3], [2, 2, 2]), ([0.1] * 7, [0.3] * 7)]
)
def test_what_is_constant_correlates_zero(ours, scipys, x, y):
    assert ours(x, y) == 0.0
    assert (correlate_rows(np.array([x, x], dtype=float), np.array([y, y], dtype=float)) == 0).all()


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


def built(judge, human, groups, weights):
    """The same by building each resample's vectors."""
    columns = []
    for row in weights:
        index = [i for g, times in enumerate(row) for _ in range(times) for i in np.flatnonzero(groups == g)]
        columns.append([f(judge[index], human[index]) for f in OURS])
    return np.array(columns).T


KINDS = {
    "two": lambda rng, n: rng.integers(0, 2, n).astype(float),
    "five": lambda rng, n: rng.integers(1, 6, n).astype(float),
    "thirds": lambda rng, n: rng.integers(3, 16, n) / 3,
    "real": lambda rng, n: rng.normal(3, 1, n),
    "mostly constant": lambda rng, n: np.where(rng.random(n) < 0.9, 0.1, 0.7),
    "far apart": lambda rng, n: rng.choice([1.0, 1.0 + 1e-6, 5.0], n),
}


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 5), min_size=2, max_size=8),
    *[st.sampled_from(sorted(KINDS))] * 2,
    st.integers(0, 2**32 - 1),
)
def test_weights_are_as_good_as_building_the_resamples(sizes, first, second, seed):
    rng = np.random.default_rng(seed)
    judge, human = (KINDS[kind](rng, sum(sizes)) for kind in (first, second))
    groups = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    weights = group_weights(len(sizes), 20, seed)
    expected = pytest.approx(built(judge, human, groups, weights), abs=1e-12)
    assert resampled_correlations(judge, human, groups, weights) == expected


@pytest.mark.parametrize("levels", [2, 5, 10**8], ids=["fewer pairs than groups", "more pairs", "all apart"])
def test_many_resamples_take_several_chunks(levels):
    rng = np.random.default_rng(2)
    judge, human = (rng.integers(0, levels, 400).astype(float) for _ in range(2))
    groups, weights = np.arange(400) % 40, group_weights(40, 3000, 0)
    some = [0, 511, 512, 1700, 2999]
    correlations = resampled_correlations(judge, human, groups, weights)
    assert correlations[:, some] == pytest.approx(built(judge, human, groups, weights[some]), abs=1e-12)
    alone = np.eye(40, dtype=int)[:4]
    assert resampled_correlations(judge, human, groups, alone) == pytest.approx(built(judge, human, groups, alone))


@pytest.mark.parametrize("kind", ["thirds", "real"])
def test_thousands_of_texts_are_as_exact_as_few(kind):
    """Whole numbers beyond those that 4 bytes hold."""
    rng = np.random.default_rng(3)
    human = KINDS["thirds"](rng, 9000)
    judge = human + KINDS[kind](rng, 9000)
    groups, weights = np.repeat([0, 1], 4500), np.array([[1, 1], [2, 0], [0, 2], [1, 0]])
    found = resampled_correlations(judge, human, groups, weights)
    assert found == pytest.approx(built(judge, human, groups, weights), abs=1e-12)


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


def test_alpha():
    assert krippendorff_alpha(PUBLISHED) == pytest.approx(0.849, abs=5e-4)
    assert krippendorff_alpha(PUBLISHED, "ordinal") == pytest.approx(0.815, abs=5e-4)
    # Two raters, (1, 1), (1, 2), (2, 2): observed (2 ordered pairs of distance 1) / 6; expected 2 * 3 * 3 / (6 * 5)
    assert krippendorff_alpha(np.array([[1, 1], [1, 2], [2, 2]])) == pytest.approx(1 - (2 / 6) / (18 / 30))
    assert krippendorff_alpha(np.array([[1, 1], [2, 2], [3, 3]])) == 1.0
    single = np.vstack([PUBLISHED, [[5, _, _, _]]])  # a single rating says nothing
    assert krippendorff_alpha(single) == pytest.approx(krippendorff_alpha(PUBLISHED))
    for nothing in ([[2, 2], [2, 2]], [[2, _], [_, 3]], np.empty((0, 3))):
        assert krippendorff_alpha(np.array(nothing)) is None


def test_mean_pairwise_spearman_by_hand():
    # (a, b) agree: 1; (a, c) and (b, c) are reversed: -1
    assert mean_pairwise_spearman(np.array([[1, 2, 3], [2, 3, 2], [3, 4, 1]])) == pytest.approx(-1 / 3)
    assert mean_pairwise_spearman(np.array([[1, 1], [2, 1], [3, 1]])) == 0.0
    assert mean_pairwise_spearman(np.array([[1, _, 1], [2, _, 2], [3, 1, 3]])) == pytest.approx(1)
    assert mean_pairwise_spearman(np.array([[1, 2]])) is None
