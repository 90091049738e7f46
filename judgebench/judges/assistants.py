"""Assistants: whose preferences contrastive decoding takes off the judge's.

The paper's assistant is a smaller model of the same family. Two cost no second model: an early exit
of the main model, and the main model asked about nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from judgebench.judges.local.loading import ModelSource, check_vocabularies
from judgebench.judges.served.settings import ApiSpec, Price
from judgebench.settings.fields import settings_of
from judgebench.words.errors import UserError

if TYPE_CHECKING:
    from judgebench.readings.reading import Recording

KINDS = ("none", "model", "early_exit", "null_context", "api", "recorded")


@dataclass(frozen=True)
class ServedAssistant:
    """A second model behind a URL; its settings are those of `ApiSpec`, and all others are the
    judge's."""

    url: str
    model: str
    key_variable: str | None = None
    price: Any = None
    explicit: str | None = None
    tokenizer: str | None = None
    gguf_file: str | None = None
    revision: str | None = None
    top_logprobs: int = 20
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None

    def spec(self, judge: ApiSpec) -> ApiSpec:
        """All of its settings, with the judge's for the rest; the run's `max_cost` is the judge's.
        `UserError` for a value out of its bounds."""
        if (
            judge.max_cost is not None
            and not settings_of(Price, self.price or {}, "assistant.price").known
        ):
            raise UserError(
                "judge.max_cost: what a request to the assistant costs is not known; give "
                "assistant.price.input and assistant.price.output, in USD per million tokens."
            )
        return replace(judge, **vars(self), title=None, role="assistant", max_cost=None)


@dataclass(frozen=True)
class Assistant:
    """The source of the assistant's log-probabilities; `UserError` for one without what it needs.

    Args:
        kind: `none`; `model`, a second model with the same vocabulary; `early_exit`, the main
            model's own hidden state after `layer` layers through its final norm and head;
            `null_context`, the main model on the same rubric with an empty article and an empty
            judged text; `api`, a second model behind a URL, of a judge that is too; `recorded`, the
            assistant of recorded readings, or those of a panel's members.
        source: the second model, for `model` alone.
        layer: the exit, for `early_exit` alone: 1 to the number of layers less one.
        served: where the second model is, for `api` alone.
        recording: the file, for `recorded` alone; a panel's has none.
    """

    kind: str = "none"
    source: ModelSource | None = None
    layer: int | None = None
    served: ServedAssistant | None = None
    recording: Recording | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UserError(f"assistant.kind: {self.kind!r} should be one of {', '.join(KINDS)}.")
        if self.kind == "model" and self.source is None:
            raise UserError("assistant=model: give the second model with assistant.path=.")
        if self.kind == "api" and self.served is None:
            raise UserError(
                "assistant=api: give the second model with assistant.url= and assistant.model=."
            )
        if self.kind == "early_exit" and (type(self.layer) is not int or self.layer < 1):
            raise UserError(
                f"assistant.layer: {self.layer!r} is not a layer; say after which of the judge's "
                "layers its early exit speaks: a whole number from 1 to their number less one, "
                "such as two thirds of them."
            )

    @property
    def name(self) -> str | None:
        """The second model as a configuration names it; None where there is none."""
        if self.recording is not None:
            return self.recording.setting("assistant", "path")
        if self.source is not None:
            return self.source.path
        return None if self.served is None else self.served.model

    @property
    def _read_kind(self) -> str:
        """Its kind when it was read, now or in the run that was recorded."""
        return self.kind if self.recording is None else self.recording.about["assistant"]["kind"]

    @property
    def answers(self) -> bool:
        """True where it answers by itself; asked about nothing, a model says the same to every
        example."""
        return self._read_kind not in ("none", "null_context")

    @property
    def reads(self) -> bool:
        """True where each text takes it a pass of its own: an early exit has the judge's."""
        return self._read_kind in ("model", "api")

    @property
    def title(self) -> str | None:
        """A short name for tables and figures; None for `none`."""
        if self.source is not None:
            return self.source.title
        if self.served is not None:
            return self.served.model.rstrip("/").split("/")[-1]
        if self.recording is not None:
            return str(self.recording.about["assistant"]["title"])
        titles = {
            "early_exit": f"early exit after layer {self.layer}",
            "null_context": "null context",
            "recorded": "its members' assistants",
        }
        return titles.get(self.kind)

    def check_served(self, judge: Any) -> None:
        """Checks that a served assistant can be asked what the judge (`ApiSpec`) is; else
        `UserError`."""
        if self.served is None:
            return
        other = self.served.spec(judge)
        if (
            judge.own_tokenizer is not None
            and other.own_tokenizer is not None
            and judge.protocol == "completions"
        ):
            check_vocabularies(judge.own_tokenizer.tokenizer(), other.own_tokenizer.tokenizer())


def assistant(
    kind: str = "none",
    path: str | None = None,
    gguf_file: str | None = None,
    revision: str | None = None,
    dtype: str = "auto",
    trust_remote_code: bool = False,
    layer: int | None = None,
) -> Assistant:
    """The assistant as configuration spells it, flat; see `Assistant` and `ModelSource` for
    arguments and errors."""
    source = None
    if kind == "model" and path:
        source = ModelSource(path, gguf_file, revision, dtype, trust_remote_code, role="assistant")
    return Assistant(kind, source, layer)


def served_assistant(**settings: Any) -> Assistant:
    """A second model behind a URL as configuration spells it, flat; see `ServedAssistant`."""
    return Assistant("api", served=ServedAssistant(**settings))


def recorded_assistant(path: str) -> Assistant:
    """The assistant of recorded readings; `none` where they have none. `path`: see
    `judgebench.judges.precomputed.recorded.RecordedSpec`, which also says what is wrong with it; a panel has
    none."""
    if not isinstance(path, str) or not path.strip():
        return Assistant("recorded")
    from judgebench.readings.reading import Recording  # pyarrow takes a while to import

    recording = Recording.open(path)
    if recording.about["assistant"]["kind"] == "none":
        return Assistant()
    return Assistant("recorded", recording=recording)
