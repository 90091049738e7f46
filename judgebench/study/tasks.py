"""Runs of several tasks, in one table."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from judgebench.report.comparison import named_runs, render_comparison
from judgebench.report.render import to_terminal
from judgebench.report.table import records
from judgebench.report.views.answer import tasks_answer
from judgebench.report.views.league import league_of_tasks
from judgebench.report.views.tuning import TASKS_TABLE, tasks_frame
from judgebench.results.results import Results
from judgebench.runtime.files import as_csv, atomic
from judgebench.words.console import WIDTH, Terminal
from judgebench.words.terminal import print_safely


def show_tasks(paths: Sequence[Path], folder: Path, amount: str | None) -> None:
    """Writes tasks.html, tasks.json and tasks.csv of some run folders, and prints as much of them
    as `amount`, the config key `print`, asks for."""
    # 1. the files
    runs = [Results.load(path) for path in paths]
    links = [
        quote(os.path.relpath(path / "report.html", folder).replace(os.sep, "/")) for path in paths
    ]
    named = named_runs(runs)
    frame = tasks_frame(named)
    rows = records(frame)
    content = {
        "tasks.json": json.dumps(rows, indent=1, ensure_ascii=False) + "\n",
        "tasks.csv": as_csv(list(map(str, frame)), [list(row.values()) for row in rows]),
        "tasks.html": render_comparison(runs, links, tasks=True),
    }
    for name, text in content.items():
        with atomic(folder / name) as temporary:
            temporary.write_text(text, encoding="utf-8")
    # 2. the terminal
    blocks: list[Any] = [tasks_answer(runs)]
    if amount == "all":
        blocks += [*TASKS_TABLE(named), *league_of_tasks(named)]
    if amount != "none":
        Terminal(width=max(WIDTH, Terminal().width)).print(to_terminal(blocks))
    print_safely(folder / "tasks.html")
    print_safely(folder)
