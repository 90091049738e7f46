"""Makes the frozen files anew, and prints what changed: `python -m tests.golden.regenerate [EXPERIMENT ...]`.

Readings come from the store. With `--store` those that it lacks are read, and the store is packed again. It was made
by the code at commit acb74e1, so that every later version shows that it still knows those readings: to add some, check
that commit out, copy this folder and tests/served.py there, and call `python -m tests.golden.regenerate --store` there.
"""

import argparse
import contextlib
import gzip
import json
import shutil
import sqlite3
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.golden import experiments
from tests.golden.snapshot import differences, snapshot

EXPECTED = experiments.HERE / "expected"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.golden.regenerate", description=__doc__)
    parser.add_argument("names", nargs="*", default=list(experiments.EXPERIMENTS), help="experiments; all if none")
    parser.add_argument("--store", action="store_true", help="read what the store lacks, and pack it again")
    given = parser.parse_args()
    for name in given.names:
        with tempfile.TemporaryDirectory() as scratch, served() if given.store else contextlib.nullcontext():
            ran = run(name, Path(scratch))
            if ran.added and not given.store:
                sys.exit(f"{name}: {len(ran.added)} readings are not in the store; --store adds them.")
            if ran.added:
                pack(Path(scratch, "store.sqlite"))
            replace(name, ran.files)


@dataclass(frozen=True)
class Ran:
    """One experiment that was run: its frozen files, keys of readings that it had to add to the store, and what it
    says of its environment."""

    files: dict[str, str]
    added: set[str]
    environment: dict[str, Any]


def run(name: str, folder: Path) -> Ran:
    """Runs an experiment in an empty folder."""
    experiments.write_inputs(folder)
    before = experiments.stored_keys(folder)
    printed = experiments.run(name, folder)
    file = folder / "run" / "environment.json"
    environment = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    files = snapshot(folder / "run", printed, experiments.FROZEN.get(name, ".*"))
    return Ran(files, experiments.stored_keys(folder) - before, environment)


def replace(name: str, files: dict[str, str]) -> None:
    """Writes the frozen files of an experiment, and prints where they differ from those before."""
    place = EXPECTED / name
    before = {
        path.relative_to(place).as_posix(): path.read_text("utf-8") for path in place.rglob("*") if path.is_file()
    }
    shutil.rmtree(place, ignore_errors=True)
    for file in sorted({*before, *files}):
        if file not in files:
            print(f"{name}/{file}: no longer written")
            continue
        lines = differences(file, before[file], files[file]) if file in before else ["new"]
        for line in lines[:20]:
            print(f"{name}/{file}: {line}")
        if len(lines) > 20:
            print(f"{name}/{file}: and {len(lines) - 20} more")
        path = place / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[file] if lines else before[file], "utf-8")


def pack(store: Path) -> None:
    """Compresses a store, without what it remembers of this machine's files."""
    packed = store.with_name("packed.sqlite")
    with contextlib.closing(sqlite3.connect(store)) as database:
        database.execute("VACUUM INTO ?", [str(packed)])
    with contextlib.closing(sqlite3.connect(packed, isolation_level=None)) as database:
        database.execute("DELETE FROM digests")
        database.execute("VACUUM")
    experiments.STORE.write_bytes(gzip.compress(packed.read_bytes(), mtime=0))


@contextlib.contextmanager
def served() -> Iterator[None]:
    """The server that the served judge asks: it answers by `experiments.served_likely`."""
    from tests.served import Handler, SmallServer, answer

    def reply(handler: Handler, seen: dict) -> None:
        body = seen["body"]
        likely = experiments.served_likely(body["model"], body["messages"][0]["content"])
        answer(text=max(likely, key=lambda token: likely[token]), likely=likely)(handler, seen)

    server = SmallServer(experiments.PORT)
    server.otherwise = reply
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


if __name__ == "__main__":
    main()
