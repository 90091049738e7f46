"""The tutor as configuration says it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

from judgebench.judges.local.loading import ModelSettings, ModelSource
from judgebench.judges.spec import ENGINES
from judgebench.settings.fields import (
    Amount,
    Annotated,
    Count,
    Ge,
    Gt,
    Le,
    Natural,
    NotBlank,
    OneOf,
    Positive,
    Words,
    check_fields,
)
from judgebench.words.errors import UserError

ALPHA_UNITS = ("one", "norm")

PRINTED_TOKENS = {"summary": 128, "dialogue": 64}
"""The paper's longest texts, by the prompts that ask for them."""


class Sizes(NamedTuple):
    """Numbers of a model's layers, of entries of a hidden state, and of tokens that it can read at
    most."""

    layers: int
    hidden: int
    most: int


@dataclass(frozen=True)
class HelpingModel(ModelSettings):
    """A model besides those that judge.

    Args:
        path, gguf_file, revision, dtype, trust_remote_code: see `ModelSettings`; the judge's own
            make it one model in memory.
        engine: `prefix`, many texts at once over shared prompts; `plain`, every text by itself.
        max_batch_tokens: texts are read together up to so many tokens to compute.
    """

    engine: Annotated[str, OneOf(ENGINES)] = "prefix"
    max_batch_tokens: Count = 8192
    role: ClassVar[str]

    @cached_property
    def source(self) -> ModelSource:
        return self.source_for(self.role)

    @cached_property
    def longest(self) -> int:
        """Tokens that it can read at most."""
        text = self.source.config().get_text_config(decoder=True)
        return int(getattr(text, "max_position_embeddings", None) or 2**31)


@dataclass(frozen=True)
class TutorSpec(HelpingModel):
    """Which model writes references, and how (conf/tutor has a file a model); see also
    `HelpingModel`.

    Args:
        prompts: which prompts ask for texts: `summary`, `dialogue`, or a folder of the user's own.
        max_new_tokens: longest text; None is the paper's, 128 for summaries and 64 for replies.
        candidates: texts sampled of each context for the standard vectors.
        temperature, top_p: of that sampling, and of references where they are sampled.
        seed: of all sampling.
        high_percentile, low_percentile: candidates scored at or above, or at or below, are the high
            and low set.
        components: dimensions that the states of a layer are reduced to before separability is
            measured; None is none.
        layer: where to steer, counted from 1; None is the layer that separates best.
        alpha_high, alpha_low: strengths of equations 4 and 5; None takes that of `strengths` whose
            texts score nearest to the high, or the low, threshold.
        alpha_unit: `one`, or `norm`: multiples of the mean length of the states at the steered
            layer, which makes strengths of different tutors and layers comparable.
        strengths: strengths, of at least 0, at which the judge scores steered texts of the training
            contexts (the paper's figure 10); None tries none.
        sample_references: draw the references' tokens too, instead of taking the likeliest.
        vectors: a file of standard vectors to use instead of finding them.
    """

    prompts: str = "summary"
    max_new_tokens: Count | None = None
    candidates: Count = 16
    temperature: Positive = 1.0
    top_p: Annotated[float, Gt(0), Le(1)] = 1.0
    seed: Natural = 0
    high_percentile: Annotated[float, Ge(0), Le(100)] = 80.0
    low_percentile: Annotated[float, Ge(0), Le(100)] = 20.0
    components: Count | None = None
    layer: Count | None = None
    alpha_high: Amount | None = 3.0
    alpha_low: Amount | None = 3.0
    alpha_unit: Annotated[str, OneOf(ALPHA_UNITS)] = "one"
    strengths: Annotated[Sequence[Amount], NotBlank()] | None = None
    sample_references: bool = False
    vectors: Words | None = None
    role: ClassVar[str] = "tutor"

    def __post_init__(self) -> None:
        check_fields(self, "tutor")

    def faults(self) -> Iterator[str]:
        for name in ("alpha_high", "alpha_low"):
            if getattr(self, name) is None and not self.strengths:
                yield (
                    f"tutor.{name}: None is not a number of at least 0, and tutor.strengths, to "
                    "choose from, is not given."
                )
        if self.low_percentile >= self.high_percentile:
            yield (
                f"tutor.low_percentile: {self.low_percentile:g} must lie below "
                f"tutor.high_percentile={self.high_percentile:g}."
            )

    @cached_property
    def sizes(self) -> Sizes:
        """The model's own; `UserError` for an encoder-decoder model, whose states are not a text's
        alone."""
        self.source.check_decoder_only("write texts that are steered")
        text = self.source.config().get_text_config(decoder=True)
        return Sizes(int(text.num_hidden_layers), int(text.hidden_size), self.longest)

    @property
    def most_tokens(self) -> int:
        """Tokens of the longest text; `UserError` where they are neither given nor known for these
        prompts."""
        if self.max_new_tokens is not None:
            return self.max_new_tokens
        if self.prompts not in PRINTED_TOKENS:
            raise UserError(
                f"tutor.max_new_tokens: there is no usual length for tutor.prompts={self.prompts}; "
                "give a whole number."
            )
        return PRINTED_TOKENS[self.prompts]
