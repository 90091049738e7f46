"""Settings of a judge or assistant behind a URL, prices of its tokens, and the limit on a run's
cost."""

from __future__ import annotations

import ipaddress
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import SplitResult, urlsplit

from judgebench.judges.local.loading import ModelSource
from judgebench.judges.spec import (
    GENERATION,
    LOG_PROBABILITIES,
    PROBABILITIES,
    SERVED,
    JudgeSettings,
    NoConfig,
)
from judgebench.prompts.tokens import PlainTokenizer, SpelledNames
from judgebench.runtime.parsing import parse_json
from judgebench.settings.fields import (
    Annotated,
    Ge,
    Gt,
    Le,
    OneOf,
    Positive,
    Share,
    Words,
    check_fields,
    plain,
    settings_of,
)
from judgebench.types import Record, Row
from judgebench.words.errors import Mistakes, UserError, shown
from judgebench.words.formats import say

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_Usd = Annotated[float, Ge(0), Le(1e9)] | None


@dataclass(frozen=True)
class Price:
    """Prices of tokens in USD per million; None where they are unknown.

    Attributes:
        cached_input: of prompt tokens in the server's cache; None: as `input`.
        batch: the share of these prices that requests in a batch cost.
    """

    input: _Usd = None
    cached_input: _Usd = None
    output: _Usd = None
    batch: Share = 0.5

    @property
    def known(self) -> bool:
        return self.input is not None and self.output is not None

    def scaled(self, share: float) -> Price:
        """A share of these prices."""
        prices = (self.input, self.cached_input, self.output)
        given, cached, output = (price and share * price for price in prices)
        return Price(given, cached, output, self.batch)

    def of(self, prompt: float, cached: float, completion: float) -> float | None:
        """The cost in USD of so many tokens; `cached` are those of the prompt's that were in the
        cache.

        Example:
            >>> Price(2.0, 0.5, 8.0).of(1_000_000, 600_000, 100_000)
            1.9
        """
        if self.input is None or self.output is None:
            return None
        cheap = self.input if self.cached_input is None else self.cached_input
        return ((prompt - cached) * self.input + cached * cheap + completion * self.output) / 1e6


@dataclass(frozen=True)
class Usage:
    """Tokens of one request, as the server counts them; `cached` are those of the prompt in its
    cache."""

    prompt: int
    cached: int
    completion: int


@dataclass
class Account:
    """Requests to one endpoint in this run, and what they took.

    Attributes:
        requests: answered ones.
        uncounted_requests: answered requests without a token count, which was estimated.
        cost: USD of the answered ones, by the configured prices.
        unconfirmed: USD that requests may have cost whose answer was lost: a server may bill what
            never arrived.
        ratio: the largest quotient of a prompt's tokens, as the server counts them, and their
            estimate.
        servers: url -> requests and failures of each server, the names under which it answered, and
            `concurrency`, how many requests it is sent at once.
        identity: the server that first told a model's name, in this run or when the store's first
            readings were made, and that name.
    """

    price: Price
    requests: int = 0
    retries: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    uncounted_requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    unconfirmed: float = 0.0
    ratio: float = 1.0
    servers: dict[str, Record] = field(default_factory=dict)
    identity: tuple[str, str] | None = None

    def record(self) -> Record:
        """For environment.json; money is None where prices are unknown."""
        known = self.price.known
        return {
            "requests": self.requests,
            "retries": self.retries,
            "failures": dict(self.failures),
            "uncounted_requests": self.uncounted_requests,
            "prompt_tokens": self.prompt_tokens,
            "cached_tokens": self.cached_tokens,
            "completion_tokens": self.completion_tokens,
            "cost": self.cost if known else None,
            "unconfirmed_cost": self.unconfirmed if known else None,
        }


