"""Decodings: identities, the laws of contrastive decoding, what they refuse, and conf/decoding."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from omegaconf import OmegaConf
from scipy.special import log_softmax

from judgebench.decoding import Contrastive, Expectation, Greedy, contrast, has_answer
from judgebench.words.errors import UserError

VALUES = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
INF = math.inf

logprobs = st.one_of(st.floats(-40, 0, width=32), st.just(-INF))
tables = npst.arrays(np.float32, st.tuples(st.integers(1, 6), st.just(5)), elements=logprobs)
finite_tables = npst.arrays(np.float64, (4, 5), elements=st.floats(-20, 0).map(lambda x: round(x, 3)))
lambdas = st.sampled_from([0.01, 0.1, 0.5, 1.0, 2.0, -0.5])
temperatures = st.sampled_from([0.5, 1.0, 2.0, 3.0, 4.0, 5.0])


def literal(main, assistant, lambda_, temperature):
    """Eq. 1 as printed, with the softmax that is meant."""
    return log_softmax(main, axis=1) - lambda_ * log_softmax(assistant / temperature, axis=1)


def clear(adjusted):
    """Rows whose best candidate is ahead of the second by more than rounding."""
    top = np.sort(adjusted, axis=1)
    return top[:, -1] - top[:, -2] > 1e-9


# Identities


@given(tables, st.data())
def test_lambda_zero_is_greedy_and_the_expectation_to_the_last_bit(main, data):
    assistant = data.draw(npst.arrays(np.float32, main.shape, elements=logprobs))
    t = data.draw(temperatures)
    greedy, mean = Contrastive(0.0, t), Contrastive(-0.0, t, rule="expectation")
    assert greedy.scores(main, assistant, VALUES).tobytes() == Greedy().scores(main, None, VALUES).tobytes()
    assert mean.scores(main, assistant, VALUES).tobytes() == Expectation().scores(main, None, VALUES).tobytes()
    logits, other = torch.from_numpy(main), torch.from_numpy(assistant)
    assert torch.equal(greedy.next_token(logits, other), Greedy().next_token(logits, None))


@given(finite_tables, finite_tables, lambdas, temperatures)
def test_it_is_the_printed_law(main, assistant, lambda_, temperature):
    adjusted = literal(main, assistant, lambda_, temperature)
    rows = clear(adjusted)
    found = Contrastive(lambda_, temperature).scores(main, assistant, VALUES)
    assert (found == VALUES[adjusted.argmax(axis=1)])[rows].all()
    probabilities = np.exp(log_softmax(adjusted, axis=1))
    means = Contrastive(lambda_, temperature, rule="expectation").scores(main, assistant, VALUES)
    assert means == pytest.approx(probabilities @ VALUES, abs=1e-9)


@given(finite_tables, finite_tables, lambdas, temperatures, st.sampled_from([2.0, 0.25, 8.0]))
def test_only_lambda_over_temperature_matters(main, assistant, lambda_, temperature, factor):
    for rule in ("argmax", "expectation"):
        one = Contrastive(lambda_, temperature, rule=rule)
        other = Contrastive(lambda_ * factor, temperature * factor, rule=rule)
        assert one.kappa == other.kappa
        assert (one.scores(main, assistant, VALUES) == other.scores(main, assistant, VALUES)).all()


@given(finite_tables, finite_tables, lambdas)
def test_candidates_and_tokens_share_one_law(main, assistant, lambda_):
    decoding = Contrastive(lambda_, alpha=0.01)
    tokens = decoding.next_token(torch.from_numpy(main), torch.from_numpy(assistant))
    assert tokens.dtype == torch.int64
    assert (VALUES[tokens.numpy()] == decoding.scores(main, assistant, VALUES)).all()


# Plausibility and zeros


@given(st.permutations([-0.5, -1.0, -2.0, -3.0, -INF]), npst.arrays(np.float64, (1, 5), elements=logprobs))
def test_alpha_one_is_greedy_where_nothing_ties(row, assistant):
    main = np.array([row])
    found = Contrastive(3.0, alpha=1.0).scores(main, assistant, VALUES)
    assert (found == Greedy().scores(main, None, VALUES)).all()


@given(tables, st.data())
def test_what_the_main_model_excludes_is_never_chosen(main, data):
    assistant = data.draw(npst.arrays(np.float32, main.shape, elements=logprobs))
    rows = has_answer(main)
    for lambda_ in (0.0, 0.5, -0.5, 5.0):
        index = Contrastive(lambda_).scores(main, assistant, VALUES).astype(int) - 1
        assert np.isfinite(main[np.arange(len(main)), index])[rows].all()


def test_a_zero_of_the_assistant_is_its_smallest_known_probability():
    main = np.array([[-2.0, -1.0, -1.0]])
    floored = contrast(torch.from_numpy(main), torch.tensor([[-3.0, -INF, -1.0]], dtype=torch.float64), 1.0)
    assert floored.tolist() == [[1.0, 2.0, 0.0]]


def test_half_precision_logits_are_contrasted_in_float32():
    # In bfloat16 20.0625 is 20.0 or 20.125; the contrast must not be rounded once more.
    main = torch.tensor([[20.125, 20.0]], dtype=torch.bfloat16)
    assistant = torch.tensor([[10.0, 8.875]], dtype=torch.bfloat16)
    # 20.125 - 1.0 = 19.125 against 20.0 - 0.8875 = 19.1125: bfloat16 would tie or turn them
    assert Contrastive(0.1).next_token(main, assistant).tolist() == [0]
    assert Greedy().next_token(main, None).tolist() == [0]
    assert Contrastive(0.2).next_token(main, assistant).tolist() == [1]


# What they are, and what they refuse


@pytest.mark.parametrize("decoding", [Expectation(), Contrastive(0.5, rule="expectation")])
def test_a_mean_cannot_generate(decoding):
    with pytest.raises(UserError, match="cannot choose the tokens"):
        decoding.next_token(torch.zeros(1, 3), torch.zeros(1, 3))


@pytest.mark.parametrize(
    ("hyperparameters", "message"),
    [
        *(
            ({"lambda_": x}, rf"decoding\.lambda: {x!r} is not a finite number")
            for x in (math.nan, INF, "much", None, True)
        ),
        ({"lambda_": [0.1, 0.5]}, r"decoding\.lambda: \[0\.1, 0\.5\] is a list.* -m decoding\.lambda=0\.1,0\.5, or"),
        *(({"lambda_": 1, "temperature": t}, rf"decoding\.temperature: {t} is not above 0") for t in (0, -1.5)),
        ({"lambda_": 1, "temperature": 1e-300}, r"decoding\.lambda: 1 at decoding\.temperature 1e-300 is too large"),
        *(({"lambda_": 1, "alpha": a}, rf"decoding\.alpha: {a} is not in \[0, 1\]") for a in (1.5, -0.1)),
        ({"lambda_": 1, "rule": "max"}, r"decoding\.rule: 'max' is not one of argmax, expectation"),
    ],
)
def test_wrong_knobs_are_refused_by_the_name_of_their_key(hyperparameters, message):
    with pytest.raises(UserError, match=message):
        Contrastive(**hyperparameters)


@pytest.mark.parametrize("bad", [math.nan, INF])
def test_what_is_no_log_probability_is_refused(bad):
    good, odd = np.zeros((2, 5)), np.zeros((2, 5))
    odd[1, 2] = bad
    for decoding in (Greedy(), Expectation(), Contrastive(0.5)):
        with pytest.raises(ValueError, match="main must be free of NaN"):
            decoding.scores(odd, good, VALUES)
    with pytest.raises(ValueError, match="assistant must be free of NaN"):
        Contrastive(0.0).scores(good, odd, VALUES)
    with pytest.raises(ValueError, match="main must be free of NaN"):
        Greedy().next_token(torch.from_numpy(odd), None)
    with pytest.raises(ValueError, match="assistant must be free of NaN"):
        Contrastive(0.5).next_token(torch.from_numpy(good), torch.from_numpy(odd))


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"main must have shape \[N, 5\], got \[2, 4\]"):
        Greedy().scores(np.zeros((2, 4)), None, VALUES)
    with pytest.raises(ValueError, match="main model's 2 rows, got 1"):
        Contrastive(0.5).scores(np.zeros((2, 5)), np.zeros((1, 5)), VALUES)
    with pytest.raises(ValueError, match="needs the assistant"):
        Contrastive(0.5).scores(np.zeros((2, 5)), None, VALUES)
    with pytest.raises(ValueError, match="needs the assistant"):
        Contrastive(0.5).next_token(torch.zeros(2, 5), None)
    with pytest.raises(ValueError, match="ascending"):
        Greedy().scores(np.zeros((2, 5)), None, VALUES[::-1])
    with pytest.raises(ValueError, match=r"main model's shape \[2, 5\], got \[2, 4\]"):
        Contrastive(0.5).next_token(torch.zeros(2, 5), torch.zeros(2, 4))


CONF = Path(__file__).parents[2] / "conf"


def decodings(*overrides):
    with initialize_config_dir(str(CONF), version_base=None):
        config = compose(overrides=list(overrides)).decoding
    return {
        name: instantiate(entry) for name, entry in config.items() if OmegaConf.is_dict(entry) and "_target_" in entry
    }


def test_the_expectation_of_the_pair_shares_its_knobs():
    hyperparameters = ("decoding.lambda=0.1", "decoding.temperature=3", "decoding.alpha=0.2")
    found = decodings("+decoding=[contrastive,contrastive_expectation]", *hyperparameters)
    assert found["contrastive"] == Contrastive(0.1, 3, 0.2)
    assert found["contrastive_expectation"] == Contrastive(0.1, 3, 0.2, "expectation")
