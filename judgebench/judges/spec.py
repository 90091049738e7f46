"""Settings of a judge that is a model here, and the protocol of any judge's settings.

Torch is not needed until something is read, and readers are made elsewhere (`ReadingJudge.reader`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from judgebench.judges.local.loading import ModelSettings, ModelSource
from judgebench.settings.fields import Annotated, Count, OneOf, check_fields
from judgebench.types import Prompt, Split

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from judgebench.judges.precomputed.answers import Answers
    from judgebench.judges.reader import BaseReader
    from judgebench.prompts.tokens import SpelledNames

MODES = ("score_tokens", "generate")
ENGINES = ("prefix", "plain")
"""How models are read: shared prefixes once, or every prompt by itself."""
CHECKS = ("once", "always")
"""When it is proven that a model can be read so."""

LOCAL = "local_model"
SERVED = "served_model"
REPLAYED = "earlier_answers"
RECORDED = "recorded_readings"
OWN = "own_judge"
PROBABILITIES = "probabilities"
LOG_PROBABILITIES = "log_probabilities"
GENERATION = "generation"
GRADIENT = "gradient"
PANEL = "panel"
UNKNOWN_PROMPTS = "unknown_prompts"
"""Members of `JudgeSettings.capabilities`."""

JUDGES = {
    LOCAL: "the judge is a model here",
    SERVED: "the judge is served",
    REPLAYED: "judge=replay has answers only",
    PANEL: "judge=panel has its members' readings only",  # which are recorded too
    RECORDED: "judge=recorded has readings only",
    OWN: "the judge is a class of your own",
}
"""Place of a judge -> what it is, as the reason why it does not give what something needs."""


class Source(Protocol):
    """Source of a judge; of an `encoder_decoder`, a decoder begins the answer, so the prompt's text
    ends."""

    @property
    def title(self) -> str: ...
    @property
    def encoder_decoder(self) -> bool: ...
    def tokenizer(self) -> PreTrainedTokenizerBase: ...
    def config(self) -> Any: ...


@dataclass(frozen=True)
class NoConfig:
    """Stand-in for a model's configuration where the model is not here; None: it reads texts of any
    length."""

    max_position_embeddings: int | None = None

    def get_text_config(self, decoder: bool) -> NoConfig:
        return self


class JudgeSettings:
    """Protocol of a judge: a model here, one behind a URL, or a file of answers or readings given
    earlier.

    See `JudgeSpec` for the meaning of the settings; `note` is a sentence on the origin of its
    scores, for reports.
    """

    if TYPE_CHECKING:

        @property
        def path(self) -> str | None: ...
        @property
        def mode(self) -> str: ...
        @property
        def engine(self) -> str: ...
        @property
        def max_new_tokens(self) -> int: ...
        @property
        def max_batch_tokens(self) -> int: ...
        @property
        def source(self) -> Source: ...
        @property
        def note(self) -> str | None: ...
    else:
        note = None

    read_by: ClassVar[str]
    """The class of its reader, by its path: only that may import torch, or what asks servers."""

    @property
    def capabilities(self) -> frozenset[str]:
        """Its place (`LOCAL`, `SERVED`, `REPLAYED` or `RECORDED`) and its results: `PROBABILITIES`
        of the candidates, `LOG_PROBABILITIES` of them that can be contrasted, `GENERATION`, a free
        answer in their place, `GRADIENT` of them by the prompt's tokens; `PANEL`: of several;
        `UNKNOWN_PROMPTS`: of prompts that nobody knows."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        return str(self.path)

    def spelled_names(self, tokenizer: PreTrainedTokenizerBase) -> SpelledNames | None:
        """Spelling of control tokens' names for a server that tokenizes what is sent; None where
        tokens are sent."""
        return None

    def reader(self, *asked: Any) -> BaseReader:
        """The reader of prompts under these settings, of the class `read_by`.

        Args:
            asked: a `ReadingJudge`, its `PromptSet`, and the `Models` in memory, if any.
        """
        module, _, name = self.read_by.rpartition(".")
        made: BaseReader = getattr(import_module(module), name)(*asked)
        return made

    def answers(self, prompts: Sequence[Prompt], split: Split, dataset: str) -> Answers | None:
        """Its earlier answers to the prompts, where it has any."""
        return None


@dataclass(frozen=True)
class JudgeSpec(ModelSettings, JudgeSettings):
    """Settings of the main model as a judge; `UserError` for a value that is none.

    Args:
        path, gguf_file, revision, dtype, trust_remote_code: see `ModelSettings`.
        mode: `score_tokens`, the log-probabilities of the candidate scores as the next text; or
            `generate`, a free answer.
        max_new_tokens: longest free answer.
        engine: `prefix`, shared prefixes once, which for an encoder-decoder model is many prompts
            at once; `plain`, every prompt by itself.
        max_batch_tokens: groups are read together up to so many tokens to compute; on a GPU up to 4
            times as many, and up to 16 times for free answers.
        check: `once`, a proof that the model can be read holds for later runs with the same store;
            `always`, it is made at every start.
    """

    mode: Annotated[str, OneOf(MODES)] = "score_tokens"
    max_new_tokens: Count = 16
    engine: Annotated[str, OneOf(ENGINES)] = "prefix"
    max_batch_tokens: Count = 4096
    check: Annotated[str, OneOf(CHECKS)] = "once"

    def __post_init__(self) -> None:
        check_fields(self, "judge")

    @cached_property
    def source(self) -> ModelSource:
        return self.source_for("judge")

    @property
    def capabilities(self) -> frozenset[str]:
        scores = {GENERATION} if self.mode == "generate" else {PROBABILITIES, LOG_PROBABILITIES}
        gradient = {GRADIENT} if self.engine == "prefix" else set()
        return frozenset({LOCAL, *scores, *gradient})

    read_by = "judgebench.judges.local.reader.Reader"


class NoModel(JudgeSettings):
    """Protocol of a judge that is no model: it writes no token, and reads one prompt at a time."""

    max_new_tokens: ClassVar[int] = 0
    max_batch_tokens: ClassVar[int] = 1
