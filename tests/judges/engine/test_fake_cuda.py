"""The path of GPUs without a GPU: what runs on CUDA tensors of full size, what waits, what memory it takes."""

import copy
from dataclasses import dataclass

import numpy as np
import pytest
import torch
import transformers as tf

from judgebench.judges.engine import kernels
from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.engine.encoder_decoder import EncoderDecoderEngine
from judgebench.judges.engine.plain import Head, PlainEngine
from judgebench.judges.engine.prefix import PrefixEngine
from tests.judges.engine.fake_cuda import Counted, FakeCuda, fake_gpu, moved_to_fake_cuda
from tests.judges.engine.tapes import Watched
from tests.judges.engine.test_engine import CHAIN, CONFIGS, TRIE, prompts

SHAPES = {  # hidden, intermediate, layers, heads, key-value heads of Qwen2.5
    "3B": (2048, 11008, 36, 16, 2),
    "7B": (3584, 18944, 28, 28, 4),
    "14B": (5120, 13824, 48, 40, 8),
}
OWN = [int(130 * share) for share in np.linspace(0.7, 1.3, 12)]


@dataclass
class Device:
    """The fake device: what has waited for it, and what it has run."""

    fake: FakeCuda
    counted: Counted

    def model(self, config, dtype=torch.bfloat16, kind=tf.AutoModelForCausalLM):
        with torch.device("meta"):
            model = kind.from_config(copy.deepcopy(config), dtype=dtype).eval().requires_grad_(False)
        return moved_to_fake_cuda(model)

    def begin(self):
        """Counts from here."""
        self.fake.waits.clear()
        self.counted.reset()

    def reading(self, engine, groups, trie):
        """Counts one reading below a root that is known."""
        engine.read(groups, trie)
        self.begin()
        engine.read(groups, trie)
        return self.counted


@pytest.fixture
def cuda():
    with fake_gpu() as (fake, counted):
        yield Device(fake, counted)


def qwen(name, layers=None):
    hidden, intermediate, most, heads, kept = SHAPES[name]
    return tf.Qwen2Config(
        vocab_size=152064,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_hidden_layers=layers or most,
        num_attention_heads=heads,
        num_key_value_heads=kept,
        max_position_embeddings=32768,
        tie_word_embeddings=name == "3B",
    )


def qwen_trie(low, high):
    """Qwen has a token a digit, and writes a leading space as one of its own."""
    digits = {str(i): tuple(15 + int(digit) for digit in str(i)) for i in range(low, high + 1)}
    return CandidateTrie(list(digits), [[way, (220, *way)] for way in digits.values()])


def texts(root, article, own, groups):
    """Groups of prompts with so many tokens in common, of their article and of their own."""
    draw = np.random.default_rng(0)
    shared = draw.integers(100, 90000, root)
    found = []
    for _ in range(groups):
        above = np.concatenate([shared, draw.integers(100, 90000, article)])
        found.append([np.concatenate([above, draw.integers(100, 90000, n)]).astype(np.int32) for n in own])
    return found


@pytest.fixture
def uncounted():
    with fake_gpu(counting=False) as (fake, counted):
        yield Device(fake, counted)


FAMILIES = sorted(set(CONFIGS) - {"gpt_oss"})  # whose experts ask the device itself


@pytest.mark.parametrize(
    ("name", "dtype"),
    [*((name, torch.bfloat16) for name in FAMILIES), ("llama", torch.float32), ("gemma2", torch.float32)],
)
def test_every_family_runs_on_cuda_tensors(uncounted, name, dtype):
    model = uncounted.model(CONFIGS[name], dtype)
    engine = PrefixEngine(model, (None, 2))
    groups = [prompts()[0][:2], prompts()[1]]
    assert [tuple(found.shape) for found in engine.read(groups, TRIE)] == [(3, 4)] * 2
    answers = engine.start(groups)
    answers.keep(torch.tensor([0, 2]))
    answers.step(torch.zeros(2, dtype=torch.int64))
    assert {tuple(logits.shape) for logits in answers.logits} == {(2, 300)}
    assert {x.device.type for x in answers.logits} == {"cuda"}
    assert len(engine.likelihoods(groups)[0]) == 3


