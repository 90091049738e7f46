"""From places to wins: by hand, and identities that must hold whatever a judge says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgebench.data.dataset import Rivals, pairs
from judgebench.decoding import Contrastive, Expectation, Greedy
from judgebench.decoding.parser import parse_place
from judgebench.decoding.scores import decode, win_probabilities
from judgebench.types import ORDERS, PLACES, Condition, Example, Generation, Prompt, Reading, Score

TEXTS = [Example(f"a/{i}", "a", f"s{i}", "Article.", f"Summary {i}.", {"fluency": float(i)}) for i in range(2)]
PAIR, TURNED = pairs(TEXTS, Rivals(1))


def reading(pair, order, attack="none", **said):
    condition = Condition("fluency", PLACES, attack, order=order)
    return Reading(Prompt(pair, condition, "", "", np.zeros(1, np.int32)), "test", **said)


def won(readings, **decodings):
    return win_probabilities(decode(readings, decodings))


def read(first, second, pair=PAIR, assistant=None, **more):
    """Both orders of a pair; first and second are the probabilities of place one."""
    other = None if assistant is None else tuple(np.log([assistant, 1 - assistant]))
    return [
        reading(pair, order, main_logprobs=tuple(np.log([p, 1 - p])), assistant_logprobs=other, **more)
        for order, p in zip(ORDERS, (first, second), strict=True)
    ]


def test_expectation_gives_the_papers_mean_of_both_orders():
    found = won(read(0.9, 0.6), expectation=Expectation())
    # P(first wins | text first) = 0.9, P(second wins | text second) = 1 - 0.6
    assert found["score_first"] == pytest.approx([0.9])
    assert found["score_second"] == pytest.approx([0.4])
    assert found["score"] == pytest.approx([0.65])
    assert (found["range_min"][0], found["range_max"][0], found["range_step"][0]) == (0, 1, 0.5)
    assert (found["example_id"][0], found["text_id"][0], found["rival_id"][0]) == ("a/0~a/1", "a/0", "a/1")
    assert (found["human"][0], found["status"][0]) == (-1.0, "parsed")
    assert "order" not in found


@pytest.mark.parametrize(("first", "second", "score"), [(0.9, 0.1, 1), (0.9, 0.6, 0.5), (0.2, 0.1, 0.5), (0.2, 0.7, 0)])
def test_greedy_wins_loses_or_is_undecided(first, second, score):
    assert won(read(first, second), greedy=Greedy())["score"].tolist() == [score]


def test_contrast_with_what_the_judge_says_anyway_takes_the_place_off():
    readings = read(0.9, 0.8, assistant=0.85)
    found = won(readings, greedy=Greedy(), contrastive=Contrastive(lambda_=1.0))
    by_judge = dict(zip(found["judge"], found["score"], strict=True))
    assert by_judge == {"main": 0.5, "assistant": 0.5, "pair": 1.0}


@given(*[st.floats(1e-6, 1 - 1e-6)] * 2)
def test_a_text_and_its_rival_share_what_there_is_to_win(first, second):
    # the same two prompts, seen from the other text: where this one stands first, that one stands second
    found = won([*read(first, second), *read(second, first, TURNED)], expectation=Expectation(), greedy=Greedy())
    for decoding in ("expectation", "greedy"):
        assert found["score"][found["decoding"] == decoding].sum() == pytest.approx(1)


@given(st.floats(1e-6, 1 - 1e-6))
def test_a_judge_of_places_alone_finds_no_text_better(place_one):
    found = won(read(place_one, place_one), expectation=Expectation(), greedy=Greedy())
    assert found["score"] == pytest.approx([0.5, 0.5])


def test_attacks_and_decodings_keep_apart_and_in_order():
    readings = [*read(0.9, 0.1), *[reading(PAIR, o, "dsi", main_logprobs=(-1.0, -2.0)) for o in ORDERS]]
    found = won(readings, greedy=Greedy(), expectation=Expectation())
    rows = list(zip(found["attack"], found["decoding"], strict=True))
    assert rows == [("none", "greedy"), ("dsi", "greedy"), ("none", "expectation"), ("dsi", "expectation")]
    assert found["score"][:2].tolist() == [1.0, 0.5]


@pytest.mark.parametrize("said", ["Neither.", "3", ""])
def test_an_answer_that_names_no_place_decides_nothing_and_has_failed(said):
    how = Generation("main", "greedy")
    readings = [reading(PAIR, "first", text=said, generation=how), reading(PAIR, "second", text="2", generation=how)]
    found = won(readings)
    assert (found["score_first"][0], found["score_second"][0], found["score"][0]) == (0.5, 1.0, 0.75)
    assert found["status"].tolist() == ["failed"]


def test_silence_is_a_failure_in_log_probabilities_too():
    silent = reading(PAIR, "first", main_logprobs=(-np.inf, -np.inf))
    found = won([silent, read(0.9, 0.1)[1]], greedy=Greedy())
    assert (found["score"].tolist(), found["status"].tolist()) == ([0.75], ["failed"])


def test_texts_judged_alone_stay_as_they_are():
    alone = Reading(Prompt(TEXTS[0], Condition("fluency", PLACES), "", "", np.zeros(1, np.int32)), "test", (-1.0, -2.0))
    columns = decode([alone], {"greedy": Greedy()})
    assert "order" not in columns
    kept = win_probabilities(columns)
    assert list(kept) == list(columns)
    assert all(kept[name] is columns[name] for name in columns)


@pytest.mark.parametrize(("kept", "message"), [([0], "one order only"), ([0, 0, 1], "appears twice")])
def test_a_missing_or_doubled_order_is_an_error(kept, message):
    both = read(0.9, 0.1)
    with pytest.raises(ValueError, match=message):
        won([both[i] for i in kept], greedy=Greedy())


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), ("2.", 2), ("Summary 2", 2), ("**Response 1**", 1), ("Summary 2\n\nIt says more than Summary 1.", 2)],
)
def test_places_are_read_by_number_or_by_name(text, value):
    assert parse_place(text) == Score(value, "parsed")


@pytest.mark.parametrize("text", ["Summary 1 is like Summary 2.", "Summary 1\nSummary 2", "Summary 3", "both"])
def test_what_names_no_single_place_has_failed(text):
    assert parse_place(text).status == "failed"
