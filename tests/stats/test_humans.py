"""The human ceiling: values by hand, equality with plain loops over scipy, and properties."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from judgebench.stats.agreement import FIGURES, agreement_record
from judgebench.stats.clusters import group_weights, unknown
from judgebench.stats.correlation import krippendorff_alpha
from judgebench.stats.humans import FEWEST_TEXTS, Panel, human_records, means_of_others
from judgebench.stats.points import rater_points_record
from tests.conftest import SHARED

NAN = np.nan


def ragged(seed: int, texts: int = 60, raters: int = 5, share: float = 0.6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    quality = rng.normal(size=(texts, 1))
    ratings = np.clip(np.round(2 + quality + rng.normal(size=(texts, raters))), 0, 4)
    ratings[rng.random(ratings.shape) > share] = NAN
    return ratings, rng.integers(0, 12, texts)


def by_loops(ratings: np.ndarray, sides: np.ndarray) -> float:
    """The weighted mean over raters, text by text and rater by rater."""
    rhos, texts = [], []
    for rater in range(ratings.shape[1]):
        ours, theirs = [], []
        for text, row in enumerate(ratings):
            others = [value for column, value in enumerate(row) if column != rater and not np.isnan(value)]
            if others and not np.isnan(row[rater]):
                ours.append(sides[text, rater])
                theirs.append(sum(others) / len(others))
        if len(ours) >= FEWEST_TEXTS:
            constant = len(set(ours)) == 1 or len(set(theirs)) == 1
            rhos.append(0.0 if constant else stats.spearmanr(ours, theirs).statistic)
            texts.append(len(ours))
    return float(np.average(rhos, weights=texts))


def test_means_equal_in_truth_tie_to_the_last_bit() -> None:
    ratings = np.array([[0.0, 0.1, 0.2, 0.3], [0.0, 0.3, 0.1, 0.2], [9.0, 0.2, 0.2, 0.2]])
    assert len(np.unique(means_of_others(ratings)[:, 0])) == 1


def test_raters_weigh_by_their_texts_and_constant_ones_count_0() -> None:
    base = np.arange(30.0)
    constant = np.where(base < 10, 2.0, NAN)
    panel = Panel(np.stack([base, base, constant], axis=1), np.arange(30), resamples=0)
    assert panel.texts.tolist() == [30, 30, 10]
    ceiling = panel.ceiling[0]
    # among the first ten texts the constant rater only shifts and halves the means, yet not among all 30
    rho = stats.spearmanr(base, np.where(base < 10, (base + 2) / 2, base)).statistic
    assert ceiling == pytest.approx((30 * rho + 30 * rho + 10 * 0) / 70)


@pytest.mark.parametrize("seed", range(4))
def test_ceiling_and_judge_are_those_of_plain_loops(seed: int) -> None:
    ratings, groups = ragged(seed)
    judge = np.random.default_rng(seed + 50).normal(size=len(ratings))
    panel = Panel(ratings, groups, resamples=0)
    assert panel.ceiling[0] == pytest.approx(by_loops(ratings, ratings), abs=1e-12)
    sides = np.broadcast_to(judge[:, None], ratings.shape)
    assert panel.agreement(judge)[0] == pytest.approx(by_loops(ratings, sides), abs=1e-12)


def test_a_resample_is_the_ceiling_of_the_texts_it_draws() -> None:
    ratings, groups = ragged(7, texts=80, share=0.9)
    found = Panel(ratings, groups, resamples=5, seed=3).ceiling[1:]
    labels = np.unique(groups)
    for value, weights in zip(found, group_weights(len(labels), 5, 3), strict=True):
        rows = np.concatenate([np.tile(np.flatnonzero(groups == labels[i]), times) for i, times in enumerate(weights)])
        assert value == pytest.approx(by_loops(ratings[rows], ratings[rows]), abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_order_names_and_scale_do_not_matter(seed: int) -> None:
    ratings, groups = ragged(seed, texts=40)
    plain = Panel(ratings, groups, resamples=0)
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(len(ratings)), rng.permutation(ratings.shape[1])
    moved = Panel((7 + 3 * ratings)[rows][:, columns], groups[rows], resamples=0)
    if plain.missing:
        assert np.isnan([plain.ceiling, moved.ceiling]).all()
        return
    assert -1 <= plain.ceiling[0] <= 1
    assert moved.ceiling[0] == pytest.approx(plain.ceiling[0], abs=1e-12)
    assert plain.agreement(np.zeros(len(ratings)))[0] == 0.0


def test_a_judge_that_repeats_a_rater_has_that_raters_figure() -> None:
    ratings, groups = ragged(1, share=1.0)
    both = Panel(ratings[:, :2], groups, resamples=20)
    # against the other's scores it does as well as the rater, against the rater's own perfectly
    assert both.agreement(ratings[:, 0]) == pytest.approx((both.ceiling + 1) / 2)


@pytest.mark.parametrize(
    ("ratings", "reason"),
    [
        (np.full((20, 3), NAN), "No human ceiling: no text has the ratings of two people."),
        (np.where(np.eye(20, 3), 1.0, NAN), "No human ceiling: no text has the ratings of two people."),
        (np.arange(18.0).reshape(9, 2), "No human ceiling: nobody rated 10 texts that others rated, too."),
    ],
)
def test_what_cannot_be_known_is_null_with_a_reason(ratings: np.ndarray, reason: str) -> None:
    panel = Panel(ratings, np.arange(len(ratings)), resamples=4)
    (record,) = human_records({("quality", "test"): panel}, "mine")
    assert record["reason"] == reason
    assert record["ceiling"] is record["ceiling_low"] is record["ceiling_high"] is None


def test_one_group_has_a_ceiling_without_an_interval() -> None:
    ratings, _ = ragged(2)
    (record,) = human_records({("quality", "dev"): Panel(ratings, np.zeros(len(ratings)))}, "mine")
    assert 0 < record["ceiling"] < 1
    assert record["ceiling_low"] is None
    assert record["reason"] == "No interval: there is one group, and resampling takes at least two."


def test_a_record_counts_texts_with_two_ratings_and_who_gave_them() -> None:
    ratings = np.full((14, 4), NAN)
    ratings[:12, 0], ratings[:12, 1] = np.arange(12) % 5, np.arange(12) % 4
    ratings[0, 2] = 3  # a third rating of the first text
    ratings[13, 3] = 1  # a text and a rater alone
    (record,) = human_records({("quality", "test"): Panel(ratings, np.arange(14) // 2)}, "mine")
    assert (record["texts"], record["groups"], record["raters"], record["raters_counted"]) == (12, 6, 3, 2)
    assert record["ratings_per_text"] == 25 / 12


def test_summeval_experts_agree_as_plain_loops_say() -> None:
    path = SHARED / "tasks" / "recorded_judges_summeval.json"
    if not path.is_file():
        pytest.skip("../shared/data/tasks/recorded_judges_summeval.json is not there")
    experts = json.loads(path.read_text(encoding="utf-8"))["experts"]
    found = {}
    for dimension in ("coherence", "consistency", "fluency", "relevance"):
        keys = [key for key in next(iter(experts.values())) if key.endswith(f"__{dimension}")]
        ratings = np.array([[scores[key] for scores in experts.values()] for key in keys], dtype=np.float64)
        ceiling = Panel(ratings, np.array([key.split("__")[0] for key in keys]), resamples=0).ceiling[0]
        assert ceiling == pytest.approx(by_loops(ratings, ratings), abs=1e-12)
        found[dimension] = round(float(ceiling), 2)
    assert found == {"coherence": 0.71, "consistency": 0.75, "fluency": 0.61, "relevance": 0.51}


def test_a_record_holds_every_figure_of_agreement_and_one_rater_beside_another() -> None:
    ratings, groups = ragged(5)
    (record,) = human_records({("quality", "test"): Panel(ratings, groups)}, "mine", {"quality": (0, 4)})
    assert record["alpha"] == record["alpha_interval"] == pytest.approx(krippendorff_alpha(ratings), abs=1e-12)
    agreement = agreement_record(ratings, groups, np.arange(5.0))
    assert [record[name] for name in unknown(FIGURES)] == [agreement[name] for name in unknown(FIGURES)]
    assert record.items() >= agreement.items()
    assert record["agreement_reason"] is None
    points = rater_points_record(ratings, groups, np.arange(5.0))
    assert record.items() >= points.items()
    json.dumps(record, allow_nan=False)
