"""Judges that say pass or fail: figures by plain loops over single labels, marks by trying all, intervals and bands
on simulated judges whose truth is known, recorded judges of other people, and the verdict."""

from itertools import permutations

import numpy as np
import pytest
import statsmodels.stats.proportion
from hypothesis import given
from hypothesis import strategies as st

from judgebench.settings.costs import Asking, Costs
from judgebench.settings.margins import Margins
from judgebench.stats.classes import agreement_of, kappa_of, label_shares, matrices, rater_matrices, share_of_pairs
from judgebench.stats.shares import clustered_share, wilson
from judgebench.stats.thresholds import band_of, cheapest_threshold
from judgebench.studies.decisions import CHOSEN, SAID, aim_record, decision_records
from judgebench.studies.rules import CARE, FEW, NO, YES
from judgebench.studies.verdict_decisions import decides
from judgebench.types import Classes
from judgebench.words.errors import UserError
from tests.test_scripts import script

simulate = script("simulate")
TWO = Classes(("fail", "pass"), 1.0)
COSTS, ASKING, MARGINS = Costs(), Asking(), Margins()


def rated(seed=0, texts=40, raters=3, classes=2):
    """Labels of raters [N, R], some missing, the judge's classes [N], groups [N]."""
    rng = np.random.default_rng(seed)
    ratings = rng.integers(0, classes, (texts, raters)).astype(float)
    ratings[rng.random(ratings.shape) < 0.3] = np.nan
    ratings[:, 0] = np.nan_to_num(ratings[:, 0])
    return ratings, rng.integers(0, classes, texts), np.repeat(np.arange(texts // 4), 4)


def sample(scores, labels, groups=None, **changed):
    groups = np.arange(len(scores)) if groups is None else groups
    return simulate.replace(
        simulate.decision_sample(np.asarray(scores, float), np.asarray(labels, float), np.asarray(groups)), **changed
    )


def pairs_of_raters(row):
    return list(permutations(row[~np.isnan(row)], 2))


@pytest.mark.parametrize("classes", [2, 3])
def test_people_and_judge_are_counted_label_by_label(classes):
    ratings, said, groups = rated(classes=classes)
    named = TWO if classes == 2 else Classes(("a", "b", "c"), ordered=False)
    shares = label_shares(ratings, named)
    clusters = sample(said, said, groups).clusters
    found = matrices(shares, said, clusters)[0]
    raters = rater_matrices(ratings, named, clusters)[0]
    expected, among = np.zeros((classes, classes)), np.zeros((classes, classes))
    for row, judged in zip(ratings, said, strict=True):
        given_labels = row[~np.isnan(row)]
        for label in given_labels:
            expected[int(label), judged] += 1 / len(given_labels)
        for first, second in pairs_of_raters(row):
            among[int(first), int(second)] += 1 / len(pairs_of_raters(row))
    np.testing.assert_allclose(found, expected)
    np.testing.assert_allclose(raters, among)
    chance = sum(expected[k].sum() * expected[:, k].sum() for k in range(classes)) / len(said) ** 2
    agreement = np.trace(expected) / len(said)
    assert agreement_of(found) == pytest.approx(agreement)
    assert kappa_of(found) == pytest.approx((agreement - chance) / (1 - chance))


def test_tpr_and_tnr_are_those_of_single_labels():
    ratings, said, groups = rated(3)
    record = decision_records([sample(said, said, groups, ratings=ratings, raters=("a", "b", "c"))], COSTS, ASKING)[0]
    for name, label, other in (("tpr", 1, True), ("tnr", 0, False)):
        right = mass = agree = pairs = 0.0
        for row, judged in zip(ratings, said, strict=True):
            labels = row[~np.isnan(row)]
            mass += (labels == label).mean()
            right += (labels == label).mean() * (judged == other)
            both = pairs_of_raters(row)
            if both:
                pairs += sum(first == label for first, _ in both) / len(both)
                agree += sum(first == second == label for first, second in both) / len(both)
        assert record[name] == pytest.approx(right / mass)
        assert record[f"{name}_rater"] == pytest.approx(agree / pairs)
    assert record["balanced"] == pytest.approx((record["tpr"] + record["tnr"]) / 2)
    assert record["mark"] == SAID


@given(st.integers(0, 10**6))
def test_the_share_of_pairs_is_that_of_all_pairs(seed):
    rng = np.random.default_rng(seed)
    scores, passed = rng.integers(0, 4, 12).astype(float), rng.integers(0, 3, 12) / 2
    found = share_of_pairs(scores, passed, np.arange(12))
    weights = passed[:, None] * (1 - passed)[None, :]
    ahead = (scores[:, None] > scores[None, :]) + 0.5 * (scores[:, None] == scores[None, :])
    if not passed.any() or (passed == 1).all():
        assert found is None
    else:
        assert found.value == pytest.approx((weights * ahead).sum() / weights.sum())
        assert found.low is None or found.low <= found.value <= found.high


def test_the_interval_is_wilsons_of_the_effective_number():
    low, high = wilson(0.9, 80, 1.959964)
    assert (low, high) == pytest.approx(
        statsmodels.stats.proportion.proportion_confint(72, 80, method="wilson"), abs=1e-6
    )
    rng = np.random.default_rng(0)
    right = 1.0 * (rng.random(400) < 0.8)
    alone = clustered_share(right, np.ones(400), np.arange(400))
    assert (alone.low, alone.high) == pytest.approx(wilson(alone.value, 400, 1.966), abs=1e-4)
    together = clustered_share(np.repeat(right[:40], 10), np.ones(400), np.repeat(np.arange(40), 10))
    assert together.high - together.low > 2.5 * (alone.high - alone.low)  # ten texts that are one
    every = clustered_share(right, np.ones(400), np.arange(400), labelled=(1.0, 1.0))
    assert every.low == every.value == every.high  # nothing is left to be drawn


def test_the_interval_holds_the_share_of_new_groups():
    rng, rho = np.random.default_rng(1), 0.3
    held = []
    for _ in range(300):
        groups = np.repeat(np.arange(15), rng.integers(2, 9, 15))
        share = rng.beta(0.9 * (1 / rho - 1), 0.1 * (1 / rho - 1), 15)
        right = 1.0 * (rng.random(len(groups)) < share[groups])
        found = clustered_share(right, np.ones(len(groups)), groups)
        held.append(found.low <= 0.9 <= found.high)
    assert 0.93 <= np.mean(held) <= 0.995


def test_the_mark_is_the_cheapest_where_it_is_clearly_cheaper_than_the_judges_own():
    rng = np.random.default_rng(2)
    scores = rng.random(300).round(2)
    passed = 1.0 * (rng.random(300) < np.clip(2 * scores - 0.9, 0.02, 0.98))
    for costs in (COSTS, Costs(false_pass=5)):
        found = cheapest_threshold(scores, passed, np.arange(300), 0.1, costs)
        every = np.unique(scores)
        prices = [
            costs.false_pass * (1 - passed)[scores >= mark].sum() + costs.false_fail * passed[scores < mark].sum()
            for mark in every[1:]
        ]
        best = every[1:][int(np.argmin(prices))]
        assert every[every < best].max() < found < best
    assert cheapest_threshold(scores[:12], passed[:12], np.arange(12), 0.7, COSTS) == 0.7  # too few to tell
    cheapest = cheapest_threshold(scores, passed, np.arange(300), 0.1, COSTS)
    assert cheapest_threshold(scores, passed, np.arange(300), cheapest, COSTS) == cheapest  # nothing is cheaper


def test_the_band_keeps_its_error_on_new_groups():
    score, label, _ = simulate.deciding("lenient", 0.8, 20000, 1000, 10**6)
    broken, asked = [], []
    for seed in range(40):
        record = decision_records([sample(*simulate.deciding("lenient", 0.8, 300, 40, seed))], COSTS, ASKING)[-1]
        assert record["fail_to"] is None or record["pass_from"] is None or record["fail_to"] < record["pass_from"]
        fails = score <= (-1 if record["fail_to"] is None else record["fail_to"])
        passes = score >= (2 if record["pass_from"] is None else record["pass_from"])
        wrong = np.where(passes, label == 0, label == 1)[fails | passes]
        broken.append(len(wrong) > 0 and wrong.mean() > ASKING.error)
        asked.append(record["asked"])
        assert [point[0] for point in record["curve"]] == sorted(point[0] for point in record["curve"])
    assert np.mean(broken) <= 0.1
    assert np.mean(asked) < 0.6  # and it decides something


def test_where_no_part_is_decided_well_enough_a_person_sees_all():
    rng = np.random.default_rng(0)
    passed = 1.0 * (rng.random(60) < 0.5)
    assert band_of(rng.random(60), 0.5, np.full(60, 0.5), passed, np.arange(60), 0.05).asked == 1.0
    assert band_of(passed, 0.5, passed, passed, np.arange(60), None) == (None, None, 1.0, None), "without an aim"


@pytest.mark.parametrize("raters", [2, 3, 5])
def test_the_aim_is_what_one_rater_misses_and_the_majority_says_what_is_possible(raters):
    """By loops over single labels: raters of 200 texts who each err on a tenth."""
    rng = np.random.default_rng(raters)
    truth = rng.random(200) < 0.5
    ratings = 1.0 * (truth[:, None] ^ (rng.random((200, raters)) < 0.1))
    ratings[rng.random(200) < 0.2, 1:] = np.nan
    groups = np.repeat(np.arange(50), 4)
    pairs, missed = [], []
    for row in ratings:
        labels = row[np.isfinite(row)].tolist()
        missed.append(min(np.mean(labels), 1 - np.mean(labels)))
        unlike = [a != b for i, a in enumerate(labels) for j, b in enumerate(labels) if i != j]
        pairs += [np.mean(unlike)] if unlike else []
    found = aim_record(ratings, simulate.BINARY, groups, Asking(error="rater"))
    assert found["ask_aim"] == found["rater_error"] == pytest.approx(np.mean(pairs))
    assert found["majority_error"] == pytest.approx(np.mean(missed))
    least = [
        aim_record(ratings, simulate.BINARY, groups, Asking(error=error))["ask_least"] for error in (0.01, 0.05, 0.3)
    ]
    assert least == sorted(least, reverse=True)
    assert least[0] == 1, "so few texts never show 1 %"
    assert least[2] == 0
    # no judge does better than the majority, and one that is the majority does as well
    passed = np.nanmean(ratings, axis=1)
    for error, possible in ((0.05, least[1]), (found["ask_aim"], found["ask_least"])):
        assert band_of(passed, 0.5, passed, passed, groups, error).asked == pytest.approx(possible)


def test_one_raters_error_is_no_aim_where_it_is_unknown_or_none():
    names = ("ask_aim", "rater_error", "majority_error", "ask_least")
    for raters, found in ((1, [None, None, None, 1]), (2, [None, 0, 0, 1])):
        record = aim_record(np.ones((60, raters)), simulate.BINARY, np.arange(60), Asking(error="rater"))
        assert [record[name] for name in names] == found
    for wrong in ("raters", 0.5, "0.1"):
        with pytest.raises(UserError, match=r"ask\.error"):
            Asking(error=wrong)


@pytest.mark.parametrize(
    ("kind", "base", "texts", "words"),
    [
        ("good", 0.5, 600, {YES}),
        ("good", 0.9, 2000, {YES, CARE}),
        ("good", 0.9, 40, {FEW, CARE}),
        ("noisy", 0.5, 1000, {CARE, NO}),
        ("always", 0.5, 300, {NO}),
        ("always", 0.95, 300, {NO}),
        ("always", 0.99, 300, {NO}),
    ],
)
def test_the_verdict_is_true_of_simulated_judges(kind, base, texts, words):
    scores, labels, groups = simulate.deciding(kind, base, texts, texts // 10, 3)
    labels[:2] = 0, 1
    given = decision_records([sample(scores, labels, groups)], Costs(threshold=0.8), ASKING)
    assert [record["pass_mark"] for record in given] == [0.5, 0.8]
    record = decision_records([sample(scores, labels, groups)], COSTS, ASKING)[-1]
    verdict = decides(record, MARGINS)
    assert record["mark"] == CHOSEN
    assert verdict.verdict in words
    assert "of texts that people" in verdict.clause or verdict.clause == "it passes every text"


def test_one_rater_is_the_bar_where_there_are_several():
    row = {"passed": 0.5, "labels_pass": 100.0, "labels_fail": 50.0}
    row |= {"tpr": 0.7, "tpr_low": 0.66, "tpr_high": 0.74, "tnr": 0.72, "tnr_low": 0.66, "tnr_high": 0.76}
    assert decides(row | {"tpr_rater": 0.68, "tnr_rater": 0.68}, MARGINS).verdict == YES
    assert decides(row | {"tpr_rater": 0.68, "tnr_rater": 0.9}, MARGINS).verdict == CARE
    assert decides(row | {"tpr_rater": None, "tnr_rater": None}, MARGINS).verdict == CARE
    wide = row | {"tnr_low": 0.4, "tnr_high": 0.9, "tpr_rater": None, "tnr_rater": None}
    few = decides(wide, MARGINS)
    assert (few.verdict, few.needed) == (FEW, 106)  # 50 labels times (.32 / .22) squared
    assert "106 texts that people fail may tell" in few.clause
    assert decides(row | {"tnr": None, "tpr_rater": None, "tnr_rater": None}, MARGINS).verdict == FEW


def test_pass_rates_are_of_all_texts_and_of_each_system():
    scores, labels, groups = simulate.deciding("good", 0.8, 400, 40, 5)
    given_labels = np.where(groups < 20, labels, np.nan)
    systems = np.where(np.arange(400) % 2, "a", "b")
    rates = decision_records([sample(scores, given_labels, groups, systems=systems)], COSTS, ASKING)[-1]["rates"]
    assert [row["system"] for row in rates] == ["", "a", "b"]
    for row in rates:
        assert row["rate_low"] < row["rate"] < row["rate_high"]
        assert row["rate_these_high"] - row["rate_these_low"] < row["rate_high"] - row["rate_low"]
        assert row["rate_these_low"] <= labels[(row["system"] == "") | (systems == row["system"])].mean()
        assert row["rate_these_high"] >= labels[(row["system"] == "") | (systems == row["system"])].mean()


def test_classes_without_order_have_a_matrix_and_no_mark():
    ratings, said, groups = rated(7, classes=3)
    nominal = Classes(("x", "y", "z"), ordered=False)
    record = decision_records(
        [sample(said / 2, said, groups, ratings=ratings, classes=nominal, scale=(0.0, 2.0))], COSTS, ASKING
    )
    assert [row["mark"] for row in record] == [SAID]
    assert record[0]["pass_mark"] is None
    assert "tpr" not in record[0]
    assert [row["class"] for row in record[0]["recalls"]] == ["x", "y", "z"]
    assert sum(map(sum, record[0]["matrix"])) == pytest.approx(len(said))
