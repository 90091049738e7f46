"""Two hosts on one machine, for tests: network namespaces, joined by a cable."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

Host = tuple[str, str, str]
"""The name of a namespace, the address of its end of the cable, and the name of that end."""


@contextmanager
def two_hosts() -> Iterator[list[Host]]:
    """Two hosts that see each other and nothing else, not even each other's loopback; gone when the block ends.

    The test is skipped where the machine does not permit it.
    """
    if shutil.which("ip") is None:
        pytest.skip("two hosts need the command `ip` (package iproute2)")
    process = os.getpid()
    hosts = [(f"judgebench-{process}-{at}", f"10.203.7.{at}", f"jb{process}{at}") for at in (1, 2)]
    commands = [f"netns add {namespace}" for namespace, _, _ in hosts]
    commands.append(f"link add {hosts[0][2]} type veth peer name {hosts[1][2]}")
    for namespace, address, link in hosts:
        commands += [f"link set {link} netns {namespace}", f"-n {namespace} addr add {address}/24 dev {link}"]
        commands += [f"-n {namespace} link set {link} up", f"-n {namespace} link set lo up"]
    try:
        for command in commands:
            done = subprocess.run(["ip", *command.split()], capture_output=True, text=True, check=False)
            if done.returncode and " add " in f" {command} ":
                pytest.skip(f"this machine does not permit network namespaces or cables: {done.stderr.strip()}")
            assert done.returncode == 0, done.stderr
        yield hosts
    finally:
        for namespace, _, link in hosts:  # with a namespace goes its end of the cable, and with one end the other
            for command in (f"netns delete {namespace}", f"link delete {link}"):
                subprocess.run(["ip", *command.split()], capture_output=True, check=False)
