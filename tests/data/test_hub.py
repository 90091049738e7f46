from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from judgebench.data.rows import is_hub_id

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("path", ["mteb/summeval", "lyon-nlp/summarization-summeval-fr-p2p", "a_b/c.d-e"])
def test_owner_and_name_are_a_hub_id(path: str) -> None:
    assert is_hub_id(path)


@pytest.mark.parametrize(
    "path",
    ["summeval", "summeval.jsonl", "data/summeval.jsonl", "a/b.parquet", "a/b/c", "/mteb/summeval", "../summeval",
     "./summeval", "~/summeval", "mteb\\summeval", "mteb/", "/x"],
)  # fmt: skip
def test_other_paths_are_local(path: str) -> None:
    assert not is_hub_id(path)


def test_a_path_in_an_existing_folder_is_local_even_if_mistyped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_hub_id("mteb/summeval")
    (tmp_path / "mteb").mkdir()
    assert not is_hub_id("mteb/summeval")


def test_an_unreachable_hub_is_told_in_a_sentence(tmp_path: Path) -> None:
    program = (
        "from judgebench.data.benchmarks import SummEval\n"
        "from judgebench.runtime.errors import UserError\n"
        "for path in ('hub', 'some-owner/some-name'):\n"
        "    try:\n        SummEval(path).setup()\n"
        "    except UserError as error:\n        print(error)\n"
    )
    # In a process of its own, because huggingface_hub reads these variables once, when it is imported.
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    lines = result.stdout.splitlines()
    assert len(lines) == 2
    for line, name in zip(lines, ("mteb/summeval", "some-owner/some-name"), strict=True):
        assert line.startswith(f"data.path: the data set '{name}' is not in the local cache and the Hugging Face hub")
        assert line.endswith("give it with data.path=FILE.parquet.")
