import io
import unicodedata

from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text

from judgebench.report.render import Terminal
from judgebench.report.views.run import dry_run_view
from judgebench.runtime.errors import UserError, escape_control
from judgebench.types import Condition, ScoreRange
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
