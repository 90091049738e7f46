"""A paper's table, published figures beside ours; and the judges of runs as the papers' tables know them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from judgebench.judges.loading import ModelSource
from judgebench.report.figures.style import shorten
from judgebench.report.formats import UNKNOWN, Format, two
from judgebench.report.render import to_latex, to_markdown
from judgebench.report.table import Col, Table, View
from judgebench.results.results import Results
from judgebench.runtime.files import as_csv

FOLDER = Path(__file__).resolve().parent.parent / "published"
"""The figures that the papers print, as data: facts with their source."""

OURS, PAPER = "ours", "paper"
UNREADABLE = "?"
"""Stands for a published figure that the scan of a paper does not show."""

# --- tables -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measure:
    """A number of a table.

    Rows hold ours as `<key>`, `<key>_low`, `<key>_high` and `<key>_signs`, the paper's as `<key>_published` and
    `<key>_published_signs`.

    Attributes:
        form: the format of a value; ends: of its interval, where it differs.
        ours, paper: whether tables have a column of ours, and of the paper's.
    """

    key: str
    head: str
    form: Format = two
    ends: Format | None = None
    ours: bool = True
    paper: bool = True


@dataclass(frozen=True)
class PaperTable:
    """A table with published figures, ours, or both.

    Attributes:
        table: for people; its name is that of the files.
        rows: a row a line, with the columns that its `Measure`s name; `ours`, `printed`: whether a run, or the paper,
            has the line.
        csv: columns of the CSV -> those of the rows.
        notes: sentences below the table.
        ending: of the file for people.
        legend: the meaning of signs, for people and in LaTeX.
        below: tables that follow for comparison.
        digits: decimals of numbers in the CSV; None: all.
    """

    table: Table
    caption: str
    rows: pd.DataFrame
    csv: Mapping[str, str]
    notes: Sequence[str]
    ending: str = "md"
    legend: tuple[str, str] = ("", "")
    below: Sequence[PaperTable] = ()
    digits: int | None = 6

    @property
    def name(self) -> str:
        """The files' name without an ending."""
        return self.table.name

    @property
    def has_ours(self) -> bool:
        """True where a run has any of the lines."""
        return bool(self.rows["ours"].any())

    @property
    def text(self) -> str:
        """The table for people, in Markdown."""
        rest = self.caption.removeprefix(self.table.title)
        head = f"**{self.table.title}{'.' if rest == self.caption else ''}** {rest.lstrip()}"
        written = to_markdown(self.table, head, [*filter(None, [self.legend[0]]), *self.notes])
        return "\n".join([written, *(one.text for one in self.below)])

    @property
    def files(self) -> dict[str, str]:
        """File name -> content: for people, as CSV and as LaTeX."""
        plain = self.rows.assign(table=self.table.title)[list(self.csv.values())]
        plain = plain if self.digits is None else plain.round(self.digits)
        cells = plain.astype(object).where(plain.notna(), None).itertuples(index=False, name=None)
        latex = to_latex(self.table, " ".join([self.caption, *self.notes]), self.legend[1])
        return {
            f"{self.name}.{self.ending}": self.text,
            f"{self.name}.csv": as_csv(list(self.csv), cells),
            f"{self.name}.tex": latex,
        }


def paper_table(
    name: str,
    title: str,
    rows: pd.DataFrame,
    labels: Mapping[str, str],
    measures: Sequence[Measure],
    sections: Sequence[str],
    once: Sequence[str] = (),
) -> Table:
    """The table for people.

    Args:
        rows: see `PaperTable`; `section` is the line above a section, where they have it; `<key>_unread`: whether a
            published figure cannot be read.
        labels: columns of the rows that name a line -> their heads.
        measures: the numbers: all of ours where any line is ours, likewise the paper's.
        sections, once: see `View`.
    """
    both = rows["ours"].any() and rows["printed"].any()
    columns = [Col(head, key, left=True) for key, head in labels.items()]
    shown = rows.copy()
    if rows["ours"].any():
        columns += [
            Col(one.head, one.key, one.form, ends=one.ends or one.form, signs=f"{one.key}_signs",
                group=OURS if both else "")
            for one in measures if one.ours
        ]  # fmt: skip
    if rows["printed"].any():
        for one in (one for one in measures if one.paper):
            column = f"{one.key}_published"
            texts = rows[column].map(one.form)
            if f"{one.key}_unread" in rows:
                texts = texts.mask(rows[f"{one.key}_unread"].eq(True), UNREADABLE)
            shown[f"{one.key}_shown"] = texts
            columns.append(Col(one.head, f"{one.key}_shown", signs=f"{column}_signs", group=PAPER))
    above = "{section}" if "section" in rows else ""
    view = View(name, "", lambda given: given, columns, title=title, sections=sections, section=above, once=once)
    return view.tables(shown)[0]


