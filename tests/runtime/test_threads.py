"""Threads of OpenMP: what the environment says once judgebench is imported, and before torch is; what a user has set
stays. How many there are, where a control group or the affinity allows fewer than the machine has cores."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from judgebench.runtime import threads
from judgebench.runtime.threads import cpu_quota, settle_threads, usable_cores

NAMES = ("GOMP_SPINCOUNT", "KMP_BLOCKTIME", "OMP_WAIT_POLICY", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
OURS = {"GOMP_SPINCOUNT": "1000", "KMP_BLOCKTIME": "1"}
SAID = f"""
import json, os, sys
print(json.dumps(["torch" in sys.modules, {{name: os.environ[name] for name in {NAMES} if name in os.environ}}]))
"""


def said(program, *before, **given):
    """What a new process prints, in JSON, in whose environment nothing of OpenMP stands but what is given."""
    environment = {name: value for name, value in os.environ.items() if name not in NAMES}
    command = [*before, sys.executable, "-c", program]
    return json.loads(subprocess.check_output(command, env=environment | given, text=True, timeout=120))


@pytest.mark.parametrize("module", ["judgebench", "judgebench.__main__", "judgebench.command.dispatch"])
def test_threads_that_soon_sleep_stand_in_the_environment_before_torch_is_imported(module):
    assert said(f"import {module}{SAID}") == [False, OURS]


@pytest.mark.parametrize(
    "own",
    [
        {"GOMP_SPINCOUNT": "infinity"},
        {"KMP_BLOCKTIME": "200"},
        {"OMP_WAIT_POLICY": "active"},
        {"OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "3"},
    ],
)
def test_what_a_user_has_set_stays(own):
    assert said(f"import judgebench{SAID}", **own) == [False, own]


def test_a_process_that_has_torch_keeps_its_environment():
    assert said(f"import torch, judgebench{SAID}") == [True, {}]


def test_processes_that_it_starts_have_the_same():
    child = f"import judgebench, subprocess, sys; subprocess.run([sys.executable, '-c', {SAID!r}])"
    assert said(child) == [False, OURS]


def test_of_a_job_of_hydra_too(tmp_path):
    """A sweep runs its jobs in this process; a job on another machine imports judgebench there, by its function."""
    pickled = "import pickle, judgebench.__main__ as m; print(pickle.dumps(m.main).hex())"
    function = subprocess.check_output([sys.executable, "-c", pickled], text=True).strip()
    assert said(f"import pickle; pickle.loads(bytes.fromhex({function!r})){SAID}") == [False, OURS]


@pytest.mark.skipif(not shutil.which("taskset"), reason="taskset is not installed")
def test_affinity_bounds_the_threads():
    cpu = min(os.sched_getaffinity(0))
    program = "import judgebench, torch; from judgebench.runtime.threads import usable_cores as n"
    program = f"{program}; print([n(), torch.get_num_threads()])"
    assert said(program, "taskset", "-c", str(cpu)) == [1, 1]
    assert said(program)[0] == usable_cores()


def groups(folder, own, files):
    """A mount of control groups, and the file that names a process's own."""
    for name, text in files.items():
        file = folder / "mount" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (folder / "own").write_text(own)
    return folder / "mount", folder / "own"


V2 = "0::/user/job\n"
V1 = "4:memory:/job\n3:cpuset:/job\n2:cpu,cpuacct:/docker/0f\n1:name=systemd:/\n0::/\n"


@pytest.mark.parametrize(
    ("own", "files", "quota"),
    [
        (V2, {"user/job/cpu.max": "150000 100000\n"}, 1.5),
        (V2, {"user/job/cpu.max": "max 100000\n"}, None),
        # the narrowest of a group and those above it
        (V2, {"user/job/cpu.max": "400000 100000\n", "user/cpu.max": "200000 100000\n"}, 2.0),
        # a container sees its own group as the topmost
        (V2, {"cpu.max": "50000 100000\n"}, 0.5),
        ("0::/../other\n", {"cpu.max": "300000 100000\n"}, 3.0),
        (V1, {"cpu/docker/0f/cpu.cfs_quota_us": "250000\n", "cpu/docker/0f/cpu.cfs_period_us": "100000\n"}, 2.5),
        (V1, {"cpu/cpu.cfs_quota_us": "20000\n", "cpu/cpu.cfs_period_us": "10000\n"}, 2.0),
        (V1, {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        # the quota of another controller is none of the processor's
        ("3:cpuset:/job\n", {"cpuset/job/cpu.cfs_quota_us": "1\n", "cpuset/job/cpu.cfs_period_us": "1\n"}, None),
        (V2, {"cpu.max": "many\n", "user/cpu.max": "0 0\n", "user/job/cpu.max": "\n"}, None),
        ("", {}, None),
        ("damaged\n", {"cpu.max": "100000 100000\n"}, None),
    ],
)
def test_the_quota_of_control_groups(tmp_path, own, files, quota):
    assert cpu_quota(*groups(tmp_path, own, files)) == quota


def test_where_there_are_no_control_groups_there_is_no_quota(tmp_path):
    assert cpu_quota(tmp_path / "mount", tmp_path / "own") is None


@pytest.mark.parametrize(
    ("quota", "cores", "count"),
    [(2.0, 8, "2"), (1.2, 8, "2"), (0.3, 8, "1"), (8.0, 8, None), (12.0, 8, None), (None, 8, None)],
)
def test_a_quota_counts_where_it_is_below_the_cores(monkeypatch, quota, cores, count):
    monkeypatch.setattr(os, "environ", {})
    monkeypatch.setattr(sys, "modules", {})
    monkeypatch.setattr(threads, "_ours", [])
    monkeypatch.setattr(threads, "cpu_quota", lambda: quota)
    monkeypatch.setattr(threads, "usable_cores", lambda: cores)
    settle_threads()
    assert os.environ.get("OMP_NUM_THREADS") == count


def test_processes_that_share_the_machine_are_counted_by_who_starts_them_and_a_users_own_number_stays():
    program = "import judgebench.runtime.threads as t, os; t.cpu_quota = lambda: 6.0; t.usable_cores = lambda: 8"
    program = f"{program}; t.settle_threads(); count = [os.environ.get('OMP_NUM_THREADS')]; t.forget_threads()"
    shown = "import json; print(json.dumps([*count, os.environ.get('OMP_NUM_THREADS')]))"
    assert said(f"{program}; {shown}") == ["6", None]
    assert said(f"{program}; {shown}", OMP_NUM_THREADS="1") == ["1", "1"]
