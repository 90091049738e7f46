"""Means of few ratings, with a judge and without: Wilson's interval, Student's t, clustered errors by statsmodels,
PPI++ by hand, what must hold for any judge; and the records of a run."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from judgebench.stats.prediction_powered import (
    FEWEST_LABELLED,
    FewLabels,
    common_correlation,
    from_labels,
    means_not_refuted,
    with_judge,
)
from judgebench.studies.prediction_powered import few_labels_of, predicted_means, prediction_powered_records
from tests.stats.sides import cell, partly, side

NAN = np.nan
SCALE = (1.0, 5.0)


def few(human, groups=None, systems=None, scale=SCALE):
    """Labels, without a judge that says anything."""
    human = np.asarray(human, dtype=float)
    groups = np.arange(len(human)) if groups is None else groups
    return FewLabels(human, np.zeros(len(human)), groups, np.zeros(len(human)) if systems is None else systems, scale)


def drawn(seed=0, articles=80, labelled=20, systems=4, noise=0.7, scale=None):
    rng = np.random.default_rng(seed)
    group, system = np.repeat(np.arange(articles), systems), np.tile(np.arange(systems), articles)
    human = 3 + 0.3 * system + rng.normal(size=articles)[group] * 0.4 + rng.normal(size=len(group)) * 0.6
    judge = 2 * human + noise * rng.normal(size=len(group)) * 2
    if scale:
        human = np.clip(np.round(human), *scale)
    chosen = rng.permutation(articles)[:labelled]
    return FewLabels(np.where(np.isin(group, chosen), human, NAN), judge, group, system, scale)


# --- labels alone -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("successes", "count"), [(0, 10), (3, 10), (10, 10), (19, 20)])
def test_with_all_the_variance_there_can_be_it_is_wilsons_interval(successes, count):
    z = stats.norm.ppf(0.975)
    low, high = means_not_refuted(np.array([successes / count]), np.array([z * z / count]), np.zeros(1), (0.0, 1.0))
    theirs = stats.binomtest(successes, count).proportion_ci(method="wilson")
    assert (low[0], high[0]) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_without_ends_it_is_students_interval_drawn_to_the_other_systems():
    human = np.random.default_rng(0).normal(size=40)
    alone = from_labels(few(human, scale=None))
    theirs = stats.ttest_1samp(human, 0.0).confidence_interval()
    assert (alone.low[0], alone.high[0]) == pytest.approx((theirs.low, theirs.high))
    both = from_labels(few(human, systems=np.tile([0, 1], 20), groups=np.repeat(np.arange(20), 2), scale=None))
    variances = np.array([human[0::2].var(ddof=1), human[1::2].var(ddof=1)])
    half = stats.t.ppf(0.975, 19) * np.sqrt((19 * variances + 4 * variances.mean()) / 23 / 20)
    assert both.high - both.value == pytest.approx(half)


def test_of_these_very_articles_it_is_cochrans_interval():
    """Student's interval times the root of 1 - n / N; a point where all are labelled."""
    human = np.random.default_rng(0).normal(size=20)
    theirs = stats.ttest_1samp(human, 0.0).confidence_interval()
    these = from_labels(few(np.concatenate([human, np.full(30, NAN)]), scale=None), these=True)
    assert these.high[0] - these.low[0] == pytest.approx((theirs.high - theirs.low) * np.sqrt(1 - 20 / 50))
    whole = from_labels(few(human, scale=None), these=True)
    assert whole.low[0] == whole.value[0] == whole.high[0]
    in_part = few([3.0, NAN, 4.0, 5.0, NAN, NAN], groups=np.array([0, 0, 1, 1, 2, 2]))
    assert in_part.unlabelled() == pytest.approx([1 - 2 / 3 * 3 / 4])


def test_a_system_rated_best_throughout_is_not_certain():
    alone = from_labels(few(np.full(10, 5.0)))
    assert (alone.value[0], alone.high[0]) == (5.0, 5.0)
    relative = stats.t.ppf(0.975, 9) ** 2 / 3 / 10  # of evenly spread ratings: nothing else is known
    assert alone.low[0] == pytest.approx((5 + relative) / (1 + relative))
    human = np.concatenate([np.full(10, 5.0), np.tile([5.0, 4.0, 5.0, 5.0, 3.0], 2)])
    both = from_labels(few(human, groups=np.tile(np.arange(10), 2), systems=np.repeat([0, 1], 10)))
    # by hand: the other's squares are 6.4 and its mean 4.4, of which at most 3.4 * .6 a rating
    relative = stats.t.ppf(0.975, 9) ** 2 * (6.4 + 4 / 3) / (9 * 3.4 * 0.6 + 4) / 10
    assert both.low[0] == pytest.approx((5 + relative) / (1 + relative))


@given(st.lists(st.sampled_from([1.0, 2.0, 3.0, 4.0, 5.0]), min_size=5, max_size=30))
def test_the_interval_lies_on_the_scale_holds_the_mean_and_turns_with_the_scale(ratings):
    ours, theirs = from_labels(few(ratings)), from_labels(few(6 - np.array(ratings)))
    assert 1 <= ours.low[0] <= ours.value[0] <= ours.high[0] <= 5
    assert ours.high[0] - ours.low[0] > 0
    assert (ours.low[0], ours.high[0]) == pytest.approx((6 - theirs.high[0], 6 - theirs.low[0]))


# --- labels and a judge -----------------------------------------------------------------------------------------------


