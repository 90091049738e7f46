"""Passes of a model over prompts: what each reads, under which keys the store holds it, and how it
is computed."""

from __future__ import annotations

import copy
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.engine.kernels import hardware, head_size
from judgebench.judges.engine.plain import (
    Chooser,
    EncoderDecoderEngine,
    Engine,
    Head,
    PlainEngine,
    Wanted,
    check_encoder_decoder,
    check_head,
    generate,
    stops_of,
)
from judgebench.judges.engine.prefix import PrefixEngine, check_packing
from judgebench.judges.local.batches import Batch, Pass, roots
from judgebench.judges.local.loading import ModelSource
from judgebench.prompts.thoughts import END_OF_THINK
from judgebench.readings.reading import ModelReading, reading_key
from judgebench.runtime.errors import UserError
from judgebench.types import Condition, Prompt, ScoreRange


@dataclass(frozen=True)
class ModelView:
    """A model whose next-token distributions are read, at its end or at an earlier `exit` (layers
    before it). `fingerprint` is the SHA-256 of its content; results of `engine`s, `prefix` and
    `plain`, differ in the last bits."""

    source: ModelSource
    fingerprint: str
    engine: str = "prefix"
    exit: int | None = None

    def identity(self) -> dict[str, Any]:
        """All that its distributions depend on, but the prompt."""
        return {
            "model": self.fingerprint,
            "engine": self.engine,
            "exit": self.exit,
            **self.arithmetic(),
        }

    def arithmetic(self) -> dict[str, str]:
        """The dtype and, in half precision on a GPU, the kernels: there each rounds in its own
        way."""
        dtype = self.source.effective_dtype()
        packed = self.engine == "prefix" and not self.source.encoder_decoder
        kernels = hardware().kernels(dtype, head_size(self.source.config()) if packed else None)
        return {"dtype": dtype, **({} if kernels is None else {"kernels": kernels})}


class LocalPass(Pass):
    """One forward pass, or one generation, over each prompt, by the models of its `views`.

    Attributes:
        engines: of each source, once there are models; of exits of one model, one.
    """

    views: Sequence[ModelView]
    engines: Sequence[Engine]

    @property
    def sources(self) -> Sequence[ModelSource]:
        """The models that it needs in memory together."""
        return list(dict.fromkeys(view.source for view in self.views))

    @property
    def title(self) -> str:
        return " and ".join(source.title for source in self.sources)

    @cached_property
    def roots(self) -> dict[tuple[Condition, str], np.ndarray]:
        return roots(self.prompts)

    def prepare(self, models: Mapping[ModelSource, PreTrainedModel]) -> None:
        """Takes its models, once, and proves that they can be read."""
        views = {
            source: [view for view in self.views if view.source == source]
            for source in self.sources
        }
        self.engines = [engine_for(models[source], views[source]) for source in views]

    def release(self) -> None:
        self.engines = []

    def elsewhere(self) -> Self:
        """The same pass for another process, without prompts: they come batch by batch, each after
        `mark`."""
        other = copy.copy(self)
        # roots are those of all prompts
        other.roots = self.roots
        other.prompts = ()
        return other

    def marked(self, prompt: Prompt) -> Any:
        """All that the pass knows of a prompt besides its condition and tokens."""

    def mark(self, prompt: Prompt, known: Any) -> None:
        """Takes up a prompt of which another process's `marked` says this."""


