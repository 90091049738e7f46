"""Passes of a model over prompts: what each reads, under which keys the store holds it, and how it is computed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.engine.encoder_decoder import EncoderDecoderEngine, check_encoder_decoder
from judgebench.judges.engine.generation import Chooser, generate, speculate, stops_of
from judgebench.judges.engine.hardware import hardware, head_size
from judgebench.judges.engine.plain import Engine, Head, PlainEngine, Wanted, check_head
from judgebench.judges.engine.prefix import PackedAnswers, PrefixEngine, check_packing
from judgebench.judges.loading import ModelSource
from judgebench.judges.planning import Batch, plan, roots
from judgebench.readings.reading import ModelReading, reading_key
from judgebench.runtime.errors import UserError
from judgebench.types import Condition, Prompt, ScoreRange


@dataclass(frozen=True)
class ModelView:
    """A model whose next-token distributions are read, at its end or at an earlier exit.

    Attributes:
        fingerprint: SHA-256 of the model's content.
        engine: `prefix` or `plain`; they differ in the last bits.
        exit: layers before the exit; None is the full model.
    """

    source: ModelSource
    fingerprint: str
    engine: str = "prefix"
    exit: int | None = None

    def identity(self) -> dict[str, Any]:
        """All that its distributions depend on, but the prompt."""
        return {"model": self.fingerprint, "engine": self.engine, "exit": self.exit, **self.arithmetic()}

    def arithmetic(self) -> dict[str, str]:
        """The dtype and, in half precision on a GPU, the kernels: there each rounds in its own way."""
        dtype = self.source.effective_dtype()
        packed = self.engine == "prefix" and not self.source.encoder_decoder
        kernels = hardware().kernels(dtype, head_size(self.source.config()) if packed else None)
        return {"dtype": dtype, **({} if kernels is None else {"kernels": kernels})}


class Pass(Protocol):
    """One forward pass, or one generation, over each prompt."""

    prompts: Sequence[Prompt]

    @property
    def sources(self) -> Sequence[ModelSource]:
        """The models that it needs in memory together."""

    @property
    def title(self) -> str:
        """Short names of its models."""
        return " and ".join(source.title for source in self.sources)

    def batches(self, token_budget: int) -> list[Batch]:
        """All of its prompts, whether or not their readings are stored."""
        return plan(self.prompts, token_budget)

    def keys(self, prompt: Prompt) -> list[str]:
        """The keys under which the store holds what this pass computes for a prompt."""

    def prepare(self, models: Mapping[ModelSource, PreTrainedModel]) -> None:
        """Takes its models, once, and proves that they can be read."""

    def release(self) -> None:
        """Lets go of its models."""

    def read(self, batch: Batch) -> list[ModelReading]:
        """Computes a batch; the readings stand in no particular order."""


@dataclass
class ScorePass(Pass):
    """Candidate log-probabilities of one model, at one or several exits (`views`) in the same forward pass."""

    views: Sequence[ModelView]
    prompts: Sequence[Prompt]
    tries: Mapping[ScoreRange, CandidateTrie]
    _ready: tuple[Batch, Wanted] | None = field(default=None, init=False, repr=False)

    def _wanted(self, batch: Batch) -> Wanted:
        condition = batch.prompts[0].condition
        return batch_tokens(batch), self.tries[condition.range], self._roots[condition]

    @property
    def sources(self) -> Sequence[ModelSource]:
        return [self.views[0].source]

    def key(self, view: ModelView, prompt: Prompt) -> str:
        paths = self.tries[prompt.condition.range].token_paths
        return reading_key({**view.identity(), "mode": "score_tokens", "paths": paths}, prompt.token_ids)

    def keys(self, prompt: Prompt) -> list[str]:
        return [self.key(view, prompt) for view in self.views]

    def prepare(self, models: Mapping[ModelSource, PreTrainedModel]) -> None:
        self._engine = engine_for(models[self.sources[0]], self.views)
        self._roots = roots(self.prompts)

    def release(self) -> None:
        del self._engine
        self._ready = None

    def read(self, batch: Batch, following: Batch | None = None) -> list[ModelReading]:
        """Reads a batch; `following` is made ready while a GPU is at work."""
        began = time.perf_counter()
        prompts = batch.prompts
        wanted = self._ready[1] if self._ready is not None and self._ready[0] is batch else self._wanted(batch)
        self._ready = None if following is None else (following, self._wanted(following))
        per_view = self._engine.read(*wanted, *([] if self._ready is None else [self._ready[1]]))
        rows = [logprobs.float().cpu().numpy() for logprobs in per_view]
        seconds = (time.perf_counter() - began) / len(prompts)
        for values in rows:
            refuse_nan(values, prompts, self.sources[0])
        return [
            ModelReading(self.key(view, prompt), values[i], None, seconds)
            for view, values in zip(self.views, rows, strict=True)
            for i, prompt in enumerate(prompts)
        ]


@dataclass
class GeneratePass(Pass):
    """Free answers of one model, or of one model less another.

    Args:
        minus: the model that is subtracted at every token, if any.
        nulls: condition -> the prompt about nothing that `minus` reads instead, for the null context.
        chooser: the decoding that picks each token; its `repr` is part of the key.
        draft: tokens that the assistant drafts in a round of speculative decoding; 0 goes token by token. The answers
            are the same but where half precision makes a tie of two tokens, so it is part of the key.
    """

    view: ModelView
    minus: ModelView | None
    nulls: Mapping[Condition, Prompt] | None
    chooser: Chooser
    prompts: Sequence[Prompt]
    tokenizer: PreTrainedTokenizerBase
    max_new_tokens: int
    draft: int = 0

    @property
    def sources(self) -> Sequence[ModelSource]:
        return list(dict.fromkeys(view.source for view in (self.view, self.minus) if view is not None))

    def keys(self, prompt: Prompt) -> list[str]:
        null = None if self.nulls is None else self.nulls[prompt.condition].token_ids.tolist()
        identity = {
            **self.view.identity(),
            "mode": "generate",
            "minus": None if self.minus is None else {**self.minus.identity(), "prompt": null},
            "chooser": repr(self.chooser),
            "max_new_tokens": self.max_new_tokens,
            "draft": self.draft,
        }
        return [reading_key(identity, prompt.token_ids)]

    def prepare(self, models: Mapping[ModelSource, PreTrainedModel]) -> None:
        beside = self.minus is not None and self.minus.source == self.view.source and self.nulls is None
        views = [self.view, self.minus] if beside and self.minus is not None else [self.view]
        model = models[self.view.source]
        self._main = engine_for(model, views)
        self._roots = roots(self.prompts)
        self._assistant: Engine | None = None
        if self.nulls is not None:
            self._assistant = self._main
        elif self.minus is not None and not beside:
            self._assistant = engine_for(models[self.minus.source], [self.minus])
        self._stops = stops_of(model, self.tokenizer)

    def release(self) -> None:
        del self._main, self._assistant

    def read(self, batch: Batch) -> list[ModelReading]:
        began = time.perf_counter()
        prompts = batch.prompts
        root = self._roots[prompts[0].condition]
        main = self._main.start(batch_tokens(batch), root)
        assistant = None
        if self.nulls is not None and self._assistant is not None:
            assistant = self._assistant.start([[self.nulls[prompts[0].condition].token_ids] * len(prompts)])
        elif self._assistant is not None:
            assistant = self._assistant.start(batch_tokens(batch), root)

        def sound(source: ModelSource, logits: torch.Tensor) -> torch.Tensor:
            refuse_nan(logits.sum(dim=1, keepdim=True).cpu().numpy(), prompts, source)
            return logits

        def matched(ours: torch.Tensor, theirs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            ours = sound(self.view.source, ours)
            theirs = sound((self.minus or self.view).source, theirs)
            # models of one family may pad their heads to different sizes behind the same vocabulary
            size = min(ours.shape[1], theirs.shape[1])
            return ours[:, :size], theirs[:, :size].to(ours.device)

        def logits() -> tuple[torch.Tensor, torch.Tensor | None]:
            theirs = assistant.logits[0] if assistant is not None else main.logits[1] if len(main.logits) > 1 else None
            if theirs is None:
                return sound(self.view.source, main.logits[0]), None
            return matched(main.logits[0], theirs)

        if self.draft and isinstance(main, PackedAnswers) and isinstance(assistant, PackedAnswers):
            answers = speculate(main, assistant, matched, self.chooser, self.draft, self._stops, self.max_new_tokens)
        else:
            sides = [main] if assistant is None else [main, assistant]
            answers = generate(sides, logits, self.chooser, self._stops, self.max_new_tokens)
        seconds = (time.perf_counter() - began) / len(prompts)
        return [
            ModelReading(
                self.keys(prompt)[0], None, str(self.tokenizer.decode(tokens, skip_special_tokens=True)), seconds
            )
            for prompt, tokens in zip(prompts, answers, strict=True)
        ]


def refuse_nan(values: np.ndarray, prompts: Sequence[Prompt], source: ModelSource) -> None:
    """Raises UserError for a NaN among values [rows, any], with its example where there are as many rows as prompts."""
    bad = np.isnan(values).any(axis=1)
    if not bad.any():
        return
    about = f" to example {prompts[int(bad.argmax())].example.example_id}" if len(values) == len(prompts) else ""
    hint = "; float16 overflows in some models: try dtype bfloat16" if source.effective_dtype() == "float16" else ""
    raise UserError(f"{source.title} answers{about} with NaN, so its weights or its dtype are not fit to judge{hint}.")


def engine_for(model: PreTrainedModel, views: Sequence[ModelView], room: int = 0) -> Engine:
    """The engine that reads `views`, the exits of one model, tried on the model at hand.

    Args:
        room: see `PrefixEngine`.

    Raises:
        UserError: the model cannot be read so.
    """
    exits = [view.exit for view in views]
    way = (views[0].engine, *exits, model.device)
    checked = _tried.setdefault(model, set())
    engine: Engine
    if model.config.is_encoder_decoder:
        assert exits == [None], "an encoder-decoder model is read at its end alone"
        engine = whole = EncoderDecoderEngine(model, alone=views[0].engine == "plain")
        if way not in checked:
            check_encoder_decoder(whole)
    else:
        if way not in checked:
            check_head(model, Head(model))
        if views[0].engine == "plain":
            engine = PlainEngine(model, exits)
        else:
            engine = packed = PrefixEngine(model, exits, room)
            if way not in checked:
                check_packing(packed)
    checked.add(way)
    return engine


_tried: WeakKeyDictionary[PreTrainedModel, set[tuple[Any, ...]]] = WeakKeyDictionary()
"""Model -> ways of reading it that have passed their check, which takes longer than reading a text."""


def batch_tokens(batch: Batch) -> list[list[np.ndarray]]:
    """The tokens of a batch's prompts, group by group, as engines take them."""
    return [[prompt.token_ids for prompt in group] for group in batch.groups]


