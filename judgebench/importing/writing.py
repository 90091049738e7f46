"""Data of judgebench, answers of the judge, and the command that measures it, written from rows of
another tool's results."""

from __future__ import annotations

import filecmp
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TextIO

from judgebench.data.fields import plain_name
from judgebench.data.rows import FileRow, by_rater, in_words
from judgebench.importing.columns import (
    ROLES,
    Columns,
    LabelRange,
    check_told_apart,
    columns_held,
    dimension_of,
    final_words,
    inside,
    is_label,
    judge_clause,
    judge_range,
    label_range,
    numbers_in,
    people_clause,
    singly,
    table_columns,
    taken_lines,
)
from judgebench.importing.names import MORE
from judgebench.importing.preferences import pairs_of
from judgebench.importing.results import read_results
from judgebench.importing.sample import telling_rows
from judgebench.runtime.files import Input, check_outputs, writing
from judgebench.runtime.log import StepLogger
from judgebench.runtime.values import as_word, command_of, names_in, quoted, written
from judgebench.runtime.workbook import sheet_lines
from judgebench.types import Row
from judgebench.words.errors import UserError, shown

log = StepLogger(__name__)

_UNLABELLED = (
    "Nobody has labelled a text yet. The first command makes a page for that, which saves "
    "labels_NAME.jsonl, NAME being who labelled:"
)


def write_results(files: Sequence[Path], folder: Path, given: Mapping[str, str]) -> list[str]:
    """Writes the data, the judge's answers and the command of result files into a folder; lines for
    people.

    Args:
        given: word of the command line -> column, or value.
    """
    name = " with ".join(file.name for file in files)
    results = read_results(files, given.get("sheet"))
    sample, count = telling_rows(results.rows)
    rows = results.rows
    roles = {role: column for role, column in given.items() if role in ROLES}
    pairs = pairs_of(columns_held(sample), roles)
    if pairs:
        sample = [pairs.joined(row) for row in sample]
        rows = map(pairs.joined, rows)
        roles["output"] = pairs.output
        given = {"dimension": "preference", "ranges": f"[[{','.join(pairs.classes)}]]", **given}
    named = given.get("ranges")
    columns = table_columns(name, sample, roles, "human" if pairs else "")
    asked = given.get("dimension", given.get("dimensions", "")).strip("[]").split(",")
    objects = inside([row.value(column) for row in sample for column in columns.human], asked)
    dimension = "" if objects.dimensions else asked[0] or dimension_of(columns.human)
    data, answered, command = outputs = [folder / file for file in _FILES]
    inputs = [Input(str(file), file) for file in files]
    check_outputs([(f"out={folder}", path) for path in outputs], inputs)
    with _whole(folder) as opened:
        # 1. texts and answers, as they are read
        texts = _Lines(opened(data.name))
        answers = _Lines(opened(answered.name) if columns.judge is not None else None)
        _write_texts(name, rows, columns, dimension, texts, answers)
        # 2. the range of the answers
        human, ranges, judged = _ranges(name, columns, texts, answers, named)
        # 3. the commands that measure the judge; where nobody has labelled a text, one before
        run = ["python", "-m", "judgebench", f"data.path={quoted(str(data))}"]
        run.append("data=jsonl" if columns.human else "labels=labels_NAME.jsonl")
        run += [f"data.fields.{field}={field}" for field in texts.named]
        run.append(f"data.name={quoted(files[0].stem)}")
        if human is not None and human.graded:
            run.append(f"data.scale={human}")
        elif named and (pairs or human is not None or _are_in(texts.labels, named)):
            run.append(f"data.classes={named[1:-1]}")
        commands = [] if columns.human else [_page(data, [*answers.labels], ranges, bool(pairs))]
        if columns.judge is None:
            commands += _open_commands(files, folder, given, columns, sample, run)
        else:
            run += ["judge=replay", f"judge.path={quoted(str(answered))}", f"ranges={ranges}"]
            commands.append(command_of([*run, f"judge.title={quoted(columns.judge)}"]))
            opened(command.name).write("".join(f"{each}\n" for each in commands))
    # 4. what was done, for people
    counts = count, name, texts.count, answers.count, folder
    log.info("Read %d rows of %s; wrote %d texts and %d answers to %s.", *counts)
    left = count - texts.count if columns.rater is None else 0
    unanswered = texts.count - answers.count if answers.count else 0
    made = [data, command, answered] if answers.count else [data]
    people = people_clause(columns, dimension or ", ".join(objects.dimensions), human, objects)
    notes = [*results.notes, *([] if "sheet" in given else sheet_lines(files[0]))]
    notes += [f"pairs: {pairs.says}"] if pairs else []
    return [
        f"{name}: {results.kind}. Texts: {texts.count:,}; answers of the judge: {answers.count:,}; "
        f"rows without a text, left out: {left:,}; texts without an answer: {unanswered:,}.",
        *(f"  {line}" for line in taken_lines(columns, people, judge_clause(columns, judged))),
        *(f"  {note}" for note in notes),
        f"Written: {', '.join(map(str, made))}",
        *([] if columns.human else [_UNLABELLED]),
        *commands,
    ]


