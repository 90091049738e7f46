"""A paper's table, published figures with ours; and the judges of runs as the papers' tables know
them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from judgebench.report.figures.style import shorten
from judgebench.report.render import to_latex, to_markdown
from judgebench.report.table import Col, Table, View
from judgebench.results.results import Results
from judgebench.runtime.files import as_csv
from judgebench.types import Row
from judgebench.words.formats import UNKNOWN, Format, span, two

FOLDER = Path(__file__).resolve().parent.parent / "published"
"""The figures that the papers print, as data: facts with their source."""

OURS = "ours"
PAPER = "paper"
UNREADABLE = "?"
"""Stands for a published figure that the scan of a paper does not show."""


@dataclass(frozen=True)
class Measure:
    """A number of a table.

    Rows hold ours as `<key>`, `<key>_low`, `<key>_high` and `<key>_signs`, the paper's as
    `<key>_published` and `<key>_published_signs`.

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
        name: that of its files, without an ending; title: such as "Table 2".
        rows: a row a line, with the columns that its `Measure`s name; `ours`, `printed`: whether a
            run, or the paper, has the line; `section`: the line above a section; `<key>_unread`:
            whether a print is unreadable.
        labels: columns of the rows that name a line -> their heads.
        measures: the numbers: all of ours where any line is ours, likewise the paper's.
        csv: columns of the CSV -> those of the rows.
        notes: sentences below the table.
        sections, once: see `View`.
        legend: the meaning of signs, in LaTeX.
        digits: decimals of numbers in the CSV; None: all.
    """

    name: str
    title: str
    caption: str
    rows: pd.DataFrame
    labels: Mapping[str, str]
    measures: Sequence[Measure]
    csv: Mapping[str, str]
    notes: Sequence[str]
    sections: Sequence[str]
    once: Sequence[str] = ()
    legend: str = ""
    digits: int | None = 6

    @property
    def has_ours(self) -> bool:
        return bool(self.rows["ours"].any())

    @cached_property
    def table(self) -> Table:
        columns = []
        shown = self.rows.copy()
        both = self.has_ours and self.rows["printed"].any()
        for measure in self.measures if self.has_ours else ():
            if measure.ours:
                column = Col(
                    measure.head,
                    measure.key,
                    measure.form,
                    measure.ends or measure.form,
                    signs=f"{measure.key}_signs",
                    group=OURS if both else "",
                )
                columns.append(column)
        for measure in self.measures if self.rows["printed"].any() else ():
            if measure.paper:
                printed = f"{measure.key}_published"
                cells = f"{measure.key}_shown"
                shown[cells] = shown[printed].map(measure.form)
                if f"{measure.key}_unread" in shown:
                    shown[cells] = shown[cells].mask(
                        shown[f"{measure.key}_unread"].eq(True), UNREADABLE
                    )
                columns.append(Col(measure.head, cells, signs=f"{printed}_signs", group=PAPER))
        heads = [Col(head, key, left=True) for key, head in self.labels.items()]
        view = View(
            self.name,
            "",
            lambda rows: rows,
            [*heads, *columns],
            title=self.title,
            sections=self.sections,
            section="{section}" if "section" in shown else "",
            once=self.once,
        )
        return view.tables(shown)[0]

    @property
    def text(self) -> str:
        rest = self.caption.removeprefix(self.title)
        head = f"**{self.title}{'.' if rest == self.caption else ''}** {rest.lstrip()}"
        return to_markdown(self.table, head, self.notes)

    @property
    def files(self) -> dict[str, str]:
        """File name -> content: as CSV and as LaTeX."""
        plain = self.rows.assign(table=self.title)[list(self.csv.values())]
        plain = plain if self.digits is None else plain.round(self.digits)
        cells = plain.astype(object).where(plain.notna(), None).itertuples(index=False, name=None)
        latex = to_latex(self.table, " ".join([self.caption, *self.notes]), self.legend)
        return {f"{self.name}.csv": as_csv(list(self.csv), cells), f"{self.name}.tex": latex}


@cache
def published(name: str) -> pd.DataFrame:
    """A file of `published/`, its comments left out; `judge_key` names the judge as `judge_key`
    does, where there is one. Do not change the frame: it is shared."""
    frame = pd.read_csv(FOLDER / name, comment="#")
    if "judge" in frame:
        frame["judge_key"] = frame["judge"].map(judge_key)
    elif "main" in frame:
        pairs = zip(frame["main"], frame["assistant"].fillna(""), strict=True)
        frame["judge_key"] = [judge_key(*pair) for pair in pairs]
    return frame


def per_cent(value: Any) -> str:
    return UNKNOWN if value is None or pd.isna(value) else f"{round(value)} %"


def grouped(rows: pd.DataFrame, by: str | list[str]) -> Iterable[tuple[Any, pd.DataFrame]]:
    """The values of one or several columns, each with its rows, in order of appearance."""
    return rows.groupby(by, sort=False)


def sizes(rows: pd.DataFrame, count: str, end: str = "") -> list[str]:
    """A note a data set of ours: its split, and how many texts (`count`, a column) and groups."""
    notes = []
    for (dataset, split, word), part in grouped(rows, ["dataset", "split", "word"]):
        texts = f"{span(part[count])} texts of {span(part['groups'])} {word}"
        notes.append(f"Ours: {dataset}, {split} split, {texts}{end}.")
    return notes


CONTRASTIVE = "contrastive"
"""The decoding that stands in the paper's rows, where a run has several that contrast."""
PREFERRED = {"argmax": "greedy", "expectation": "expectation"}
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


def judges_of(run: Results) -> dict[str, tuple[str, str]]:
    """Role (`main`; `assistant` and `pair` where there is one) -> key and name in tables, small
    models before large ones, as the papers print them: a pair by the models' sizes, or the layer of
    an early exit."""
    main = run.titles.get("main") or "main"
    assistant = run.titles.get("assistant")
    # files that are called alike
    if assistant is not None and model_key(assistant) == model_key(main):
        main = f"{main} (main)"
        assistant = f"{assistant} (assistant)"
    of_main = (judge_key(main), shorten(main, 30))
    if assistant is None:
        return {"main": of_main}
    return {
        "assistant": (judge_key(assistant), shorten(assistant, 30)),
        "main": of_main,
        "pair": (judge_key(main, assistant), f"Contrastive ({_size(main)}-{_size(assistant)})"),
    }


def _size(name: str) -> str:
    """A model's size, or the layer of an early exit, else its name."""
    layer = _EXIT.fullmatch(name)
    if layer:
        return layer[1]
    numbers = _SIZE.findall(name)
    return numbers[-1] if numbers else shorten(name, 14)


def decoding_of(records: Iterable[Row], judge: str, rule: str) -> str | None:
    """The one of a judge's decodings by a rule that stands in its rows; None where it has none."""
    # of a score without a rule, as of an answer in words, the paper's is meant
    same = [
        record
        for record in records
        if record["judge"] == judge and (record.get("rule") or "argmax") == rule
    ]
    names = [record["decoding"] for record in same]
    preferred = CONTRASTIVE if judge == "pair" else PREFERRED[rule]
    return preferred if preferred in names else next(iter(names), None)
