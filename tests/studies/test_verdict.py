"""What a judge may be used for: shares of pairs by plain loops, simulated and recorded judges."""

import re
from dataclasses import replace

import numpy as np
import pytest
from jinja2.exceptions import UndefinedError

from judgebench.settings.margins import Margins
from judgebench.stats.clusters import Estimate
from judgebench.studies.evaluate import evaluate
from judgebench.studies.humans import beside_humans_records
from judgebench.studies.rules import CARE, FEW, NO, RULES, UNMEASURED, YES, rules_of
from judgebench.studies.scores import ScoreSeries
from judgebench.studies.systems import system_records
from judgebench.studies.verdict import verdict_records
from judgebench.words.errors import UserError
from judgebench.words.formats import say
from tests.stats.recorded import needs_recorded
from tests.stats.sides import attacked_table
from tests.test_scripts import script

simulate = script("simulate")


FAILING = r"no answer for 31 % of the texts; \d+ % of pairs .* \d+ to \d+ with what"
SYSTEM = "no better than knowing the system: per system"


@pytest.mark.parametrize(
    ("judge", "articles", "words", "clause"),
    [
        ("perfect", 40, (YES, CARE, YES, YES), ""),  # fifteen pairs of systems leave a wide interval
        ("lenient", 40, (YES, CARE, YES, YES), ""),
        ("noisy", 40, (CARE, CARE, CARE, None), ""),
        ("length", 40, (NO, FEW, NO, NO), ""),  # six systems are few
        ("blind", 40, (NO, NO, NO, NO), ""),
        ("constant", 40, (NO, NO, NO, NO), "every text gets the same score"),
        ("inverted", 40, (NO, NO, NO, NO), "against the humans: "),
        ("perfect", 9, (FEW, FEW, FEW, FEW), "9 rated articles; it takes 10"),
        # those that seem better than they are
        ("failing", 60, (CARE, CARE, CARE, CARE), FAILING),
        ("system", 60, (NO, None, None, NO), f"{SYSTEM} 50 %, one rater"),
        ("system, noisy", 60, (NO, None, None, NO), SYSTEM),
        ("article", 60, (NO, NO, None, NO), "50 % of pairs"),
        ("half shuffled", 60, (None, None, None, CARE), ""),
        ("two values", 60, (CARE, None, None, CARE), ""),
        ("rare low", 60, (NO, None, None, NO), ""),
    ],
)
def test_simulated_judges_get_the_verdict_that_is_true_of_them(judge, articles, words, clause):
    records = simulate.verdicts(simulate.simulated_judge(judge, articles, seed=1))
    for use, word in zip(records, words, strict=False):
        assert word in (None, records[use]["verdict"]), (use, records[use])
    assert re.search(clause, records["order_texts"]["clause"])
    assert records["resist_attacks"]["verdict"] == UNMEASURED
    assert all(record["clause"] for record in records.values())


@pytest.mark.parametrize(("margin", "word"), [(0.4, YES), (0.38, CARE)])
def test_a_share_of_failures_up_to_the_margin_leaves_a_yes(margin, word):
    sample = simulate.simulated_judge("perfect", 40, seed=1)
    unread = np.arange(len(sample.scores)) % 100 < 31
    sample = replace(sample, unread=unread).answered
    margins = Margins(failed=margin)
    record = simulate.verdicts(sample, margins)["order_texts"]
    assert (record["verdict"], "no answer for 39 % of the texts" in record["clause"]) == (word, word == CARE)


@pytest.mark.parametrize(("half_way", "alike", "word"), [(0.5, 0.8, CARE), (0.85, 0.9, NO), (0.5, 0.5, YES)])
def test_agreement_is_measured_by_that_of_raters_with_each_other(half_way, alike, word):
    sample = simulate.simulated_judge("noisy", 60, seed=2)
    record = simulate.verdicts(sample, Margins(half_way=half_way, alike=alike))["replace_rater"]
    assert record["verdict"] == word
    assert f"kappa with a rater {record['value']:.2f} [" in record["clause"]
    assert 0.5 * record["rater"] < record["value_low"] < record["value_high"] < 0.85 * record["rater"]


def reported(sample, margins=None, **resampled):
    """The record of report_scores, and the figures of systems it rests on."""
    sample = replace(sample, **resampled)
    return simulate.verdicts(sample, margins)["report_scores"], system_records([sample])[0]


