"""`python -m judgebench.report RUN [RUN ...]`: a run's report anew from its files, or several runs on one page."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from judgebench.report.comparison import render_comparison
from judgebench.report.figures.style import figure_files
from judgebench.report.html import render_report
from judgebench.report.layout import draw_all
from judgebench.results.folder import RunFolder
from judgebench.results.results import Results
from judgebench.runtime.errors import UserError
from judgebench.runtime.files import atomic

_COMPARISON = "comparison.html"


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the page and prints its path; 0, or 2 after a user's mistake. No model is loaded."""
    parser = argparse.ArgumentParser(prog="python -m judgebench.report", description=__doc__)
    parser.add_argument("run", nargs="+", help="a run folder; several are compared on one page")
    parser.add_argument(
        "--out",
        metavar="FILE",
        help=f"where the page goes; without it, RUN/report.html (and its figures anew), or ./{_COMPARISON} of several",
    )
    given = parser.parse_args(arguments)
    try:
        print(_one(given.run[0], given.out) if len(given.run) == 1 else _several(given.run, given.out))
    except UserError as error:
        print(f"judgebench: {error}", file=sys.stderr)
        return 2
    return 0


def _one(path: str, out: str | None) -> Path:
    run = Results.load(path)
    figures = draw_all(run)
    page = render_report(run, figures)
    if out is not None:
        return _write(Path(out), page)
    folder = RunFolder(path)
    drawn = [folder.write_file(f"figures/{name}", drawing) for name, drawing in figure_files(figures).items()]
    drawn.append(folder.write_file("report.html", page))
    folder.write_digests(drawn)
    return drawn[-1]


def _several(paths: Sequence[str], out: str | None) -> Path:
    runs: list[Results] = []
    for path in paths:
        if any(Path(path).resolve() == run.folder.resolve() for run in runs):
            raise UserError(f"{path}: named twice; a comparison takes different run folders.")
        runs.append(Results.load(path))
    page = Path(out or _COMPARISON)
    return _write(page, render_comparison(runs, [_link(run, page) for run in runs]))


def _link(run: Results, page: Path) -> str:
    """The run's report as a page names it that lies elsewhere: the two can then be moved together."""
    where = os.path.relpath(run.folder / "report.html", page.parent)
    return quote(where.replace(os.sep, "/"))


def _write(path: Path, page: str) -> Path:
    try:
        with atomic(path) as temporary:
            temporary.write_text(page, encoding="utf-8")
    except OSError as error:
        raise UserError(f"--out: {path} cannot be written ({error.strerror or error}).") from error
    return path


if __name__ == "__main__":
    sys.exit(main())