def _ranges(
    name: str, columns: Columns, texts: _Lines, answers: _Lines, ranges: str | None
) -> tuple[LabelRange | None, str | None, str]:
    """The range of people's labels, where these say it whole; that of the judge's answers, which
    may be given (`ranges`); and words on the latter."""
    better = "" if ranges else "give 'ranges=[[WORST,BEST]]'"
    check_told_apart(name, columns, [*(texts.labels or answers.labels)], better)
    human = label_range([*texts.labels])
    if human is not None and not human.whole:
        human = None
    if answers.count and ranges is None:
        ends, how = judge_range(name, [*answers.labels], human)
        return human, written([list(ends)]), f"{written(list(ends))}{how}"
    judged = ranges or "none"
    if judged.count("[") == 2:  # one range, as every line shows it
        judged = judged[1:-1]
    return human, ranges, judged


def _are_in(labels: Iterable[Any], ranges: str | None) -> bool:
    """True of words, all of which the one range that is given puts into an order."""
    given = {name.casefold() for name in names_in(str(ranges)[1:-1])}
    return bool(labels) and all(str(label).casefold() in given for label in labels)


def _page(data: Path, answers: Sequence[Any], ranges: str | None, paired: bool) -> str:
    """The command of a page for labels, where people choose among the judge's own words."""
    page = ["judgebench", "label", str(data), "out=label.html"]
    words = label_range(answers) or label_range(final_words(answers))
    worded = words is not None and isinstance(words.entries[0], str)
    if ranges and (paired or worded):
        page.append(f"classes={ranges[1:-1]}")
    return command_of(page)


def _open_commands(
    files: Sequence[Path],
    folder: Path,
    given: Mapping[str, str],
    columns: Columns,
    sample: Sequence[FileRow],
    run: Sequence[str],
) -> list[str]:
    """Lines where no column is the judge's: which may be, and the commands with a word to fill
    in."""
    words = [f"{word}={value}" for word, value in given.items() if word != "judge"]
    likely = [] if "judge" in given else _likely_judges(columns, sample)
    lines = []
    if "judge" not in given:
        may_be = f", which may be {', '.join(map(as_word, likely))}" if likely else ""
        if likely == [columns.output]:
            words += ["output=COLUMN_OF_TEXTS"]
        command = ["judgebench", "from", *map(str, files), f"out={folder}-judged", *words]
        lines = [
            f"No judge was found, so nothing is ready. Put its column for COLUMN{may_be}:",
            f"{command_of(command)} judge=COLUMN",
        ]
    return [
        *lines,
        "Or put a judge that reads the texts for JUDGE, as openai:",
        f"{command_of(run)} judge=JUDGE",
    ]


def _likely_judges(columns: Columns, sample: Sequence[FileRow]) -> list[str]:
    """Columns that a judge may have given: labels, and texts that end in a verdict."""
    taken = {columns.source, columns.system, columns.group, columns.id, columns.rater}
    taken |= {*columns.human}
    likely = []
    for column, held in columns_held(sample).items():
        if column in taken or column.startswith("check_"):
            continue
        if label_range(final_words(held)) or (column != columns.output and is_label(held)):
            likely.append(column)
    reasons = MORE["reason"].split()
    return [name for name in likely if plain_name(name) not in reasons] or likely


