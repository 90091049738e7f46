"""Workbooks of Excel: their cells as values, within bounds, and sentences for all others."""

import datetime
import sys
import zipfile

import pytest

from judgebench.data.rows import data_files, file_rows
from judgebench.runtime import workbook
from judgebench.runtime.workbook import read_sheet, sheet_lines
from judgebench.words.errors import UserError

openpyxl = pytest.importorskip("openpyxl")


def save(path, **sheets):
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


@pytest.fixture
def book(tmp_path):
    """A workbook as people have them: notes first, a title above the header, a gap, a column without a name."""
    return save(
        tmp_path / "book.xlsx",
        Notes=[["Read me first"]],
        Ratings=[
            ["Survey of 2026"],
            [],
            ["Question ", "Human\nscore", "When", "ok"],
            ["Q_x000D_1?", 4, datetime.date(2026, 1, 2), True, "a remark"],
            [],
            ["Q2?", 3.5, None, False],
        ],
        Other=[["a", "b"], [1, " "]],
    )


def test_a_sheet_is_rows_of_values(book):
    first, second = file_rows(book)
    assert first.values == {
        "Question": "Q\r1?", "Human score": 4, "When": "2026-01-02 00:00:00", "ok": True, "column E": "a remark",
    }  # fmt: skip
    assert (first.place, second.place, second.position) == ("book.xlsx row 4", "book.xlsx row 6", 6)
    assert second.number("Human score") == 3.5
    assert not second.has("When")


def test_a_sheet_is_named_or_the_first_that_holds_something(book):
    assert list(read_sheet(book, "Other")) == [(2, {"a": 1, "b": None})]
    assert "of Notes, Ratings, Other (sheet=NAME)" in sheet_lines(book)[0]
    with pytest.raises(UserError, match="there is no sheet 'Rating'; there are 'Notes', 'Ratings', 'Other'"):
        list(read_sheet(book, "Rating"))


def test_a_folder_of_workbooks_leaves_out_what_excel_has_open(book):
    (book.parent / "~$book.xlsx").write_bytes(b"locked")
    assert data_files(book.parent) == [book]


def test_a_formula_without_its_value_is_no_empty_cell(tmp_path):
    path = save(tmp_path / "sums.xlsx", Sheet=[["a", "score"], ["A.", "=1+2"]])
    with pytest.raises(UserError, match=r"sums.xlsx: B2 is a formula whose value was not saved; open the file in"):
        list(read_sheet(path))
    # as Excel saves it, with the value
    rewrite(
        path,
        "xl/worksheets/sheet1.xml",
        lambda text: text.replace(b"<v></v>", b"<v>3</v>").replace(b"<v />", b"<v>3</v>"),
    )
    assert list(read_sheet(path)) == [(2, {"a": "A.", "score": 3})]


def rewrite(path, name, change):
    with zipfile.ZipFile(path) as archive:
        parts = {part: archive.read(part) for part in archive.namelist()}
    parts[name] = change(parts[name])
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for part, content in parts.items():
            archive.writestr(part, content)


def test_what_a_small_file_unpacks_to_is_bounded_before_it_is_read(book, monkeypatch):
    rewrite(book, "xl/worksheets/sheet3.xml", lambda text: text + b" " * 4_000_000)
    assert book.stat().st_size < 20_000
    assert list(read_sheet(book, "Other"))
    monkeypatch.setattr(workbook, "_MOST_BYTES", 2**20)
    with pytest.raises(UserError, match=r"unpacked it has 4,\d\d\d,\d\d\d bytes, and 1,048,576 are allowed"):
        list(read_sheet(book))


HOSTILE = {
    "a row far below": (
        lambda text: text.replace(b'<row r="4"', b'<row r="99999999999999"'),
        "more than 1,048,576 rows",
    ),
    "a document type": (
        lambda text: b'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>' + text,
        "has a document type, which Excel never writes",
    ),
    "cut": (lambda text: text[: len(text) // 2], "cannot be read as a workbook of Excel"),
    "a number that is none": (lambda text: text.replace(b"<v>4</v>", b"<v>4..4</v>"), "cannot be read as a workbook"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_workbooks_end_in_a_sentence(book, case):
    change, sentence = HOSTILE[case]
    rewrite(book, "xl/worksheets/sheet2.xml", change)
    with pytest.raises(UserError, match=sentence):
        list(read_sheet(book))


def test_many_empty_cells_are_bounded(book, monkeypatch):
    monkeypatch.setattr(workbook, "_MOST_CELLS", 8)
    with pytest.raises(UserError, match="or 8 cells"):
        list(read_sheet(book))


@pytest.mark.parametrize("content", [b"", b"PK\3\4", b"a,b\n1,2\n"])
def test_what_is_no_workbook_is_said(tmp_path, content):
    path = tmp_path / "x.xlsx"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"x.xlsx: cannot be read as a workbook of Excel"):
        list(read_sheet(path))


def test_without_openpyxl_the_extra_is_named(book, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(UserError, match=r"pip install 'judgebench\[excel\]'"):
        list(read_sheet(book))


def test_older_forms_are_named(tmp_path):
    (tmp_path / "x.ods").write_bytes(b"PK")
    with pytest.raises(UserError, match=r"x.ods: is a workbook of another form; save it as .xlsx"):
        list(file_rows(tmp_path / "x.ods"))
