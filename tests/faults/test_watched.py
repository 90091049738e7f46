"""A process that ends while others compute with it ends them too, however deep in a collective they are."""

import signal
from pathlib import Path

from tests.served import free_port

PROGRAM = """
import sys, time
from pathlib import Path
from torch import distributed
from judgebench.runtime.distributed import Processes

name, rank, port, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
processes = Processes()
processes.count, processes.rank, processes._group = 2, rank, object()
processes._mail = distributed.TCPStore("127.0.0.1", port, is_master=rank == 0, wait_for_workers=False)
with processes.watched(beat=0.2, silence=6.0):
    Path(f"{name}-{rank}").touch()
    time.sleep(seconds)  # as a collective that never returns
Path(f"{name}-{rank}-left").touch()
while not Path(f"{name}-1-left").exists():
    time.sleep(0.1)  # the others need its mail for longer
"""


def test_the_death_of_a_process_is_told_and_who_has_done_its_share_may_be_silent(started):
    def two(name, *seconds):
        """Processes of a run, each inside the part that is watched."""
        port = str(free_port())
        processes = [
            started(name, str(rank), port, str(inside), program=PROGRAM) for rank, inside in enumerate(seconds)
        ]
        for rank, process in enumerate(processes):  # both begin at once: who is late counts as ended
            process.reaches(Path(f"{name}-{rank}").exists)
        return processes

    first_dies, second_dies, first_is_done = two("a", 600, 600), two("b", 600, 600), two("c", 0.5, 9)
    for processes, victim in ((first_dies, 0), (second_dies, 1)):
        processes[victim].kill()
    for processes, survivor in ((first_dies, 1), (second_dies, 0)):
        said = (processes[survivor].ends(60), processes[survivor].said)
        assert said[0] == 2, said[1]
        assert "another process of this run has ended, so this one ends too" in said[1]
        assert "the same command goes on from there" in said[1]
    for process in first_is_done:
        assert process.ends(60) == 0, process.said
    assert -second_dies[1].code == signal.SIGKILL
