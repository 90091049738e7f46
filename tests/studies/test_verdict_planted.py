"""Verdicts on planted data: few systems, bad raters, raters who do not agree, and judges that praise the worst."""

from dataclasses import replace

import numpy as np
import pytest

from judgebench.settings.costs import Asking, Costs
from judgebench.settings.margins import Margins
from judgebench.stats.clusters import Clusters
from judgebench.studies.decisions import decision_records
from judgebench.studies.humans import odd_raters
from judgebench.studies.replaced import kappa_of_raters, kappa_with_raters, lowest_share, places_of, replaced_record
from judgebench.studies.rules import CARE, FEW, NO, UNMEASURED, YES
from judgebench.studies.system_pairs import PairedSystems, SystemSample
from judgebench.studies.verdict_decisions import decides
from tests.stats.recorded import needs_recorded, recorded
from tests.test_scripts import script

simulate = script("simulate")


def of(scores, ratings, groups, systems=None, seed=0):
    systems = np.full(len(scores), "a") if systems is None else systems
    return simulate.study_sample("planted", np.clip(scores, 1, 5), ratings, groups, systems, seed)


def drawn(texts, seed=0, raters=3, noise=0.7):
    """Truth [N], and ratings [N, R] from 1 to 5 of raters with noise of their own."""
    rng = np.random.default_rng(seed)
    truth = 3 + rng.normal(size=texts)
    return truth, np.clip(np.round(truth[:, None] + noise * rng.normal(size=(texts, raters))), 1, 5)


# --- systems ----------------------------------------------------------------------------------------------------------


@needs_recorded
def test_a_judge_that_ranks_two_systems_by_length_may_not_compare_systems():
    data = recorded("coherence", "gpt-4o")
    names = np.unique(data.systems)
    means = [data.human[data.systems == name].mean() for name in names]
    worst, best = names[np.argmin(means)], names[np.argmax(means)]
    rows = np.isin(data.systems, (worst, best))
    length = np.where(data.systems == best, 4.0, 2.0) + np.random.default_rng(0).normal(0, 0.5, len(rows))
    record = simulate.verdicts(of(length[rows], data.raters[rows], data.groups[rows], data.systems[rows]))
    assert record["compare_systems"]["verdict"] == FEW
    assert record["compare_systems"]["clause"] == "1 pair of systems; it takes 6"


@pytest.mark.parametrize("systems", [2, 6])
def test_likings_for_few_systems_are_never_a_yes(systems):
    for seed in range(6):
        sample = simulate.simulated_judge("perfect", 30, seed, systems)
        likings = np.random.default_rng(seed).normal(size=systems)
        sample = replace(sample, scores=np.clip(3 + likings[sample.systems.astype(int)], 1, 5))
        record = simulate.verdicts(sample)["compare_systems"]
        assert record["verdict"] != YES
        assert systems > 3 or record["verdict"] in (FEW, NO, UNMEASURED)


def test_the_truth_about_sixteen_systems_is_a_yes_that_more_labels_do_not_take_and_few_labels_do_not_give():
    """At 50 labels two systems share an article or two, whose order is noise."""
    sample = simulate.simulated_judge("perfect", 60, 1, 16)
    whole = simulate.verdicts(sample)["compare_systems"]
    assert whole["verdict"] == YES
    order = np.random.default_rng(0).permutation(len(sample.scores))
    words = []
    for labels in (50, 200, 480, 960):
        rated = np.where(np.isin(np.arange(len(order)), order[:labels])[:, None], sample.ratings, np.nan)
        record = simulate.verdicts(replace(sample, ratings=rated))["compare_systems"]
        words.append((FEW, NO, CARE, YES).index(record["verdict"]))
        if labels == 50:
            assert record["verdict"] == FEW
            assert record["clause"].startswith("two systems share ")
            assert record["needed"] == 10
    assert words == sorted(words)
    few = simulate.verdicts(sample, Margins(pairs=121))["compare_systems"]
    assert few["verdict"] == CARE
    assert few["clause"].endswith("; 120 pairs, and yes takes 121")


def test_shares_without_a_system_are_those_of_plain_loops():
    rng = np.random.default_rng(3)
    human, judge = rng.integers(1, 4, (2, 5, 12)).astype(float)
    judge[2, :4] = human[2, :4] = np.nan
    clusters = Clusters.of(range(12), 0)
    found = SystemSample.of(*(PairedSystems(side, clusters) for side in (judge, human)))

    def share(left):
        right = []
        for one in range(5):
            for other in range(one + 1, 5):
                if left in (one, other):
                    continue
                ours, theirs = (np.sign(np.nansum(side[one] - side[other])) for side in (judge, human))
                right += [(1 + ours * theirs) / 2] if theirs else []
        return np.mean(right), len(right)

    assert found.shares == pytest.approx([share(left)[0] for left in (None, *range(5))])
    assert (found.pairs, found.articles) == (share(None)[1], 12)
    clusters = Clusters.of(np.arange(12), 50)
    record = found.record(rng.normal(found.shares[0], 0.05, 51), clusters)
    assert record["pairwise_over_systems_low"] < found.shares[0] < record["pairwise_over_systems_high"]
    assert found._replace(shares=found.shares[:3]).record(np.ones(51), clusters)["pairwise_over_systems_low"] is None


