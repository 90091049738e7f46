"""Sends requests to one endpoint, or to several servers of one model: limits, retries, and errors
as sentences.

The official client is not used: it sends what it finds in the environment (an organization, a
project), follows redirects with the texts, reads an answer of any size, and waits at most a minute
even where Retry-After says more.
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
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

import httpx
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    stop_after_attempt,
    wait_exponential,
)

from judgebench.judges.served.fleet import Server, available
from judgebench.judges.served.protocol import (
    PROVIDERS,
    Answer,
    BrokenAnswer,
    Request,
    answer_of,
    is_filtered,
    may_pass,
)
from judgebench.judges.served.settings import Account, ApiSpec, Bill, bare_name, is_loopback
from judgebench.runtime.parsing import Limits, parse_json
from judgebench.words.errors import UserError
from judgebench.words.terminal import print_safely

Result = TypeVar("Result")

_PLAIN = ("", "identity")
_CODINGS = (*_PLAIN, "gzip", "x-gzip", "deflate")
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
"""Window of zlib's that reads both, as the header says."""
_WAY_TO_H11 = ("stream", "_stream", "_httpcore_stream", "_stream", "_connection", "_h11_state")
"""Attributes from a response of httpx to the state of its connection."""
_LARGEST_RATIO = 16.0
"""Tokens for each that was estimated at four characters, which have at most so many bytes; a server
that counts more does not make others wait for it."""
_SHOWN = 300
"""Characters of a server's own words that an error repeats."""
_SHORTEST_KEY = 8
"""A shorter key guards nothing, and taking it out of answers could change a score: a key may be
called 4."""


_LARGEST_FILE = 2**31
_LONGEST_CALL = 3600.0
"""Bytes of a batch's answers, and seconds in which they, or its requests, are sent."""


_NO_PROXY = (
    "the proxy that the environment names (HTTPS_PROXY, ALL_PROXY) cannot be used ({reason}); mend "
    "it, or name this host in NO_PROXY."
)
_GIVEN_UP = (
    "{event} (tried {times}); see whether the server runs and is not overloaded, or raise "
    "{spec.role}.retries, {spec.role}.timeout or lower {spec.role}.concurrency."
)
_TOO_LONG = (
    "{event}, and asks to wait {wait:,.0f} s, which is more than "
    "{spec.role}.longest_wait={spec.longest_wait:g}; try again then."
)
_CHANGED = (
    "it answers as {model}, and answered as {first} before. The readings of both stay in the "
    "store; name another one to keep them apart."
)
_SENT_ON = (
    "it sends requests on to {where} (HTTP {status}), and the texts may not go there without your "
    "consent; if you trust that address, give it as {spec.role}.url."
)
_NO_ENTRY = (
    "it does not let us in {reason} with the key in {spec.key_variable}; give a key that it takes."
)
_NO_KEY = (
    "it does not let us in {reason} with no key, for {spec.role}.key_variable is null; give a key "
    "that it takes."
)
_UNKNOWN = (
    "it knows no such address or model {reason}; see {spec.role}.url and "
    "{spec.role}.model={spec.model}."
)
_NO_QUOTA = "the account's quota is used up {reason}."
_REFUSED = "it refuses the request {reason}."
_NOT_TAKEN = {
    "logprob": (
        "where the model gives no such lists, take {spec.role}.scores_from=samples or "
        "{spec.role}.scores_from=text"
    ),
    "temperature": "{spec.role}.temperature=omit sends none",
    "effort|thinking_?level": "{spec.role}.effort=null sends none",
    r"\bseed\b": "{spec.role}.seed=null sends none",
    "use .?max_completion_tokens": "take {spec.role}.length_name=max_completion_tokens",
    "use .?max_tokens": "take {spec.role}.length_name=max_tokens",
    "max_(completion_)?tokens": "see {spec.role}.length_name and {spec.role}.max_new_tokens",
}
"""Words of a server that refuses a parameter -> what to do about it; the first that fits."""


class Stopped(Exception):
    """The run has come to its end for another reason, so this request was not sent."""


class Unclear(UserError):
    """No answer came, and the request may have been carried out."""


class OtherModel(UserError):
    """A server of several answers as another model than the others, or than when the store's
    readings were made."""


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


