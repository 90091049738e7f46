"""Requests to a server and its answers, in the OpenAI protocol's two forms and SGLang's own."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import numpy as np

from judgebench.judges.api.billing import Usage
from judgebench.judges.api.bounds import Listing
from judgebench.judges.api.settings import ApiSpec
from judgebench.runtime.errors import shown

_LARGEST_SUM = 1.01
"""Of the probabilities of a list: 1, with the rounding of log-probabilities in a few digits."""
_MOST = 10**7
"""Tokens of one request: no model reads or writes so many."""
_FRAME = 16
"""Tokens that a chat template may add to a message, more or less."""
_FRAME_BYTES, _TOKEN_BYTES, _LISTED_BYTES = 4 * 2**20, 2048, 256
"""Bytes of an answer without its tokens, of a token, and of a token in a list: name, bytes, number, probability."""
_NUMBERED = "token_id:"


class BrokenAnswer(ValueError):
    """An answer that cannot be read: no JSON, or not what the protocol has."""


@dataclass(frozen=True)
class Request:
    """One request.

    Attributes:
        path: its address, relative to the server's base or absolute.
        prompt_tokens: an estimate where the server counts them.
        listed: tokens of each list in the answer.
    """

    path: str
    body: Mapping[str, Any]
    prompt_tokens: int
    max_tokens: int
    listed: int = 0

    @property
    def max_bytes(self) -> int:
        """Bytes that an answer may have: more than any server needs for so many tokens and lists, and no more."""
        return _FRAME_BYTES + self.max_tokens * (_TOKEN_BYTES + self.listed * _LISTED_BYTES)


@dataclass(frozen=True)
class Answer:
    """The server's answer to one request; None for what it does not say.

    Attributes:
        lists: a pair for each of the answer's tokens: the token, and the list at its place.
    """

    text: str
    lists: Sequence[tuple[Hashable, Listing]] | None
    usage: Usage | None
    model: str | None = None
    fingerprint: str | None = None


@dataclass(frozen=True)
class RequestPrompt:
    """The prompt of a request: a message of this text, or tokens that write it.

    Attributes:
        count: tokens, or an estimate.
    """

    text: str
    tokens: tuple[int, ...] | None
    count: int


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
        tokens: those whose log-probabilities are asked for by their numbers, where `spec.explicit` can.
    """
    if listed is not None and spec.explicit == "sglang":
        return _sglang(spec, prompt, max_tokens, listed, tokens)
    body: dict[str, Any] = {"model": spec.model, "temperature": spec.degree(), spec.length_name: max_tokens}
    if seed is not None:
        body["seed"] = seed
    path, count = "/completions", prompt.count
    if spec.protocol == "chat":
        path, count = "/chat/completions", prompt.count + _FRAME
        body["messages"] = [{"role": "user", "content": prompt.text}]
        if listed is not None:
            body |= {"logprobs": True, "top_logprobs": listed}
    else:
        body["prompt"] = list(prompt.tokens or ())
        if listed is not None:
            body["logprobs"] = listed
            if spec.explicit == "vllm":
                # it lists either the likeliest or those that are named, as many as `logprobs` says
                body |= {"logprob_token_ids": list(tokens), "logprobs": len(tokens), "return_tokens_as_token_ids": True}
        if spec.explicit == "llama_cpp":
            body["cache_prompt"] = True
    return Request(path, body | dict(spec.extra_body), count, max_tokens, listed or 0)


def _sglang(spec: ApiSpec, prompt: RequestPrompt, max_tokens: int, listed: int, tokens: Sequence[int]) -> Request:
    body = {
        "input_ids": list(prompt.tokens or ()),
        "sampling_params": {"temperature": spec.degree(), "max_new_tokens": max_tokens},
        "return_logprob": True,
        "top_logprobs_num": listed,
        "token_ids_logprob": list(tokens),
    }
    parts = urlsplit(spec.url)
    root = parts.path.rstrip("/").removesuffix("/v1")
    address = urlunsplit((parts.scheme, parts.netloc, f"{root}/generate", "", ""))
    return Request(address, body | dict(spec.extra_body), prompt.count, max_tokens, listed + len(tokens))


