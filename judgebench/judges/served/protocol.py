"""Requests to a server and its answers, in the OpenAI protocol's two forms, Anthropic's and Gemini's
own."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
)

from judgebench.judges.served.bounds import Listing
from judgebench.judges.served.settings import ApiSpec, Usage
from judgebench.types import Record, Row, Rows

_TEMPORARY = (408, 409, 425, 429)
_LARGEST_SUM = 1.01
"""Of the probabilities of a list: 1, with the rounding of log-probabilities in a few digits."""
_MOST = 10**7
"""Tokens of one request: no model reads or writes so many."""
_FRAME = 16
"""Tokens that a chat template may add to a message, more or less."""
_FRAME_BYTES = 4 * 2**20
_TOKEN_BYTES = 2048
_LISTED_BYTES = 256
"""Bytes of an answer without its tokens, of a token, and of a token in a list: name, bytes, number,
probability."""
_NUMBERED = "token_id:"
_REFUSALS = (
    "content_filter",
    "refusal",
    "safety",
    "recitation",
    "blocklist",
    "prohibited_content",
    "spii",
)
"""Reasons to end an answer that is none: OpenAI's, Anthropic's, then Gemini's."""
_MOST_SAID = 200
"""Characters of a refusal, or of a model's name, that are kept."""
_UNLIKE = "the answer is not what the protocol has"


class Provider(NamedTuple):
    """A protocol, in all that others do otherwise.

    Attributes:
        path: of a request for an answer, relative to the server's base.
        key: the header of the key; None for `Authorization`.
        headers: more of them.
    """

    path: str
    key: str | None = None
    headers: Mapping[str, str] = {}


PROVIDERS = {
    "chat": Provider("/chat/completions"),
    "completions": Provider("/completions"),
    "anthropic": Provider("/messages", "x-api-key", {"anthropic-version": "2023-06-01"}),
    "gemini": Provider("/models/{model}:generateContent", "x-goog-api-key"),
}


class BrokenAnswer(ValueError):
    """An answer that cannot be read: no JSON, or not what the protocol has."""


@dataclass(frozen=True)
class RequestPrompt:
    """The prompt of a request: a message of this text, or tokens that write it.

    Attributes:
        count: tokens, or an estimate.
        article: whose prompts share their beginning, so that one server had better read them all.
    """

    text: str
    tokens: tuple[int, ...] | None
    count: int
    article: str = ""


@dataclass(frozen=True)
class Request:
    """One request.

    Attributes:
        path: its address, relative to the server's base.
        estimate: tokens of the prompt, estimated where the server counts them, and of the longest
            answer.
        listed: tokens of each list in the answer.
    """

    path: str
    body: Row
    estimate: Usage
    listed: int = 0

    @property
    def max_bytes(self) -> int:
        """Bytes that an answer may have: more than any server needs for so many tokens and lists,
        and no more."""
        return _FRAME_BYTES + self.estimate.completion * (
            _TOKEN_BYTES + self.listed * _LISTED_BYTES
        )


def request(
    spec: ApiSpec,
    prompt: RequestPrompt,
    max_tokens: int,
    seed: int | None = None,
    listed: int | None = None,
    tokens: Sequence[int] = (),
) -> Request:
    """A request for an answer of at most `max_tokens`.

    Args:
        listed: number of likely tokens in the list at each place; None asks for no list.
        tokens: those whose log-probabilities are asked for by their numbers, where `spec.explicit`
            can.
    """
    wanted = listed is not None or None  # None leaves a key out
    path = PROVIDERS[spec.protocol].path.format(model=spec.model)
    temperature = spec.degree()
    body: Record = {
        "model": spec.model,
        "temperature": temperature,
        spec.length_name: max_tokens,
        "seed": seed,
        "reasoning_effort": spec.effort,
    }
    if spec.protocol == "gemini":
        sampling = {
            "temperature": temperature,
            "maxOutputTokens": max_tokens,
            "seed": seed,
            "thinkingConfig": spec.effort and {"thinkingLevel": spec.effort},
        }
        lists = {"responseLogprobs": wanted, "logprobs": listed}
        body = {
            "contents": [{"role": "user", "parts": [{"text": prompt.text}]}],
            "generationConfig": _set(sampling | lists),
        }
    elif spec.framed:
        body["messages"] = [{"role": "user", "content": prompt.text}]
        body |= {"logprobs": wanted, "top_logprobs": listed}
        if spec.protocol == "anthropic":
            body["seed"] = None  # it takes none
            effort = body.pop("reasoning_effort")
            body["output_config"] = effort and {"effort": effort}
    else:
        body |= {"prompt": list(prompt.tokens or ()), "logprobs": listed}
        if wanted and spec.explicit == "vllm":
            # it lists either the likeliest or those that are named, as many as `logprobs` says
            body |= {
                "logprob_token_ids": list(tokens),
                "logprobs": len(tokens),
                "return_tokens_as_token_ids": True,
            }
    if spec.explicit == "llama_cpp" and not spec.framed:
        body["cache_prompt"] = True
    count = prompt.count + (_FRAME if spec.framed else 0)
    estimate = Usage(count, 0, max_tokens)
    return Request(path, _set(body) | dict(spec.extra_body), estimate, listed or 0)