def test_the_estimate_is_that_of_ppi_plus_plus_at_the_same_lambda():
    """Its equation 3: lambda times the judge's mean over the other texts, and the mean of ratings less lambda judge."""
    data = drawn()
    for record in predicted_means(data):
        here = np.asarray(data.systems).astype(str) == record["system"]
        human, judge, weight = data.human[here], data.judge[here], record["lambda"]
        rated = ~np.isnan(human)
        expected = weight * judge[~rated].mean() + (human - weight * judge)[rated].mean()
        assert weight > 0.1
        assert record["predicted"] == pytest.approx(expected)


def test_one_system_by_hand():
    data = drawn(systems=1, labelled=30)
    rated = ~np.isnan(data.human)
    human, judge = data.human[rated], data.judge[rated]
    r = np.corrcoef(human, judge)[0, 1]
    adjusted = np.sqrt(1 - (1 - r * r) * 29 / 28)
    assert common_correlation(data) == pytest.approx(adjusted)
    beta = adjusted * human.std(ddof=1) / data.judge.std(ddof=1)
    both = with_judge(data)
    assert both.value[0] == pytest.approx(human.mean() + beta * (data.judge.mean() - judge.mean()))
    variance = (human - beta * judge).var(ddof=1) / 30 + beta**2 * data.judge.var(ddof=1) / 80
    assert both.high[0] - both.value[0] == pytest.approx(stats.t.ppf(0.975, 29) * np.sqrt(variance))


@given(st.integers(0, 10**6), st.integers(5, 40), st.sampled_from([None, SCALE]), st.floats(0, 20))
def test_never_wider_than_the_labels_alone_nor_than_for_articles_like_these(seed, labelled, scale, noise):
    data = drawn(seed, 50, labelled, 3, noise, scale)
    for record in predicted_means(data):
        width = {
            (name, end): record[f"{name}{end}_high"] - record[f"{name}{end}_low"]
            for name in ("labels", "predicted")
            for end in ("", "_these")
        }
        assert width["predicted", ""] <= width["labels", ""] * (1 + 1e-9)
        assert record["narrower"] == pytest.approx(1 - width["predicted", ""] / width["labels", ""], abs=1e-9)
        assert width["labels", "_these"] <= width["labels", ""] + 1e-12
        # the judge's weight is another: of a judge that knows little, five labels may choose it for articles like these
        assert width["predicted", "_these"] <= width["labels", "_these"] * (1 + 1e-9)
        assert record["narrower_these"] >= 0


@given(st.integers(0, 10**6), st.floats(0.1, 10), st.floats(-5, 5))
def test_the_judges_scale_does_not_matter(seed, times, more):
    data = drawn(seed)
    other = FewLabels(data.human, times * data.judge + more, data.groups, data.systems, data.scale)
    for ours, theirs in zip(with_judge(data)[:3], with_judge(other)[:3], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


def test_a_judge_that_says_nothing_leaves_the_labels_and_a_perfect_one_knows_these_articles():
    data = drawn()
    silent = FewLabels(data.human, np.ones_like(data.judge), data.groups, data.systems, None)
    for ours, theirs in zip(with_judge(silent), from_labels(silent), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    perfect = drawn(noise=0.0)
    for record in predicted_means(perfect):
        truth = perfect.judge[perfect.systems == int(record["system"])].mean() / 2
        assert record["predicted_these_low"] <= truth <= record["predicted_these_high"]
        assert record["narrower_these"] > 0.6 > record["narrower"]


# --- the study --------------------------------------------------------------------------------------------------------


def test_a_record_is_what_prediction_powered_inference_says():
    assert prediction_powered_records([side(), partly(0)]) == []
    sample = partly()
    (record,) = prediction_powered_records([sample])
    assert record.items() >= sample.head.items()
    counts = ("texts", "articles", "labelled_texts", "labelled_articles")
    assert [record[name] for name in counts] == [60, 12, 30, 6]
    expected = predicted_means(FewLabels(sample.human, sample.scores, sample.groups, sample.systems, SCALE))
    assert [{name: system[name] for name in expected[0]} for system in record["systems"]] == expected
    assert record["narrower"] == pytest.approx(np.mean([system["narrower"] for system in expected]))
    halves = [(system["labels_high"] - system["labels_low"]) / 2 for system in expected]
    assert record["labels_within"] == pytest.approx(np.mean(halves))
    assert record["predicted_within"] <= record["labels_within"]
    assert record["reason"] is None
    # the bias of a judge makes its own interval miss, and is no part of what labels and judge say together
    (biased,) = prediction_powered_records([partly(scores=sample.scores - 1.5)])
    assert record["misses"] < biased["counted"] == biased["misses"] == 5
    predicted = [[system["predicted"] for system in each["systems"]] for each in (record, biased)]
    assert predicted[0] == pytest.approx(predicted[1])
    # scores are mapped to the humans' scale
    wide = partly(scores=(sample.scores - 1) * 2 + 1, cell=cell(ends=(1.0, 9.0)))
    np.testing.assert_allclose(few_labels_of(wide).judge, sample.scores)


def test_too_few_labels_leave_the_interval_open_with_a_reason():
    means = from_labels(few([3.0] * (FEWEST_LABELLED - 1) + [NAN] * 5))
    assert means.value[0] == 3.0
    assert np.isnan(means.low[0])
    assert np.isnan(from_labels(few([NAN] * 5)).value[0])
    for record in predicted_means(drawn(labelled=4)):
        assert record["predicted_low"] is record["narrower"] is None
        assert "4 groups have ratings" in record["reason"]
