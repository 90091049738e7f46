"""Texts of a tutor: candidates, their scores and states; references and strengths."""

import json
import shutil

import numpy as np
import pytest
import torch
from scipy import stats

from judgebench.judges import PassRunner
from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.engine.plain import PlainEngine
from judgebench.judges.engine.prefix import PrefixEngine
from judgebench.judges.spec import JudgeSpec
from judgebench.prompts.builder import PromptBuilder
from judgebench.prompts.rubrics import load_rubrics
from judgebench.tutor.steering import Standard
from judgebench.tutor.texts import (
    JudgeScorer,
    asked_references,
    candidate_states,
    final_states,
    measure_strengths,
    selected_strength,
    steered_references,
    steered_texts,
    write_candidates,
)
from judgebench.tutor.writing import Text
from judgebench.types import Condition, ScoreRange
from judgebench.words.errors import UserError
from tests.judges.engine.test_engine import model_of, prompts
from tests.tutor.conftest import by_length, make_trainer, refusing


def by_transformers(model, ids):
    """[layers, hidden] at the last token; transformers norms what it shows of the last layer."""
    with torch.inference_mode():
        shown = model(input_ids=torch.tensor([ids.tolist()]), output_hidden_states=True).hidden_states
    return torch.stack([states[0, -1] for states in shown[1:]])


@pytest.mark.parametrize("kind", [PrefixEngine, PlainEngine])
@pytest.mark.parametrize("name", ["llama", "mistral_window"])
@torch.inference_mode()
def test_states_are_those_of_transformers(kind, name):
    model, plain = model_of(name), model_of(name)
    found = final_states(kind(model), model, prompts())
    found[:, -1] = plain.model.norm(found[:, -1])
    expected = torch.stack([by_transformers(plain, ids) for group in prompts() for ids in group])
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    assert not any(module._forward_hooks for module in model.modules())


@pytest.mark.parametrize("budget", [1, 10_000])
def test_states_of_candidates_are_at_the_last_token_that_was_written(make_tutor, contexts, budget):
    tutor = make_tutor(max_batch_tokens=budget)
    candidates = write_candidates(tutor, contexts)
    shuffled = [candidates[i] for i in np.random.default_rng(0).permutation(len(candidates))]
    found = candidate_states(tutor, shuffled)
    model = tutor.spec.source.model()
    for each, states in zip(shuffled, torch.from_numpy(found), strict=True):
        expected = by_transformers(model, np.concatenate([each.asked.prompt.token_ids, each.tokens]))
        torch.testing.assert_close(states[:-1], expected[:-1], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(model.model.norm(states[-1]), expected[-1], atol=1e-4, rtol=1e-4)


CONDITION = Condition("joint", ScoreRange(1, 5))


def examples_of(candidates):
    return [candidate.example for candidate in candidates]


@pytest.fixture
def scorer(tiny_pair, mini, make_tutor):
    def make(trainer=None, **settings):
        judge = JudgeSpec(str(tiny_pair[0]), dtype="float32", **settings)
        builder = PromptBuilder(judge.source.tokenizer(), load_rubrics("cap_summary", ["joint"]), 3000)
        runner = PassRunner(store=make_tutor().runner.store, trainer=trainer or make_trainer())
        return JudgeScorer(judge, builder, CONDITION, runner)

    return make


def test_scores_are_expected_ones_by_a_plain_pass(scorer, make_tutor, contexts):
    candidates = write_candidates(make_tutor(), contexts)[::-1]
    found = scorer()(examples_of(candidates))
    judge = scorer().judge.source
    trie = CandidateTrie.of(judge.tokenizer(), CONDITION.range.candidates)
    prompts = scorer().builder.build(examples_of(candidates), [CONDITION])
    with torch.inference_mode():
        logprobs = PlainEngine(judge.model()).read([[prompt.token_ids] for prompt in prompts], trie)[0]
    probabilities = logprobs.double().softmax(dim=1).numpy()
    assert all(each.text in prompt.text for each, prompt in zip(candidates, prompts, strict=True))
    np.testing.assert_allclose(found, probabilities @ np.arange(1, 6), atol=1e-4)
    np.testing.assert_array_equal(scorer(trainer=refusing())(examples_of(candidates[::-1])), found[::-1])


def test_an_answer_without_a_number_is_no_score(scorer, make_tutor, contexts):
    """A random model writes no scores; the lowest one, which stands in elsewhere, would make low standards of them."""
    candidates = write_candidates(make_tutor(), contexts)
    found = scorer(mode="generate", max_new_tokens=2)(examples_of(candidates))
    assert np.isnan(found).all()


def test_a_judge_that_tutors_is_held_once(scorer, make_tutor, contexts):
    tutor, judge = make_tutor(), scorer()
    judge.runner = tutor.runner
    candidates = write_candidates(tutor, contexts)
    model = tutor.runner.models.get(tutor.spec.source)
    judge(examples_of(candidates))
    assert judge.runner.models.get(judge.judge.source) is model


STANDARD = Standard(2, *torch.randn(2, 32, generator=torch.Generator().manual_seed(1)))


def test_a_pair_a_context_in_order(make_tutor, contexts):
    pairs = steered_references(make_tutor(), contexts, STANDARD, 9.0, 6.0)
    assert [pair.group_id for pair in pairs] == [context.group_id for context in contexts]
    texts = steered_texts(make_tutor(trainer=refusing()), contexts, STANDARD, [9.0, -6.0])
    assert [(pair.high, pair.low) for pair in pairs] == [
        (high.text, low.text) for high, low in zip(texts[9.0], texts[-6.0], strict=True)
    ]
    assert all(pair.high != pair.low for pair in pairs)


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
    assert asked_references(make_tutor(trainer=refusing()), contexts, (2.0, 4.0))[0].high == scored[0].low


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
