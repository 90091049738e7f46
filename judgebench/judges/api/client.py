"""Sends requests to one endpoint: limits, retries, and errors as sentences.

The official client is not used: it sends what it finds in the environment (an organization, a project), follows
redirects with the texts, reads an answer of any size, and waits at most a minute whatever Retry-After says.
"""

from __future__ import annotations

import asyncio
import email.utils
import hashlib
import json
import random
import time
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

import httpx

from judgebench.judges.api.billing import Account, Bill
from judgebench.judges.api.http import Response, Unusable, api_key, http_client, post, without_key
from judgebench.judges.api.protocol import Answer, BrokenAnswer, Request, answer_of
from judgebench.judges.api.settings import ApiSpec
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
    """Starts what is counted evenly, at most so much of it in a minute.

    Args:
        per_minute: None is no limit.
    """

    def __init__(self, per_minute: float | None):
        self._seconds = 0.0 if per_minute is None else 60.0 / per_minute
        self._free = 0.0

    async def take(self, amount: float = 1.0) -> None:
        """Waits for its turn, and takes the time of `amount`."""
        now = time.monotonic()
        start = max(now, self._free)
        self._free = start + amount * self._seconds
        if start > now:
            await asyncio.sleep(start - now)


@dataclass
class _Failure(Exception):
    """One try that came to nothing.

    Attributes:
        kind: for counting: an HTTP status, or a word.
        told: a clause that says what happened.
        wait: seconds that the server asks to wait.
        billed: whether the server may have done the work.
    """

    kind: str
    told: str
    wait: float | None = None
    billed: bool = False


class Client:
    """One endpoint's. It belongs to the event loop in which it is used.

    Args:
        spec: where it is, and with which limits.
        bill: the run's.
        account: the endpoint's part of it.
    """

    def __init__(self, spec: ApiSpec, bill: Bill, account: Account):
        self._spec = spec
        self._bill = bill
        self._account = account
        self._key = api_key(spec)
        try:
            self._http = http_client(spec.url)
        except (ValueError, ImportError, httpx.InvalidURL) as error:
            raise UserError(
                f"{self._where}: the proxy that the environment names (HTTPS_PROXY, ALL_PROXY) cannot be used "
                f"({self._scrubbed(str(error))}); mend it, or name this host in NO_PROXY."
            ) from None
        self._slots = asyncio.Semaphore(spec.concurrency)
        self._requests = RateLimit(spec.requests_per_minute)
        self._tokens = RateLimit(spec.tokens_per_minute)
        self._held_until = 0.0
        self.stopped = False

    async def close(self) -> None:
        """Closes its connections."""
        await self._http.aclose()

    async def send(self, request: Request, numbered: bool = False) -> Answer:
        """The answer to a request, tried again as often as `retries` says.

        Args:
            numbered: see `answer_of`.

        Raises:
            UserError: the server refuses it, does not answer in the end, or the money does not suffice.
            Stopped: `stopped` was set before it could be sent.
        """
        draw = self._jitter(request)
        for attempt in range(self._spec.retries + 1):
            try:
                async with self._slots:
                    return await self._turn(request, numbered)
            except _Failure as failure:
                self._account.failures[failure.kind] += 1
                if failure.wait is not None and failure.wait > self._spec.longest_wait:
                    raise UserError(
                        f"{self._where}: {failure.told}, and asks to wait {failure.wait:,.0f} s, which is more than "
                        f"{self._spec.role}.longest_wait={self._spec.longest_wait:g}; try again then."
                    ) from None
                if attempt == self._spec.retries:
                    tries = f"{attempt + 1} times" if attempt else "once"
                    raise UserError(
                        f"{self._where}: {failure.told} (tried {tries}); see whether the server runs and is not "
                        f"overloaded, or raise {self._spec.role}.retries, {self._spec.role}.timeout or lower "
                        f"{self._spec.role}.concurrency."
                    ) from None
                self._account.retries += 1
                wait = min(self._spec.longest_wait, self._spec.backoff * 2**attempt) * draw.uniform(0.5, 1.0)
                if failure.wait is not None:
                    wait = max(wait, failure.wait)
                    # whoever else is about to send would only be told the same
                    self._held_until = max(self._held_until, time.monotonic() + failure.wait)
            await asyncio.sleep(wait)
        raise AssertionError("the last attempt returns or raises")

    async def _turn(self, request: Request, numbered: bool) -> Answer:
        """One try, when its turn has come."""
        while (rest := self._held_until - time.monotonic()) > 0 and not self.stopped:
            await asyncio.sleep(rest)
        await self._requests.take()
        ratio = min(self._account.ratio, _LARGEST_RATIO)
        await self._tokens.take(request.prompt_tokens * ratio + request.max_tokens)
        if self.stopped:
            raise Stopped
        reserved = self._bill.reserve(self._account, request)
        try:
            answer = answer_of(await self._once(request), numbered)
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
        """The JSON that the server answers.

        Raises:
            UserError: it refuses for a reason that does not pass.
            _Failure: it might answer another time.
        """
        body = json.dumps(request.body).encode()
        address = request.path if "://" in request.path else f"{self._spec.url.rstrip('/')}{request.path}"
        try:
            async with asyncio.timeout(self._spec.timeout):  # of the whole, however slowly it drips
                response = await post(self._http, address, body, self._key, request.max_bytes)
        except TimeoutError:
            told = f"it did not answer within {self._spec.timeout:g} s"
            raise _Failure("timeout", told, billed=True) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            refused = isinstance(error, httpx.ConnectError)
            reason = self._scrubbed(str(error)) or type(error).__name__
            told = f"there is no connection ({reason})" if refused else f"the connection broke ({reason})"
            raise _Failure("no connection" if refused else "broken connection", told, billed=not refused) from None
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
            held = f"the key in {key}" if key else f"no key, for {role}.key_variable is null"
            return UserError(
                f"{self._where}: it does not let us in (HTTP {status}) with {held}; give a key that it takes."
            )
        words = self._words(response)
        said = f": {words}" if words else ""
        if status == 404:
            return UserError(
                f"{self._where}: it knows no such address or model (HTTP 404{said}); see {role}.url and "
                f"{role}.model={self._spec.model}."
            )
        if status in _TEMPORARY or status >= 500:
            if "insufficient_quota" in words:
                return UserError(f"{self._where}: the account's quota is used up (HTTP {status}{said}).")
            return _Failure(str(status), f"it answers HTTP {status}{said}", _retry_after(response))
        hint = ""
        if "logprob" in words:
            hint = f"; where the model gives no such lists, take {role}.scores_from=samples or {role}.scores_from=text"
        elif "max_completion_tokens" in words or "max_tokens" in words:
            hint = f"; see {role}.length_name and {role}.max_new_tokens"
        return UserError(f"{self._where}: it refuses the request (HTTP {status}{said}){hint}.")

    def _words(self, response: Response) -> str:
        """A server's words on an error, in one line."""
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
        """The address to which a redirect leads, without its query."""
        try:
            parts = urlsplit(urljoin(f"{self._spec.url}/", response.headers.get("location", "")))
            return self._scrubbed(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}")
        except ValueError:
            return "an address that is none"

    def _scrubbed(self, text: str) -> str:
        """A server's words in one line, and without the key."""
        line = " ".join(text.split())
        line = line.replace(self._key, "***") if self._key else line
        return line[:_SHOWN].rstrip(".")

    def _jitter(self, request: Request) -> random.Random:
        digest = hashlib.sha256(f"{self._spec.seed} {json.dumps(request.body, sort_keys=True)}".encode()).digest()
        return random.Random(digest)

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
