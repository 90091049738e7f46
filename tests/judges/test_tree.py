"""Prompts that say their texts first: conditions of a text are planned, packed and read as one tree."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from judgebench.attacks import attacked_text, select_attacks
from judgebench.data.benchmarks import Mini
from judgebench.judges.batches import plan, roots, token_counts, tree_of, tree_tokens
from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.engine.packing import pack_tree
from judgebench.judges.engine.plain import PlainEngine
from judgebench.judges.engine.prefix import PrefixEngine, check_packing
from judgebench.judges.passes import ScorePass, read_apart
from judgebench.prompts.builder import PromptBuilder
from judgebench.prompts.rubrics import load_rubrics
from judgebench.runtime.errors import UserError
from judgebench.types import Condition, ScoreRange
from tests.conftest import tiny_llama
from tests.judges.test_engine import CHAIN, TRIE, model_of

LONGER = CandidateTrie(["100", "1000"], [[(1, 0, 0), (9, 1, 0, 0)], [(1, 0, 0, 0)]])
ALONE = CandidateTrie(["1", "2"], [[(1,)], [(2,)]])
TRIES = (TRIE, CHAIN, LONGER, ALONE)


@st.composite
def trees(draw):
    """Groups of prompts that share stretches of 0 to 24 tokens, five deep at most, and a trie for each prompt."""
    tokens = np.random.default_rng(draw(st.integers(0, 2**32)))

    def below(depth):
        own = tokens.integers(3, 300, int(tokens.choice([0, 3, 17, 24]))).tolist()
        if depth == 0 or tokens.random() < 0.2:
            return [[*own, 7]]
        return [[*own, *rest] for _ in range(int(tokens.integers(1, 4))) for rest in below(depth - 1)][:12]

    rubric = tokens.integers(3, 300, 20).tolist()
    groups = [
        [np.array([*rubric, *ids], np.int32) for ids in below(draw(st.integers(0, 5)))]
        for _ in range(draw(st.integers(1, 3)))
    ]
    return groups, [TRIES[i] for i in tokens.integers(0, len(TRIES), sum(map(len, groups)))]


@given(trees())
def test_a_tree_holds_every_prompt_and_each_shared_stretch_once(tree):
    groups, tries = tree
    for group in groups:
        nodes = tree_of(group, 20)
        assert sorted(node.prompt for node in nodes if node.leaf) == list(range(len(group)))
        for i, node in enumerate(nodes):
            assert node.parent < i
            assert node.start == (20 if node.parent < 0 else nodes[node.parent].end)
            assert node.end - node.start >= (1 if node.leaf else 16)
            if node.parent >= 0:
                assert not nodes[node.parent].leaf
                above = nodes[node.parent]
                assert (group[node.prompt][: above.end] == group[above.prompt][: above.end]).all()
    packed = pack_tree(groups, tries, 20)
    # every prompt, with the tokens that lead to each branch behind it, is what lies above the token that is read
    row, at = packed.token_ids.tolist(), packed.positions.tolist()
    path, prompts = {}, [ids.tolist() for group in groups for ids in group]
    for level, nodes in enumerate(packed.levels):
        for number, node in enumerate(nodes):
            above = path[level - 1, node.above] if node.above >= 0 else []
            path[level, number] = [*above, *range(node.rows.start, node.rows.stop)]
    ends = {seen[i]: seen[: i + 1] for seen in path.values() for i in range(len(seen))}
    for ids, trie, reads in zip(prompts, tries, packed.answers, strict=True):
        for prefix, read in zip(trie.prefixes, packed.reads[reads].tolist(), strict=True):
            assert [row[place] for place in ends[read]] == [*ids[20:], *prefix]
            assert [at[place] for place in ends[read]] == list(range(20, len(ids) + len(prefix)))
    assert len(row) == tree_tokens(groups, 20) + sum(len(trie.branches) - 1 for trie in tries)
    # nodes of a level that lie below one node lie together, and levels one behind the other
    assert all(a.rows.stop == b.rows.start for a, b in pairwise(node for level in packed.levels for node in level))
    assert all(a.above <= b.above for level in packed.levels for a, b in pairwise(level))


@pytest.mark.parametrize("name", ["llama", "gemma2", "gpt_oss"])
def test_a_packed_tree_is_plain_reading(name):
    """Windows, soft caps and sinks too; of the last layer but what is read is computed."""
    model = model_of(name)
    packed, plain = PrefixEngine(model, (None, 2)), PlainEngine(model, (None, 2))

    @given(trees())
    @settings(max_examples=8)
    @torch.inference_mode()
    def reads_alike(tree):
        groups, tries = tree
        pairs = zip(packed.read_each(groups, tries, groups[0][0][:20]), read_apart(plain, groups, tries), strict=True)
        for ours, theirs in pairs:
            for a, b in zip(ours, theirs, strict=True):
                torch.testing.assert_close(a, b, atol=2e-4, rtol=0)

    reads_alike()


def test_the_check_refuses_a_tree_whose_levels_do_not_see_each_other(monkeypatch):
    engine = PrefixEngine(model_of("llama"))
    check_packing(engine)

    def blind(groups, tries, root=0):
        packed = pack_tree(groups, tries, root)
        return type(packed)(**{**vars(packed), "parts": packed.parts[:-1]})

    monkeypatch.setattr("judgebench.judges.engine.prefix.pack_tree", blind)
    with pytest.raises(UserError, match="other log-probabilities for packed prompts"):
        check_packing(engine)


# --- plans ------------------------------------------------------------------------------------------------------------

CONDITIONS = [Condition("coherence", ScoreRange(*ends)) for ends in ((0, 4), (1, 5), (1, 10))]


def built(tokenizer, conditions=CONDITIONS, layout="text_first", judged=None, groups=3, rubrics="summary"):
    data = Mini(limit_groups=groups)
    data.setup()
    dimensions = list(dict.fromkeys(condition.dimension for condition in conditions))
    builder = PromptBuilder(tokenizer, load_rubrics(rubrics, dimensions, layout=layout), 8000, layout=layout)
    return builder.build(data.examples, conditions, judged)


def test_what_is_counted_is_what_the_engine_computes(smollm2_tokenizer):
    attacks = select_attacks(["none", "dsi"])
    conditions = [
        Condition(name, condition.range, attack.name)
        for name in ("coherence", "fluency") for condition in CONDITIONS for attack in attacks
    ]  # fmt: skip
    prompts = built(smollm2_tokenizer, conditions, judged=attacked_text(attacks))
    engine, known, branches = PrefixEngine(tiny_llama(0)), roots(prompts, across=True), 0
    tries = {c.range: CandidateTrie.of(smollm2_tokenizer, c.range.candidates) for c in conditions}
    with torch.inference_mode():
        for batch in plan(prompts, 1000, across=True):
            assert batch.tree
            # the dimension stands before the texts here, so each has batches of its own; ranges and attacks share them
            assert len({prompt.condition.dimension for prompt in batch.prompts}) == 1
            assert len({prompt.condition.range for prompt in batch.prompts}) == len(CONDITIONS)
            asked = [tries[prompt.condition.range] for prompt in batch.prompts]
            engine.read_each(batch.token_ids, asked, known[batch.prompts[0].alike])
            branches += sum(len(trie.branches) - 1 for trie in asked)
    counted = token_counts(prompts, 1000, across=True)
    assert engine.computed == sum(unique for _, unique in counted.values()) + branches
    # another range of a text adds what says it, and the chat template's end
    assert all(counted[c][1] < 0.2 * counted[CONDITIONS[0]][1] for c in CONDITIONS[1:])


def test_dimensions_whose_rubrics_begin_alike_share_the_text(smollm2_tokenizer):
    start = "Read the summary.\n\nText: {{Document}}\n\nSummary: {{Summary}}\n\n"
    rubrics = {name: f"{start}How {name} is it, from {{min_range}} to {{max_range}}?" for name in ("clear", "fluent")}
    conditions = [Condition(name, condition.range) for name in rubrics for condition in CONDITIONS]
    prompts = built(smollm2_tokenizer, conditions, rubrics=rubrics)
    (batch,) = plan(prompts, 10**6, across=True)
    assert {prompt.condition for prompt in batch.prompts} == set(conditions)
    whole, each = sum(len(p.token_ids) for p in prompts), token_counts(prompts, 10**6, across=True)
    assert sum(unique for _, unique in each.values()) < 1.8 * each[conditions[0]][1] < whole / 2


def test_half_a_group_keeps_texts_whole_and_free_answers_are_planned_as_ever(smollm2_tokenizer):
    prompts = built(smollm2_tokenizer, groups=1)
    first, second = plan(prompts, 10**6, across=True)[0].halves()
    assert not {p.example.example_id for p in first.prompts} & {p.example.example_id for p in second.prompts}
    assert first.tree
    assert second.tree
    assert first.only(lambda prompt: prompt is prompts[0]).tree
    apart = plan(prompts, 10**6)
    assert [len({p.condition for p in batch.prompts}) for batch in apart] == [1] * len(CONDITIONS)
    assert not any(batch.tree for batch in apart)
    # and so are the papers' prompts, whoever plans them
    paper = built(smollm2_tokenizer, layout="paper", groups=2)
    assert plan(paper, 1000, across=True) == plan(paper, 1000)


def test_an_engine_that_knows_no_tree_reads_a_batch_trie_by_trie(smollm2_tokenizer):
    prompts = built(smollm2_tokenizer, groups=1)[::3]
    tries = {c.range: CandidateTrie.of(smollm2_tokenizer, c.range.candidates) for c in CONDITIONS}
    model, rows = tiny_llama(0, layers=2), []
    for engine in (PrefixEngine(model), PlainEngine(model)):
        pass_ = ScorePass([], prompts, tries)
        pass_.engines, pass_.views = [engine], [VIEW]
        (batch,) = pass_.batches(10**6)
        with torch.inference_mode():
            rows.append([reading.logprobs for reading in pass_.read(batch)])
    for ours, theirs in zip(*rows, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)


class View:
    exit = None
    source = type("Source", (), {"title": "tiny", "effective_dtype": lambda self: "float32"})()

    def identity(self):
        return {"model": "tiny"}


VIEW = View()
