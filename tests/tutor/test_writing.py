"""The tutor at work: settings, prompts, sampling, what a text depends on, and what is stored."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from hypothesis import given
from hypothesis import strategies as st
from lightning.pytorch.callbacks import Callback

from judgebench.tutor.spec import Sizes, TutorSpec
from judgebench.tutor.steering import Standard, Steer, steering
from judgebench.tutor.texts import write_candidates
from judgebench.tutor.writing import (
    KINDS,
    Sampler,
    Sampling,
    Text,
    WritePass,
    contexts_of,
    draw,
    load_templates,
    stream,
)
from judgebench.types import Example
from judgebench.words.errors import UserError
from tests.tutor.conftest import asking, make_trainer, refusing, tokens

CONF = Path(__file__).resolve().parents[2] / "conf"
FILES = sorted(path.stem for path in (CONF / "tutor").glob("*.yaml") if path.stem not in ("base", "none"))


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(("data", "longest"), [("mini", 128), ("topicalchat", 64)])
def test_every_file_makes_a_tutor_of_the_papers_lengths(name, data, longest):
    named = ["tutor.path=x"] if name == "local" else []
    with initialize_config_dir(str(CONF), version_base="1.3"):
        spec = instantiate(compose("config", [f"tutor={name}", f"data={data}", *named]).tutor)
    assert isinstance(spec, TutorSpec)
    assert spec.most_tokens == longest
    assert (spec.low_percentile, spec.high_percentile) == (20, 80)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"candidates": 0, "alpha_low": -2}, r"tutor.candidates: 0 should .*\ntutor.alpha_low: -2 should "),
        ({"alpha_high": None}, "tutor.alpha_high"),
        ({"low_percentile": 80}, "tutor.low_percentile: 80 must lie below tutor.high_percentile=80"),
        ({"dtype": "int8"}, "tutor.dtype: 'int8'"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, said):
    with pytest.raises(UserError, match=said):
        _ = TutorSpec("owner/name", **settings).source


def test_prompts_of_ones_own_need_a_length():
    with pytest.raises(UserError, match=r"tutor\.max_new_tokens: there is no usual length for tutor.prompts=mine"):
        _ = TutorSpec("owner/name", prompts="mine").most_tokens
    assert TutorSpec("owner/name", prompts="mine", max_new_tokens=9).most_tokens == 9


def test_sizes_are_the_models_and_texts_leave_room_for_prompts(tiny_pair, make_tutor):
    assert TutorSpec(str(tiny_pair[0])).sizes == Sizes(layers=4, hidden=32, most=4096)
    with pytest.raises(UserError, match=r"tutor\.max_new_tokens: texts of 4096 tokens leave no room .* 4096"):
        make_tutor(max_new_tokens=4096)


CONTEXT = Example("a", "a", "", "The article.", "", {})


def prompt_of(tokenizer, collection="summary", context=CONTEXT, **what):
    return asking(tokenizer, collection).prompts([context], **what)[0]


def test_contexts_hold_nothing_that_was_judged(mini):
    found = contexts_of(mini.examples)
    assert [context.group_id for context in found] == list(dict.fromkeys(e.group_id for e in mini.examples))
    assert {(context.output, context.system_id, len(context.human)) for context in found} == {("", "", 0)}
    assert {context.source for context in found} == {example.source for example in mini.examples}


def test_prompts_are_the_papers(smollm2_tokenizer):
    text = prompt_of(smollm2_tokenizer).text
    assert "user\nPlease provide a summary of the following text:\nThe article.\nSummary:<|im_end|>" in text
    assert text.endswith("<|im_start|>assistant\n")
    good = prompt_of(smollm2_tokenizer, "dialogue", kind="good").text
    assert "You are an excellent conversationalist. Provide a high-quality response" in good
    assert "dialogue context:\nThe article.\nResponse:" in good
    assert "You are an assistant that provides poor summaries" in prompt_of(smollm2_tokenizer, kind="poor").text


@pytest.mark.parametrize("collection", ["summary", "dialogue"])
def test_a_score_is_asked_in_its_range(smollm2_tokenizer, collection):
    text = prompt_of(smollm2_tokenizer, collection, kind="scored", score=2.0).text
    assert "a score of 2 on a scale from 1 (worst) to 5 (best)" in text


def test_a_context_speaks_for_itself_alone(smollm2_tokenizer):
    """Braces in it are no fields, and names of control tokens no control tokens."""
    said = "{score} {{Document}} <|im_end|>"
    prompt = prompt_of(smollm2_tokenizer, context=Example("a", "a", "", said, "", {}), kind="scored", score=4.0)
    assert said in prompt.text
    assert prompt.control_tokens == 1
    ends = prompt.token_ids.tolist().count(smollm2_tokenizer.convert_tokens_to_ids("<|im_end|>"))
    assert ends == 2  # of the system's turn and the user's


def test_templates_that_cannot_be_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"tutor\.prompts=poems: there is no such collection"):
        load_templates("poems")
    for kind in KINDS:
        (tmp_path / f"{kind}.txt").write_text("Sum up: {{Document}}" + (" {score}" if kind == "scored" else ""))
    assert load_templates(str(tmp_path))["poor"] == "Sum up: {{Document}}"
    for name, text, said in (
        ("good.txt", "Sum up: {{Text}}", "good.txt has the unknown field Text"),
        ("good.txt", "Sum up.", "good.txt has no {{Document}}"),
        ("good.txt", "Sum up: {{Document}} {score}", "belongs into scored.txt"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(UserError, match=said):
            load_templates(str(tmp_path))
    (tmp_path / "good.txt").unlink()
    with pytest.raises(UserError, match=r"good\.txt cannot be read"):
        load_templates(str(tmp_path))


PROBABILITIES = [0.5, 0.0, 0.3, 0.2]


def drawn(uniforms, **options):
    logits = torch.tensor([PROBABILITIES]).log().expand(len(uniforms), -1)
    return draw(logits, torch.tensor(uniforms, dtype=torch.float64), **options).tolist()


@pytest.mark.parametrize(
    ("options", "shares"),
    [
        ({}, [50, 0, 30, 20]),
        ({"temperature": 0.5}, [25, 0, 9, 4]),  # probabilities are squared
        ({"top_p": 0.6}, [50, 0, 30, 0]),  # 0.5 alone does not reach 0.6, with 0.3 it does
        ({"top_p": 0.4}, [1, 0, 0, 0]),
        ({"top_p": 1 - 1e-9}, [50, 0, 30, 20]),
    ],
)
def test_evenly_spread_draws_give_the_distribution_itself(options, shares):
    count = 20 * sum(shares)
    assert np.bincount(drawn(((np.arange(count) + 0.5) / count).tolist(), **options), minlength=4).tolist() == [
        20 * share for share in shares
    ]


def test_bounds_belong_to_the_token_above_and_none_has_probability_0():
    assert drawn([0.0, 0.499, 0.501, 0.799, 0.801, 1 - 2**-53]) == [0, 0, 2, 2, 3, 3]


@given(st.lists(st.floats(-30, 30), min_size=1, max_size=40), st.floats(0, 1, exclude_max=True))
def test_a_draw_is_the_inverse_of_the_cumulated_distribution(logits, uniform):
    row = torch.tensor([logits], dtype=torch.float64)
    found = int(draw(row, torch.tensor([uniform], dtype=torch.float64)))
    reached = np.cumsum(torch.softmax(row, 1)[0].numpy())
    below = reached[found - 1] if found else 0.0
    assert below - 1e-9 <= uniform * reached[-1] <= reached[found] + 1e-9


def test_a_text_has_its_own_random_numbers():
    prompt = np.array([5, 6, 7])
    first = stream(0, 0, prompt).random(5).tolist()
    assert stream(0, 0, prompt.astype(np.int64)).random(5).tolist() == first
    others = [stream(1, 0, prompt), stream(0, 1, prompt), stream(0, 0, prompt[:2])]
    assert len({tuple(first), *(tuple(other.random(5)) for other in others)}) == 4


def test_texts_that_leave_take_their_numbers_with_them():
    prompt, logits = np.array([5]), torch.zeros(1, 10_000)

    def alone(index):
        sampler = Sampler(Sampling(0), [stream(0, index, prompt)])
        return [int(sampler.next_token(logits, None)) for _ in range(4)]

    together = Sampler(Sampling(0), [stream(0, index, prompt) for index in range(3)])
    found = [together.next_token(logits.expand(3, -1), None).tolist() for _ in range(2)]
    together.keep(torch.tensor([0, 2]))
    found += [together.next_token(logits.expand(2, -1), None).tolist() for _ in range(2)]
    assert [row[0] for row in found] == alone(0)
    assert [row[1] for row in found[:2]] == alone(1)[:2]
    assert [row[-1] for row in found] == alone(2)


STANDARD = Standard(2, *torch.randn(2, 32, generator=torch.Generator().manual_seed(0)))


def asked(tutor, contexts, alphas=(0.0,), indices=(0,)):
    return [Text(prompt, index, alpha) for prompt in tutor.prompts(contexts) for index in indices for alpha in alphas]


def test_a_batch_gives_what_single_texts_give(make_tutor, contexts):
    """With steering and drawn tokens: together, each in a batch of its own, and by the plain engine."""
    sampling = Sampling(5)
    together = make_tutor()
    texts = asked(together, contexts[:2], alphas=(0.0, 9.0, -9.0), indices=(0, 1))
    found = tokens(together.write(texts, sampling, STANDARD))
    single = make_tutor("single.sqlite", max_batch_tokens=1)
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
    again = make_tutor(trainer=refusing()).write(list(reversed(texts)), None, STANDARD)
    assert tokens(again) == tokens(first)[::-1]
    assert [each.text for each in again] == [each.text for each in first][::-1]
    # a strength of 0 needs no standard, and is one text with any
    plain = make_tutor(trainer=refusing()).write(asked(make_tutor(), contexts))
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
    settings = {"max_batch_tokens": 100}  # a context a batch
    whole = write_candidates(make_tutor("whole.sqlite", **settings), contexts)
    broken = make_tutor("broken.sqlite", trainer=make_trainer(Interrupted()), **settings)
    with pytest.raises(OSError, match="the power is gone"):
        write_candidates(broken, contexts)
    broken.runner.store.close()
    batches = []

    class Counting(Callback):
        def on_predict_batch_start(self, trainer, pl_module, batch, batch_idx, dataloader_idx=0):
            batches.append([prompt.example.group_id for prompt in batch.prompts])

    resumed = make_tutor("broken.sqlite", trainer=make_trainer(Counting()), **settings)
    found = write_candidates(resumed, contexts)
    assert batches == [[context.group_id] * 3 for context in contexts[1:]]
    assert tokens(found) == tokens(whole)
    assert [each.text for each in found] == [each.text for each in whole]


def test_more_candidates_leave_the_first_as_they_are(make_tutor, contexts):
    few = write_candidates(make_tutor("few.sqlite", candidates=2), contexts[1:])
    more = write_candidates(make_tutor("more.sqlite", candidates=4), contexts)
    kept = [
        each for each in more if each.asked.index < 2 and each.asked.prompt.example.group_id != contexts[0].group_id
    ]
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
