"""Frozen cases of views and sentences: results as a run folder has them, and what a report shows of them.

`python -m tests.report.frozen` writes what today's code shows and prints what has changed: tables, notes or sentences
that were meant to change, and nothing else.
"""

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from judgebench.report.table import Details, Facts, Heading, Paragraph, Table
from judgebench.results.results import Results

CASES = Path(__file__).parent / "cases"
"""A file a module of `judgebench.report.views`; a line a case: what is shown, of which results, and what that is."""

_FRAMES = ("readings", "scores", "ratings", "references", "trace", "served", "examples")


def cases() -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Module, line and content of each case."""
    for file in sorted(CASES.glob("*.jsonl")):
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
            yield file.stem, number, json.loads(line)


def shown(module: str, case: dict[str, Any]) -> Any:
    """What the case's view or function shows of its results, as JSON holds it."""
    part = getattr(importlib.import_module(f"judgebench.report.views.{module}"), case["show"])
    results = Results(**{
        name: pd.DataFrame(value) if name in _FRAMES else value for name, value in case["results"].items()
    })  # fmt: skip
    return json.loads(json.dumps(_plain(part.tables(results) if hasattr(part, "tables") else part(results))))


def _plain(block: Any) -> Any:
    match block:
        case Table():
            rows = []
            for section in block.sections:
                rows += [[section.title]] if section.title else []
                notes = section.notes or [""] * len(section.rows)
                rows += [[f"{'*' * cell.marked}{cell}" for cell in row] + [note] * bool(note)
                         for row, note in zip(section.rows, notes, strict=True)]  # fmt: skip
            heads = [f"{column.group}: {column.title}" if column.group else column.title for column in block.columns]
            words = {name: getattr(block, name) for name in ("title", "size", "folded", "note", "marks")}
            words["note"] = " ".join(filter(None, [block.meanings, block.note]))
            return {"table": block.name, **words, "heads": heads, "rows": rows}
        case Facts():
            return {"facts": [[term, list(sentences)] for term, sentences in block.rows]}
        case Paragraph() | Heading() | Details():
            return {"block": type(block).__name__, **{name: _plain(value) for name, value in vars(block).items()}}
        case list() | tuple():
            return [_plain(part) for part in block]
    return block


def main() -> None:
    """Freezes all cases anew."""
    lines: dict[str, list[str]] = {}
    for module, number, case in cases():
        now = shown(module, case)
        if now != case["shown"]:
            print(f"{module} {number}, {case['show']}:\n  was {json.dumps(case['shown'])}\n  now {json.dumps(now)}")
        lines.setdefault(module, []).append(json.dumps(case | {"shown": now}, ensure_ascii=False))
    for module, of_module in lines.items():
        (CASES / f"{module}.jsonl").write_text("\n".join(of_module) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
