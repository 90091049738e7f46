"""Settings of a judge that is a model here, and the protocol of any judge.

Torch is not needed until something is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from judgebench.config.fields import Annotated, Ge, OneOf, check_fields
from judgebench.decoding.rules import Decoding
from judgebench.judges.loading import ModelSource
from judgebench.runtime.errors import Mistakes
from judgebench.types import Condition, Prompt

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from judgebench.judges.assistants import Assistant
    from judgebench.judges.loop import Models
    from judgebench.judges.replay import Answers
    from judgebench.prompts.tokens import SpelledNames
    from judgebench.readings.store import ReadingStore

MODES = ("score_tokens", "generate")
ENGINES = ("prefix", "plain")
"""How models are read: shared prefixes once, or every prompt by itself."""

LOCAL, SERVED, REPLAYED, RECORDED = "local_model", "served_model", "earlier_answers", "recorded_readings"
PROBABILITIES, LOG_PROBABILITIES, GENERATION = "probabilities", "log_probabilities", "generation"
GRADIENT, TOKENS = "gradient", "tokens"
"""Members of `JudgeSettings.gives`."""


@dataclass(frozen=True)
class ReadingTask:
    """A task for a reader: prompts, and what reads them.

    Attributes:
        decodings: name -> decoding; what `generate` answers under, and whether an assistant is needed at all.
        tokenizer: the main model's.
        null: condition -> the prompt about nothing.
        store: opens the store of readings.
        models: those that are in memory already.
        free_text: defense -> most tokens of an answer, of those under which the judge answers in words and gives its
            number last, whatever `judge.mode` is.
        answers: those of an earlier time, where the judge has them.
    """

    assistant: Assistant
    decodings: Mapping[str, Decoding]
    prompts: Sequence[Prompt]
    tokenizer: PreTrainedTokenizerBase
    null: Callable[[Condition], Prompt]
    store: Callable[[], ReadingStore]
    models: Models | None = None
    free_text: Mapping[str, int] = field(default_factory=dict)
    answers: Answers | None = None


class Source(Protocol):
    """Source of a judge."""

    @property
    def title(self) -> str:
        """A short name for tables and figures."""

    @property
    def encoder_decoder(self) -> bool:
        """True if an encoder reads the prompt and a decoder begins the answer: the prompt's text then ends."""

    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer that prompts are built for."""

    def config(self) -> Any:
        """The model's configuration."""


class JudgeSettings:
    """Protocol of a judge: a model here, one behind a URL, or a file of answers or readings given earlier.

    See `JudgeSpec` for the meaning of the settings.
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
        def token_budget(self) -> int: ...
        @property
        def source(self) -> Source: ...

    @property
    def gives(self) -> frozenset[str]:
        """Its place (`LOCAL`, `SERVED`, `REPLAYED` or `RECORDED`) and its results: `PROBABILITIES` of the candidates,
        `LOG_PROBABILITIES` of them that can be contrasted, `GENERATION`, a free answer in their place, `GRADIENT` of
        them by the prompt's tokens; `TOKENS`: it reads the very tokens of a prompt."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        return str(self.path)

    @property
    def computes_nothing(self) -> str | None:
        """A clause on what it has instead of a model; None where it has one."""
        return None

    @property
    def note(self) -> str | None:
        """A sentence on the origin of its scores, for reports."""
        return None

    def check_assistant(self, assistant: Assistant) -> None:
        """Checks that a served assistant can be asked what the judge is; else `UserError`."""

    def spelled_names(self, tokenizer: PreTrainedTokenizerBase) -> SpelledNames | None:
        """Spelling of control tokens' names for a server that tokenizes what is sent; None where tokens are sent."""
        return None

    def answers(self, prompts: Sequence[Prompt], split: Mapping[str, str], dataset: str) -> Answers | None:
        """Its earlier answers to the prompts, where it has any."""
        return None

    def tokens(self, prompts: Sequence[Prompt]) -> dict[Condition, tuple[int, int]]:
        """Condition -> tokens of its prompts together, and those of them that must be computed."""
        return {prompt.condition: (0, 0) for prompt in prompts}

    def estimate(self, task: ReadingTask) -> str | None:
        """An estimate of requests, tokens and money for people to read, where prompts are paid for."""
        return None

    def reader(self, task: ReadingTask) -> Any:
        """The reader of the prompts (`Reader`, `ApiReader`), or of the answers that are known already (`Replayer`)."""
        raise NotImplementedError


@dataclass(frozen=True)
class JudgeSpec(JudgeSettings):
    """Settings of the main model as a judge.

    Args:
        path, gguf_file, revision, dtype, trust_remote_code: see `ModelSource`.
        mode: `score_tokens`, the log-probabilities of the candidate scores as the next text; or `generate`, a free
            answer.
        max_new_tokens: longest free answer.
        engine: `prefix`, shared prefixes once, which for an encoder-decoder model is many prompts at once; `plain`,
            every prompt by itself.
        draft_tokens: speculative contrastive decoding of free answers: tokens that the assistant drafts for the main
            model to read at once; 0 goes token by token. For `assistant=model` and `engine=prefix`.
        token_budget: groups are read together up to so many tokens to compute.

    Raises:
        UserError: a value that is none of these.
    """

    path: str
    gguf_file: str | None = None
    revision: str | None = None
    dtype: str = "auto"
    trust_remote_code: bool = False
    mode: Annotated[str, OneOf(MODES)] = "score_tokens"
    max_new_tokens: Annotated[int, Ge(1)] = 16
    draft_tokens: Annotated[int, Ge(0)] = 0
    engine: Annotated[str, OneOf(ENGINES)] = "prefix"
    token_budget: Annotated[int, Ge(1)] = 4096

    def __post_init__(self) -> None:
        mistakes = Mistakes()
        with mistakes.caught():
            check_fields(self, "judge", of=("mode", "max_new_tokens", "draft_tokens", "engine", "token_budget"))
        with mistakes.caught():
            self.source  # noqa: B018 - checks the rest
        mistakes.tell()

    @cached_property
    def source(self) -> ModelSource:
        return ModelSource(self.path, self.gguf_file, self.revision, self.dtype, self.trust_remote_code)

    @property
    def gives(self) -> frozenset[str]:
        scores = {GENERATION} if self.mode == "generate" else {PROBABILITIES, LOG_PROBABILITIES}
        return frozenset({LOCAL, TOKENS, *scores, *([GRADIENT] if self.engine == "prefix" else [])})

    def tokens(self, prompts: Sequence[Prompt]) -> dict[Condition, tuple[int, int]]:
        from judgebench.judges.planning import distinct_tokens, shared_tokens

        return (distinct_tokens if self.source.encoder_decoder else shared_tokens)(prompts, self.token_budget)

    def reader(self, task: ReadingTask) -> Any:
        from judgebench.judges.reader import Reader

        return Reader(self, task)


def check_unused(settings: Any, mistakes: Mistakes, role: str, because: str) -> None:
    """Adds a mistake for each setting of a model that was given where there is no model, as `because` says."""
    for name, left in {"gguf_file": None, "revision": None, **_MODEL}.items():
        if name in settings.unused and (given := getattr(settings, name)) != left:
            mistakes.add(
                f"{role}.{name}: {because}, so {given!r} would change nothing; leave it at "
                f"{'null' if left is None else left}."
            )


_MODEL = {"path": None, "dtype": "auto", "trust_remote_code": False, "engine": "prefix"}
