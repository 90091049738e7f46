"""The best of n: the law by every draw, groups by loops, intervals by coverage, and recorded judges."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from judgebench.studies.picks import pick_records, picked, ratio_estimate
from tests.stats.recorded import needs_recorded, recorded
from tests.stats.sides import sample_of, side

levels = st.integers(0, 3).map(float)
texts = st.lists(st.tuples(levels, levels), min_size=1, max_size=7)


def pick(rows) -> float:
    """The mean value of those with the highest score."""
    top = max(score for score, _ in rows)
    return float(np.mean([value for score, value in rows if score == top]))


@given(groups=st.lists(texts, min_size=1, max_size=4), draws=st.integers(1, 4))
def test_the_expected_pick_is_the_mean_over_every_draw(groups, draws):
    scores, values = np.array([text for group in groups for text in group]).T
    number = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    shuffled = np.random.default_rng(0).permutation(len(number))
    found = picked(scores[shuffled], values[shuffled], number[shuffled], len(groups), draws)
    whole = picked(scores[shuffled], values[shuffled], number[shuffled], len(groups))
    for group, of_draws, of_all in zip(groups, found, whole, strict=True):
        every = [pick(rows) for rows in combinations(group, draws)]
        np.testing.assert_allclose(of_draws, np.mean(every) if every else np.nan, atol=1e-12)
        assert of_all == pytest.approx(pick(group))


def test_many_texts_of_a_group_do_not_overflow():
    scores = np.arange(3000.0)
    found = picked(scores, scores, np.zeros(3000, np.int64), 1, draws=1500)
    assert found[0] == pytest.approx(1500 * 3001 / 1501 - 1)  # the expected maximum of a draw of 1 to n, less 1


def test_the_interval_of_a_mean_is_students():
    values = np.random.default_rng(0).normal(size=9)
    low, high = stats.t.interval(0.95, 8, values.mean(), stats.sem(values))
    assert ratio_estimate(values, np.ones(9), np.arange(9)) == pytest.approx((values.mean(), low, high))
    assert ratio_estimate(values, np.zeros(9), np.arange(9)) is None
    assert ratio_estimate(values[:1], np.ones(1), np.zeros(1)).low is None


@pytest.mark.exhaustive
def test_intervals_hold_what_a_pick_is_worth():
    """Gain and the share recovered, of judges with noise: 300 sets of 20 groups, the truth by 20,000 groups."""

    def figures(rng, groups):
        quality = rng.normal(size=(groups, 8)) + rng.normal(size=(groups, 1))
        human = np.round(quality + rng.normal(size=quality.shape))
        judge = np.round(quality + rng.normal(size=quality.shape))
        number = np.repeat(np.arange(groups), 8)
        sides = [picked(scores.ravel(), human.ravel(), number, groups) for scores in (judge, 0 * judge, human)]
        gain, room = sides[0] - sides[1], sides[2] - sides[1]
        of_groups = np.arange(groups)
        return ratio_estimate(gain, np.ones(groups), of_groups), ratio_estimate(gain, room, of_groups)

    truth = [estimate.value for estimate in figures(np.random.default_rng(0), 20_000)]
    held = np.zeros(2)
    for seed in range(1, 301):
        for place, estimate in enumerate(figures(np.random.default_rng(seed), 20)):
            held[place] += estimate.low <= truth[place] <= estimate.high
    assert (held / 300 > 0.91).all()
    assert (held / 300 < 0.985).all()


def by_loops(groups, systems, scores, ratings):
    """Every figure of a record, group by group and rater by rater."""
    human = ratings.mean(axis=1)
    sides = {name: [] for name in ("random", "by_system", "chosen", "best", "chosen_others", "rater")}
    for group in dict.fromkeys(groups):
        rows = np.flatnonzero(groups == group)
        other = groups != group
        means = {system: human[other & (systems == system)].mean() for system in dict.fromkeys(systems)}
        sides["random"].append(human[rows].mean())
        sides["chosen"].append(pick(list(zip(scores[rows], human[rows], strict=True))))
        sides["best"].append(human[rows].max())
        sides["by_system"].append(pick([(means[systems[row]], human[row]) for row in rows]))
        of_raters = []
        for rater in range(ratings.shape[1]):
            others = np.delete(ratings, rater, axis=1).mean(axis=1)
            picks = [pick(list(zip(by[rows], others[rows], strict=True))) for by in (scores, ratings[:, rater])]
            of_raters.append(picks)
        judge, rater = np.mean(of_raters, axis=0)
        sides["chosen_others"].append(judge)
        sides["rater"].append(rater)
    return {name: np.array(values) for name, values in sides.items()}


def test_a_record_is_what_loops_over_groups_and_raters_give():
    sample = side()
    (record,) = pick_records([sample])
    sides = by_loops(sample.groups, sample.systems, sample.scores, sample.ratings)
    for name, values in sides.items():
        assert record[name] == pytest.approx(values.mean()), name
        low, high = stats.t.interval(0.95, len(values) - 1, values.mean(), stats.sem(values))
        assert (record[f"{name}_low"], record[f"{name}_high"]) == pytest.approx((low, high)), name
    gain = (sides["chosen"] - sides["random"]).sum()
    assert record["recovered"] == pytest.approx(gain / (sides["best"] - sides["random"]).sum())
    assert record["chosen_less_rater"] == pytest.approx((sides["chosen_others"] - sides["rater"]).mean())
    # the best of all texts of a group is the judge's pick
    last = record["best_of"][-1]
    assert (last["n"], last["chosen"], last["sources"]) == (5, pytest.approx(record["chosen"]), 12)
    assert [row["n"] for row in record["best_of"]] == [2, 3, 4, 5]


def test_a_judge_that_knows_the_best_recovers_all_and_a_blind_one_nothing():
    sample = side()
    perfect = replace(sample, scores=sample.human)
    blind = replace(sample, scores=np.zeros(60))
    records = pick_records([perfect, blind])
    assert [round(record["recovered"], 12) for record in records] == [1.0, 0.0]
    assert records[0]["chosen"] == records[0]["best"]
    assert records[1]["chosen"] == pytest.approx(records[1]["random"])


def test_an_answer_that_could_not_be_read_is_picked_last():
    ratings = np.array([[5.0], [1.0], [2.0], [4.0]])
    groups = np.array(["a", "a", "b", "b"])
    unread = np.array([True, False, False, False])
    # the failed answer stands at the lowest score, as in scores.parquet, beside a text of the same score
    sample = sample_of([0.0, 0.0, 0.0, 1.0], ratings=ratings, groups=groups, unread=unread).answered
    (record,) = pick_records([sample])
    assert record["texts"] == 4
    assert record["chosen"] == pytest.approx((1 + 4) / 2)


def test_texts_are_picked_by_source_and_the_group_is_the_cluster():
    """Documents of three sentences, translated by five systems: the mean over sentences, its error over documents."""
    sample = side()
    documents = np.array([f"d{int(group[1:]) // 3}" for group in sample.groups])
    sentences = np.array([int(group[1:]) for group in sample.groups])
    in_documents = replace(sample, groups=documents, questions=sentences)
    (alone,), (joint,) = (pick_records([each]) for each in (sample, in_documents))
    assert (joint["sources"], joint["groups"], joint["texts"]) == (12, 4, 60)
    for name in ("random", "chosen", "best", "recovered", "rater", "chosen_less_rater"):
        assert joint[name] == pytest.approx(alone[name]), name
    sides = by_loops(sample.groups, sample.systems, sample.scores, sample.ratings)
    of_documents = {}
    for group, chosen in zip(dict.fromkeys(sample.groups), sides["chosen"], strict=True):
        of_documents.setdefault(int(group[1:]) // 3, []).append(chosen)
    means = np.mean(list(of_documents.values()), axis=1)
    low, high = stats.t.interval(0.95, 3, means.mean(), stats.sem(means))
    assert (joint["chosen_low"], joint["chosen_high"]) == pytest.approx((low, high))
    # texts of one group that answer to different sources are no choice
    (record,) = pick_records([replace(sample, questions=np.arange(60))])
    assert record["chosen"] is None


def test_what_cannot_be_picked_is_unknown_with_a_reason():
    (record,) = pick_records([sample_of([0.1, 0.9], ratings=[[1.0], [2.0]])])
    assert record["chosen"] is None
    assert record["reason"] == "Nothing to pick from: no two rated texts of a group have one source."
    (record,) = pick_records([sample_of([0.1, 0.9], ratings=[[2.0], [2.0]], groups=["a", "a"])])
    assert (record["chosen"], record["recovered"]) == (2.0, None)
    assert "alike" in record["reason"]
    (record,) = pick_records([sample_of([0.1, 0.9], ratings=[[1.0], [2.0]], groups=["a", "a"])])
    assert record["by_system"] is None  # one system


# Of an independent program, on 60 articles of 16 systems: part recovered, judge's pick less a rater's by the others.
SUMMEVAL = {
    ("coherence", "gpt-4o"): (0.43, -0.30),
    ("coherence", "llama-31"): (0.46, -0.27),
    ("consistency", "gemini_pro"): (0.85, -0.00),
    ("fluency", "gpt-4o"): (0.82, 0.06),
    ("relevance", "gemini_flash"): (0.36, -0.08),
}


@needs_recorded
def test_recorded_judges_of_summaries():
    def sample(dimension, judge):
        given = recorded(dimension, judge)
        return sample_of((given.judge - 1) / 4, ratings=given.raters, groups=given.groups, systems=given.systems)

    for (dimension, judge), (share, apart) in SUMMEVAL.items():
        (record,) = pick_records([sample(dimension, judge)])
        assert (round(record["recovered"], 2), round(record["chosen_less_rater"], 2)) == (share, apart), judge
    # the same for coherence and GPT-4o in full
    (record,) = pick_records([sample("coherence", "gpt-4o")])
    assert [round(record[name], 3) for name in ("random", "rater", "best", "gain")] == [3.443, 4.349, 4.844, 0.603]
    assert (round(record["gain_low"], 3), round(record["gain_high"], 3)) == (0.493, 0.712)
    best_of = {row["n"]: round(row["chosen"], 3) for row in record["best_of"]}
    assert (best_of[2], best_of[4]) == (3.719, 3.909)
