"""Verdicts on the uses of a judge, each decided by its own figure and interval."""

from dataclasses import replace

import pytest

from judgebench.report.views.uses import use_sentences
from judgebench.results.results import Results
from judgebench.stats.evaluate import CONSTANT, CONSTANT_HUMANS
from tests.report.test_correlations import of, record

OTHERS = {"spearman_others": 0.5, "spearman_others_low": 0.4, "spearman_others_high": 0.6}


def ends(name, value, low=None, high=None):
    return {name: value, f"{name}_low": low, f"{name}_high": high}


def beside(scores="raw", bias=(0.5, 0.3, 0.7), passes=False, **more):
    own = {name: value for name, value in record().items() if name in (
        *("dataset", "split", "dimension", "attack", "defense", "range_min", "range_max", "range_step"),
        *("judge", "decoding", "lambda", "temperature"))}  # fmt: skip
    figures = ends("bias", *bias) | ends("mae", 0.8, 0.7, 0.9) | ends("advantage", 0.45, 0.4, 0.5)
    tested = {"tested": 3, "winning_rate": 1.0 if passes else 0.0, "passes": passes, "by_favorite": False}
    tested |= {"epsilon": 0.2, "raters": [{"advantage_judge": 0.45, "advantage_rater": 0.85}]}
    blind = {"favorite": 5.0, "favorite_winning_rate": 1.0, "favorite_difference": -0.1, "favorite_advantage": 0.4}
    blind |= {"favorite_difference_low": -0.2, "alternative_reason": None, "points_reason": None}
    return own | {"scores": scores, "groups": 90} | figures | tested | blind | more


def told(raw=None, fitted=None, metrics=None, ceiling=(0.7, 0.6, 0.8), systems=()):
    humans = [{"dimension": "coherence", "split": "test", "reason": None, **ends("ceiling", *ceiling)}]
    made = of(record(**(metrics or {})))
    rows = [raw or beside(), fitted or beside("calibrated")]
    (sentence,) = use_sentences(replace(made, beside_humans=rows, humans=humans, systems=systems))
    assert sentence.startswith("coherence, SmolLM2: ")
    return sentence


@pytest.mark.parametrize(
    ("difference", "verdict"),
    [
        ((-0.2, -0.3, -0.1), "better than chance, but worse than a person"),
        ((-0.1, -0.2, 0.1), "yes, better than chance, and no difference from a person is shown"),
        ((0.2, 0.1, 0.3), "yes, better than a person"),
    ],
)
def test_the_order_of_texts_is_judged_beside_one_person(difference, verdict):
    sentence = told(metrics=OTHERS | ends("humans_difference", *difference))
    figures = "(Spearman 0.500 [0.400, 0.600], one person 0.700 [0.600, 0.800])"
    assert f"To order texts: {verdict} {figures}." in sentence


def test_without_a_person_to_compare_with_chance_is_the_measure():
    assert "To order texts: better than chance (Spearman 0.500 [0.400, 0.600]); how well a person" in told()
    lost = {"spearman_low": -0.1, "spearman_high": 0.4}
    assert "To order texts: not shown; its order may be chance (Spearman 0.500 [-0.100, 0.400])." in told(metrics=lost)
    against = ends("spearman", -0.3, -0.4, -0.2)
    assert "To order texts: no, it orders them against the humans (Spearman -0.300 [-0." in told(metrics=against)
    alone = {"spearman_low": None, "spearman_high": None}
    assert "To order texts: unknown, as its Spearman has no interval." in told(metrics=alone)


@pytest.mark.parametrize(
    ("raw", "fitted", "verdict"),
    [
        ({"passes": True}, {}, "yes by the alternative annotator test, it lies at least as close to the other raters "
         "as the rater left out on 45 % [40, 50] of texts; but a judge that always says 5 passes, too, with 40 %: "
         "the test asks little here."),
        ({"passes": True, "favorite_winning_rate": 0.0, "tested": 2}, {}, "yes by the alternative annotator test, it "
         "lies at least as close to the other raters as the rater left out on 45 % [40, 50] of texts; the test is "
         "meant for 3 raters or more, and here are 2."),
        ({"passes": True, "by_favorite": True}, {}, "no; it passes the alternative annotator test, but so would a "
         "judge that always says 5."),
        ({}, {"passes": True}, "only calibrated by the humans' ratings; then it lies at least as close"),
        ({}, {"passes": True, "by_favorite": True}, "no, it lies at least as close"),
        ({}, {}, "no, it lies at least as close to the other raters as the rater left out on 45 % [40, 50] of texts, "
         "and wins over 0 of 3 raters."),
        ({"raters": [{"advantage_judge": 0.7, "advantage_rater": 0.8}]}, {}, "not shown by the alternative annotator "
         "test, it lies at least as close to the other raters as the rater left out on 45 % [40, 50] of texts, and "
         "wins over 0 of 3 raters."),
        ({"passes": None, "winning_rate": None, "groups": 0}, {}, "no, calibrated by the humans' ratings it lies at "
         "least as close to the other raters as the rater left out on 45 % [40, 50] of texts; its raw scores cannot be "
         "tested."),
        ({"passes": None}, {"passes": None}, "unknown, as too few raters are known, or too few of their texts."),
    ],
)  # fmt: skip
def test_a_judge_that_passes_by_its_favorite_stands_in_for_nobody(raw, fitted, verdict):
    assert f"To stand in for a rater: {verdict}" in told(beside(**raw), beside("calibrated", **fitted))


