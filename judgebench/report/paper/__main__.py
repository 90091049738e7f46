"""`python -m judgebench.report.paper RUN [RUN ...]`: the papers' tables from run folders, all families together."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from judgebench.judges.assistants import Assistant
from judgebench.judges.loading import ModelSource
from judgebench.report.figures.attacks import assessment_figure, is_win_probability
from judgebench.report.figures.style import file_name, save_figures
from judgebench.report.paper.build import build
from judgebench.report.paper.cap_build import build_cap
from judgebench.report.paper.files import Table, table_files, table_text
from judgebench.report.paper.found import RunResults
from judgebench.report.views.run import tutor_title
from judgebench.results.folder import RunFolder
from judgebench.results.results import Results
from judgebench.runtime.errors import UserError, escape_control
from judgebench.runtime.files import atomic


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the tables that the runs have a part in; 0, or 2 after a user's mistake."""
    parser = argparse.ArgumentParser(prog="python -m judgebench.report.paper", description=__doc__)
    parser.add_argument("run", nargs="+", help="a run folder; the pairs of several runs stand in one table")
    parser.add_argument(
        "--out",
        metavar="FOLDER",
        help="also write all tables there as .txt or .md, .csv and .tex; where "
        "runs of one judge assess absolutely and comparatively under attack, a figure of both, too",
    )
    given = parser.parse_args(arguments)
    try:
        runs = [_results(RunFolder.open(path)) for path in given.run]
        found = build_cap(runs)
        tables: list[Table] = [*build(runs), *(found if any(map(_ours, found)) else [])]
        if given.out:
            _write(table_files(tables), _figures(runs), Path(given.out))
    except UserError as error:
        print(f"judgebench: {error}", file=sys.stderr)
        return 2
    print(escape_control("\n\n".join(table_text(table).rstrip("\n") for table in tables if _ours(table))))
    return 0


def _write(files: Mapping[str, str], figures: Mapping[str, Figure], folder: Path) -> None:
    try:
        for name, text in files.items():
            with atomic(folder / name) as temporary:
                temporary.write_text(text, encoding="utf-8")
        save_figures(figures, folder)
    except OSError as error:
        raise UserError(f"--out: {folder} cannot be written ({error.strerror or error}).") from error


def _figures(runs: Sequence[RunResults]) -> dict[str, Figure]:
    """`assessment_<judge>`: absolute against comparative assessment under attack, of each judge with runs of both."""
    figures = {}
    for title in dict.fromkeys(run.titles["main"] for run in runs):
        own = [run for run in runs if run.titles["main"] == title]
        records = [record for run in own for record in run.records]
        comparative = [record for record in records if is_win_probability(record)]
        absolute = [record for record in records if not is_win_probability(record)]
        if figure := assessment_figure(absolute, comparative, own[0].titles):
            figures[f"assessment_{file_name(title or 'main')}"] = figure
    return figures


def _results(folder: RunFolder) -> RunResults:
    names = ("standards", "strengths", "detectors", "costs", "references")
    read = {name: folder.read(name) for name in names}
    defense = Results(**{name: value for name, value in read.items() if value is not None})
    return RunResults(folder.read("metrics"), _titles(folder), folder.read("tuning"), defense)


def _titles(folder: RunFolder) -> dict[str, str | None]:
    """The models' names as the run itself called them."""
    config = folder.read("config")
    judge, assistant = config["judge"], config["assistant"]
    source = ModelSource(assistant["path"], assistant.get("gguf_file")) if assistant.get("path") else None
    about = folder.read("about") or {}  # runs of earlier versions have none
    return {
        "main": ModelSource(judge["path"], judge.get("gguf_file")).title,
        "assistant": Assistant(assistant["kind"], source, assistant.get("layer")).title,
        "tutor": tutor_title(config.get("tutor")),
        "groups": about.get("titles", {}).get("groups"),
    }


def _ours(table: Table) -> bool:
    return any(line.ours for line in table.lines)


if __name__ == "__main__":
    sys.exit(main())