def _set(body: Row) -> Record:
    """The keys of a request that have a value."""
    return {name: value for name, value in body.items() if value is not None}


@dataclass(frozen=True)
class Answer:
    """The server's answer to one request; None for what it does not say.

    Attributes:
        lists: a pair for each of the answer's tokens: the token, and the list at its place.
        fingerprint: what the server says of the weights and settings behind the answer.
        refused: the reason, or the words, where a model or a filter refuses to answer.
    """

    text: str
    lists: list[tuple[Hashable, Listing]] | None
    usage: Usage | None = None
    model: str | None = None
    fingerprint: str | None = None
    refused: str | None = None


# --- the forms in which servers answer ----------------------------------------------------------


def _possible(logprob: float) -> float:
    if not logprob <= 1e-3:
        raise ValueError(f"{logprob} is not a log-probability")
    return min(0.0, logprob)


def _named(*names: str | AliasPath, default: Any = None) -> Any:
    """A field that providers call by any of these names; `...` for one that must be there."""
    return Field(default, validation_alias=AliasChoices(*names))


# servers write -inf as null or as a very low number
_NotNone = BeforeValidator(lambda value: -math.inf if value is None else value)
_Logprob = Annotated[float, _NotNone, AfterValidator(_possible)]
_Count = Annotated[int, Field(strict=True, ge=0, le=_MOST)] | None


class _Entry(BaseModel):
    token: str
    logprob: _Logprob = _named("logprob", "logProbability", default=...)
    id: int | None = None

    def name(self, numbered: bool) -> Hashable:
        if not numbered:
            return self.token
        if self.id is not None:
            return self.id
        if not self.token.startswith(_NUMBERED):
            raise BrokenAnswer("its lists name tokens by their texts and not by their numbers")
        return int(self.token.removeprefix(_NUMBERED))


class _Place(_Entry):
    """A token of the answer, with the list at its place."""

    top_logprobs: list[_Entry]

    def listing(self, numbered: bool) -> Listing:
        logprobs: dict[Hashable, float] = {}
        for entry in self.top_logprobs:  # two tokens with one text count together
            name = entry.name(numbered)
            logprobs[name] = float(np.logaddexp(logprobs.get(name, -math.inf), entry.logprob))
        logprobs.setdefault(self.name(numbered), self.logprob)
        total = math.fsum(map(math.exp, logprobs.values()))
        if total > _LARGEST_SUM:
            raise BrokenAnswer(
                f"the probabilities of the tokens that it lists sum to {total:.4g}, and to no more "
                "than 1 they can"
            )
        return Listing(logprobs, min((one.logprob for one in self.top_logprobs), default=None))


class _Lists(BaseModel):
    content: list[_Place] | None = None


def _in_places(lists: Any) -> Any:
    """The lists of completions or of Gemini as those of chat and of llama.cpp are: `content`, a
    place for each of the answer's tokens."""
    match lists:
        case {"tokens": tokens, "token_logprobs": logprobs, "top_logprobs": [*listed]}:
            chosen = _entries(zip(tokens, logprobs, strict=True))
            likeliest = [_entries((tops or {}).items()) for tops in listed]
        case {"chosenCandidates": chosen, "topCandidates": listed}:
            likeliest = [tops["candidates"] for tops in listed]
        case _:
            return lists
    pairs = zip(chosen, likeliest, strict=True)
    return {"content": [{**entry, "top_logprobs": tops} for entry, tops in pairs]}


def _entries(pairs: Iterable[tuple[Any, Any]]) -> Rows:
    return [{"token": token, "logprob": logprob} for token, logprob in pairs]


class _Part(BaseModel):
    text: str | None = None
    thought: bool = False


class _Message(BaseModel):
    """`reasoning` and `reasoning_content` are thoughts that a server has taken out of `content`, as
    Gemini's `parts` may be."""

    content: str | None = None
    parts: list[_Part] = []
    refusal: Any = None
    reasoning: Any = None
    reasoning_content: Any = None

    @property
    def text(self) -> str:
        said = [part.text or "" for part in self.parts if not part.thought]
        return self.content or "".join(said)

    @property
    def thought(self) -> bool:
        parts = any(part.thought for part in self.parts)
        return bool(self.reasoning or self.reasoning_content or parts)


