"""What lists of likely tokens say of candidates: the local law where all is listed, sound bounds where it is not."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.served.bounds import (
    Listing,
    PathTree,
    candidate_bounds,
    on_scores,
    unread,
)
from judgebench.judges.served.passes import endpoint_paths
from judgebench.judges.served.settings import ApiSpec
from judgebench.types import ScoreRange
from judgebench.words.errors import UserError

WORDS = (*map(str, range(11)), *(f" {i}" for i in range(11)), " ", ".", ".0", "0.5", "x", " x", "12", "\n")
LABELS = [ScoreRange.parse([10, 1]), ScoreRange.parse(["poor", "fair", "good", "good enough"])]
RANGES = [ScoreRange(1, 5), ScoreRange(1, 10), ScoreRange(0, 2, 0.5), ScoreRange(8, 12)]


def listing(top=None, **probabilities):
    """A list of `likely` tokens, by their texts without the leading t."""
    logprobs = {token[1:]: math.log(p) for token, p in probabilities.items()}
    return Listing(logprobs, min(logprobs.values()) if top is None else top)


def distribution(seed, node, words=WORDS):
    """What a model that is nothing but its seed says after `node`: token -> log-probability."""
    draw = np.random.default_rng([seed, *map(ord, "".join(map(str, node)))])
    drawn = draw.dirichlet(np.full(len(words), 0.3))
    return {word: math.log(p) if p > 0 else -math.inf for word, p in zip(words, drawn, strict=True)}


def cut_to(full, count):
    """The first `count` of a full list."""
    kept = sorted(full, key=lambda token: -full[token])[:count]
    return Listing({token: full[token] for token in kept}, min(full[token] for token in kept))


@pytest.mark.parametrize("scores", [*RANGES, *LABELS], ids=str)
def test_where_everything_is_listed_it_is_the_local_judges_law(smollm2_tokenizer, scores):
    trie = CandidateTrie.of(smollm2_tokenizer, scores.candidates)
    tree = PathTree(trie.candidates, trie.token_paths)
    torch.manual_seed(0)
    steps = {prefix: torch.log_softmax(3 * torch.randn(500).double(), 0) for prefix in trie.prefixes}
    column = {token: i for i, token in enumerate({t for kids in trie.children for t in kids})}
    row = [steps[prefix][column[t]] for prefix, kids in zip(trie.prefixes, trie.children, strict=True) for t in kids]
    expected = trie.logprobs(torch.stack(row)[None])[0].numpy()
    lists = {way: Listing({t: float(step[i]) for t, i in column.items()}) for way, step in steps.items()}
    read = candidate_bounds(tree, lists)
    np.testing.assert_allclose(np.log(read.lower), expected, atol=1e-12)
    np.testing.assert_allclose(read.upper, read.lower, atol=1e-15)
    np.testing.assert_array_equal(read.value, read.lower)
    assert not read.bounded
    assert not read.undecided


@given(st.integers(0, 10_000), st.sampled_from(RANGES), st.integers(1, len(WORDS)), st.integers(0, 3))
def test_the_truth_lies_within_the_bounds_whatever_is_left_out(seed, scores, count, depth):
    tree = PathTree.of_texts(scores.candidates)
    full = {node: Listing(distribution(seed, node)) for node in tree.children}
    truth = candidate_bounds(tree, full)
    assert truth.upper == pytest.approx(truth.lower, abs=1e-12)
    short = {node: cut_to(one.logprobs, count) for node, one in full.items() if len(node) <= depth}
    read = candidate_bounds(tree, short)
    assert (read.lower <= truth.value + 1e-9).all()
    assert (truth.value <= read.upper + 1e-9).all()
    assert (read.lower <= read.value + 1e-12).all()
    assert (read.value <= read.upper + 1e-12).all()
    assert read.value.sum() <= 1 + 1e-9
    assert read.unlisted == pytest.approx(1 - sum(map(math.exp, short[()].logprobs.values())), abs=1e-9)
    if not read.undecided:
        assert truth.value[read.value.argmax()] == pytest.approx(truth.value.max(), abs=2e-6)


def test_by_hand_a_candidate_that_is_not_listed_is_bounded_by_the_last_and_by_what_is_missing():
    tree = PathTree(("1", "2", "3"), [[("1",), (" 1",)], [("2",)], [("3",)]])
    read = candidate_bounds(tree, {(): listing(t1=0.6, t2=0.3, tx=0.04)})
    # " 1" and "3" are missing: each has at most 0.04, and together with all else 0.06
    assert read.lower == pytest.approx([0.6, 0.3, 0.0])
    assert read.upper == pytest.approx([0.64, 0.3, 0.04])
    # what is open (0.06) is enough for both widths (0.08) only in part
    assert read.value == pytest.approx([0.6 + 0.03, 0.3, 0.03])
    assert read.unlisted == pytest.approx(0.06)
    assert read.bounded
    assert not read.undecided


def test_by_hand_what_goes_on_to_another_candidate_does_not_count_for_the_shorter_one():
    tree = PathTree(("1", "10"), [[("1",)], [("1", "0")]])
    root = listing(t1=0.8, tx=0.1)
    read = candidate_bounds(tree, {(): root, ("1",): listing(t0=0.25, tx=0.75)})
    assert read.lower == pytest.approx([0.6, 0.2])
    assert read.upper == pytest.approx([0.6, 0.2])
    # where what follows "1" was not read, its 0.8 belong to either, and neither gets more than half
    read = candidate_bounds(tree, {(): root})
    assert read.lower == pytest.approx([0.0, 0.0])
    assert read.upper == pytest.approx([0.8, 0.8])
    assert read.value == pytest.approx([0.4, 0.4])
    assert read.undecided


def test_a_text_that_is_listed_as_one_token_is_not_written_in_several():
    tree = PathTree.of_texts(("1", "10"))
    root = listing(t1=0.7, t10=0.2, tx=0.1)
    assert candidate_bounds(tree, {(): root}).upper[1] > 0.8
    read = candidate_bounds(tree.given(root.logprobs), {(): root})
    assert read.lower == pytest.approx([0.7, 0.2])
    assert read.upper == pytest.approx([0.7, 0.2])
    nothing = candidate_bounds(tree, {})
    assert (nothing.lower.tolist(), nothing.upper.tolist(), nothing.unlisted) == ([0, 0], [1, 1], 1)


def test_what_is_worth_following_is_what_is_likely_enough():
    tree = PathTree.of_texts(("1", "10"))
    lists = {(): listing(t1=0.8, **{"t ": 0.05, "tx": 0.1})}
    assert unread(tree, lists, 0.1) == [("1",)]
    assert unread(tree, lists, 0.01) == [(" ",), ("1",)]
    lists[(" ",)] = listing(t1=0.5)
    assert unread(tree, lists, 0.026) == [("1",)]
    assert unread(tree, lists, 0.024) == [("1",), (" ", "1")]


def test_labels_too_long_to_be_cut_in_every_way_ask_for_the_tokenizer():
    spec = ApiSpec(url="http://a", model="b", role="judge")
    long = ScoreRange.parse(["poor", "outstandingly good"])
    with pytest.raises(UserError, match=r"'outstandingly good' has 18 characters, .* give judge\.tokenizer"):
        endpoint_paths(spec, [long])
    trees, _ = endpoint_paths(spec, [LABELS[1]])
    assert trees[LABELS[1]].ends[("good", " enough")] == 3


@pytest.mark.parametrize(
    ("listed", "share"),
    [
        ({"4": 0.6, "3": 0.3, "I": 0.1}, 0.9),
        ({"I": 0.7, "As": 0.25}, 0.0),  # a refusal, of which 0.05 may be anything
        ({"I": 0.1}, 0.0),  # all the rest may be scores, and nothing says so
        ({"4": 0.2, "I": 0.3}, 0.4),  # of what is not listed, as much as of what is
        ({"4": 0.1, "3": 0.1, "2": 0.1, "1": 0.1, "5": 0.1}, 0.5),  # every score is listed
        ({"4": 0.2, "3": 0.2}, 1.0),  # a short list with scores alone
    ],
)
def test_by_hand_the_probability_on_scores(listed, share):
    tree = PathTree(["1", "2", "3", "4", "5"], [[(text,)] for text in "12345"])
    logprobs = {token: math.log(p) for token, p in listed.items()}
    read = candidate_bounds(tree, {(): Listing(logprobs, None if share == 1 else min(logprobs.values()))})
    assert on_scores(read.value, read.lower, read.unlisted) == pytest.approx(share, abs=1e-6)


def test_a_token_that_strips_to_nothing_is_no_letter_and_loses_none():
    """A scale of letters: what a tool that strips tokens would take for every letter, or for an empty one."""
    letters = ScoreRange.parse([*"TSRQPONMLKJIHGFEDCBA"])
    tree = PathTree.of_texts(letters.candidates)
    blank = {"\n": 0.2, "": 0.1, "\t ": 0.05}
    lists = {(): Listing({token: math.log(p) for token, p in {**blank, "A": 0.5, " A": 0.1, "B": 0.05}.items()})}
    read = candidate_bounds(tree, lists)
    known = dict(zip(letters.candidates, read.lower, strict=True))
    assert known["A"] == pytest.approx(0.6)
    assert known["B"] == pytest.approx(0.05)
    assert sum(known.values()) == pytest.approx(0.65)
    # all is listed: what is blank is nobody's, and nothing is dealt out
    np.testing.assert_allclose(read.upper, read.lower, atol=1e-12)
    for empty in ("", " ", "\n"):
        with pytest.raises(UserError, match="must begin with a letter"):
            ScoreRange.parse(["B", empty, "A"])