# --- raters -----------------------------------------------------------------------------------------------------------


@needs_recorded
@pytest.mark.parametrize("kind", ["random", "reversed"])
def test_a_bad_rater_of_summeval_is_left_out_named_and_betters_no_verdict(kind):
    data = recorded("coherence", "gpt-4o")
    rng = np.random.default_rng(0)
    bad = {"random": rng.integers(1, 6, 960), "reversed": 6 - data.raters[:, 0]}[kind]
    before = simulate.verdicts(of(data.judge, data.raters, data.groups, data.systems))
    after = simulate.verdicts(of(data.judge, np.column_stack([data.raters, bad]), data.groups, data.systems))
    uses = ("order_texts", "compare_systems", "report_scores", "replace_rater")
    assert [after[use]["verdict"] for use in uses] == [before[use]["verdict"] for use in uses]
    assert [after[use]["value"] for use in uses] == [before[use]["value"] for use in uses]
    record = after["order_texts"]
    assert record["raters_dropped"] == ["r3"]
    assert "without r3, who agrees with no other rater" in record["clause"]
    assert record["beside_raters"] in (YES, CARE)
    assert before["order_texts"]["raters_dropped"] == []


@pytest.mark.parametrize("raters", [2, 3, 5])
def test_honest_raters_stay_and_of_two_who_do_not_agree_nobody_is_named(raters):
    _, ratings = drawn(200, raters=raters)
    assert odd_raters(ratings) == ([], [])
    two = ratings[:, :2].copy()
    two[:, 1] = np.random.default_rng(1).permutation(two[:, 1])
    assert odd_raters(two) == ([], [0, 1])
    assert odd_raters(np.column_stack([ratings, np.full(200, 3.0)])).odd == [raters]


def test_of_two_raters_the_judge_must_follow_both():
    """One of them clicks at random on 70 % of the texts, so that a weak judge is as near to the other as they are to
    each other."""
    rng = np.random.default_rng(4)
    truth, ratings = drawn(2000, 4, 2, 0.5)
    groups = np.repeat(np.arange(500), 4)
    perfect = simulate.verdicts(of(truth, ratings, groups))["order_texts"]
    assert perfect["verdict"] == YES
    clicks = rng.random(2000) < 0.7
    ratings[clicks, 1] = rng.integers(1, 6, clicks.sum())
    records = simulate.verdicts(of(truth + 1.8 * rng.normal(size=2000), ratings, groups))
    assert records["report_scores"]["verdict"] != YES
    record = records["order_texts"]
    assert record["value_low"] > record["rater"] - 0.03
    assert record["verdict"] == CARE
    assert record["clause"].endswith("it agrees with one of two raters alone, and a third would tell")


# --- raters who hardly agree ------------------------------------------------------------------------------------------


def test_a_judge_that_knows_the_system_alone_gets_no_yes_where_raters_hardly_agree_within_systems():
    rng = np.random.default_rng(0)
    group, system = np.repeat(np.arange(100), 6), np.tile(np.arange(6), 100)
    of_system = 0.9 * (system - 2.5)
    ratings = np.clip(np.round(3 + of_system[:, None] / 2 + 0.7 * rng.normal(size=(600, 3))), 1, 5)
    record = simulate.verdicts(of(3 + of_system / 2, ratings, group, system.astype(str)))["order_texts"]
    assert record["verdict"] == CARE
    assert record["clause"].endswith("per system raters hardly agree")
    assert record["value_low"] > record["rater"] - 0.03


def test_a_rater_hardly_above_a_coin_is_no_bar_for_a_yes():
    _, ratings = drawn(600, 1, 3, 2.6)
    truth, _ = drawn(600, 1)
    record = simulate.verdicts(of(truth, ratings, np.repeat(np.arange(150), 4)))["order_texts"]
    assert 0.55 <= record["rater"] < 0.575
    assert record["verdict"] == CARE
    assert record["clause"].endswith("hardly above a coin")


