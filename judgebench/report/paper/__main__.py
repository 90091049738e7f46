"""`python -m judgebench.report.paper RUN [RUN ...]`: the paper's tables from run folders, all families together."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from judgebench.errors import UserError
from judgebench.judges.assistants import Assistant
from judgebench.judges.loading import ModelSource
from judgebench.atomic import atomic
from judgebench.report.paper.build import build
from judgebench.report.paper.files import table_files, table_text
from judgebench.report.paper.found import RunResults
from judgebench.report.paper.tables import CorrelationTable, SettingTable
from judgebench.report.run_folder import RunFolder


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the tables that the runs have a part in; 0, or 2 after a user's mistake."""
    parser = argparse.ArgumentParser(prog="python -m judgebench.report.paper", description=__doc__)
    parser.add_argument("run", nargs="+", help="a run folder; the pairs of several runs stand in one table")
    parser.add_argument("--out", metavar="FOLDER", help="also write all tables there as .txt, .csv and .tex")
    given = parser.parse_args(arguments)
    try:
        tables = build([_results(RunFolder.open(path)) for path in given.run])
        if given.out:
            _write(table_files(tables), Path(given.out))
    except UserError as error:
        print(f"judgebench: {error}", file=sys.stderr)
        return 2
    print("\n\n".join(table_text(table).rstrip("\n") for table in tables if _ours(table)))
    return 0


def _write(files: Mapping[str, str], folder: Path) -> None:
    try:
        for name, text in files.items():
            with atomic(folder / name) as temporary:
                temporary.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"--out: {folder} cannot be written ({error.strerror or error}).") from error


def _results(folder: RunFolder) -> RunResults:
    return RunResults(folder.metrics(), _titles(folder), folder.tuning())


def _titles(folder: RunFolder) -> dict[str, str | None]:
    """The models' names as the run itself called them."""
    config = folder.config()
    judge, assistant = config["judge"], config["assistant"]
    source = ModelSource(assistant["path"], assistant.get("gguf_file")) if assistant.get("path") else None
    return {
        "main": ModelSource(judge["path"], judge.get("gguf_file")).title,
        "assistant": Assistant(assistant["kind"], source, assistant.get("layer")).title,
    }


def _ours(table: CorrelationTable | SettingTable) -> bool:
    return any(line.ours for line in table.lines)


if __name__ == "__main__":
    sys.exit(main())
