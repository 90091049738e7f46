"""Requests to a server and its answers, in the OpenAI protocol's two forms, SGLang's, Anthropic's
and Gemini's own."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Annotated, Any
from urllib.parse import urlsplit, urlunsplit

import numpy as np
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError

from judgebench.judges.served.bounds import Listing
from judgebench.judges.served.settings import ApiSpec, Usage

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
_GENERATE = "/generate"


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
        path: its address, relative to the server's base; SGLang's own is the first server's, which
            keys are made of.
        estimate: tokens of the prompt, estimated where the server counts them, and of the longest
            answer.
        listed: tokens of each list in the answer.
    """

    path: str
    body: Mapping[str, Any]
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
    body: dict[str, Any]
    if listed is not None and spec.explicit == "sglang":
        body = {
            "input_ids": list(prompt.tokens or ()),
            "sampling_params": {"temperature": spec.degree(), "max_new_tokens": max_tokens},
            "return_logprob": True,
            "top_logprobs_num": listed,
            "token_ids_logprob": list(tokens),
        }
        address = address_of(_GENERATE, spec.urls[0])
        return Request(
            address,
            body | dict(spec.extra_body),
            Usage(prompt.count, 0, max_tokens),
            listed + len(tokens),
        )
    if spec.protocol == "gemini":
        config: dict[str, Any] = {"temperature": spec.degree(), "maxOutputTokens": max_tokens}
        config |= {} if seed is None else {"seed": seed}
        config |= {} if listed is None else {"responseLogprobs": True, "logprobs": listed}
        body = {
            "contents": [{"role": "user", "parts": [{"text": prompt.text}]}],
            "generationConfig": config,
        }
        path = f"/models/{spec.model}:generateContent"
        return Request(
            path,
            body | dict(spec.extra_body),
            Usage(prompt.count + _FRAME, 0, max_tokens),
            listed or 0,
        )
    body = {"model": spec.model, "temperature": spec.degree(), spec.length_name: max_tokens}
    if seed is not None and spec.protocol != "anthropic":  # which takes none
        body["seed"] = seed
    path = "/completions"
    count = prompt.count
    if spec.framed:
        path = "/messages" if spec.protocol == "anthropic" else "/chat/completions"
        count += _FRAME
        body["messages"] = [{"role": "user", "content": prompt.text}]
        if listed is not None:
            body |= {"logprobs": True, "top_logprobs": listed}
    else:
        body["prompt"] = list(prompt.tokens or ())
        if listed is not None:
            body["logprobs"] = listed
            if spec.explicit == "vllm":
                # it lists either the likeliest or those that are named, as many as `logprobs` says
                body |= {
                    "logprob_token_ids": list(tokens),
                    "logprobs": len(tokens),
                    "return_tokens_as_token_ids": True,
                }
        if spec.explicit == "llama_cpp":
            body["cache_prompt"] = True
    return Request(path, body | dict(spec.extra_body), Usage(count, 0, max_tokens), listed or 0)


def address_of(path: str, url: str) -> str:
    """The address of a request with this path, at a server with this base."""
    if not path.endswith(_GENERATE):
        return f"{url.rstrip('/')}{path}"
    parts = urlsplit(url)  # SGLang's own, beside the base of the OpenAI protocol
    root = parts.path.rstrip("/").removesuffix("/v1")
    return urlunsplit((parts.scheme, parts.netloc, f"{root}{_GENERATE}", "", ""))


@dataclass(frozen=True)
class Answer:
    """The server's answer to one request; None for what it does not say.

    Attributes:
        lists: a pair for each of the answer's tokens: the token, and the list at its place.
        fingerprint: what the server says of the weights and settings behind the answer.
    """

    text: str
    lists: list[tuple[Hashable, Listing]] | None
    usage: Usage | None = None
    model: str | None = None
    fingerprint: str | None = None


# --- the forms in which servers answer ----------------------------------------------------------


def _possible(logprob: float) -> float:
    if not logprob <= 1e-3:
        raise ValueError(f"{logprob} is not a log-probability")
    return min(0.0, logprob)


# servers write -inf as null or as a very low number
_NotNone = BeforeValidator(lambda value: -math.inf if value is None else value)
_Logprob = Annotated[float, _NotNone, AfterValidator(_possible)]
_Count = Annotated[int, Field(strict=True, ge=0, le=_MOST)] | None
_Row = tuple[_Logprob, int, Any]


