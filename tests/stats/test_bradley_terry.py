"""Strengths by comparisons: closed forms, an independent library, identities, and resamples one by one."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from sklearn.linear_model import LogisticRegression

from judgebench.stats.bradley_terry import Comparisons, fit_strengths
from judgebench.stats.clusters import weights_of

ALONE = np.ones((1, 1))
LEAST = 0.001
"""The least prior."""


def met(rows, systems=None, groups=1):
    """Comparisons of rows (one, other, wins, ties, losses), with place and group as (..., {name: value})."""
    more = [row[5] if len(row) > 5 else {} for row in rows]
    one, other = (np.array([row[i] for row in rows]) for i in range(2))
    outcomes = np.array([row[2:5] for row in rows], dtype=float).T
    place, group = (np.array([m.get(n, 0) for m in more]) for n in ("place", "group"))
    count = systems or int(max(one.max(), other.max())) + 1
    return Comparisons.of(count, groups, np.stack([one, other, place]), group, outcomes)


def expected_slope(rows, found, prior):
    """[K + 1] the log-likelihood's slope by each system's strength, then by the place, at what was found."""
    systems, centered = found["strengths"].shape[1], found["strengths"][0]
    # they are given around their mean; around the imagined system of the prior their win shares sum to half
    strengths = centered + brentq(lambda mean: (sigmoid(centered + mean) - 0.5).sum(), -99, 99, xtol=1e-14)
    place = found["place"][0] if "place" in found else 0.0
    slope = np.append(prior * (0.5 - sigmoid(strengths)), prior * (0.5 - sigmoid(place)))
    for one, other, won, tied, lost, *more in rows:
        side = more[0].get("place", 0) if more else 0
        left = won + tied / 2 - (won + tied + lost) * sigmoid(strengths[one] - strengths[other] + place * side)
        slope[[one, other, systems]] += left * np.array([1, -1, side])
    return slope


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def drawn(rng, systems=4, groups=6, often=3, ties=0.2):
    rows = []
    for group in range(groups):
        for i, k in combinations(range(systems), 2):
            for _ in range(often):
                place = int(rng.choice([-1, 1]))
                won = rng.random() < sigmoid(0.4 * (k - i) + 0.7 * place)
                ends = (0, 1, 0) if rng.random() < ties else (won, 0, not won)
                turned = rng.random() < 0.5
                seen = (k, i, *ends[::-1]) if turned else (i, k, *ends)
                rows.append((*seen, {"place": -place if turned else place, "group": group}))
    return rows


def test_it_agrees_with_a_logistic_regression_without_a_penalty():
    rows = drawn(np.random.default_rng(0), systems=5, ties=0)
    found = fit_strengths(met(rows, groups=6), np.full((1, 6), 1000.0), LEAST)
    design = np.zeros((len(rows), 6))
    for line, row in zip(design, rows, strict=True):
        line[row[0]], line[row[1]], line[5] = 1, -1, row[5]["place"]
    won = np.array([row[2] for row in rows])
    other = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10, max_iter=10000)
    # one strength is held at 0, for only differences count
    other.fit(np.delete(design, 0, axis=1), won)
    strengths = np.array([0.0, *other.coef_[0][:4]])
    assert found["strengths"][0] == pytest.approx(strengths - strengths.mean(), abs=1e-4)
    assert found["place"][0] == pytest.approx(other.coef_[0][4], abs=1e-4)


@given(st.integers(0, 10_000), st.sampled_from([LEAST, 0.5, 1.0, 10.0]))
@settings(max_examples=25)
def test_at_what_is_found_the_likelihood_is_flat_seen_from_either_side(seed, prior):
    rows = drawn(np.random.default_rng(seed))
    turned = [(row[1], row[0], *row[4:1:-1], {**row[5], "place": -row[5]["place"]}) for row in rows]
    lost = [(*row[:2], *row[4:1:-1], row[5]) for row in rows]
    ours, same, opposite = (fit_strengths(met(one, groups=6), np.ones((1, 6)), prior) for one in (rows, turned, lost))
    assert expected_slope(rows, ours, prior) == pytest.approx(np.zeros(5), abs=1e-8)
    for name, found in ours.items():
        np.testing.assert_allclose(same[name], found, atol=1e-8)
        np.testing.assert_allclose(opposite[name], -found, atol=1e-8)


@pytest.mark.parametrize("prior", [1.0, LEAST])
def test_each_resample_is_as_if_its_groups_had_been_copied(prior, monkeypatch):
    rows = drawn(np.random.default_rng(3))
    weights = weights_of(6, 25, seed=4)
    found = fit_strengths(met(rows, groups=6), weights, prior)
    for b, counts in enumerate(weights):
        copied = [row for row in rows for _ in range(int(counts[row[5]["group"]]))]
        alone = fit_strengths(met(copied, systems=4, groups=6), np.ones((1, 6)), prior)
        for name, values in found.items():
            np.testing.assert_allclose(values[b], alone[name][0], atol=1e-9)
    monkeypatch.setattr("judgebench.stats.clusters.MOST_ENTRIES", 300)  # several resamples at a time
    again = fit_strengths(met(rows, groups=6), weights, prior)
    np.testing.assert_allclose(again["strengths"], found["strengths"], atol=1e-12)


def test_who_never_lost_is_held_back_by_the_prior():
    undefeated = met([(0, 1, 3, 0, 0), (1, 2, 2, 0, 1)])
    assert undefeated.levels == [[0], [1, 2]]
    assert met([(0, 1, 3, 1, 0)]).levels == [[0, 1]]  # a tie is half a loss
    # two imagined comparisons of each with a system of strength 0 leave 4 : 1 and 1 : 4 against it and each other
    pair = met([(0, 1, 3, 0, 0)])
    strong = fit_strengths(pair, ALONE, 2.0)["strengths"][0][0]
    # where the slope is 0: 3 (1 - P(0 beats 1)) + 1 - 2 P(0 beats the imagined one)
    assert 3 * (1 - sigmoid(2 * strong)) + 1 - 2 * sigmoid(strong) == pytest.approx(0, abs=1e-9)
    assert strong > 0
    # a hundred thousand wins of as many, beside systems that hardly met
    far = fit_strengths(met([(0, 1, 1e5, 0, 0), (1, 2, 1, 0, 0)]), ALONE, LEAST)["strengths"][0]
    assert np.isfinite(far).all()
    assert far[0] > far[1] > far[2]


def test_systems_that_never_met_fall_into_parts():
    assert met([(0, 1, 1, 0, 1), (2, 3, 1, 0, 1)]).parts == [[0, 1], [2, 3]]
    assert met([(0, 1, 1, 0, 0), (2, 1, 1, 0, 0)]).parts == [[0, 1, 2]]


def test_a_place_that_decides_everything_says_nothing_of_strengths():
    rows = [
        (i, k, place > 0, 0, place < 0, {"place": place}) for i, k in combinations(range(3), 2) for place in (1, -1)
    ]
    assert met(rows).decided_by_place
    assert not met([*rows, (0, 1, 0.1, 0, 0.9, {"place": 1})]).decided_by_place
    held = fit_strengths(met(rows), ALONE, 1.0)
    assert held["strengths"][0] == pytest.approx(np.zeros(3), abs=1e-9)
    assert held["place"][0] > 1


def test_the_place_is_told_from_strengths_only_where_texts_change_it():
    fixed = [(0, 1, 3, 0, 1, {"place": 1}), (1, 2, 3, 0, 1, {"place": 1}), (0, 2, 3, 0, 1, {"place": 1})]
    assert "place" not in fit_strengths(met(fixed[:2]), ALONE, 1.0)
    assert "place" in fit_strengths(met(fixed), ALONE, 1.0)  # three pairs, two differences of strengths
    assert "place" not in fit_strengths(met([(0, 1, 3, 0, 1)]), ALONE, 1.0)
