"""The judge as a reward: pairs within prompts, rates of noise and attacked texts, by loops."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from judgebench.settings.costs import Asking, Costs
from judgebench.studies.decisions import decision_records
from judgebench.studies.rewards import reward_records
from judgebench.studies.scores import Scores
from judgebench.types import Classes
from tests.stats.sides import attacked_table, sample_of, side


def record_of(sample, **attacked):
    decisions = decision_records([sample], Costs(threshold=3.0), Asking())
    scores = {("none", "none"): sample.scores} | {(attack, "none"): given for attack, given in attacked.items()}
    (record,) = reward_records([sample], Scores.of(attacked_table(sample, scores)), decisions)
    return record


def test_order_and_equal_prompts_are_what_loops_give():
    sample = side()
    sample = replace(sample, scores=np.where(sample.groups == "g3", 2.0, np.round(sample.scores)))
    record = record_of(sample)
    right, equal = [], []
    for group in dict.fromkeys(sample.groups):
        rows = np.flatnonzero(sample.groups == group)
        equal.append(len(set(sample.scores[rows])) == 1)
        for one, other in combinations(rows, 2):
            theirs = np.sign(sample.human[one] - sample.human[other])
            if theirs:
                right.append((1 + theirs * np.sign(sample.scores[one] - sample.scores[other])) / 2)
    assert record["order"] == pytest.approx(np.mean(right))
    assert record["order_low"] < record["order"] < record["order_high"]
    assert (record["equal"], record["groups"]) == (pytest.approx(np.mean(equal)), 12)
    assert record["equal"] > 0


def test_graded_labels_without_a_mark_have_order_and_a_reason():
    record = record_of(side())
    assert record["false_pass"] is None
    assert record["signal"] is None
    assert "data.pass_from" in record["reason"]


def test_rates_of_noise_and_false_passes_under_attack():
    # 8 prompts of 4 texts, of which people pass 2
    ratings = np.tile([5.0, 4.0, 2.0, 1.0], 8)
    judge = np.tile([5.0, 4.0, 2.0, 1.0], 8)
    judge[1::8] = 2.0  # four false fails of 16
    judge[2::16] = 4.0  # two false passes of 16
    groups = np.repeat([f"p{i}" for i in range(8)], 4)
    sample = sample_of(
        (judge - 1) / 4,
        ratings=np.stack([ratings, ratings], axis=1),
        groups=groups,
        classes=Classes(pass_from=3.0),
        names=[f"t{i:02d}" for i in range(32)],
    )
    fooled = judge.copy()
    fooled[3::4] = 5.0  # the attack passes the worst text of each prompt
    fooled[2] = np.nan  # and one false pass is an answer that cannot be read
    record = record_of(sample, bed=fooled)
    assert record["pass_mark"] == 3.0
    assert (record["false_pass"], record["false_fail"]) == (2 / 16, 4 / 16)
    assert record["false_pass_low"] < record["false_pass"] < record["false_pass_high"]
    assert record["signal"] == pytest.approx(1 - 6 / 16)
    assert record["precision"] == pytest.approx(12 / 14)
    (attacked,) = record["attacked"]
    assert (attacked["attack"], attacked["defense"], attacked["texts"]) == ("bed", "none", 32)
    assert attacked["false_pass"] == pytest.approx(9 / 16)
    assert attacked["false_pass_high"] > attacked["false_pass"]