class Bill:
    """The cost of all endpoints of a run together, which stays below `max_cost` USD; None sets no
    limit. Earlier parts of the command have cost so many USD `before`."""

    def __init__(self, max_cost: float | None = None, before: float = 0.0):
        self._most = max_cost
        self._before = before
        self._reserved = 0.0
        self._accounts: list[Account] = []

    def account(self, price: Price) -> Account:
        self._accounts.append(Account(price))
        return self._accounts[-1]

    @property
    def spent(self) -> float:
        """USD so far, lost answers among them."""
        return sum(account.cost + account.unconfirmed for account in self._accounts)

    def reserve(self, account: Account, estimate: Usage) -> float:
        """Puts aside the most that a request is expected to cost, before it is sent; 0 where prices
        are unknown.

        Raises:
            UserError: with all that was spent and is under way, it could pass `max_cost`.
        """
        expected = account.price.of(estimate.prompt * account.ratio, 0, estimate.completion) or 0.0
        spent = self._before + self.spent
        if self._most is not None and spent + self._reserved + expected > self._most:
            under_way = (
                f", ${self._reserved:.6g} are set aside for requests under way"
                if self._reserved
                else ""
            )
            raise UserError(
                f"judge.max_cost: the next request could cost ${expected:.6g} and pass the "
                f"${self._most:g} that the run may cost: ${spent:.6g} are spent{under_way}. Raise "
                "judge.max_cost (each command has its own), or judge less, as with "
                "data.limit_groups."
            )
        self._reserved += expected
        return expected

    def settle(
        self, account: Account, reserved: float, estimate: Usage, usage: Usage | None
    ) -> None:
        """Books the answer to a request for which `reserved` was put aside."""
        self._reserved -= reserved
        account.requests += 1
        if usage is None:
            account.uncounted_requests += 1
            usage = Usage(round(estimate.prompt * account.ratio), 0, estimate.completion)
        elif estimate.prompt:
            account.ratio = max(account.ratio, usage.prompt / estimate.prompt)
        account.prompt_tokens += usage.prompt
        account.cached_tokens += usage.cached
        account.completion_tokens += usage.completion
        account.cost += account.price.of(usage.prompt, usage.cached, usage.completion) or 0.0

    def hold(self, amount: float) -> None:
        """Puts money aside, or gives it back, for requests that were sent by an earlier command."""
        self._reserved += amount

    def lose(self, account: Account, reserved: float, billed: bool) -> None:
        """Books a request without an answer; `billed`: the server may have read it all the same."""
        self._reserved -= reserved
        account.unconfirmed += reserved if billed else 0.0


def unpaid(served: Row) -> Record:
    """The `served` record of a run that sends nothing, for all readings are in the store."""
    record = {**served, "cost": None if served["cost"] is None else 0.0}
    for role in served.keys() & {"main", "assistant"}:
        free = None if served[role]["cost"] is None else 0.0
        record[role] = {**served[role], **Account(Price(free, output=free)).record()}
        record[role].pop("servers", None)
    return record


# --- settings -----------------------------------------------------------------------------------


MOST_LISTED = 2**18
"""Tokens of a list."""
_CHARACTERS = 4
"""Characters of a token, where no tokenizer is at hand."""
_UNLIMITED = 2**31

