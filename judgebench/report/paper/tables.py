"""A paper's table, published figures with ours; and the judges of runs as the papers' tables know
them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from judgebench.report.figures.style import shorten
from judgebench.report.render import to_latex, to_markdown
from judgebench.report.table import Col, Table, View, rows_by
from judgebench.results.results import Results
from judgebench.runtime.files import as_csv
from judgebench.types import Row, Rows
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


def _same(rows: pd.DataFrame) -> pd.DataFrame:
    return rows


@dataclass(frozen=True)
class Declared:
    """A table as it is declared: which cells of runs stand in it, beside which print.

    Attributes:
        name: that of its files, without an ending; title: such as "Table 2".
        labels: columns of the rows that name a line -> their heads.
        measures: the numbers: all of ours where any line is ours, likewise the paper's.
        csv: columns of the CSV -> those of the rows.
        sections, once: see `View`.
        keys: columns by which a cell of ours and one of the print are the same.
        select: those of the cells that stand in the table.
        lines: the selected cells with the columns of `measures` and `labels`.
        printed: the print beside the selected cells, its figures as `<key>_published`.
        ours_first: whether ours give order and labels where the print has the same cells.
        all_ours: whether cells stand in it that the print does not have.
        finish: the columns that follow from both, and another order.
        notes: sentences on the selected cells; legend: the meaning of signs in rows, in LaTeX.
        resampled: how intervals were found, where that is told.
        alone: whether the print is shown without cells of ours.
        digits: decimals of numbers in the CSV; None: all.
    """

    name: str
    title: str
    caption: str
    labels: Mapping[str, str]
    measures: Sequence[Measure]
    csv: Mapping[str, str]
    sections: Sequence[str]
    keys: Sequence[str]
    printed: Callable[[pd.DataFrame], pd.DataFrame]
    notes: Callable[[pd.DataFrame], list[str]]
    select: Callable[[pd.DataFrame], pd.DataFrame] = _same
    lines: Callable[[pd.DataFrame], pd.DataFrame] = _same
    finish: Callable[[pd.DataFrame], pd.DataFrame] = _same
    legend: Callable[[pd.DataFrame], str] = lambda rows: ""
    once: Sequence[str] = ()
    ours_first: bool = False
    all_ours: bool = True
    resampled: str = ""
    alone: bool = False
    digits: int | None = 6


@dataclass(frozen=True)
class PaperTable:
    """A declared table, filled.

    Attributes:
        rows: a row a line, with the columns that its `Measure`s name; `ours`, `printed`: whether a
            run, or the paper, has the line; `section`: the line above a section; `<key>_unread`:
            whether a print is unreadable.
        notes: sentences below the table.
    """

    declared: Declared
    rows: pd.DataFrame
    notes: Sequence[str]

    @property
    def name(self) -> str:
        return self.declared.name

    @property
    def has_ours(self) -> bool:
        return bool(self.rows["ours"].any())

    @cached_property
    def table(self) -> Table:
        columns = []
        shown = self.rows.copy()
        both = self.has_ours and self.rows["printed"].any()
        for measure in self.declared.measures if self.has_ours else ():
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
        for measure in self.declared.measures if self.rows["printed"].any() else ():
            if measure.paper:
                printed = f"{measure.key}_published"
                cells = f"{measure.key}_shown"
                shown[cells] = shown[printed].map(measure.form)
                if f"{measure.key}_unread" in shown:
                    shown[cells] = shown[cells].mask(
                        shown[f"{measure.key}_unread"].eq(True), UNREADABLE
                    )
                columns.append(Col(measure.head, cells, signs=f"{printed}_signs", group=PAPER))
        heads = [Col(head, key, left=True) for key, head in self.declared.labels.items()]
        view = View(
            self.name,
            "",
            lambda rows: rows,
            [*heads, *columns],
            title=self.declared.title,
            sections=self.declared.sections,
            section="{section}" if "section" in shown else "",
            once=self.declared.once,
        )
        return view.tables(shown)[0]

    @property
    def text(self) -> str:
        head = f"**{self.declared.title}.** {self.declared.caption}"
        return to_markdown(self.table, head, self.notes)

    @property
    def files(self) -> dict[str, str]:
        """File name -> content: as CSV and as LaTeX."""
        plain = self.rows.assign(table=self.declared.title)[list(self.declared.csv.values())]
        plain = plain if self.declared.digits is None else plain.round(self.declared.digits)
        cells = plain.astype(object).where(plain.notna(), None).itertuples(index=False, name=None)
        latex = to_latex(
            self.table,
            " ".join([self.declared.caption, *self.notes]),
            self.declared.legend(self.rows),
        )
        return {
            f"{self.name}.csv": as_csv(list(self.declared.csv), cells),
            f"{self.name}.tex": latex,
        }


def fill_table(declared: Declared, cells: pd.DataFrame) -> PaperTable | None:
    """The table of the cells and the print; None where it needs cells and has none."""
    # 1. ours, and the print beside them; `ours` and `printed` are first the places in both
    selected = declared.select(cells)
    if not len(selected) and not declared.alone:
        return None
    ours = declared.lines(selected)
    ours = ours[ours[declared.measures[0].key].notna()]
    printed = declared.printed(selected)
    rows = printed.assign(printed=range(len(printed))).merge(
        ours.assign(ours=range(len(ours))),
        how="outer" if declared.all_ours else "left",
        on=list(declared.keys),
        suffixes=("_printed", ""),
    )
    # 2. labels and order, of what both have the first's
    for name in declared.labels:
        if f"{name}_printed" in rows:
            both = [rows[f"{name}_printed"], rows[name]]
            first, second = both[::-1] if declared.ours_first else both
            rows[name] = first.fillna(second)
    rows = rows.sort_values(
        ["ours", "printed"] if declared.ours_first else ["printed", "ours"], ignore_index=True
    )
    rows = rows.assign(ours=rows["ours"].notna(), printed=rows["printed"].notna())
    rows = declared.finish(rows)
    columns = [name for name in declared.csv.values() if name != "table"]
    rows = rows.reindex(columns=list(dict.fromkeys([*rows, *columns])))
    # 3. the words
    notes = declared.notes(selected)
    lows = [f"{measure.key}_low" for measure in declared.measures]
    if rows[rows.columns.intersection(lows)].notna().any(axis=None):
        notes = [f"In brackets: 95 % interval{declared.resampled}.", *notes]
    return PaperTable(declared, rows, notes)


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


def counted(run: Results, records: Iterable[Row], rules: Sequence[str]) -> Rows:
    """The records that stand in a paper's rows: of each judge and defense those of one decoding, by
    the first of the rules that it has one of; with `judge_key`, `label` and `word` (for groups)."""
    judges = judges_of(run)
    cells: Rows = []
    for part in rows_by(map(dict, records), ["judge", "defense"]):
        role = part[0]["judge"]
        decodings = filter(None, (_decoding_of(part, role, rule) for rule in rules))
        decoding = next(decodings, None)
        judge, label = judges.get(role, ("", ""))
        about = {"judge_key": judge, "label": label, "word": run.groups}
        cells += [row | about for row in part if judge and row["decoding"] == decoding]
    return cells


def _decoding_of(records: Rows, judge: str, rule: str) -> str | None:
    """The one of a judge's decodings by a rule that stands in its rows; None where it has none."""
    # of a score without a rule, as of an answer in words, the paper's is meant
    names = [row["decoding"] for row in records if (row.get("rule") or "argmax") == rule]
    preferred = CONTRASTIVE if judge == "pair" else PREFERRED[rule]
    return preferred if preferred in names else next(iter(names), None)
