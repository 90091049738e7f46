"""The end of a sweep over tasks: one table, one page and two files of all of them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from omegaconf import DictConfig

from judgebench.config.tasks import absences, tasks_in
from judgebench.runtime.files import as_csv, atomic
from judgebench.study.jobs import SweepSummary


class TaskSummary(SweepSummary):
    """Says which tasks are left out, and at the end writes tasks.html, tasks.json and tasks.csv in the sweep's folder
    and prints the table of all tasks."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        super().on_multirun_start(config, **kwargs)
        for sentence in absences(config.get("tasks")):
            print(sentence)

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        super().on_job_start(config, **kwargs)
        job, count = int(config.hydra.job.num), len(tasks_in(config.get("tasks")).split(","))
        print(f"\nTask {job + 1} of {count}: {config.hydra.runtime.choices.get('data')}")

    def _finish(self, config: DictConfig, folder: Path, jobs: Sequence[Mapping[str, Any]]) -> None:
        # all of this takes seconds to import, and most starts are no sweep
        from judgebench.report.comparison import lettered, render_tasks
        from judgebench.report.render import WIDTH, Terminal, to_terminal
        from judgebench.report.table import records
        from judgebench.report.views.tasks import TASKS_TABLE, tasks_frame
        from judgebench.results.results import Results

        paths = [Path(job["attributes"]["run_dir"]) for job in jobs if job.get("attributes")]
        if not paths:
            return
        runs = [Results.load(path) for path in paths]
        links = [quote(os.path.relpath(path / "report.html", folder).replace(os.sep, "/")) for path in paths]
        frame = tasks_frame(lettered(runs))
        names = [str(name) for name in frame]
        content = {
            "tasks.json": json.dumps(records(frame), indent=1, ensure_ascii=False) + "\n",
            "tasks.csv": as_csv(names, [[row[name] for name in names] for row in records(frame)]),
            "tasks.html": render_tasks(runs, links),
        }
        for name, text in content.items():
            with atomic(folder / name) as temporary:
                temporary.write_text(text, encoding="utf-8")
        console = Terminal(width=max(WIDTH, Terminal().width))
        console.print(to_terminal(TASKS_TABLE(lettered(runs))))
        print(folder / "tasks.html")
        print(folder)
