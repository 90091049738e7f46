"""Steps in shapes that stay, and as graphs, are the steps that they stand for: bit for bit, on the processor."""

from contextlib import nullcontext
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
import torch
import transformers as tf
from torch import Tensor

from judgebench.decoding.rules import Contrastive, Greedy
from judgebench.judges.engine import kernels, steps
from judgebench.judges.engine.attention import Step
from judgebench.judges.engine.generate import Pace, generate
from judgebench.judges.engine.hardware import compute_on, hardware
from judgebench.judges.engine.prefix import PrefixEngine
from judgebench.tutor.steering import Standard, Steer, steering
from judgebench.tutor.writing import Sampler, Sampling, stream
from tests.judges.engine.tapes import Taping
from tests.judges.engine.test_engine import HEAD, SIZES, large_weights, prompts, varlen

SINKS = tf.GptOssConfig(
    **SIZES,
    **HEAD,
    num_local_experts=4,
    sliding_window=512,
    rope_parameters={"rope_type": "default", "rope_theta": 1e4},
)
MODELS = {
    "llama": tf.LlamaConfig(**SIZES),
    "alone": tf.LlamaConfig(**{**SIZES, "num_key_value_heads": 4}),
    "qwen2": tf.Qwen2Config(**SIZES),
    "gemma": tf.GemmaConfig(**SIZES, **HEAD),
    "gpt2": tf.GPT2Config(vocab_size=300, n_embd=64, n_layer=4, n_head=4, bos_token_id=1, eos_token_id=2),
    "sinks": SINKS,
}
PACE = Pace(look=4, share=0.5)
APART = [[np.arange(3, 3 + n)] for n in (5, 8, 21)]  # which share nothing, not their first token
APART = [[ids + i for ids in group] for i, group in enumerate(APART)]


def engine_of(name, dtype=torch.float32, exits=(None, 2), seed=0):
    return PrefixEngine(large_weights(tf.AutoModelForCausalLM, MODELS[name], dtype, seed), exits)


def staying(engine, recorder=None):
    """The engine as on a GPU: with steps in shapes that stay, and graphs where there is something that makes them."""
    engine.steps.stay, engine.steps.pace, engine.steps.recorder = True, PACE, recorder
    return engine


