"""Two runs at once: in one folder the second is refused; with one store both are right."""

import errno
import multiprocessing
import os
import signal
import socket
from pathlib import Path

import pytest

from judgebench.results.folder import RunFolder
from judgebench.runtime.files import LOCK, Held, locked
from tests.conftest import QUICK, pair, told
from tests.faults.conftest import SLOWLY, rows


def test_in_one_folder_the_second_is_refused_and_a_killed_ones_lock_holds_nobody_up(judgebench, started, tiny_pair):
    command = ("judge=local", f"judge.path={tiny_pair[0]}", *QUICK, *SLOWLY)
    first = started(*command)
    first.reaches(lambda: rows("outputs/readings.sqlite"))
    os.kill(first.pid, signal.SIGSTOP)  # so that it is at work as long as we like
    sentence = told(judgebench(*command, mistaken=True), "run_dir: another run writes to run", clean=False)
    assert f"process {first.pid} on {socket.gethostname()}, since 20" in sentence
    first.kill()
    assert Path("run", LOCK).is_file()
    judgebench(*command)
    assert not Path("run", LOCK).exists()


def test_two_runs_share_a_store(judgebench, started, tiny_pair):
    command = ("judge=local", f"judge.path={tiny_pair[0]}", *QUICK, *SLOWLY)
    first = started(*command, "run_dir=first")
    first.reaches(lambda: rows("outputs/readings.sqlite"))
    judgebench(*command, "run_dir=second")  # what the first has read is not read again, and neither waits
    assert first.ends() == 0, first.said
    one, other = (RunFolder.open(name).read("readings") for name in ("first", "second"))
    assert one.equals(other)
    assert len(rows("outputs/readings.sqlite")) == len(one) == 24


def test_a_dry_run_needs_no_folder_of_its_own(judgebench, tiny_pair):
    with locked(Path("run")):
        judgebench("judge=local", f"judge.path={tiny_pair[0]}", *QUICK, "dry_run=true")


def test_the_lock_tells_who_holds_it_and_leaves_nothing(tmp_path):
    folder = tmp_path / "a" / "b"
    with locked(folder), pytest.raises(Held, match=f"process {os.getpid()} on"), locked(folder):
        pass
    assert not (tmp_path / "a").exists()
    with locked(folder):
        (folder / "written").touch()
    assert [path.name for path in folder.iterdir()] == ["written"]


def _count(folder, times):
    """Counts a file up as often as the lock can be had."""
    done = 0
    while done < times:
        try:
            with locked(Path(folder) / "locked"):
                file = Path(folder) / "count"
                now = int(file.read_text())
                file.write_text(str(now + 1))
                done += 1
        except Held:
            continue


def test_of_many_processes_one_at_a_time_is_in(tmp_path):
    (tmp_path / "count").write_text("0")
    started = [multiprocessing.get_context("fork").Process(target=_count, args=(tmp_path, 100)) for _ in range(3)]
    for process in started:
        process.start()
    for process in started:
        process.join(60)
        assert process.exitcode == 0
    assert (tmp_path / "count").read_text() == "300"


def test_a_folder_that_another_process_removes_while_it_is_looked_at_is_made_again(tmp_path, monkeypatch):
    made, mkdir = [], os.mkdir

    def removed(path, *mode):
        """The first time the folder stands there, and its holder removes it before anybody looks."""
        made.append(path)
        if len(made) == 1:
            raise FileExistsError(errno.EEXIST, "File exists", str(path))
        mkdir(path, *mode)

    monkeypatch.setattr(os, "mkdir", removed)
    with locked(tmp_path / "run"):
        assert (tmp_path / "run" / LOCK).is_file()
    assert len(made) == 2


@pytest.mark.parametrize("kind", ["file", "link to nothing"])
def test_what_is_no_folder_is_no_reason_to_wait(tmp_path, kind):
    if kind == "file":
        (tmp_path / "run").touch()
    else:
        (tmp_path / "run").symlink_to(tmp_path / "nothing")
    with pytest.raises(OSError, match=r"File exists|Not a directory"), locked(tmp_path / "run"):
        pass


def test_where_nothing_can_be_made_the_lock_ends(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "here").rmdir()
    with pytest.raises(FileNotFoundError), locked(Path("run")):
        pass


def test_two_multiruns_in_one_folder(judgebench, tiny_pair):
    command = ("-m", *pair(tiny_pair), *QUICK, "data.limit_groups=1", "decoding=[contrastive]")
    command = (*command, "decoding.lambda=0.1,0.5")
    with locked(Path("run")):
        told(
            judgebench(*command, mistaken=True),
            "run_dir: another run writes to run",
            f"process {os.getpid()} on",
            clean=False,
        )
    judgebench(*command)
    assert {path.name for path in Path("run").iterdir()} >= {"0", "1", "multirun.yaml", "sweep.json"}
    assert not list(Path("run").rglob(LOCK))