_Seconds = Annotated[float, Gt(0), Le(86_400.0)]
_PerMinute = Annotated[float, Ge(1 / 1440)]
OMIT = "omit"
"""A temperature that is not sent: some models take none."""
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""How much a model may think, by the names that providers have for it; each takes some of them."""

_CHECKED_ELSEWHERE = (
    # a key may stand in an address by mistake
    "url",
    "model",
    "key_variable",
    "extra_body",
    "price",
    "role",
)
"""Settings that have sentences of their own."""
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
_NO_MODEL = "{role}.model: name the model as the server calls it."
_NO_VARIABLE = (
    "{role}.key_variable: give the name of an environment variable in capitals, as "
    "OPENAI_API_KEY, or null; a key itself has no place in a configuration."
)
_OPEN = (
    "{role}.url: the address holds a user, a password or a query, which would stand in every file "
    "of the run; put the key into the environment and name it with {role}.key_variable."
)
_NO_ADDRESS = (
    "{role}.url: give the server's address, as http://127.0.0.1:8000/v1, or those of several "
    "servers of the same model, as [http://a:8000/v1,http://b:8000/v1]."
)
_TWICE = "{role}.url: it names a server twice; name each once."
_NO_TOKENIZER = (
    "{role}.tokenizer: judge.protocol=completions sends the exact tokens, so name the model's "
    "tokenizer, as {role}.tokenizer=owner/name or a folder; or take judge.protocol=chat."
)
_NO_NUMBERS = (
    "{role}.explicit: vllm takes tokens by their numbers, so it needs "
    "judge.protocol=completions and judge.tokenizer; or take judge.explicit=null."
)
_NO_LISTS = (
    "{role}.scores_from: judge.protocol=anthropic gives no log-probabilities; take "
    "judge.scores_from=samples (shares of several answers) or judge.scores_from=text (one answer)."
)
_NO_WAY = "{role}.explicit: judge.protocol={protocol} has no such way; leave it at null."
_NO_BATCHES = (
    "{role}.batch: judgebench sends Gemini no batches; take judge.batch=null and "
    "judge.concurrency=8, or the batches of OpenAI (judge=openai) or Anthropic (judge=anthropic)."
)
_ONE_PROVIDER = (
    "{role}.batch: batches are of messages to one provider, and each is answered at once; take one "
    "judge.url, judge.protocol=chat or anthropic and judge.explicit=null; or judge.batch=null."
)
_TWO_EFFORTS = "{role}.extra_body: it holds what {role}.effort sets, too; leave one of them out."
_EFFORT_KEYS = {"reasoning_effort", "reasoning", "output_config", "generationConfig"}
"""Keys of a request that hold an effort, in some protocol."""
_UNPRICED = (
    "{role}.max_cost: what a request costs is not known; give {role}.price.input and "
    "{role}.price.output, in USD per million tokens."
)


@dataclass(frozen=True)
class ApiSpec(JudgeSettings):
    """Settings of a served judge; conf/judge/api.yaml says what each of them is."""

    url: str | Sequence[str]
    model: str
    key_variable: str | None = None
    title: Words | None = None
    protocol: Annotated[str, OneOf(("chat", "completions", "anthropic", "gemini"))] = "chat"
    batch: Annotated[str, OneOf(("submit", "wait"))] | None = None
    retry_refused: bool = False
    scores_from: Annotated[str, OneOf(("logprobs", "samples", "text"))] = "logprobs"
    explicit: Annotated[str, OneOf(("vllm", "llama_cpp"))] | None = None
    top_logprobs: Annotated[int, Ge(1), Le(MOST_LISTED)] = 20
    follow_above: Share = 0.001
    floor: Share = 0.5
    # whose share has a standard error of at most 0.016
    samples: Annotated[int, Ge(1), Le(1000)] = 8
    temperature: Annotated[float, Ge(0), Le(2)] | Annotated[str, OneOf((OMIT,))] | None = None
    effort: Annotated[str, OneOf(EFFORTS)] | None = None
    seed: Annotated[int, Ge(0), Le(2**63 - 1)] | None = 0
    max_new_tokens: Annotated[int, Ge(1), Le(2**20)] = 16
    length_name: Annotated[str, OneOf(("max_tokens", "max_completion_tokens"))] = "max_tokens"
    extra_body: Row = field(default_factory=dict)
    tokenizer: str | None = None
    gguf_file: str | None = None
    revision: str | None = None
    trust_remote_code: bool = False
    context: Annotated[int, Ge(1), Le(2**40)] | None = None
    concurrency: Annotated[int, Ge(1), Le(1024)] = 8
    requests_per_minute: _PerMinute | None = None
    tokens_per_minute: _PerMinute | None = None
    timeout: _Seconds = 120.0
    retries: Annotated[int, Ge(0), Le(100)] = 5
    backoff: _Seconds = 1.0
    longest_wait: _Seconds = 300.0
    price: Any = None
    max_cost: Positive | None = None
    role: str = "judge"
    # batches are made of requests, not of tokens
    max_batch_tokens: ClassVar[int] = 1

    read_by = "judgebench.judges.served.reader.ApiReader"

    def __post_init__(self) -> None:
        for name in ("url", "extra_body", "price"):
            object.__setattr__(self, name, plain(getattr(self, name)))
        mistakes = Mistakes()
        for sentence, called_for in self._faults().items():
            if called_for:
                mistakes.add(sentence.format(**vars(self)))
        with mistakes.caught():
            checked = [name for name in self.__dataclass_fields__ if name not in _CHECKED_ELSEWHERE]
            check_fields(self, self.role, of=checked)
        with mistakes.caught():
            self.own_tokenizer  # noqa: B018 - checks what names it
        with mistakes.caught():
            object.__setattr__(self, "extra_body", parse_extra(self.extra_body, self.role))
        with mistakes.caught():
            if self.max_cost is not None and not self.priced.known:
                raise UserError(_UNPRICED.format(role=self.role))
        mistakes.tell()

    def _faults(self) -> Record:
        """Sentence, in which `{...}` are settings -> true where it is called for."""
        url = self.url
        batch = self.batch
        gemini = self.protocol == "gemini"
        variable = self.key_variable
        one = self.framed and self.explicit is None and isinstance(url, str)
        added = self.extra_body if isinstance(self.extra_body, Mapping) else {}
        # no sentence repeats an address: a key may stand in it by mistake
        parts: list[SplitResult | None] = [None]
        if isinstance(url, str | Sequence):
            parts = [_parts(each) for each in self.urls]
        good = bool(parts) and None not in parts
        return {
            _NO_MODEL: not isinstance(self.model, str) or not self.model.strip(),
            _NO_VARIABLE: variable is not None and not _VARIABLE.fullmatch(str(variable)),
            _OPEN: any(map(_opens, filter(None, parts))),
            _NO_ADDRESS: not good,
            _TWICE: good and len({each.rstrip("/") for each in self.urls}) < len(parts),
            _NO_TOKENIZER: not self.framed and self.tokenizer is None,
            _NO_NUMBERS: self.explicit == "vllm" and self.framed,
            _NO_LISTS: self.protocol == "anthropic" and self.scores_from == "logprobs",
            _NO_WAY: self.explicit and self.protocol in ("anthropic", "gemini"),
            _NO_BATCHES: batch and gemini,
            _ONE_PROVIDER: batch and not gemini and not one,
            _TWO_EFFORTS: self.effort and not _EFFORT_KEYS.isdisjoint(added),
        }

    @property
    def mode(self) -> str:
        """`score_tokens` where candidates have probabilities, `generate` where an answer is
        parsed."""
        return "generate" if self.scores_from == "text" else "score_tokens"

    @property
    def urls(self) -> tuple[str, ...]:
        """The servers. The first stands for all in the keys of readings: one more server reads
        nothing anew."""
        return (self.url,) if isinstance(self.url, str) else tuple(self.url)

    @property
    def where(self) -> str:
        """The servers' addresses, for people."""
        return ", ".join(self.urls)

    @property
    def framed(self) -> bool:
        """True where a message is sent, which the server frames; else the exact tokens are."""
        return self.protocol != "completions"

    @property
    def priced(self) -> Price:
        """The prices that its requests have, one by one or in batches."""
        price = settings_of(Price, self.price or {}, f"{self.role}.price")
        return price.scaled(price.batch) if self.batch else price

    @cached_property
    def own_tokenizer(self) -> ModelSource | None:
        if self.tokenizer is None:
            return None
        return ModelSource(
            self.tokenizer,
            self.gguf_file,
            self.revision,
            trust_remote_code=self.trust_remote_code,
            role=f"{self.role}.tokenizer",
        )

    @cached_property
    def source(self) -> Endpoint:
        tokenizer = self.own_tokenizer if self.protocol == "completions" else None
        return Endpoint(
            self.model, self.title or self.model.rstrip("/").split("/")[-1], tokenizer, self.context
        )

    def degree(self) -> float | None:
        """The temperature that requests hold; None where they hold none."""
        if self.temperature == OMIT:
            return None
        default = 1.0 if self.scores_from == "samples" else 0.0
        return default if self.temperature is None else float(self.temperature)

    @property
    def capabilities(self) -> frozenset[str]:
        scores = {
            "logprobs": {PROBABILITIES, LOG_PROBABILITIES},
            # most shares are 0, and their logarithms nothing to contrast
            "samples": {PROBABILITIES},
            "text": {GENERATION},
        }
        return frozenset({SERVED, *scores[self.scores_from]})

    @property
    def numbered(self) -> bool:
        """True where lists name tokens by their numbers, else by their texts."""
        return self.protocol == "completions" and self.explicit is not None

    @property
    def name(self) -> str:
        return self.model

    @property
    def note(self) -> str:
        return say("origin", spec=self, degree=self.degree())

    def spelled_names(self, tokenizer: PreTrainedTokenizerBase) -> SpelledNames | None:
        if not self.framed:
            return None
        source = self.own_tokenizer
        return SpelledNames(tokenizer, None if source is None else source.tokenizer())


