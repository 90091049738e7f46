"""Real processes for tests to kill, interrupt and let compute together.

Most are forked by one process that has imported everything once (`python -m tests.processes`): they start in no time,
and end like any other. It has computed nothing and started no thread of Python's or of OpenMP's; each fork has a
session, signals and streams of its own (`tests/test_suite.py` looks at one).
"""

import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra

from judgebench.config.keys import FOLDER
from tests.kept import keep

REPOSITORY = Path(__file__).resolve().parents[1]
NOTHING: Mapping[str, Any] = MappingProxyType({})


class Started:
    """A process, which leads a group of processes, in the folder where it was started.

    Attributes:
        pid: of the process.
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

    def reaches(self, reached: Callable[[], Any], seconds: float = 240) -> None:
        """Waits for a moment in the process's life, which must come before its end."""
        until = time.monotonic() + seconds
        while not reached():
            assert self.code is None, f"it ended before that moment: {self.said}"
            assert time.monotonic() < until, f"that moment does not come: {self.said}"
            time.sleep(0.015)

    def ends(self, seconds: float = 240) -> int:
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
    """Asks the process that forks."""
    program = [sys.executable, "-m", "tests.processes"]
    process = subprocess.Popen(program, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin
    assert process.stdout

    def ask(question: Any) -> Any:
        print(json.dumps(question), file=process.stdin, flush=True)
        return json.loads(process.stdout.readline())

    yield ask
    process.stdin.close()
    process.wait(60)


@pytest.fixture
def started(work, tmp_path, ready) -> Iterator[Callable[..., Started]]:
    """Forks processes; all are gone when the test is, with what they have started.

    They run judgebench with some arguments, or a `program`, the text of one in Python; with constants of modules by
    their names and with variables of the environment where these are given.
    """
    runs: list[Started] = []

    def start(
        *arguments: str, program: str = "", constants: Mapping[str, float] = NOTHING, **environment: str
    ) -> Started:
        log = tmp_path / f"run{len(runs)}.log"
        asked = {"arguments": arguments, "program": program, "folder": os.getcwd(), "log": str(log)}
        pid = ready({**asked, "constants": dict(constants), "environment": environment})
        runs.append(Started(pid, lambda: ready({"poll": pid}), log))
        return runs[-1]

    yield start
    _end(runs)


@pytest.fixture
def command(work, tmp_path) -> Iterator[Callable[..., Started]]:
    """The same by `python -m judgebench`, which takes seconds to start, and can start processes of its own."""
    runs: list[Started] = []

    def start(*arguments: str, launcher: tuple[str, ...] = (sys.executable,), **environment: str) -> Started:
        log = tmp_path / f"command{len(runs)}.log"
        with log.open("w") as said:
            process = subprocess.Popen(
                [*launcher, "-m", "judgebench", *arguments],
                env={**os.environ, "PYTHONPATH": str(REPOSITORY), **environment},
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


def become(asked: dict[str, Any]) -> None:
    """Turns a fork into the process that is asked for, and ends it."""
    os.setsid()
    os.chdir(asked["folder"])
    os.environ.update(asked["environment"])
    log = os.open(asked["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o666)
    for given, number in ((os.open(os.devnull, os.O_RDONLY), 0), (log, 1), (log, 2)):
        os.dup2(given, number)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["judgebench", *asked["arguments"]]
    for name, value in asked["constants"].items():
        module, _, constant = name.rpartition(".")
        setattr(importlib.import_module(module), constant, value)
    code = 1
    try:
        exec(asked["program"] or "from judgebench.__main__ import main; main()", {"__name__": "__main__"})
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


IMPORTED = """
lightning.pytorch transformers.models.llama.modeling_llama pyarrow.pandas_compat
hydra_plugins.judgebench_optuna_sweeper.sweeper hydra_plugins.hydra_submitit_launcher.submitit_launcher
judgebench.judges.served.reader judgebench.judges.own judgebench.judges.precomputed judgebench.tracking.wandb
judgebench.runs.pipeline judgebench.study.sweep judgebench.study.summary judgebench.study.objective
judgebench.data.benchmarks judgebench.importing.own judgebench.command.cli judgebench.__main__
optuna.storages._rdb.storage optuna.samplers sqlalchemy.dialects.postgresql.psycopg alembic.command
"""
"""Modules that runs would import."""


def serve() -> None:
    """Reads a JSON object a line, what to fork or whose end to tell, and answers with a pid or an exit code."""
    gc.disable()  # which would look at a million objects again and again
    for name in IMPORTED.split():
        importlib.import_module(name)
    gc.freeze()
    gc.enable()
    keep(pytest.MonkeyPatch())  # as in the process of the tests
    with initialize_config_dir(str(FOLDER), version_base="1.3"):
        for judge, data in (("local", "mini"), ("api", "mini"), ("replay", "jsonl"), ("recorded", "conala_sample")):
            compose("config", [f"judge={judge}", f"data={data}", "logger=none"], return_hydra_config=True)
    GlobalHydra.instance().clear()
    for line in sys.stdin:
        asked = json.loads(line)
        answer: int | None
        if "poll" in asked:
            found, status = os.waitpid(asked["poll"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if found else None
        elif (answer := os.fork()) == 0:
            become(asked)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve()