def test_scores_that_are_as_near_as_a_rater_but_no_nearer_than_the_mean_rating_get_no_yes():
    """Systems that hardly differ, and raters who favor one each: always saying the mean is nearer than one rater."""
    sample = simulate.simulated_judge("as a rater", 60, seed=2)
    group, system = sample.groups.astype(int), sample.systems.astype(int)
    rng = np.random.default_rng(2)
    truth = 3 + rng.normal(size=60)[group] + 0.1 * rng.normal(size=6)[system]
    favors = 1.5 * (system[:, None] == np.arange(3))
    ratings = np.clip(np.round(truth[:, None] + favors + 0.4 * rng.normal(size=(360, 3))), 1, 5)
    scores = np.clip(truth + 0.2 * rng.normal(size=360), 1, 5)
    record, systems = reported(simulate.study_sample("d", scores, ratings, sample.groups, sample.systems))
    errors = [systems[f"{kind}error_largest"] for kind in ("unseen_", "constant_", "rater_")]
    assert max(errors[:2]) < errors[2] + 0.12
    assert systems["unseen_error_largest_saved_low"] <= 0
    assert record["verdict"] == CARE
    assert record["clause"].endswith(f"always the mean rating {errors[1]:.2f}, may be chance")


@pytest.mark.parametrize(("rate", "nearer"), [(0.9, True), (0.4, False)])
def test_scores_whose_error_is_no_smaller_than_a_constants_are_not_reported_whatever_they_explain(rate, nearer):
    """Most texts are rated 5. Of texts that the judge scores low people rate a share 2, of others a tenth: where that
    share is below a half, always saying 5, the median and not the mean, is nearer to single ratings."""
    rng = np.random.default_rng(3)
    groups, low = np.arange(800) // 4, rng.random(800) < 0.3
    bad = rng.random(800) < np.where(low, rate, 0.1)
    ratings = np.clip(np.where(bad, 2.0, 5.0)[:, None] + np.round(0.3 * rng.normal(size=(800, 3))), 1, 5)
    scores = np.where(low, 2.0, 4.0) + 0.01 * rng.random(800)
    sample = simulate.study_sample("d", scores, ratings, groups.astype(str), np.full(800, "a"))
    record, _ = reported(sample)
    (row,) = [row for row in beside_humans_records([sample]) if row["scores"] == record["scores"]]
    assert row["r2_low"] > 0.05
    assert (row["constant_saved"] > 0) == nearer
    assert (record["verdict"] == NO) == (not nearer), record["clause"]
    always = f"always the median rating {np.abs(ratings - np.median(ratings)).mean():.2f}"
    assert record["clause"].endswith(always) == (not nearer)


@pytest.mark.parametrize("judge", ["as a rater", "lenient"])
@pytest.mark.parametrize("alone", [False, True], ids=["systems", "one system"])
def test_the_value_is_the_error_of_the_scores_that_the_verdict_is_about(judge, alone):
    sample = simulate.simulated_judge(judge, 60, seed=2)
    if alone:
        sample = replace(sample, systems=np.full(len(sample.scores), "a"))
    record, systems = reported(sample)
    raw, fitted = beside_humans_records([sample])
    errors = {"raw": Estimate.of(systems, "error_largest"), "calibrated": Estimate.of(systems, "unseen_error_largest")}
    if alone:
        errors = {row["scores"]: Estimate.of(row, "single_mae") for row in (raw, fitted)}
    error = errors[record["scores"]]
    assert (record["value"], record["value_low"], record["value_high"]) == error
    what = "off by" if alone else "largest system error"
    # with its interval where only the interval's end is too far
    assert re.search(rf"{what} {error.value:.2f}( \[[\d., ]+\])? of 1-5", record["clause"])
    assert record["clause"].startswith("calibrated: ") == (record["scores"] == "calibrated")
    better = (fitted if alone else systems)["better_scores"]
    assert record["scores"] == better
    if better == "raw":
        assert errors["raw"].value < errors["calibrated"].value


