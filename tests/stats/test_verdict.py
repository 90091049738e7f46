"""What a judge may be used for: shares of pairs by plain loops, simulated and recorded judges."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from judgebench.config.fields import Margins
from judgebench.runtime.errors import UserError
from judgebench.stats.evaluate import evaluate
from judgebench.stats.scores import Cell
from judgebench.stats.verdict import CARE, FEW, NO, RULES, UNMEASURED, YES, rules_of, verdict_records
from tests.stats.recorded import needs_recorded
from tests.test_scripts import script

simulate = script("simulate")


@pytest.mark.parametrize(
    ("judge", "articles", "words"),
    [
        ("perfect", 40, (YES, CARE, YES, YES)),  # fifteen pairs of systems leave a wide interval
        ("lenient", 40, (YES, CARE, YES, YES)),
        ("noisy", 40, (CARE, CARE, CARE, None)),
        ("length", 40, (NO, NO, NO, NO)),
        ("blind", 40, (NO, NO, NO, NO)),
        ("constant", 40, (NO, NO, NO, NO)),
        ("inverted", 40, (NO, NO, NO, NO)),
        ("perfect", 9, (FEW, FEW, FEW, FEW)),
    ],
)
def test_simulated_judges_get_the_verdict_that_is_true_of_them(judge, articles, words):
    records = simulate.verdicts(simulate.simulated_judge(judge, articles, seed=1))
    for use, word in zip(RULES, words, strict=False):
        assert word in (None, records[use]["verdict"]), (use, records[use])
    assert records["resist_attacks"]["verdict"] == UNMEASURED


@pytest.mark.parametrize(
    ("judge", "words", "clause"),
    [
        (
            "failing",
            (CARE, CARE, None, CARE),
            r"no answer for 31 % of the texts; \d+ % of pairs .* \d+ to \d+ with what",
        ),
        (
            "system",
            (NO, None, None, NO),
            r"no better than knowing the system: in systems 50 %, one rater",
        ),
        ("system, noisy", (NO, None, None, NO), "no better than knowing the system: in systems"),
        ("article", (NO, NO, None, NO), "50 % of pairs"),
        ("half shuffled", (None, None, None, NO), ""),
        ("two values", (CARE, None, None, NO), ""),
        ("rare low", (NO, None, None, NO), ""),
    ],
)
def test_judges_that_seem_better_than_they_are_get_no_yes(judge, words, clause):
    records = simulate.verdicts(simulate.simulated_judge(judge, 60, seed=1))
    for use, word in zip(RULES, words, strict=False):
        assert word in (None, records[use]["verdict"]), (use, records[use])
    assert re.search(clause, records["order_texts"]["clause"])
    if judge == "failing":
        assert not any(record["verdict"] == YES for record in records.values())


@pytest.mark.parametrize(("margin", "word"), [(0.4, YES), (0.38, CARE)])
def test_a_share_of_failures_up_to_the_margin_leaves_a_yes(margin, word):
    sample = simulate.simulated_judge("perfect", 40, seed=1)
    unread = np.arange(len(sample.scores)) % 100 < 31
    sample = replace(sample, unread=unread).answered
    margins = Margins(failed=margin)
    record = simulate.verdicts(sample, margins)["order_texts"]
    assert (record["verdict"], "no answer for 39 % of the texts" in record["clause"]) == (word, word == CARE)


@pytest.mark.parametrize(("half_way", "word"), [(0.5, NO), (0.2, CARE)])
def test_an_error_nearer_to_a_constants_than_to_a_raters_replaces_nobody(half_way, word):
    """It wins over all three raters: they are as far from each other as a person is, and it from them by .12 more."""
    sample = simulate.simulated_judge("noisy", 60, seed=2)
    record = simulate.verdicts(sample, Margins(half_way=half_way))["replace_rater"]
    assert record["verdict"] == word
    assert record["value_low"] > record["rater_high"]
    assert ("always saying 3 by 0.89" in record["clause"]) == (word == NO)


def test_a_lenient_judge_may_report_its_scores_once_they_are_calibrated_and_a_clause_names_both_errors():
    record = simulate.verdicts(simulate.simulated_judge("lenient", 40, seed=0))["report_scores"]
    assert (record["verdict"], record["scores"]) == (YES, "calibrated")
    assert re.match(r"calibrated: largest system error \d\.\d\d of 1-5, raw \d\.\d\d; rater ", record["clause"])


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


@pytest.mark.parametrize(
    ("plain", "defended", "word"), [(0.2, None, YES), (1.2, None, NO), (1.2, 0.1, CARE), (1.2, 1.0, NO)]
)
def test_attacks_are_measured_by_the_change_of_the_mean_score_in_tenths_of_the_scale(plain, defended, word):
    sample = simulate.simulated_judge("noisy", 12, seed=0)
    columns = []
    changes = {("none", "none"): 0.0, ("dsi", "none"): plain}
    if defended is not None:
        changes |= {("none", "cap"): 0.0, ("dsi", "cap"): defended}
    for (attack, defense), change in changes.items():
        cell = {**sample.cell.named, "attack": attack, "defense": defense}
        part = {name: np.full(len(sample.scores), value) for name, value in cell.items()}
        part |= {"example_id": sample.names, "group_id": sample.groups, "system_id": sample.systems}
        part |= {"score": sample.scores / 4 + change, "human": sample.human}
        columns.append(part | {"status": np.full(len(sample.scores), "ok")})
    table = {name: np.concatenate([part[name] for part in columns]) for name in columns[0]}
    metrics = evaluate(table, "made", ["dataset"], 50, 0, {"quality": (1.0, 5.0)})
    studies = {"metrics": metrics, "humans": [], "forecasts": [], "beside_humans": [], "systems": []}
    choice = [sample.head | {"taken": True}]
    record = verdict_records([sample], choice, studies, Margins())[-1]
    assert (record["use"], record["verdict"]) == ("resist_attacks", word)
    assert record["value"] == pytest.approx(plain / 4)
    assert ("with cap" in record["clause"]) == (word == CARE)
    assert Cell.of(record) == sample.cell


@needs_recorded
def test_recorded_judges_are_told_apart():
    lines = list(simulate.verdict(type("options", (), {"recorded": [], "data_sets": 0})))[2:]
    ordered = [line.split(" | ")[2].split(":")[0] for line in lines]
    assert {word: ordered.count(word) for word in (YES, CARE, NO)} == {YES: 1, CARE: 18, NO: 5}


def test_the_rules_that_are_shown_have_the_margins_of_the_run():
    usual, wide = rules_of({}), rules_of({"verdict": {"near_rater": 0.1, "attack_change": 0.25}})
    assert "within 0.03" in usual["order_texts"].yes
    assert "within 0.1 " in wide["order_texts"].yes
    assert "below 0.25" in wide["resist_attacks"].yes
    assert not any("{" in text for rule in usual.values() for text in rule)
