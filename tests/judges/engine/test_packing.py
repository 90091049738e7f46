import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from judgebench.judges.engine.candidates import Branch, CandidateTrie
from judgebench.judges.engine.packing import pack_prompts
from judgebench.judges.local.batches import common_prefix, root_of, unique_tokens
from judgebench.types import ScoreRange

tokens = st.lists(st.integers(0, 3), max_size=25)


@st.composite
def grouped(draw):
    rubric = draw(tokens)
    return [
        [np.array([*rubric, *article, *draw(tokens), 9], np.int32) for _ in range(draw(st.integers(1, 4)))]
        for article in draw(st.lists(tokens, min_size=1, max_size=4))
    ]


@given(grouped(), st.booleans(), st.integers(0, 40))
def test_each_prompt_stands_in_the_row_once_and_whole(groups, with_branches, most):
    branches = [Branch(-1, -1, 0), Branch(7, 0, 1), Branch(8, 1, 2)] if with_branches else []
    prompts = [ids for group in groups for ids in group]
    root = min(most, common_prefix(prompts))
    packed = pack_prompts(groups, branches, root)
    row, positions = packed.token_ids.tolist(), packed.positions.tolist()
    inner = 2 if with_branches else 0
    for group in packed.groups:
        for i in range(group.prompts.start, group.prompts.stop):
            start, end = packed.spans[i]
            context = [*range(group.shared.start, group.shared.stop), *range(start, end)]
            expected = [*prompts[i].tolist(), *([7, 8] if with_branches else [])]
            assert [row[at] for at in context] == expected[root:]
            assert [positions[at] for at in context] == list(range(root, len(expected)))
            assert packed.reads[i, 0] == end - 1 - inner
            assert group.tails.start <= start < end <= group.tails.stop
            assert packed.leaves[i].tolist() == [*range(start, end), *[start] * (packed.leaves.shape[1] - end + start)]
    assert len(row) == unique_tokens(groups, root) + inner * len(prompts) == packed.groups[-1].tails.stop
    assert packed.reach == max(map(len, prompts)) + inner


def test_shared_stretches_are_laid_once():
    rubric, articles = list(range(20)), ([30] * 10, [40] * 5)
    groups = [[np.array([*rubric, *a, 50 + i, 60 + i]) for i in range(3)] for a in articles]
    assert root_of(groups).tolist() == rubric
    packed = pack_prompts(groups, root=20)
    assert len(packed.token_ids) == 10 + 5 + 6 * 2
    assert [(g.shared, g.tails) for g in packed.groups] == [
        (slice(0, 10), slice(15, 21)),
        (slice(10, 15), slice(21, 27)),
    ]
    # one group has its article to share, and nobody to share a root with
    assert len(root_of(groups[:1])) == 0
    assert len(pack_prompts(groups[:1]).token_ids) == 30 + 6


def test_identical_prompts_keep_a_token_each():
    ids = np.array([1, 2, 3])
    assert common_prefix([ids, ids]) == 2
    assert len(pack_prompts([[ids, ids, ids]]).token_ids) == 2 + 3


def test_branches_that_fork_lie_behind_all_tails_and_see_their_ancestors_only():
    branches = [Branch(-1, -1, 0), Branch(7, 0, 1), Branch(8, 0, 1), Branch(9, 2, 2)]
    packed = pack_prompts([[np.array([1, 2, 3, 4]), np.array([1, 2, 5])]], branches)
    assert packed.token_ids.tolist() == [1, 2, 3, 4, 5, 7, 8, 9, 7, 8, 9]
    assert packed.positions.tolist() == [0, 1, 2, 3, 2, 4, 4, 5, 3, 3, 4]
    assert packed.reads.tolist() == [[3, 5, 6, 7], [4, 8, 9, 10]]
    assert packed.forks.tolist() == [[5, 6, 7], [8, 9, 10]]
    assert packed.ancestry.int().tolist() == [[1, 0, 0], [0, 1, 0], [0, 1, 1]]
    assert packed.spans == ((2, 4), (4, 5))


def test_calls_of_attention_do_not_grow_with_the_number_of_groups():
    branches = [Branch(-1, -1, 0), Branch(7, 0, 1), Branch(8, 0, 1)]
    for inner in ((), branches[:2], branches):
        few, many = (
            pack_prompts([[np.array([1, 2, 10 + i, 3, 4]), np.array([1, 2, 10 + i, 3, 5])] for i in range(n)], inner, 2)
            for n in (2, 30)
        )
        assert len(few.parts) == len(many.parts) <= 5
        assert len(few.read_parts) == len(many.read_parts) == 3


def columns(trie, table):
    """Next-token log-probabilities in the trie's own order; table: (path to branch, token) -> probability."""
    paths = []
    for branch in trie.branches:
        paths.append(() if branch.depth == 0 else (*paths[branch.parent], branch.token))
    return torch.tensor(
        [[math.log(table[paths[b], token]) for b, tokens in enumerate(trie.children) for token in tokens]]
    )


def test_one_and_ten_share_no_mass():
    trie = CandidateTrie(["1", "10"], [[(1,)], [(1, 0)]])
    table = {((), 1): 0.5, ((1,), 0): 0.25}
    # "1" must stop: 0.5 * (1 - 0.25); "10": 0.5 * 0.25
    assert trie.logprobs(columns(trie, table)).exp().tolist()[0] == pytest.approx([0.375, 0.125], abs=1e-7)


def test_stopping_is_exact_where_going_on_is_nearly_certain():
    trie = CandidateTrie(["1", "10"], [[(1,)], [(1, 0)]])
    given = torch.tensor([[0.0, -1e-9]], dtype=torch.float64)
    assert trie.logprobs(given)[0, 0].item() == pytest.approx(math.log(1e-9), rel=1e-6)


LABELS = (list("EDCBA"), ["poor", "fair", "good", "good enough", "Outstanding"])


@pytest.mark.parametrize("scores", [[1, 10], [1, 5, 0.5], [1, 5, 0.1], [-2, 2], [5, 1], *LABELS])
def test_every_path_reads_as_its_candidate(smollm2_tokenizer, scores):
    candidates = ScoreRange.parse(scores).candidates
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
