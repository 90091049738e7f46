"""Tables as values: a `View` declares one over a frame of the results; every renderer writes the `Table` it makes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from judgebench.report.formats import Format, interval, is_known, no_text, text
from judgebench.stats.clusters import FEWEST


@dataclass(frozen=True)
class TableCell:
    """One cell.

    Attributes:
        text: its number or words.
        interval: a 95 % interval beside the number.
        marked: whether it is emphasized, see `Table.marks`.
        detail: smaller words below, such as the setting of a decoding.
        flags: warnings.
        signs: characters behind the number whose meaning a note tells, such as "!".
    """

    text: str
    interval: str = ""
    marked: bool = False
    detail: str = ""
    flags: tuple[str, ...] = ()
    signs: str = ""

    def __str__(self) -> str:
        parts = (f"{self.text}{self.signs}", self.interval, self.detail, *self.flags)
        return " ".join(part for part in parts if part)


@dataclass(frozen=True)
class Col:
    """One column of a view: where its cells come from in a row, and how they are written.

    Attributes:
        title: its head.
        key: the row's key.
        form: the format of its values; ends: that of its interval, which stands at `<key>_low` and `<key>_high`, or
            of another interval at `<interval>_low`.
        marked: key of a bool: whether the cell is emphasized.
        detail, flags, signs: keys of smaller words below, of a list of warnings, and of signs behind the number.
        group: a head that adjacent columns share.
        left: whether it is set to the left, as words are.
        page: whether only pages and files show it, for a terminal is narrow.
        optional: whether it is left out where no row has a value.
        width: how many columns of a terminal it takes at most; 0: any number.
        says: the meaning of its numbers, a clause without a full stop: in the note below the table, and on a page also
            where a reader points at its head. It may name `{groups}` and `{examples}`.
    """

    title: str
    key: str
    form: Format = text
    ends: Format | None = None
    interval: str = ""
    marked: str = ""
    detail: str = ""
    flags: str = ""
    signs: str = ""
    group: str = ""
    left: bool = False
    page: bool = False
    optional: bool = False
    width: int = 0
    says: str = ""

    def cell(self, row: Any) -> TableCell:
        """The cell of a row, a mapping."""
        ends = ""
        if self.ends is not None:
            name = self.interval or self.key
            ends = interval(row.get(f"{name}_low"), row.get(f"{name}_high"), self.ends)
        return TableCell(
            self.form(row.get(self.key)),
            ends,
            bool(self.marked and is_known(row.get(self.marked)) and row[self.marked]),
            text(row.get(self.detail)) if self.detail else "",
            tuple(row.get(self.flags) or ()) if self.flags else (),
            text(row.get(self.signs)) if self.signs else "",
        )


@dataclass(frozen=True)
class TableSection:
    """Rows that belong together, perhaps under a line of their own; `notes` go below single rows."""

    rows: Sequence[Sequence[TableCell]]
    title: str = ""
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Table:
    """A table as it stands on a page, in a terminal, in a file.

    Attributes:
        name: of the view, as files call it.
        heading: its subject, such as "Attacks".
        title: what it is about, such as a dimension; empty where there is one table.
        size: on how much it rests.
        columns: whose cells the sections hold.
        note: the meaning of its numbers; empty where another table tells it.
        marks: the meaning of emphasized cells; empty where there are none.
        folded: whether a page shows it only when asked, under this line; empty: always.
    """

    name: str
    heading: str
    title: str
    columns: Sequence[Col]
    sections: Sequence[TableSection]
    size: str = ""
    note: str = ""
    marks: str = ""
    folded: str = ""

    @property
    def heads(self) -> list[str]:
        """The columns' titles."""
        return [column.title for column in self.columns]

    @property
    def cells(self) -> list[TableCell]:
        """All cells, row by row."""
        return [cell for section in self.sections for row in section.rows for cell in row]

    @property
    def is_marked(self) -> bool:
        """True if any cell is emphasized."""
        return any(cell.marked for cell in self.cells)


@dataclass(frozen=True)
class Heading:
    """The heading of a part of a page; a terminal's tables say it themselves."""

    text: str


@dataclass(frozen=True)
class Paragraph:
    """A sentence or several.

    Attributes:
        note: whether it is small, about what stands above.
        warning: the name of a flag in front.
        examples: address of its examples on the page; empty where there are none.
    """

    text: str
    note: bool = False
    warning: str = ""
    examples: str = ""


@dataclass(frozen=True)
class Facts:
    """Terms, each with what is known of it: one or several sentences; or questions, each with its answers."""

    rows: Sequence[tuple[str, Sequence[str]]]
    answers: bool = False


@dataclass(frozen=True)
class Folded:
    """A part that a page shows only when asked, under a line: blocks, or a text to the letter."""

    title: str
    content: Sequence[Facts] | str


Block = Table | Heading | Paragraph | Facts | Folded
"""What parts of a report are made of."""

Note = str | Callable[[Any, pd.DataFrame], str]
"""A note, or what makes it of results and the view's frame."""


