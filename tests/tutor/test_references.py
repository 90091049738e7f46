"""References and strengths: pairs a context, steered or asked for, and the scores that the judge gives them."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from scipy import stats

from judgebench.runtime.errors import UserError
from judgebench.tutor.steering import Standard
from judgebench.tutor.texts import (
    asked_references,
    measure_strengths,
    selected_strength,
    steered_references,
    steered_texts,
)
from judgebench.tutor.writing import Text
from tests.tutor.conftest import refuse, tokens

STANDARD = Standard(2, *torch.randn(2, 32, generator=torch.Generator().manual_seed(1)))


def test_a_pair_a_context_in_order(make_tutor, contexts):
    pairs = steered_references(make_tutor(), contexts, STANDARD, 9.0, 6.0)
    assert [pair.group_id for pair in pairs] == [context.group_id for context in contexts]
    texts = steered_texts(make_tutor(trainer=refuse), contexts, STANDARD, [9.0, -6.0])
    assert [(pair.high, pair.low) for pair in pairs] == [
        (high.text, low.text) for high, low in zip(texts[9.0], texts[-6.0], strict=True)
    ]
    assert all(pair.high != pair.low for pair in pairs)


def test_a_strength_that_was_tried_costs_nothing(make_tutor, contexts):
    first = steered_texts(make_tutor(), contexts, STANDARD, [0.0, 4.0, -4.0])
    again = steered_texts(make_tutor(trainer=refuse), contexts, STANDARD, [-4.0, 4.0, 0.0, 4.0])
    assert {alpha: tokens(texts) for alpha, texts in again.items()} == {
        alpha: tokens(texts) for alpha, texts in first.items()
    }
    with pytest.raises(AssertionError, match="nothing was to be computed"):
        steered_texts(make_tutor(trainer=refuse), contexts, STANDARD, [5.0])


def test_strength_0_is_the_plain_tutor(make_tutor, contexts):
    pairs = steered_references(make_tutor(), contexts, STANDARD, 0.0, 0.0)
    tutor = make_tutor("plain.sqlite")
    plain = tutor.write([Text(prompt) for prompt in tutor.prompts(contexts)])
    assert [pair.high for pair in pairs] == [pair.low for pair in pairs] == [each.text for each in plain]


def test_sampled_references_follow_the_seed(make_tutor, contexts):
    def sampled(**settings):
        tutor = make_tutor(sample_references=True, **settings)
        return steered_references(tutor, contexts, STANDARD, 3.0, 3.0)

    assert sampled() == sampled()
    plain = steered_references(make_tutor(), contexts, STANDARD, 3.0, 3.0)
    assert len({tuple(pair.high for pair in pairs) for pairs in (plain, sampled(), sampled(seed=1))}) == 3


def test_unsteered_pairs_answer_different_questions(make_tutor, contexts):
    tutor = make_tutor()
    asked, scored = asked_references(tutor, contexts), asked_references(tutor, contexts, (4.0, 2.0))
    assert len({asked[0].high, asked[0].low, scored[0].high, scored[0].low}) == 4
    assert asked_references(make_tutor(trainer=refuse), contexts, (2.0, 4.0))[0].high == scored[0].low


def test_an_empty_reference_is_refused(make_tutor, contexts, tiny_pair, tmp_path):
    """A tutor that ends where it would begin its text on the second context."""
    tutor = make_tutor()
    first = tutor.write([Text(prompt) for prompt in tutor.prompts(contexts)])[1].tokens[0]
    folder = tmp_path / "silent"
    shutil.copytree(tiny_pair[0], folder)
    settings = json.loads((folder / "generation_config.json").read_text())
    (folder / "generation_config.json").write_text(json.dumps(settings | {"eos_token_id": [2, int(first)]}))
    silent = make_tutor("silent.sqlite", path=str(folder))
    with pytest.raises(UserError, match=r"the high reference of group mini-02 is empty.*lower tutor\.alpha_high=0"):
        steered_references(silent, contexts[1:], STANDARD, 0.0, 9.0)


ALPHAS = [0.0, 3.0, 9.0]


def by_length(examples):
    """A judge who likes long texts."""
    return np.array([float(len(example.output)) for example in examples])


def measured(make_tutor, contexts, scorer=by_length, targets=(10.0, 30.0), alphas=ALPHAS):
    return measure_strengths(make_tutor(), contexts, STANDARD, alphas, scorer, targets)


def test_mean_variance_and_interval_of_each_strength(make_tutor, contexts):
    found = measured(make_tutor, contexts)
    texts = steered_texts(make_tutor(), contexts, STANDARD, [0.0, 3.0, 9.0, -3.0, -9.0])
    assert [(one.side, one.alpha) for one in found] == [(s, a) for s in ("high", "low") for a in ALPHAS]
    for one in found:
        signed = one.alpha if one.side == "high" else -one.alpha
        lengths = [len(text.text) for text in texts[signed] if text.text]
        assert (one.n, one.empty) == (len(lengths), 3 - len(lengths))
        assert one.mean == pytest.approx(np.mean(lengths))
        assert one.variance == pytest.approx(np.var(lengths, ddof=1))
        expected = stats.t.interval(0.95, len(lengths) - 1, loc=np.mean(lengths), scale=stats.sem(lengths))
        assert (one.low, one.high) == pytest.approx(expected)


def test_the_nearest_to_the_target_is_chosen_once_a_side(make_tutor, contexts):
    found = measured(make_tutor, contexts)
    for side, target in (("high", 30.0), ("low", 10.0)):
        own = [one for one in found if one.side == side]
        assert [one.target for one in own] == [target] * 3
        best = min(own, key=lambda one: abs(one.mean - one.target))
        assert [one.chosen for one in own] == [one is best for one in own]
        assert selected_strength(found, side) == best.alpha


def test_of_equals_the_weakest_is_chosen(make_tutor, contexts):
    found = measured(make_tutor, contexts, lambda examples: np.ones(len(examples)))
    assert selected_strength(found, "high") == selected_strength(found, "low") == 0.0


def test_texts_without_a_score_do_not_count(make_tutor, contexts):
    def mute(examples):
        return np.array([float("nan") if example.group_id == contexts[0].group_id else 3.0 for example in examples])

    assert {one.n for one in measured(make_tutor, contexts, mute)} == {2}
    with pytest.raises(UserError, match=r"^tutor.strengths: the judge gave no high text a score"):
        measured(make_tutor, contexts, lambda examples: np.full(len(examples), np.nan))
