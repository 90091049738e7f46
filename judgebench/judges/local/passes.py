"""Passes of a model over prompts: what each reads, under which keys the store holds it, and how it
is computed."""

from __future__ import annotations

import copy
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
import torch
import transformers
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from judgebench.judges.engine import prefix
from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.engine.encoder_decoder import EncoderDecoderEngine, check_encoder_decoder
from judgebench.judges.engine.generate import Chooser, Continuations, generate, stops_of
from judgebench.judges.engine.hardware import hardware, head_size
from judgebench.judges.engine.plain import Engine, PlainEngine, Wanted, check_head
from judgebench.judges.engine.prefix import PrefixEngine, check_packing
from judgebench.judges.local.batches import Batch, Pass, roots
from judgebench.judges.local.loading import ModelSource
from judgebench.prompts.thoughts import END_OF_THINK
from judgebench.readings.reading import ModelReading, reading_key
from judgebench.readings.store import ReadingStore
from judgebench.types import Array, Condition, Prompt, Record, ScoreRange
from judgebench.words.errors import UserError


@dataclass(frozen=True)
class ModelView:
    """A model whose next-token distributions are read, at its end or at an earlier `exit` (layers
    before it). `fingerprint` is the SHA-256 of its content; results of `engine`s, `prefix` and
    `plain`, differ in the last bits. `check`: see `JudgeSpec`."""

    source: ModelSource
    fingerprint: str
    engine: str = "prefix"
    exit: int | None = None
    check: str = "once"

    def identity(self) -> Record:
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
        following: the batch that is read next, which may be made ready while a GPU is at work.
        on_gpu: so many times the tokens are read together there: a GPU is not busy with fewer.
    """

    views: Sequence[ModelView]
    engines: Sequence[Engine]
    following: Batch | None = None
    on_gpu = 4

    @property
    def sources(self) -> Sequence[ModelSource]:
        """The models that it needs in memory together."""
        return list(dict.fromkeys(view.source for view in self.views))

    @property
    def title(self) -> str:
        return " and ".join(source.title for source in self.sources)

    def batches(self, max_batch_tokens: int) -> list[Batch]:
        times = self.on_gpu if hardware().device.type == "cuda" else 1
        return super().batches(times * max_batch_tokens)

    @cached_property
    def roots(self) -> dict[tuple[Condition, str], Array]:
        return roots(self.prompts)

    def prepare(
        self, models: Mapping[ModelSource, PreTrainedModel], store: ReadingStore | None = None
    ) -> None:
        """Takes its models, once, and proves that they can be read, where the `store` does not hold
        that this has been proven."""
        views = {
            source: [view for view in self.views if view.source == source]
            for source in self.sources
        }
        # 1. processes that share models agree on what is proven before any of them reads
        facts = {
            source: proof_of(models[source], views[source])
            for source in self.sources
            if store is not None and all(view.check == "once" for view in views[source])
        }
        proven = {source for source in facts if store and store.proven(facts[source])}
        # 2. the engines, which are tried
        self.engines = [
            engine_for(models[source], views[source], proven=source in proven) for source in views
        ]
        if store is not None:
            for source in facts.keys() - proven:
                store.add_proof(facts[source])

    def release(self) -> None:
        self.engines = []

    def read(self, batch: Batch) -> list[ModelReading]:
        began = time.perf_counter()
        results = self.results(batch)
        seconds = (time.perf_counter() - began) / len(results)
        readings = []
        for prompt, of_prompt in zip(batch.prompts, results, strict=True):
            for key, result in zip(self.keys(prompt), of_prompt, strict=True):
                readings.append(self.reading(key, result, seconds))
        return readings

    def results(self, batch: Batch) -> Sequence[Sequence[Any]]:
        """For each prompt of a batch and each of its keys what `reading` makes a reading of."""
        raise NotImplementedError

    def reading(self, key: str, result: Any, seconds: float) -> ModelReading:
        return ModelReading(key, result, None, seconds)

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

    def key(self, view: ModelView, prompt: Prompt) -> str:
        paths = self.tries[prompt.condition.range].token_paths
        return reading_key(
            {**view.identity(), "mode": "score_tokens", "paths": paths}, prompt.token_ids
        )

    def keys(self, prompt: Prompt) -> list[str]:
        return [self.key(view, prompt) for view in self.views]

    def results(self, batch: Batch) -> Sequence[Sequence[Any]]:
        following = None if self.following is None else self._wanted(self.following)
        logprobs = self.engines[0].read(*self._wanted(batch), following=following)
        rows = [of_view.float().cpu().numpy() for of_view in logprobs]
        for view, values in zip(self.views, rows, strict=True):
            refuse_nan(values, batch.prompts, view.source)
        return list(zip(*rows, strict=True))

    def _wanted(self, batch: Batch) -> Wanted:
        first = batch.prompts[0]
        return batch.token_ids, self.tries[first.condition.range], self.roots[first.alike]


class AnswersPass(LocalPass):
    """Answers in words, which stored readings hold as text and, where `with_tokens`, as tokens."""

    tokenizer: PreTrainedTokenizerBase
    max_new_tokens: int
    with_tokens = True
    on_gpu = 16  # a step reads all weights, whether for 20 answers or for 300

    def stops(self) -> set[int]:
        """The tokens that end an answer."""
        return stops_of(self.engines[0].model, self.tokenizer)

    def answers(
        self, prompts: Sequence[Prompt], main: Continuations, chooser: Chooser, **sides: Any
    ) -> list[list[int]]:
        """The tokens that `generate` answers these prompts with; `UserError` for NaN."""
        sources = [view.source for view in self.views]

        def fail(answer: int, model: int) -> None:
            refuse_nan(np.full((1, 1), np.nan), [prompts[answer]], sources[-model])

        return generate(main, chooser, self.stops(), self.max_new_tokens, fail=fail, **sides)

    def reading(self, key: str, result: Any, seconds: float) -> ModelReading:
        text = str(self.tokenizer.decode(result, skip_special_tokens=True))
        ids = np.array(result, np.int32) if self.with_tokens else None
        return ModelReading(key, None, text, seconds, ids)


@dataclass
class FreeAnswerPass(AnswersPass):
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
        self.with_tokens = self.thoughts

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

    def stops(self) -> set[int]:
        stops = super().stops()
        if self.thoughts and (end := self.tokenizer.get_vocab().get(END_OF_THINK)) is not None:
            stops.add(end)
        return stops

    def results(self, batch: Batch) -> Sequence[Sequence[Any]]:
        prompts = batch.prompts
        root = self.roots[prompts[0].alike]
        # the assistant is the same model without the text, another model, or an earlier exit
        main = self.engines[0].start(batch.token_ids, root)
        assistant = None
        if self.nulls is not None:
            null = self.nulls[prompts[0].condition]
            assistant = self.engines[0].start([[null.token_ids] * len(prompts)])
        elif len(self.engines) > 1:
            assistant = self.engines[1].start(batch.token_ids, root)
        return [
            [tokens] for tokens in self.answers(prompts, main, self.chooser, assistant=assistant)
        ]


def refuse_nan(values: Array, prompts: Sequence[Prompt], source: ModelSource) -> None:
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


def proof_of(model: PreTrainedModel, views: Sequence[ModelView]) -> str:
    """All that the proof depends on that `views`, the exits of one model, can be read, as JSON."""
    on_gpu = model.device.type == "cuda"
    facts = {
        "views": [view.identity() for view in views],
        "weights": sorted({f"{type(x).__name__} {x.dtype}" for x in model.parameters()}),
        "code": _code(),
        "device": model.device.type,
        "hardware": torch.cuda.get_device_name(model.device)
        if on_gpu
        else dict(torch.cpu.get_capabilities()),
        "versions": [torch.__version__, transformers.__version__],
    }
    return json.dumps(facts, sort_keys=True)


@cache
def _code() -> str:
    """SHA-256 of the files that read models."""
    files = [Path(__file__), *sorted(Path(prefix.__file__).parent.glob("*.py"))]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def engine_for(
    model: PreTrainedModel, views: Sequence[ModelView], room: int = 0, proven: bool = False
) -> Engine:
    """The engine that reads `views`, the exits of one model, tried on the model at hand unless it
    is `proven`; `UserError` where it cannot be read so. `room`: see `PrefixEngine`."""
    exits = [view.exit for view in views]
    alone = views[0].engine == "plain"
    way = (alone, *exits, model.device)
    tried = _tried.setdefault(model, set())
    if proven:
        tried.add(way)
    engine: PrefixEngine | PlainEngine | EncoderDecoderEngine
    if model.config.is_encoder_decoder:
        assert exits == [None], "an encoder-decoder model is read at its end alone"
        engine = EncoderDecoderEngine(model, alone)
        if way not in tried:
            check_encoder_decoder(engine)
    else:
        if way not in tried:
            check_head(model)
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

    def results(self, batch: Batch) -> Sequence[Sequence[Any]]:
        rows = [row.cpu().numpy() for row in self.engines[0].likelihoods(batch.token_ids)[0]]
        for prompt, logprobs in zip(batch.prompts, rows, strict=True):
            refuse_nan(logprobs[None], [prompt], self.view.source)
        return [[logprobs] for logprobs in rows]
