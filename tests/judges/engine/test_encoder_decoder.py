"""Encoder-decoder judges say what the whole model says, candidate by candidate, whoever is read beside whom."""

import json
import shutil

import numpy as np
import pytest
import torch
import transformers as tf
from safetensors.torch import load_file, save_file

from judgebench.config.parts import JudgeParts
from judgebench.config.rules import check_rules, model_mismatches
from judgebench.decoding.rules import Greedy
from judgebench.judges.assistants import Assistant
from judgebench.judges.engine import hardware
from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.engine.encoder_decoder import EncoderDecoderEngine, check_encoder_decoder
from judgebench.judges.engine.generate import generate
from judgebench.judges.local.loading import ModelSource
from judgebench.judges.local.passes import ModelView, engine_for
from judgebench.judges.spec import JudgeSpec
from judgebench.tutor.spec import TutorSpec
from judgebench.types import ScoreRange
from judgebench.words.errors import UserError
from tests.judges.engine.test_engine import large_weights

STACK = {"vocab_size": 300, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 3, "num_heads": 4}
CONFIGS = {
    "t5": tf.T5Config(**STACK, decoder_start_token_id=0),
    "flan_t5": tf.T5Config(
        **STACK, decoder_start_token_id=0, feed_forward_proj="gated-gelu", tie_word_embeddings=False
    ),
    "mt5": tf.MT5Config(**STACK),
    "bart": tf.BartConfig(
        vocab_size=300,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        max_position_embeddings=128,
    ),
}
WAYS = [[(11,), (9, 11)], [(12,)], [(12, 7, 5)], [(11, 10), (9, 11, 10)], [(12, 7, 6)]]
"""Of the candidates 1, 2, 2.5, 10 and 2.6: some end where others go on."""
TRIE = CandidateTrie(["1", "2", "2.5", "10", "2.6"], WAYS)


def model_of(name, dtype=torch.float32, seed=0):
    model = large_weights(tf.AutoModelForSeq2SeqLM, CONFIGS[name], dtype, seed)
    if name == "bart":
        model.generation_config.forced_bos_token_id = 0  # as its checkpoints have it
    return model


def prompts():
    draw = np.random.default_rng(1)
    return [[draw.integers(20, 300, int(draw.integers(3, 40))) for _ in range(count)] for count in (3, 1, 2)]


def flat():
    return [ids for group in prompts() for ids in group]


def by_hand(model, ids, start):
    """[candidates] log-probabilities, every way through the whole model by itself."""

    def after(way):
        decoder = torch.tensor([[*start, *way]])
        return (
            model(input_ids=torch.tensor([ids.tolist()]), decoder_input_ids=decoder).logits[0].double().log_softmax(-1)
        )

    found = []
    for ways in WAYS:
        total = 0.0
        for way in ways:
            logp = after(way)[len(start) - 1 :]
            p = np.exp(sum(float(logp[i, token]) for i, token in enumerate(way)))
            onward = {other[len(way)] for others in WAYS for other in others if other[: len(way)] == way != other}
            total += p * (1 - sum(float(logp[len(way), token].exp()) for token in onward))
        found.append(np.log(total))
    return torch.tensor(found, dtype=torch.float64)


def check_models(judge, assistant):
    parts = JudgeParts(judge, assistant, {})
    check_rules(model_mismatches(parts))


@pytest.mark.parametrize("name", CONFIGS)
@torch.inference_mode()
def test_reading_is_the_whole_models_forward_pass_of_every_candidate(name):
    model = model_of(name)
    start = [2, 0] if name == "bart" else [0]
    expected = torch.stack([by_hand(model, ids, start) for ids in flat()])
    for alone in (False, True):
        (found,) = EncoderDecoderEngine(model, alone).read(prompts(), TRIE)
        assert found.dtype == torch.float64
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    assert (found.std(dim=0) > 1e-3).all(), "prompts that are all answered alike would not show a wrong mask"