@cache
def published(name: str) -> pd.DataFrame:
    """A file of `published/`, its comments left out; `judge_key` names the judge as `judge_key` does, where there is
    one. Do not change the frame: it is shared."""
    frame = pd.read_csv(FOLDER / name, comment="#")
    if "judge" in frame:
        frame["judge_key"] = frame["judge"].map(judge_key)
    elif "main" in frame:
        pairs = zip(frame["main"], frame["assistant"].fillna(""), strict=True)
        frame["judge_key"] = [judge_key(*pair) for pair in pairs]
    return frame


def per_cent(value: Any) -> str:
    """A number that is in per cent already, without decimals."""
    return UNKNOWN if value is None or pd.isna(value) else f"{round(value)} %"


def grouped(rows: pd.DataFrame, by: str | list[str]) -> Iterable[tuple[Any, pd.DataFrame]]:
    """The values of one or several columns, each with its rows, in order of appearance."""
    return rows.groupby(by, sort=False)


# --- judges -----------------------------------------------------------------------------------------------------------

CONTRASTIVE = "contrastive"
"""The decoding that stands in the paper's rows, where a run has several that contrast."""

_PREFERRED = {"argmax": "greedy", "expectation": "expectation"}
"""Rule -> the decoding of a model by itself that stands in the rows, where a run has several."""
_SIZE = re.compile(r"(?<![\w.])\d+(?:\.\d+)?[bBmM](?!\w)")
_EXIT = re.compile(r"early exit after (layer \d+)")


def model_key(name: str) -> str:
    """A key that names of one model share: the last part of a hub id or path, in small letters.

    Example:
        >>> model_key("Qwen/Qwen2.5-14B-Instruct") == model_key("/models/Qwen2.5-14B-Instruct")
        True
    """
    return name.rstrip("/\\").replace("\\", "/").split("/")[-1].casefold()


def judge_key(main: str, assistant: str | None = None) -> str:
    """A key that names of one model, or of one pair, share.

    Example:
        >>> judge_key("Qwen/Qwen2.5-7B", "Qwen/Qwen2.5-3B")
        'qwen2.5-7b / qwen2.5-3b'
    """
    return " / ".join(model_key(name) for name in (main, assistant) if name)


def names_of(run: Results) -> tuple[str, str | None]:
    """The names of a run's models, told apart where files are called alike."""
    main, assistant = run.titles.get("main") or "main", run.titles.get("assistant")
    if assistant is not None and model_key(assistant) == model_key(main):
        return f"{main} (main)", f"{assistant} (assistant)"
    return main, assistant


def judges_of(run: Results) -> dict[str, tuple[str, str]]:
    """Role (`main`; `assistant` and `pair` where there is one) -> key and name in tables, small models before large
    ones, as the papers print them."""
    main, assistant = names_of(run)
    own = {"main": (judge_key(main), shorten(main, 30))}
    if assistant is None:
        return own
    pair = f"Contrastive ({_size(main)}-{_size(assistant)})"
    first = {"assistant": (judge_key(assistant), shorten(assistant, 30))}
    return first | own | {"pair": (judge_key(main, assistant), pair)}


def tutor_name(run: Results) -> str | None:
    """The name of the tutor that writes a run's references; None without one."""
    tutor = run.config.get("tutor") or {}
    return ModelSource(tutor["path"], tutor.get("gguf_file")).title if tutor.get("path") is not None else None


def decoding_of(records: Iterable[Mapping[str, Any]], judge: str, rule: str) -> str | None:
    """The one of a judge's decodings by a rule that stands in its rows; None where it has none."""
    names = [
        record["decoding"]
        for record in records
        # runs of earlier versions do not name the rule: it was the paper's
        if record["judge"] == judge and (record.get("rule") or "argmax") == rule
    ]
    preferred = CONTRASTIVE if judge == "pair" else _PREFERRED[rule]
    return preferred if preferred in names else next(iter(names), None)


def _size(name: str) -> str:
    """A model's size where its name has one, as the paper names pairs; the layer of an early exit; else the name."""
    if exit_at := _EXIT.fullmatch(name):
        return exit_at[1]
    sizes = _SIZE.findall(name)
    return sizes[-1] if sizes else shorten(name, 14)
