"""A short run of scripts/fuzz.py, which throws odd input at whatever takes input from outside."""

from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


@pytest.mark.slow
def test_two_thousand_cases(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(SCRIPTS))
    from fuzz import main

    assert main(["--cases", "2000", "--seed", "1"]) == 0, capsys.readouterr().out
    assert ", 0 broken, seed 1" in capsys.readouterr().out.splitlines()[-1]