def _write_texts(
    name: str,
    rows: Iterable[FileRow],
    columns: Columns,
    dimension: str,
    texts: _Lines,
    answers: _Lines,
) -> None:
    """Writes the texts and the judge's answers, each row as it is read; `UserError` where there are
    none."""
    for text, answer in _judged_texts(rows, columns, dimension):
        texts.write(text, singly([text.get("human")]))
        if answer is not None:
            answers.write({"example_id": text["example_id"], "text": answer}, [answer])
    if not texts.count:
        raise UserError(
            f"{name}: no row has a text in '{columns.output}'; name the column of the judged texts "
            "with output=COLUMN."
        )
    if columns.judge is not None and not answers.count:
        raise UserError(
            f"{name}: no row with a text has anything in the judge's column '{columns.judge}'; name "
            "another with judge=COLUMN, or none with judge=none."
        )


# --- files --------------------------------------------------------------------------------------

_OTHERS = 1000
"""Different labels that are kept though they are no numbers."""


class _Lines:
    """Rows that are written, a line each, and their different labels: all numbers, and a thousand
    others, which is all that a range depends on."""

    def __init__(self, file: TextIO | None) -> None:
        self._file = file
        self.count = 0
        self.labels: dict[str, None] = {}
        self._fields = set[str]()
        self._sources: dict[int, int] = {}

    @property
    def named(self) -> list[str]:
        """Fields that a run must be told of: further texts, reasons, groups of several sources."""
        return [field for field in ("context", "reason", "group_id") if field in self._fields]

    def write(self, row: Row, labels: Iterable[str]) -> None:
        """Writes a row, which has these labels."""
        self._fields.update(row.keys() - {"group_id"})
        if "group_id" in row:
            source = hash((row["source"], row.get("context")))
            if self._sources.setdefault(hash(row["group_id"]), source) != source:
                self._fields.add("group_id")
        line = json.dumps(row, ensure_ascii=False, allow_nan=False)
        try:
            line.encode()
        except UnicodeEncodeError as error:  # names of raters and columns; texts are checked before
            raise UserError(
                f"the text {row['example_id']!r}: a name holds {shown(line[error.start])}, half a "
                "character; give whole ones."
            ) from error
        if self._file is not None:
            self._file.write(f"{line}\n")
        self.count += 1
        for label in labels:
            if len(self.labels) < _OTHERS or numbers_in([label]):
                self.labels.setdefault(label)


_FILES = ("data.jsonl", "answers.jsonl", "command.sh")


@contextmanager
def _whole(folder: Path) -> Iterator[Callable[[str], TextIO]]:
    """Opens files of a folder, of which all are written when the block ends well, and none where it
    does not, or one that is there holds something else."""
    with writing(f"out={folder}:", "; name another folder"):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as place:
            with ExitStack() as stack:
                yield lambda name: stack.enter_context(
                    Path(place, name).open("w", encoding="utf-8")
                )
            for name in _FILES:
                old, new = folder / name, Path(place, name)
                same = new.exists() and old.is_file() and filecmp.cmp(new, old, shallow=False)
                if old.exists() and not same:
                    raise UserError(
                        f"out={folder}: {name} is there with other rows; name a new folder."
                    )
            folder.mkdir(exist_ok=True)
            for new in Path(place).iterdir():
                new.replace(folder / new.name)


# --- texts --------------------------------------------------------------------------------------


class RepeatedName(UserError):
    """Two texts of one name."""