@pytest.mark.parametrize(
    ("accuracy", "verdict"),
    [
        (
            (0.9, 0.8, 1.0),
            "better than chance, for these systems: it orders 90 % [80, 100] of pairs as humans do.",
        ),
        ((0.6, 0.4, 0.8), "not shown; it orders 60 % [40, 80] of pairs as humans do, which may be chance."),
        ((0.2, 0.1, 0.4), "no; it orders 20 % [10, 40] of pairs as humans do, fewer than by chance."),
        ((0.6, None, None), "unknown; it orders 60 % of pairs as humans do, without an interval."),
    ],
)
def test_systems_are_ranked_where_more_than_half_of_their_pairs_are_right(accuracy, verdict):
    row = beside() | ends("pairwise_accuracy", *accuracy) | {"soft_pairwise_accuracy": 0.9, "systems": 4, "texts": 8}
    row |= {"articles": 20, "means_held": 0.5, "systems_held": 2, "clusters": 1, "human_clusters": 2}
    row["ranking"] = []
    row |= {
        "error": 0.4,
        "error_largest": 0.9,
        "error_largest_low": 0.8,
        "rater_error_largest": 0.7,
        "error_system": "a",
    }
    sentence = told(systems=[row | {"tie_threshold": None}])
    assert f"To rank systems: {verdict}" in sentence
    assert "its means of systems are off by 0.40 points on average, by 0.90 for the worst); calibrate" in sentence
    assert "To rank systems" not in told()


def test_scores_are_human_ones_where_they_are_not_biased():
    biased = "To report its scores as human ones: no, not as they are (bias +0.50 [+0.30, +0.70] points); calibrate"
    assert biased in told()
    fair = told(beside(bias=(0.1, -0.1, 0.3)))
    assert "no clear bias on average (bias +0.10 [-0.10, +0.30] points); a single score is off by 0.80 points." in fair
    assert "unknown, as its bias in points has no interval." in told(beside(bias=(0.1, None, None)))


def test_the_best_of_several_is_said_to_be_optimistic():
    made = replace(of(record()), beside_humans=[one for scores in ("raw", "calibrated") for one in (
        beside(scores), beside(scores, decoding="expectation"))])  # fmt: skip
    (sentence,) = use_sentences(made)
    assert sentence.endswith(". This is the best of 2 judges and decodings on these texts, so all of it is optimistic.")
    assert "optimistic" not in told()


def test_few_groups_say_nothing_of_any_use_and_old_runs_have_no_verdict():
    few = told(beside(groups=4), beside("calibrated", groups=4))
    assert few.endswith("unknown. Fewer than 6 articles are too few for any of it.")
    assert use_sentences(Results()) == []


@pytest.mark.parametrize(
    ("metrics", "verdict"),
    [
        ({"flags": [CONSTANT], **ends("spearman", 0.0, 0.0, 0.0)}, "no, for it gives all texts one score."),
        ({"flags": [CONSTANT, CONSTANT_HUMANS], **ends("spearman", 0.0, 0.0, 0.0)},
         "unknown, as the humans gave all texts one score."),
        (ends("spearman", -0.5, -0.6, -0.4), "no, it orders them against the humans (Spearman -0.500 [-0.600, -0."),
    ],
)  # fmt: skip
def test_an_order_that_is_none_or_turned_round_is_called_so(metrics, verdict):
    assert f"To order texts: {verdict}" in told(metrics=metrics)


def test_answers_that_could_not_be_read_are_told_before_anyone_relies_on_the_rest():
    assert told(metrics={"failed_share": 1.0}) == "coherence, SmolLM2: no. None of its answers could be read."
    half = told(metrics={"failed_share": 0.5})
    assert half.endswith("All of it with the lowest score for the 50 % of answers that could not be read.")
    assert "could not be read" not in told(metrics={"failed_share": 0.01})
