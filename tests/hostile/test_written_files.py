"""Files that are written for people, and where: links that lead elsewhere, cells that a spreadsheet would run."""

import csv
import io
import os

import pandas as pd
import pyarrow as pa
import pytest

from judgebench.cards.scoring import join_scores
from judgebench.results.folder import RunFolder
from judgebench.runtime.errors import UserError
from judgebench.runtime.files import as_csv, atomic, csv_cell
from judgebench.runtime.parquet import write_table


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_lock_that_leads_elsewhere_is_refused(tmp_path, link):
    victim, run = tmp_path / "victim", tmp_path / "run"
    victim.write_text("important")
    run.mkdir()
    link(victim, run / ".lock")
    with (
        pytest.raises(UserError, match=r"^run_dir: .*run cannot be written \(its .lock is .*remove it\)"),
        RunFolder(run).alone(),
    ):
        pass
    assert victim.read_text() == "important"


def test_a_temporary_file_that_leads_elsewhere_is_replaced(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("important")
    (tmp_path / f".a.txt.{os.getpid()}.tmp").symlink_to(victim)
    with atomic(tmp_path / "a.txt") as temporary:
        temporary.write_text("ours")
    assert (victim.read_text(), (tmp_path / "a.txt").read_text()) == ("important", "ours")
    assert not (tmp_path / "a.txt").is_symlink()


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_no_cell_begins_a_formula(start):
    text = as_csv(["name", f"{start}cmd|' /C calc'!A0"], [[f"{start}SUM(A1)", 1.5], ["-1.5", -2], [None, "a\x1b[2J"]])
    rows = list(csv.reader(io.StringIO(text)))
    assert rows[0][1].startswith("'")
    assert rows[1] == [csv_cell(f"{start}SUM(A1)"), "1.5"]
    assert rows[1][0].startswith("'")
    assert rows[2:] == [["-1.5", "-2"], ["", "a\\x1b[2J"]]


def test_scores_are_written_without_formulas(tmp_path):
    frame = pd.DataFrame({"example_id": ["=1+1", "-3", "a\x1b[1m"], "score": [1.5, None, -0.25], "n": [1, 2, 3]})
    write_table(tmp_path / "part.parquet", pa.Table.from_pandas(frame, preserve_index=False))
    join_scores([tmp_path / "part.parquet"], tmp_path / "scores.csv", ".csv")
    assert (tmp_path / "scores.csv").read_text() == ("example_id,score,n\n'=1+1,1.5,1\n-3,,2\na\\x1b[1m,-0.25,3\n")
