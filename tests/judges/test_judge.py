import subprocess
import sys

import pytest
import torch

from judgebench.errors import UserError
from judgebench.judges.judge import Judge, Models, out_of_memory
from judgebench.judges.loading import ModelSource
from judgebench.judges.planning import Batch, halves
from tests.conftest import SMOLLM2
from tests.judges.test_planning import prompts_of


class Crowded:
    """A pass on a machine with room for so many tokens; its error is the one that PyTorch gives."""

    sources = ()

    def __init__(self, room):
        self.room, self.read_, self.failed = room, [], 0

    def read(self, batch):
        if batch.tokens()[1] > self.room:
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
    judge = Judge(crowded, Models())
    assert judge.predict_step(batch, 0) == batch.prompts
    failed = crowded.failed
    assert failed > 0
    # what had no room once is not tried whole again
    assert judge.predict_step(batch, 1) == batch.prompts
    assert crowded.failed == failed
    assert judge.predict_step(Batch(()), 2) == []


def test_a_prompt_that_never_fits_is_told():
    with pytest.raises(UserError, match="example 0/0 with its 35 tokens does not fit into memory"):
        Judge(Crowded(room=10), Models()).predict_step(batch_of([[5]]), 0)


def test_other_errors_are_not_taken_for_memory():
    with pytest.raises(RuntimeError) as error:
        torch.ones(2) @ torch.ones(3)
    assert not out_of_memory(error.value)


def test_halves_keep_every_prompt_in_order():
    batch = batch_of([[5, 6, 7], [8], [9, 10]])
    todo, singles = [batch], []
    while todo:
        first, *todo = todo
        if len(first.prompts) == 1:
            singles += first.prompts
        else:
            todo = halves(first) + todo
    assert singles == batch.prompts


def test_a_real_engine_survives_a_real_lack_of_memory(tiny_pair):
    """A process whose address space is limited reads a batch that is too large for it."""
    script = f"""
import resource, numpy as np, torch
from judgebench.judges.judge import Judge, Models
from judgebench.judges.candidates import CandidateTrie
from judgebench.judges.loading import ModelSource
from judgebench.judges.passes import ScorePass, Voice
from judgebench.judges.planning import Batch
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
scoring = ScorePass([Voice(source, "f")], batch.prompts, {{condition.range: trie}})
judge = Judge(scoring, Models())
judge.configure_model()
with torch.inference_mode():
    judge.on_predict_start()
    judge.predict_step(Batch((batch.groups[0][:1],)), 0)  # everything that is allocated once is
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 20 * 2**20, resource.RLIM_INFINITY))
    readings = judge.predict_step(batch, 1)
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    whole = scoring.read(batch)
assert judge._too_many < 10**6, "memory sufficed: the test tests nothing"
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
    monkeypatch.setattr("judgebench.judges.judge._SPARE", 0.0)
    models.make_room({second})
    assert models.get(second) is held[1]
    assert models.get(first) is not held[0]


def test_a_model_that_was_wanted_for_reading_alone_has_gradients_later():
    """Weights that are unpacked in inference mode could never be differentiated through."""
    with torch.inference_mode():
        model = Models().get(SMOLLM2)
    assert not any(parameter.is_inference() for parameter in model.parameters())