@dataclass(frozen=True)
class View:
    """The declaration of a table: a frame of the results, split into tables and sections, and its columns.

    Attributes:
        name: of the table, as files call it.
        heading: of the part of a page that it stands in.
        frame: results -> rows, in the order in which they are shown; empty: no table.
        columns: see `Col`.
        by: keys by whose values the rows are split into tables; title: of each, filled with its first row.
        size: on how much each rests, filled likewise.
        sections: keys by whose values a table's rows are split; section: the line above each, filled with its first
            row; empty: no line.
        once: keys of columns that show a value only where it changes within a section.
        below: key of a text below a row.
        note: what its columns do not say themselves (`Col.says`), below the last table; with `brackets`, the subject of
            its intervals, a warning where groups are few, and each text of `reasons`, keys of reasons for what is
            missing.
        marks: the meaning of emphasized cells.
        folded: whether a page shows the tables only when asked.
    """

    name: str
    heading: str
    frame: Callable[[Any], pd.DataFrame]
    columns: Sequence[Col]
    by: Sequence[str] = ()
    title: str = ""
    size: str = ""
    sections: Sequence[str] = ()
    section: str = ""
    once: Sequence[str] = ()
    below: str = ""
    note: Note = ""
    brackets: str = ""
    reasons: Sequence[str] = ()
    marks: str = ""
    folded: str = ""

    def __call__(self, results: Any) -> list[Block]:
        """The heading and the tables; nothing where the frame is empty."""
        tables = self.tables(results)
        return [Heading(self.heading), *tables] if tables else []

    def tables(self, results: Any) -> list[Table]:
        """The tables of some results; none where the frame is empty."""
        frame = self.frame(results)
        if not len(frame):
            return []
        words = {"groups": getattr(results, "groups", "groups"), "examples": getattr(results, "examples_word", "texts")}
        columns = [replace(column, says=column.says.format(**words)) for column in self.columns]
        made = [self._table(rows, columns) for rows in _grouped(records(frame), self.by)]
        # The note: meanings of the columns shown, each once; what else the view says; intervals; reasons.
        shown = dict.fromkeys((column.title, column.says) for table in made for column in table.columns if column.says)
        heads = [title[:1].upper() + title[1:] if title[:2].isalpha() and title != "p" else title for title, _ in shown]
        notes = [f"{head}: {says}." for head, (_, says) in zip(heads, shown, strict=True)]
        notes.append(self.note.format(**words) if isinstance(self.note, str) else self.note(results, frame))
        if self.brackets and any(cell.interval for table in made for cell in table.cells):
            notes.append(f"In brackets: 95 % interval, {self.brackets.format(**words)}.")
            few = next((frame[name].min() < FEWEST for name in ("groups", "articles") if name in frame), False)
            notes += [f"Fewer than {FEWEST} {words['groups']}: the intervals are too narrow."] if few else []
        notes += dict.fromkeys(str(one) for key in self.reasons if key in frame for one in frame[key] if is_known(one))
        marks = self.marks if any(table.is_marked for table in made) else ""
        return [*made[:-1], replace(made[-1], note=" ".join(filter(None, notes)), marks=marks)]

    def _table(self, rows: list[dict[str, Any]], columns: Sequence[Col]) -> Table:
        columns = [column for column in columns if not column.optional or _has(rows, column)]
        return Table(
            self.name,
            self.heading,
            self.title.format(**rows[0]),
            columns,
            [self._section(part, columns) for part in _grouped(rows, self.sections)],
            self.size.format(**rows[0]),
            folded=self.folded.format(**rows[0]),
        )

    def _section(self, rows: list[dict[str, Any]], columns: Sequence[Col]) -> TableSection:
        cells, shown = [], dict.fromkeys(self.once)
        for row in rows:
            line = []
            for column in columns:
                repeats = column.key in shown and shown[column.key] == (row[column.key],)
                line.append(TableCell("") if repeats else column.cell(row))
            shown = {key: (row[key],) for key in self.once}
            cells.append(line)
        notes = [text(row.get(self.below)) for row in rows] if self.below else ()
        return TableSection(cells, self.section.format(**rows[0]) if self.section else "", notes)


def few_groups(groups: str) -> str:
    """The warning of intervals that rest on fewer than `FEWEST` groups."""
    return f"Fewer than {FEWEST} {groups}: the intervals are too narrow, and no difference is called significant."


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a frame as mappings, unknown values None."""
    return [
        {str(name): value if is_known(value) else None for name, value in row.items()}
        for row in frame.to_dict("records")
    ]


def _grouped(rows: list[dict[str, Any]], keys: Sequence[str]) -> list[list[dict[str, Any]]]:
    """Rows by their values of `keys`, in order of appearance."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return list(groups.values())


def _has(rows: Iterable[dict[str, Any]], column: Col) -> bool:
    if column.ends is not None and column.form is no_text:
        return any(is_known(row.get(f"{column.interval or column.key}_low")) for row in rows)
    return any(is_known(row.get(column.key)) for row in rows)
