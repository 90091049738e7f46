"""What an experiment asks of whoever judges, be it a model, one behind a URL, or a file of answers given earlier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


ENGINES = ("prefix", "plain")
"""How models are read: shared prefixes once, or every prompt by itself."""


class Source(Protocol):
    """Where a judge comes from."""

    @property
    def title(self) -> str:
        """A short name for tables and figures."""
        ...

    @property
    def encoder_decoder(self) -> bool:
        """Whether an encoder reads the prompt and a decoder begins the answer: the prompt's text then ends."""
        ...

    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer that prompts are built for."""
        ...

    def config(self) -> Any:
        """The model's configuration; see `judgebench.asked.judge.most_tokens`."""
        ...


class JudgeSettings(Protocol):
    """How a judge judges; see `judgebench.judges.spec.JudgeSpec` for the meaning of each setting."""

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
