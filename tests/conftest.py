"""What tests share; models are in `tests/models.py`.

The process that only hands files to workers loads neither models nor torch, so that workers begin at once.
"""

import csv
import gc
import json
import logging
import os
import resource
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil
import pytest
from hydra.core.global_hydra import GlobalHydra
from hypothesis import settings

from tests.kept import keep
from tests.processes import command, ready, started  # noqa: F401 - fixtures of every test
from tests.served import llama_server, small_server, small_servers  # noqa: F401 - the same

os.environ["OMP_NUM_THREADS"] = "1"  # of the processes that tests start; sums are then added up in one order
os.environ["TRITON_INTERPRET"] = "1"  # kernels for a GPU run on the processor, in NumPy
# how fast a test is says more of the machine than of the code, so that no property has a deadline
settings.register_profile("short", deadline=None, max_examples=30, derandomize=True)  # the same commit, the same answer
settings.register_profile("exhaustive", deadline=None, max_examples=200)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "short"))


def pytest_configure(config):
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", 0):
        from tests import models

        config.pluginmanager.register(models, "models")


SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


SLOW = {"called", "started", "command", "worker", "llama_server", "smollm2", "learned", "place", "opened", "uncounted"}
"""Fixtures of tests that run a whole command, a real model, a browser or every architecture there is."""


def pytest_collection_modifyitems(items):
    """`slow` are these, and all of files that start processes. Files of many come first, for a worker that begins a
    long one last has the others wait."""
    slow: Counter[Path] = Counter()
    for item in items:
        processes = hasattr(getattr(item, "module", None), "subprocess") or "started" in item.fixturenames
        if processes or SLOW & set(item.fixturenames):
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("slow"):
            slow[item.path] += 5 if processes else 1
    items.sort(key=lambda item: -slow[item.path])  # a file's tests keep their order


@pytest.fixture(scope="session", autouse=True)
def kept():
    """What runs would do again is done once, see `tests/kept.py`."""
    with pytest.MonkeyPatch.context() as patch:
        keep(patch)
        yield


@contextmanager
def as_before() -> Iterator[None]:
    """Logs and environment are afterwards as they were: a run sets both, and Hydra may disable all logs there are."""
    named = [log for log in logging.Logger.manager.loggerDict.values() if isinstance(log, logging.Logger)]
    logs = [(log, log.level, log.disabled, log.handlers[:]) for log in (logging.getLogger(), *named)]
    environment = dict(os.environ)
    yield
    for log, level, disabled, handlers in logs:
        log.setLevel(level)
        log.disabled = disabled
        log.handlers[:] = handlers
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    os.environ.update(environment)


@pytest.fixture(scope="module", autouse=True)
def files_in_any_order():
    with as_before():
        yield


MEMORY = 4 * 2**30
"""Bytes that a process of the tests may hold after a file; models of a file that are not let go add up."""


@pytest.fixture(scope="module", autouse=True)
def bounded_memory(request):
    yield
    if (held := psutil.Process().memory_info().rss) > 0.6 * MEMORY:  # collecting takes a third of a second
        gc.collect()
        held = psutil.Process().memory_info().rss
    assert held <= MEMORY, (
        f"after {request.node.name} this process holds {held / 2**30:.1f} GiB of {MEMORY / 2**30:.0f}"
    )


def pytest_sessionfinish(session):
    """A worker's peak, which the process that started it prints."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def pytest_testnodedown(node, error):
    if (peak := getattr(node, "workeroutput", {}).get("peak")) is not None:
        print(f"\n{node.gateway.id}: at most {peak:.1f} GiB of memory", end="")


def pytest_collection_finish():
    """A million objects of imported libraries are not looked at again with each garbage collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def summeval_file() -> Path:
    """The real SummEval data, where the checkout has it beside it."""
    path = SHARED / "summeval_paired.jsonl"
    if not path.is_file():
        pytest.skip("../shared/data/summeval_paired.jsonl is not there")
    return path


QUICK = ("logger=none", "report=false", "metrics.resamples=50", "data.limit_groups=4", "run_dir=run")
"""A small run: four articles with six texts each."""


def pair(folders: Iterable[Path]) -> tuple[str, ...]:
    """The words for a local judge and its assistant."""
    main, assistant = folders
    return ("judge=local", f"judge.path={main}", "assistant=model", f"assistant.path={assistant}")


def told(result: tuple[int, str, str], *expected: str, clean: bool = True) -> str:
    """What a refused command says: once, in sentences, with all that is expected in them, and no traceback; it leaves
    nothing in its run folder, unless another run is at work there and it is not `clean`."""
    code, out, err = result
    assert code == 2, out + err
    for one in expected:
        assert one in err, err
    assert "Traceback" not in out + err
    (sentence,) = [line for line in err.splitlines() if line.startswith("judgebench: ")]
    assert sentence.endswith((".", " mistakes:")), err
    assert not clean or left_of("run") == []
    return sentence


def left_of(folder: str) -> list[str]:
    """What a run that failed has left in its folder, besides its log."""
    return sorted(str(path) for path in Path(folder).rglob("*") if path.name != "run.log")


def write_rows(path: Path | str, rows: Iterable[object]) -> None:
    """A file of rows, each a line of JSON."""
    Path(path).write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")


def read_rows(path: Path | str) -> list:
    """The rows of a file, each a line of JSON."""
    return [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]


def write_table(path: Path | str, rows: Iterable[dict], columns: Sequence[str] = ()) -> None:
    """A CSV file of rows, with the columns of the first if no others are named."""
    rows = list(rows)
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, columns or list(rows[0]))
        table.writeheader()
        table.writerows(rows)


def rated_texts(groups: int = 4) -> list[dict]:
    """Five texts a group, with what a judge says of each; humans agree with it in all groups but the first."""
    return [
        {"example_id": f"{group}-{score}", "source": f"Article {group}.", "output": f"Text {group} {score}."}
        | {"human": {"coherence": score if group else 6 - score}, "judged": score}
        for group in range(groups)
        for score in range(1, 6)
    ]


def run_in(folder: Path, main: Callable[[], object], *arguments: str) -> None:
    """A command's `main` in a folder of this process, as fixtures of a whole file run it."""
    GlobalHydra.instance().clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["judgebench", *arguments])
        main()


@pytest.fixture
def called(monkeypatch, capfd):
    """A command's `main` in this process: it and its arguments -> (exit code, stdout, stderr).

    It must succeed unless it is meant to be `mistaken`.
    """

    def call(main: Callable[[], object], *arguments: str, mistaken: bool = False) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["judgebench", *arguments])
        GlobalHydra.instance().clear()
        capfd.readouterr()
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = capfd.readouterr()
        assert mistaken or code == 0, out + err
        return code, out, err

    return call


@pytest.fixture
def work(tmp_path, monkeypatch) -> Path:
    """An empty folder, in which a test is."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def judgebench(work, called):
    """The command line, in this process and in an empty folder: arguments -> (exit code, stdout, stderr).

    A run must succeed unless it is meant to be `mistaken`.
    """
    from judgebench.__main__ import main

    return partial(called, main)
