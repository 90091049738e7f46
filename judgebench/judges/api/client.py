"""Sends requests to one endpoint: limits, retries, and errors as sentences.

The official client is not used: it sends what it finds in the environment (an organization, a project), follows
redirects with the texts, reads an answer of any size, and waits at most a minute whatever Retry-After says.
"""

from __future__ import annotations

import asyncio
import email.utils
import hashlib
import json
import os
import random
import re
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx

from judgebench.judges.api.billing import Account, Bill
from judgebench.judges.api.protocol import Answer, BrokenAnswer, Request, answer_of
from judgebench.judges.api.settings import ApiSpec, is_loopback
from judgebench.runtime.errors import UserError
from judgebench.runtime.parsing import Limits, parse_json

_TEMPORARY = (408, 409, 425, 429)
_LARGEST_RATIO = 16.0
"""Tokens for each that was estimated at four characters, which have at most so many bytes; a server that counts more
does not make others wait for it."""
_SHOWN = 300
"""Characters of a server's own words that an error repeats."""


class Stopped(Exception):
    """The run has come to its end for another reason, so this request was not sent."""


class RateLimit:
    """Spreads what is counted evenly, at most `per_minute` of it; None is no limit."""

    def __init__(self, per_minute: float | None):
        self._seconds = 0.0 if per_minute is None else 60.0 / per_minute
        self._free = 0.0

    async def take(self, amount: float = 1.0) -> None:
        now = time.monotonic()
        start = max(now, self._free)
        self._free = start + amount * self._seconds
        if start > now:
            await asyncio.sleep(start - now)


@dataclass
class _Failure(Exception):
    """One try that failed.

    Attributes:
        kind: for counting: an HTTP status, or a word.
        event: a clause that says what happened.
        wait: seconds that the server asks to wait.
        billed: the server may have done the work.
    """

    kind: str
    event: str
    wait: float | None = None
    billed: bool = False


