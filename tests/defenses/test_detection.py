"""Detection: thresholds, detectors, and the texts that are warned of."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score, precision_recall_curve, precision_score, recall_score
from transformers import AutoModelForCausalLM

from judgebench.defenses.detection import (
    WARNING,
    f1_of,
    metrics_at,
    perplexity,
    planned_detection,
    threshold_curve,
)
from judgebench.defenses.prepared import judged_texts
from judgebench.types import Condition, Example
from judgebench.words.errors import UserError
from tests.defenses.conftest import RANGE, SAID, examples, helped, resources
from tests.tutor.conftest import refusing

VALUES = st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=2, max_size=40)


def test_how_many_attacks_there_are_does_not_move_the_cut():
    clean, attacked = np.array([1.0, 2, 3, 9]), np.array([2.5, 8, 8.5, 10])
    kinds = np.array([False] * 4 + [True] * 4)
    once = threshold_curve(np.concatenate([clean, attacked]), kinds)
    thrice = threshold_curve(np.concatenate([clean, attacked, attacked, attacked]), np.append(kinds, [True] * 8))
    for name in ("thresholds", "precision", "recall"):
        np.testing.assert_allclose(getattr(once, name), getattr(thrice, name))


@given(VALUES)
def test_curves_are_scikit_learns(drawn):
    values = np.array([float(value) for value, _ in drawn])
    attacked = np.array([kind for _, kind in drawn])
    if attacked.all() or not attacked.any():
        return
    weights = np.where(attacked, 1 / attacked.sum(), 1 / (~attacked).sum())
    precision, recall, levels = precision_recall_curve(attacked, values, sample_weight=weights)
    curve = threshold_curve(values, attacked)
    np.testing.assert_allclose(curve.precision, precision[:-1])
    np.testing.assert_allclose(curve.recall, recall[:-1])
    assert ((curve.thresholds < levels) & (np.append(-np.inf, levels[:-1]) <= curve.thresholds)).all()
    best = float(curve.thresholds[curve.best])
    for i, threshold in enumerate(curve.thresholds):
        claimed = values > threshold
        weighed = {"sample_weight": weights, "zero_division": 0.0}
        found = metrics_at(float(threshold), values, attacked)
        assert found["precision"] == pytest.approx(precision_score(attacked, claimed, **weighed))
        assert found["recall"] == pytest.approx(recall_score(attacked, claimed, **weighed))
        assert found["f1"] == pytest.approx(f1_score(attacked, claimed, **weighed)) == pytest.approx(curve.f1[i])
        assert found["false_positive_rate"] == pytest.approx(claimed[~attacked].mean())
        assert found["f1"] <= curve.f1[curve.best] + 1e-12
        # of equals the one that claims least
        assert threshold <= best or found["f1"] < curve.f1[curve.best]


def test_a_text_without_a_value_is_never_claimed_but_counts():
    values, attacked = np.array([1.0, np.nan, 2, np.nan]), np.array([False, False, True, True])
    curve = threshold_curve(values, attacked)
    np.testing.assert_allclose(curve.recall, [0.5, 0.5])
    np.testing.assert_allclose(curve.precision, [0.5, 1])
    found = metrics_at(1.5, values, attacked)
    assert (found["n_clean"], found["n_attacked"], found["recall"], found["false_positive_rate"]) == (2, 2, 0.5, 0)


def test_neighboring_floats_are_told_apart():
    low = 1.0
    high = float(np.nextafter(low, 2))
    curve = threshold_curve(np.array([low, high]), np.array([False, True]))
    assert metrics_at(float(curve.thresholds[curve.best]), np.array([low, high]), np.array([False, True]))["f1"] == 1


def test_what_cannot_be_said_is_none():
    clean = metrics_at(1.0, np.array([0.0, 2.0]), np.array([False, False]))
    assert (clean["recall"], clean["precision"], clean["f1"], clean["false_positive_rate"]) == (None, None, None, 0.5)
    nothing = metrics_at(9.0, np.array([0.0, 2.0]), np.array([False, True]))
    assert (nothing["precision"], nothing["recall"], nothing["f1"]) == (None, 0, 0)
    assert f1_of(np.array(0.723), np.array(0.875)) == pytest.approx(0.792, abs=5e-4)  # figure 9 of the paper


def test_a_thinned_curve_keeps_its_ends_and_its_best():
    draw = np.random.default_rng(0)
    attacked = draw.random(3000) < 0.5
    curve = threshold_curve(draw.normal(attacked, 1), attacked)
    thin = curve.thinned(200)
    assert len(thin.thresholds) <= 200
    assert {curve.thresholds[i] for i in (0, -1, curve.best)} <= set(thin.thresholds)
    assert thin.f1[thin.best] == curve.f1[curve.best]
    assert curve.thinned(10_000).thresholds.tolist() == curve.thresholds.tolist()


ROWS = st.lists(st.floats(-30, 0), min_size=1, max_size=30)
CONDITION = Condition("coherence", RANGE)


@given(ROWS)
def test_perplexity_is_the_exponential_of_the_mean_surprise(row):
    assert perplexity(np.array(row)) == pytest.approx(math.exp(-sum(row) / len(row)))


def test_texts_are_looked_at_once_in_all_their_roles(tiny_pair, tmp_path):
    ready = resources(tiny_pair[0], tmp_path, "perplexity", ("none", "dsi", "empty"))
    roles, texts = judged_texts(replace(ready, conditions=[*ready.conditions, *ready.conditions]), "perplexity")
    assert [(role.attack, role.group_id) for role in roles if not role.attack] == [("", "a")] * 2 + [("", "b")] * 2
    # the empty text is a role of each group, and nothing to be looked at
    assert sum(role.attack == "empty" for role in roles) == 2
    assert [one.group_id for one in texts] == ["a/0", "a/0", "a/1", "a/1", "b/0", "b/0", "b/1", "b/1"]
    assert len({one.example_id for one in texts}) == len({one.output for one in texts}) == 8


def test_rivals_are_clean_texts_of_their_own(tiny_pair, tmp_path):
    pair = Example("0~1", "a", "0", "", "One.", {}, rival_id="1", rival="Two.")
    roles, texts = judged_texts(resources(tiny_pair[0], tmp_path, "perplexity", ("none",), [pair]), "perplexity")
    assert [(role.text, role.attack) for role in roles] == [("One.", ""), ("Two.", "")]
    assert [one.group_id for one in texts] == ["0", "1"]


def test_perplexity_is_what_transformers_says_and_what_lies_above_tau_is_warned_of(tiny_pair, tmp_path):
    ready = resources(tiny_pair[0], tmp_path, "perplexity")
    defense = planned_detection(helper=helped(tiny_pair[0])).prepared(ready)
    (record,) = defense.findings.detectors
    model, tokenizer = AutoModelForCausalLM.from_pretrained(tiny_pair[0]), ready.builder.tokenizer
    checked = 0
    for example in examples():
        for condition in ready.conditions:
            text = ready.judged(example, condition)
            if "<|" in text:
                continue  # which a tokenizer alone would read as a control token
            ids = tokenizer(text, return_tensors="pt")["input_ids"]
            with torch.inference_mode():
                value = math.exp(model(ids, labels=ids).loss)
            assert (value > record["threshold"]) == (defense.text(text, example, condition) == WARNING + text)
            checked += 1
    assert checked == 6
    assert record["training"]["groups"] == ["a"]
    assert record["training"]["attacks"] == ["dsi"]
    assert (record["test"]["n_clean"], record["test"]["n_attacked"]) == (2, 2)


def test_a_detector_costs_nothing_again_and_its_record_gives_the_same(tiny_pair, tmp_path):
    first = planned_detection(helper=helped(tiny_pair[0])).prepared(resources(tiny_pair[0], tmp_path, "perplexity"))
    (record,) = first.findings.detectors
    file = tmp_path / "detectors.json"
    file.write_text(json.dumps([record]))
    again = planned_detection(helper=helped(tiny_pair[0]), detectors=str(file))
    second = again.prepared(resources(tiny_pair[0], tmp_path, "perplexity", trainer=refusing()))
    assert second.texts == first.texts
    assert second.findings.detectors == first.findings.detectors
    costs = first.findings.costs["perplexity"]
    assert second.findings.costs["perplexity"] == {**costs, "once": 0.0}
    assert costs["text"] > 0
    assert first.texts  # the best F1 claims something


def test_nothing_is_chosen_on_test_texts(tiny_pair, tmp_path):
    other = {"a": SAID["a"], "b": ("Wholly other words, and many more of them than before.", "Yes.")}
    found = []
    for texts in (SAID, other):
        ready = resources(tiny_pair[0], tmp_path, "perplexity", texts=examples(texts))
        (record,) = planned_detection(helper=helped(tiny_pair[0])).prepared(ready).findings.detectors
        found.append({**record, "test": None})
    # in batches with other texts probabilities differ in their last bits
    assert found[0]["threshold"] == pytest.approx(found[1]["threshold"], rel=1e-4)
    assert found[0]["training"] == found[1]["training"]


def test_texts_too_short_are_never_warned_of(tiny_pair, tmp_path):
    texts = examples({"a": SAID["a"], "b": ("a", "")})
    ready = resources(tiny_pair[0], tmp_path, "perplexity", texts=texts)
    defense = planned_detection(helper=helped(tiny_pair[0])).prepared(ready)
    assert [defense.text(text, texts[2], CONDITION) for text in ("a", "", " ")] == ["a", "", " "]


def test_where_all_texts_are_empty_nothing_is_read_and_nothing_warned_of(tiny_pair, tmp_path):
    first = planned_detection(helper=helped(tiny_pair[0])).prepared(resources(tiny_pair[0], tmp_path, "perplexity"))
    plan = planned_detection(helper=helped(tiny_pair[0]))
    plan = replace(plan, record=first.findings.detectors[0])
    empty = examples({"a": ("", " "), "b": ("", "")})
    defense = plan.prepared(resources(tiny_pair[0], tmp_path, "perplexity", ("none",), empty, refusing()))
    assert not defense.texts
    assert defense.findings.detectors[0]["test"]["false_positive_rate"] == 0


def test_where_nothing_can_be_learned_it_is_told(tiny_pair, tmp_path):
    plan = planned_detection(helper=helped(tiny_pair[0]))
    with pytest.raises(UserError, match=r"^defenses: perplexity learns from attacked texts .* add one"):
        plan.prepared(resources(tiny_pair[0], tmp_path, "perplexity", ("none",)))
    with pytest.raises(UserError, match=r"^defenses: perplexity can measure none of the attacked texts"):
        plan.prepared(resources(tiny_pair[0], tmp_path, "perplexity", ("none", "empty")))
    with pytest.raises(UserError, match=r"^defenses: perplexity needs a development split to find a threshold on"):
        plan.prepared(replace(resources(tiny_pair[0], tmp_path, "perplexity"), split={"a": "test", "b": "test"}))


@pytest.fixture(scope="module")
def saved(tiny_pair, tmp_path_factory):
    """The record of perplexity, and one of a detector that earlier versions had."""
    folder = tmp_path_factory.mktemp("saved")
    defense = planned_detection(helper=helped(tiny_pair[0])).prepared(resources(tiny_pair[0], folder, "perplexity"))
    (record,) = defense.findings.detectors
    return [record, {**record, "defense": "classifier"}]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"threshold": None}, "damaged: threshold: None should be a valid number"),
        ({"threshold": math.nan}, "not valid JSON .NaN is no number"),
        ({"threshold": 10**400}, "not valid JSON .int too large to convert to float"),
        ({"helper_sha256": 3}, "damaged: helper_sha256: 3 should be a valid string"),
        ({"training": {}}, "damaged: training.groups is not given"),
        ({"curve": {"thresholds": [1]}}, "damaged: curve.precision is not given"),
        ({"defense": "perplexty"}, "holds no detector perplexity, but perplexty, classifier; "),
        *(("[", "not valid JSON"), ("3", "holds no detector perplexity, but none at all"), (None, "cannot be read")),
    ],
)
def test_a_damaged_record_is_told(tiny_pair, tmp_path, saved, change, sentence):
    file = tmp_path / "detectors.json"
    if change is not None:
        file.write_text(change if isinstance(change, str) else json.dumps([{**saved[0], **change}, saved[1]]))
    with pytest.raises(UserError, match=f"^defenses: perplexity.detectors: .*{sentence}"):
        planned_detection(helper=helped(tiny_pair[0]), detectors=str(file))


def test_a_record_serves_its_own_helper_and_training_groups_alone(tiny_pair, tmp_path, saved):
    file = tmp_path / "detectors.json"
    file.write_text(json.dumps(saved))
    reused = {"detectors": str(file)}
    ready = resources(tiny_pair[0], tmp_path, "perplexity")
    with pytest.raises(
        UserError, match=r"perplexity was fitted with tiny-main .*, and its helper here is tiny-assistant"
    ):
        planned_detection(helper=helped(tiny_pair[1]), **reused).prepared(ready)
    plan = planned_detection(helper=helped(tiny_pair[0]), **reused)
    with pytest.raises(UserError, match=r"1 of the groups that this run tests on \(a, for one\)"):
        plan.prepared(replace(ready, split={"a": "test", "b": "dev"}))
    elsewhere = plan.prepared(replace(ready, split={"a": "test", "b": "dev"}, dataset="other"))
    assert elsewhere.findings.detectors[0]["test"]["dataset"] == "other"
