"""What configuration says of a judge behind a URL, and of an assistant there."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from omegaconf import OmegaConf

from judgebench.judges.api.endpoint import Endpoint
from judgebench.judges.api.extra_body import parse_extra
from judgebench.judges.api.price import Price, is_number
from judgebench.judges.loading import ModelSource
from judgebench.prompts.spelled import SpelledNames
from judgebench.runtime.errors import UserError
from judgebench.runtime.shape import shown

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PROTOCOLS = ("chat", "completions")
WAYS = ("logprobs", "samples", "text")
EXPLICIT = ("vllm", "sglang", "llama_cpp")
LENGTH_NAMES = ("max_tokens", "max_completion_tokens")
MOST_LISTED = 2**18
"""Tokens of a list."""

_WHOLE = {
    "top_logprobs": (1, MOST_LISTED),
    "samples": (1, 1000),  # whose share has a standard error of at most 0.016
    "max_new_tokens": (1, 2**20),
    "concurrency": (1, 1024),
    "retries": (0, 100),
    "seed": (0, 2**63 - 1),
    "context": (1, 2**40),
}
"""Whole numbers, and between which ends they lie."""
_DAY = 86_400.0
_SLOWEST = 1 / 1440
"""Requests or tokens a minute."""

_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
_MODEL = {"path": None, "dtype": "auto", "engine": "prefix"}


@dataclass(frozen=True)
class ApiSpec:
    """How a served model judges, as configuration says it.

    Args:
        url: the base of the protocol's addresses, as http://127.0.0.1:8000/v1; it holds no user, password or query.
        model: what the server calls the model.
        key_variable: the environment variable that holds the key; None where the server asks for none. The key itself
            is never part of a configuration.
        title: what tables call the judge; None takes the last part of `model`.
        protocol: `chat`, messages that the server frames in its own template; `completions`, the exact tokens, framed
            here, for which `tokenizer` is needed.
        scores_from: `logprobs`, the lists of likeliest next tokens; `samples`, the shares of `samples` answers;
            `text`, one answer. Nothing else is taken where the server does not give what is asked for.
        explicit: how the candidates' own log-probabilities are asked for, whether or not they are among the likeliest:
            `vllm` and `sglang` by a list of tokens (with `completions`), `llama_cpp` by longer and longer lists; None
            reads what is listed, and bounds the rest.
        top_logprobs: how many of the likeliest next tokens are asked for; servers have limits of their own.
        follow_above: where a candidate is more than one token, the next is asked for in a request of its own if what
            comes before has at least this probability; what is not asked for is bounded. With `completions`; `chat`
            has what follows on the likeliest answer alone.
        samples: answers drawn of each prompt.
        temperature: of the answers; None is 0 for `logprobs` and `text`, 1 for `samples`.
        seed: sent with each request, of samples `seed`, `seed + 1`, ...; None sends none. It also draws the retries'
            waits.
        max_new_tokens: longest answer of `samples` and `text`.
        length_name: what the server calls an answer's most tokens: max_tokens or max_completion_tokens.
        extra_body: more keys of each request, as the server knows them.
        tokenizer, gguf_file, revision, trust_remote_code: the model's tokenizer, by hub id or path, see `ModelSource`.
            With `chat` it only says which names of control tokens, and which ways of writing a score, there are.
        context: most tokens of prompt and answer together; None where it is not known.
        concurrency: most requests under way at once.
        requests_per_minute, tokens_per_minute: most that are started; None is no limit.
        timeout: seconds until a request counts as lost.
        retries: how often a request is sent again that failed for a reason which may pass.
        backoff: seconds before the first of those, doubled each time.
        longest_wait: longest of those waits in seconds; who is told to wait longer gives up.
        price: see `Price`.
        max_cost: USD that a run may cost; a request that could pass it is not sent. Needs prices.
        path, dtype, engine: what other parts of a configuration take from a judge; there is no model here, so they
            stay as they are.

    Raises:
        UserError: a value that is none of these.
    """

    url: str
    model: str
    key_variable: str | None = None
    title: str | None = None
    protocol: str = "chat"
    scores_from: str = "logprobs"
    explicit: str | None = None
    top_logprobs: int = 20
    follow_above: float = 0.001
    samples: int = 8
    temperature: float | None = None
    seed: int | None = 0
    max_new_tokens: int = 16
    length_name: str = "max_tokens"
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    tokenizer: str | None = None
    gguf_file: str | None = None
    revision: str | None = None
    trust_remote_code: bool = False
    context: int | None = None
    concurrency: int = 8
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    timeout: float = 120.0
    retries: int = 5
    backoff: float = 1.0
    longest_wait: float = 300.0
    price: Any = None
    max_cost: float | None = None
    path: None = None
    dtype: str = "auto"
    engine: str = "prefix"
    role: str = "judge"
    # batches are made of requests, not of tokens
    token_budget: ClassVar[int] = 1

    def __post_init__(self) -> None:
        for name in ("extra_body", "price"):
            object.__setattr__(self, name, _plain(getattr(self, name)))
        self._check_address()
        self._check_choices()
        self._check_numbers()
        for name, left in _MODEL.items():
            if getattr(self, name) != left:
                raise UserError(
                    f"{self.role}.{name}: a served model is loaded elsewhere, so {getattr(self, name)!r} would change "
                    f"nothing; leave it at {'null' if left is None else left}."
                )
        object.__setattr__(self, "extra_body", parse_extra(self.extra_body, self.role))
        Price.parse(self.price, self.role)
        if self.max_cost is not None and not self.priced.known:
            raise UserError(
                f"{self.role}.max_cost: what a request costs is not known; give {self.role}.price.input and "
                f"{self.role}.price.output, in USD per million tokens."
            )

    @property
    def mode(self) -> str:
        """`score_tokens` where candidates have probabilities, `generate` where an answer is parsed."""
        return "generate" if self.scores_from == "text" else "score_tokens"

    @property
    def priced(self) -> Price:
        """What tokens cost."""
        return Price.parse(self.price, self.role)

    @cached_property
    def own_tokenizer(self) -> ModelSource | None:
        """The model's own tokenizer, where one is named."""
        if self.tokenizer is None:
            return None
        where = (self.tokenizer, self.gguf_file, self.revision)
        return ModelSource(*where, trust_remote_code=self.trust_remote_code, role=f"{self.role}.tokenizer")

    @cached_property
    def source(self) -> Endpoint:
        """Where the judge comes from."""
        own = self.own_tokenizer if self.protocol == "completions" else None
        return Endpoint(self.model, self.title or self.model.rstrip("/").split("/")[-1], own, self.context)

    def degree(self) -> float:
        """The temperature of its answers."""
        if self.temperature is not None:
            return float(self.temperature)
        return 1.0 if self.scores_from == "samples" else 0.0

    def _check_address(self) -> None:
        if not isinstance(self.model, str) or not self.model.strip():
            raise UserError(f"{self.role}.model: name the model as the server calls it.")
        # neither message repeats what was given: a key may stand in it by mistake
        if self.key_variable is not None and (
            not isinstance(self.key_variable, str) or not _VARIABLE.fullmatch(self.key_variable)
        ):
            raise UserError(
                f"{self.role}.key_variable: give the name of an environment variable in capitals, as OPENAI_API_KEY, "
                "or null; a key itself has no place in a configuration."
            )
        try:
            # what is no plain text, or holds a backslash, one program reads as this host and another as that
            plain = isinstance(self.url, str) and re.fullmatch(r"[!-\[\]-~]+", self.url)
            parts = urlsplit(self.url if plain else "")
            good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            good = False
        if not good:
            raise UserError(f"{self.role}.url: give the server's address, as http://127.0.0.1:8000/v1.")
        if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
            raise UserError(
                f"{self.role}.url: the address holds a user, a password or a query, which would stand in every file of "
                f"the run; put the key into the environment and name it with {self.role}.key_variable."
            )

    def _check_choices(self) -> None:
        for name, known in (("protocol", PROTOCOLS), ("scores_from", WAYS), ("length_name", LENGTH_NAMES)):
            if getattr(self, name) not in known:
                raise UserError(f"{self.role}.{name}: {getattr(self, name)!r} is not one of {', '.join(known)}.")
        if self.explicit is not None and self.explicit not in EXPLICIT:
            raise UserError(f"{self.role}.explicit: {self.explicit!r} is not one of {', '.join(EXPLICIT)}, or null.")
        if self.protocol == "completions" and self.tokenizer is None:
            raise UserError(
                f"{self.role}.tokenizer: judge.protocol=completions sends the exact tokens, so name the model's "
                f"tokenizer, as {self.role}.tokenizer=owner/name or a folder; or take judge.protocol=chat."
            )
        if self.explicit in ("vllm", "sglang") and self.protocol != "completions":
            raise UserError(
                f"{self.role}.explicit: {self.explicit} takes tokens by their numbers, so it needs "
                "judge.protocol=completions and judge.tokenizer; or take judge.explicit=null."
            )

    def _check_numbers(self) -> None:
        for name, (least, most) in _WHOLE.items():
            value = getattr(self, name)
            if value is not None or name not in ("seed", "context"):
                _whole(value, least, most, f"{self.role}.{name}")
        for name in ("timeout", "backoff", "longest_wait"):
            _positive(getattr(self, name), f"{self.role}.{name}", "a number of seconds above 0 (at most a day)", _DAY)
        for name in ("requests_per_minute", "tokens_per_minute"):
            if (value := getattr(self, name)) is not None:
                _positive(value, f"{self.role}.{name}", "a number above 0, or null")
                if value < _SLOWEST:
                    raise UserError(f"{self.role}.{name}: {value!r} is fewer than one a day; give more, or null.")
        if self.max_cost is not None:
            _positive(self.max_cost, f"{self.role}.max_cost", "an amount of USD above 0, or null")
        for name, top in (("follow_above", 1.0), ("temperature", 2.0)):
            value = getattr(self, name)
            if (value is not None or name != "temperature") and (not is_number(value) or not 0 <= value <= top):
                raise UserError(f"{self.role}.{name}: {value!r} is not a number from 0 to {top:g}.")


