import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from judgebench.judges.candidates import Branch
from judgebench.judges.packing import common_prefix, pack, unique_tokens

tokens = st.lists(st.integers(0, 3), max_size=25)


@st.composite
def grouped(draw):
    rubric = draw(tokens)
    return [
        [np.array([*rubric, *article, *draw(tokens), 9], np.int32) for _ in range(draw(st.integers(1, 4)))]
        for article in draw(st.lists(tokens, min_size=1, max_size=4))
    ]


@given(grouped(), st.booleans())
def test_each_prompt_stands_in_the_row_once_and_whole(groups, with_branches):
    branches = [Branch(-1, -1, 0), Branch(7, 0, 1), Branch(8, 1, 2)] if with_branches else []
    packed = pack(groups, branches)
    prompts = [ids for group in groups for ids in group]
    row, positions = packed.token_ids.tolist(), packed.positions.tolist()
    inner = 2 if with_branches else 0
    for i, ids in enumerate(prompts):
        above = [s for s in packed.shared if s.first_leaf <= i < s.last_leaf]
        own = packed.leaves[i, : packed.leaf_sizes[i]].tolist()
        context = [at for s in above for at in range(s.start, s.end)] + own
        assert [row[at] for at in context] == [*ids.tolist(), *([7, 8] if with_branches else [])]
        assert [positions[at] for at in context] == list(range(len(ids) + inner))
        assert packed.reads[i, 0] == own[int(packed.tail_sizes[i]) - 1]
    assert len(row) == unique_tokens(groups, inner)
    assert packed.total_tokens == sum(len(ids) + inner for ids in prompts)
    # a stretch's dependants are exactly what lies between its end and `below`
    for shared in packed.shared:
        below = {at for i in range(shared.first_leaf, shared.last_leaf) for at in packed.leaves[i].tolist()}
        assert all(shared.end <= at < shared.below for at in below)


def test_shared_stretches_are_laid_once():
    rubric, articles = list(range(20)), ([30] * 10, [40] * 5)
    groups = [[np.array([*rubric, *a, 50 + i, 60 + i]) for i in range(3)] for a in articles]
    packed = pack(groups)
    assert len(packed.token_ids) == 20 + 10 + 5 + 6 * 2
    assert [(s.start, s.end, s.below) for s in packed.shared] == [(0, 20, 47), (20, 30, 36), (36, 41, 47)]


def test_identical_prompts_keep_a_token_each():
    ids = np.array([1, 2, 3])
    assert common_prefix([ids, ids]) == 2
    assert len(pack([[ids, ids, ids]]).token_ids) == 2 + 3


def test_branches_see_their_own_prompt_and_ancestors_only():
    branches = [Branch(-1, -1, 0), Branch(7, 0, 1), Branch(8, 0, 1), Branch(9, 2, 2)]
    packed = pack([[np.array([1, 2, 3, 4]), np.array([1, 2, 5])]], branches)
    assert packed.branch_mask is not None
    # tail of the first prompt: 3 4, then branches 7, 8, 9 (below 8)
    assert packed.branch_mask[0].int().tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 1, 0, 1, 0],
        [1, 1, 0, 1, 1],
    ]
