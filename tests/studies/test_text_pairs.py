"""Pairs of texts that a judge orders as humans do: plain loops, identities, and judges that know one thing alone."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from judgebench.studies.text_pairs import PAIRS, beyond_articles, pair_shares, text_pair_record
from tests.stats.sides import side
from tests.test_scripts import script

simulate = script("simulate")
GROUP = np.array([0, 0, 0, 1, 1, 2, 2, 2])


@pytest.mark.parametrize("blocks", [None, np.zeros(8, dtype=int), np.array([0, 1, 2, 0, 1, 0, 1, 2])])
def test_shares_of_pairs_are_those_of_a_plain_loop_over_drawn_copies(blocks):
    rng = np.random.default_rng(0)
    judge, others = rng.integers(0, 4, (2, 8)).astype(float)
    weights = np.array([[1.0, 1.0, 1.0], [2.0, 0.0, 1.0]])
    of_pair = GROUP if blocks is None else blocks
    shares = []
    for row in weights:
        right = pairs = 0.0
        for i, k in combinations(range(8), 2):
            if others[i] != others[k] and of_pair[i] == of_pair[k]:
                weight = row[GROUP[i]] if blocks is None else row[GROUP[i]] * row[GROUP[k]]
                ours = (judge[i] - judge[k]) * (others[i] - others[k])
                right, pairs = right + weight * (0.5 + 0.5 * np.sign(ours)), pairs + weight
        shares.append(right / pairs)
    np.testing.assert_allclose(pair_shares(judge, others, GROUP, weights, blocks), shares)


def uneven():
    """Articles and systems of 60 texts, some of whose cells are empty or hold two texts."""
    rng = np.random.default_rng(3)
    return rng.integers(0, 8, 60), rng.integers(0, 5, 60)


def test_sums_of_effects_of_articles_and_systems_leave_nothing_and_the_rest_stays():
    article, system = uneven()
    rng = np.random.default_rng(4)
    effects = rng.normal(size=8)[article] + rng.normal(size=5)[system]
    assert beyond_articles(effects, article, system).tolist() == [0.0] * 60
    noise = rng.normal(size=60)
    rest = beyond_articles(noise + effects, article, system) * np.ptp(noise + effects)
    np.testing.assert_allclose(rest, beyond_articles(noise, article, system) * np.ptp(noise), atol=1e-6)
    assert np.abs(np.bincount(article, rest)).max() < 1e-6
    assert np.abs(np.bincount(system, rest)).max() < 1e-6


@pytest.mark.parametrize("raters", [("ann", "bob", "cid"), ()])
def test_what_a_judge_knows_of_systems_and_articles_is_a_coin_within_systems(raters):
    made = side()
    ratings = made.ratings if raters else made.ratings[:, :1]
    known = np.unique(made.systems, return_inverse=True)[1] + 0.3 * made.clusters.number
    record = text_pair_record(replace(made, scores=known, ratings=ratings, raters=raters))
    assert [record[f"within{end}"] for end in ("", "_low", "_high")] == [0.5, 0.5, 0.5]
    assert (record["within_rater"] is None) == (not raters)
    truth = text_pair_record(replace(made, scores=made.human, ratings=ratings, raters=raters))
    assert truth["within"] > 0.8
    turned = text_pair_record(replace(made, scores=-made.human, ratings=ratings, raters=raters))
    assert [truth[name] + turned[name] for name in ("pairs", "within")] == pytest.approx([1.0, 1.0])


def test_one_system_has_no_order_within_systems_and_lone_texts_are_compared_with_all():
    one = text_pair_record(side(systems=np.full(60, "M")))
    assert (one["within"], one["within_rater"]) == (None, None)
    assert one["pairs"] is not None
    lone = text_pair_record(side(groups=60))
    assert None not in [lone[name] for name in PAIRS]


def test_of_very_many_texts_some_articles_are_compared(monkeypatch):
    sample = simulate.simulated_judge("as a rater", 30, seed=0)
    whole = text_pair_record(sample)
    monkeypatch.setattr("judgebench.studies.text_pairs._MOST_TEXTS", 90)
    some = text_pair_record(sample)
    assert some["pairs"] == whole["pairs"]
    assert some["within"] != whole["within"]
    assert some["within"] == pytest.approx(whole["within"], abs=0.1)
