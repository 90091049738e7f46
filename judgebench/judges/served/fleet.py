"""The servers of one judge: whose an article is, and which servers are well."""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections import Counter
from collections.abc import Iterable, Sequence

import httpx

from judgebench.types import Record

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
    order_of: dict[str, tuple[int, ...]] = {}
    total = _UNEVEN * counts.total()
    most = math.ceil(total / len(urls))
    for article, count in counts.items():
        names = [f"{url} {article}" for url in urls]
        weights = [hashlib.sha256(name.encode()).digest() for name in names]
        order = sorted(range(len(urls)), key=weights.__getitem__, reverse=True)
        # the first with room for it, or else the one with the least load
        room = most - count
        least = min(order, key=load.__getitem__)
        home = next((server for server in order if load[server] <= room), least)
        load[home] += count
        others = [server for server in order if server != home]
        order_of[article] = (home, *others)
    return order_of


class Server:
    """One server: its connections, its health, and the record of its answers.

    Attributes:
        slots: as many as requests may be under way.
        record: its part of `Account.servers`.
        paused_until: when requests may be sent again; it asked for a pause.
        struck: when it was last taken for down.
        down_until: when one request may try whether it is well again; 0 for one that is.
    """

    def __init__(self, url: str, http: httpx.AsyncClient, slots: asyncio.Semaphore, record: Record):
        self.url = url
        self.http = http
        self.slots = slots
        self.record = record
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


def available(order: Sequence[Server], trial: float) -> Server:
    """The first that is well; of those that were down one request is the trial, for so many seconds
    the only one."""
    well = [server for server in order if server.well()]
    server = well[0] if well else min(order, key=lambda server: server.down_until)
    if server.down_until and len(order) > 1:
        server.down_until = time.monotonic() + trial
    return server
