"""Runs with encoder-decoder judges, end to end: what is recorded, pairs, defenses, attacks, users' mistakes."""

import numpy as np
import pytest
import torch
import transformers

from judgebench.results.folder import RunFolder
from tests.conftest import QUICK, pair, told, write_rows


@pytest.fixture
def short(judgebench):
    """The words for two articles of a line with three texts each: a tiny T5 reads most words letter by letter."""
    rows = [
        {"group_id": f"{a}", "system_id": f"{s}", "source": f"It rained in town {a}.", "output": f"Rain, {s}."}
        | {"human": {"coherence": 1 + (a + s) % 5, "joint": 1 + (a + s) % 5}}
        for a in range(2)
        for s in range(3)
    ]
    write_rows("mine.jsonl", rows)
    return ("data=jsonl", "data.path=mine.jsonl", "data.scale=[1,5]", "dimensions=[coherence]", *QUICK)


def test_a_contrastive_pair_reads_what_the_recorded_prompts_say(judgebench, tiny_t5_pair, short):
    given = (*pair(tiny_t5_pair), *short, "ranges=[[1,10]]")
    judgebench(*given, "decoding=[greedy,contrastive]", "decoding.lambda=0.5")
    folder = RunFolder.open("run")
    readings, scores = folder.read("readings"), folder.read("scores")
    assert len(readings) == 2 * 3
    assert set(scores.judge) == {"main", "assistant", "pair"}
    tokens = folder.read("environment")["tokens"]
    assert tokens["unique"] == tokens["total"] == readings["prompt_tokens"].sum(), "an encoder shares no prefix"
    # a whole forward pass over the recorded prompt gives the recorded log-probabilities
    for role, place in zip(("main", "assistant"), tiny_t5_pair, strict=True):
        model = transformers.AutoModelForSeq2SeqLM.from_pretrained(place)
        tokenizer = transformers.AutoTokenizer.from_pretrained(place)
        for _, row in readings.iloc[::3].iterrows():
            assert row["prompt"].endswith("</s>"), "T5's encoder expects it"
            ids = tokenizer(row["prompt"], add_special_tokens=False, return_tensors="pt")["input_ids"]
            assert ids.shape[1] == row["prompt_tokens"]
            with torch.inference_mode():
                logp = model(input_ids=ids, decoder_input_ids=torch.tensor([[0]])).logits[0, 0].log_softmax(-1)
            # "▁4" and "4"; "10" is one token
            found = [[token for token in (f"▁{c}", c) if token in tokenizer.get_vocab()] for c in row["candidates"]]
            assert {len(tokens) for tokens in found[:9]} == {2}
            expected = [torch.logsumexp(logp[tokenizer.convert_tokens_to_ids(tokens)], 0) for tokens in found]
            np.testing.assert_allclose(row[f"{role}_logprobs"], expected, atol=1e-4)


def test_asked_about_nothing_and_free_answers(judgebench, tiny_t5_pair, short):
    judge = ("judge=local", f"judge.path={tiny_t5_pair[0]}", *short)
    judgebench(*judge, "assistant=null_context", "decoding=[contrastive]")
    said = RunFolder.open("run").read("readings").assistant_logprobs.map(tuple)
    assert said.nunique() == 1
    judgebench(*judge, "assistant=null_context", "judge.mode=generate", "judge.max_new_tokens=5", "decoding=[greedy]")
    readings = RunFolder.open("run").read("readings")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(tiny_t5_pair[0])
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_t5_pair[0])
    for _, row in readings.iloc[::3].iterrows():
        ids = tokenizer(row["prompt"], add_special_tokens=False, return_tensors="pt")["input_ids"]
        own = model.generate(ids, max_new_tokens=5, num_beams=1, do_sample=False)
        assert row["text"] == tokenizer.decode(own[0], skip_special_tokens=True)


def test_caps_prompts_defended_and_attacked(judgebench, tiny_t5_pair, tiny_pair, short):
    """CAP's judge with a tutor of another kind; a phrase is learned by trying words out, for want of a gradient."""
    given = (
        *("judge=local", f"judge.path={tiny_t5_pair[0]}", *short, "prompt=cap", "dimensions=[joint]", "ranges=[[1,5]]"),
        *("tutor=local", f"tutor.path={tiny_pair[0]}", "tutor.candidates=20", "tutor.max_new_tokens=4"),
        *("defenses=[none,cap]", "data.dev_share=0.5"),
        "attacks=[{name: adv_suffix, length: 1, vocabulary: frequent, words: 6, contexts: 1, systems: 1}]",
        "decoding=[expectation]",
    )
    judgebench(*given, "search=exhaustive")
    readings = RunFolder.open("run").read("readings")
    assert set(readings.attack) == {"none", "adv_suffix_1"}
    assert set(readings.defense) == {"none", "cap"}
    assert np.isfinite(np.stack(readings.main_logprobs)).all()


def test_mistakes_are_told(judgebench, tiny_t5_pair):
    judge = ("judge=local", f"judge.path={tiny_t5_pair[0]}", *QUICK, "data.limit_groups=2")
    gradient = judgebench(*judge, "attacks=[adv_suffix]", mistaken=True)
    told(gradient, "search: the gradient needs a decoder-only judge")
    perplexity = judgebench(*judge, "defenses=[perplexity]", "attacks=[none,dsi]", "data.dev_share=0.5", mistaken=True)
    told(
        perplexity,
        "cannot say how likely a text is; name a decoder-only model, as defenses: perplexity.helper.path=DIR",
    )
