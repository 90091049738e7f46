"""The command line: `python -m judgebench paper RUN [RUN ...]`, the papers' tables from run folders,
all families together.

  RUN         a run folder; the pairs of several runs stand in one table
  out=FOLDER  also writes all tables there as .csv and .tex; where runs of one judge assess
              absolutely and comparatively under attack, a figure of both, too
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from judgebench.command.words import Words
from judgebench.report.figures.attacks import assessment_figure, is_win_probability
from judgebench.report.figures.style import file_name, save_figures
from judgebench.report.paper.cap import build_cap
from judgebench.report.paper.cd import build
from judgebench.results.folder import RunFolder
from judgebench.results.results import Results
from judgebench.results.schema import run_inputs
from judgebench.runtime.files import atomic, check_outputs, writing
from judgebench.words.terminal import print_safely

_WORDS = Words("paper", __doc__, "python -m judgebench paper outputs/first", ["out"])

ARTIFACTS = (
    "config",
    "about",
    "metrics",
    "tuning",
    "standards",
    "strengths",
    "costs",
    "references",
)
"""The artifacts that tables are made of: readings and scores may be large."""


@_WORDS
def main(paths: list[str], given: dict[str, str]) -> int:
    """Prints the tables that the runs have a part in; 0, or 2 after a user's mistake."""
    if not paths:
        _WORDS.refuse("no run folder is named")
    out = given.get("out")
    # 1. the runs, as far as tables need them, and their tables
    runs = []
    for folder in map(RunFolder.open, paths):
        contents = {name: folder.read(name) for name in ARTIFACTS}
        present = {name: content for name, content in contents.items() if content is not None}
        runs.append(Results(**present, path=folder.path))
    tables = build(runs)
    cap = build_cap(runs)
    if any(table.has_ours for table in cap):
        tables += cap
    # 2. files, and for each judge absolute against comparative assessment under attack
    if out:
        files: dict[str, str] = {}
        for table in tables:
            files |= table.files
        inputs = chain.from_iterable(run_inputs(run.folder) for run in runs)
        check_outputs([(f"out={out}", Path(out) / name) for name in files], inputs)
        figures = _assessment_figures(runs)
        with writing(f"out={out}:"):
            for name, text in files.items():
                with atomic(Path(out) / name) as temporary:
                    temporary.write_text(text, encoding="utf-8")
            save_figures(figures, Path(out))
    ours = [table.text.rstrip("\n") for table in tables if table.has_ours]
    if not ours:
        print_safely(
            "judgebench: the papers' tables hold the papers' models, data and ranges alone, and "
            "these runs have none; `python -m judgebench report RUN` makes the page with all "
            "numbers.",
            error=True,
        )
    print_safely("\n\n".join(ours))
    return 0


def _assessment_figures(runs: Sequence[Results]) -> dict[str, Figure]:
    """Name -> figure, of the judges that assess absolutely and comparatively under attack."""
    figures = {}
    for title in dict.fromkeys(run.titles.get("main") for run in runs):
        judged = [run for run in runs if run.titles.get("main") == title]
        absolute: list[Any] = []
        comparative: list[Any] = []
        for run in judged:
            for record in run.metrics:
                records = comparative if is_win_probability(record) else absolute
                records.append(record)
        figure = assessment_figure(absolute, comparative, judged[0].titles)
        if figure is not None:
            figures[f"assessment_{file_name(title or 'main')}"] = figure
    return figures


if __name__ == "__main__":
    sys.exit(main())
