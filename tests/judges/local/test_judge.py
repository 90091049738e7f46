import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from judgebench.judges.engine import hardware
from judgebench.judges.engine.hardware import Hardware, out_of_memory
from judgebench.judges.local.batches import Batch
from judgebench.judges.local.datamodule import PassDataModule
from judgebench.judges.local.loading import ModelSource
from judgebench.judges.local.loop import JudgeModule
from judgebench.judges.local.models import Models
from judgebench.judges.local.passes import ModelView, ScorePass
from judgebench.judges.local.session import PassSession
from judgebench.words.errors import UserError
from tests.judges.local.test_planning import prompts_of
from tests.models import SMOLLM2


class Crowded:
    """A pass on a machine with room for so many tokens; its error is the one that PyTorch gives."""

    sources = ()

    def __init__(self, room):
        self.room, self.read_, self.failed = room, [], 0

    def read(self, batch):
        if batch.tokens() > self.room:
            self.failed += 1
            torch.empty(2**50)  # a real allocation that really fails
        self.read_ += [prompt.example.example_id for prompt in batch.prompts]
        return batch.prompts


def batch_of(sizes):
    prompts = prompts_of(sizes)
    return Batch(
        tuple(tuple(p for p in prompts[: len(prompts) // 2] if p.example.group_id == str(g)) for g in range(len(sizes)))
    )


def test_out_of_memory_halves_the_batch_and_goes_on():
    batch = batch_of([[5, 6, 7], [8], [9, 10]])
    crowded = Crowded(room=50)
    session = PassSession(crowded, Models())
    assert session.read(batch) == batch.prompts
    failed = crowded.failed
    assert failed > 0
    # what had no room once is not tried whole again
    assert session.read(batch) == batch.prompts
    assert crowded.failed == failed
    assert session.read(Batch(())) == []


def test_a_prompt_that_never_fits_is_told():
    with pytest.raises(UserError, match="example 0/0 with its 35 tokens does not fit into memory"):
        PassSession(Crowded(room=10), Models()).read(batch_of([[5]]))


def test_a_real_engine_survives_a_real_lack_of_memory(tiny_pair):
    """A process whose address space is limited reads a batch that is too large for it."""
    script = f"""
import resource, numpy as np, torch
from judgebench.judges.local.models import Models
from judgebench.judges.local.session import PassSession
from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.local.loading import ModelSource
from judgebench.judges.engine.hardware import out_of_memory
from judgebench.judges.local.passes import ScorePass, ModelView
from judgebench.judges.local.batches import Batch
from judgebench.types import Condition, Example, Prompt, ScoreRange

torch.set_num_threads(1)
draw = np.random.default_rng(0)
condition, article = Condition("coherence", ScoreRange(1, 5)), draw.integers(3, 49000, 60).tolist()
def prompt(i):
    own = draw.integers(3, 49000, 1500).tolist()
    return Prompt(Example(str(i), "g", str(i), "", "", {{}}), condition, "", "", np.array(article + own, np.int32))
batch = Batch((tuple(prompt(i) for i in range(48)),))
source = ModelSource({str(tiny_pair[0])!r})
trie = CandidateTrie.of(source.tokenizer(), condition.range.candidates)
scoring = ScorePass([ModelView(source, "f")], batch.prompts, {{condition.range: trie}})
session = PassSession(scoring, Models())
with torch.inference_mode():
    session.begin()
    session.read(Batch((batch.groups[0][:1],)))  # everything that is allocated once is
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 20 * 2**20, resource.RLIM_INFINITY))
    readings = session.read(batch)
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    # one by one: oneDNN does not try a shape again that once had no room
    whole = [scoring.read(Batch(((prompt,),)))[0] for prompt in batch.prompts]
assert session.too_many < 10**6, "memory sufficed: the test tests nothing"
for ours, theirs in zip(readings, whole, strict=True):
    assert ours.key == theirs.key
    np.testing.assert_allclose(ours.logprobs, theirs.logprobs, atol=1e-4)
print("survived")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.strip().endswith("survived"), done.stderr[-2000:]


def test_idle_models_stay_while_they_take_little_memory(tiny_pair, monkeypatch):
    first, second = (ModelSource(str(path)) for path in tiny_pair)
    models = Models()
    held = models.get(first), models.get(second)
    models.make_room({second})
    assert (models.get(first), models.get(second)) == held
    monkeypatch.setattr("judgebench.judges.local.models._RESERVE", 1.0)
    models.make_room({second})
    assert models.get(second) is held[1]
    assert models.get(first) is not held[0]


@pytest.mark.parametrize(
    "words", ["CUBLAS_STATUS_ALLOC_FAILED when", "CUBLAS_STATUS_NOT_INITIALIZED", "out of memory\n"]
)
def test_all_that_a_gpu_says_of_memory_is_understood(words):
    assert out_of_memory(RuntimeError(f"CUDA error: {words}"))
    assert out_of_memory(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."))
    with pytest.raises(RuntimeError) as error:
        torch.ones(2) @ torch.ones(3)
    assert not out_of_memory(error.value)


def test_a_model_that_does_not_fit_is_told_at_loading(tiny_pair, monkeypatch):
    def full(*args, **kwargs):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr("transformers.AutoModelForCausalLM.from_pretrained", full)
    with pytest.raises(UserError, match=r"its model does not fit into memory.*judge\.dtype=bfloat16.*trainer=fsdp"):
        ModelSource(str(tiny_pair[0])).model()


def test_two_models_that_fit_together_are_loaded_once_for_many_texts(monkeypatch):
    """14B and 3B in bfloat16 on 80 GB: each card, and each sample of a harness, reads text by text."""
    sizes = {"14B": 29.5e9, "3B": 6.2e9}
    device, loads, models = torch.device("cuda", 0), [], Models()

    class Loaded(torch.nn.Module):
        def __init__(self, name):
            super().__init__()
            self.name, self.device = name, device

    def free(_):
        return 80e9 - sum(sizes[model.name] for model in models._loaded.values())

    monkeypatch.setattr(ModelSource, "weight_bytes", lambda self: sizes[self.path])
    monkeypatch.setattr(ModelSource, "model", lambda self: loads.append(self.path) or Loaded(self.path))
    monkeypatch.setattr(hardware, "hardware", lambda: Hardware(device))
    monkeypatch.setattr(hardware, "memory_of", lambda _: 80e9)
    monkeypatch.setattr(hardware, "free_memory", free)
    main, assistant = ModelSource("14B"), ModelSource("3B")

    def read(pairs):
        for _ in range(10):
            for i, source in enumerate(pairs):
                models.make_room(set(pairs[i:]))
                models.get(source)

    read([main, assistant])
    assert loads == ["14B", "3B"]
    sizes["72B"] = 45e9  # quantized; beside the others there is no room for it
    models.make_room({ModelSource("72B")})
    assert not models._loaded


def test_ddp_sends_no_weights(tiny_pair, smollm2_tokenizer):
    """Each process has loaded them itself."""
    source = ModelSource(str(tiny_pair[0]))
    prompts = prompts_of([[5]])
    pass_ = ScorePass([ModelView(source, "f")], prompts, {})
    judge = JudgeModule()
    judge.trainer = SimpleNamespace(datamodule=PassDataModule([(pass_, [batch_of([[5]])])]), world_size=1)
    judge.configure_model()
    named = {name for name, _ in [*judge.named_parameters(), *judge.named_buffers()]}
    assert named
    assert named <= set(judge._ddp_params_and_buffers_to_ignore)


def test_a_model_that_was_wanted_for_reading_alone_has_gradients_later():
    """Weights that are unpacked in inference mode could never be differentiated through."""
    with torch.inference_mode():
        model = Models().get(SMOLLM2)
    assert not any(parameter.is_inference() for parameter in model.parameters())
