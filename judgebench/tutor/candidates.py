"""Candidates: texts that the tutor writes unsteered, their scores by the judge, and their hidden states (CAP, 4.2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from judgebench.decoding.rules import Decoding, Expectation, Greedy
from judgebench.decoding.scores import decode
from judgebench.judges.assistants import Assistant
from judgebench.judges.engine.hardware import out_of_memory
from judgebench.judges.engine.packing import Groups
from judgebench.judges.engine.plain import Engine
from judgebench.judges.passes import batch_tokens, engine_for
from judgebench.judges.planning import Batch, halves, plan
from judgebench.judges.reader import Reader
from judgebench.judges.spec import JudgeSpec, ReadingTask
from judgebench.prompts.builder import PromptBuilder
from judgebench.tutor.steering import current, decoder_layers
from judgebench.tutor.tutor import Tutor, written_example
from judgebench.tutor.writing import PassRunner, Text, Written
from judgebench.types import FAILED, Condition, Example, Prompt, Reading

TextScorer = Callable[[Sequence[Example]], np.ndarray]
"""[examples] the judge's score of each, NaN where it gave none (see `JudgeScorer`)."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Candidate(Written):
    """One text for one context: the prompt that the tutor read, and which of the context's texts it is, from 0."""

    prompt: Prompt
    index: int

    @property
    def example(self) -> Example:
        """The candidate as a judged text."""
        return written_example(self.prompt.example, str(self.index), self.text)


def write_candidates(tutor: Tutor, contexts: Sequence[Example]) -> list[Candidate]:
    """`tutor.spec.candidates` sampled texts of each context, context by context.

    A text depends on the model, the seed, its context and its index alone: more candidates, or other contexts, leave
    those that are there as they are.
    """
    prompts = tutor.prompts(contexts)
    texts = [Text(prompt, index) for prompt in prompts for index in range(tutor.spec.candidates)]
    written = tutor.write(texts, tutor.sampling)
    return [
        Candidate(**vars(each), prompt=text.prompt, index=text.index) for text, each in zip(texts, written, strict=True)
    ]


@dataclass
class JudgeScorer:
    """Scores texts as the judge scores any other under one condition, clean and undefended.

    Args:
        judge: in `score_tokens` mode its expected score counts (as the paper scores), in `generate` mode the score that
            it writes.
        builder: builds the judge's prompts; knows the condition's rubric.
        runner: computes and keeps the readings; the tutor's, so that one model serves both.
    """

    judge: JudgeSpec
    builder: PromptBuilder
    condition: Condition
    runner: PassRunner

    def __call__(self, examples: Sequence[Example]) -> np.ndarray:
        """[examples] float64, in order; NaN where the judge's answer holds no score. Their ids differ."""
        unrated = [replace(example, human={self.condition.dimension: math.nan}) for example in examples]
        columns = decode(self.readings(unrated), {"score": self._decoding})
        scores = np.where(columns["status"] == FAILED, np.nan, columns["score"].astype(np.float64))
        by_example = dict(zip(columns["example_id"], scores, strict=True))
        return np.array([by_example[example.example_id] for example in examples])

    def readings(self, examples: Sequence[Example]) -> list[Reading]:
        """Readings of the judge, group by group."""
        task = ReadingTask(
            assistant=Assistant(),
            decodings={"score": self._decoding},
            prompts=self.builder.build(examples, [self.condition]),
            tokenizer=self.builder.tokenizer,
            null=self.builder.null,
            store=lambda: self.runner.store,
            models=self.runner.models,
        )
        reader = Reader(self.judge, task)
        reader.read(self.runner.data, self.runner.trainer)
        return reader.readings({example.group_id: "" for example in examples})

    @property
    def _decoding(self) -> Decoding:
        return Greedy() if self.judge.mode == "generate" else Expectation()

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the judge's content."""
        return self.judge.source.fingerprint(self.runner.store.file_digest)


def candidate_states(tutor: Tutor, candidates: Sequence[Candidate]) -> np.ndarray:
    """Hidden states of the tutor at the last token of each text that it wrote: [candidates, layers, hidden] float32,
    the output of every layer; the last layer's before the final norm. `UserError` where layers are not found, or a text
    does not fit into memory."""
    prompts = [
        replace(each.prompt, token_ids=np.concatenate([each.prompt.token_ids, each.tokens]).astype(np.int32))
        for each in candidates
    ]
    position = {id(prompt): i for i, prompt in enumerate(prompts)}
    order = {prompt.example.group_id: i for i, prompt in reversed(list(enumerate(prompts)))}
    prompts.sort(key=lambda prompt: order[prompt.example.group_id])
    runner = tutor.runner
    runner.models.make_room({tutor.spec.source})
    with torch.inference_mode():
        model: Any = runner.models.get(tutor.spec.source).to(runner.device)  # type: ignore[arg-type]
        engine = engine_for(model, [tutor.view])
        found: list[np.ndarray] = [np.zeros(0)] * len(prompts)
        for batch in plan(prompts, tutor.spec.token_budget):
            for prompt, states in zip(batch.prompts, _of_batch(engine, model, batch), strict=True):
                found[position[id(prompt)]] = states
    return np.stack(found)


def final_states(engine: Engine, model: PreTrainedModel, groups: Groups) -> torch.Tensor:
    """The output of every layer at the last token of each text: [texts, layers, hidden] float32 on the CPU.

    Args:
        groups: [tokens] token ids of each text, those that begin alike together.
    """
    # the plain engine reads texts one by one, so each pass over the layers is one text's
    parts = []
    with _capturing(model) as kept:
        engine.start(groups)
        layers = len(decoder_layers(model))
        for start in range(0, len(kept), layers):
            parts.append(torch.stack(kept[start : start + layers], dim=1))
    return torch.cat(parts)


def _of_batch(engine: Engine, model: PreTrainedModel, batch: Batch) -> list[np.ndarray]:
    try:
        return list(final_states(engine, model, batch_tokens(batch)).numpy())
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        if not out_of_memory(error) or len(batch.prompts) == 1:
            raise
    # outside of the handler, which would keep the failed pass's tensors alive
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return [states for half in halves(batch) for states in _of_batch(engine, model, half)]


@contextmanager
def _capturing(model: PreTrainedModel) -> Iterator[list[torch.Tensor]]:
    """Within it, the current positions' states [texts, hidden] of every layer that runs are put on a list."""
    kept: list[torch.Tensor] = []

    def hook(module: torch.nn.Module, given: object, output: Any) -> None:
        states = current(output)
        if len(states):
            kept.append(states.float().cpu())

    handles = []
    try:
        for layer in decoder_layers(model):
            handles.append(layer.register_forward_hook(hook))
        yield kept
    finally:
        for handle in handles:
            handle.remove()
