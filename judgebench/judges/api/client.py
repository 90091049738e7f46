"""Sends requests to one endpoint: limits, retries, and errors as sentences.

The official client is not used: it sends what it finds in the environment (an organization, a project), follows
redirects with the texts, reads an answer of any size, and waits at most a minute even where Retry-After says more.
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
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx

from judgebench.judges.api.protocol import Answer, BrokenAnswer, Request, answer_of
from judgebench.judges.api.settings import Account, ApiSpec, Bill, is_loopback
from judgebench.runtime.errors import UserError
from judgebench.runtime.parsing import Limits, parse_json

_TEMPORARY = (408, 409, 425, 429)
_CODINGS = ("", "identity", "gzip", "x-gzip", "deflate")
_LARGEST_RATIO = 16.0
"""Tokens for each that was estimated at four characters, which have at most so many bytes; a server that counts more
does not make others wait for it."""
_SHOWN = 300
"""Characters of a server's own words that an error repeats."""
_SHORTEST_KEY = 8
"""A shorter key guards nothing, and taking it out of answers could change a score: a key may be called 4."""


class Stopped(Exception):
    """The run has come to its end for another reason, so this request was not sent."""


class RateLimit:
    """Spreads what is counted evenly, at most `per_minute` of it; None sets no limit."""

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
    """One try that failed, for a reason that may pass.

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
        self._spec, self._bill, self._account = spec, bill, account
        self._where = f"{spec.role}.url={spec.url}"
        self._key = api_key(spec)
        headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "judgebench"}
        headers |= {"Accept-Encoding": "gzip, deflate"}
        headers |= {"Authorization": f"Bearer {self._key}"} if self._key else {}
        try:
            self._http = httpx.AsyncClient(
                headers=headers,
                follow_redirects=False,  # the user has said who may read the texts
                timeout=None,  # `_post` limits the whole, however slowly it drips
                limits=httpx.Limits(max_connections=None),
                trust_env=not is_loopback(spec.url),  # a proxy of the environment is not for this machine's own servers
            )
        except (ValueError, ImportError, httpx.InvalidURL) as error:
            raise UserError(
                f"{self._where}: the proxy that the environment names (HTTPS_PROXY, ALL_PROXY) cannot be used "
                f"({self._scrubbed(str(error))}); mend it, or name this host in NO_PROXY."
            ) from None
        self._slots = asyncio.Semaphore(spec.concurrency)
        self._requests, self._tokens = RateLimit(spec.requests_per_minute), RateLimit(spec.tokens_per_minute)
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
        spec = self._spec
        # the waits of a request are drawn from the seed and the request alone
        seed = hashlib.sha256(f"{spec.seed} {json.dumps(request.body, sort_keys=True)}".encode()).digest()
        draw, tries = random.Random(seed), 1
        while True:
            try:
                return await self._try(request)
            except _Failure as failure:
                if tries > spec.retries:
                    times = f"{tries} times" if spec.retries else "once"
                    raise UserError(
                        f"{self._where}: {failure.event} (tried {times}); see whether the server runs and is not "
                        f"overloaded, or raise {spec.role}.retries, {spec.role}.timeout or lower "
                        f"{spec.role}.concurrency."
                    ) from None
                wait = min(spec.longest_wait, spec.backoff * 2 ** (tries - 1)) * draw.uniform(0.5, 1.0)
                if failure.wait is not None:
                    # others that are about to send would get the same answer
                    self._paused_until = max(self._paused_until, time.monotonic() + failure.wait)
                    wait = max(wait, failure.wait)
            tries += 1
            self._account.retries += 1
            await asyncio.sleep(wait)

    async def _try(self, request: Request) -> Answer:
        """One try, when limits and money allow it; what it costs, or may cost where no answer came, is booked."""
        async with self._slots:
            # 1. wait
            while (rest := self._paused_until - time.monotonic()) > 0 and not self.stopped:
                await asyncio.sleep(rest)
            await self._requests.take()
            ratio = min(self._account.ratio, _LARGEST_RATIO)
            await self._tokens.take(request.estimate.prompt * ratio + request.estimate.completion)
            if self.stopped:
                raise Stopped
            # 2. send, with the money for it set aside
            reserved, billed = self._bill.reserve(self._account, request.estimate), False
            try:
                answer = answer_of(await self._post(request), self._spec.numbered and request.listed > 0)
                self._bill.settle(self._account, reserved, request.estimate, answer.usage)
                reserved = 0.0
                return answer
            except (_Failure, BrokenAnswer) as error:
                broken = isinstance(error, BrokenAnswer)
                failure = _Failure("broken answer", self._scrubbed(str(error)), billed=True) if broken else error
                assert isinstance(failure, _Failure)
                billed = failure.billed
                self._account.failures[failure.kind] += 1
                if failure.wait is not None and failure.wait > self._spec.longest_wait:
                    raise UserError(
                        f"{self._where}: {failure.event}, and asks to wait {failure.wait:,.0f} s, which is more than "
                        f"{self._spec.role}.longest_wait={self._spec.longest_wait:g}; try again then."
                    ) from None
                raise failure from None
            finally:
                self._bill.lose(self._account, reserved, billed)

    async def _post(self, request: Request) -> object:
        """The JSON that the server answers; `_Failure` where it might answer another time."""
        address = request.path if "://" in request.path else f"{self._spec.url.rstrip('/')}{request.path}"
        body, content, limit = json.dumps(request.body).encode(), bytearray(), request.max_bytes
        try:
            async with (
                asyncio.timeout(self._spec.timeout),
                self._http.stream("POST", address, content=body) as response,
            ):
                # of several codings, one on the other, a small answer could become one without end
                if response.headers.get("content-encoding", "").strip().lower() not in _CODINGS:
                    raise BrokenAnswer("its answer is compressed in a way that was not asked for")
                async for part in response.aiter_bytes():
                    content += part
                    if max(len(content), response.num_bytes_downloaded) > limit:
                        raise BrokenAnswer(f"its answer has more than {limit / 2**20:,.0f} MiB")
        except TimeoutError:
            raise _Failure("timeout", f"it did not answer within {self._spec.timeout:g} s", billed=True) from None
        except httpx.DecodingError as error:
            raise BrokenAnswer(f"its answer cannot be decompressed ({error})") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            reason = self._scrubbed(str(error)) or type(error).__name__
            if isinstance(error, httpx.ConnectError):
                raise _Failure("no connection", f"there is no connection ({reason})") from None
            raise _Failure("broken connection", f"the connection broke ({reason})", billed=True) from None
        if not 200 <= response.status_code < 300:
            raise self._refused(response, bytes(content))
        try:
            return without_key(parse_json(bytes(content), "its answer", limits=Limits(size=limit)), self._key)
        except UserError as error:
            raise BrokenAnswer(str(error)) from None

    def _refused(self, response: httpx.Response, content: bytes) -> Exception:
        """The error of an HTTP status: a sentence, or a `_Failure` where another try may succeed."""
        key, role, status = self._spec.key_variable, self._spec.role, response.status_code
        if 300 <= status < 400:
            try:
                parts = urlsplit(urljoin(f"{self._spec.url}/", response.headers.get("location", "")))
                where = self._scrubbed(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}")
            except ValueError:
                where = "an address that cannot be read"
            return UserError(
                f"{self._where}: it sends requests on to {where} (HTTP {status}), and the texts may not go there "
                f"without your consent; if you trust that address, give it as {role}.url."
            )
        if status in (401, 403):  # whose text may repeat parts of the key
            used = f"the key in {key}" if key else f"no key, for {role}.key_variable is null"
            return UserError(
                f"{self._where}: it does not let us in (HTTP {status}) with {used}; give a key that it takes."
            )
        # the server's own words, from the places where servers put them
        try:
            answer = parse_json(content, "its answer")
            error = answer.get("error", answer) if isinstance(answer, dict) else answer
            words = str(error)
            if isinstance(error, dict):
                parts_ = [error[name] for name in ("message", "code", "detail") if error.get(name) is not None]
                words = " ".join(dict.fromkeys(map(str, parts_))) or words
        except UserError:
            words = content[: 4 * _SHOWN].decode("utf-8", "replace")
        words = self._scrubbed(words)
        reason = f"(HTTP {status}: {words})" if words else f"(HTTP {status})"
        if status == 404:
            return UserError(
                f"{self._where}: it knows no such address or model {reason}; see {role}.url and "
                f"{role}.model={self._spec.model}."
            )
        if status in _TEMPORARY or status >= 500:
            if "insufficient_quota" in words:
                return UserError(f"{self._where}: the account's quota is used up {reason}.")
            return _Failure(str(status), f"it refuses the request for now {reason}", retry_after(response))
        hint = ""
        if "logprob" in words:
            hint = f"; where the model gives no such lists, take {role}.scores_from=samples or {role}.scores_from=text"
        elif "max_completion_tokens" in words or "max_tokens" in words:
            hint = f"; see {role}.length_name and {role}.max_new_tokens"
        return UserError(f"{self._where}: it refuses the request {reason}{hint}.")

    def _scrubbed(self, text: str) -> str:
        line = " ".join(text.split())
        return (line.replace(self._key, "***") if self._key else line)[:_SHOWN].rstrip(".")


def retry_after(response: httpx.Response) -> float | None:
    """Seconds that a server asks to wait: a number, or a date (RFC 9110, section 10.2.3); None where it says neither.

    Example:
        >>> retry_after(httpx.Response(429, headers={"retry-after": "2"}))
        2.0
    """
    value = response.headers.get("retry-after", "")
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):  # not a date, or one of a year that does not exist
        return None


def api_key(spec: ApiSpec) -> str | None:
    """The key of an endpoint, from the environment; `UserError`, which does not show it, where its variable is not set
    or its content cannot be a key."""
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
            f"{spec.role}.key_variable: what the environment variable {spec.key_variable} holds cannot be a key: it "
            "has line ends, blanks or characters that are not ASCII in it; put the key there alone."
        )
    return key


def without_key(value: Any, key: str | None) -> Any:
    """A server's text, or the JSON that it answers, with `***` wherever it repeats the key."""
    if key is None or len(key) < _SHORTEST_KEY:
        return value
    if isinstance(value, str):
        return value.replace(key, "***")
    if isinstance(value, list):
        return [without_key(item, key) for item in value]
    if isinstance(value, dict):
        return {without_key(name, key): without_key(item, key) for name, item in value.items()}
    return value