def _parts(url: Any) -> SplitResult | None:
    """The parts of a server's address; None where it is none."""
    # what is not plain text, or holds a backslash, one program reads as this host and another as
    # that
    if not isinstance(url, str) or not re.fullmatch(r"[!-\[\]-~]+", url):
        return None
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - checks its bounds
    except ValueError:
        return None
    return parts if parts.scheme in ("http", "https") and parts.hostname else None


def _opens(parts: SplitResult) -> bool:
    """True of an address with more in it than a place."""
    secrets = (parts.username, parts.password)
    return secrets != (None, None) or bool(parts.query or parts.fragment)


@dataclass(frozen=True)
class Endpoint:
    """Source of a served judge; see `Source`.

    Attributes:
        name: the model's at the server.
        counted_by: the tokenizer that prompts are built with; None for prompts that the server's
            own template frames, whose tokens are estimated at four characters each.
        context: most tokens of prompt and answer together, where that is known.
    """

    name: str
    title: str
    counted_by: ModelSource | None = None
    context: int | None = None
    encoder_decoder: ClassVar[bool] = False

    def tokenizer(self) -> Any:
        """The model's own, or one that counts a token every four characters and has no chat
        template."""
        return (
            self.counted_by.tokenizer()
            if self.counted_by is not None
            else PlainTokenizer(_CHARACTERS)
        )

    def config(self) -> NoConfig:
        return NoConfig(self.context or _UNLIMITED)