class _Choice(BaseModel):
    message: _Message | None = _named("message", "content")
    text: str | None = None
    logprobs: Annotated[_Lists | None, BeforeValidator(_in_places)] = _named(
        "logprobs", "logprobsResult"
    )
    finish: Any = _named("finish_reason", "finishReason", "stop_reason")

    @property
    def refused(self) -> str | None:
        """The refusal in its place; None of an answer."""
        words = None if self.message is None else self.message.refusal
        reason = str(self.finish)
        if not words and reason.lower() not in _REFUSALS:
            return None
        return _marked(words or reason)

    def lists(self, numbered: bool) -> list[tuple[Hashable, Listing]] | None:
        """A list for each token of the answer, without its thoughts; none where no answer is behind
        the thoughts."""
        if self.logprobs is None or self.logprobs.content is None:
            return None
        places = self.logprobs.content
        start = 0
        if self.message is not None and self.message.thought:
            content = self.message.text.strip()
            text = "".join(place.token for place in places)
            start = text.rfind(content) if content else len(text)
            start = len(text) if start < 0 else start
        ends = accumulate((len(place.token) for place in places), initial=0)
        return [
            (place.name(numbered), place.listing(numbered))
            for place, at in zip(places, ends, strict=False)
            if at >= start
        ]


class _Usage(BaseModel):
    prompt: _Count = _named("prompt_tokens", "promptTokenCount", "input_tokens")
    cached: _Count = _named(
        AliasPath("prompt_tokens_details", "cached_tokens"),
        "cached_tokens",
        "prompt_cache_hit_tokens",
        "cachedContentTokenCount",
        "cache_read_input_tokens",
    )
    written: _Count = _named("completion_tokens", "candidatesTokenCount", "output_tokens")
    thought: _Count = _named("thoughtsTokenCount")
    # of Anthropic's prompts, beside the input tokens
    cache_read_input_tokens: _Count = None
    cache_creation_input_tokens: _Count = None

    def counts(self) -> Usage | None:
        """None where the server does not say; a count of 0 says nothing either (some leave out what
        was cached)."""
        outside = (self.cache_read_input_tokens or 0) + (self.cache_creation_input_tokens or 0)
        prompt = (self.prompt or 0) + outside
        written = (self.written or 0) + (self.thought or 0)
        silent = self.written is None and self.thought is None
        if not prompt or silent:
            return None
        return Usage(prompt, min(self.cached or 0, prompt), written)


class _Answer(BaseModel):
    choices: Annotated[list[_Choice], Field(min_length=1)] = _named(
        "choices", "candidates", default=...
    )
    usage: _Usage | None = _named("usage", "usageMetadata")
    model: Any = _named("model", "modelVersion")
    system_fingerprint: Any = None


def _with_choice(payload: Any) -> Any:
    """An answer of Anthropic's, one of Gemini's without a text, or a filter's refusal, with a choice
    as OpenAI's have it; any other as it is."""
    choice: Record = {"message": {}}
    match payload:
        case {"type": "message", "content": [*parts]}:
            choice = {"message": {"parts": parts}, "finish_reason": payload.get("stop_reason")}
        case {"candidates": [{"content": _}, *_]}:
            return payload
        case {"candidates": [{"finishReason": reason}, *_]}:
            choice["finish_reason"] = reason
        case {"promptFeedback": {"blockReason": reason}}:
            choice["message"]["refusal"] = reason
        case {"usageMetadata": _} | {"candidates": _}:
            pass
        case {"error": _} if is_filtered(payload):
            choice["finish_reason"] = "content_filter"
        case _:
            return payload
    return {**payload, "choices": [choice]}


def is_filtered(payload: Any) -> bool:
    """True of an error (HTTP 400) by which a server's filter refuses the prompt: no other try will
    be answered, and all other prompts may be."""
    match payload:
        case {"error": {"code": "content_filter"}}:
            return True
    return False


def may_pass(status: int) -> bool:
    """True of the HTTP status of a refusal after which another try may succeed."""
    return status in _TEMPORARY or status >= 500


def answer_of(payload: Any, numbered: bool) -> Answer:
    """Reads a server's answer from its JSON.

    Args:
        numbered: tokens of its lists are called by their numbers; else by their texts.

    Raises:
        BrokenAnswer: it is none that the protocol knows.
    """
    try:
        answer = _Answer.model_validate(_with_choice(payload))
        choice = answer.choices[0]
        lists = choice.lists(numbered)
    except BrokenAnswer:
        raise
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(map(str, fault["loc"])) or "all of it"
        reason = fault["msg"].partition(" or instance of")[0]
        raise BrokenAnswer(f"{_UNLIKE} ({where}: {reason})") from None
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise BrokenAnswer(f"{_UNLIKE} ({error})") from None
    if choice.message is None and "text" not in choice.model_fields_set:
        raise BrokenAnswer("it holds no text")
    text = (choice.text or "") if choice.message is None else choice.message.text
    usage = None if answer.usage is None else answer.usage.counts()
    if text and usage is not None and not usage.completion:
        usage = None
    model, mark = _marked(answer.model), _marked(answer.system_fingerprint)
    return Answer(text, lists, usage, model, mark, choice.refused)


def _marked(name: Any) -> str | None:
    return None if name is None else str(name)[:_MOST_SAID]
