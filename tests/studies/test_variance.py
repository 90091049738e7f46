"""Variance components: ANOVA by hand, statsmodels' mixed model, plain loops over pairs, judges whose components are
known; and the records of a run."""

import json
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from judgebench.stats.clusters import Clusters, group_weights
from judgebench.stats.variance import CrossedScores, facet_share
from judgebench.studies.variance import HUMANS, JUDGES, RANGES, component_records, variance_records
from judgebench.types import ScoreRange
from tests.stats.sides import FOUR, known_judge, sample_of

NAN = np.nan

# --- components -------------------------------------------------------------------------------------------------------


def crossed(values, facets, groups=None, resamples=0, seed=0):
    """Each of the first axis' entries a group of its own, if no groups are named."""
    return CrossedScores(
        values, facets, Clusters.of(np.arange(len(values)) if groups is None else groups, resamples, seed)
    )


def drawn(shape=(8, 5, 4, 3), seed=0):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=shape)
    for axes in ((0,), (2,), (0, 2)):
        values = values + rng.normal(size=[size if axis in axes else 1 for axis, size in enumerate(shape)])
    return values


def test_complete_tables_give_the_anova_estimates():
    """Mean squares, and the components whose expected mean squares they are."""
    scores = crossed(drawn(), ("text", "system", "range", "judge"))
    values, squares = scores.values, {}
    sizes = {key: np.prod([n for n, inside in zip(values.shape, key, strict=True) if not inside])
             for key in product((0, 1), repeat=values.ndim)}  # fmt: skip
    for effect, cells in sizes.items():
        rest = values
        for axis, inside in enumerate(effect):
            mean = rest.mean(axis=axis, keepdims=True)
            rest = rest - mean if inside else mean
        degrees = np.prod([size - 1 for size, inside in zip(values.shape, effect, strict=True) if inside])
        squares[effect] = (rest**2).sum() * cells / degrees
    for effect, variance in scores.components.items():
        key = tuple(int(facet in effect) for facet in scores.facets)
        more = [other for other in squares if all(a <= b for a, b in zip(key, other, strict=True))]
        signed = sum((-1) ** (sum(other) - sum(key)) * squares[other] for other in more)
        assert variance[0] == pytest.approx(signed / sizes[key], abs=1e-12)


def by_pairs(values, rows):
    """Components from all pairs of scores, one by one; `rows` of a resample, never paired with a copy of themselves."""
    cells = [
        (copy, row, where, values[row][where])
        for copy, row in enumerate(rows)
        for where in np.ndindex(values.shape[1:])
        if not np.isnan(values[row][where])
    ]
    pairs: dict[frozenset[int], list[float]] = {}
    for copy, row, where, value in cells:
        for other_copy, other_row, other_where, other in cells:
            if copy != other_copy and row == other_row:
                continue
            agree = {axis + 1 for axis, (a, b) in enumerate(zip(where, other_where, strict=True)) if a == b}
            agree |= {0} if copy == other_copy else set()
            if len(agree) < values.ndim:
                pairs.setdefault(frozenset(agree), []).append((value - other) ** 2 / 2)
    means = {effect: np.mean(each) for effect, each in pairs.items()} | {frozenset(range(values.ndim)): 0.0}
    effects = [frozenset(np.flatnonzero(each).tolist()) for each in product((0, 1), repeat=values.ndim)]
    return {
        effect: sum(
            (-1) ** (len(effect) - len(part)) * (means[frozenset()] - means.get(part, NAN))
            for part in effects
            if part and part <= effect
        )
        for effect in effects
    }


@given(st.integers(0, 10**6))
def test_incomplete_tables_take_all_pairs_there_are_in_each_resample(seed):
    rng = np.random.default_rng(seed)
    values = drawn((4, 3, 2), seed)
    values[rng.random(values.shape) < 0.15] = NAN
    if np.isnan(values).all(axis=(1, 2)).any():
        return
    scores = crossed(values, ("text", "range", "judge"), None, 3, 2)
    for b, weights in enumerate([np.ones(4, dtype=int), *group_weights(4, 3, 2)]):
        expected = by_pairs(values, np.repeat(np.arange(4), weights).tolist())
        for effect, variance in scores.components.items():
            key = frozenset(scores.facets.index(facet) for facet in effect)
            if not np.isnan(expected[key]):
                np.testing.assert_allclose(variance[b], expected[key], atol=1e-9)


