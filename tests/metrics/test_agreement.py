"""Agreement of raters against a published example and by hand."""

import numpy as np
import pytest

from judgebench.metrics.correlation import krippendorff_alpha, mean_pairwise_spearman

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