def answer_of(payload: Any, numbered: bool) -> Answer:
    """Reads a server's answer from its JSON.

    Args:
        numbered: tokens of its lists are called by their numbers; else by their texts.

    Raises:
        BrokenAnswer: it is none that the protocol knows.
    """
    try:
        if isinstance(payload, Mapping) and "meta_info" in payload:
            return _sglang_answer(payload)
        choice = payload["choices"][0]
        text = choice["message"].get("content") if "message" in choice else choice["text"]
        if not isinstance(text, str | None):
            raise BrokenAnswer(f"its text is {shown(text)}")
        usage = _usage(payload.get("usage"))
        return Answer(
            text=text or "",
            lists=_lists(choice.get("logprobs"), numbered),
            usage=None if text and usage is not None and not usage.completion else usage,
            model=_text(payload.get("model")),
            fingerprint=_text(payload.get("system_fingerprint")),
        )
    except BrokenAnswer:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BrokenAnswer(f"the answer is not what the protocol has ({type(error).__name__}: {error})") from error


def _lists(given: Any, numbered: bool) -> list[tuple[Hashable, Listing]] | None:
    if given is None:
        return None
    if "content" in given:  # chat, and llama.cpp's completions
        if given["content"] is None:
            return None
        return [
            _place(
                [(_name(entry, numbered), entry["logprob"]) for entry in place["top_logprobs"]],
                _name(place, numbered),
                place["logprob"],
            )
            for place in given["content"]
        ]
    if given.get("top_logprobs") is None:
        return None
    places = zip(given["top_logprobs"], given["tokens"], given["token_logprobs"], strict=True)
    return [
        _place([(_numbered(name, numbered), p) for name, p in (tops or {}).items()], _numbered(token, numbered), value)
        for tops, token, value in places
    ]


def _place(tops: Iterable[tuple[Hashable, float]], token: Hashable, value: float) -> tuple[Hashable, Listing]:
    """One place of an answer: the likeliest tokens there, and the one that was taken."""
    listed: dict[Hashable, float] = {}
    last = math.inf
    for name, logprob in tops:
        logprob = _logprob(logprob)
        last = min(last, logprob)
        # two tokens with one text count together
        listed[name] = float(np.logaddexp(listed[name], logprob)) if name in listed else logprob
    listed.setdefault(token, _logprob(value))
    _check_sum(listed.values())
    return token, Listing(listed, last if last < math.inf else None)


def _check_sum(logprobs: Iterable[float]) -> None:
    if (total := math.fsum(map(math.exp, logprobs))) > _LARGEST_SUM:
        raise BrokenAnswer(
            f"the probabilities of the tokens that it lists sum to {total:.4g}, and to no more than 1 they can"
        )


def _logprob(value: Any) -> float:
    # servers write -inf as null or as a very low number
    number = -math.inf if value is None else float(value)
    if math.isnan(number) or number > 1e-3:
        raise BrokenAnswer(f"{shown(value)} is no log-probability")
    return min(0.0, number)


def _name(entry: Mapping[str, Any], numbered: bool) -> Hashable:
    if not numbered:
        return str(entry["token"])
    return int(entry["id"]) if "id" in entry else _numbered(entry["token"], True)


def _numbered(token: str, numbered: bool) -> Hashable:
    if not numbered:
        return str(token)
    if not token.startswith(_NUMBERED):
        raise BrokenAnswer("its lists name tokens by their texts and not by their numbers")
    return int(token.removeprefix(_NUMBERED))


def _sglang_answer(payload: Mapping[str, Any]) -> Answer:
    meta = payload["meta_info"]
    lists: list[tuple[Hashable, Listing]] | None = None
    if meta.get("output_token_ids_logprobs") is not None:
        lists = []
        taken = meta["output_token_logprobs"]
        tops = meta.get("output_top_logprobs") or [None] * len(taken)
        for named, likely, own in zip(meta["output_token_ids_logprobs"], tops, taken, strict=True):
            likely = likely or []
            logprobs: dict[Hashable, float] = {int(entry[1]): _logprob(entry[0]) for entry in [*likely, *named, own]}
            _check_sum(logprobs.values())
            last = min((_logprob(entry[0]) for entry in likely), default=None)
            lists.append((int(own[1]), Listing(logprobs, last)))
    text = payload["text"]
    if not isinstance(text, str):
        raise BrokenAnswer(f"its text is {shown(text)}")
    return Answer(text, lists, _usage(meta))


def _usage(given: Any) -> Usage | None:
    """None where the server does not say; a count of 0 says nothing either (some leave out what they had cached)."""
    if given is None:
        return None
    details = given.get("prompt_tokens_details") or {}
    cached = details.get("cached_tokens") or given.get("cached_tokens") or given.get("prompt_cache_hit_tokens") or 0
    prompt, completion, known = map(_count, (given.get("prompt_tokens"), given.get("completion_tokens"), cached))
    if not prompt or completion is None:
        return None
    return Usage(prompt, min(known or 0, prompt), completion)


def _count(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value) or not 0 <= value <= _MOST:
        raise BrokenAnswer(f"its usage counts {shown(value)} tokens")
    return int(value)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)[:200]
