import json
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture
def write_jsonl(tmp_path):
    def write(rows, name="mine.jsonl"):
        path = tmp_path / name
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def write_json(tmp_path):
    def write(value, name="mine.json"):
        path = tmp_path / name
        path.write_text(json.dumps(value, indent=1, ensure_ascii=False), encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def shared_file():
    def find(name):
        path = SHARED / name
        if not path.is_file():
            pytest.skip(f"the real data is not here ({path})")
        return str(path)

    return find
