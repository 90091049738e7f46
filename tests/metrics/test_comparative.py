"""Judges that compare: measures by hand, identities, and intervals against an explicit resampling."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgebench.metrics.evaluation import evaluate
from judgebench.metrics.preference import MEASURES, comparative
from judgebench.metrics.resampling import group_weights
from judgebench.metrics.robustness import Paired, robustness
from judgebench.types import ScoreRange
from tests.metrics.test_evaluate import joined, table

WINS = ScoreRange(0, 1, 0.5)


def measured(first, second, human, groups=None, **more):
    first, second, human = (np.array(side, dtype=float) for side in (first, second, human))
    return comparative(first, second, human, np.array(groups or ["a"] * len(first)), **more)


def columns_of(score, human, groups, systems, **cell):
    return table(lambda *_: score, lambda *_: human, groups, systems, **cell)


def test_numbers_by_hand():
    #                the text wins in both | by its place | loses in both | undecided where it stands second
    found = measured([0.9, 0.9, 0.2, 0.8], [0.7, 0.2, 0.1, 0.5], [1, -2, 0.5, np.nan])
    assert found["position_bias"] == pytest.approx((0.2 + 0.7 + 0.1 + 0.3) / 2 / 4)
    assert found["consistency"] == 0.5
    # with both orders averaged it wins, wins and loses: right, wrong, wrong
    assert found["human_agreement"] == pytest.approx(1 / 3)
    assert (found["pairs"], found["preferred"]) == (4, 3)
    assert {found[f"{name}{end}"] for name in MEASURES for end in ("_low", "_high")} == {None}


def test_undecided_pairs_count_half_and_humans_that_prefer_neither_do_not_count():
    found = measured([1, 1, 1], [0, 1, 1], [3, 2, 0])
    assert found["human_agreement"] == 0.75
    assert found["preferred"] == 2


def test_ties_are_no_change_of_mind():
    found = measured([0.9, 0.8, 0.5, 0.5, 0.9], [0.6, 0.9, 0.5, 0.7, 0.5], [1, 2, 0, 1, 1])
    assert found["consistency"] == 2 / 5
    assert found["decided_consistency"] == 1.0
    assert found["tied_share"] == pytest.approx(3 / 5)
    tied = measured([0.5, 0.5], [0.5, 0.9], [1, 2])
    assert (tied["decided_consistency"], tied["decided_consistency_low"], tied["tied_share"]) == (None, None, 1.0)


@pytest.mark.parametrize(("place_one", "bias"), [(1.0, 0.5), (0.0, -0.5), (0.75, 0.25)])
def test_a_judge_of_places_alone_is_all_bias_and_never_consistent(place_one, bias):
    found = measured([place_one] * 4, [1 - place_one] * 4, [1, -1, 2, -3])
    assert [found[name] for name in MEASURES] == [bias, 0.0, 0.5]


def test_a_judge_that_says_what_the_humans_say_has_no_bias():
    human = np.array([1.0, -1.0, 2.0, -0.5])
    found = measured(human > 0, human > 0, human)
    assert [found[name] for name in MEASURES] == [0.0, 1.0, 1.0]


probabilities = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(-4, 4)), min_size=1, max_size=20)


@given(probabilities)
def test_seen_from_the_rivals_nothing_changes(rows):
    first, second, human = map(np.array, zip(*rows, strict=True))
    ours, theirs = measured(first, second, human), measured(1 - second, 1 - first, -human)
    for name in MEASURES:
        assert (ours[name] is None) == (theirs[name] is None)
        assert ours[name] is None or ours[name] == pytest.approx(theirs[name], abs=1e-6)


def test_without_pairs_or_preferences_nothing_is_known():
    assert measured([], [], [])["position_bias"] is None
    found = measured([1, 0], [1, 1], [0, np.nan])
    assert (found["human_agreement"], found["preferred"], found["consistency"]) == (None, 0, 0.5)


def drawn(rng, groups=7, size=5):
    n = groups * size
    human = np.round(rng.normal(size=n), 1)
    human[rng.random(n) < 0.2] = 0
    return rng.random(n), rng.random(n), human, np.repeat([f"g{g}" for g in range(groups)], size)


def test_intervals_are_those_of_explicitly_resampled_articles():
    first, second, human, groups = drawn(np.random.default_rng(3))
    found = comparative(first, second, human, groups, resamples=40, seed=5)
    labels = np.unique(groups)
    resampled = {name: [] for name in MEASURES}
    for counts in group_weights(len(labels), 40, 5):
        rows = np.concatenate(
            [np.flatnonzero(groups == g) for g, k in zip(labels, counts, strict=True) for _ in range(k)]
        )
        again = comparative(first[rows], second[rows], human[rows], groups[rows], resamples=0)
        for name in MEASURES:
            resampled[name].append(again[name])
    for name in MEASURES:
        low, high = np.quantile(resampled[name], (0.025, 0.975))
        assert (found[f"{name}_low"], found[f"{name}_high"]) == pytest.approx((low, high))


def test_records_of_compared_texts_have_the_measures_at_every_level_and_others_have_not():
    first, second, human, _ = drawn(np.random.default_rng(1), groups=5, size=4)
    columns = columns_of((first + second) / 2, human, 5, 4, range_min=0.0, range_max=1.0, range_step=0.5)
    pairs = columns | {"score_first": first, "score_second": second, "text_id": columns["example_id"]}
    expected = comparative(first, second, human, columns["group_id"], 20, 0)
    for record in evaluate(pairs, "mini", resamples=20, scale={"coherence": None}):
        assert {name: record[name] for name in expected} == expected
        assert record["bias_kl"] is None
    assert all("position_bias" not in record for record in evaluate(columns, "mini", resamples=0))


def test_a_text_stands_among_the_others_with_its_mean_over_its_rivals():
    # one article, three texts, each against both others; unattacked a beats all, c loses to all
    texts = np.array(["a", "a", "b", "b", "c", "c"])
    clean = np.array([1, 1, 0, 1, 0, 0], dtype=float)
    attacked = np.array([1, 1, 1, 1, 0.5, 0.5])
    n = len(texts)
    found = robustness(
        Paired(clean, attacked, np.full(n, np.nan), np.array(["g"] * n), texts, True, texts), WINS, resamples=0
    )
    # means: clean 1, 1/2, 0; attacked a 1 (rank 1), b 1 (ties with a: 1.5, half the first place), c 1/2 (2.5)
    assert found["places_gained"] == pytest.approx((0 + 0.5 + 0.5) / 3)
    assert found["win_share"] == pytest.approx((1 + 0.5 + 0) / 3)
    assert found["clean_win_share"] == pytest.approx(1 / 3)
    assert found["change"] == pytest.approx(2 / 6)
    alone = robustness(Paired(clean, attacked, np.full(n, np.nan), np.array(["g"] * n), texts, True), WINS, resamples=0)
    assert alone["clean_win_share"] == pytest.approx(1 / 6)  # six texts, of which three tie for the first place


def test_the_names_of_texts_reach_the_standing():
    scores = np.array([1, 1, 0, 1, 0, 0], dtype=float)
    clean = columns_of(scores, scores, 1, 6, range_min=0.0, range_max=1.0, range_step=0.5)
    attacked = columns_of(np.ones(6), scores, 1, 6, attack="dsi", range_min=0.0, range_max=1.0, range_step=0.5)
    both = joined(clean, attacked)
    both |= {"text_id": np.array(list("aabbcc") * 2), "score_first": both["score"], "score_second": both["score"]}
    record = next(r for r in evaluate(both, "mini", resamples=0) if r["attack"] == "dsi")
    assert record["clean_win_share"] == pytest.approx(1 / 3)
    assert record["win_share"] == pytest.approx((1 + 1 / 2 + 1 / 2) / 3)
