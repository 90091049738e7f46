"""Real processes to be killed and interrupted, small disks, and disks that nobody may write to."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tests.command.test_cli import REPOSITORY

QUICK = ("logger=none", "report=false", "metrics.resamples=50", "data.limit_groups=4", "run_dir=run")
SLOWLY = ("judge.engine=plain", "judge.max_batch_tokens=1")
"""A prompt at a time, so that whatever happens to a run meets it in the middle of reading."""


class Started:
    """A run in a process of its own, in the folder where it was started.

    Attributes:
        pid: of the process, which leads a group of processes.
    """

    def __init__(self, pid: int, poll: Callable[[], int | None], log: Path) -> None:
        self.pid, self._poll, self._log = pid, poll, log
        self._code: int | None = None

    @property
    def code(self) -> int | None:
        """The exit code, minus a signal's number where that has ended it; None while it runs."""
        if self._code is None:
            self._code = self._poll()
        return self._code

    @property
    def said(self) -> str:
        """What it has printed so far."""
        return self._log.read_text() if self._log.is_file() else ""

    def reaches(self, reached: Callable[[], bool], seconds: float = 240) -> None:
        """Waits for a moment in the run's life, which must come before its end."""
        until = time.monotonic() + seconds
        while not reached():
            assert self.code is None, f"it ended before that moment: {self.said}"
            assert time.monotonic() < until, f"that moment does not come: {self.said}"
            time.sleep(0.003)

    def ends(self, seconds: float = 120) -> int:
        """Waits for its end; the exit code."""
        until = time.monotonic() + seconds
        while (code := self.code) is None:
            assert time.monotonic() < until, f"it does not end: {self.said}"
            time.sleep(0.01)
        return code

    def kill(self) -> None:
        """kill -9."""
        os.kill(self.pid, signal.SIGKILL)
        assert self.ends() == -signal.SIGKILL

    def interrupt(self) -> int:
        """Ctrl-C, which a terminal sends to all processes before it; the exit code."""
        os.killpg(self.pid, signal.SIGINT)
        return self.ends()


@pytest.fixture(scope="session")
def ready() -> Iterator[Callable[[Any], Any]]:
    """Asks `tests/faults/ready.py`."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.faults.ready"],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin
    assert process.stdout

    def ask(question: Any) -> Any:
        print(json.dumps(question), file=process.stdin, flush=True)
        return json.loads(process.stdout.readline())

    yield ask
    process.stdin.close()
    process.wait(60)


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """An empty folder, and the one that is worked in; `judgebench` runs there too."""
    folder = tmp_path / "work"
    folder.mkdir(exist_ok=True)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def started(folder, tmp_path, ready) -> Iterator[Callable[..., Started]]:
    """Starts runs, with constants of modules by their names where these are given; all are gone when the test is, with
    what they have started."""
    runs: list[Started] = []

    def start(*arguments: str, constants: Mapping[str, float] = MappingProxyType({})) -> Started:
        log = tmp_path / f"run{len(runs)}.log"
        asked = {"arguments": arguments, "folder": os.getcwd(), "log": str(log), "constants": dict(constants)}
        pid = ready(asked)
        runs.append(Started(pid, lambda: ready({"poll": pid}), log))
        return runs[-1]

    yield start
    _end(runs)


@pytest.fixture
def command(folder, tmp_path) -> Iterator[Callable[..., Started]]:
    """The same with `python -m judgebench`, which takes seconds to start, and can have several processes."""
    runs: list[Started] = []

    def start(*arguments: str, **environment: str) -> Started:
        log = tmp_path / f"command{len(runs)}.log"
        with log.open("w") as said:
            process = subprocess.Popen(
                [sys.executable, "-m", "judgebench", *arguments],
                env={**os.environ, **environment},
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored where tests run aside
            )
        runs.append(Started(process.pid, process.poll, log))
        return runs[-1]

    yield start
    _end(runs)


def _end(runs: list[Started]) -> None:
    for run in runs:
        with suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.ends()


def rows(store: Path | str) -> dict[str, tuple]:
    """key -> stored bytes, text and seconds, as far as the store exists: equal rows were not computed again."""
    if not Path(store).is_file():
        return {}
    with sqlite3.connect(f"file:{store}?mode=ro", uri=True, timeout=10) as db:
        try:
            return {key: tuple(rest) for key, *rest in db.execute("SELECT key, logprobs, text, seconds FROM readings")}
        except sqlite3.OperationalError:
            return {}


def told(result: tuple[int, str, str], *expected: str, code: int = 2) -> str:
    """What a refused run says: one sentence, with all that is expected in it, and no traceback."""
    found, out, err = result
    assert found == code, out + err
    for one in expected:
        assert one in err, err
    assert "Traceback" not in out + err
    sentence = [line for line in err.splitlines() if line.startswith("judgebench: ")]
    assert len(sentence) == 1, err
    assert sentence[0].endswith("."), err
    return sentence[0]


def command_in(said: str) -> list[str]:
    """The arguments of the command that an interrupted run names."""
    (line,) = [line for line in said.splitlines() if line.startswith("judgebench: interrupted.")]
    words = shlex.split(line.partition("the same command: ")[2])
    assert words[:3] == ["python", "-m", "judgebench"]
    return words[3:]


def trials(folder: Path | str) -> list[dict]:
    """The trials of a sweep's study.json."""
    return json.loads(Path(folder, "study.json").read_text())["trials"]


def mounted(*arguments: str) -> None:
    """Calls mount, or skips the test where that is not permitted."""
    try:
        done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount here")
    if done.returncode:
        pytest.skip(f"no file system can be mounted here ({done.stderr.strip()}); it takes root")


@contextmanager
def disk(place: Path, size: str) -> Iterator[Callable[..., None]]:
    """A file system of its own at `place`; what is given changes its options, as `size=64m` or `ro`."""
    place.mkdir()
    mounted("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place))
    try:
        yield lambda *options: mounted("-o", ",".join(("remount", *options)), str(place))
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
