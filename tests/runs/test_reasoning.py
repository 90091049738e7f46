"""Reasoning first: where thoughts end, and the scores' probabilities behind them, of models here and of served ones."""

import json
import math

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.engine.plain import PlainEngine
from judgebench.prompts.thoughts import LEAD, after_thoughts, rating_place
from judgebench.results.folder import RunFolder
from judgebench.types import Condition, Example, Prompt, ScoreRange
from tests.conftest import QUICK, pair, told

RANGE = ScoreRange(1, 5)
THINKING = "{name: reasoning, thought_tokens: 12}"
THOUGHT = (f"defenses=[none,{THINKING}]", "data.limit_groups=1", "decoding=[expectation]")


def behind(tokenizer, prompt, thoughts):
    """The text behind a prompt [tokens of the words] with some thoughts; its tokens are those of the text."""
    ids = np.array(tokenizer(prompt)["input_ids"], np.int32)
    example = Example("a/1", "a", "1", "An article.", "A text.", {})
    asked = Prompt(example, Condition("coherence", RANGE, defense="reasoning"), "", prompt, ids)
    after = after_thoughts(asked, tokenizer(thoughts)["input_ids"], tokenizer)
    assert tokenizer.decode(after.token_ids.tolist()) == after.text
    assert after.text.startswith(prompt)
    assert after.token_ids[: len(ids)].tolist() == ids.tolist()
    return after.text.removeprefix(prompt)


def test_thoughts_end_once_and_no_verdict_is_read_before_it_is_asked_for(smollm2_tokenizer):
    def read(prompt, thoughts):
        return behind(smollm2_tokenizer, prompt, thoughts)

    # tags that the judge or its chat template has opened, and the budget has cut; Final Rating is a thought there
    assert (
        read("Rate.", "<think>\nThen Final Rating: 4? It is") == f"<think>\nThen Final Rating: 4? It is\n</think>{LEAD}"
    )
    assert read("Rate.<think>\n", "It is") == f"It is\n</think>{LEAD}"
    # those that the judge has closed itself, with an answer behind them
    assert read("Rate.", "<think>\nIt is.\n</think>\n\nFinal Rating: 4") == f"<think>\nIt is.\n\n</think>{LEAD}"
    # thoughts without tags, with a verdict and without; a template may have closed its tags already
    assert read("Rate.", "It is fine.\n**Final Rating: 4**\nFinal Rating: 4") == f"It is fine.\n{LEAD}"
    assert read("<think>\n\n</think>\n\n", "It is fine, as") == f"It is fine, as{LEAD}"
    assert read("Rate.", "Final Rating: 4") == LEAD


def test_the_place_of_a_rating():
    assert rating_place(["Final", " rating", ":", " ", "-", "2"]) == 4
    assert rating_place(["<think>", "Final Rating: 1", "</think>", "\n", "Final Rating", ":", " 5"]) == 6
    assert rating_place(["Final Rating", ":"]) is None
    assert rating_place([]) is None
    # thoughts that the budget has cut, also nested ones and those of other tags
    for tokens in (["<think>", "Final Rating:", " 1"], ["<think>", "<think>", "</think>", "Final Rating:", " 1"]):
        assert rating_place(tokens) is None
    assert rating_place(["<|channel|>", "analysis", "<|message|>", "Final Rating:", " 4"]) is None
    # a score that nothing leads to begins the answer, behind the thoughts
    assert rating_place(["4"], led=False) == 0
    assert rating_place(["<", "think", ">", "3", "</think>", "\n\n", "4"], led=False) == 6
    assert rating_place(["<think>", "3"], led=False) is None
    assert rating_place(["\n", "<reasoning>", "3"], led=False) is None
    assert rating_place(["<", "draft", ">", "Hm", " 3", "</draft>", "\n", "4"], led=False) == 7
    assert rating_place(["<draft>", "Hm", " 3"], led=False) is None
    assert rating_place(["&lt;think&gt;", "3", "&lt;/think&gt;", "4"], led=False) == 3