@pytest.mark.parametrize("name", CONFIGS)
@torch.inference_mode()
def test_who_is_read_beside_whom_changes_nothing(name, monkeypatch):
    engine = EncoderDecoderEngine(model_of(name))
    (together,) = engine.read(prompts(), TRIE)
    alone = torch.cat([engine.read([[ids]], TRIE)[0] for ids in flat()])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=0)
    order = [4, 2, 0, 5, 2, 1]  # one of them twice
    (mixed,) = engine.read([[flat()[i] for i in order]], TRIE)
    torch.testing.assert_close(mixed, together[order], atol=1e-5, rtol=0)
    monkeypatch.setattr("judgebench.judges.engine.encoder_decoder._AT_ONCE", 50)
    torch.testing.assert_close(engine.read(prompts(), TRIE)[0], together, atol=1e-5, rtol=0)


@torch.inference_mode()
def test_a_prompt_is_encoded_once_for_all_candidates():
    engine = EncoderDecoderEngine(model_of("t5"))
    engine.read(prompts(), TRIE)
    assert engine.computed == sum(map(len, flat())) + len(flat()) * len(TRIE.branches)
    engine.computed = 0
    engine.start([[flat()[0]] * 5])
    assert engine.computed == len(flat()[0]) + 5


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("alone", [False, True])
@torch.inference_mode()
def test_generation_is_transformers_own(name, alone, monkeypatch):
    monkeypatch.setattr("judgebench.judges.engine.encoder_decoder._AT_ONCE", 60)  # several parts, which answers leave
    model = model_of(name)
    start = 2 if name == "bart" else 1  # tokens before the answer
    answers = []
    for ids in flat():
        own = model.generate(torch.tensor([ids.tolist()]), max_new_tokens=16, num_beams=1, do_sample=False)
        answers.append(own[0, start:].tolist()[:12])
    stops = {answers[1][4], model.generation_config.eos_token_id}
    ends = [next((i for i, token in enumerate(answer) if token in stops), 12) for answer in answers]
    expected = [answer[:end] for answer, end in zip(answers, ends, strict=True)]
    assert len({len(answer) for answer in expected}) > 1, "answers of one length would not test leaving the batch"
    sides = EncoderDecoderEngine(model, alone).start(prompts())
    assert generate(sides, Greedy(), stops, 12) == expected


@pytest.mark.parametrize("name", CONFIGS)
def test_bfloat16_passes_the_check_and_stays_near_float32(name):
    assert check_encoder_decoder(EncoderDecoderEngine(model_of(name))) < 1e-4
    with torch.inference_mode():
        (exact,) = EncoderDecoderEngine(model_of(name)).read(prompts(), TRIE)
        engine = EncoderDecoderEngine(model_of(name, torch.bfloat16))
        check_encoder_decoder(engine)
        (near,) = engine.read(prompts(), TRIE)
    assert (exact - near).abs().median() < 0.3


def test_a_model_that_bends_its_logits_unknown_to_us_is_refused():
    model = model_of("t5")
    plain = model.lm_head.forward
    model.lm_head.forward = lambda states: 2.0 * plain(states)
    with pytest.raises(UserError, match="does something that judgebench does not know"):
        check_encoder_decoder(EncoderDecoderEngine(model))


def test_a_decoder_without_a_beginning_is_refused():
    with pytest.raises(UserError, match="does not say which token its decoder starts with"):
        EncoderDecoderEngine(tf.T5ForConditionalGeneration(tf.T5Config(**STACK)))


