"""What is stored, what is said of it, and small disks."""

import json
import shlex
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SLOWLY = ("judge.engine=plain", "judge.max_batch_tokens=1")
"""A prompt at a time, so that whatever happens to a run meets it in the middle of reading."""


def rows(store: Path | str) -> dict[str, tuple]:
    """key -> stored bytes, text and seconds, as far as the store exists: equal rows were not computed again."""
    if not Path(store).is_file():
        return {}
    with sqlite3.connect(f"file:{store}?mode=ro", uri=True, timeout=10) as db:
        try:
            return {key: tuple(rest) for key, *rest in db.execute("SELECT key, logprobs, text, seconds FROM readings")}
        except sqlite3.OperationalError:
            return {}


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
