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

_ours: list[str] = []
"""The variable, where `settle_threads` has set the number of threads."""


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
            _ours.append(_COUNT)


def forget_threads() -> None:
    """Takes the number of threads out of the environment of processes that share this machine from
    now on, where `settle_threads` has set it: who starts them divides what is there."""
    if _ours:
        os.environ.pop(_COUNT, None)


def usable_cores() -> int:
    """The number of cores on which this process may run, of one or several hardware threads each;
    torch takes as many threads."""
    import psutil  # only where there is a quota

    return min(len(os.sched_getaffinity(0)), psutil.cpu_count(logical=False) or sys.maxsize)


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
