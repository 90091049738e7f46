"""Result files of other tools with shapes swapped, nulls, numbers for lists, cut off, with other bytes: each is taken,
or refused in a sentence, and a refused one leaves nothing."""

from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def test_odd_result_files_are_taken_or_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(SCRIPTS))
    from fuzz import main

    assert main(["--only", "results", "--cases", "400", "--seed", "2"]) == 0, capsys.readouterr().out