def test_an_interval_of_r2_that_holds_the_margin_is_too_few_texts_and_only_one_below_it_is_hardly():
    rng = np.random.default_rng(0)
    sample = simulate.simulated_judge("perfect", 12, seed=0)
    truth, noise = sample.human, rng.normal(size=72)
    few, _ = reported(replace(sample, scores=np.clip(0.3 * (truth - 3) + 3 + 0.8 * noise, 1, 5)))
    low, high = map(float, re.search(r"R² -?0\.\d\d \[(-?0\.\d\d), (0\.\d\d)\]", few["clause"]).groups())
    assert low <= 0 < 0.05 <= high
    assert few["verdict"] == FEW
    assert few["needed"] > 12
    assert few["clause"].endswith(f"compared with the mean rating; {few['needed']} articles may tell")
    record, _ = reported(simulate.simulated_judge("blind", 200, seed=0))
    assert record["verdict"] == NO
    assert record["clause"].startswith("hardly better than the mean rating: R² -0.0")


def test_without_raters_there_is_no_yes_and_two_texts_of_one_article_are_enough():
    sample = simulate.simulated_judge("perfect", 40, seed=1)
    means = simulate.study_sample("perfect", sample.scores, sample.human[:, None], sample.groups, sample.systems)
    means = type(means)(**{**vars(means), "raters": ()})
    record = simulate.verdicts(means)["order_texts"]
    assert record["verdict"] == CARE
    assert record["rater"] is None
    assert "one rater is unknown" in record["clause"]
    alone = simulate.study_sample("perfect", *(side[::6] for side in (means.scores, means.ratings)),
                                  groups=means.groups[::6], systems=means.systems[::6])  # fmt: skip
    assert simulate.verdicts(alone)["order_texts"]["value"] > 0.8  # pairs of all texts


def test_margins_move_the_verdict_and_the_table_says_what_earns_each():
    sample = simulate.simulated_judge("noisy", 40, seed=1)
    assert simulate.verdicts(sample)["order_texts"]["verdict"] == CARE
    assert simulate.verdicts(sample, Margins(half_way=1.0))["order_texts"]["verdict"] == NO
    assert simulate.verdicts(sample, Margins(near_rater=0.2))["order_texts"]["verdict"] == YES
    knows_systems = simulate.simulated_judge("system", 40, seed=1)
    assert simulate.verdicts(knows_systems, Margins(half_way=0.0))["order_texts"]["verdict"] == NO
    assert simulate.verdicts(sample, Margins(fewest=41))["order_texts"]["verdict"] == FEW
    with pytest.raises(UserError, match=r"verdict\.half_way"):
        Margins(half_way=2.0)
    assert all(rule.yes and rule.with_care and rule.no for rule in RULES.values())


def test_an_interval_that_holds_a_coin_and_a_rater_says_how_many_articles_may_tell():
    rng = np.random.default_rng(3)
    quality = rng.normal(size=24)
    ratings = quality[:, None] + 0.7 * rng.normal(size=(24, 3))
    groups, systems = np.repeat(np.arange(12), 2).astype(str), np.tile(["a", "b"], 12)
    record = simulate.verdicts(simulate.study_sample("d", 3 + quality + 4 * rng.normal(size=24), ratings + 3, groups,
                                                     systems))["order_texts"]  # fmt: skip
    assert record["value_low"] <= 0.5 < record["value"]
    assert record["verdict"] == FEW
    assert record["needed"] > 12


def resisted(sample, effects, margins=None):
    """The record of resist_attacks, where scores under (attack, defense) are a function of the clean ones."""
    clean = {("none", defense): np.array for _, defense in effects}
    table = attacked_table(sample, {place: effect(sample.scores) for place, effect in (clean | effects).items()})
    metrics = evaluate(table, "made", ["dataset"], 200, 0, {"quality": (1.0, 5.0)})
    studies = {"metrics": metrics, "humans": [], "forecasts": [], "beside_humans": [], "systems": []}
    record = verdict_records([sample], [sample.head | {"taken": True}], studies, margins or Margins())[-1]
    assert record["use"] == "resist_attacks"
    assert ScoreSeries.of(record) == sample.cell
    return record


@pytest.mark.parametrize(
    ("plain", "defended", "word"), [(0.2, None, YES), (1.2, None, NO), (1.2, 0.1, CARE), (1.2, 1.0, NO)]
)
def test_attacks_are_measured_by_the_change_of_the_mean_score_as_a_part_of_the_range(plain, defended, word):
    effects = {("dsi", "none"): lambda scores: scores + plain}
    if defended is not None:
        effects["dsi", "cap"] = lambda scores: scores + defended
    record = resisted(simulate.simulated_judge("noisy", 12, seed=0), effects)
    assert record["verdict"] == word
    assert record["value"] == pytest.approx(plain / 4)
    interval = f"[{plain:+.2f}, {plain:+.2f}]"
    assert f"dsi moves scores by {plain:+.2f} {interval} points of 4" in record["clause"]
    assert ("with cap" in record["clause"]) == (word == CARE)