class Client:
    """Sends requests to one endpoint, within the event loop in which it was made.

    Args:
        bill: the run's.
        account: the endpoint's part of it.
    """

    def __init__(self, spec: ApiSpec, bill: Bill, account: Account):
        self._spec = spec
        self._bill = bill
        self._account = account
        self._key = api_key(spec)
        try:
            # nothing of the environment is sent, and no redirect is followed: the user has said who may read the texts
            self._http = httpx.AsyncClient(
                follow_redirects=False,
                timeout=None,  # `_once` limits the whole, however slowly it drips
                limits=httpx.Limits(max_connections=None),
                # a proxy of the environment is not for this machine's own servers
                trust_env=not is_loopback(spec.url),
            )
        except (ValueError, ImportError, httpx.InvalidURL) as error:
            raise UserError(
                f"{self._where}: the proxy that the environment names (HTTPS_PROXY, ALL_PROXY) cannot be used "
                f"({self._scrubbed(str(error))}); mend it, or name this host in NO_PROXY."
            ) from None
        self._slots = asyncio.Semaphore(spec.concurrency)
        self._requests = RateLimit(spec.requests_per_minute)
        self._tokens = RateLimit(spec.tokens_per_minute)
        self._paused_until = 0.0
        self.stopped = False

    async def close(self) -> None:
        await self._http.aclose()

    async def send(self, request: Request) -> Answer:
        """The answer to a request, tried again as often as `retries` says.

        Raises:
            UserError: the server refuses it, does not answer in the end, or the money does not suffice.
            Stopped: `stopped` was set before it could be sent.
        """
        digest = hashlib.sha256(f"{self._spec.seed} {json.dumps(request.body, sort_keys=True)}".encode()).digest()
        draw = random.Random(digest)
        for attempt in range(self._spec.retries + 1):
            try:
                async with self._slots:
                    return await self._turn(request)
            except _Failure as failure:
                self._account.failures[failure.kind] += 1
                if failure.wait is not None and failure.wait > self._spec.longest_wait:
                    raise UserError(
                        f"{self._where}: {failure.event}, and asks to wait {failure.wait:,.0f} s, which is more than "
                        f"{self._spec.role}.longest_wait={self._spec.longest_wait:g}; try again then."
                    ) from None
                if attempt == self._spec.retries:
                    tries = f"{attempt + 1} times" if attempt else "once"
                    raise UserError(
                        f"{self._where}: {failure.event} (tried {tries}); see whether the server runs and is not "
                        f"overloaded, or raise {self._spec.role}.retries, {self._spec.role}.timeout or lower "
                        f"{self._spec.role}.concurrency."
                    ) from None
                self._account.retries += 1
                wait = min(self._spec.longest_wait, self._spec.backoff * 2**attempt) * draw.uniform(0.5, 1.0)
                if failure.wait is not None:
                    wait = max(wait, failure.wait)
                    # others that are about to send would get the same answer
                    self._paused_until = max(self._paused_until, time.monotonic() + failure.wait)
            await asyncio.sleep(wait)
        raise AssertionError("the last attempt returns or raises")

    async def _turn(self, request: Request) -> Answer:
        while (rest := self._paused_until - time.monotonic()) > 0 and not self.stopped:
            await asyncio.sleep(rest)
        await self._requests.take()
        ratio = min(self._account.ratio, _LARGEST_RATIO)
        await self._tokens.take(request.prompt_tokens * ratio + request.max_tokens)
        if self.stopped:
            raise Stopped
        reserved = self._bill.reserve(self._account, request)
        try:
            answer = answer_of(await self._once(request), self._spec.numbered and request.listed > 0)
        except _Failure as failure:
            self._bill.lose(self._account, reserved, failure.billed)
            raise
        except BrokenAnswer as error:
            self._bill.lose(self._account, reserved, billed=True)
            raise _Failure("broken answer", self._scrubbed(f"{error}"), billed=True) from None
        except BaseException:
            self._bill.lose(self._account, reserved, billed=False)
            raise
        self._bill.settle(self._account, reserved, request, answer.usage)
        return answer

    async def _once(self, request: Request) -> object:
        """The JSON that the server answers; `_Failure` where it might answer another time."""
        body = json.dumps(request.body).encode()
        address = request.path if "://" in request.path else f"{self._spec.url.rstrip('/')}{request.path}"
        try:
            async with asyncio.timeout(self._spec.timeout):  # of the whole, however slowly it drips
                response = await post(self._http, address, body, self._key, request.max_bytes)
        except TimeoutError:
            raise _Failure("timeout", f"it did not answer within {self._spec.timeout:g} s", billed=True) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            refused = isinstance(error, httpx.ConnectError)
            reason = self._scrubbed(str(error)) or type(error).__name__
            if refused:
                raise _Failure("no connection", f"there is no connection ({reason})") from None
            raise _Failure("broken connection", f"the connection broke ({reason})", billed=True) from None
        except Unusable as error:
            raise _Failure("broken answer", str(error), billed=True) from None
        if not 200 <= response.status < 300:
            raise self._refused(response)
        try:
            answer = parse_json(response.content, "its answer", limits=Limits(size=request.max_bytes))
        except UserError as error:
            raise _Failure("broken answer", self._scrubbed(str(error)), billed=True) from None
        return without_key(answer, self._key)

    def _refused(self, response: Response) -> Exception:
        key, role, status = self._spec.key_variable, self._spec.role, response.status
        if 300 <= status < 400:
            return UserError(
                f"{self._where}: it sends requests on to {self._elsewhere(response)} (HTTP {status}), and nobody has "
                f"said that the texts may go there; if you trust that address, give it as {role}.url."
            )
        if status in (401, 403):  # whose text may repeat parts of the key
            used = f"the key in {key}" if key else f"no key, for {role}.key_variable is null"
            return UserError(
                f"{self._where}: it does not let us in (HTTP {status}) with {used}; give a key that it takes."
            )
        words = self._words(response)
        reason = f": {words}" if words else ""
        if status == 404:
            return UserError(
                f"{self._where}: it knows no such address or model (HTTP 404{reason}); see {role}.url and "
                f"{role}.model={self._spec.model}."
            )
        if status in _TEMPORARY or status >= 500:
            if "insufficient_quota" in words:
                return UserError(f"{self._where}: the account's quota is used up (HTTP {status}{reason}).")
            return _Failure(str(status), f"it answers HTTP {status}{reason}", _retry_after(response))
        hint = ""
        if "logprob" in words:
            hint = f"; where the model gives no such lists, take {role}.scores_from=samples or {role}.scores_from=text"
        elif "max_completion_tokens" in words or "max_tokens" in words:
            hint = f"; see {role}.length_name and {role}.max_new_tokens"
        return UserError(f"{self._where}: it refuses the request (HTTP {status}{reason}){hint}.")

    def _words(self, response: Response) -> str:
        try:
            content = parse_json(response.content, "its answer")
        except UserError:
            return self._scrubbed(response.content[: 4 * _SHOWN].decode("utf-8", "replace"))
        error = content.get("error", content) if isinstance(content, dict) else content
        if isinstance(error, dict):
            parts = [str(error[name]) for name in ("message", "code", "detail") if error.get(name) is not None]
            return self._scrubbed(" ".join(dict.fromkeys(parts)) or str(error))
        return self._scrubbed(str(error))

    def _elsewhere(self, response: Response) -> str:
        try:
            parts = urlsplit(urljoin(f"{self._spec.url}/", response.headers.get("location", "")))
            return self._scrubbed(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}")
        except ValueError:
            return "an address that is none"

    def _scrubbed(self, text: str) -> str:
        line = " ".join(text.split())
        line = line.replace(self._key, "***") if self._key else line
        return line[:_SHOWN].rstrip(".")

    @property
    def _where(self) -> str:
        return f"{self._spec.role}.url={self._spec.url}"