@dataclass
class ScorePass(LocalPass):
    """Candidate log-probabilities of one model, at one or several exits (`views`) in the same
    forward pass."""

    views: Sequence[ModelView]
    prompts: Sequence[Prompt]
    tries: Mapping[ScoreRange, CandidateTrie]
    _ready: tuple[Batch, Wanted] | None = field(default=None, init=False, repr=False)

    def key(self, view: ModelView, prompt: Prompt) -> str:
        paths = self.tries[prompt.condition.range].token_paths
        return reading_key(
            {**view.identity(), "mode": "score_tokens", "paths": paths}, prompt.token_ids
        )

    def keys(self, prompt: Prompt) -> list[str]:
        return [self.key(view, prompt) for view in self.views]

    def release(self) -> None:
        super().release()
        self._ready = None

    def read(self, batch: Batch, following: Batch | None = None) -> list[ModelReading]:
        """Reads a batch; `following` is made ready while a GPU is at work."""

        def wanted(batch: Batch) -> Wanted:
            first = batch.prompts[0]
            return batch.token_ids, self.tries[first.condition.range], self.roots[first.alike]

        began = time.perf_counter()
        ready = self._ready
        prompts = batch.prompts
        now = ready[1] if ready is not None and ready[0] is batch else wanted(batch)
        self._ready = None if following is None else (following, wanted(following))
        per_view = self.engines[0].read(
            *now, following=None if self._ready is None else self._ready[1]
        )
        rows = [logprobs.float().cpu().numpy() for logprobs in per_view]
        seconds = (time.perf_counter() - began) / len(prompts)
        for view, values in zip(self.views, rows, strict=True):
            refuse_nan(values, prompts, view.source)
        return [
            ModelReading(self.key(view, prompt), row, None, seconds)
            for view, values in zip(self.views, rows, strict=True)
            for prompt, row in zip(prompts, values, strict=True)
        ]


@dataclass
class GeneratePass(LocalPass):
    """Free answers of one model, or of one less `minus`, which may read `nulls` instead (condition
    -> the prompt about nothing). `chooser` is the decoding that picks each token; its `repr` is
    part of the key. `thoughts` end at a closing think tag too, and their tokens are kept."""

    view: ModelView
    minus: ModelView | None
    nulls: Mapping[Condition, Prompt] | None
    chooser: Chooser
    prompts: Sequence[Prompt]
    tokenizer: PreTrainedTokenizerBase
    max_new_tokens: int
    thoughts: bool = False

    def __post_init__(self) -> None:
        # the assistant is another exit of the same pass, the same model on other prompts, or a
        # second model
        self.views = [self.view]
        if self.minus is not None and self.nulls is None:
            self.views.append(self.minus)

    def keys(self, prompt: Prompt) -> list[str]:
        null = None if self.nulls is None else self.nulls[prompt.condition].token_ids.tolist()
        identity = {
            **self.view.identity(),
            "mode": "think" if self.thoughts else "generate",
            "minus": None if self.minus is None else {**self.minus.identity(), "prompt": null},
            "chooser": repr(self.chooser),
            "max_new_tokens": self.max_new_tokens,
            "draft": 0,  # as stores of earlier versions have it
        }
        return [reading_key(identity, prompt.token_ids)]

    def read(self, batch: Batch) -> list[ModelReading]:
        began = time.perf_counter()
        prompts = batch.prompts
        stops = stops_of(self.engines[0].model, self.tokenizer)
        if self.thoughts and (end := self.tokenizer.get_vocab().get(END_OF_THINK)) is not None:
            stops |= {end}
        answers = self._answers(batch, stops)
        seconds = (time.perf_counter() - began) / len(prompts)
        readings = []
        for prompt, tokens in zip(prompts, answers, strict=True):
            key = self.keys(prompt)[0]
            text = str(self.tokenizer.decode(tokens, skip_special_tokens=True))
            thoughts = np.array(tokens, np.int32) if self.thoughts else None
            readings.append(ModelReading(key, None, text, seconds, thoughts))
        return readings

    def _answers(self, batch: Batch, stops: Collection[int]) -> list[list[int]]:
        """The tokens that each prompt of a batch is answered with, one step of all of them at a
        time."""
        prompts = batch.prompts
        groups = batch.token_ids
        root = self.roots[prompts[0].alike]
        # 1. both sides behind the prompts: the assistant is the same model without the text,
        # another model, or an earlier exit of the same
        main = self.engines[0].start(groups, root)
        assistant = None
        if self.nulls is not None:
            null = self.nulls[prompts[0].condition]
            assistant = self.engines[0].start([[null.token_ids] * len(prompts)])
        elif len(self.engines) > 1:
            assistant = self.engines[1].start(groups, root)

        def checked(logits: Tensor, source: ModelSource) -> Tensor:
            refuse_nan(logits.sum(dim=1, keepdim=True).cpu().numpy(), prompts, source)
            return logits

        def logits() -> tuple[Tensor, Tensor | None]:
            """[prompts, vocabulary] of both sides; None without an assistant."""
            ours = checked(main.logits[0], self.view.source)
            if assistant is None and len(main.logits) == 1:
                return ours, None
            other = main.logits[1] if assistant is None else assistant.logits[0]
            theirs = checked(other, (self.minus or self.view).source)
            # models of one family may pad their heads to different sizes behind the same vocabulary
            size = min(ours.shape[1], theirs.shape[1])
            return ours[:, :size], theirs[:, :size].to(ours.device)

        # 2. token by token
        sides = [main] if assistant is None else [main, assistant]
        return generate(
            sides,
            logits,
            self.chooser,
            stops,
            self.max_new_tokens,
        )


