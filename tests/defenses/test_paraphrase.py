"""Paraphrase: the judge reads what the helper has written, which is what transformers would write."""

import pytest
import torch
from transformers import AutoModelForCausalLM

from judgebench.defenses.detectors import ASKED
from judgebench.defenses.prompts import Paraphrase, PlannedParaphrase
from judgebench.runtime.errors import UserError
from judgebench.types import Condition
from tests.conftest import tiny_llama
from tests.defenses.resources import RANGE, examples, refuse, resources, settings


def ready(model, folder, tokens=6, **more):
    plan = PlannedParaphrase(settings(model).helper, tokens)
    given = resources(model, folder, "paraphrase", **more)
    return plan.prepared(given), given


@torch.inference_mode()
def test_each_text_is_what_transformers_writes(tiny_pair, tmp_path):
    defense, given = ready(tiny_pair[0], tmp_path)
    model, tokenizer = AutoModelForCausalLM.from_pretrained(tiny_pair[0]), given.builder.tokenizer
    asked = (ASKED / "paraphrase.txt").read_text("utf-8").strip()
    for example in examples():
        for condition in given.conditions:
            text = given.judged(example, condition)
            if "<|" in text:
                continue  # which a tokenizer alone would read as a control token
            turn = [{"role": "user", "content": asked.replace("{{Summary}}", text)}]
            ids = tokenizer.apply_chat_template(
                turn, add_generation_prompt=True, return_tensors="pt", return_dict=False
            )
            answer = model.generate(ids, do_sample=False, max_new_tokens=6)[0, ids.shape[1] :]
            assert defense.text(text, example, condition) == tokenizer.decode(answer, skip_special_tokens=True).strip()
    (record,) = defense.findings.rewritings
    assert (record["texts"], record["empty"]) == (8, 0)
    assert defense.findings.costs["paraphrase"]["text"] > 0


def test_what_is_written_costs_nothing_again(tiny_pair, tmp_path):
    first, _ = ready(tiny_pair[0], tmp_path)
    again, _ = ready(tiny_pair[0], tmp_path, trainer=refuse)
    assert again.rewritten == first.rewritten
    assert again.findings == first.findings


def test_where_nothing_is_written_the_text_stays(tmp_path, smollm2_tokenizer):
    """A model that ends every text at once: its head knows one token alone."""
    silent = tiny_llama(0)
    with torch.no_grad():
        silent.model.norm.weight.fill_(1.0)
        silent.lm_head.weight.zero_()
        silent.lm_head.weight[smollm2_tokenizer.eos_token_id] = 1e-3
        for layer in silent.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        silent.model.embed_tokens.weight.fill_(1.0)
    folder = tmp_path / "silent"
    silent.save_pretrained(folder)
    smollm2_tokenizer.save_pretrained(folder)
    defense, given = ready(folder, tmp_path)
    (record,) = defense.findings.rewritings
    assert (record["texts"], record["empty"], record["cut"]) == (8, 8, 0)
    for example in examples():
        text = given.judged(example, given.conditions[1])
        assert defense.text(text, example, given.conditions[1]) == text


def test_empty_texts_are_not_written_anew(tiny_pair, tmp_path):
    empty = examples({"a": ("", " "), "b": ("", "")})
    defense, _ = ready(tiny_pair[0], tmp_path, attacks=("none",), texts=empty, trainer=refuse)
    assert not defense.rewritten
    assert defense.findings.rewritings[0]["texts"] == 0


def test_a_text_that_nobody_has_written_anew_stays():
    defense = Paraphrase({"a": "b"})
    condition = Condition("coherence", RANGE)
    assert [defense.text(text, examples()[0], condition) for text in ("a", "c", "")] == ["b", "c", ""]


def test_a_rewriting_must_leave_room(tiny_pair, tmp_path):
    with pytest.raises(UserError, match=r"^defense.paraphrase_tokens: 4096 leave no room"):
        ready(tiny_pair[0], tmp_path, 4096)
    with pytest.raises(UserError, match="tokens, and the judge reads at most"):
        ready(tiny_pair[0], tmp_path, 4000)
