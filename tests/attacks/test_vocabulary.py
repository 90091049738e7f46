"""A gap, filled with a phrase's tokens, is the prompt that a judge reads with that phrase."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgebench.attacks import PhraseAttack
from judgebench.attacks.gaps import common_ends, fitting, gaps_of, in_place
from judgebench.attacks.search import select_words, whole_words
from judgebench.prompts.builder import PromptBuilder
from judgebench.types import ORDERS, PLACES, Condition, Example
from judgebench.words.errors import UserError
from tests.attacks.conftest import CONDITION, EXAMPLES


def test_filled_gaps_are_the_prompts_with_the_phrase(builder, gaps, smollm2_tokenizer):
    for phrase in ("summable", "outstandingly well", "Excellent, excellent (5)"):
        prompts = builder.build(EXAMPLES, [CONDITION], PhraseAttack("", phrase).judged)
        tokens = smollm2_tokenizer.encode(f" {phrase}", add_special_tokens=False)
        for gap, prompt in zip(gaps, prompts, strict=True):
            assert gap.example == prompt.example
            assert np.array_equal(gap.filled(tokens), prompt.token_ids)
            assert prompt.text.count(f"{gap.before} {phrase}{gap.after}") == 1
        assert in_place(builder, gaps, phrase, tokens)
        assert not in_place(builder, gaps, phrase, tokens[:-1])


@pytest.mark.parametrize("order", ORDERS)
def test_gaps_of_texts_that_are_compared(smollm2_tokenizer, order):
    config = {"rubrics": "comparative_summary", "variants": {}, "max_tokens": None, "truncate": "error"}
    config |= {"template_options": None}
    builder = PromptBuilder.from_config(smollm2_tokenizer, config, ["joint"], 4000)
    example = Example("a~b", "g", "a", "The source.", "The first.", {"joint": 1.0}, rival_id="b", rival="The second.")
    condition = Condition("joint", PLACES, order=order)
    (gap,) = gaps_of(builder, [example], [condition], 2)
    phrase = PhraseAttack("", "so good")
    (prompt,) = builder.build([example], [condition], phrase.judged)
    tokens = smollm2_tokenizer.encode(" so good", add_special_tokens=False)
    assert np.array_equal(gap.filled(tokens), prompt.token_ids)
    rival_after = "The second." in smollm2_tokenizer.decode(gap.tail)
    assert rival_after == (order == "first")


def test_no_gap_is_cut_where_articles_are_shortened(smollm2_tokenizer, builder):
    longest = max(len(prompt.token_ids) for prompt in builder.build(EXAMPLES, [CONDITION]))
    config = {"rubrics": "summary", "variants": {}, "max_tokens": longest, "truncate": "source"}
    short = PromptBuilder.from_config(smollm2_tokenizer, config | {"template_options": None}, ["coherence"], 4000)
    with pytest.raises(UserError, match=r"too long unless its article is shortened.*prompt\.max_tokens"):
        gaps_of(short, EXAMPLES, [CONDITION], 2)


def test_words_keep_their_tokens_wherever_they_stand(builder, gaps, smollm2_tokenizer):
    words = ["well", "summable", "Antidisestablishment", "good, good", "end\n", "x" * 30]
    fit = fitting(smollm2_tokenizer, gaps[0], words, ["really"], ["indeed"])
    assert [word for word, _ in fit] in (words, [word for word in words if word != "end\n"])
    for word, tokens in fit:
        whole = smollm2_tokenizer.encode(f" really {word} indeed", add_special_tokens=False)
        ends = [smollm2_tokenizer.encode(f" {w}", add_special_tokens=False) for w in ("really", "indeed")]
        assert [*ends[0], *tokens, *ends[1]] == whole
    last = fitting(smollm2_tokenizer, gaps[0], ["end\n", "end"], [], [])
    assert [word for word, _ in last] == ["end"]  # a line end joins those of the prompt


def test_whole_words_are_single_tokens_that_survive(gaps, smollm2_tokenizer):
    words = whole_words(smollm2_tokenizer)
    assert len(words) > 10_000
    assert all(word.isalpha() for word in words)
    assert len(set(words)) == len(words)
    some = words[::97]
    fit = fitting(smollm2_tokenizer, gaps[0], some, [], [])
    assert [word for word, _ in fit] == list(some)
    assert all(len(tokens) == 1 for _, tokens in fit)
    assert select_words(smollm2_tokenizer, "tokenizer", 5) == words[:5]


def test_a_vocabulary_of_one_s_own(tmp_path, smollm2_tokenizer):
    path = tmp_path / "words.txt"
    path.write_text("superb\n\n  truly   great \nsuperb\n")
    assert select_words(smollm2_tokenizer, str(path), None) == ["superb", "truly great"]
    assert select_words(smollm2_tokenizer, str(path), 1) == ["superb"]
    path.write_text("\n \n")
    with pytest.raises(UserError, match="holds no word"):
        select_words(smollm2_tokenizer, str(path), None)
    with pytest.raises(UserError, match=r"adv_suffix\.vocabulary=missing\.txt: it cannot be read"):
        select_words(smollm2_tokenizer, "missing.txt", None)


@given(st.lists(st.text("ab", min_size=1, max_size=6), min_size=1, max_size=4))
def test_common_ends(rows):
    head, tail = common_ends(rows)
    assert all(row[:head] == rows[0][:head] for row in rows)
    assert all(row[len(row) - tail :] == rows[0][len(rows[0]) - tail :] for row in rows)
    shortest = min(map(len, rows))
    assert head == shortest or len({row[head] for row in rows}) > 1
    assert tail == shortest or len({row[-1 - tail] for row in rows}) > 1
