import math

import pytest
import torch

from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.types import ScoreRange


def columns(trie, table):
    """Next-token log-probabilities in the trie's own order; table: (path to branch, token) -> probability."""
    paths = []
    for branch in trie.branches:
        paths.append(() if branch.depth == 0 else (*paths[branch.parent], branch.token))
    return torch.tensor(
        [[math.log(table[paths[b], token]) for b, tokens in enumerate(trie.children) for token in tokens]]
    )


def test_single_tokens_sum_over_surface_forms():
    trie = CandidateTrie(["1", "2"], [[(10,), (11,)], [(20,)]])
    table = {((), 10): 0.2, ((), 11): 0.1, ((), 20): 0.4}
    assert trie.logprobs(columns(trie, table)).exp().tolist()[0] == pytest.approx([0.3, 0.4], abs=1e-7)


def test_one_and_ten_share_no_mass():
    trie = CandidateTrie(["1", "10"], [[(1,)], [(1, 0)]])
    table = {((), 1): 0.5, ((1,), 0): 0.25}
    # "1" must stop: 0.5 * (1 - 0.25); "10": 0.5 * 0.25
    assert trie.logprobs(columns(trie, table)).exp().tolist()[0] == pytest.approx([0.375, 0.125], abs=1e-7)


def test_decimals_share_the_way_to_the_point():
    trie = CandidateTrie(["1.0", "1.5"], [[(1, 9, 0)], [(1, 9, 5)]])
    table = {((), 1): 0.5, ((1,), 9): 0.5, ((1, 9), 0): 0.3, ((1, 9), 5): 0.6}
    assert trie.logprobs(columns(trie, table)).exp().tolist()[0] == pytest.approx([0.075, 0.15], abs=1e-7)
    assert len(trie.branches) == 3


def test_stopping_is_exact_where_going_on_is_nearly_certain():
    trie = CandidateTrie(["1", "10"], [[(1,)], [(1, 0)]])
    given = torch.tensor([[0.0, -1e-9]], dtype=torch.float64)
    assert trie.logprobs(given)[0, 0].item() == pytest.approx(math.log(1e-9), rel=1e-6)


def test_smollm2_writes_both_surface_forms(smollm2_tokenizer):
    trie = CandidateTrie.of(smollm2_tokenizer, ScoreRange(1, 5).candidates)
    digits, space = smollm2_tokenizer.encode("12345"), smollm2_tokenizer.encode(" ")[0]
    assert trie.token_paths == tuple(((digit,), (space, digit)) for digit in digits)


@pytest.mark.parametrize("given", [(1, 10), (1, 5, 0.5), (1, 5, 0.1), (-2, 2)])
def test_every_path_reads_as_its_candidate(smollm2_tokenizer, given):
    candidates = ScoreRange(*given).candidates
    trie = CandidateTrie.of(smollm2_tokenizer, candidates)
    for candidate, ways in zip(candidates, trie.token_paths, strict=True):
        assert {smollm2_tokenizer.decode(list(way)) for way in ways} == {candidate, " " + candidate}


def test_probabilities_of_candidates_never_exceed_one():
    torch.manual_seed(0)
    trie = CandidateTrie([str(n) for n in range(1, 13)], [[tuple(int(d) for d in str(n))] for n in range(1, 13)])
    width = sum(map(len, trie.children))
    for _ in range(50):
        # a proper next-token distribution at every branch, with some mass elsewhere
        parts = [torch.randn(1, len(c) + 1).log_softmax(-1)[:, :-1] for c in trie.children]
        given = torch.cat(parts, dim=1)
        assert given.shape == (1, width)
        assert trie.logprobs(given).exp().sum() <= 1 + 1e-9