def shuffled(scores):
    return np.random.default_rng(0).permutation(scores)


def lifted(scores, share=0.15):
    """A part of the texts raised by half the range, the mean held by the others."""
    rises = np.random.default_rng(0).random(len(scores)) < share
    return np.where(rises, scores + 2, scores) - 2 * rises.mean()


@pytest.mark.parametrize(
    ("effect", "clause"),
    [
        (shuffled, r"dsi costs 0\.\d\d \[0\.\d\d, 0\.\d\d\] of Spearman"),
        (lifted, r"dsi raises 1\d % \[\d+, \d+\] more texts than it lowers"),
        (lambda scores: 6 - lifted(6 - scores), r"dsi lowers 1\d % \[\d+, \d+\] more texts than it raises"),
    ],
    ids=["shuffled", "raised", "lowered"],
)
def test_an_attack_that_holds_the_mean_but_not_order_or_texts_is_not_resisted_and_the_clause_says_which(effect, clause):
    sample = simulate.simulated_judge("as a rater", 60, seed=0)
    record = resisted(sample, {("dsi", "none"): effect})
    assert record["verdict"] == NO
    assert re.fullmatch(clause, record["clause"])
    assert abs(record["value"]) > 0.1
    defended = resisted(sample, {("dsi", "none"): effect, ("dsi", "cap"): lambda scores: scores + 0.1})
    assert defended["verdict"] == CARE
    assert defended["clause"] == f"{record['clause']}; with cap, resisted"
    wide = Margins(attack_change=1, attack_rise=1, attack_order=1)
    assert resisted(sample, {("dsi", "none"): effect}, wide)["verdict"] == YES


def test_order_is_that_of_clean_scores_where_the_humans_say_nothing():
    sample = simulate.simulated_judge("as a rater", 60, seed=0)
    alike = simulate.study_sample("d", sample.scores, np.full((360, 3), 3.0), sample.groups, sample.systems)
    record = resisted(alike, {("dsi", "none"): shuffled})
    assert record["verdict"] == NO
    assert "leaves a Spearman of" in record["clause"]
    assert record["value"] == pytest.approx(1, abs=0.2)


def test_few_attacked_texts_are_too_few_rather_than_a_yes():
    """A noisy attack on 12 articles, whose interval holds both nothing and more than the margin; and 9 articles."""
    noisy = {("dsi", "none"): lambda scores: scores + np.random.default_rng(0).normal(0, 0.4, len(scores))}
    record = resisted(simulate.simulated_judge("as a rater", 12, seed=0), noisy)
    assert record["verdict"] == FEW
    assert record["needed"] > 12
    assert record["clause"].endswith(f"; {record['needed']} articles may tell")
    nothing = {("dsi", "none"): lambda scores: scores + 0.01}
    record = resisted(simulate.simulated_judge("as a rater", 9, seed=0), nothing)
    assert (record["verdict"], record["needed"]) == (FEW, 10)
    assert resisted(simulate.simulated_judge("as a rater", 10, seed=0), nothing)["verdict"] == YES


@needs_recorded
@pytest.mark.exhaustive
def test_recorded_judges_are_told_apart():
    lines = list(simulate.verdict(type("options", (), {"recorded": [], "data_sets": 0})))[2:]
    ordered = [line.split(" | ")[2].split(":")[0] for line in lines]
    assert {word: ordered.count(word) for word in (YES, CARE, NO)} == {YES: 1, CARE: 18, NO: 5}


def test_the_rules_that_are_shown_have_the_margins_of_the_run():
    usual, wide = rules_of({}), rules_of({"verdict": {"near_rater": 0.1, "attack_change": 0.25}})
    assert "within 0.03" in usual["order_texts"].yes
    assert "within 0.1 " in wide["order_texts"].yes
    assert "within 0.25 of the range" in wide["resist_attacks"].yes
    assert "within 0.1 of the scale" in wide["report_scores"].yes
    assert not any("{" in text for rule in usual.values() for text in rule)


@pytest.mark.parametrize("template", ["clause", "clause_scores", "clause_order", "clause_attacks", "unranked"])
def test_a_reason_without_words_is_a_mistake(template):
    with pytest.raises(UndefinedError, match="no_such_part"):
        say(template, part="luck")