class _Entry(BaseModel):
    token: str
    logprob: _Logprob
    id: int | None = None


class _Place(_Entry):
    top_logprobs: list[_Entry]


class _Lists(BaseModel):
    """`content` is of chat and of llama.cpp's completions, the others of other completions."""

    content: list[_Place] | None = None
    tokens: list[str] = []
    token_logprobs: list[_Logprob] = []
    top_logprobs: list[dict[str, _Logprob] | None] | None = None


class _Message(BaseModel):
    """`reasoning` and `reasoning_content` are thoughts that a server has taken out of `content`."""

    content: str | None = None
    reasoning: Any = None
    reasoning_content: Any = None


class _Choice(BaseModel):
    message: _Message | None = None
    text: str | None = None
    logprobs: _Lists | None = None


class _Cached(BaseModel):
    cached_tokens: _Count = None


class _Usage(_Cached):
    prompt_tokens: _Count = None
    completion_tokens: _Count = None
    prompt_tokens_details: _Cached | None = None
    prompt_cache_hit_tokens: _Count = None

    def counts(self) -> Usage | None:
        """None where the server does not say; a count of 0 says nothing either (some leave out what
        was cached)."""
        details = self.prompt_tokens_details or _Cached()
        cached = details.cached_tokens or self.cached_tokens or self.prompt_cache_hit_tokens or 0
        if not self.prompt_tokens or self.completion_tokens is None:
            return None
        return Usage(self.prompt_tokens, min(cached, self.prompt_tokens), self.completion_tokens)


class _OpenAI(BaseModel):
    choices: Annotated[list[_Choice], Field(min_length=1)]
    usage: _Usage | None = None
    model: Any = None
    system_fingerprint: Any = None


class _Meta(_Usage):
    output_token_logprobs: list[_Row] = []
    output_top_logprobs: list[list[_Row] | None] | None = None
    output_token_ids_logprobs: list[list[_Row]] | None = None


class _SGLang(BaseModel):
    text: str
    meta_info: _Meta


def answer_of(payload: Any, numbered: bool) -> Answer:
    """Reads a server's answer from its JSON.

    Args:
        numbered: tokens of its lists are called by their numbers; else by their texts.

    Raises:
        BrokenAnswer: it is none that the protocol knows.
    """
    try:
        if isinstance(payload, Mapping) and "meta_info" in payload:
            sglang = _SGLang.model_validate(payload)
            return Answer(sglang.text, _sglang_lists(sglang.meta_info), sglang.meta_info.counts())
        answer = _OpenAI.model_validate(_as_openai(payload))
        choice = answer.choices[0]
        if choice.message is None and "text" not in choice.model_fields_set:
            raise BrokenAnswer("it holds no text")
        text = choice.text if choice.message is None else choice.message.content
        usage = None if answer.usage is None else answer.usage.counts()
        lists = _openai_lists(choice.logprobs or _Lists(), numbered)
        if (
            lists
            and choice.message
            and (choice.message.reasoning or choice.message.reasoning_content)
        ):
            lists = _lists_of_content(lists, text or "")
        return Answer(
            text or "",
            lists,
            None if text and usage is not None and not usage.completion else usage,
            *(
                None if name is None else str(name)[:200]
                for name in (answer.model, answer.system_fingerprint)
            ),
        )
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(map(str, fault["loc"]))
        reason = fault["msg"].partition(" or instance of")[0]
        raise BrokenAnswer(
            f"the answer is not what the protocol has ({where or 'all of it'}: {reason})"
        ) from None
    except BrokenAnswer:
        raise
    except ValueError as error:
        raise BrokenAnswer(f"the answer is not what the protocol has ({error})") from None


def _lists_of_content(
    lists: list[tuple[Hashable, Listing]], content: str
) -> list[tuple[Hashable, Listing]]:
    """The lists of an answer's tokens, where those of the thoughts before it may come along; none
    where no answer is behind the thoughts."""
    text = "".join(str(token) for token, _ in lists)
    start = text.rfind(content.strip()) if content.strip() else -1
    if start < 0:
        return []
    lengths = accumulate((len(str(token)) for token, _ in lists), initial=0)
    return [pair for pair, at in zip(lists, lengths, strict=False) if at >= start]