@dataclass
class LikelihoodPass(Pass):
    """The log-probability of every token of a text after its first, given those before.

    A text begins with the tokenizer's BOS, if any, so that its first own token counts too. Texts that begin alike
    should be of one group: what they share is computed once.

    Args:
        prompts: of two tokens at least (`prompts.texts.text_prompts`), groups together.

    Raises:
        UserError: an encoder-decoder model, which predicts an answer and not the text that it reads.
    """

    view: ModelView
    prompts: Sequence[Prompt]

    def __post_init__(self) -> None:
        self.view.source.check_decoder_only("say how likely a text is")

    @property
    def sources(self) -> Sequence[ModelSource]:
        return [self.view.source]

    def key(self, prompt: Prompt) -> str:
        """The key of a prompt's log-probabilities, [tokens - 1] float32."""
        return reading_key({**self.view.identity(), "mode": "likelihood"}, prompt.token_ids)

    def keys(self, prompt: Prompt) -> list[str]:
        return [self.key(prompt)]

    def prepare(self, models: Mapping[ModelSource, PreTrainedModel]) -> None:
        self._engine = engine_for(models[self.view.source], [self.view])

    def release(self) -> None:
        del self._engine

    def read(self, batch: Batch) -> list[ModelReading]:
        began = time.perf_counter()
        prompts = batch.prompts
        rows = [row.cpu().numpy() for row in self._engine.likelihoods(batch_tokens(batch))[0]]
        seconds = (time.perf_counter() - began) / len(prompts)
        readings = []
        for prompt, logprobs in zip(prompts, rows, strict=True):
            refuse_nan(logprobs[None], [prompt], self.view.source)
            readings.append(ModelReading(self.key(prompt), logprobs, None, seconds))
        return readings
