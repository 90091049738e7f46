"""The command line: `python -m judgebench report RUN [RUN ...]`, a run's report again from its
files, or several runs on one page.

  RUN       a run folder; several are compared on one page
  out=FILE  where the page goes; without it, RUN/report.html (with its figures), or
            ./comparison.html of several
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from urllib.parse import quote

from judgebench.command.words import Words
from judgebench.report.html import render_report, write_figures
from judgebench.report.layout import draw_all
from judgebench.results.folder import RunFolder
from judgebench.results.results import Results
from judgebench.results.schema import run_inputs
from judgebench.runtime.files import atomic, check_outputs, writing
from judgebench.words.errors import UserError
from judgebench.words.terminal import print_safely

_WORDS = Words("report", __doc__, "python -m judgebench report outputs/first", ["out"])
_COMPARISON = "comparison.html"


@_WORDS
def main(paths: list[str], given: dict[str, str]) -> int:
    """Writes the page and prints its path; 0, or 2 after a user's mistake. No model is loaded."""
    if not paths:
        _WORDS.refuse("no run folder is named")
    print_safely(_written(paths, given.get("out")))
    return 0


def _written(paths: Sequence[str], out: str | None) -> Path:
    """Writes the page of one or several runs and returns its path."""
    target = Path(out or _COMPARISON)
    if out is not None or len(paths) > 1:
        inputs = chain.from_iterable(run_inputs(Path(path)) for path in paths)
        check_outputs([(f"out={target}", target)], inputs)
    runs: list[Results] = []
    for path in paths:
        if any(Path(path).resolve() == run.folder.resolve() for run in runs):
            raise UserError(f"{path}: named twice; a comparison takes different run folders.")
        runs.append(Results.load(path))
    if len(runs) > 1:
        page = _compared(runs, target)
    else:
        figures = draw_all(runs[0])
        page = render_report(runs[0], figures)
        if out is None:
            folder = RunFolder(paths[0])
            drawn = write_figures(folder, runs[0], figures)
            drawn.append(folder.write_file("report.html", page))
            folder.write_digests(drawn)
            return drawn[-1]
    with writing(f"out={target}:"), atomic(target) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return target


def _compared(runs: Sequence[Results], target: Path) -> str:
    """The page of several runs, whose names are printed."""
    from judgebench.report.comparison import named_runs, render_comparison

    # A run's report as a page names it that lies elsewhere: the two can then be moved together.
    reports = (os.path.relpath(run.folder / "report.html", target.parent) for run in runs)
    page = render_comparison(runs, [quote(report.replace(os.sep, "/")) for report in reports])
    print_safely(*(f"{name}: {run.folder}" for name, run in named_runs(runs).items()))
    return page


if __name__ == "__main__":
    sys.exit(main())
