"""Completion in a real Bash, as --help says it is switched on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from judgebench.command.completion import completions

HERE = Path(__file__).parents[2]


def in_bash(line, folder):
    """What Bash offers for the end of a line, by the function that it has registered for its first word."""
    script = f"""
eval "$(python -m judgebench -sc install=bash)"
COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}
COMP_WORDS=($COMP_LINE); COMP_CWORD=$((${{#COMP_WORDS[@]}}-1))
rule=$(complete -p ${{COMP_WORDS[0]}})
[[ $rule =~ -F\\ ([a-z_]+) ]] && "${{BASH_REMATCH[1]}}" "${{COMP_WORDS[0]}}"
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    for name, command in (("python", f'exec {sys.executable} "$@"'), ("judgebench", 'exec python -m judgebench "$@"')):
        (folder / name).write_text(f"#!/bin/sh\n{command}\n")
        (folder / name).chmod(0o755)
    known = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(HERE)}
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, env=known, check=True)
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("judgebench cal", ["calibrate"]),
        ("judgebench run judge=smol", ["smollm2"]),
        ("judgebench gate chec", ["check_models="]),
        ("python -m judgebench +exp=mi", ["mini"]),
        ("python -m judgebench score wid", ["wide="]),
        ("python other.py da", []),
    ],
)
def test_bash_completes(tmp_path, line, offered):
    assert in_bash(line, tmp_path) == offered


def test_words_that_a_line_can_become():
    assert "score " in completions("judgebench ")
    assert completions("judgebench run decoding=[greedy,expec") == ["decoding=[greedy,expectation"]
    assert completions("judgebench run judge.max_n") == ["judge.max_new_tokens="]
    assert {"human=", "dry_run=", "data=", "+exp="} <= set(completions("python -m judgebench "))
    assert completions("judgebench from x") == completions("judgebench nothing x") == []
