"""The servers of one judge: whose an article is, which servers are well, and how many requests each
takes at once."""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import httpx

from judgebench.judges.api.settings import MOST_AT_ONCE

_FIRST = 4
"""Requests at once, where their number is found out, to begin with."""
_FASTER = 1.1
"""Times as many answers a second, for which a doubling is worth it."""
_UNEVEN = 1.05
"""Times the mean load that a server's own articles may make."""


def homes(articles: Iterable[str], urls: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Article -> the numbers of all servers, its own first, then those that stand in for it in
    their order.

    By rendezvous hashing, so that most articles stay where they were when a server joins or leaves;
    an article whose server has its share already is the next one's.

    Args:
        articles: one for each request.
    """
    counts = Counter(articles)
    load = [0] * len(urls)
    found = {}
    most = math.ceil(_UNEVEN * counts.total() / len(urls))
    for article, count in counts.items():
        weights = [hashlib.sha256(f"{url} {article}".encode()).digest() for url in urls]
        order = sorted(range(len(urls)), key=weights.__getitem__, reverse=True)
        free = [server for server in order if load[server] + count <= most]
        home = free[0] if free else min(order, key=load.__getitem__)
        load[home] += count
        found[article] = (home, *(server for server in order if server != home))
    return found


class Slots:
    """At most `limit` requests under way; a context for each.

    Where it is found out, the limit is doubled while a tenth more answers a second come of it. It
    is halved where the server refuses (429, 503) or does not answer in time, and from then on
    raised by one after each round without that.

    Args:
        fixed: the limit; None: it is found out.
        limit: what was found earlier.
    """

    def __init__(self, fixed: int | None, limit: int | None = None):
        self.limit = fixed or limit or _FIRST
        self._fixed = fixed is not None
        self._under_way, self._waiting, self._changed = 0, 0, asyncio.Condition()
        self._step = 0 if limit else self.limit  # what the next round may add; 0: nothing
        self._best, self._answers, self._began, self._halved = 0.0, 0, time.monotonic(), 0.0

    async def __aenter__(self) -> None:
        async with self._changed:
            self._waiting += 1
            try:
                await self._changed.wait_for(lambda: self._under_way < self.limit)
            finally:
                self._waiting -= 1
            self._under_way += 1

    async def __aexit__(self, *raised: object) -> None:
        async with self._changed:
            self._under_way -= 1
            self._changed.notify(max(1, self.limit - self._under_way))

    def answered(self) -> None:
        """Counts an answer while others wait to be sent: fewer requests than may be say nothing of
        the server."""
        if self._fixed or not self._waiting:
            self._answers = 0
            return
        self._answers += 1
        if self._answers == self.limit:  # those before were sent with another number under way
            self._began = time.monotonic()
        if self._answers < 3 * self.limit:
            return
        rate = 2 * self.limit / max(1e-9, time.monotonic() - self._began)
        self._answers = 0
        if self._step > 1 and rate < _FASTER * self._best:  # the last doubling brought nothing
            self.limit = self.limit // 2
            self._step = 0
            return
        self._best = max(self._best, rate)
        self.limit = min(MOST_AT_ONCE, self.limit + self._step)
        self._step = self.limit if self._step > 1 else self._step

    def refused(self, sent: float) -> None:
        """Halves the limit, once for all requests that were under way at that time; `sent`: when
        this one was."""
        if not self._fixed and sent >= self._halved:
            self.limit = max(1, self.limit // 2)
            self._step = 1
            self._answers = 0
            self._halved = time.monotonic()


class Server:
    """One server: its connections, its health, and what it has told.

    Attributes:
        told: its part of `Account.servers`.
        paused_until: when requests may be sent again; it asked for a pause.
        struck: when it was last taken for down.
        down_until: when one request may try whether it is well again; 0 for one that is.
    """

    def __init__(self, url: str, http: httpx.AsyncClient, slots: Slots, told: dict[str, Any]):
        self.url = url
        self.http = http
        self.slots = slots
        self.told = told
        self.paused_until = self.down_until = self.struck = 0.0
        self._strikes = 0

    def well(self) -> bool:
        return self.down_until <= time.monotonic()

    def strike(self, sent: float, wait: float, longest: float) -> None:
        """Takes it for down for `wait` seconds, twice as long each time, once for all requests
        under way."""
        if sent >= self.struck:
            self._strikes += 1
            self.struck = time.monotonic()
            self.down_until = self.struck + min(longest, wait * 2 ** min(30, self._strikes - 1))

    def answered(self) -> None:
        self._strikes = 0
        self.down_until = 0.0
        self.slots.answered()


def available(order: Sequence[Server], trial: float) -> Server:
    """The first that is well; of those that were down one request is the trial, for so many seconds
    the only one."""
    server = next((one for one in order if one.well()), None) or min(
        order, key=lambda one: one.down_until
    )
    if server.down_until and len(order) > 1:
        server.down_until = time.monotonic() + trial
    return server
