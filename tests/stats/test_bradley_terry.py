"""Strengths by comparisons: closed forms, an independent library, identities, and resamples one by one."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from judgebench.config.fields import DAVIDSON, HALF
from judgebench.stats.bradley_terry import Comparisons, Model, fit_strengths
from judgebench.stats.clusters import weights_of

ALONE = np.ones((1, 1))


def met(rows, systems=None, groups=1):
    """Comparisons of rows (one, other, wins, ties, losses), with place, attacked and group as (..., {name: value})."""
    more = [row[5] if len(row) > 5 else {} for row in rows]
    one, other = (np.array([row[i] for row in rows]) for i in range(2))
    outcomes = np.array([row[2:5] for row in rows], dtype=float).T
    place, attack, group = (np.array([m.get(n, 0) for m in more]) for n in ("place", "attack", "group"))
    count = systems or int(max(one.max(), other.max())) + 1
    return Comparisons.of(count, groups, np.stack([one, other, place, attack]), group, outcomes)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def expected_rows(strengths, worth, nu, name):
    """What happens on average among systems of such strengths: the likeliest strengths are these themselves."""
    rows = []
    for (i, k), sign in product(combinations(range(len(strengths)), 2), (1, -1)):
        d = strengths[i] - strengths[k] + worth * sign
        odds = np.array([np.exp(d / 2), nu, np.exp(-d / 2)])
        rows.append((i, k, *(10 * odds / odds.sum()), {name: sign}))
    return rows


@pytest.mark.parametrize("name", ["place", "attack"])
@given(st.lists(st.floats(-2, 2), min_size=2, max_size=6), st.floats(0.1, 1.5), st.sampled_from([0, 0.1, 1, 2]))
def test_what_is_expected_of_strengths_gives_them_back(name, strengths, worth, nu):
    ties = DAVIDSON if nu else HALF
    found = fit_strengths(met(expected_rows(strengths, worth, nu, name)), ALONE, Model(ties, **{name: True}))
    assert found["strengths"][0] == pytest.approx(np.array(strengths) - np.mean(strengths), abs=1e-6)
    assert found[name][0] == pytest.approx(worth, abs=1e-6)
    assert found.get("tie") == (pytest.approx([nu], abs=1e-6) if nu else None)


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


@pytest.mark.parametrize(("wins", "ties", "losses"), [(3, 0, 1), (5, 0, 5), (2, 4, 1), (0.7, 0, 0.3)])
def test_two_systems_are_as_far_apart_as_the_log_odds_of_winning(wins, ties, losses):
    found = fit_strengths(met([(0, 1, wins, ties, losses)]), ALONE, Model())["strengths"][0]
    assert found == pytest.approx(np.array([0.5, -0.5]) * np.log((wins + ties / 2) / (losses + ties / 2)))


def test_it_agrees_with_a_logistic_regression_without_a_penalty():
    rows = drawn(np.random.default_rng(0), systems=5, ties=0)
    found = fit_strengths(met(rows, groups=6), np.ones((1, 6)), Model(place=True))
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


@given(st.integers(0, 10_000))
@settings(max_examples=25)
def test_seen_from_the_other_side_nothing_changes_and_lost_for_won_turns_all_around(seed):
    rows = drawn(np.random.default_rng(seed))
    turned = [(row[1], row[0], *row[4:1:-1], {**row[5], "place": -row[5]["place"]}) for row in rows]
    lost = [(*row[:2], *row[4:1:-1], row[5]) for row in rows]
    model = Model(DAVIDSON, 0.5, place=True)
    ours, same, opposite = (fit_strengths(met(one, groups=6), np.ones((1, 6)), model) for one in (rows, turned, lost))
    assert same["strengths"] == pytest.approx(ours["strengths"], abs=1e-8)
    assert opposite["strengths"] == pytest.approx(-ours["strengths"], abs=1e-8)
    assert (same["place"], opposite["place"]) == (
        pytest.approx(ours["place"], abs=1e-8),
        pytest.approx(-ours["place"], abs=1e-8),
    )
    assert opposite["tie"] == pytest.approx(ours["tie"])


@pytest.mark.parametrize("model", [Model(prior=1.0), Model(prior=1.0, place=True), Model(DAVIDSON, 0.5, place=True)])
def test_each_resample_is_as_if_its_groups_had_been_copied(model):
    rows = drawn(np.random.default_rng(3))
    weights = weights_of(6, 25, seed=4)
    found = fit_strengths(met(rows, groups=6), weights, model)
    for b, counts in enumerate(weights):
        copied = [row for row in rows for _ in range(int(counts[row[5]["group"]]))]
        alone = fit_strengths(met(copied, systems=4, groups=6), np.ones((1, 6)), model)
        np.testing.assert_allclose(found["strengths"][b], alone["strengths"][0], atol=1e-10)
        if model.place:
            np.testing.assert_allclose(found["place"][b], alone["place"][0], atol=1e-10)
        if model.ties == DAVIDSON:
            np.testing.assert_allclose(found["tie"][b], alone["tie"][0], atol=1e-10)


def test_who_never_lost_has_no_likeliest_strength_but_one_with_a_prior():
    undefeated = met([(0, 1, 3, 0, 0), (1, 2, 2, 0, 1)])
    assert np.isnan(fit_strengths(undefeated, ALONE, Model())["strengths"]).all()
    assert undefeated.dominant() == [[0], [1, 2]]
    # two imagined comparisons of each with a system of strength 0 leave 4 : 1 and 1 : 4 against it and each other
    pair = met([(0, 1, 3, 0, 0)])
    strong = fit_strengths(pair, ALONE, Model(prior=2.0))["strengths"][0][0]
    # where the slope is 0: 3 (1 - P(0 beats 1)) + 1 - 2 P(0 beats the imagined one)
    assert 3 * (1 - sigmoid(2 * strong)) + 1 - 2 * sigmoid(strong) == pytest.approx(0, abs=1e-9)
    assert strong > 0


def test_a_tie_is_half_a_loss_under_half_and_none_under_davidson():
    drew_once = met([(0, 1, 3, 1, 0)])
    assert np.isfinite(fit_strengths(drew_once, ALONE, Model())["strengths"]).all()
    assert len(drew_once.dominant()) == 1
    # whose likelihood has no highest point: the stronger the first and the likelier ties, the better
    assert np.isnan(fit_strengths(drew_once, ALONE, Model(DAVIDSON))["strengths"]).all()
    assert drew_once.dominant(DAVIDSON) == [[0], [1]]
    assert np.isfinite(fit_strengths(drew_once, ALONE, Model(DAVIDSON, 1.0))["strengths"]).all()


def test_systems_that_never_met_fall_into_parts():
    assert met([(0, 1, 1, 0, 1), (2, 3, 1, 0, 1)]).parts == [[0, 1], [2, 3]]
    assert met([(0, 1, 1, 0, 0), (2, 1, 1, 0, 0)]).parts == [[0, 1, 2]]


def test_a_place_that_decides_everything_says_nothing_of_strengths():
    rows = [
        (i, k, place > 0, 0, place < 0, {"place": place}) for i, k in combinations(range(3), 2) for place in (1, -1)
    ]
    assert np.isnan(fit_strengths(met(rows), ALONE, Model(place=True))["strengths"]).all()
    assert met(rows).decided_by(met(rows).place)
    mixed = met([*rows, (0, 1, 0.1, 0, 0.9, {"place": 1})])
    assert not mixed.decided_by(mixed.place)
    held = fit_strengths(met(rows), ALONE, Model(prior=1.0, place=True))
    assert held["strengths"][0] == pytest.approx(np.zeros(3), abs=1e-9)
    assert held["place"][0] > 1


def test_the_place_is_told_from_strengths_only_where_texts_change_it():
    fixed = [(0, 1, 3, 0, 1, {"place": 1}), (1, 2, 3, 0, 1, {"place": 1}), (0, 2, 3, 0, 1, {"place": 1})]
    assert fit_strengths(met(fixed[:2]), ALONE, Model(place=True)).get("place") is None
    assert (
        fit_strengths(met(fixed), ALONE, Model(place=True)).get("place") is not None
    )  # three pairs, two differences of strengths
    assert fit_strengths(met([(0, 1, 3, 0, 1)]), ALONE, Model(place=True)).get("place") is None


def test_a_resample_without_an_answer_leaves_the_others_theirs():
    rows = [(0, 1, 1, 0, 0, {"group": 0}), (0, 1, 0, 0, 1, {"group": 1})]
    found = fit_strengths(met(rows, groups=2), np.array([[1, 1], [2, 0], [0, 2], [1, 3]], dtype=float), Model())
    assert np.isnan(found["strengths"][:, 0]).tolist() == [False, True, True, False]
    assert found["strengths"][3] == pytest.approx(np.array([0.5, -0.5]) * np.log(1 / 3))
