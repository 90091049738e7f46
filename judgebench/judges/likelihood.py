"""A pass that reads texts: how likely a model finds each of their tokens after what stands before it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from transformers import PreTrainedModel

from judgebench.judges.loading import ModelSource
from judgebench.judges.passes import Voice, engine_for, refuse_nan, token_ids
from judgebench.judges.planning import Batch
from judgebench.readings.reading import ModelReading, reading_key
from judgebench.types import Prompt


@dataclass
class LikelihoodPass:
    """The log-probability of every token of a text after its first, given what stands before; see `passes.Pass`.

    A text begins with the BOS that the tokenizer puts there, if any, so that its first own token counts too. Texts that
    begin alike, as a text and what attacks make of it, should be of one group: what they share is computed once.

    Args:
        voice: who reads.
        prompts: of two tokens at least (`prompts.texts.text_prompts`), groups together; in any other
            there is nothing to be foretold.

    Raises:
        UserError: an encoder-decoder model, which foretells an answer and not the text that it reads.
    """

    voice: Voice
    prompts: Sequence[Prompt]

    def __post_init__(self) -> None:
        self.voice.source.check_decoder_only("say how likely a text is")

    @property
    def sources(self) -> Sequence[ModelSource]:
        """See `Pass`."""
        return [self.voice.source]

    def key(self, prompt: Prompt) -> str:
        """Where the store holds the log-probabilities, [tokens - 1] float32."""
        return reading_key({**self.voice.identity(), "mode": "likelihood"}, prompt.token_ids)

    def keys(self, prompt: Prompt) -> list[str]:
        """See `Pass`."""
        return [self.key(prompt)]

    def prepare(self, models: Mapping[ModelSource, PreTrainedModel]) -> None:
        """See `Pass`."""
        self._engine = engine_for(models[self.voice.source], [self.voice])

    def release(self) -> None:
        """See `Pass`."""
        del self._engine

    def read(self, batch: Batch) -> list[ModelReading]:
        """See `Pass`."""
        began = time.perf_counter()
        prompts = batch.prompts
        found = [row.cpu().numpy() for row in self._engine.likelihoods(token_ids(batch))[0]]
        seconds = (time.perf_counter() - began) / len(prompts)
        for prompt, logprobs in zip(prompts, found, strict=True):
            refuse_nan(logprobs[None], [prompt], self.voice.source)
        return [
            ModelReading(self.key(prompt), logprobs, None, seconds)
            for prompt, logprobs in zip(prompts, found, strict=True)
        ]
