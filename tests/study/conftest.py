"""A small Hydra application to sweep, and a real PostgreSQL server."""

import os
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from judgebench.config.keys import FOLDER

GRID = "hydra.sweeper.sampler._target_=optuna.samplers.GridSampler"
COMMON = (
    "-m",
    f"hydra.searchpath=[file://{FOLDER}]",
    "hydra/sweeper=optuna",
    "hydra/hydra_logging=disabled",
    "hydra/job_logging=disabled",
)


@pytest.fixture
def app(tmp_path, monkeypatch, called):
    """The application in this process and in an empty folder: arguments -> (exit code, stdout, stderr)."""
    from tests.study.app import main

    monkeypatch.chdir(tmp_path)
    return partial(called, main, *COMMON, mistaken=True)


@pytest.fixture
def worker(started):
    """Starts the application as a process of its own, in the test's folder."""
    return partial(started, *COMMON, program="from tests.study.app import main; main()")


def noted(what: str = "end", path: Path | str = "ran.txt") -> Counter:
    """How often each point was noted down."""
    text = Path(path).read_text() if Path(path).is_file() else ""
    return Counter(tuple(line.split()[1:3]) for line in text.splitlines() if line.startswith(what))


def _program(name: str) -> str | None:
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return shutil.which(name, path=os.pathsep.join([*map(str, folders), os.environ.get("PATH", "")]))


@pytest.fixture(scope="session")
def postgresql():
    """The address of a database on a server that tests share."""
    with postgresql_server() as (address, _):
        yield address


@contextmanager
def postgresql_server() -> Iterator[tuple[str, Callable[[], None]]]:
    """A server reached through a socket: a database's address, and what stops the server before its time."""
    initdb, server = _program("initdb"), _program("pg_ctl")
    if initdb is None or server is None:
        pytest.skip("PostgreSQL's initdb and pg_ctl are not installed (Debian: apt-get install postgresql)")
    folder = Path(tempfile.mkdtemp(prefix="jb-pg-"))  # short: a socket's path may have 107 characters
    as_user: list[str] = []
    if os.geteuid() == 0:  # PostgreSQL does not run as root
        user = next((name for name in ("postgres", "nobody") if _exists(name)), None)
        if user is None or shutil.which("runuser") is None:
            pytest.skip("PostgreSQL does not run as root, and there is no other user to run it as")
        shutil.chown(folder, user)
        as_user = ["runuser", "-u", user, "--"]

    def run(*command: str) -> None:
        done = subprocess.run([*as_user, *command], capture_output=True, text=True, cwd=folder, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    data = str(folder / "data")
    run(initdb, "-D", data, "-A", "trust", "-U", "judge", "--no-sync")
    settings = f"-k {folder} -c listen_addresses='' -c fsync=off -c max_connections=40"
    run(server, "-D", data, "-w", "-l", str(folder / "log"), "-o", settings, "start")
    stopped = []

    def stop() -> None:
        if not stopped:
            stopped.append(True)
            run(server, "-D", data, "-m", "immediate", "stop")

    try:
        yield f"postgresql+psycopg://judge@/postgres?host={folder}", stop
    finally:
        stop()
        shutil.rmtree(folder, ignore_errors=True)


def _exists(name: str) -> bool:
    import pwd

    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
