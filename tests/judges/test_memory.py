"""Freed memory stays with the process only while it is asked to."""

import resource
import sys

import pytest
import torch

from judgebench.judges.memory import keep_freed, memory_of, return_freed

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's allocator")


def resident() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def faults() -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        torch.zeros(48 * 2**20, dtype=torch.uint8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def test_kept_memory_is_used_again_and_returned_memory_is_gone():
    try:
        keep_freed()
        faults()
        kept, held = faults(), resident()
        return_freed()
        assert kept < 5 * 48 * 2**20 / resource.getpagesize() / 20
        assert faults() > 10 * (kept + 1)
        assert resident() < held - 40 * 2**20
    finally:
        return_freed()


def test_the_systems_whole_memory():
    with open("/proc/meminfo") as meminfo:
        (total,) = (int(line.split()[1]) * 1024 for line in meminfo if line.startswith("MemTotal"))
    assert memory_of(torch.device("cpu")) == total