def test_texts_of_a_group_are_drawn_together():
    """Three copies of a group of two texts: pairs of its own two alone."""
    values, names = drawn((6, 4), 5), ("text", "range")
    grouped = crossed(values, names, np.array([0, 0, 1, 1, 2, 2]), 300, 1)
    thrice = np.flatnonzero((group_weights(3, 300, 1) == [3, 0, 0]).all(axis=1))
    for effect, variance in crossed(values[:2], names).components.items():
        assert grouped.components[effect][1 + thrice[0]] == pytest.approx(variance[0])


def test_shares_and_the_range_in_one_number_by_hand():
    # texts 0 and 2 apart, ranges 1 apart, no interaction: mean squares 2 * 2, 2 * .5 and 0
    scores = crossed(np.array([[0.0, 1.0], [2.0, 3.0]]), ("text", "range"))
    records = component_records(scores)
    assert [record["effect"] for record in records] == ["text", "range", "text x range"]
    assert [record["variance"] for record in records] == pytest.approx([2.0, 0.5, 0.0])
    assert [record["share"] for record in records] == pytest.approx([0.8, 0.2, 0.0])
    share = facet_share(scores, "range")
    assert (share["own"], share["interactions"], share["both"]) == pytest.approx((0.2, 0.0, 0.2))
    negative = component_records(crossed(np.array([[0.0, 1.0], [1.0, 0.0]]), ("text", "range")))
    assert [record["variance"] for record in negative] == pytest.approx([-0.5, -0.5, 1.0])
    assert [record["share"] for record in negative] == [0.0, 0.0, 1.0]
    assert [bool(record["note"]) for record in negative] == [True, True, False]


def test_intervals_of_shares_are_the_jackknifes_and_their_rests():
    """Each group left out by hand, Student's t of log(1 - share) of the smaller side (scipy)."""
    values, names = drawn((12, 4), 5) + np.arange(12)[:, None] / 3, ("text", "range")
    scores = crossed(values, names, None, 50)
    rests = [crossed(np.delete(values, i, axis=0), names) for i in range(12)]
    shares = np.array([facet_share(part, "range")["both"] for part in (scores, *rests)])
    texts, both = component_records(scores)[0], facet_share(scores, "range")
    assert both["both"] < 0.5
    logs = np.log1p(-shares)
    error = np.sqrt(11 / 12 * ((logs[1:] - logs[1:].mean()) ** 2).sum())
    low, high = (1 - np.exp(logs[0] + side * error * stats.t.ppf(0.975, 11)) for side in (1, -1))
    assert (both["both_low"], both["both_high"]) == pytest.approx((max(low, 0.0), high))
    assert (texts["share_low"], texts["share_high"]) == pytest.approx((1 - high, 1 - max(low, 0.0)))


# --- the study --------------------------------------------------------------------------------------------------------


def of(records, study=RANGES, calibrated=False):
    return [record for record in records if (record["study"], record["calibrated"]) == (study, calibrated)]


def test_a_simulated_judge_whose_range_effect_is_known():
    """Text .02, range .01, text x range .005: the range makes 15 of 35 parts. Over 40 data sets the mean is that, and
    the 95 % intervals hold it."""
    truth = {"texts_share": 20 / 35, "range_own": 10 / 35, "range_interactions": 5 / 35, "range_both": 15 / 35}
    shares, inside = [], []
    for seed in range(40):
        values, groups = known_judge(seed)
        samples = [sample_of(values[:, i], *FOUR[i], groups=groups, resamples=200) for i in range(4)]
        (record,) = of(variance_records(samples))
        shares.append([record[name] for name in truth])
        inside.append([record[f"{name}_low"] <= share <= record[f"{name}_high"] for name, share in truth.items()])
    assert np.mean(shares, axis=0) == pytest.approx(list(truth.values()), abs=0.01)
    assert (np.mean(inside, axis=0) >= 0.88).all()  # a true 95 % falls below in 2 of 100 such simulations
    assert (np.mean(inside, axis=0) < 1).any()


def test_a_judge_that_only_moves_its_scale_is_repaired_by_calibration():
    """Whole scores of five quality levels, moved by range but never tied: isotonic calibration restores the level."""
    rng = np.random.default_rng(0)
    level, groups = rng.permutation(np.arange(100) % 5), np.arange(100) % 25
    human = 1.0 + level[:, None] + rng.normal(0, 0.01, (100, 2))
    moves = zip((0, 1, 3, 5), FOUR, strict=True)
    samples = [sample_of((level + move) / 10, *ends, ratings=human, groups=groups) for move, ends in moves]
    records = variance_records(samples)
    (raw,), (calibrated,) = of(records), of(records, calibrated=True)
    assert raw["range_own"] > 0.5
    assert raw["range_interactions"] == pytest.approx(0, abs=1e-9)
    assert calibrated["range_both"] == pytest.approx(0, abs=1e-9)
    assert calibrated["spread"] == pytest.approx(np.sqrt(level.var() * 100 / 99) / 4, rel=0.02)