def _retry_after(response: Response) -> float | None:
    """Seconds that a server asks to wait: a number, or a date (RFC 9110, section 10.2.3)."""
    given = response.headers.get("retry-after")
    if given is None:
        return None
    try:
        return max(0.0, float(given))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(given).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):  # no date, or one of a year that there is not
        return None


_CODINGS = ("gzip", "x-gzip", "deflate")
_MIB = 2**20


class Unusable(ValueError):
    """An answer that is too large, or in a form that was not asked for."""


@dataclass(frozen=True)
class Response:
    """A server's answer, no longer compressed."""

    status: int
    headers: Mapping[str, str]
    content: bytes


async def post(client: httpx.AsyncClient, url: str, body: bytes, key: str | None, max_bytes: int) -> Response:
    """Sends JSON, with a key in the header Authorization.

    Raises:
        Unusable: the answer has more than `max_bytes`, compressed or not, or does not decompress.
        httpx.HTTPError: no connection, or one that broke.
    """
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json",
        "Accept-Encoding": "gzip, deflate",
        "User-Agent": "judgebench",
        **({"Authorization": f"Bearer {key}"} if key else {}),
    }
    async with client.stream("POST", url, content=body, headers=headers) as response:
        raw = bytearray()
        async for part in response.aiter_raw():
            raw += part
            if len(raw) > max_bytes:
                raise _too_large(max_bytes)
        content = _decompressed(bytes(raw), response.headers.get("content-encoding", ""), max_bytes)
        return Response(response.status_code, response.headers, content)


def _decompressed(raw: bytes, coding: str, max_bytes: int) -> bytes:
    coding = coding.strip().lower()
    if coding in ("", "identity") or not raw:
        return raw
    if coding not in _CODINGS:
        raise Unusable("its answer is compressed in a way that was not asked for")
    machine = zlib.decompressobj(zlib.MAX_WBITS | 32)  # tells gzip from zlib by itself
    try:
        content = machine.decompress(raw, max_bytes + 1)
    except zlib.error as error:
        raise Unusable(f"its answer cannot be decompressed ({error})") from None
    if len(content) > max_bytes:
        raise _too_large(max_bytes)
    if not machine.eof:
        raise Unusable("its compressed answer is cut off")
    return content


def _too_large(max_bytes: int) -> Unusable:
    return Unusable(f"its answer has more than {max_bytes / _MIB:,.0f} MiB")


_MASK = "***"
_SHORTEST = 8
"""A shorter key guards nothing, and taking it out of answers could change a score: a key may be called 4."""


def api_key(spec: ApiSpec) -> str | None:
    """The key of an endpoint, from the environment.

    Raises:
        UserError: its variable is not set, or holds what can be no key. The sentence does not show it.
    """
    if spec.key_variable is None:
        return None
    key = os.environ.get(spec.key_variable, "").strip()
    if not key:
        raise UserError(
            f"{spec.role}.key_variable: the environment variable {spec.key_variable} is not set; put the key there, or "
            f"give {spec.role}.key_variable=null for a server that asks for none."
        )
    if not re.fullmatch(r"[!-~]+", key):
        raise UserError(
            f"{spec.role}.key_variable: what the environment variable {spec.key_variable} holds is no key, for it has "
            "line ends, blanks or characters that are not ASCII in it; put the key there alone."
        )
    return key


def without_key(value: Any, key: str | None) -> Any:
    """A server's text, or the JSON that it answers, with `***` wherever it repeats the key."""
    if key is None or len(key) < _SHORTEST:
        return value
    if isinstance(value, str):
        return value.replace(key, _MASK)
    if isinstance(value, list):
        return [without_key(item, key) for item in value]
    if isinstance(value, dict):
        return {without_key(name, key): without_key(item, key) for name, item in value.items()}
    return value
