"""What is written depends on the text that is asked for, never on the batch; what is stored is not written again."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from lightning.pytorch.callbacks import Callback

from judgebench.tutor.candidates import write_candidates
from judgebench.tutor.steering import Standard, Steer, steering
from judgebench.tutor.writing import Sampling, Text, WritePass
from tests.tutor.conftest import refuse, tokens, trainer

STANDARD = Standard(2, *torch.randn(2, 32, generator=torch.Generator().manual_seed(0)))


def asked(tutor, contexts, alphas=(0.0,), indices=(0,)):
    return [Text(prompt, index, alpha) for prompt in tutor.prompts(contexts) for index in indices for alpha in alphas]


def test_a_batch_gives_what_single_texts_give(make_tutor, contexts):
    """With steering and drawn tokens: together, each in a batch of its own, and by the plain engine."""
    sampling = Sampling(5)
    together = make_tutor()
    texts = asked(together, contexts[:2], alphas=(0.0, 9.0, -9.0), indices=(0, 1))
    found = tokens(together.write(texts, sampling, STANDARD))
    single = make_tutor("single.sqlite", token_budget=1)
    assert tokens(single.write(texts[::-1], sampling, STANDARD))[::-1] == found
    assert tokens(make_tutor("plain.sqlite", engine="plain").write(texts, sampling, STANDARD)) == found
    assert len({tuple(text) for text in found}) == len(texts)


@torch.inference_mode()
def test_what_is_written_is_what_transformers_generates(make_tutor, contexts):
    tutor = make_tutor()
    texts = asked(tutor, contexts, alphas=(0.0, 9.0))
    model, tokenizer = tutor.spec.source.model(), tutor.spec.source.tokenizer()
    for text, found in zip(texts, tutor.write(texts, None, STANDARD), strict=True):
        ids = torch.tensor([text.prompt.token_ids.tolist()])
        with steering(model, Steer(STANDARD, torch.tensor([text.alpha]))):
            expected = model.generate(input_ids=ids, do_sample=False, max_new_tokens=8)[0, ids.shape[1] :].tolist()
        assert found.tokens.tolist() == expected
        assert found.text == tokenizer.decode(expected, skip_special_tokens=True).strip()
        assert found.cut


def test_what_is_written_costs_nothing_again(make_tutor, contexts):
    texts = asked(make_tutor(), contexts, alphas=(0.0, 9.0))
    first = make_tutor().write(texts, None, STANDARD)
    again = make_tutor(trainer=refuse).write(list(reversed(texts)), None, STANDARD)
    assert tokens(again) == tokens(first)[::-1]
    assert [each.text for each in again] == [each.text for each in first][::-1]
    # a strength of 0 needs no standard, and is one text with any
    plain = make_tutor(trainer=refuse).write(asked(make_tutor(), contexts))
    assert tokens(plain) == tokens(first)[::2]


def test_all_that_a_text_depends_on_is_in_its_key(make_tutor, contexts):
    tutor = make_tutor()
    (here, there), drawn = tutor.prompts(contexts)[:2], Sampling(0)

    def key(text, longest=8, sampling=drawn, standard=STANDARD, view=tutor.view):
        return WritePass(view, tutor.spec.source.tokenizer(), [text], longest, sampling, standard).key(text)

    base = Text(here, 0, 2.0)
    other_layer = Standard(3, STANDARD.high, STANDARD.low)
    keys = [
        key(base),
        key(Text(there, 0, 2.0)),
        key(Text(here, 1, 2.0)),
        key(Text(here, 0, -2.0)),
        key(Text(here, 0, 0.0)),
        key(base, longest=9),
        key(base, sampling=None),
        key(base, sampling=Sampling(1)),
        key(base, sampling=Sampling(0, 0.7)),
        key(base, sampling=Sampling(0, 1.0, 0.9)),
        key(base, standard=other_layer),
        key(base, view=make_tutor(dtype="bfloat16").view),
    ]
    assert len(set(keys)) == len(keys)
    assert key(Text(here, 0, 0.0), standard=None) == key(Text(here, 0, 0.0))
    # drawn from nothing, all texts of a prompt are the same
    assert key(base, sampling=None) == key(Text(here, 7, 2.0), sampling=None)


class Interrupted(Callback):
    """Ends the work while the second batch is written."""

    def on_predict_batch_start(self, trainer, pl_module, batch, batch_idx, dataloader_idx=0):
        if batch_idx == 1:
            raise OSError("the power is gone")


def test_interrupted_candidates_are_resumed_and_are_the_same(make_tutor, contexts):
    settings = {"token_budget": 100}  # a context a batch
    whole = write_candidates(make_tutor("whole.sqlite", **settings), contexts)
    broken = make_tutor("broken.sqlite", trainer=lambda callbacks: trainer([*callbacks, Interrupted()]), **settings)
    with pytest.raises(OSError, match="the power is gone"):
        write_candidates(broken, contexts)
    broken.runner.store.close()
    batches = []

    class Counting(Callback):
        def on_predict_batch_start(self, trainer, pl_module, batch, batch_idx, dataloader_idx=0):
            batches.append([prompt.example.group_id for prompt in batch.prompts])

    resumed = make_tutor("broken.sqlite", trainer=lambda callbacks: trainer([*callbacks, Counting()]), **settings)
    found = write_candidates(resumed, contexts)
    assert batches == [[context.group_id] * 3 for context in contexts[1:]]
    assert tokens(found) == tokens(whole)
    assert [each.text for each in found] == [each.text for each in whole]


def test_more_candidates_leave_the_first_as_they_are(make_tutor, contexts):
    few = write_candidates(make_tutor("few.sqlite", candidates=2), contexts[1:])
    more = write_candidates(make_tutor("more.sqlite", candidates=4), contexts)
    kept = [each for each in more if each.index < 2 and each.prompt.example.group_id != contexts[0].group_id]
    assert tokens(kept) == tokens(few)
    other = write_candidates(make_tutor("other.sqlite", candidates=2, seed=1), contexts[1:])
    assert not {tuple(text) for text in tokens(few)} & {tuple(text) for text in tokens(other)}


def test_a_candidate_is_a_judged_text_of_its_context(make_tutor, contexts):
    found = write_candidates(make_tutor(), contexts)
    examples = [each.example for each in found]
    assert len({example.example_id for example in examples}) == 9
    assert [example.group_id for example in examples] == [c.group_id for c in contexts for _ in range(3)]
    assert all(example.source == contexts[i // 3].source for i, example in enumerate(examples))
    assert all(not example.human for example in examples)
    assert all(each.cut == (len(each.tokens) == 8) for each in found)


def test_a_text_to_be_steered_needs_a_standard(make_tutor, contexts):
    tutor = make_tutor()
    with pytest.raises(ValueError, match="need a standard"):
        tutor.write(asked(tutor, contexts, alphas=(1.0,)))


def test_models_are_shared_and_left_unsteered(make_tutor, contexts):
    tutor = make_tutor()
    plain = tokens(tutor.write(asked(tutor, contexts)))
    model = tutor.runner.models.get(tutor.spec.source)
    tutor.write(asked(tutor, contexts, alphas=(40.0,)), None, STANDARD)
    assert tutor.runner.models.get(tutor.spec.source) is model
    assert not any(module._forward_hooks for module in model.modules())
    afresh = make_tutor("afresh.sqlite")
    afresh.runner = replace(afresh.runner, models=tutor.runner.models)
    assert tokens(afresh.write(asked(afresh, contexts))) == plain