def test_texts_that_lack_a_range_stay_out_and_order_does_not_matter():
    values, names = known_judge(2, 20)[0], np.array([f"t{i}" for i in range(20)])
    (whole,) = of(variance_records([sample_of(values[:15, i], *FOUR[i], names=names[:15]) for i in range(2)]))
    turned = sample_of(values[:15, 1][::-1], *FOUR[1], names=names[:15][::-1])
    (record,) = of(variance_records([sample_of(values[:, 0], *FOUR[0], names=names), turned]))
    assert (record["texts"], record["texts_share"]) == (15, pytest.approx(whole["texts_share"]))


def test_series_are_over_ranges_and_letters_and_numbers_are_two():
    values = known_judge(3, 12)[0]
    tuned = [sample_of(values[:, i], *FOUR[i], lambda_=0.1 * i, judge="pair") for i in range(4)]
    (record,) = of(variance_records(tuned))
    assert (record["ranges"], record["lambda"], record["judge"]) == (4, None, "pair")
    tried = [sample_of(values[:, i], *FOUR[i], lambda_=size) for i in range(2) for size in (0.1, 0.5)]
    assert [record["lambda"] for record in of(variance_records(tried))] == [0.1, 0.5]
    samples = [sample_of(values[:, 0]), sample_of(values[:, 1], range_labels="E, D, C, B, A")]
    (record,) = of(variance_records(samples))
    assert record["ranges"] == 2
    assert "range_labels" not in record
    assert samples[1].cell.range == ScoreRange(1, 5, 1, ("E", "D", "C", "B", "A"))


def test_two_judges_are_crossed_with_ranges():
    """Both judges alike but for a constant: the judge's component, and nothing of its interactions."""
    values = known_judge(6, 30)[0]
    judges = (("main", 0.0), ("assistant", 0.2))
    samples = [sample_of(values[:, i] + move, *FOUR[i], judge=judge) for i in range(4) for judge, move in judges]
    (record,) = of(variance_records(samples), JUDGES)
    assert (record["judge"], record["decoding"], record["ranges"], record["judges"]) == (None, "greedy", 4, 2)
    by_name = {part["effect"]: part["variance"] for part in record["components"]}
    assert by_name["judge"] == pytest.approx(0.02)
    assert record["judge_interactions"] == pytest.approx(0, abs=1e-9)
    one_range = variance_records([sample for sample in samples if sample.cell.range_min == 1])
    (record,) = of(one_range, JUDGES)
    assert [part["effect"] for part in record["components"]] == ["text", "judge", "text x judge"]
    assert of(one_range) == of(variance_records(samples[::2]), JUDGES) == []
    elsewhere = [sample_of(values[:, 0], *FOUR[0]), sample_of(values[:, 1], *FOUR[1], judge="assistant")]
    assert of(variance_records(elsewhere), JUDGES) == []


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        ([sample_of([0.5], *ends) for ends in FOUR], "fewer than two texts"),
        ([sample_of([0.5] * 4, *ends) for ends in FOUR], "all scores are the same"),
        ([sample_of([0.1, 0.2], *FOUR[i], names=["ab"[i], "cd"[i]]) for i in (0, 1)], "fewer than two"),
    ],
)
def test_what_cannot_be_known_is_null_with_a_reason(samples, reason):
    records = variance_records(samples)
    (record,) = of(records)
    assert reason in record["reason"]
    assert record["texts_share"] is record["range_both"] is record["spread"] is None
    (calibrated,) = of(records, calibrated=True)
    assert calibrated["reason"] == "Not calibrated: that takes two groups of rated texts at least."
    (human,) = of(records, HUMANS)
    assert human["reason"] == "No components: only one rating of each text, or their mean, is known."
    json.dumps(records, allow_nan=False)


def test_raters_of_ragged_ratings_who_never_meet_have_no_components():
    ratings = np.full((6, 3), np.nan)
    ratings[np.arange(6), np.arange(6) % 3] = np.arange(6) % 5 + 1
    (human,) = of(variance_records([sample_of(np.arange(6) / 6, ratings=ratings)]), HUMANS)
    assert "too few scores" in human["reason"]
    ratings[0], ratings[1] = 3, 5
    (human,) = of(variance_records([sample_of(np.arange(6) / 6, ratings=ratings, scale=None)]), HUMANS)
    assert human["reason"] is human["spread"] is None  # the scale is unknown
    assert human["texts"] == 6
