"""Two hosts on one machine, for tests: network namespaces, joined by a cable."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Host:
    """A network of its own.

    Attributes:
        namespace: its name.
        address: of its end of the cable.
        link: what that end is called.
    """

    namespace: str
    address: str
    link: str

    def command(self, *words: str) -> list[str]:
        """A command that runs there."""
        return ["ip", "netns", "exec", self.namespace, *words]


@contextmanager
def two_hosts() -> Iterator[tuple[Host, Host]]:
    """Two hosts that see each other and nothing else, not even each other's loopback; gone when the block ends.

    The test is skipped where the machine does not permit it.
    """
    if shutil.which("ip") is None:
        pytest.skip("two hosts need the command `ip` (package iproute2)")
    own = os.getpid()
    hosts = tuple(
        Host(f"judgebench-{own}-{side}", f"10.203.7.{at}", f"jb{own}{side}") for at, side in ((1, "a"), (2, "b"))
    )
    try:
        for host in hosts:
            made = _ip("netns", "add", host.namespace)
            if made.returncode:
                pytest.skip(f"this machine does not permit network namespaces: {made.stderr.strip()}")
        cable = _ip("link", "add", hosts[0].link, "type", "veth", "peer", "name", hosts[1].link)
        if cable.returncode:
            pytest.skip(f"this machine does not permit virtual cables: {cable.stderr.strip()}")
        for host in hosts:
            _must("link", "set", host.link, "netns", host.namespace)
            _must("-n", host.namespace, "addr", "add", f"{host.address}/24", "dev", host.link)
            _must("-n", host.namespace, "link", "set", host.link, "up")
            _must("-n", host.namespace, "link", "set", "lo", "up")
        yield hosts[0], hosts[1]
    finally:
        for host in hosts:  # with a namespace goes its end of the cable, and with one end the other
            _ip("netns", "delete", host.namespace)
        _ip("link", "delete", hosts[0].link)


def _ip(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=False)


def _must(*words: str) -> None:
    done = _ip(*words)
    assert done.returncode == 0, done.stderr
