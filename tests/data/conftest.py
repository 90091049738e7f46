from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture
def write_jsonl(tmp_path: Path) -> Callable[[Iterable[dict[str, Any]]], str]:
    def write(rows: Iterable[dict[str, Any]], name: str = "mine.jsonl") -> str:
        path = tmp_path / name
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def write_json(tmp_path: Path) -> Callable[[Any], str]:
    def write(value: Any, name: str = "mine.json") -> str:
        path = tmp_path / name
        path.write_text(json.dumps(value, indent=1, ensure_ascii=False), encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def shared_file() -> Callable[[str], str]:
    def find(name: str) -> str:
        path = SHARED / name
        if not path.is_file():
            pytest.skip(f"the real data is not here ({path})")
        return str(path)

    return find