@dataclass(frozen=True)
class ServedAssistant:
    """A second model behind a URL, which is asked as the judge is.

    Args:
        url, model, key_variable, price, explicit, tokenizer, gguf_file, revision, top_logprobs, requests_per_minute,
            tokens_per_minute: see `ApiSpec`; all else is the judge's.
    """

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
        """How it is asked beside a judge; the run's `max_cost` is the judge's.

        Raises:
            UserError: a value that none of them can have.
        """
        own = {name: getattr(self, name) for name in self.__dataclass_fields__}
        if judge.max_cost is not None and not Price.parse(_plain(self.price), "assistant").known:
            raise UserError(
                "judge.max_cost: what a request to the assistant costs is not known; give assistant.price.input and "
                "assistant.price.output, in USD per million tokens."
            )
        return replace(judge, **own, title=None, role="assistant", max_cost=None)

    @property
    def title(self) -> str:
        """A short name for tables and figures."""
        return self.model.rstrip("/").split("/")[-1]


def spelled_names(judge: Any, tokenizer: PreTrainedTokenizerBase) -> SpelledNames | None:
    """How names of control tokens are written where a server tokenizes what is sent; None where tokens are sent.

    Args:
        judge: any judge's settings.
        tokenizer: that of its source.
    """
    if not isinstance(judge, ApiSpec) or judge.protocol != "chat":
        return None
    own = judge.own_tokenizer
    return SpelledNames(tokenizer, None if own is None else own.tokenizer())


def how_scored(judge: Any) -> str | None:
    """A sentence on where the scores of a served judge come from; None for another."""
    if not isinstance(judge, ApiSpec):
        return None
    given = {
        "logprobs": f"the log-probabilities that {judge.url} lists",
        "samples": f"the shares of {judge.samples} answers of {judge.url} at temperature {judge.degree():g}",
        "text": f"one answer of {judge.url} at temperature {judge.degree():g}",
    }
    counted = "; prompt tokens are estimated, at four characters each" if judge.protocol == "chat" else ""
    return f"Scores from {given[judge.scores_from]} ({judge.protocol}{counted})."


def _plain(value: Any) -> Any:
    return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value


def _positive(value: object, key: str, what: str, most: float = sys.float_info.max) -> None:
    if not is_number(value) or not 0 < value <= most:  # type: ignore[operator]
        raise UserError(f"{key}: {shown(value)} is not {what}.")


def _whole(value: object, least: int, most: int, key: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UserError(f"{key}: {shown(value)} is not a whole number of at least {least}.")
    if value > most:
        raise UserError(f"{key}: {shown(value)} is more than {most:,}, the most that there may be.")
