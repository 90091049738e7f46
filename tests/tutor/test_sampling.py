import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from judgebench.tutor.writing import Sampler, Sampling, draw, stream

PROBABILITIES = [0.5, 0.0, 0.3, 0.2]


def drawn(uniforms, **options):
    logits = torch.tensor([PROBABILITIES]).log().expand(len(uniforms), -1)
    return draw(logits, torch.tensor(uniforms, dtype=torch.float64), **options).tolist()


def test_evenly_spread_draws_give_the_distribution_itself():
    uniforms = (np.arange(1000) + 0.5) / 1000
    assert np.bincount(drawn(uniforms.tolist()), minlength=4).tolist() == [500, 0, 300, 200]


def test_bounds_belong_to_the_token_above_and_none_has_probability_0():
    assert drawn([0.0, 0.499, 0.501, 0.799, 0.801, 1 - 2**-53]) == [0, 0, 2, 2, 3, 3]


def test_top_p_keeps_the_likeliest_that_reach_it():
    uniforms = ((np.arange(800) + 0.5) / 800).tolist()
    # 0.5 alone does not reach 0.6, with 0.3 it does
    assert np.bincount(drawn(uniforms, top_p=0.6), minlength=4).tolist() == [500, 0, 300, 0]
    assert set(drawn(uniforms, top_p=0.4)) == {0}
    assert drawn(uniforms, top_p=1.0) == drawn(uniforms, top_p=1 - 1e-9)


def test_temperature_sharpens_and_flattens():
    uniforms = ((np.arange(3800) + 0.5) / 3800).tolist()
    # at 1/2 probabilities are squared: 25 to 9 to 4
    assert np.bincount(drawn(uniforms, temperature=0.5), minlength=4).tolist() == [2500, 0, 900, 400]


@given(st.lists(st.floats(-30, 30), min_size=1, max_size=40), st.floats(0, 1, exclude_max=True))
def test_a_draw_is_the_inverse_of_the_cumulated_distribution(logits, uniform):
    row = torch.tensor([logits], dtype=torch.float64)
    found = int(draw(row, torch.tensor([uniform], dtype=torch.float64)))
    reached = np.cumsum(torch.softmax(row, 1)[0].numpy())
    below = reached[found - 1] if found else 0.0
    assert below - 1e-9 <= uniform * reached[-1] <= reached[found] + 1e-9


def test_a_text_has_its_own_random_numbers():
    prompt = np.array([5, 6, 7])
    first = stream(0, 0, prompt).random(5).tolist()
    assert stream(0, 0, prompt.astype(np.int64)).random(5).tolist() == first
    others = [stream(1, 0, prompt), stream(0, 1, prompt), stream(0, 0, prompt[:2])]
    assert len({tuple(first), *(tuple(other.random(5)) for other in others)}) == 4


def test_texts_that_leave_take_their_numbers_with_them():
    prompt, logits = np.array([5]), torch.zeros(1, 10_000)

    def alone(index):
        sampler = Sampler(Sampling(0), [stream(0, index, prompt)])
        return [int(sampler.next_token(logits, None)) for _ in range(4)]

    together = Sampler(Sampling(0), [stream(0, index, prompt) for index in range(3)])
    found = [together.next_token(logits.expand(3, -1), None).tolist() for _ in range(2)]
    together.keep(torch.tensor([0, 2]))
    found += [together.next_token(logits.expand(2, -1), None).tolist() for _ in range(2)]
    assert [row[0] for row in found] == alone(0)
    assert [row[1] for row in found[:2]] == alone(1)[:2]
    assert [row[-1] for row in found] == alone(2)