def _judged_texts(
    rows: Iterable[FileRow], columns: Columns, dimension: str
) -> Iterator[tuple[dict[str, Any], str | None]]:
    """Texts in judgebench's own fields, each with the judge's answer; rows of several raters are
    about one text."""
    called = set()
    of_raters: dict[Any, tuple[dict[str, Any], str | None]] = {}
    for row in rows:
        if not row.has(columns.output) or not row.text(columns.output).strip():
            continue
        text = _text(row, columns)
        human = _labels(row, columns, dimension)
        answer = None if columns.judge is None else _answer(row, columns.judge)
        if columns.rater is None:
            name = text["example_id"]
            mark = hash(name)  # of a name, of which a file may have millions
            if columns.id is not None and mark in called:
                raise RepeatedName(
                    f"{row.place}: a text is called {name!r}, as one before; name a column with a "
                    "name of its own for each text, id=COLUMN, or id=none to number them."
                )
            if columns.id is not None:
                called.add(mark)
            yield text | human, answer
            continue
        contents = tuple(value for field, value in text.items() if field != "example_id")
        key = text["example_id"] if columns.id else contents
        known, before = of_raters.setdefault(key, (text, answer))
        if known["output"] != text["output"] or known["source"] != text["source"]:
            raise UserError(
                f"{row.place}: a text is called {text['example_id']!r}, as another one before; name "
                "a column with a name of its own for each text, id=COLUMN, or id=none."
            )
        if None not in (before, answer) and before != answer:
            raise UserError(
                f"{row.place}: the judge says {answer!r} of a text of which it says {before!r} "
                "before; leave one of the two."
            )
        _add_labels(row, known, human, dimension)
        of_raters[key] = known, answer if before is None else before
    yield from of_raters.values()


def _text(row: FileRow, columns: Columns) -> dict[str, Any]:
    called = f"row-{row.position}" if columns.id is None else row.identifier(columns.id)
    output = row.text(columns.output)
    source = row.text(columns.source) if columns.source and row.has(columns.source) else ""
    # a run takes no text that answers to nothing
    text = {
        "example_id": called,
        "output": output,
        "source": source if source.strip() else output,
    }
    for role in ("group", "system"):
        column = getattr(columns, role)
        if column is not None and row.has(column):
            text[f"{role}_id"] = row.identifier(column)
    for role, names in (("context", columns.context), ("reason", [columns.reason or ""])):
        if any(map(row.has, names)):
            text[role] = row.text(names)
    return text


def _labels(row: FileRow, columns: Columns, dimension: str) -> dict[str, Any]:
    """People's labels of a row, as the field `human` has them; empty where there is none. Without a
    dimension a label is an object of dimensions."""
    labels = {}
    for column in columns.human:
        label = _plain_label(row, column, by_rater(row.value(column)))
        if label not in (None, {}, []):
            labels[column] = label
    if not labels:
        return {}
    if columns.rater is not None:
        rater = row.identifier(columns.rater)
        return {"human": {dimension: {rater: [*labels.values()][-1]}}}
    if len(columns.human) > 1:
        return {"human": {dimension: labels}}
    (label,) = labels.values()
    return {"human": {dimension: label} if dimension else label}


def _add_labels(row: FileRow, known: dict[str, Any], human: Row, dimension: str) -> None:
    """Adds what one rater gave a text to what others gave it."""
    for rater, label in human.get("human", {}).get(dimension, {}).items():
        given = known.setdefault("human", {dimension: {}})[dimension]
        if given.setdefault(rater, label) != label:
            raise UserError(
                f"{row.place}: rater {rater!r} gives {label!r} to a text that has {given[rater]!r} "
                "of the same rater before; leave one of the two."
            )


def _plain_label(row: FileRow, column: str, value: Any) -> Any:
    """A label as JSON has it; None of one that is missing, NaN among them. `UserError` of what is
    no label."""
    if isinstance(value, Mapping):
        inner = {str(key): _plain_label(row, column, each) for key, each in value.items()}
        return {key: each for key, each in inner.items() if each is not None}
    if isinstance(value, list):
        return [_plain_label(row, column, each) for each in value]
    if value is None or value == "" or value != value:
        return None
    finite = isinstance(value, int | float) and abs(value) < 1e300
    if not finite and not isinstance(value, str):
        raise UserError(
            f"{row.place}: field '{column}' must be a number or a word, got {shown(value)}."
        )
    return FileRow({column: value}, row.place, 1).text(column) if not finite else value


def _answer(row: FileRow, column: str) -> str | None:
    """The judge's answer as a text; None where it gave none."""
    value = row.value(column)
    if isinstance(value, Mapping | list):
        return json.dumps(_plain_label(row, column, value), ensure_ascii=False)
    label = _plain_label(row, column, value)
    if isinstance(label, bool):
        return str(label).lower()
    return None if label is None else in_words(str(label))
