"""Result files of other tools, whole, with odd values, with shapes swapped, with other bytes, cut off."""

from __future__ import annotations

import json
import math
import random
import shutil
import zipfile
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

from fuzzing.chance import change, damaged, odd_value
from fuzzing.target import Target, folder_of_cases, told, written
from judgebench.importing.archive import read_entries
from judgebench.importing.writing import write_results

_FILES = Path(__file__).parents[2] / "tests" / "data" / "results_of_tools"
_ROLES = ["judge", "human", "id", "output", "source", "rater", "group"]


@cache
def _whole() -> dict[str, bytes]:
    return {path.relative_to(_FILES).as_posix(): path.read_bytes() for path in _FILES.rglob("*") if path.is_file()}


def _places(node: Any) -> list[tuple[Any, Any]]:
    """Each container of a nest with each of its keys."""
    if not isinstance(node, dict | list):
        return []
    keys = list(node) if isinstance(node, dict) else range(len(node))
    return [(node, key) for key in keys] + [place for key in keys for place in _places(node[key])]


def _swap(chance: random.Random, node: Any) -> None:
    """Another kind of value at one place, or the values of two places exchanged."""
    places = _places(node)
    if not places:
        return
    container, key = chance.choice(places)
    if chance.random() < 0.3:
        other, place = chance.choice(places)
        container[key] = json.loads(json.dumps(other[place]))
        return
    value = container[key]
    kinds = [
        None,
        7,
        "text",
        [],
        {},
        [value],
        {"a": value},
        [[1], 2],
        math.nan,
        math.inf,
        True,
        "\ud800",
        odd_value(chance),
    ]
    container[key] = chance.choice(kinds)


def _odd_json(chance: random.Random, text: bytes) -> bytes:
    content = json.loads(text)
    for _ in range(chance.randint(1, 3)):
        (change if chance.random() < 0.3 and content else _swap)(chance, content)
    return json.dumps(content).encode()


def _case(chance: random.Random) -> tuple[str, bytes, dict[str, str]]:
    """A file's name and content, and words of the command line."""
    name = chance.choice(sorted(_whole()))
    content = _whole()[name]
    if chance.random() < 0.7:
        if name.endswith(".json"):
            content = _odd_json(chance, content)
        elif name.endswith(".jsonl"):
            rows = content.splitlines()
            place = chance.randrange(len(rows))
            rows[place] = _odd_json(chance, rows[place])
            content = b"\n".join(rows)
        elif name.endswith(".eval"):
            content = _odd_archive(chance, name)
    else:
        content = damaged(chance, content)
    words = {}
    if chance.random() < 0.5:
        words[chance.choice(_ROLES)] = chance.choice(["none", "output", "source", "judge_right", "human_correct", "id"])
    return name.replace("/", "-"), content, words


def _odd_archive(chance: random.Random, name: str) -> bytes:
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry, content in read_entries(_FILES / name):
            archive.writestr(entry, _odd_json(chance, content) if chance.random() < 0.3 else content)
    return buffer.getvalue()


def _check(case: tuple[str, bytes, dict[str, str]]) -> None:
    name, content, words = case
    path = written(name, content)
    folder = folder_of_cases() / "taken"
    shutil.rmtree(folder, ignore_errors=True)
    lines = told(lambda: write_results([path], folder, words))
    if lines is None:
        assert not folder.exists(), "a refused file leaves something"
        return
    data = [json.loads(line, parse_constant=_refused) for line in (folder / "data.jsonl").open(encoding="utf-8")]
    names = [row["example_id"] for row in data]
    assert len(set(names)) == len(names), "two texts of one name"
    assert all(row["output"].strip() for row in data)
    assert (folder / "answers.jsonl").exists() == (folder / "command.sh").exists(), "a command without answers"


def _refused(constant: str) -> None:
    raise AssertionError(f"{constant} is written")


TARGETS = (Target("results", 0.01, _case, _check, seconds=5.0),)
