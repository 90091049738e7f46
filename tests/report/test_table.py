"""Tables as values, and as a page, a terminal, Markdown and LaTeX write them."""

import io

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from judgebench.report.render import to_html, to_markdown, to_terminal
from judgebench.report.table import Col, Details, Facts, Heading, Paragraph, View
from judgebench.words.formats import (
    UNKNOWN,
    decimals,
    general,
    interval,
    p_value,
    percent,
    percent_one,
    points,
    rounded_up,
    short,
    signed_two,
    text,
    thousands,
    two,
    whole,
)
from tests.report.conftest import words_of

ROWS = pd.DataFrame(
    {
        "dimension": ["tone", "tone", "tone", "style"],
        "range": ["1-5", "1-5", "0-4", "1-5"],
        "who": ["main", "pair|x", "main", "<b>&_$"],
        "value": [0.126, None, 0.5, -0.001],
        "value_low": [0.1, None, None, -0.2],
        "value_high": [0.2, None, None, 0.3],
        "best": [True, False, False, False],
        "none": [None, None, None, None],
        "flags": [["constant"], None, None, None],
        "why": ["because", "", "", ""],
    }
)

VIEW = View(
    "made",
    "Made up",
    lambda rows: rows,
    (
        Col("range", "range", left=True),
        Col("who", "who", flags="flags", left=True),
        Col("value", "value", two, ends=short, marked="best"),
        Col("empty", "none", two, optional=True),
        Col("wide", "range", page=True),
    ),
    by=["dimension"],
    title="{dimension}",
    size="{range} only",
    sections=["range"],
    once=["range"],
    below="why",
    note=lambda results, rows: f"{len(rows)} rows.",
    marks="the best",
)


@pytest.fixture
def tables():
    return VIEW.tables(ROWS)


def test_rows_are_split_into_tables_and_sections(tables):
    assert [(table.title, table.size) for table in tables] == [("tone", "1-5 only"), ("style", "1-5 only")]
    assert [[[str(cell) for cell in row[:3]] for row in section.rows] for section in tables[0].sections] == [
        [["1-5", "main constant", "0.13 [.10,.20]"], ["", "pair|x", "-"]],
        [["0-4", "main", "0.50"]],
    ]
    assert [list(section.notes) for section in tables[0].sections] == [["because", ""], [""]]
    assert tables[0].heads == ["range", "who", "value", "wide"]  # a column without values is left out
    assert [(table.note, table.marks) for table in tables] == [("", ""), ("4 rows.", "the best")]
    assert VIEW.tables(ROWS.assign(best=False))[-1].marks == ""  # explained only where there are any
    assert VIEW(ROWS.head(0)) == []
    assert VIEW(ROWS)[0] == Heading("Made up")


def test_markdown(tables):
    assert to_markdown(tables[0], "**Made up.**", ["a note"]).splitlines() == [
        "**Made up.**",
        "",
        "| range | who           | value              | wide |",
        "| ----- | ------------- | ------------------ | ---- |",
        "| 1-5   | main constant | **0.13 [.10,.20]** | 1-5  |",
        r"|       | pair\|x       | -                  |      |",
        "| 0-4   | main          | 0.50               | 0-4  |",
        "",
        "- a note",
    ]
    assert to_markdown(tables[0]).startswith("**tone: made up, 1-5 only**\n\n| range |")
    assert to_markdown(tables[1]).endswith("\n- 4 rows. Bold: the best.\n")


def test_a_page_escapes_and_a_terminal_has_no_room_for_wide_columns(tables):
    page = to_html([Heading("Made up"), *tables])
    assert "&lt;b&gt;&amp;_$" in page
    assert '<span class="best">0.13</span> <small class="interval">[.10,.20]</small>' in page
    assert "wide" in words_of(page)
    file = io.StringIO()
    Console(file=file, width=60).print(to_terminal([Heading("Made up"), *tables]))
    text = words_of(file.getvalue())
    for part in ("tone: made up, 1-5 only", "! constant", "0.13* [.10,.20]", "because", "4 rows. *: the best."):
        assert part in text
    assert "wide" not in text


def test_other_blocks_on_a_page_and_in_a_terminal():
    blocks = [Paragraph("Told.", warning="edge"), Facts([("term", ["one", "two"])]), Details("More", "<secret>")]
    page = to_html(blocks)
    assert "<pre>&lt;secret&gt;</pre>" in page
    assert "<dt>term</dt><dd>one two</dd>" in page
    file = io.StringIO()
    Console(file=file, width=60).print(to_terminal(blocks))
    assert [line.strip() for line in file.getvalue().splitlines()] == ["! edge: Told.", "term: one two"]


@pytest.mark.parametrize(
    ("form", "value", "text"),
    [
        *((signed_two, -0.004, "0.00"), (signed_two, 0.256, "+0.26"), (two, float("nan"), UNKNOWN)),
        *((short, 0.95, ".95"), (short, 0.996, "1.00"), (short, -0.2, "-.20"), (percent, 0.256, "26 %")),
        *((decimals(3), None, UNKNOWN), (p_value, 0.0, "<.001"), (p_value, 1.0, "1.000"), (p_value, None, "-")),
        *((percent_one, 0.1234, "12.3 %"), (points, None, "-"), (whole, 2.6, "3"), (thousands, 12345, "12,345")),
        *((general, 0.123456, "0.1235"), (text, None, "")),
    ],
)
def test_numbers_as_people_read_them(form, value, text):
    assert form(value) == text


@given(st.integers(2, 10**6))
def test_estimated_groups_are_rounded_up_to_two_digits(count):
    shown = int(rounded_up(count).replace(",", ""))
    assert count <= shown < 1.1 * count + 1
    assert len(str(shown).rstrip("0")) <= 2


def test_intervals_without_an_end_are_left_out():
    assert interval(-0.1, 1.05) == "[-.10,1.05]"
    assert interval(None, 0.4) == interval(0.4, float("nan")) == ""
