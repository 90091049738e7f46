"""How a model judges, as configuration says it, and whether that fits assistant and decodings; torch is not needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from judgebench.decoding.protocol import Decoding
from judgebench.judges.assistants import Assistant
from judgebench.judges.loading import ModelSource
from judgebench.judges.settings import ENGINES
from judgebench.runtime.errors import UserError

MODES = ("score_tokens", "generate")


@dataclass(frozen=True)
class JudgeSpec:
    """How the main model judges, as configuration says it.

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
    mode: str = "score_tokens"
    max_new_tokens: int = 16
    draft_tokens: int = 0
    engine: str = "prefix"
    token_budget: int = 4096

    def __post_init__(self) -> None:
        for name, known in (("mode", MODES), ("engine", ENGINES)):
            if getattr(self, name) not in known:
                raise UserError(f"judge.{name}: {getattr(self, name)!r} is not one of {', '.join(known)}.")
        for name, least in (("max_new_tokens", 1), ("token_budget", 1), ("draft_tokens", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise UserError(f"judge.{name}: {value!r} is not a whole number of at least {least}.")

    @cached_property
    def source(self) -> ModelSource:
        """Where the main model comes from."""
        return ModelSource(self.path, self.gguf_file, self.revision, self.dtype, self.trust_remote_code)


def check_fit(judge: JudgeSpec, assistant: Assistant, decodings: Mapping[str, Decoding]) -> None:
    """Whether the parts of a judge fit each other.

    Raises:
        UserError: a decoding that the mode or the assistant cannot serve, or a draft that nobody can write.
    """
    for name, decoding in decodings.items():
        if decoding.needs_assistant and assistant.kind == "none":
            raise UserError(
                f"decoding {name}: it needs an assistant; choose one with assistant=model, assistant=early_exit or "
                "assistant=null_context."
            )
        if judge.mode == "generate" and not decoding.generates:
            raise UserError(
                f"decoding {name}: it reads the candidates' probabilities, which judge.mode=generate does not "
                "give; choose decoding=[greedy] or judge.mode=score_tokens."
            )
    if judge.draft_tokens and not (judge.mode == "generate" and judge.engine == "prefix" and assistant.kind == "model"):
        raise UserError(
            "judge.draft_tokens: a draft needs judge.mode=generate, judge.engine=prefix and assistant=model; set it "
            "to 0 otherwise."
        )
    if judge.draft_tokens > judge.max_new_tokens:
        raise UserError(
            f"judge.draft_tokens: {judge.draft_tokens} is more than judge.max_new_tokens={judge.max_new_tokens}; a "
            "draft cannot be longer than the answer."
        )


def check_kinds(judge: JudgeSpec, assistant: Assistant) -> None:
    """Whether the models are of one kind, decoder-only or encoder-decoder, and what is asked of them is that kind's.

    Raises:
        UserError: they are not, or it is not.
    """
    theirs = assistant.source
    if theirs is not None and theirs.encoder_decoder != judge.source.encoder_decoder:
        ours, other = ("an encoder-decoder", "a decoder-only")[:: 1 if judge.source.encoder_decoder else -1]
        raise UserError(
            f"assistant.path={theirs.path}: {theirs.title} is {other} model and the judge {ours} one; choose an "
            "assistant of the judge's family."
        )
    if not judge.source.encoder_decoder:
        return
    kind = judge.source.config().model_type
    if assistant.kind == "early_exit":
        raise UserError(
            f"assistant=early_exit: the judge is an encoder-decoder model ({kind}), which is read after its last "
            "layer alone; choose assistant=model with a smaller one of its family, or assistant=null_context."
        )
    if judge.draft_tokens:
        raise UserError(
            f"judge.draft_tokens: the judge is an encoder-decoder model ({kind}), and only decoder-only models read "
            "drafts; set it to 0."
        )