def test_answers_begin_as_sentencepiece_begins_a_text(tiny_t5_pair):
    tokenizer = ModelSource(str(tiny_t5_pair[0])).tokenizer()

    def written(*given):
        trie = CandidateTrie.of(tokenizer, ScoreRange(*given).candidates)
        return [{tuple(tokenizer.convert_ids_to_tokens(way)) for way in ways} for ways in trie.token_paths]

    # at the start of a text a digit is one token with SentencePiece's mark, and reads the same without
    assert written(1, 2) == [{("▁1",), ("1",)}, {("▁2",), ("2",)}]
    assert written(9, 10) == [{("▁9",), ("9",)}, {("▁10",)}]
    assert written(1, 2, 0.5) == [{("▁1", ".", "0")}, {("▁1", ".", "5")}, {("▁2", ".", "0")}]


@torch.inference_mode()
def test_a_head_of_its_own_is_read_as_flan_t5_has_it(tiny_t5_pair, tmp_path):
    """T5 1.1 and FlanT5 say `tie_word_embeddings: false`: a head apart, and states that are not scaled before it."""
    folder = tmp_path / "untied"
    shutil.copytree(tiny_t5_pair[0], folder)
    config = json.loads((folder / "config.json").read_text())
    config.pop("scale_decoder_outputs", None)
    (folder / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": False}))
    weights = load_file(folder / "model.safetensors")
    weights["lm_head.weight"] = torch.randn(weights["shared.weight"].shape, generator=torch.Generator().manual_seed(3))
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    model = ModelSource(str(folder)).model()
    engine = engine_for(model, [ModelView(ModelSource(str(folder)), "")])
    assert torch.equal(engine.head.weight, weights["lm_head.weight"])
    ids = np.arange(20, 40)
    inside = model.get_decoder()(
        input_ids=torch.tensor([[0]]), encoder_hidden_states=model.get_encoder()(torch.tensor([ids.tolist()]))[0]
    )[0]
    expected = inside[0] @ weights["lm_head.weight"].T
    torch.testing.assert_close(engine.start([[ids]]).logits[0], expected, atol=1e-4, rtol=1e-5)


def test_float16_is_refused(tiny_t5_pair, tmp_path, monkeypatch):
    with pytest.raises(UserError, match=r"judge\.dtype: t5 .* give judge\.dtype=bfloat16 or judge\.dtype=float32"):
        ModelSource(str(tiny_t5_pair[0]), dtype="float16").config()
    folder = tmp_path / "half"
    shutil.copytree(tiny_t5_pair[0], folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"dtype": "float16"}))
    with monkeypatch.context() as patch:  # a GPU reads float16 as it was saved
        patch.setattr(hardware, "_here", hardware.Hardware(torch.device("cuda")))
        with pytest.raises(UserError, match=r"assistant\.dtype: .*as its checkpoint was saved"):
            ModelSource(str(folder), role="assistant").config()
    monkeypatch.setattr(hardware, "_here", hardware.Hardware(torch.device("cpu")))
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict)
    assert ModelSource(str(folder), role="assistant").model().dtype == torch.float32, "auto"
    assert ModelSource(str(folder), dtype="bfloat16").model().dtype == torch.bfloat16


def test_what_it_cannot_do_is_refused(tiny_t5_pair, tiny_pair):
    main, other = (str(folder) for folder in tiny_t5_pair)
    judge = JudgeSpec(main)
    check_models(judge, Assistant("model", ModelSource(other, role="assistant")))
    check_models(judge, Assistant("null_context"))
    with pytest.raises(UserError, match=r"assistant=early_exit: .*choose assistant=model"):
        check_models(judge, Assistant("early_exit", layer=1))
    llama = str(tiny_pair[0])
    with pytest.raises(UserError, match=r"assistant\.path=.* is a decoder-only model and the judge an encoder-decoder"):
        check_models(judge, Assistant("model", ModelSource(llama, role="assistant")))
    with pytest.raises(UserError, match=r"assistant\.path=.* is an encoder-decoder model and the judge a decoder-only"):
        check_models(JudgeSpec(llama), Assistant("model", ModelSource(main, role="assistant")))
    with pytest.raises(UserError, match=r"tutor\.path=.* cannot write texts that are steered"):
        _ = TutorSpec(main).sizes
