"""A pass in which the tutor writes texts, the keys of the texts in the store, and who computes such passes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import lightning as L
import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from judgebench.decoding.rules import Greedy
from judgebench.judges.engine.generation import Side, generate, stops_of
from judgebench.judges.loading import ModelSource
from judgebench.judges.loop import Models, Trainers, compute
from judgebench.judges.passes import ModelView, Pass, batch_tokens, engine_for, refuse_nan
from judgebench.judges.planning import Batch, roots
from judgebench.readings.reading import ModelReading, reading_key
from judgebench.readings.store import ReadingStore
from judgebench.tutor.sampling import Sampler, Sampling, stream
from judgebench.tutor.steering import Standard, Steer, steering
from judgebench.types import Prompt


@dataclass(frozen=True, kw_only=True)
class PassRunner:
    """Computes passes beside those of the judge, and keeps what they give.

    Attributes:
        store: where it is kept, the judge's own readings beside it.
        data: lends its loader to the predict loop; its `batches` are set.
        trainer: makes a Trainer with the given callbacks.
        models: the models in memory; the judge's, so that one model serves all.
    """

    store: ReadingStore
    data: L.LightningDataModule
    trainer: Trainers
    models: Models = field(default_factory=Models)

    def run(self, pass_: Pass, token_budget: int, doing: str) -> None:
        """Computes what the store lacks of a pass; see `judges.running.compute`."""
        compute([pass_], token_budget, self.store, self.models, self.data, self.trainer, doing)

    def view(self, source: ModelSource, engine: str) -> ModelView:
        """A model by its content, as the store's keys name it."""
        return ModelView(source, source.fingerprint(self.store.file_digest), engine)

    @property
    def device(self) -> torch.device:
        """The device that the configured trainer computes on."""
        device: torch.device = self.trainer([]).strategy.root_device
        return device


@dataclass(frozen=True)
class Text:
    """A text that a tutor is to write.

    Attributes:
        prompt: what the tutor reads.
        index: which of the sampled texts of this prompt; where nothing is sampled all are the same.
        alpha: how strongly it is steered: towards the high standard where above 0, towards the low one where below, not
            at all at 0.
    """

    prompt: Prompt
    index: int = 0
    alpha: float = 0.0


@dataclass(frozen=True, eq=False)
class Written:
    """A text that a tutor has written.

    Attributes:
        tokens: [tokens] int32, without what ended the text.
        text: the tokens as text, trimmed; empty where the tutor wrote nothing to be seen.
        cut: whether it would have gone on.
        seconds: its share of the wall time of its batch.
    """

    tokens: np.ndarray
    text: str
    cut: bool
    seconds: float = 0.0


