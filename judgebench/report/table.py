"""Tables as values: a `View` declares one over rows of the results; every renderer writes the
`Table` it makes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from string import Formatter
from typing import Any

import pandas as pd

from judgebench.results.results import labelled
from judgebench.stats.clusters import ENDS, FEWEST, Estimate
from judgebench.types import Key, Record, Row, Rows, by_key
from judgebench.words.formats import FORMATS, Format, interval, is_known, no_text, say, text


@dataclass(frozen=True)
class TableCell:
    """One cell: its number or words, a 95 % interval, whether it is emphasized, smaller words below
    such as the setting of a decoding, warnings, signs behind the number such as "!", and its color
    in a terminal."""

    text: str
    interval: str = ""
    marked: bool = False
    detail: str = ""
    flags: tuple[str, ...] = ()
    signs: str = ""
    color: str = ""

    def __str__(self) -> str:
        return " ".join(
            filter(None, (f"{self.text}{self.signs}", self.interval, self.detail, *self.flags))
        )


@dataclass(frozen=True)
class Col:
    """One column of a view: where its cells come from in a row, and how they are written.

    Attributes:
        title: its head.
        key: the row's key, the title where it is left out; of a record in the row behind a dot, as
            in "humans.mae"; or a text of several keys such as "{misses:.0f} of {humans.all:two}",
            by a format of Python or of `words.formats`, which is unknown where one of them is; or a
            function of the row.
        form: the format of its values; ends: that of its interval, which is part of an `Estimate`,
            or stands at `<key>_low` and `<key>_high`.
        marked: key of a bool, or a function of the row: whether the cell is emphasized.
        detail, flags, signs: the source of smaller words below, as of values; keys of a list of
            warnings, and of signs behind the number.
        group: a head that adjacent columns share.
        left: whether it is set to the left, as words are.
        page: whether only pages and files show it, for a terminal is narrow.
        optional: whether it is left out where no row has a value.
        width: how many columns of a terminal it takes at most; 0: any number.
        colors: words of its cells -> their color in a terminal.
        says: the meaning of its numbers, a clause without a full stop: in the note below the table,
            and on a page also where a reader points at its head. It may name `{groups}` and
            `{examples}`.
    """

    title: str
    key: str | Callable[[Row], Any] = ""
    form: Format = text
    ends: Format | None = None
    marked: str | Callable[[Row], bool] = ""
    detail: str | Callable[[Row], Any] = ""
    flags: str = ""
    signs: str = ""
    group: str = ""
    left: bool = False
    page: bool = False
    optional: bool = False
    width: int = 0
    colors: Mapping[str, str] = field(default_factory=dict)
    says: str = ""

    @property
    def source(self) -> str | Callable[[Row], Any]:
        """The place of its values: the key, or the title."""
        return self.key or self.title

    def cell(self, row: Row) -> TableCell:
        """The cell of a row."""
        value, low, high = self.estimate(row)
        words = self.form(value)
        return TableCell(
            text=words,
            interval=interval(low, high, self.ends) if self.ends else "",
            marked=bool(_found(self.marked, row)),
            detail=text(_found(self.detail, row)),
            flags=tuple(row.get(self.flags) or ()),
            signs=text(row.get(self.signs)),
            color=self.colors.get(words, ""),
        )

    def estimate(self, row: Row) -> Estimate:
        """The value of a row and the ends of its interval, each None where it is unknown."""
        value = _found(self.source, row)
        if isinstance(value, Estimate):
            return value
        if callable(self.source) or "{" in self.source:
            return Estimate(value)
        return Estimate(value, *(_value_of(row, f"{self.source}{end}") for end in ENDS[1:]))

    def has_value(self, row: Row) -> bool:
        """True where a row has a number, or an interval, for this column."""
        value, low, _ = self.estimate(row)
        return is_known(low if self.ends and self.form is no_text else value)


@dataclass(frozen=True)
class TableSection:
    """Rows that belong together, perhaps under a line of their own; `notes` go below single
    rows."""

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
        columns: whose cells the sections hold.
        size: on how much it rests.
        meanings: what its columns' numbers are, a sentence each, which a page has in its legend;
            empty where it stands above another table.
        note: what else must be known of them; empty likewise.
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
    meanings: str = ""

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
    """A sentence or several; small, about what stands above, as a `note`; with the name of a flag
    in front as a `warning`; with the address of its `examples` on the page."""

    text: str
    note: bool = False
    warning: str = ""
    examples: str = ""


@dataclass(frozen=True)
class Facts:
    """Terms, each with what is known of it: one or several sentences."""

    rows: Sequence[tuple[str, Sequence[str]]]


@dataclass(frozen=True)
class Details:
    """A part that a page shows only when asked, under a line that says what it answers: a text to
    the letter, or what is written already."""

    title: str
    content: Any


Block = Table | Heading | Paragraph | Facts | Details
"""What parts of a report are made of."""

Note = str | Callable[[Any, Any], str]
"""A note, the name of its template (sentences/*.txt), or a function of results and the view's
rows."""


@dataclass(frozen=True)
class View:
    """The declaration of a table: rows of the results, split into tables and sections, and its
    columns.

    Attributes:
        name: of the table, as files call it.
        heading: of the part of a page that it stands in.
        frame: results -> rows, or a frame of them, in the order in which they are shown; empty: no
            table.
        columns: see `Col`.
        by: keys by whose values the rows are split into tables; title: of each, filled with its
            first row; the first of `by` where there is none.
        size: on how much each rests, filled likewise; it may name `{groups_word}` and
            `{examples_word}`.
        sections: keys by whose values a table's rows are split; section: the line above each,
            filled with its first row; empty: no line.
        once: keys of columns that show a value only where it changes within a section.
        below: key of a text below a row.
        note: what its columns do not say themselves (`Col.says`), below the last table; with
            `brackets`, the subject of its intervals, a warning where groups are few, and each text
            of `reasons`, keys of reasons for what is missing.
        marks: the meaning of emphasized cells.
        folded: whether a page shows the tables only when asked.
    """

    name: str
    heading: str
    frame: Callable[[Any], Any]
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
        """The heading and the tables; nothing where there are no rows."""
        tables = self.tables(results)
        return [Heading(self.heading), *tables] if tables else []

    def tables(self, results: Any) -> list[Table]:
        """The tables of some results; none where there are no rows."""
        rows = records(self.frame(results))
        if not rows:
            return []
        words = {
            "groups": getattr(results, "groups", "groups"),
            "examples": getattr(results, "examples_word", "texts"),
        }
        columns = [replace(column, says=column.says.format(**words)) for column in self.columns]
        *tables, last = (self._table(part, columns, words) for part in rows_by(rows, self.by))
        every = [*tables, last]
        bounded = any(cell.interval for table in every for cell in table.cells)
        return [
            *tables,
            replace(
                last,
                note=" ".join(filter(None, self._notes(results, rows, words, bounded))),
                marks=self.marks if any(table.is_marked for table in every) else "",
                meanings=" ".join(f"{head}: {clause}." for head, clause in meanings(every).items()),
            ),
        ]

    def _notes(
        self, results: Any, rows: Rows, words: Mapping[str, str], bounded: bool
    ) -> Iterable[Any]:
        """The view's note; intervals, where cells are `bounded`; reasons, each once."""
        if callable(self.note):
            yield self.note(results, rows)
        elif self.note.endswith(".txt"):
            yield say(self.note.removesuffix(".txt"), results=results, rows=rows)
        else:
            yield self.note.format(**words)
        if self.brackets and bounded:
            yield f"In brackets: 95 % interval, {self.brackets.format(**words)}."
            count = next((name for name in ("groups", "articles") if name in rows[0]), "")
            if (
                min((row[count] for row in rows if is_known(row.get(count))), default=FEWEST)
                < FEWEST
            ):
                yield f"Fewer than {FEWEST} {words['groups']}: the intervals are too narrow."
        yield from dict.fromkeys(_value_of(row, key) for key in self.reasons for row in rows)

    def _table(self, rows: Rows, columns: Sequence[Col], words: Mapping[str, str]) -> Table:
        shown = [one for one in columns if not one.optional or any(map(one.has_value, rows))]
        sections = []
        for part in rows_by(rows, self.sections):
            cells = []
            above: Row = {}
            for row in part:
                same = {key for key in self.once if above and above[key] == row[key]}
                cells.append(
                    [TableCell("") if one.source in same else one.cell(row) for one in shown]
                )
                above = row
            notes = [text(row.get(self.below)) for row in part] if self.below else ()
            sections.append(TableSection(cells, self.section.format(**part[0]), notes))
        facts = {f"{name}_word": word for name, word in words.items()} | rows[0]
        title = self.title or "".join(f"{{{key}}}" for key in self.by[:1])
        return Table(
            self.name,
            self.heading,
            title.format(**facts),
            shown,
            sections,
            self.size.format(**facts),
            folded=self.folded.format(**facts),
        )


def meanings(tables: Iterable[Table]) -> dict[str, str]:
    """Head of a column -> what its numbers are, of all tables; several where they differ."""
    said: dict[str, dict[str, None]] = {}
    for table in tables:
        for column in table.columns:
            head = column.title
            if head[:2].isalpha() and head != "p":
                head = f"{head[:1].upper()}{head[1:]}"
            if column.says:
                said.setdefault(head, {})[column.says] = None
    return {head: "; or ".join(says) for head, says in said.items()}


def filled(line: str, row: Row) -> str | None:
    """A line with a row's values in its places; None where one of them is unknown.

    Example:
        >>> filled("{low} to {high:two}", {"low": 1, "high": 5}), filled("{low} to {high}", {"low": 1})
        ('1 to 5.00', None)
    """
    names = [name for _, name, _, _ in Formatter().parse(line) if name]
    known = all(is_known(_value_of(row, name)) for name in names)
    return _Places().vformat(line, (), row) if known else None


class _Places(Formatter):
    """Places of a line: a path as columns have, and a format of `FORMATS` or of Python."""

    def get_field(self, field_name: str, args: Any, kwargs: Row) -> tuple[Any, str]:
        return _value_of(kwargs, field_name), field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        form = FORMATS.get(format_spec)
        return form(value) if form else super().format_field(value, format_spec)


def _found(source: str | Callable[[Row], Any], row: Row) -> Any:
    """The value of a row that a column names: by a key, a line of several, or a function."""
    if callable(source):
        return source(row)
    return filled(source, row) if "{" in source else _value_of(row, source)


def _value_of(row: Row, key: str) -> Any:
    """The value that a key leads to, in the row or in a record of it; None where there is none."""
    part, _, name = key.rpartition(".")
    record: Row = (row.get(part) or {}) if part else row
    return record.get(name)


# --- rows ---------------------------------------------------------------------------------------


def records(rows: Any) -> Rows:
    """Rows, or those of a frame, with None for what is unknown."""
    rows = rows.to_dict("records") if isinstance(rows, pd.DataFrame) else rows
    return [
        {
            str(name): None if isinstance(value, float) and value != value else value
            for name, value in row.items()
        }
        for row in rows
    ]


def labelled_rows(given: Iterable[Row]) -> Rows:
    """Records with labels as by `labelled`, with None for what is unknown."""
    rows = labelled(given)
    names = dict.fromkeys(chain.from_iterable(rows))
    return records(names | row for row in rows)


def rows_by(rows: Iterable[Record], keys: Sequence[str]) -> list[Rows]:
    """Rows by their values of `keys`, in order of appearance."""
    return list(by_key(rows, lambda row: values(row, keys)).values())


def values(row: Row, keys: Iterable[str]) -> Key:
    """A row's values of `keys`, None where it lacks one."""
    return tuple(map(row.get, keys))


def with_records(rows: Iterable[Row], keys: Sequence[str], **others: Iterable[Row]) -> Rows:
    """The rows, each with the record of every other table that has the same values of `keys`, by
    the table's name; an empty one where it has none.

    Example:
        >>> with_records([{"range": "1-5"}], ["range"], raw=[{"range": "1-5", "mae": 0.5}], fitted=[])
        [{'range': '1-5', 'raw': {'range': '1-5', 'mae': 0.5}, 'fitted': {}}]
    """
    found = {
        name: {values(record, keys): record for record in table} for name, table in others.items()
    }
    return [
        {**row, **{name: of.get(values(row, keys), {}) for name, of in found.items()}}
        for row in rows
    ]


def mean_of(rows: Rows, name: str) -> float | None:
    """The mean of a figure over rows; None where one of them does not know it."""
    known = [row[name] for row in rows if is_known(row.get(name))]
    return sum(known) / len(known) if len(known) == len(rows) else None


def excludes_zero(row: Row, name: str = "change") -> bool:
    """True where the interval of a number is known and leaves out 0."""
    low = row.get(f"{name}_low")
    high = row.get(f"{name}_high")
    return low is not None and high is not None and (low > 0 or high < 0)