def _as_openai(payload: Any) -> Any:
    """An answer of Anthropic's or Gemini's in the form of OpenAI's; any other as it is."""

    def choice(parts: Any) -> dict[str, Any]:
        thoughts = any(part.get("thought") for part in parts)
        content = "".join(part.get("text") or "" for part in parts if not part.get("thought"))
        return {"message": {"content": content, "reasoning": thoughts}}

    try:
        # its count of input tokens is of those outside of the cache
        if payload.get("type") == "message":
            given = payload.get("usage") or {}
            read, wrote = (
                given.get(f"cache_{name}_input_tokens") or 0 for name in ("read", "creation")
            )
            usage = {
                "prompt_tokens": given.get("input_tokens", 0) + read + wrote,
                "cached_tokens": read,
            }
            usage["completion_tokens"] = given.get("output_tokens")
            return {
                "choices": [choice(payload["content"])],
                "usage": usage,
                "model": payload.get("model"),
            }
        if "usageMetadata" in payload or "candidates" in payload:
            given = payload.get("usageMetadata") or {}
            usage = {
                "prompt_tokens": given.get("promptTokenCount"),
                "cached_tokens": given.get("cachedContentTokenCount"),
            }
            written = [given.get(f"{name}TokenCount") or 0 for name in ("candidates", "thoughts")]
            # a prompt that it does not answer has none
            first = (payload.get("candidates") or [{}])[0]
            said = choice((first.get("content") or {}).get("parts") or ())
            if lists := first.get("logprobsResult"):
                chosen = lists["chosenCandidates"]
                likeliest = [place["candidates"] for place in lists["topCandidates"]]
                rows = [
                    [{**one, "logprob": one["logProbability"]} for one in place]
                    for place in [chosen, *likeliest]
                ]
                pairs = zip(rows[0], rows[1:], strict=True)
                said["logprobs"] = {
                    "content": [{**one, "top_logprobs": tops} for one, tops in pairs]
                }
            usage["completion_tokens"] = sum(written)
            return {"choices": [said], "usage": usage, "model": payload.get("modelVersion")}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BrokenAnswer(f"the answer is not what the protocol has ({error!r})") from None
    return payload


def _openai_lists(given: _Lists, numbered: bool) -> list[tuple[Hashable, Listing]] | None:
    def name(token: str, number: int | None = None) -> Hashable:
        if not numbered:
            return token
        if number is None and not token.startswith(_NUMBERED):
            raise BrokenAnswer("its lists name tokens by their texts and not by their numbers")
        return int(token.removeprefix(_NUMBERED)) if number is None else number

    if given.content is not None:
        places = [
            (
                name(place.token, place.id),
                place.logprob,
                [(name(e.token, e.id), e.logprob) for e in place.top_logprobs],
            )
            for place in given.content
        ]
    elif given.top_logprobs is not None:
        chosen = zip(given.tokens, given.token_logprobs, given.top_logprobs, strict=True)
        places = [
            (name(token), p, [(name(t), p) for t, p in (tops or {}).items()])
            for token, p, tops in chosen
        ]
    else:
        return None
    lists: list[tuple[Hashable, Listing]] = []
    for token, value, tops in places:
        logprobs: dict[Hashable, float] = {}
        for key, logprob in tops:  # two tokens with one text count together
            logprobs[key] = (
                float(np.logaddexp(logprobs[key], logprob)) if key in logprobs else logprob
            )
        logprobs.setdefault(token, value)
        lists.append((token, _listing(logprobs, [logprob for _, logprob in tops])))
    return lists


def _sglang_lists(meta: _Meta) -> list[tuple[Hashable, Listing]] | None:
    if meta.output_token_ids_logprobs is None:
        return None
    lists: list[tuple[Hashable, Listing]] = []
    chosen = meta.output_token_logprobs
    likeliest = meta.output_top_logprobs or [None] * len(chosen)
    for asked, tops, token in zip(meta.output_token_ids_logprobs, likeliest, chosen, strict=True):
        logprobs: dict[Hashable, float] = {
            number: logprob for logprob, number, _ in [*(tops or ()), *asked, token]
        }
        lists.append((token[1], _listing(logprobs, [logprob for logprob, _, _ in tops or ()])))
    return lists


def _listing(logprobs: Mapping[Hashable, float], likeliest: Iterable[float]) -> Listing:
    if (total := math.fsum(map(math.exp, logprobs.values()))) > _LARGEST_SUM:
        raise BrokenAnswer(
            f"the probabilities of the tokens that it lists sum to {total:.4g}, and to no more "
            "than 1 they can"
        )
    return Listing(logprobs, min(likeliest, default=None))
