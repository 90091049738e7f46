"""Strengths of steering against what the judge thinks of the texts."""

import numpy as np
import pytest
import torch
from scipy import stats

from judgebench.runtime.errors import UserError
from judgebench.tutor.references import measure_strengths, selected_strength, steered_texts
from judgebench.tutor.steering import Standard

STANDARD = Standard(2, *torch.randn(2, 32, generator=torch.Generator().manual_seed(1)))
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