def refuse_nan(values: np.ndarray, prompts: Sequence[Prompt], source: ModelSource) -> None:
    """Raises UserError for a NaN among values [rows, any], with its example where there are as many
    rows as prompts."""
    bad = np.isnan(values).any(axis=1)
    if not bad.any():
        return
    about = (
        f" to example {prompts[int(bad.argmax())].example.example_id}"
        if len(values) == len(prompts)
        else ""
    )
    hint = (
        "; float16 overflows in some models: try dtype bfloat16"
        if source.effective_dtype() == "float16"
        else ""
    )
    raise UserError(
        f"{source.title} answers{about} with NaN, so its weights or its dtype are not fit to "
        f"judge{hint}."
    )


_tried: WeakKeyDictionary[PreTrainedModel, set[tuple[Any, ...]]] = WeakKeyDictionary()
"""Model -> ways of reading it that have passed their check, which takes longer than reading a
text."""


def engine_for(model: PreTrainedModel, views: Sequence[ModelView], room: int = 0) -> Engine:
    """The engine that reads `views`, the exits of one model, tried on the model at hand;
    `UserError` where it cannot be read so. `room`: see `PrefixEngine`."""
    exits = [view.exit for view in views]
    alone = views[0].engine == "plain"
    way = (alone, *exits, model.device)
    tried = _tried.setdefault(model, set())
    engine: PrefixEngine | PlainEngine | EncoderDecoderEngine
    if model.config.is_encoder_decoder:
        assert exits == [None], "an encoder-decoder model is read at its end alone"
        engine = EncoderDecoderEngine(model, alone)
        if way not in tried:
            check_encoder_decoder(engine)
    else:
        if way not in tried:
            check_head(model, Head(model))
        engine = PlainEngine(model, exits) if alone else PrefixEngine(model, exits, room)
        if way not in tried and isinstance(engine, PrefixEngine):
            check_packing(engine)
    tried.add(way)
    return engine


@dataclass
class LikelihoodPass(LocalPass):
    """The log-probability of every token of a text after its first, given those before; not of
    encoder-decoder models, which predict an answer and not the text that they read.

    Prompts (`prompts.texts.text_prompts`) have two tokens at least, and begin with the tokenizer's
    BOS, if any, so that a text's first own token counts too. Texts that begin alike share what is
    computed where they are of one group.
    """

    view: ModelView
    prompts: Sequence[Prompt]

    def __post_init__(self) -> None:
        self.view.source.check_decoder_only("say how likely a text is")
        self.views = [self.view]

    def keys(self, prompt: Prompt) -> list[str]:
        return [reading_key({**self.view.identity(), "mode": "likelihood"}, prompt.token_ids)]

    def read(self, batch: Batch) -> list[ModelReading]:
        began = time.perf_counter()
        exits = self.engines[0].likelihoods(batch.token_ids)
        rows = [row.cpu().numpy() for row in exits[0]]
        seconds = (time.perf_counter() - began) / len(rows)
        readings = []
        for prompt, logprobs in zip(batch.prompts, rows, strict=True):
            refuse_nan(logprobs[None], [prompt], self.view.source)
            key = self.keys(prompt)[0]
            readings.append(ModelReading(key, logprobs, None, seconds))
        return readings