@pytest.mark.parametrize("texts", [400, 2000])
def test_coins_that_judge_coins_decide_nothing(texts):
    for seed in range(4):
        rng = np.random.default_rng([seed, texts])
        ratings = rng.integers(0, 2, (texts, 3)).astype(float)
        sample = simulate.decision_sample(rng.integers(0, 2, texts).astype(float), ratings[:, 0], np.arange(texts))
        sample = replace(sample, ratings=ratings, raters=("a", "b", "c"))
        row = decision_records([sample], Costs(), Asking())[-1]
        found = decides(row, Margins())
        assert found.verdict != YES
        if row["kappa_rater_low"] <= 0 or row["passed"] not in (0, 1):
            assert found.verdict == UNMEASURED
            assert found.clause.startswith("raters hardly agree: kappa")


# --- in the place of a rater ------------------------------------------------------------------------------------------


def test_kappas_are_those_of_all_pairs():
    _, ratings = drawn(30, 5)
    ratings[3, 1] = ratings[7, :2] = np.nan
    judge = np.linspace(1, 5, 30)
    clusters = Clusters.of(np.arange(30), 0)
    pairs, with_judge = [], []
    for text, given in enumerate(ratings):
        known = given[~np.isnan(given)]
        with_judge += [(judge[text], rating, 1) for rating in known]
        for one, rating in enumerate(known):
            pairs += [(rating, other, 1 / (len(known) - 1)) for two, other in enumerate(known) if two != one]

    def kappa(rows):
        x, y, weight = np.array(rows).T
        middle, mean = np.average(x, weights=weight), np.average(y, weights=weight)
        spread = np.average((x - middle) ** 2 + (y - mean) ** 2, weights=weight) + (middle - mean) ** 2
        return 1 - np.average((x - y) ** 2, weights=weight) / spread

    # a text with one rating has no pair
    several = (~np.isnan(ratings)).sum(axis=1) > 1
    part = Clusters.of(np.arange(several.sum()), 0)
    assert kappa_of_raters(ratings[several], part)[0] == pytest.approx(kappa(pairs))
    assert kappa_with_raters(judge, ratings, clusters)[0] == pytest.approx(kappa(with_judge))


@pytest.mark.parametrize("kind", ["constant", "shuffled"])
def test_a_judge_that_reads_nothing_replaces_nobody(kind):
    truth, ratings = drawn(400)
    scores = np.full(400, 3.0) if kind == "constant" else np.random.default_rng(9).permutation(truth)
    record = simulate.verdicts(of(scores, ratings, np.repeat(np.arange(100), 4)))["replace_rater"]
    assert record["verdict"] == NO
    assert record["clause"].startswith("kappa with a rater")


@pytest.mark.parametrize(("raters", "word"), [(3, YES), (2, CARE)])
def test_a_raters_copy_with_its_own_noise_replaces_a_rater_and_of_two_with_care(raters, word):
    truth, ratings = drawn(2000, 3, raters)
    copy = truth + 0.7 * np.random.default_rng(8).normal(size=2000)
    records = simulate.verdicts(of(np.round(copy), ratings, np.repeat(np.arange(500), 4)))
    assert records["replace_rater"]["verdict"] == word
    few = simulate.verdicts(of(np.round(copy)[:80], ratings[:80], np.repeat(np.arange(20), 4)))["replace_rater"]
    assert few["verdict"] != YES


@pytest.mark.parametrize("systems", [1, 6])
def test_the_truth_that_gives_its_best_score_to_the_worst_tenth_may_not_report_scores_or_replace(systems):
    sample = simulate.simulated_judge("perfect", 60, 2, systems) if systems > 1 else None
    if sample is None:
        truth, ratings = drawn(360, 2)
        sample = of(truth, ratings, np.repeat(np.arange(60), 6))
    before = simulate.verdicts(sample)
    assert before["replace_rater"]["verdict"] == YES
    worst = sample.human <= np.quantile(sample.human, 0.1)
    praised = replace(sample, scores=np.where(worst, 5.0, sample.scores))
    after = simulate.verdicts(praised)
    for use in ("replace_rater", "report_scores"):
        assert after[use]["verdict"] in (NO, CARE, FEW)
        if after[use]["verdict"] != FEW and before[use]["verdict"] == YES:
            assert "the tenth that people rate lowest lies above" in after[use]["clause"] or use == "replace_rater"
    record = replaced_record(praised)
    assert record["worst"] > 0.5 > replaced_record(sample)["worst_high"]


def test_places_and_the_lowest_tenth_share_ties():
    assert places_of(np.array([2.0, 2.0, 7.0, 5.0])).tolist() == [0.25, 0.25, 0.875, 0.625]
    values = np.array([1.0] * 3 + [2.0] * 7 + [3.0] * 10)
    assert lowest_share(values).sum() == pytest.approx(2.0)
    assert lowest_share(values)[:3] == pytest.approx(2 / 3)
