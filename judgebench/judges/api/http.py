"""One request over HTTP, whose answer has a maximum size however it is compressed, and which follows no redirect; and
the key that is sent with it: read from the environment, and taken out of whatever the server says."""

from __future__ import annotations

import ipaddress
import os
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx

from judgebench.judges.api.settings import ApiSpec
from judgebench.runtime.errors import UserError

_CODINGS = ("gzip", "x-gzip", "deflate")
_MIB = 2**20


class Unusable(ValueError):
    """An answer that is too large, or in a form that was not asked for."""


@dataclass(frozen=True)
class Response:
    """A server's answer.

    Attributes:
        content: the body, no longer compressed.
    """

    status: int
    headers: Mapping[str, str]
    content: bytes


def http_client(url: str) -> httpx.AsyncClient:
    """The connections to one address. Nothing of the environment is sent, and no redirect is followed: who is to read
    the texts, the user has said."""
    return httpx.AsyncClient(
        follow_redirects=False,
        timeout=None,  # the caller limits the whole, however slowly it drips
        limits=httpx.Limits(max_connections=None),
        # what a proxy of the environment is for, it is not for this machine's own servers
        trust_env=not is_loopback(url),
    )


async def post(client: httpx.AsyncClient, url: str, body: bytes, key: str | None, max_bytes: int) -> Response:
    """Sends JSON.

    Args:
        key: goes into the header Authorization; None sends none.
        max_bytes: bytes of the answer, before and after it is decompressed.

    Raises:
        Unusable: the answer has more, is compressed as was not asked for, or does not decompress.
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


def is_loopback(url: str) -> bool:
    """True of an address that is this machine's own."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


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