@torch.library.custom_op("judgebench_tests::varlen", mutates_args=())
def one_kernel(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    ends: list[Tensor],
    most: list[int],
    scale: float,
    causal: bool,
    used: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """`varlen` as one operation, whatever it does inside."""
    return varlen(q, k, v, *ends, *most, scale=scale, window_size=(-1, 0 if causal else -1), seqused_k=used)


def kernel(q, k, v, query_ends, key_ends, *most, scale, window_size, seqused_k, **_):
    return one_kernel(q, k, v, [query_ends, key_ends], list(most), scale, window_size == (-1, 0), seqused_k)


@pytest.fixture
def as_on_gpu(monkeypatch):
    """Attention by the GPU's kernel, stretch by stretch: the room behind what is used leaves no mark."""
    monkeypatch.setattr(kernels, "varlen_fits", lambda *_: True)
    monkeypatch.setattr(kernels, "varlen_attn", kernel)


CASES = [
    *((name, torch.float32, prompts()) for name in MODELS),
    ("llama", torch.bfloat16, prompts()),
    ("sinks", torch.bfloat16, prompts()),
    ("llama", torch.float32, APART),
    ("sinks", torch.float32, APART),
]


@pytest.mark.parametrize("recorder", [None, Taping])
@pytest.mark.parametrize(("name", "dtype", "groups"), CASES)
@torch.inference_mode()
def test_a_step_in_shapes_that_stay_is_the_step_as_it_is(name, dtype, groups, recorder, as_on_gpu):
    """Over two stages, answers leaving in between; of two exits."""
    engine = engine_of(name, dtype)
    recorder = recorder and recorder()
    ours, theirs = engine.start(groups), engine.start(groups)
    long = name == "llama" and dtype == torch.float32
    for count in range(72 if long else 9):
        tokens = theirs.logits[0].argmax(-1)
        engine.steps.stay = False
        theirs.step(tokens)
        staying(engine, recorder)
        ours.step(tokens)
        for a, b in zip(ours.logits, theirs.logits, strict=True):
            assert torch.equal(a, b), count
        if count == 4:
            for each in (ours, theirs):
                each.keep(torch.tensor([0, 2]))
    if recorder:
        assert recorder.trusted
        # two steps warm up at first, then one whenever shapes change
        assert (recorder.recorded, recorder.repeated) == ((3, 72 - 4) if long else (2, 9 - 3))


@pytest.mark.parametrize("name", ["llama", "sinks"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch.inference_mode()
def test_a_bound_is_as_a_mask_that_is_wider(name, dtype):
    """With the processor's own kernel, whose sums depend on how many keys it is shown: as many as of the bound."""
    engine = engine_of(name, dtype)
    ours, theirs = engine.start(prompts()), engine.start(prompts())
    staying(engine)
    bound = max(ours._cache.lengths) + 64
    for _ in range(9):
        tokens = ours.logits[0].argmax(-1)
        ours.step(tokens)
        cache = theirs._cache
        cache.reserve(bound)
        step = Step.of(cache, tokens.device)
        live = torch.arange(bound) <= step.at[:, None, None, None]
        found = engine.go_on(tokens, replace(step, live=live, longest=bound))
        cache.lengths = [length + 1 for length in cache.lengths]
        assert all(map(torch.equal, ours.logits, found))


def steered(engine, alphas):
    draw = torch.Generator().manual_seed(3)
    there = Standard(2, torch.randn(64, generator=draw), torch.randn(64, generator=draw))
    return Steer(there, torch.tensor(alphas), engine.model.device)


def written(engine, chooser, stops, assistant=None, alphas=None, sides=(), groups=None, most=16):
    """Answers to the prompts, steered where there are `alphas`."""
    groups = groups or prompts()
    steer = None if alphas is None else steered(engine, alphas)
    others = [*sides, *([] if steer is None else [steer])]
    with nullcontext() if steer is None else steering(engine.model, steer):
        main = engine.start(groups)
        other = None if assistant is None else assistant.start(groups)
        return generate(main, chooser, stops, most, other, others)


def sampler():
    return Sampler(Sampling(0, 1.5), [stream(0, i, ids) for i, ids in enumerate(chain.from_iterable(prompts()))])


WAYS = ["greedy", "two models", "two exits", "steered", "sampled", "apart"]


@pytest.mark.parametrize(
    ("way", "dtype"),
    [*((way, torch.float32) for way in WAYS), ("steered", torch.bfloat16), ("two exits", torch.bfloat16)],
)
@torch.inference_mode()
def test_answers_are_the_same_whichever_way_their_steps_run(way, dtype, as_on_gpu):
    """They end at different times, and stay in their batch past their ends."""
    exits = (None, 2) if way == "two exits" else (None,)
    engine = engine_of("llama", dtype, exits)
    other = engine_of("qwen2", dtype, (None,)) if way == "two models" else None
    alphas = [3.0, -3.0, 8.0, -8.0, 0.0, 5.0] if way == "steered" else None
    groups = APART if way == "apart" else None

    def answers(stops):
        sides = [sampler()] if way == "sampled" else []
        contrast = way.startswith("two")
        chooser = sides[0] if sides else Contrastive(0.4) if contrast else Greedy()
        return written(engine, chooser, stops, other, alphas, sides, groups)

    free = answers(set())
    stops = {free[0][1], free[1][6], free[-1][11]}
    expected = answers(stops)
    assert len({len(answer) for answer in expected}) > 1
    taping = Taping()
    for recorder in (None, taping):
        staying(engine, recorder)
        if other is not None:
            staying(other, recorder)
        assert answers(stops) == expected
    assert taping.trusted
    assert taping.repeated > 5


@pytest.mark.parametrize(
    ("pace", "left"),
    [
        (Pace(), [5, 4, 3, 2, 1]),
        (Pace(3), [4, 2, 1]),
        (Pace(5, 0.5), [3, 1]),
        (Pace(2, 0.5, 4), [3]),
        (Pace(64, 1.0), []),
    ],
)
@torch.inference_mode()
def test_answers_do_not_depend_on_when_they_are_looked_at(pace, left):
    engine = engine_of("llama")
    free = written(engine, Greedy(), set(), most=24)
    ends = [1, 3, 4, 6, 9, 24]  # of each answer, in steps
    stops = {100 + i for i in range(6)}
    kept = []

    class Ending(Greedy):
        """Each answer ends at its step; what is behind it is something else."""

        places, step = list(range(6)), 0

        def next_token(self, main, assistant):
            self.step += 1
            tokens = super().next_token(main, assistant)
            over = [100 + i if self.step == ends[i] else int(t) for i, t in zip(self.places, tokens, strict=True)]
            return torch.tensor(over)

        def keep(self, which):
            kept.append(len(which))
            self.places = [self.places[i] for i in which.tolist()]

    ending = Ending()
    engine.steps.pace = pace
    found = generate(engine.start(prompts()), ending, stops, 24, others=[ending])
    assert found == [answer[: end - 1] for answer, end in zip(free, ends, strict=True)]
    assert kept == left


@torch.inference_mode()
def test_windows_and_soft_caps_go_on_as_they_are_and_the_reason_is_told(monkeypatch):
    refused, run = [], steps.Steps.run

    def watched(self, stage, tokens):
        logits = run(self, stage, tokens)
        if stage is not None and stage.refused not in [None, *refused]:
            refused.append(stage.refused)
        return logits

    monkeypatch.setattr(steps.Steps, "run", watched)
    model = large_weights(tf.AutoModelForCausalLM, tf.MistralConfig(**SIZES, sliding_window=90), torch.float32)
    engine = PrefixEngine(model)
    expected = written(engine, Greedy(), set(), most=40)  # prompts of about 60 tokens: it cuts them in the midst
    assert written(staying(engine, Taping()), Greedy(), set(), most=40) == expected
    assert refused == ["as they are: masks of windows and soft caps are made on the host"]
    assert engine.steps.refused is None, "shorter prompts may fit into the window"


@torch.inference_mode()
def test_a_hook_that_reads_on_the_host_is_found_before_a_graph_is_made(monkeypatch, as_on_gpu):
    engine, taping, seen = engine_of("llama"), Taping(), []
    expected = written(engine, Greedy(), set())
    hook = engine.model.model.layers[1].register_forward_hook(lambda *args: seen.append(float(args[2][0].sum())))
    assert written(staying(engine, taping), Greedy(), set()) == expected
    hook.remove()
    assert len(seen) >= 16
    assert not taping.recorded
    assert "would wait for the device" in engine.steps.refused


@torch.inference_mode()
def test_a_graph_that_stands_still_is_not_trusted(monkeypatch, as_on_gpu):
    """Its first place would be right: it is the place that it was recorded at."""

    class Frozen(Taping):
        def record(self, work):
            tensors = stage.step.at, stage.step.used
            replay = super().record(work)
            values = [tensor.clone() for tensor in tensors]

            def frozen():
                for tensor, value in zip(tensors, values, strict=True):
                    tensor.copy_(value)
                replay()

            return frozen

    engine, recorder = engine_of("llama"), Frozen()
    expected = written(engine, Greedy(), set())
    init = steps.Stage.__init__

    def keep(self, *args):
        nonlocal stage
        stage = self
        init(self, *args)

    stage = None
    monkeypatch.setattr(steps.Stage, "__init__", keep)
    assert written(staying(engine, recorder), Greedy(), set()) == expected
    assert not recorder.trusted
    assert engine.steps.refused == "as they are: a step gives other numbers as a graph"


@torch.inference_mode()
def test_what_has_no_room_is_an_error_and_no_reason(monkeypatch):
    engine = staying(engine_of("llama"))
    answers = engine.start(prompts())
    monkeypatch.setattr(engine, "go_on", lambda *_: (_ for _ in ()).throw(torch.OutOfMemoryError("out of memory")))
    with pytest.raises(torch.OutOfMemoryError):
        answers.step(torch.zeros(6, dtype=torch.int64))
    assert engine.steps.refused is None


@torch.inference_mode()
def test_on_the_processor_steps_are_as_they_were():
    engine = engine_of("llama")
    compute_on(torch.device("cpu"))
    assert not engine.steps.stay
    assert engine.steps.recorder is None
    assert engine.start(prompts()).pace == Pace(1, 0.0, 0)
    written(engine, Greedy(), set(), most=3)
    assert not hardware().steps


@torch.inference_mode()
def test_steps_are_counted_by_their_way_for_the_device_that_was_chosen():
    """Each run chooses one: a run's environment says nothing of the runs before."""
    engine = staying(engine_of("llama"))
    engine.steps.refused = "as they are: a reason"
    compute_on(torch.device("cpu"))
    written(engine, Greedy(), set(), most=3)
    assert hardware().steps == {"as they are: a reason": 2}
    assert compute_on(torch.device("cpu")).steps == {}


@pytest.mark.parametrize("look", [1, 4])
@pytest.mark.parametrize("model", [0, 1])
@torch.inference_mode()
def test_a_nan_is_an_error_of_its_answer_and_never_a_token(look, model):
    """It comes with the third token of the second answer; an answer that has ended has no error any more."""
    engine = engine_of("llama")
    free = written(engine, Greedy(), set(), most=6)
    engine.steps.pace = Pace(look, 1.0)

    class Failed(Exception):
        pass

    def fail(answer, which):
        raise Failed(answer, which)

    def answers(stops):
        found = engine.start(prompts())
        step, steps_taken = found.step, []

        def spoiled(tokens):
            step(tokens)
            steps_taken.append(tokens)
            if len(steps_taken) == 2:
                found.logits[model][1, 5] = float("nan")

        found.step = spoiled
        return generate(found, Greedy(), stops, 6, fail=fail)

    with pytest.raises(Failed, match=f"1, {model}"):
        answers(set())
    stop = free[1][1]
    assert stop not in free[1][:1]
    assert answers({stop})[1] == free[1][:1]
