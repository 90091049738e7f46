"""What a phrase is worth in a gap is what full, plain passes over the whole prompt say."""

import numpy as np
import pytest
import torch

from judgebench.attacks.scoring import EngineExit, Objective, PhraseScorer, worth
from judgebench.decoding import Contrastive, Expectation, Greedy
from judgebench.judges.engine.plain import PlainEngine
from judgebench.types import ORDERS, PLACES, PLACES_OR_TIE, Condition
from judgebench.words.errors import UserError
from tests.attacks.conftest import CONDITION, RANGE

PHRASES = [(), (1234,), (1234, 777), (4321, 777), (99, 100, 101)]
KINDS = ["none", "model", "early_exit", "null_context"]


def plain_worth(kind, engines, gap, phrase, tries, builder):
    """The decoding's own score of log-probabilities that come from plain passes."""
    prompt, trie, values = gap.filled(phrase), tries[RANGE], np.array(RANGE.values)
    with torch.no_grad():
        main = PlainEngine(engines.main.model).read([[prompt]], trie)[0].numpy()
        if kind == "none":
            return Expectation().scores(main, None, values)[0]
        if kind == "model":
            other = PlainEngine(engines.assistant.model).read([[prompt]], trie)[0].numpy()
        elif kind == "early_exit":
            other = PlainEngine(engines.main.model, (2,)).read([[prompt]], trie)[0].numpy()
        else:
            other = PlainEngine(engines.main.model).read([[builder.null(CONDITION).token_ids]], trie)[0].numpy()
    return Contrastive(0.7, 1.5, rule="expectation").scores(main, other, values)[0]


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_those_of_plain_passes(kind, scorers, engines, gaps, tries, builder):
    found = scorers[kind].values(PHRASES, [0, 3])
    wanted = [[plain_worth(kind, engines, gaps[i], p, tries, builder) for i in (0, 3)] for p in PHRASES]
    assert np.abs(found - wanted).max() < 1e-4
    assert np.ptp(found) > 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_an_estimate_is_exact_at_its_anchor(kind, scorers):
    scorer = scorers[kind]
    words = [(1500,), (1501,), (900,)]
    estimates = [scorer.estimates((777,), (31,), [word], 1, [0, 1, 2], [0])[0] for word in words]
    exact = scorer.values([(777, *word, 31) for word in words], [0, 1, 2]).mean(axis=1)
    assert np.allclose(estimates, exact, atol=1e-5)


def test_estimates_follow_the_slope(engines, scorer, gaps):
    """Moving a word's embedding a little moves the objective as the estimate says it would."""
    table = engines.main.model.get_input_embeddings().weight
    here, there = 1500, 2500
    kept = table[there].clone()
    step = 1e-2
    try:
        with torch.no_grad():
            table[there] = table[here] + step * (kept - table[here])
        exact = scorer.values([(here,), (there,)], range(len(gaps))).mean(axis=1)
        words = [(here,), (there,)]
        estimates = [scorer.estimates((), (), words, 1, range(len(gaps)), [seed]) for seed in range(2)]
    finally:
        with torch.no_grad():
            table[there] = kept
    for estimate in estimates:
        assert estimate[1] - estimate[0] == pytest.approx(exact[1] - exact[0], rel=0.1, abs=2e-6)


def test_heads_are_computed_once(scorer, gaps):
    before = scorer.tokens
    scorer.values([(5,)], [0])
    first = scorer.tokens - before
    scorer.values([(6,)], [0])
    second = scorer.tokens - before - first
    assert second < 60 < len(gaps[0].head)
    assert second == len(gaps[0].tail) + 2  # the word, and the branch for scores behind a blank


def test_the_objective_is_the_decoding_s_score():
    draw = np.random.default_rng(0)
    main, other = np.log(draw.dirichlet(np.ones(5), 7)), np.log(draw.dirichlet(np.ones(5), 7))
    values = np.arange(1.0, 6.0)
    for decoding in (Expectation(), Contrastive(0.5, 2.0, 0.1, "expectation")):
        found = Objective("x", decoding).of(torch.tensor(main), torch.tensor(other), torch.tensor(values))
        assert np.allclose(found, decoding.scores(main, other, values), atol=1e-12)
    for decoding in (Greedy(), Contrastive(0.5)):
        with pytest.raises(UserError, match=r"adv_suffix\.against: best picks one candidate"):
            Objective("best", decoding)


def test_worth_where_texts_are_compared():
    assert worth(CONDITION) == (1.0, 2.0, 3.0, 4.0, 5.0)
    conditions = [Condition("joint", scale, order=order) for scale in (PLACES, PLACES_OR_TIE) for order in ORDERS]
    assert [worth(condition) for condition in conditions] == [(1, 0), (0, 1), (0.5, 1, 0), (0.5, 0, 1)]


def test_nan_is_refused(engines, tries, gaps):
    model = engines.assistant.model
    head = model.get_output_embeddings().weight
    kept = head[0, 0].clone()
    scorer = PhraseScorer(
        EngineExit(engines.assistant), None, Objective("expectation", Expectation()), tries, gaps, 512
    )
    try:
        with torch.no_grad():
            head[0, 0] = float("nan")
        with pytest.raises(UserError, match="answers to example school/copy with NaN"):
            scorer.values([(5,)], [2])
        with pytest.raises(UserError, match=r"gradient is NaN.*search=exhaustive"):
            scorer.estimates((), (), [(5,), (6,)], 1, [2], [0])
    finally:
        with torch.no_grad():
            head[0, 0] = kept


def test_the_plain_engine_scores_but_has_no_gradient(engines, tries, gaps, scorer):
    plain = PhraseScorer(
        EngineExit(PlainEngine(engines.main.model)), None, Objective("expectation", Expectation()), tries, gaps, 512
    )
    assert np.allclose(plain.values(PHRASES[:2], [1]), scorer.values(PHRASES[:2], [1]), atol=1e-4)
    with pytest.raises(UserError, match=r"judge\.engine=prefix"):
        plain.estimates((), (), [(5,)], 1, [0], [0])
