"""Files that are written for people, and where: links that lead elsewhere, cells that a spreadsheet would run."""

import csv
import io
import os
import re
from xml.etree import ElementTree

import pandas as pd
import pyarrow as pa
import pytest
from markdown_it import MarkdownIt

from judgebench.cards.requirements import Outcome
from judgebench.cards.scoring import join_scores
from judgebench.command.gate import Decision, GateSettings
from judgebench.results.folder import RunFolder
from judgebench.runtime.files import as_csv, atomic, csv_cell
from judgebench.runtime.parquet import write_table
from judgebench.words.errors import UserError


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


SIGNS = (*"=+-@", *"＝＋－＠")


@pytest.mark.parametrize("start", [*SIGNS, "\t", "\r", "\n", *(f"{blank}=" for blank in ("\n", "\r\n", " ", "\u3000"))])
def test_no_cell_begins_a_formula(start):
    text = as_csv(["name", f"{start}cmd|' /C calc'!A0"], [[f"{start}SUM(A1)", 1.5], ["-1.5", -2], [None, "a\x1b[2J"]])
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert rows[0][1].startswith("'")
    assert rows[1] == [csv_cell(f"{start}SUM(A1)"), "1.5"]
    assert rows[1][0].startswith("'")
    assert rows[2:] == [["-1.5", "-2"], ["", "a\\x1b[2J"]]


def test_scores_are_written_without_formulas(tmp_path):
    frame = pd.DataFrame({"example_id": ["=1+1", "-3", "a\x1b[1m"], "score": [1.5, None, -0.25], "n": [1, 2, 3]})
    write_table(tmp_path / "part.parquet", pa.Table.from_pandas(frame, preserve_index=False))
    join_scores([tmp_path / "part.parquet"], tmp_path / "scores.csv", ".csv")
    assert (tmp_path / "scores.csv").read_text() == ("example_id,score,n\n'=1+1,1.5,1\n-3,,2\na\\x1b[1m,-0.25,3\n")


HOSTILE = "\ufffe\uffff\x00\x0b[c](http://a.b) ![p](https://c.d/e.png) <b>x</b> | `e` @team #1 $x$\n::error::f"


def decision(state: str) -> Decision:
    outcome = Outcome("order_texts", "yes", state, f"with care; {HOSTILE}")
    return Decision(f"1. {HOSTILE}", [outcome], [HOSTILE])


@pytest.mark.parametrize("state", ["passed", "failed", "not measured"])
def test_a_gates_files_show_what_a_card_says_and_nothing_more(tmp_path, state):
    settings = {"drift": "off", "paired": None, "readings": None, "check_models": True, "trust_judge": False}
    written = GateSettings(junit=f"{tmp_path}/gate.xml", summary=f"{tmp_path}/gate.md", **settings)
    decision(state).write(written)
    shown = " ".join(ElementTree.parse(tmp_path / "gate.xml").getroot().itertext())
    assert r"\ufffe\uffff\x00\x0b[c](http://a.b)" in shown
    text = (tmp_path / "gate.md").read_text("utf-8")
    page = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(text)
    assert not re.findall(r"<(?:a|b|img|code|em|ol|li|del)\b", page), page
    assert page.count("<table>") == page.count("<h3>") == 1
    assert page.count("<td>") == 4
    assert not re.search(r"[a-z]://|(?<!\\)[@$]", text), "GitHub makes links, names and formulas of these"
    assert "[c](http://a.b) ![p](https://c.d/e.png) &lt;b&gt;x&lt;/b&gt; | `e` @team #1 $x$" in page
