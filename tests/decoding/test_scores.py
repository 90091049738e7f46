"""From places to wins, with ties and without: by hand, and identities that must hold for any judge."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgebench.data.dataset import Rivals, pairs
from judgebench.decoding import Contrastive, Expectation, Greedy
from judgebench.decoding.parser import parse_place
from judgebench.decoding.scores import decode, win_probabilities
from judgebench.types import ORDERS, PLACES, PLACES_OR_TIE, Condition, Example, Generation, Prompt, Reading, Score

TEXTS = [Example(f"a/{i}", "a", f"s{i}", "Article.", f"Summary {i}.", {"joint": float(i)}) for i in range(2)]
PAIR, TURNED = pairs(TEXTS, Rivals(1))
LETTERS = {"A": 1.0, "B": 2.0, "C": 0.0}
HOW = Generation("main", "greedy")
EXPECTED, BEST = {"expectation": Expectation()}, {"greedy": Greedy()}
probability = st.floats(1e-6, 1 - 1e-6)
probabilities = st.tuples(*[st.floats(0.01, 1)] * 3).map(lambda p: tuple(np.array(p) / sum(p)))


def reading(order, pair=PAIR, score_range=PLACES, attack="none", choices=None, **said):
    condition = Condition("joint", score_range, attack, order=order)
    return Reading(Prompt(pair, condition, "", "", np.zeros(1, np.int32), choices=choices or {}), "test", **said)


def read(first, second, pair=PAIR, assistant=None):
    """Both orders; first and second are the probabilities of place one, or of a tie, of place one and of place two."""
    rows = [p if isinstance(p, tuple) else p and (p, 1 - p) for p in (first, second, assistant)]
    scale = PLACES if len(rows[0]) == 2 else PLACES_OR_TIE
    said = [row and tuple(np.log(row)) for row in rows]
    return [
        reading(order, pair, scale, main_logprobs=said[i], assistant_logprobs=said[2]) for i, order in enumerate(ORDERS)
    ]


def won(readings, **decodings):
    return win_probabilities(decode(readings, decodings))


def test_expectation_gives_the_papers_mean_of_both_orders():
    wins = won(read(0.9, 0.6), **EXPECTED)
    # P(first wins | text first) = 0.9, P(second wins | text second) = 1 - 0.6
    shown = [wins[name][0] for name in ("score_first", "score_second", "score", "tie_first", "tie_second")]
    assert shown == pytest.approx([0.9, 0.4, 0.65, 0, 0])
    assert [wins[name][0] for name in ("range_min", "range_max", "range_step", "human")] == [0, 1, 0.5, -1]
    keys = [wins[name][0] for name in ("example_id", "text_id", "rival_id", "rival_system_id", "status")]
    assert keys == ["a/0~a/1", "a/0", "a/1", "s1", "parsed"]
    assert "order" not in wins


def test_a_tie_is_half_a_win_and_kept_apart_from_one():
    wins = won(read((0.2, 0.5, 0.3), (0.6, 0.1, 0.3)), **EXPECTED)
    shown = [wins[name][0] for name in ("score_first", "score_second", "tie_first", "tie_second", "score")]
    assert shown == pytest.approx([0.5 + 0.2 / 2, 0.3 + 0.6 / 2, 0.2, 0.6, 0.6])


@pytest.mark.parametrize(
    ("first", "second", "score", "tie"),
    [
        *((0.9, 0.1, 1, 0), (0.9, 0.6, 0.5, 0), (0.2, 0.1, 0.5, 0), (0.2, 0.7, 0, 0)),
        *(((0.2, 0.5, 0.3), (0.2, 0.3, 0.5), 1, 0), ((0.5, 0.3, 0.2), (0.5, 0.3, 0.2), 0.5, 1)),
    ],
)
def test_greedy_wins_loses_or_is_undecided(first, second, score, tie):
    wins = won(read(first, second), **BEST)
    assert (wins["score"].tolist(), wins["tie_first"].tolist()) == ([score], [tie])


@given(*[st.one_of(st.tuples(probability, probability), st.tuples(probabilities, probabilities))])
def test_a_text_and_its_rival_share_what_there_is_to_win_and_their_ties(chances):
    # the same two prompts, seen from the other text: where this one stands first, that one stands second
    assistant = 0.4 if isinstance(chances[0], float) else (0.2, 0.5, 0.3)
    readings = [*read(*chances, assistant=assistant), *read(*chances[::-1], TURNED, assistant)]
    wins = won(readings, **EXPECTED, **BEST, contrastive=Contrastive(0.5, rule="expectation"))
    for decoding in ("expectation", "greedy", "contrastive"):
        rows = (wins["decoding"] == decoding) & (wins["judge"] != "assistant")
        assert wins["score"][rows].sum() == pytest.approx(1)
        assert wins["tie_first"][rows] == pytest.approx(wins["tie_second"][rows][::-1])
    if not isinstance(chances[0], float):
        rows = (wins["decoding"] == "expectation") & (wins["judge"] == "main")
        assert wins["tie_first"][rows] == pytest.approx([p[0] for p in chances], abs=1e-6)  # float32 probabilities
        assert wins["score_first"][rows] == pytest.approx([p[1] + p[0] / 2 for p in chances], abs=1e-6)


@given(probability)
def test_a_judge_of_places_alone_finds_no_text_better(place_one):
    assert won(read(place_one, place_one), **EXPECTED, **BEST)["score"] == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize(
    ("scale", "said", "other", "scores"),
    [
        *((PLACES, said, "2", (0.5, 1.0, 0.75)) for said in ("Neither.", "3", "")),
        (PLACES_OR_TIE, "Hm.", "0", (0.5, 0.5, 0.5)),
    ],
)
def test_an_answer_that_names_no_place_decides_nothing_and_has_failed(scale, said, other, scores):
    wins = won(
        [reading(o, score_range=scale, text=t, generation=HOW) for o, t in zip(ORDERS, (said, other), strict=True)]
    )
    assert (wins["score_first"][0], wins["score_second"][0], wins["score"][0]) == scores
    assert (wins["status"].tolist(), wins["tie_first"].tolist()) == (["failed"], [1])


def test_silence_is_a_failure_in_log_probabilities_too():
    wins = won([reading("first", main_logprobs=(-np.inf, -np.inf)), read(0.9, 0.1)[1]], **BEST)
    assert (wins["score"].tolist(), wins["status"].tolist()) == ([0.75], ["failed"])


@pytest.mark.parametrize(("kept", "message"), [([0], "one order only"), ([0, 0, 1], "appears twice")])
def test_a_missing_or_doubled_order_is_an_error(kept, message):
    with pytest.raises(ValueError, match=message):
        won([read(0.9, 0.1)[i] for i in kept], **BEST)


ONE_ANSWER = {
    PLACES: {"1": 1, "2.": 2, "Summary 2": 2, "**Response 1**": 1, "Summary 2\n\nIt says more than Summary 1.": 2}
    | dict.fromkeys(("Summary 1 is like Summary 2.", "Summary 1\nSummary 2", "Summary 3", "both", "Tie", "0")),
    PLACES_OR_TIE: {"0": 0, "0.": 0, "Answer: 0": 0, "1": 1, "**2**": 2, "Tie": 0, "It's a tie.": 0, "**Equal**": 0}
    | {"Both summaries are equally good.": 0, "Neither is better.": 0, "Summary 2": 2, "A tie\n\nBoth say it.": 0}
    | dict.fromkeys(("1.5", "0.5", "Tie\nSummary 1", "both say much, and neither is short", "Summary 3")),
}


@pytest.mark.parametrize(
    ("scale", "text", "value"), [(scale, *row) for scale, rows in ONE_ANSWER.items() for row in rows.items()]
)
def test_places_and_ties_are_read_by_number_or_by_name_where_they_name_one(scale, text, value):
    score = parse_place(text, score_range=scale)
    assert (score.status != "parsed") if value is None else (score == Score(value, "parsed"))


@pytest.mark.parametrize(("text", "value"), [("[[A]]", 1), ("[[B]]", 2), ("[[C]]", 0), ("I choose (C).", 0), ("C", 0)])
def test_letters_of_the_rubric_may_mean_a_tie(text, value):
    assert parse_place(text, LETTERS, PLACES_OR_TIE) == Score(value, "parsed")
    answers = [reading(o, score_range=PLACES_OR_TIE, choices=LETTERS, text=text, generation=HOW) for o in ORDERS]
    assert decode(answers, {})["tied"].tolist() == [float(value == 0)] * 2
