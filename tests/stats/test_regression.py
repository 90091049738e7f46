"""What moves a judge beside quality: identities, planted effects, agreement with scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from judgebench.stats.clusters import Clusters
from judgebench.stats.regression import carrying, paired_effect, rating_error, regression_effects
from tests.test_scripts import script

simulate = script("simulate_audit")


def drawn(seed: int, articles: int = 60, each: int = 4):
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(articles), each)
    quality = rng.normal(size=len(groups))
    return rng, groups, quality


def test_a_text_a_cluster_is_students_t():
    rng, *_ = drawn(0)
    values = rng.normal(0.3, 1, 40)
    effect = paired_effect(values, Clusters.of(np.arange(40), 0))
    expected = ttest_1samp(values, 0)
    low, high = expected.confidence_interval()
    assert effect.p == pytest.approx(expected.pvalue)
    assert effect.estimate == pytest.approx((values.mean(), low, high))


def test_clusters_count_and_not_texts():
    rng, groups, _ = drawn(1, 20)
    values = rng.normal(size=20)[groups]
    many, single = (
        paired_effect(values, Clusters.of(groups, 0)),
        paired_effect(values[::4], Clusters.of(groups[::4], 0)),
    )
    assert many.estimate == pytest.approx(single.estimate)
    assert many.clusters == pytest.approx(20)
    assert carrying(np.array([1.0, 1.0, 0.0, 0.0])) == 2


def test_nothing_moves_is_known_without_error():
    effect = paired_effect(np.zeros(30), Clusters.of(np.arange(30), 0))
    assert effect.estimate == (0, 0, 0)
    assert effect.p == 1


def test_without_noise_the_effect_is_what_was_planted():
    _, groups, quality = drawn(2)
    x = np.column_stack([np.arange(len(groups)) % 2, quality**2])
    judge = 5 + 2 * quality + 0.6 * x[:, 0]
    (first, second), known = regression_effects(
        judge, quality, x, rating_error(np.column_stack([quality, quality])), Clusters.of(groups, 0)
    )
    assert first.estimate.value == pytest.approx(0.6)
    assert second.estimate.value == pytest.approx(0, abs=1e-9)
    assert first.share == pytest.approx(1)
    assert second.p == pytest.approx(1, abs=1e-3)
    assert known


def test_the_error_of_a_mean_is_the_raters_spread():
    rng, _, quality = drawn(3, 2000)
    ratings = quality[:, None] + np.array([0.0, 1.0, -1.0]) + rng.normal(0, 0.6, (len(quality), 3))
    # raters' own levels are no error, for every mean has them
    squares, freedom, parts = rating_error(ratings).T
    assert parts[0] * squares.sum() / freedom.sum() == pytest.approx(0.36 / 3, rel=0.05)
    ratings[rng.random(ratings.shape) < 0.2] = np.nan
    assert np.isfinite(rating_error(ratings)).all()
    assert rating_error(ratings[:, :1])[:, 1].tolist() == [0] * len(ratings)


@pytest.mark.parametrize("raters", [1, 3])
@pytest.mark.parametrize("spread", [0.5, 1, 2])
def test_neither_noise_nor_spread_is_love_of_what_good_texts_have(raters, spread):
    """As both simpler regressions say of the same data: of judge less human, and of the judge given the human score."""
    rng, groups, quality = drawn(4, 400)
    x = (quality + rng.normal(0, 0.5, len(groups)) > 0) * 1.0
    ratings = quality[:, None] + rng.normal(0, 0.8, (len(groups), raters))
    judge = spread * (quality + rng.normal(0, 0.8, len(groups)))
    human = ratings.mean(axis=1)
    clusters = Clusters.of(groups, 0)
    [effect], known = regression_effects(judge, human, x[:, None], rating_error(ratings), clusters)
    assert abs(effect.estimate.value) < 0.12 * spread
    assert effect.estimate.low < 0 < effect.estimate.high
    assert known == (raters > 1)
    design = np.column_stack([np.ones(len(x)), x, human])
    given = np.linalg.lstsq(design, judge, rcond=None)[0][1]
    assert given > 0.25 * spread
    less = judge - human
    plain = less[x == 1].mean() - less[x == 0].mean()
    assert (abs(plain) > 0.4) == (spread != 1)


def test_a_judge_that_follows_nobody_is_moved_by_what_it_likes():
    rng, groups, quality = drawn(5, 100)
    x = (quality > 0) * 1.0
    clusters = Clusters.of(groups, 0)
    [none], _ = regression_effects(
        rng.normal(size=len(groups)), quality, x[:, None], rating_error(quality[:, None]), clusters
    )
    assert none.estimate.low < 0 < none.estimate.high
    odd = rng.random(len(groups)) < 0.5
    once = rating_error(quality[:, None])
    [likes], _ = regression_effects(0.4 * odd + rng.normal(0, 0.3, len(groups)), quality, odd[:, None], once, clusters)
    assert likes.estimate.value == pytest.approx(0.4, abs=0.1)
    assert likes.p < 0.001


def test_few_doubles_are_a_sample_of_the_error():
    """Where any double is taken for the error itself, intervals hold .81 by 1 of them and .88 by 4."""
    for doubles in (1, 4, 30):
        held = []
        for number in range(60):
            data = simulate.draw((number, 3, doubles), 60, 0.0, 2)
            once = np.random.default_rng(number).permutation(len(data.ratings))[doubles:]
            data.ratings[once, 1] = np.nan
            held += [simulate.holds_value(effect, 0.0) for effect in simulate.data_effects(data)]
        assert np.mean(held) > 0.92


def test_labels_that_follow_from_what_varies_leave_no_quality():
    _, groups, quality = drawn(6)
    x = (quality > 0) * 1.0
    once = rating_error(x[:, None])
    [effect], _ = regression_effects(quality, x, x[:, None], once, Clusters.of(groups, 0))
    assert effect.p is None
    [equal], _ = regression_effects(quality, 0 * x, x[:, None], once, Clusters.of(groups, 0))
    assert equal.estimate.value == pytest.approx(quality[x == 1].mean() - quality[x == 0].mean())


@pytest.mark.parametrize(("love", "told"), [(0.0, False), (0.05, True)])
def test_love_of_its_own_family_is_not_another_use_of_the_scale(love, told):
    """Both judges score their own systems higher than people do, by two hundredths of the scale at least."""
    data, people, own = simulate.judges(3, 200, love)
    less = data.judge - people
    assert less[own].mean() - less[~own].mean() > 0.015
    [effect] = simulate.data_effects(data)
    assert (effect.p <= 0.05) == told
    assert simulate.holds_value(effect, love)


def test_planted_effects_are_found_and_others_are_not(capsys):
    """A small version of the simulation: bars of the whole are in docs/audit.md."""
    found = alarms = 0
    for number in range(30):
        every = simulate.family_of_effects(simulate.draw((number, 60, 10), 60, 0.1, 3))
        told = simulate.holm(np.array([one.p for one in every])) <= 0.05
        found += told[simulate.PLANTED]
        alarms += told[[0, 2, 3, 4, 5, 6, 8, 9]].any()
    assert found >= 20
    assert alarms <= 5