def test_the_other_engines_run_on_cuda_tensors(uncounted):
    model = uncounted.model(CONFIGS["llama"])
    PrefixEngine(model)
    assert PlainEngine(model).read(prompts()[1:2], CHAIN)[0].shape == (1, 2)
    sizes = {"vocab_size": 300, "d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2, "num_heads": 4}
    config = tf.T5Config(**sizes, decoder_start_token_id=0)
    engine = EncoderDecoderEngine(uncounted.model(config, kind=tf.AutoModelForSeq2SeqLM))
    assert engine.read(prompts()[:1], CHAIN)[0].shape == (3, 2)


def test_nothing_waits_for_the_device_inside_a_reading(cuda):
    """One wait ends a batch: that for its results."""
    engine = PrefixEngine(cuda.model(qwen("3B", 2)))
    for trie in (qwen_trie(1, 5), qwen_trie(1, 100)):
        cuda.reading(engine, texts(250, 550, OWN, 2), trie)
        assert sum(count for (_, kind), count in cuda.fake.waits.items() if kind == "cpu") == 1
        assert sum(cuda.fake.waits.values()) == 1, cuda.fake.waits


def test_flash_attention_is_reached_and_attention_written_out_is_not(cuda, monkeypatch):
    engine = PrefixEngine(cuda.model(qwen("7B", 2)))
    written = []
    monkeypatch.setattr(kernels, "_products", lambda *_: written.append(1))
    counted = cuda.reading(engine, texts(250, 550, OWN, 2), qwen_trie(1, 5))
    assert not written
    assert counted.kernels["_varlen_attn"] == 3 * 2  # root, articles and tails, tails to articles; in each layer


def test_an_article_of_12_000_tokens_fits(cuda):
    """Attention that is written out takes 68 GiB for it, in every layer."""
    engine = PrefixEngine(cuda.model(qwen("14B", 2)))
    counted = cuda.reading(engine, texts(250, 12000, OWN[:1], 1), qwen_trie(1, 5))
    assert counted.peak < 2 * 2**30


@pytest.mark.parametrize("name", ["qwen2", "gemma2"])
def test_kernels_do_not_grow_with_the_number_of_groups(cuda, name):
    engine = PrefixEngine(cuda.model(qwen("3B", 2) if name == "qwen2" else CONFIGS[name]))
    found = []
    for count in (2, 12):
        groups = [[ids % 300 for ids in group] for group in texts(60, 100, [20], count)]
        found.append(sum(cuda.reading(engine, groups, TRIE).kernels.values()))
    assert found[1] <= found[0]


def test_the_head_reads_all_branches_at_once_and_its_matrix_as_it_is(cuda, monkeypatch):
    engine = PrefixEngine(cuda.model(qwen("3B", 2)))
    calls = []
    logits = Head.logits
    monkeypatch.setattr(Head, "logits", lambda self, states: calls.append(len(states)) or logits(self, states))
    counted = cuda.reading(engine, texts(250, 550, OWN, 2), qwen_trie(1, 5))
    assert calls[-1] == 24 * 2  # the answer's first token, and the one after a space
    assert counted.peak < 2**30  # the matrix in float32 would take 1.2 GiB


def test_a_pass_has_a_kernel_for_each_of_its_elementwise_parts(cuda):
    """Of a norm, a gated block, queries, keys and a merge of each stretch there is one. The last layer runs twice: for
    its keys, and for what is read."""
    engine = PrefixEngine(cuda.model(qwen("7B", 2)))
    counted = cuda.reading(engine, texts(250, 550, OWN, 2), qwen_trie(1, 5))
    fused = ("rms_norm", "_gated", "_rotated", "_merge")
    assert [counted.kernels[name] for name in fused] == [6, 2, 6, 3]
    assert not counted.kernels["rsqrt"] + counted.kernels["silu"] + counted.kernels["sigmoid"]


@pytest.mark.parametrize("name", ["llama", "qwen2", "gemma", "phi", "mixtral"])
def test_a_step_in_shapes_that_stay_waits_for_nothing_and_sends_nothing(cuda, name):
    """Else it could be no graph: numbers that the host reads or sends, results whose shape depends on numbers."""
    engine = PrefixEngine(cuda.model(CONFIGS[name]), (None, 2))
    engine.steps.recorder = None
    answers = engine.start([prompts()[0][:2], prompts()[1]])
    tokens = torch.zeros(3, dtype=torch.int64, device="cuda")
    answers.step(tokens)
    cuda.begin()
    with Watched():
        answers.step(tokens)
    assert not cuda.fake.waits


def test_a_step_as_a_graph_has_no_more_kernels_than_one_as_it_is(cuda):
    engine = PrefixEngine(cuda.model(qwen("7B")))
    engine.steps.recorder, found = None, {}
    for stay in (False, True):
        engine.steps.stay = stay
        answers = engine.start(texts(250, 550, OWN, 2))
        tokens = torch.zeros(24, dtype=torch.int64, device="cuda")
        answers.step(tokens)
        cuda.begin()
        answers.step(tokens)
        found[stay] = sum(cuda.counted.kernels.values())
    assert found[True] <= found[False] + 2  # the last fills what results stay in, and goes on to the next place
    assert found[True] < 580