@pytest.mark.parametrize("assistant", ["model", "early_exit", "null_context"])
def test_candidates_are_read_behind_the_thoughts_packed_as_plain(judgebench, tiny_pair, smollm2_tokenizer, assistant):
    more = {"model": f"assistant.path={tiny_pair[1]}", "early_exit": "assistant.layer=2"}.get(assistant)
    given = [*pair(tiny_pair)[:2], f"assistant={assistant}", *([more] if more else []), *QUICK, *THOUGHT[:3]]
    given += ["data.limit_groups=1", "decoding=[expectation,contrastive]"]
    given = list({word.split("=")[0]: word for word in given}.values())
    read = {}
    for engine in ("prefix", "plain"):
        judgebench(*given, f"judge.engine={engine}", f"run_dir={engine}")
        read[engine] = RunFolder.open(engine).read("readings")
    packed, plain = read["prefix"], read["plain"]
    assert packed["prompt"].tolist() == plain["prompt"].tolist()  # the same thoughts
    for name in ("main_logprobs", "assistant_logprobs"):
        assert np.abs(np.array(packed[name].tolist()) - np.array(plain[name].tolist())).max() < 1e-3
    # by hand: the model behind the very text that the readings hold
    thought = packed[packed["defense"] == "reasoning"]
    assert thought["prompt"].str.endswith(LEAD).all()
    assert not packed.loc[packed["defense"] == "none", "prompt"].str.contains("step by step").any()
    model = PlainEngine(AutoModelForCausalLM.from_pretrained(tiny_pair[0]).eval())
    texts = [np.array(smollm2_tokenizer(text)["input_ids"]) for text in thought["prompt"]]
    # of a text that other tokens write too, the judge has read the tokens that it wrote
    same = [i for i, ids in enumerate(texts) if len(ids) == thought["prompt_tokens"].iloc[i]]
    assert same
    with torch.inference_mode():
        (expected,) = model.read([[texts[same[0]]]], CandidateTrie.of(smollm2_tokenizer, RANGE.candidates))
    assert np.abs(np.array(thought["main_logprobs"].iloc[same[0]]) - expected[0].numpy()).max() < 1e-3
    scores = RunFolder.open("prefix").read("scores")
    assert set(scores.loc[scores["defense"] == "reasoning", "judge"]) == {"main", "assistant", "pair"}


def test_what_is_stored_depends_on_the_budget(judgebench, tiny_pair, monkeypatch):
    from judgebench.judges.local.passes import FreeAnswerPass

    read, plain = [], FreeAnswerPass.read
    monkeypatch.setattr(
        FreeAnswerPass, "read", lambda self, batch: read.append(self.max_new_tokens) or plain(self, batch)
    )
    given = (*pair(tiny_pair)[:2], *QUICK, *THOUGHT)
    given = tuple({word.split("=")[0]: word for word in given}.values())
    judgebench(*given)
    first = RunFolder.open("run").read("readings")
    assert set(read) == {12}
    del read[:]
    judgebench(*given)
    assert read == []
    assert RunFolder.open("run").read("readings").equals(first)
    judgebench(*given, "defenses.1.thought_tokens=6")
    assert set(read) == {6}
    shorter = RunFolder.open("run").read("readings")
    thought = first["defense"] == "reasoning"
    assert (shorter["prompt_tokens"] < first["prompt_tokens"])[thought].all()
    assert shorter[~thought].equals(first[~thought])


def listed(tokens, tops):
    """A chat server's answer [tokens], with `tops` listed at the last one."""

    def reply(handler, seen):
        places = [{"token": token, "logprob": -0.1, "top_logprobs": []} for token in tokens]
        places[-1]["top_logprobs"] = [{"token": token, "logprob": math.log(p)} for token, p in tops.items()]
        places[-1]["logprob"] = math.log(tops.get(tokens[-1], 0.5))
        choice = {"message": {"content": "".join(tokens)}, "logprobs": {"content": places}}
        handler.send(200, json.dumps({"model": "small-1", "choices": [choice]}))

    return reply


def asked(small_server, *words):
    at = ("judge=api", f"judge.url={small_server.url}", "judge.model=small", "judge.backoff=0.01")
    given = (*at, *QUICK, *THOUGHT, f"defenses=[{THINKING}]", *words)
    return tuple({word.split("=")[0]: word for word in given}.values())


def test_a_chat_server_is_read_where_its_own_answer_rates(judgebench, small_server):
    small_server.otherwise = listed(["It is 3", ".\n", "Final", " Rating", ":", " 4"], {" 4": 0.75, " 2": 0.25})
    judgebench(*asked(small_server))
    readings = RunFolder.open("run").read("readings")
    probabilities = np.exp(np.array(readings["main_logprobs"].tolist()))
    assert probabilities == pytest.approx(np.tile([0, 0.25, 0, 0.75, 0], (len(readings), 1)), abs=1e-6)
    assert readings["prompt"].str.endswith("It is 3.\nFinal Rating: 4").all()
    assert {seen["body"]["max_tokens"] for seen in small_server.seen} == {12 + 2}
    del small_server.seen[:]
    judgebench(*asked(small_server))
    assert small_server.seen == []
    # a budget that ends before the rating leaves no score
    small_server.otherwise = listed(["It is 3"], {"4": 0.5})
    judgebench(*asked(small_server, "defenses.0.thought_tokens=3"))
    assert set(RunFolder.open("run").read("scores")["status"]) == {"failed"}