_OWN_BODY = {
    "the prompt is what judgebench asks, and another would be judged in its place": (
        "messages",
        "prompt",
        "input_ids",
        "text",
        "input",
        "input_embeds",
        "suffix",
        "echo",
    ),
    "which lists are asked for follows from {role}.scores_from, {role}.explicit and "
    "{role}.top_logprobs": (
        "logprobs",
        "top_logprobs",
        "logprob_token_ids",
        "return_tokens_as_token_ids",
        "return_logprob",
        "top_logprobs_num",
        "token_ids_logprob",
    ),
    "one answer a request is read and paid for; see {role}.samples": ("n", "best_of", "stream"),
    "how long an answer may be, and so what it may cost, is {role}.max_new_tokens": (
        "max_tokens",
        "max_completion_tokens",
        "sampling_params",
    ),
    "it is {role}.{name}": ("model", "temperature", "seed"),
}
"""Reason -> keys of a request that `extra_body` may not hold."""


def parse_extra(extra: Any, role: str) -> Record:
    """The config key `<role>.extra_body`, as plain JSON; `UserError` for no mapping, what JSON
    cannot hold, or a key that has another place."""
    key = f"{role}.extra_body"
    if not isinstance(extra, Mapping):
        raise UserError(f"{key}: must be a mapping, got {shown(extra)}.")
    for reason, names in _OWN_BODY.items():
        for name in (name for name in names if name in extra):
            raise UserError(
                f"{key}.{name}: {reason.format(role=role, name=name)}; leave it out of extra_body."
            )
    try:
        text = json.dumps(extra)
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(f"{key}: cannot be written as JSON ({error}).") from None
    body: Record = parse_json(text, key)
    return body


def is_loopback(url: str) -> bool:
    """True of an address that is this machine's own."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def bare_name(model: str) -> str:
    """A model's name without the folders before it."""
    return re.split(r"[/\\]", model.rstrip("/\\"))[-1]