@dataclass
class WritePass:
    """Texts of one tutor; see `judges.passes.Pass`.

    Args:
        view: the tutor.
        tokenizer: the tutor's.
        texts: what is to be written; those that come out the same are written once.
        max_new_tokens: most tokens of a text.
        sampling: how tokens are drawn; None takes the likeliest.
        standard: where texts are steered to; None where no text is.

    Attributes:
        prompts: one for each different text, condition by condition, contexts together.
    """

    view: ModelView
    tokenizer: PreTrainedTokenizerBase
    texts: Sequence[Text]
    max_new_tokens: int
    sampling: Sampling | None = None
    standard: Standard | None = None
    prompts: Sequence[Prompt] = field(init=False)

    def __post_init__(self) -> None:
        different = {self.key(text): text for text in self.texts}
        conditions = {text.prompt.condition: i for i, text in reversed(list(enumerate(self.texts)))}
        groups = {text.prompt.example.group_id: i for i, text in reversed(list(enumerate(self.texts)))}
        ordered = sorted(
            different.values(),
            key=lambda text: (conditions[text.prompt.condition], groups[text.prompt.example.group_id]),
        )
        # every text has a prompt of its own, by which the pass knows it again in a batch
        self.prompts = [replace(text.prompt) for text in ordered]
        self._text_of = {id(prompt): text for prompt, text in zip(self.prompts, ordered, strict=True)}

    @property
    def sources(self) -> Sequence[ModelSource]:
        """See `Pass`."""
        return [self.view.source]

    def key(self, text: Text) -> str:
        """Key of a text in the store. A strength of 0 is the plain tutor's text, whatever the standard."""
        steered = None
        if self.standard is not None and text.alpha != 0:
            steered = {"standard": self.standard.fingerprint, "alpha": float(text.alpha)}
        identity = {
            **self.view.identity(),
            "mode": "write",
            "max_new_tokens": self.max_new_tokens,
            "sampling": None if self.sampling is None else {**vars(self.sampling), "index": text.index},
            "steering": steered,
        }
        return reading_key(identity, text.prompt.token_ids)

    def keys(self, prompt: Prompt) -> list[str]:
        """See `Pass`."""
        return [self.key(self._text_of[id(prompt)])]

    def prepare(self, models: Mapping[ModelSource, PreTrainedModel]) -> None:
        """See `Pass`."""
        self._model = models[self.view.source]
        self._engine = engine_for(self._model, [self.view])
        self._roots = roots(self.prompts)
        self._stops = stops_of(self._model, self.tokenizer)

    def release(self) -> None:
        """See `Pass`."""
        del self._engine, self._model

    def read(self, batch: Batch) -> list[ModelReading]:
        """See `Pass`."""
        began = time.perf_counter()
        prompts, ids = batch.prompts, batch_tokens(batch)
        if self.view.engine == "plain":  # which reads prompts one by one, so that a layer cannot tell whose turn it is
            answers = [self._write([[prompt.token_ids]], [prompt], None)[0] for prompt in prompts]
        else:
            answers = self._write(ids, prompts, self._roots[prompts[0].condition])
        seconds = (time.perf_counter() - began) / len(prompts)
        return [
            ModelReading(
                self.keys(prompt)[0],
                None,
                str(self.tokenizer.decode(tokens, skip_special_tokens=True)),
                seconds,
                np.array(tokens, np.int32),
            )
            for prompt, tokens in zip(prompts, answers, strict=True)
        ]

    def _write(
        self, ids: Sequence[Sequence[np.ndarray]], prompts: Sequence[Prompt], root: np.ndarray | None
    ) -> list[list[int]]:
        """The tokens of each prompt's text."""
        texts = [self._text_of[id(prompt)] for prompt in prompts]
        steer = None
        if self.standard is not None and any(text.alpha for text in texts):
            steer = Steer(self.standard, torch.tensor([text.alpha for text in texts]), self._model.device)
        with steering(self._model, steer):
            answers = self._engine.start(ids, root)
            sides: list[Side] = [answers] if steer is None else [answers, steer]
            sampler = None
            if self.sampling is not None:
                streams = [stream(self.sampling.seed, text.index, text.prompt.token_ids) for text in texts]
                sampler = Sampler(self.sampling, streams)
                sides.append(sampler)

            def logits() -> tuple[torch.Tensor, None]:
                now = answers.logits[0]
                refuse_nan(now.sum(dim=1, keepdim=True).cpu().numpy(), prompts, self.view.source)
                return now, None

            return generate(sides, logits, sampler or Greedy(), self._stops, self.max_new_tokens)


def write(pass_: WritePass, runner: PassRunner, token_budget: int, doing: str = "Writing") -> list[Written]:
    """The texts of a pass, in order; those that the store lacks are written.

    Args:
        token_budget, doing: see `judges.running.compute`.
    """
    runner.run(pass_, token_budget, doing)
    keys = [pass_.key(text) for text in pass_.texts]
    readings = runner.store.get(keys)
    return [_written(readings[key], pass_.max_new_tokens) for key in keys]


def _written(reading: ModelReading, max_new_tokens: int) -> Written:
    assert reading.tokens is not None
    cut = len(reading.tokens) >= max_new_tokens
    return Written(reading.tokens, (reading.text or "").strip(), cut, reading.seconds)