@dataclass(eq=False)
class _Failure(Exception):
    """One attempt that failed, for a reason that may pass.

    Attributes:
        kind: for counting: an HTTP status, or a word.
        event: a clause that says what happened.
        wait: seconds that the server asks to wait.
        billed: the server may have done the work.
        server: of the attempt.
    """

    kind: str
    event: str
    wait: float | None = None
    billed: bool = False
    server: Server = field(init=False, repr=False)


def _failure_of(state: RetryCallState) -> _Failure:
    failure = state.outcome and state.outcome.exception()
    assert isinstance(failure, _Failure)
    return failure


class Client:
    """Sends requests to the judge's servers, within the event loop in which it was made.

    Args:
        bill: the run's.
        account: the endpoint's part of it.
    """

    def __init__(self, spec: ApiSpec, bill: Bill, account: Account):
        self._spec = spec
        self._bill = bill
        self._account = account
        self._key = api_key(spec)
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "User-Agent": "judgebench",
            "Accept-Encoding": "gzip, deflate",
        }
        provider = PROVIDERS[spec.protocol]
        headers |= provider.headers
        if self._key and provider.key:
            headers[provider.key] = self._key
        elif self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        self._servers: list[Server] = []
        for url in spec.urls:
            try:
                http = httpx.AsyncClient(
                    headers=headers,
                    follow_redirects=False,  # the user has said who may read the texts
                    timeout=None,  # `_post` limits the whole, however slowly it drips
                    limits=httpx.Limits(max_connections=None),
                    # a server has nothing to keep here, and no request is like the last one
                    cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
                    # a proxy of the environment is not for this machine's own servers
                    trust_env=not is_loopback(url),
                )
            except (ValueError, ImportError, httpx.InvalidURL) as error:
                raise self._error(url, _NO_PROXY, reason=self._scrubbed(str(error))) from None
            new = {
                "requests": 0,
                "failures": 0,
                "models": [],
                "concurrency": spec.concurrency,
            }
            record = account.servers.setdefault(url, new)
            self._servers.append(Server(url, http, asyncio.Semaphore(spec.concurrency), record))
        self._requests = RateLimit(spec.requests_per_minute)
        self._tokens = RateLimit(spec.tokens_per_minute)
        self.stopped = False

    def _error(self, url: str, sentence: str, **more: Any) -> UserError:
        """An error about a server, with its address in front; in the sentence `{spec...}` are
        settings."""
        words = sentence.format(spec=self._spec, **more)
        return UserError(f"{self._spec.role}.url={url}: {words}")

    async def close(self) -> None:
        for server in self._servers:
            await server.http.aclose()

    async def send(self, request: Request, order: Sequence[int] = (0,)) -> Answer:
        """The answer to a request, tried again as often as `retries` says.

        Args:
            order: numbers of the servers, in the order in which they are asked while those before
                are down.

        Raises:
            UserError: the server refuses it, does not answer in the end, or the money does not
                suffice.
            Stopped: `stopped` was set before it could be sent.
        """
        spec = self._spec
        servers = [self._servers[number] for number in order]

        async def attempt() -> Answer:
            while True:
                server = available(servers, spec.timeout)
                answer = await self._try(request, server, servers)
                if answer is not None:
                    return answer

        try:
            return await self._retried(attempt, json.dumps(request.body, sort_keys=True), servers)
        except _Failure as failure:
            raise self._error(
                failure.server.url,
                _GIVEN_UP,
                event=failure.event,
                times=f"{spec.retries + 1} times" if spec.retries else "once",
            ) from None

    async def _retried(
        self, attempt: Callable[[], Awaitable[Result]], name: str, servers: Sequence[Server]
    ) -> Result:
        """The result of an attempt, which is made again after a `_Failure` as often as `retries`
        says; the last failure is raised.

        The waits double up to `longest_wait`, and last as long as the server asks at least; what is
        random about them is drawn from the seed and the `name` of what is asked alone.
        """
        spec = self._spec
        draw = random.Random(hashlib.sha256(f"{spec.seed} {name}".encode()).digest())
        backoff = wait_exponential(multiplier=spec.backoff, max=spec.longest_wait)

        def pause(state: RetryCallState) -> float:
            failure = _failure_of(state)
            seconds = backoff(state) * draw.uniform(0.5, 1.0)
            if not failure.server.well() and any(other.well() for other in servers):
                return 0.0  # the next one takes it
            return max(seconds, failure.wait or 0.0)

        def before_pause(state: RetryCallState) -> None:
            failure = _failure_of(state)
            self._account.retries += 1
            if failure.wait is not None:
                # others that are about to send would get the same answer
                end = time.monotonic() + failure.wait
                failure.server.paused_until = max(failure.server.paused_until, end)

        retrying = AsyncRetrying(
            retry=retry_if_exception_type(_Failure),
            stop=stop_after_attempt(spec.retries + 1),
            wait=pause,
            before_sleep=before_pause,
            sleep=asyncio.sleep,
            reraise=True,
        )
        return await retrying(attempt)

    async def _try(
        self, request: Request, server: Server, servers: Sequence[Server]
    ) -> Answer | None:
        """One try, when limits and money allow it; what it costs, or may cost where no answer came,
        is booked. None where the server went down while the request waited for its turn, and
        another is well."""
        chosen = time.monotonic()
        async with server.slots:
            # 1. wait
            while (rest := server.paused_until - time.monotonic()) > 0 and not self.stopped:
                await asyncio.sleep(rest)
            await self._requests.take()
            ratio = min(self._account.ratio, _LARGEST_RATIO)
            await self._tokens.take(request.estimate.prompt * ratio + request.estimate.completion)
            if self.stopped:
                raise Stopped
            if server.struck > chosen and any(
                other.well() for other in servers if other is not server
            ):
                return None
            # 2. send, with the money for it set aside
            reserved = self._bill.reserve(self._account, request.estimate)
            billed = False
            sent = time.monotonic()
            try:
                answer = answer_of(
                    await self._post(request, server), self._spec.numbered and request.listed > 0
                )
                self._bill.settle(self._account, reserved, request.estimate, answer.usage)
                reserved = 0.0
                server.answered()
                self._note(server, answer)
                return answer
            except (_Failure, BrokenAnswer) as error:
                failure = self._failed(error, server)
                billed = failure.billed
                if failure.wait is not None and failure.wait > self._spec.longest_wait:
                    more = {"event": failure.event, "wait": failure.wait}
                    raise self._error(server.url, _TOO_LONG, **more) from None
                server.record["failures"] += 1
                if failure.kind != "429":
                    server.strike(sent, self._spec.backoff, self._spec.longest_wait)
                raise failure from None
            finally:
                self._bill.lose(self._account, reserved, billed)

    def _failed(self, error: _Failure | BrokenAnswer, server: Server) -> _Failure:
        """The failure of an attempt at a server, counted."""
        failure = error
        if isinstance(failure, BrokenAnswer):
            failure = _Failure("broken answer", self._scrubbed(str(error)), billed=True)
        failure.server = server
        self._account.failures[failure.kind] += 1
        return failure

    def _note(self, server: Server, answer: Answer) -> None:
        """Records what a server answers as; `OtherModel` where that is not the model of the judge's
        other answers."""
        server.record["requests"] += 1
        models = server.record["models"]
        if answer.model and answer.model not in [model for model, _ in models]:
            self.agree(server.url, answer.model)
        if [answer.model, answer.fingerprint] not in models:
            models.append([answer.model, answer.fingerprint])

    def agree(self, url: str, model: str) -> None:
        """Compares the name under which a server answers, folders aside, with that of all answers
        before.

        Raises:
            OtherModel: several servers of one judge differ. One that changes is said.
        """
        if self._account.identity is None:
            self._account.identity = (url, model)
        first_url, first = self._account.identity
        if bare_name(model) == bare_name(first):
            return
        if len(self._spec.urls) > 1:
            raise OtherModel(
                f"{self._spec.role}.url={self._spec.where}: {url} answers as {model}, and "
                f"{first_url} as {first}; several servers of one judge serve the same model. Leave "
                "away the server of the other one; or name another store, which begins anew."
            )
        said = self._error(url, _CHANGED, model=model, first=first)
        print_safely(f"judgebench: {said}", error=True)

    async def call(
        self, method: str, path: str, body: bytes | None = None, kind: str = "application/json"
    ) -> bytes:
        """The provider's answer to a request about batches. One that only looks is tried again, as
        `retries` says; one that makes something is not, where it may have been made.

        Raises:
            UserError: it refuses, or does not answer in the end.
            Unclear: it may have done what was asked.
        """
        server = self._servers[0]
        address = f"{server.url.rstrip('/')}{path}"
        headers = {"Content-Type": kind}

        async def attempt() -> bytes:
            try:
                return await self._exchange(method, address, body, _LARGEST_FILE, server, headers)
            except (_Failure, BrokenAnswer) as error:
                failure = self._failed(error, server)
                if method != "GET" and failure.kind not in ("429", "no connection"):
                    raise Unclear(
                        self._error(server.url, "{event}.", event=failure.event)
                    ) from None
                raise failure from None

        try:
            return await self._retried(attempt, f"{method} {path}", [server])
        except _Failure as failure:
            raise self._error(
                server.url,
                "{tried}.",
                tried=f"{failure.event} (tried {self._spec.retries + 1} times)",
            ) from None

    async def _post(self, request: Request, server: Server) -> object:
        """The JSON that the server answers; `_Failure` where it might answer another time."""
        address = f"{server.url.rstrip('/')}{request.path}"
        body = json.dumps(request.body)
        limit = request.max_bytes
        content = await self._exchange("POST", address, body.encode(), limit, server)
        try:
            return self.parsed(content, limit)
        except UserError as error:
            raise BrokenAnswer(str(error)) from None

    def parsed(self, content: bytes, limit: int = _LARGEST_FILE) -> Any:
        """The JSON of an answer, without the key; `UserError` where it is none."""
        return without_key(parse_json(content, "its answer", limits=Limits(size=limit)), self._key)

    async def _exchange(
        self,
        method: str,
        address: str,
        body: bytes | None,
        limit: int,
        server: Server,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """The answer of a server, of at most `limit` bytes; `_Failure` where it might answer
        another time."""
        content = bytearray()
        try:
            async with (
                asyncio.timeout(self._spec.timeout if headers is None else _LONGEST_CALL),
                server.http.stream(method, address, content=body, headers=headers) as response,
            ):
                # of several codings, one on the other, a small answer could become one without end
                coding = response.headers.get("content-encoding", "").strip().lower()
                if coding not in _CODINGS:
                    raise BrokenAnswer("its answer is compressed in a way that was not asked for")
                inflating = None
                if coding not in _PLAIN:
                    inflating = zlib.decompressobj(_GZIP_OR_ZLIB)
                async for part in response.aiter_raw():
                    # no more than may be, and a byte, is ever inflated
                    room = limit + 1 - len(content)
                    content += part if inflating is None else inflating.decompress(part, room)
                    if max(len(content), response.num_bytes_downloaded) > limit:
                        raise BrokenAnswer(f"its answer has more than {limit / 2**20:,.0f} MiB")
                whole = inflating is None or (inflating.eof and not inflating.unused_data)
                if response.num_bytes_downloaded and not whole:
                    raise BrokenAnswer("its compressed answer does not end where it should")
                await _end(response)
        except TimeoutError:
            raise _Failure(
                "timeout", f"it did not answer within {self._spec.timeout:g} s", billed=True
            ) from None
        except zlib.error as error:
            raise BrokenAnswer(f"its answer cannot be decompressed ({error})") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            reason = self._scrubbed(str(error)) or type(error).__name__
            if isinstance(error, httpx.ConnectError):
                raise _Failure("no connection", f"there is no connection ({reason})") from None
            raise _Failure(
                "broken connection", f"the connection broke ({reason})", billed=True
            ) from None
        if response.status_code == 400 and is_filtered(_json_or_none(content)):
            return bytes(content)
        if not 200 <= response.status_code < 300:
            raise self._refused(response, bytes(content), server.url)
        return bytes(content)

    def _refused(self, response: httpx.Response, content: bytes, url: str) -> Exception:
        """The error of an HTTP status: a sentence, or a `_Failure` where another try may
        succeed."""
        status = response.status_code
        words = ""
        if 300 <= status < 400:
            sentence = _SENT_ON
            words = self._scrubbed(_place(response.headers.get("location", ""), url))
        elif status in (401, 403):  # whose text may repeat parts of the key
            sentence = _NO_ENTRY if self._key else _NO_KEY
        else:
            words = self._words(content)
            sentence = _REFUSED
        reason = f"(HTTP {status}: {words})" if words else f"(HTTP {status})"
        if status == 404:
            sentence = _UNKNOWN
        elif may_pass(status):
            sentence = _NO_QUOTA
            if "insufficient_quota" not in words:
                event = f"it refuses the request for now {reason}"
                return _Failure(str(status), event, retry_after(response))
        elif sentence == _REFUSED:
            sentence = self._refusal(words)
        return self._error(url, sentence, reason=reason, status=status, where=words)

    def _refusal(self, words: str) -> str:
        """The sentence on a request that a server refuses, with the setting by which it does not
        hold the parameter that these words are about."""
        # what the user has added by hand comes first
        added = {
            re.escape(name): f"leave {name} out of {{spec.role}}.extra_body"
            for name in self._spec.extra_body
        }
        for parameter, remedy in (added | _NOT_TAKEN).items():
            if re.search(parameter, words, re.IGNORECASE):
                return f"{_REFUSED.rstrip('.')}; {remedy}."
        return _REFUSED

    def _words(self, content: bytes) -> str:
        """The server's own words of an error, from the places where servers put them."""
        answer = _json_or_none(content)
        if answer is None:
            return self._scrubbed(content[: 4 * _SHOWN].decode("utf-8", "replace"))
        error = answer.get("error", answer) if isinstance(answer, dict) else answer
        words = ""
        if isinstance(error, dict):
            parts = [error.get(name) for name in ("message", "code", "detail")]
            texts = [str(part) for part in parts if part is not None]
            words = " ".join(dict.fromkeys(texts))
        return self._scrubbed(words or str(error))

    def _scrubbed(self, text: str) -> str:
        line = " ".join(text.split())
        return (line.replace(self._key, "***") if self._key else line)[:_SHOWN].rstrip(".")


def _json_or_none(content: bytes | bytearray) -> Any:
    """The JSON of an error; None where it is none."""
    with suppress(UserError):
        return parse_json(bytes(content), "its answer")
    return None


async def _end(response: httpx.Response) -> None:
    """Ends an answer that was read. Its connection carries another only if nothing was sent behind
    the end: that would be read as the next answer, which is to another text."""
    state: Any = response
    for name in _WAY_TO_H11:
        state = getattr(state, name, None)
    more, _ = getattr(state, "trailing_data", (b"", False))
    if state is None or more:
        await response.extensions["network_stream"].aclose()
    if more:
        raise BrokenAnswer("it has sent more bytes than its answer says that it has")


def _place(location: str, url: str) -> str:
    """The address to which a server sends requests on, without a user and a query."""
    try:
        parts = urlsplit(urljoin(f"{url}/", location))
    except ValueError:
        return "an address that cannot be read"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def retry_after(response: httpx.Response) -> float | None:
    """Seconds that a server asks to wait: a number, or a date (RFC 9110, section 10.2.3); None
    where it says neither.

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
    # not a date, or one of a year that does not exist
    except (TypeError, ValueError, OverflowError):
        return None


def api_key(spec: ApiSpec) -> str | None:
    """The key of an endpoint, from the environment; `UserError`, which does not show it, where its
    variable is not set or its content cannot be a key."""
    if spec.key_variable is None:
        return None
    key = os.environ.get(spec.key_variable, "").strip()
    if re.fullmatch(r"[!-~]+", key):
        return key
    raise UserError((_ODD_KEY if key else _UNSET_KEY).format(spec=spec))


_UNSET_KEY = (
    "{spec.role}.key_variable: the environment variable {spec.key_variable} is not set; put the "
    "key there, or give {spec.role}.key_variable=null for a server that asks for none."
)
_ODD_KEY = (
    "{spec.role}.key_variable: what the environment variable {spec.key_variable} holds cannot be a "
    "key: it has line ends, blanks or characters that are not ASCII in it; put the key there alone."
)


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
