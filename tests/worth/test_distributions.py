"""Distributions of judges: one record each, by the law that decodes, and reasons for what is not known."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from judgebench.decoding.rules import Contrastive, Expectation, Greedy, candidate_distribution, expected_value
from judgebench.worth.abstention import coverage_record, risk_record, text_intervals
from judgebench.worth.distributions import (
    NOT_ANSWERING,
    distribution_of,
    forecast_records,
    with_silent,
)
from judgebench.worth.forecast import forecast_record, mass_record
from judgebench.worth.points import cross_fitted
from tests.worth.sides import cell, side

VALUES = np.arange(1.0, 6.0)
RNG = np.random.default_rng(3)
MAIN, ASSISTANT = (np.log(RNG.dirichlet(np.ones(5), 60)) - 0.2 for _ in range(2))


def decoded(rule, decoding="own", **more):
    """A side whose scores are what the rule makes of MAIN and ASSISTANT."""
    judge = "pair" if rule.needs_assistant else "main"
    return side(
        {"main": MAIN, "assistant": ASSISTANT},
        rule.scores(MAIN, ASSISTANT, VALUES),
        cell=cell(judge, decoding, rule.lambda_, rule.temperature),
        **more,
    )


def test_normalized_probabilities_are_those_of_the_expectation():
    logprobs = np.log(np.array([[0.1, 0.3], [0.02, 0.02]]))
    found = candidate_distribution(logprobs)
    assert found == pytest.approx(np.array([[0.25, 0.75], [0.5, 0.5]]))
    assert (found * [1, 2]).sum(axis=1) == pytest.approx(expected_value(logprobs, np.array([1.0, 2.0])))
    assert candidate_distribution(np.full((1, 2), -np.inf)).tolist() == [[0.0, 0.0]]


def test_greedy_and_expectation_share_a_record_and_each_contrast_has_its_own():
    sides = [decoded(Greedy(), "greedy"), decoded(Expectation(), "expectation")]
    sides += [decoded(Contrastive(0.5, 1.0), "a"), decoded(Contrastive(1.0, 2.0, rule="expectation"), "b")]
    sides += [decoded(Contrastive(0.5, 0.5), "c")]
    assert [one["decodings"] for one in forecast_records(sides)] == [["greedy", "expectation"], ["a", "b"], ["c"]]


@pytest.mark.parametrize("rule", ["argmax", "expectation"])
def test_a_contrast_forecasts_by_the_law_by_which_it_scores(rule):
    one = decoded(Contrastive(0.7, 1.3, rule=rule))
    (record,) = forecast_records([one])
    weights = np.exp(MAIN - 0.7 / 1.3 * ASSISTANT)
    by_hand = forecast_record(weights, VALUES, one.ratings, one.groups, VALUES, 40)
    assert record["rps"] == pytest.approx(by_hand["rps"])
    assert record["ece_low"] == pytest.approx(by_hand["ece_low"])
    assert record["mass"] is None
    assert record["mass_reason"].startswith("No mass: a contrast has none")


def test_plausibility_is_part_of_the_law():
    rule = Contrastive(0.7, 1.3, alpha=0.4)
    (record,) = forecast_records([decoded(rule, alpha=0.4)])
    weights = np.exp(MAIN - 0.7 / 1.3 * ASSISTANT)
    weights *= MAIN.max(axis=1, keepdims=True) + np.log(0.4) <= MAIN
    one = decoded(rule)
    assert record["rps"] == pytest.approx(forecast_record(weights, VALUES, one.ratings, one.groups, VALUES, 40)["rps"])
    # with another alpha than it was decoded with, its probabilities are not made up
    logprobs, reason = distribution_of(decoded(rule, alpha=0.0))
    assert logprobs is None
    assert reason == "No probabilities: the decoding's scores are not those of contrastive decoding."


def test_everything_is_what_the_pure_functions_find():
    one = side(cell=cell(ends=(0.0, 4.0)), scores=np.zeros(60))
    (record,) = forecast_records([one])
    found = candidate_distribution(one.logprobs["main"])
    expected = found @ VALUES  # 0-4 is 1-5 on the humans' scale
    sd = np.sqrt((found * (VALUES - expected[:, None]) ** 2).sum(axis=1)).round(9)
    drawn = (one.groups, 40)
    risk = risk_record(sd, np.abs(expected - one.human), *drawn)
    for name in ("risk", "risk_low", "area", "area_best", "gain_high"):
        assert record[name] == pytest.approx(risk[name])
    assert [part["risk"] for part in record["curve"]] == pytest.approx([part["risk"] for part in risk["curve"]])
    fitted = cross_fitted(expected, one.human, one.groups)
    covered = coverage_record(text_intervals(fitted, one.human, one.groups, (1, 5)), one.human, *drawn)
    assert (record["coverage"], record["width_high"]) == (covered["coverage"], pytest.approx(covered["width_high"]))
    mass = mass_record(one.logprobs["main"], *drawn)
    assert (record["mass"], record["answers"]) == (mass["mass"], True)
    assert record["mass"] == pytest.approx(np.exp(-0.1))
    assert record["confidence"] == pytest.approx(found.max(axis=1).mean())
    share = (one.ratings == VALUES[found.argmax(axis=1)][:, None]).mean()
    assert record["confirmed"] == pytest.approx(share)
    assert record["overconfidence"] == pytest.approx(found.max(axis=1).mean() - share)
    assert "12 groups" not in str(record["reason"])
    assert record["coverage_reason"] == (
        "The intervals are the whole scale: shorter ones take 18 groups, and there are 12."
    )


def test_a_judge_that_says_other_things_is_flagged_where_it_does():
    quiet = np.log(np.full((60, 5), 0.01))
    records = forecast_records([side({"main": quiet})])
    assert records[0]["answers"] is False
    assert records[0]["mass"] == pytest.approx(0.05)
    place = {name: records[0].get(name) for name in ("split", "dimension", "range_min", "range_max", "range_step")}
    place |= {"attack": "none", "defense": "none", "judge": "main", "flags": ["constant"]}
    here, other, attacked = with_silent(
        [place, place | {"range_max": 9.0}, place | {"attack": "dsi"}], records + forecast_records([decoded(Greedy())])
    )
    assert here["flags"] == ["constant", NOT_ANSWERING]
    assert other["flags"] == attacked["flags"] == ["constant"]
    assert place["flags"] == ["constant"]


def test_lists_that_a_server_cut_have_no_mass():
    (record,) = forecast_records([side(over_vocabulary=())])
    assert (record["mass"], record["answers"]) == (None, None)
    assert record["mass_reason"] == "No mass: the judge's probabilities are not known over all tokens."
    assert record["rps"] is not None


NAN = np.full((60, 1), np.nan)
ODD = {
    "generated answers": {"logprobs": {}, "scores": np.full(60, 3.0)},
    "no assistant": {"logprobs": {"main": MAIN}, "cell": cell("pair", "contrastive", 0.5, 1.0)},
    "nobody rated": {"ratings": NAN, "raters": ()},
    "means alone": {"ratings": side().human[:, None], "raters": ()},
    "no scale": {"scale": None},
    "a scale of no length": {"scale": (3.0, 3.0), "ratings": np.full((60, 3), 3.0)},
    "one group": {"groups": 1},
    "a constant judge": {"logprobs": {"main": np.log(np.full((60, 5), 0.2))}},
    "rows without an answer": {"logprobs": {"main": np.full((60, 5), -np.inf)}},
    "ragged": {"ratings": np.where(RNG.random((60, 3)) < 0.5, np.nan, side().ratings)},
    "certain": {"logprobs": {"main": np.where(np.eye(5)[np.arange(60) % 5] > 0, 0.0, -np.inf)}},
}


@pytest.mark.parametrize("odd", ODD)
def test_odd_data_have_reasons_and_no_nan(odd):
    (record,) = forecast_records([side(**ODD[odd])])
    assert "NaN" not in json.dumps(record)
    missing = record.get("rps") is None
    assert not missing or record["reason"].startswith("No ")
    for name in ("coverage", "risk"):
        if "coverage" in record and record[name] is None:
            assert record[f"{name}_reason"].startswith("No ")


def test_one_text_alone_is_no_mistake():
    whole = side()
    one = replace(
        whole,
        **{name: getattr(whole, name)[:1] for name in ("names", "groups", "systems", "scores", "ratings")},
        logprobs={"main": MAIN[:1]},
        texts=["a"],
    )
    (record,) = forecast_records([one])
    assert "NaN" not in json.dumps(record)
    assert record["texts"] == 1
