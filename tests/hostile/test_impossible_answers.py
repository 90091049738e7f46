"""Answers of servers that no model gives: probabilities of more than 1, halves of characters."""

import math

import pytest

from judgebench.judges.api.passes import answer_record
from judgebench.judges.api.protocol import BrokenAnswer, answer_of
from judgebench.readings.reading import ModelReading
from judgebench.readings.store import ReadingStore


def chat(*logprobs):
    tops = [{"token": str(i), "logprob": value} for i, value in enumerate(logprobs)]
    place = {**tops[0], "top_logprobs": tops}
    return {"choices": [{"message": {"content": "0"}, "logprobs": {"content": [place]}}]}


@pytest.mark.parametrize("logprobs", [(0.0, 0.0, 0.0, 0.0), (-0.1, -0.1), (0.0, -3.0)])
def test_a_list_of_more_than_certain_tokens_is_broken(logprobs):
    with pytest.raises(
        BrokenAnswer, match=r"tokens that it lists sum to \d\.\d+, and to no more than 1 they can|sum to 4"
    ):
        answer_of(chat(*logprobs), numbered=False)
    own = [[value, i, None] for i, value in enumerate(logprobs)]
    meta = {"output_token_ids_logprobs": [own], "output_token_logprobs": [own[0]], "prompt_tokens": 1}
    with pytest.raises(BrokenAnswer):
        answer_of({"text": "0", "meta_info": meta}, numbered=True)


def test_a_list_that_is_rounded_is_taken():
    (place,) = answer_of(chat(math.log(0.667), math.log(0.338), -9999.0), numbered=False).lists
    assert set(place[1].logprobs) == {"0", "1", "2"}


def test_half_a_character_that_was_stored_does_not_come_out_again(tmp_path):
    store = ReadingStore(tmp_path / "s")
    store.put([ModelReading("a", None, '{"text": "4 \\ud83d", "model": "\\udc00m", "usage": [1, 0, 2]}', 0.1)])
    held = answer_record(store.get(["a"])["a"])
    assert held == {"text": "4 \ufffd", "model": "\ufffdm", "usage": [1, 0, 2]}
    store.put([ModelReading("b", None, '{"text": "4 \\ud83d\\ude00"}', 0.1)])
    assert answer_record(store.get(["b"])["b"])["text"] == "4 \U0001f600"
