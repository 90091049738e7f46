"""A process that ends while others compute with it ends them too, however deep in a collective they are."""

import signal
import socket
import subprocess
import sys

import pytest

SCRIPT = """
import sys, time
from torch import distributed
from judgebench.runtime.distributed import Processes

rank, port, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
processes = Processes()
processes.count, processes.rank, processes._group = 2, rank, object()
processes._mail = distributed.TCPStore("127.0.0.1", port, is_master=rank == 0, wait_for_workers=False)
with processes.watched(beat=0.2, silence=8.0):
    print("inside", flush=True)
    time.sleep(seconds)  # as a collective that never returns
print("left", flush=True)
sys.stdin.read()  # the others need its mail for longer
"""


def start(*seconds):
    """Processes of a run, each inside the part that is watched."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = []
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    for rank, inside in enumerate(seconds):
        command = [sys.executable, "-c", SCRIPT, str(rank), str(port), str(inside)]
        process = subprocess.Popen(command, **pipes, text=True)
        started.append(process)
    for process in started:  # both begin at once: who is late counts as ended
        assert process.stdout.readline() == "inside\n"
    return started


@pytest.mark.parametrize("victim", [0, 1])
def test_the_death_of_a_process_is_told(victim):
    processes = start(600, 600)
    processes[victim].send_signal(signal.SIGKILL)
    survivor = processes[1 - victim]
    errors = survivor.stderr.read()  # until its end
    survivor.wait(timeout=60)
    assert survivor.returncode == 2
    assert "another process of this run has ended, so this one ends too" in errors
    assert "the same command goes on from there" in errors


def test_who_has_done_its_share_may_be_silent():
    processes = start(0.5, 12)
    for process in reversed(processes):
        out, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        assert out.endswith("left\n")
