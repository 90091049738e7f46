"""A pass in which the tutor writes texts, sampled or not; their keys in the store; who computes such passes."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from judgebench.decoding.rules import Greedy, checked_logits
from judgebench.judges.engine.generation import generate, stops_of
from judgebench.judges.engine.plain import Side
from judgebench.judges.loading import ModelSource
from judgebench.judges.passes import ModelView, Pass, batch_tokens, engine_for, refuse_nan
from judgebench.judges.planning import Batch, roots
from judgebench.judges.runner import PassRunner
from judgebench.readings.reading import ModelReading, reading_key
from judgebench.tutor.steering import Standard, Steer, steering
from judgebench.types import Prompt


@dataclass(frozen=True)
class Sampling:
    """Settings by which tokens are drawn; see `TutorSpec`.

    Args:
        temperature: logits are divided by it.
        top_p: of each distribution the likeliest tokens are kept that together have at least this probability; 1 keeps
            all.

    Raises:
        UserError: a value that is none of these.
    """

    seed: int
    temperature: float = 1.0
    top_p: float = 1.0


def stream(seed: int, index: int, prompt: np.ndarray) -> np.random.Generator:
    """The random numbers of one text, the index-th of its prompt [tokens].

    They depend on the arguments alone: not on the batch, not on how strongly the text is steered, so that texts of two
    strengths differ by the strength alone.
    """
    digest = hashlib.sha256(f"{seed} {index} ".encode())
    digest.update(np.ascontiguousarray(prompt, dtype=np.int32).tobytes())
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest.digest()[:16])))


class Sampler:
    """Draws the next token of each text from the text's own stream; a `Chooser`, and a `Side` of `generate`.

    Args:
        streams: [texts] of `stream`.
    """

    def __init__(self, sampling: Sampling, streams: Sequence[np.random.Generator]):
        self._sampling = sampling
        self._streams = list(streams)

    def next_token(self, main: torch.Tensor, assistant: torch.Tensor | None) -> torch.Tensor:
        """See `Chooser.next_token`: the token at which the cumulated probability passes a uniform draw."""
        drawn = torch.tensor([each.random() for each in self._streams], dtype=torch.float64)
        return draw(main, drawn.to(main.device), self._sampling.temperature, self._sampling.top_p)

    def step(self, tokens: torch.Tensor) -> None:
        """See `Side.step`; the streams have gone on already."""

    def keep(self, which: torch.Tensor) -> None:
        self._streams = [self._streams[i] for i in which.tolist()]


def draw(logits: torch.Tensor, uniform: torch.Tensor, temperature: float = 1.0, top_p: float = 1.0) -> torch.Tensor:
    """One token a row [rows] of logits [rows, vocabulary], by inverting the cumulated distribution at `uniform` [rows]
    in [0, 1); a token of probability 0 is never drawn. See `Sampling` for temperature and top_p."""
    probabilities = torch.softmax(checked_logits("main", logits) / temperature, dim=1)
    if top_p < 1:
        ordered, order = probabilities.sort(dim=1, descending=True, stable=True)
        before = ordered.double().cumsum(dim=1) - ordered
        probabilities = torch.zeros_like(ordered).scatter(1, order, ordered.masked_fill(before >= top_p, 0.0))
    reached = probabilities.double().cumsum(dim=1)
    # the last possible token's bound is the whole mass, so a draw below it stays among possible tokens
    return (reached <= uniform[:, None] * reached[:, -1:]).sum(dim=1)


@dataclass(frozen=True)
class Text:
    """A text that a tutor is to write.

    Attributes:
        index: which of the sampled texts of this prompt; where nothing is sampled all are the same.
        alpha: strength of steering: towards the high standard where above 0, towards the low one where below.
    """

    prompt: Prompt
    index: int = 0
    alpha: float = 0.0


@dataclass(frozen=True, eq=False)
class Written:
    """A text that a tutor has written: its tokens [tokens] int32, without what ended the text; the tokens as text,
    trimmed; True where it would have gone on (`cut`); its share of the wall time of its batch."""

    tokens: np.ndarray
    text: str
    cut: bool
    seconds: float = 0.0


@dataclass
class WritePass(Pass):
    """Texts of one tutor, each different one written once; see `judges.passes.Pass`.

    Args:
        sampling: how tokens are drawn; None takes the likeliest.
        standard: where texts are steered to; None where no text is.
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
        return [self.view.source]

    def key(self, text: Text) -> str:
        """Key of a text in the store. A strength of 0 is the plain tutor's text under any standard."""
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
        return [self.key(self._text_of[id(prompt)])]

    def prepare(self, models: Mapping[ModelSource, PreTrainedModel]) -> None:
        self._model = models[self.view.source]
        self._engine = engine_for(self._model, [self.view])
        self._roots = roots(self.prompts)
        self._stops = stops_of(self._model, self.tokenizer)

    def release(self) -> None:
        del self._engine, self._model

    def read(self, batch: Batch) -> list[ModelReading]:
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
        token_budget, doing: see `judges.loop.compute`.
    """
    runner.run(pass_, token_budget, doing)
    keys = [pass_.key(text) for text in pass_.texts]
    readings = runner.store.get(keys)
    written = []
    for reading in (readings[key] for key in keys):
        assert reading.tokens is not None
        cut = len(reading.tokens) >= pass_.max_new_tokens
        written.append(Written(reading.tokens, (reading.text or "").strip(), cut, reading.seconds))
    return written
