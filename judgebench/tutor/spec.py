"""The tutor as configuration says it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from judgebench.judges.loading import ModelSource
from judgebench.judges.settings import ENGINES
from judgebench.runtime.errors import UserError
from judgebench.tutor.sampling import Sampling

ALPHA_UNITS = ("one", "norm")

PRINTED_TOKENS = {"summary": 128, "dialogue": 64}
"""The paper's longest texts, by the prompts that ask for them."""


@dataclass(frozen=True)
class Sizes:
    """The sizes of a model.

    Attributes:
        layers: how many.
        hidden: numbers in a hidden state.
        most: tokens that it can read.
    """

    layers: int
    hidden: int
    most: int


@dataclass(frozen=True)
class TutorSpec:
    """Which model writes references, and how (conf/tutor has a file a model).

    Args:
        path, gguf_file, revision, dtype, trust_remote_code: see `ModelSource`; the judge's own make it one model, held
            once.
        engine: `prefix`, many texts at once over shared prompts; `plain`, every text by itself.
        token_budget: contexts are read together up to so many tokens to compute.
        prompts: which prompts ask for texts: `summary`, `dialogue`, or a folder of the user's own.
        max_new_tokens: longest text; None is the paper's, 128 for summaries and 64 for replies.
        candidates: texts sampled of each context for the standard vectors.
        temperature, top_p: of that sampling, and of references where they are sampled.
        seed: of all sampling.
        high_percentile, low_percentile: candidates scored at or above, or at or below, are the high and low set.
        components: dimensions that the states of a layer are reduced to before separability is measured; None is none.
        layer: where to steer, counted from 1; None is the layer that separates best.
        alpha_high, alpha_low: strengths of equations 4 and 5; None takes that of `strengths` whose texts score nearest
            to the high, or the low, threshold.
        alpha_unit: `one`, or `norm`: multiples of the mean length of the states at the steered layer, which makes
            strengths of different tutors and layers comparable.
        strengths: strengths, of at least 0, at which the judge scores steered texts of the training contexts (the
            paper's figure 10); None tries none.
        sample_references: draw the references' tokens too, instead of taking the likeliest.
        vectors: a file of standard vectors to use instead of finding them.

    Raises:
        UserError: a value that is none of these.
    """

    path: str
    gguf_file: str | None = None
    revision: str | None = None
    dtype: str = "auto"
    trust_remote_code: bool = False
    engine: str = "prefix"
    token_budget: int = 8192
    prompts: str = "summary"
    max_new_tokens: int | None = None
    candidates: int = 16
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int = 0
    high_percentile: float = 80.0
    low_percentile: float = 20.0
    components: int | None = None
    layer: int | None = None
    alpha_high: float | None = 3.0
    alpha_low: float | None = 3.0
    alpha_unit: str = "one"
    strengths: Sequence[float] | None = None
    sample_references: bool = False
    vectors: str | None = None

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise UserError(f"tutor.engine: {self.engine!r} is not one of {', '.join(ENGINES)}.")
        for name, least in (("token_budget", 1), ("candidates", 1), ("seed", 0)):
            self._whole(name, least)
        for name in ("max_new_tokens", "components", "layer"):
            if getattr(self, name) is not None:
                self._whole(name, 1)
        Sampling(self.seed, self.temperature, self.top_p)
        for name, low, high in (
            ("high_percentile", 0, 100),
            ("low_percentile", 0, 100),
            ("alpha_high", 0, float("inf")),
            ("alpha_low", 0, float("inf")),
        ):
            value = getattr(self, name)
            if value is None and name.startswith("alpha_") and self.strengths:
                continue
            if not _is_number(value) or not low <= value <= high or value == float("inf"):
                ends = f"from {low} to {high}" if high != float("inf") else f"of at least {low}"
                chosen = ", and tutor.strengths, to choose from, is not given" if value is None else ""
                raise UserError(f"tutor.{name}: {value!r} is not a number {ends}{chosen}.")
        if self.low_percentile >= self.high_percentile:
            raise UserError(
                f"tutor.low_percentile: {self.low_percentile:g} must lie below "
                f"tutor.high_percentile={self.high_percentile:g}."
            )
        if self.alpha_unit not in ALPHA_UNITS:
            raise UserError(f"tutor.alpha_unit: {self.alpha_unit!r} is not one of {', '.join(ALPHA_UNITS)}.")
        if self.strengths is not None and (
            isinstance(self.strengths, str)
            or not isinstance(self.strengths, Sequence)
            or not self.strengths
            or not all(_is_number(one) and 0 <= one < float("inf") for one in self.strengths)
        ):
            raise UserError(f"tutor.strengths: {self.strengths!r} is neither null nor a list of numbers of at least 0.")
        if not isinstance(self.sample_references, bool):
            raise UserError(f"tutor.sample_references: {self.sample_references!r} is neither true nor false.")
        if self.vectors is not None and (not isinstance(self.vectors, str) or not self.vectors.strip()):
            raise UserError(f"tutor.vectors: {self.vectors!r} is not a path.")

    @cached_property
    def source(self) -> ModelSource:
        """Where the model comes from."""
        return ModelSource(self.path, self.gguf_file, self.revision, self.dtype, self.trust_remote_code, role="tutor")

    @cached_property
    def sizes(self) -> Sizes:
        """What the model's configuration says of it.

        Raises:
            UserError: it is an encoder-decoder model, whose states are not a text's alone.
        """
        self.source.check_decoder_only("write texts that are steered")
        text = self.source.config().get_text_config(decoder=True)
        most = int(getattr(text, "max_position_embeddings", None) or 2**31)
        return Sizes(int(text.num_hidden_layers), int(text.hidden_size), most)

    @property
    def most_tokens(self) -> int:
        """Tokens of the longest text.

        Raises:
            UserError: neither given nor known for these prompts.
        """
        if self.max_new_tokens is not None:
            return self.max_new_tokens
        if self.prompts not in PRINTED_TOKENS:
            raise UserError(
                f"tutor.max_new_tokens: there is no usual length for tutor.prompts={self.prompts}; give a whole number."
            )
        return PRINTED_TOKENS[self.prompts]

    def _whole(self, name: str, least: int) -> None:
        value = getattr(self, name)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise UserError(f"tutor.{name}: {value!r} is not a whole number of at least {least}.")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