@pytest.mark.parametrize(
    ("thoughts", "closing", "reasoned"),
    [
        (["<think>", "Fine.\n"], ["</think>", "\n"], True),
        (["<thinking>", "<think>", "Fine.", "</think>", "\n"], ["</thinking>"], False),
        (
            ["<|channel|>", "analysis", "<|message|>", "Fine.\n"],
            ["<|end|>", "<|channel|>", "final", "<|message|>"],
            False,
        ),
    ],
)
def test_no_probabilities_are_read_inside_thoughts(judgebench, small_server, thoughts, closing, reasoned):
    rating = ["Final", " Rating", ":", " 4"] if reasoned else ["4"]
    words = () if reasoned else ("defenses=[none]",)
    tops = {rating[-1]: 0.75, "2": 0.25}
    small_server.otherwise = listed([*thoughts, *rating], tops)
    judgebench(*asked(small_server, *words))
    assert set(RunFolder.open("run").read("scores")["status"]) == {"failed"}
    small_server.otherwise = listed([*thoughts, *closing, *rating], tops)
    judgebench(*asked(small_server, *words, "store=closed.sqlite"))
    probabilities = np.exp(np.array(RunFolder.open("run").read("readings")["main_logprobs"].tolist()))
    assert probabilities == pytest.approx(np.tile([0, 0.25, 0, 0.75, 0], (len(probabilities), 1)), abs=1e-6)


def test_a_server_that_goes_on_with_a_text_is_asked_twice(judgebench, small_server, tiny_pair, smollm2_tokenizer):
    def reply(handler, seen):
        body = seen["body"]
        choice = {"text": "It is fine.\nFinal Rating: 2", "finish_reason": "stop"}
        if body.get("logprobs"):
            tops = {"4": math.log(0.75), "3": math.log(0.25)}
            choice["logprobs"] = {"tokens": ["4"], "token_logprobs": [math.log(0.75)], "top_logprobs": [tops]}
        handler.send(200, json.dumps({"model": "small-1", "choices": [choice]}))

    small_server.otherwise = reply
    words = ("judge.protocol=completions", f"judge.tokenizer={tiny_pair[0]}")
    _, out, _ = judgebench(*asked(small_server, *words, "dry_run=true"))
    assert small_server.seen == []
    count = 6
    assert f": {2 * count}, with" in out.split("Requests to ")[1]
    judgebench(*asked(small_server, *words))
    bodies = [seen["body"] for seen in small_server.seen]
    first = [smollm2_tokenizer.decode(body["prompt"]) for body in bodies if not body.get("logprobs")]
    second = [smollm2_tokenizer.decode(body["prompt"]) for body in bodies if body.get("logprobs")]
    assert len(first) == len(second) == count
    assert sorted(second) == sorted(f"{text}It is fine.\n{LEAD}" for text in first)
    assert {body["max_tokens"] for body in bodies if not body.get("logprobs")} == {12}
    readings = RunFolder.open("run").read("readings")
    assert sorted(readings["prompt"]) == sorted(second)
    probabilities = np.exp(np.array(readings["main_logprobs"].tolist()))
    assert probabilities[:, 2:4] == pytest.approx(np.tile([0.25, 0.75], (count, 1)), abs=1e-6)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("judge.mode=generate", "decoding=[greedy]"), "reasoning: log-probabilities are read behind"),
        (("prompt=comparative",), "reasoning is for texts that are judged alone"),
        (("defenses.1.thought_tokens=0",), "defenses: reasoning.thought_tokens: 0 should be"),
        (("defenses.1.thought_tokens=5000",), "leave -"),
    ],
)
def test_mistakes_are_told(judgebench, tiny_pair, words, sentence):
    given = {word.split("=")[0]: word for word in (*pair(tiny_pair)[:2], *QUICK, *THOUGHT, *words)}
    told(judgebench(*given.values(), mistaken=True), sentence)


def test_judges_that_cannot_think_first_are_told(judgebench, small_server, tiny_t5_pair):
    samples = asked(small_server, "judge.scores_from=samples")
    told(judgebench(*samples, mistaken=True), "judge.scores_from=logprobs of a served one")
    t5 = {word.split("=")[0]: word for word in ("judge=local", f"judge.path={tiny_t5_pair[0]}", *QUICK, *THOUGHT)}
    told(judgebench(*t5.values(), mistaken=True), "reasoning: the judge is an encoder-decoder model")
