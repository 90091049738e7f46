"""What the frozen experiments write and show stays as it is frozen in `expected/`; `regenerate` makes that anew."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from tests.golden import experiments
from tests.golden.regenerate import EXPECTED
from tests.golden.snapshot import differences, snapshot

FROZEN = sorted(path.relative_to(EXPECTED).as_posix() for path in EXPECTED.rglob("*") if path.is_file())


@dataclass(frozen=True)
class Ran:
    """One experiment that was run: its frozen files, and keys of readings that it had to add to the store."""

    files: dict[str, str]
    added: set[str]
    environment: dict


@pytest.fixture(scope="session")
def ran(tmp_path_factory):
    """Name of an experiment -> what it gave; each is run once."""
    known: dict[str, Ran] = {}

    def call(name: str) -> Ran:
        if name not in known:
            folder = tmp_path_factory.mktemp(name)
            experiments.write_inputs(folder)
            before = experiments.stored_keys(folder)
            printed = experiments.run(name, folder)
            file = folder / "run" / "environment.json"
            environment = json.loads(file.read_text("utf-8")) if file.is_file() else {}
            files = snapshot(folder / "run", printed, experiments.FROZEN.get(name, ".*"))
            known[name] = Ran(files, experiments.stored_keys(folder) - before, environment)
        return known[name]

    return call


@pytest.mark.parametrize("name", experiments.EXPERIMENTS)
def test_a_store_of_commit_acb74e1_is_reused_whole(ran, name):
    assert not ran(name).added
    if name in ("mini", "cap_demo", "pairwise"):
        assert ran(name).environment["device"] == "none: every reading was in the store"
    if name == "served":
        assert [ran(name).environment["served"][role]["requests"] for role in ("main", "assistant")] == [0, 0]


@pytest.mark.parametrize("name", experiments.EXPERIMENTS)
def test_no_file_is_missing_or_new(ran, name):
    frozen = {file.removeprefix(f"{name}/") for file in FROZEN if file.startswith(f"{name}/")}
    assert set(ran(name).files) == frozen


@pytest.mark.parametrize("file", FROZEN)
def test_a_file_is_as_it_was_frozen(ran, file):
    name, rest = file.split("/", 1)
    content = ran(name).files.get(rest)
    assert content is not None, f"{file} is not written"
    lines = differences(rest, (EXPECTED / file).read_text("utf-8"), content)
    shown = "\n".join(lines[:20])
    if lines:
        pytest.fail(f"{file} differs in {len(lines)} places:\n{shown}", pytrace=False)
