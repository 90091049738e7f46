"""Threads of OpenMP, as they stand in the environment before torch is imported: how long they spin,
and how many there are.

Threads that work on one product wait for each other at its end, many times a layer, and spin
meanwhile: by itself for 300,000 rounds (GNU's library, which PyTorch's wheels for Linux bring), or
for 200 ms (Intel's and LLVM's, on other systems and in conda). Where another program has a core,
the thread that is waited for cannot run, and the others spin in its place. Soon asleep, they leave
it their core.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

_SHORT_SPIN = {"GOMP_SPINCOUNT": "1000", "KMP_BLOCKTIME": "1"}
"""Rounds of GNU's library (its own number where threads outnumber cores), ms of the others."""

_COUNT = "OMP_NUM_THREADS"
_CGROUPS = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")
_TOPOLOGY = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"

_quota_threads: list[int] = []
"""The number of threads that `settle_threads` has set; empty where it has set none."""


def settle_threads() -> None:
    """Sets what this process, and those that it starts, read when torch and numpy are imported,
    unless torch has been: threads that soon sleep, and as many as a quota of processor time allows
    where it allows fewer than there are cores. What a user has set stays."""
    # the statistics multiply many small matrices, and threads double their CPU seconds
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if "torch" in sys.modules:
        return
    if not {*_SHORT_SPIN, "OMP_WAIT_POLICY"} & os.environ.keys():
        os.environ.update(_SHORT_SPIN)
    if not {_COUNT, "MKL_NUM_THREADS"} & os.environ.keys():
        quota = cpu_quota()
        # a core's part of a quota is worth a thread; affinity alone torch sees by itself
        if quota is not None and (threads := max(1, math.ceil(quota))) < usable_cores():
            os.environ[_COUNT] = str(threads)
            _quota_threads.append(threads)


def divide_threads(processes: int) -> None:
    """Gives each of so many processes of this machine its share of the quota's threads: Lightning
    would divide the cores, and only where no number is set."""
    for threads in _quota_threads:
        import torch

        share = max(1, threads // processes)
        os.environ[_COUNT] = str(share)
        torch.set_num_threads(share)


def forget_threads() -> None:
    """Takes the quota's number of threads out of the environment of processes started from now on,
    for a starter that counts theirs."""
    if _quota_threads:
        os.environ.pop(_COUNT, None)


def usable_cores() -> int:
    """The number of cores, of one or several hardware threads each, on which this process may run;
    torch takes as many threads."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    cores = set()
    for cpu in os.sched_getaffinity(0):
        core = str(cpu)
        with suppress(OSError):
            core = Path(_TOPOLOGY.format(cpu)).read_text()
        cores.add(core)
    return len(cores)


def cpu_quota(root: Path = _CGROUPS, own: Path = _OWN_GROUPS) -> float | None:
    """The processor time that this process's control groups allow it, in cores; None without a
    bound.

    Args:
        root: where control groups are mounted.
        own: the file that names those of this process.
    """
    quotas: list[float] = []
    with suppress(OSError, ValueError):
        for line in own.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                quotas += _quotas(root, path, ("cpu.max",))
            elif "cpu" in controllers.split(","):
                files = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
                quotas += _quotas(root / "cpu", path, files)
    return min(quotas, default=None)


def _quotas(mount: Path, path: str, files: tuple[str, ...]) -> Iterator[float]:
    """The bounds of a group and of all above it; a container may see its own as the topmost, under
    a path that is not there."""
    parts = PurePosixPath(path).parts[1:]
    for depth in range(len(parts) + 1):
        group = mount.joinpath(*parts[:depth])
        with suppress(OSError, ValueError, ZeroDivisionError):  # not there, or without a bound: max
            texts = [(group / name).read_text() for name in files]
            quota, period = " ".join(texts).split()
            if int(quota) > 0:  # -1 is no bound
                yield int(quota) / int(period)
