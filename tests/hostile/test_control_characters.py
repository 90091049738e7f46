import ast
import io
import re
import unicodedata
from pathlib import Path
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text

import judgebench
from judgebench.report.views.run import dry_run_view
from judgebench.types import Condition, ScoreRange
from judgebench.words.console import Terminal
from judgebench.words.errors import UserError, escape_control
from judgebench.words.terminal import print_safely, printable
from tests.report.test_run_view import prompt

STEERING = "\x1b]0;title\x07 \x1b[2J \x9b31m \u202e5.4\u202c \u2066 \u200b\ufeff \r \x00\x08"
TURNS = ("LRE", "LRO", "RLE", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")


@given(st.text())
def test_nothing_is_left_that_a_terminal_obeys_or_that_turns_a_line_around(text):
    shown = escape_control(text)
    assert not [c for c in shown.replace("\r\n", "\n") if unicodedata.category(c) == "Cc" and c not in "\t\n"]
    assert not [c for c in shown if unicodedata.bidirectional(c) in TURNS]
    assert escape_control(shown) == shown


@given(st.text(alphabet=st.characters(categories=("L", "M", "N", "P", "S", "Zs"), include_characters="\n\t\u200d")))
def test_what_can_be_read_stays(text):
    assert escape_control(text) == text


def test_a_terminal_keeps_its_own_colors_and_obeys_no_text():
    file = io.StringIO()
    table = Table(title=STEERING)
    table.add_column(STEERING)
    table.add_row(Text(STEERING, style="red"))
    Terminal(file=file, force_terminal=True, width=200, color_system="standard").print(table)
    said = file.getvalue()
    assert "\x1b[31m" in said  # of the style
    for obeyed in ("\x1b]0;", "\x1b[2J", "\x9b", "\x07", "\u202e", "\u200b", "\r"):
        assert obeyed not in said
    assert r"\x1b]0;title" in said


def test_a_dry_run_shows_what_a_text_would_do_to_the_terminal():
    condition, file = Condition("coherence", ScoreRange(1, 5)), io.StringIO()
    view = dry_run_view([prompt(condition, f"Rate: {STEERING}")], {condition: (7, 7)}, {"main": "m", "assistant": None})
    Terminal(file=file, width=40).print(view)
    assert f"Rate: {escape_control(STEERING)}\n" in file.getvalue()


def test_a_mistakes_sentence_shows_them_too():
    assert str(UserError(f"example {STEERING!s}: bad.")) == f"example {escape_control(STEERING)}: bad."


@given(st.text())
def test_what_is_shown_can_stand_in_xml(text):
    for shown in (text, f"{text}\ufffe\uffff\ud800"):
        assert ElementTree.fromstring(f"<a>{escape(escape_control(shown))}</a>").tag == "a"


COMMANDS = ["::error::x", " ::set-output name=a::b", "\u00a0\t::add-mask::x", "text ##[error]x"]
COMMANDS.append("a ##vso[task.complete]b")
HARMLESS = ["std::vector", "a ::b", "# [a](b)", "## a [b]", ": a", "a##b"]


@pytest.mark.parametrize("command", COMMANDS)
def test_no_line_is_a_command_to_a_service_that_runs_the_program(command, capsys):
    """GitHub takes `::` behind white space and `##[` anywhere, of both streams; so do others."""
    text, file = f"first\n{command}\r\n{command}", io.StringIO()
    print_safely(text, Path(command), error=True)
    print_safely(f"judgebench: {UserError(text)}")
    Terminal(file=file, width=40).print(text, markup=False, highlight=False)
    for said in (*capsys.readouterr(), file.getvalue()):
        assert not re.search(r"^\s*::|##\w*\[", said, re.MULTILINE), said
        assert r"\x3a:" in said or r"\x23#" in said


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_command_stays(text):
    assert printable(text) == text


def test_one_place_prints():
    package = Path(judgebench.__file__).parent
    for path in package.rglob("*.py"):
        if path.relative_to(package).as_posix() == "words/terminal.py":
            continue
        calls = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]
        bare = [call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"]
        assert not bare or path.name == "__main__.py", f"{path} prints in line {bare}; see print_safely"
