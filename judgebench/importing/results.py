"""Rows of result files: a row for each judged text, with names of columns that `table_columns`
knows. A score's column is called `judge_NAME`, `human_NAME` or `check_NAME` by who gave it, and
NAME where that is open.

One engine reads what `importing/tools.yaml` declares. A table is read as it is, and as often as it is
looked at, so that it need not be held.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from judgebench.data.rows import (
    FILE_ENDINGS,
    LIMITS,
    FileRow,
    existing,
    file_rows,
    json_entry,
    names_within,
)
from judgebench.importing.archive import read_entries
from judgebench.importing.columns import dimension_of, is_label
from judgebench.importing.tools import BATCH, INSPECT, TOOLS, ScorePlace, Tool
from judgebench.runtime.parsing import parse_json, read_json
from judgebench.runtime.workbook import WORKBOOKS
from judgebench.types import Row
from judgebench.words.errors import UserError, shown

_TEXT_ENDINGS = (".json", ".jsonl", ".csv", ".tsv")
_PROMPTFOO_TABLE = "Status,Score,Named Scores,"
"""In the header of a table of promptfoo, whose rows hold a text a provider."""

_SHOWN = 40
"""Characters of what tells two scores of one name apart."""


@dataclass(frozen=True)
class Imported:
    """Contents of result files.

    Attributes:
        kind: the tool that wrote them, for people.
        rows: may be gone through several times.
        notes: lines on what was taken how, for people.
    """

    kind: str
    rows: Iterable[FileRow]
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class _Rows:
    """The rows of a file, read again whenever they are gone through."""

    path: Path
    sheet: str | None = None

    def __iter__(self) -> Iterator[FileRow]:
        return file_rows(self.path, self.sheet)


def read_results(files: Sequence[Path], sheet: str | None = None) -> Imported:
    """The rows of a file, of the sheet of a workbook, of the two files of a batch, or of logs of
    Inspect, by themselves or in a folder; `UserError` of others, and of a broken one."""
    paths = []
    for file in files:
        paths += _logs_in(file) if file.is_dir() else [existing(file, "FILE")]
    read = [_read(path, sheet) for path in paths]
    tool, rows = read[0]
    if len(paths) > 1:
        if tool is None or not tool.several or any(other is not tool for other, _ in read):
            names = " with ".join(path.name for path in paths)
            raise UserError(
                f"{names}: are no two files of one batch, and no logs of Inspect; give one file."
            )
        rows = [row for _, more in read for row in more]
    if tool is None:
        return Imported("a table", rows)
    notes: list[str] = []
    if tool is INSPECT:
        rows, notes = _sample_rows([*rows])
    taken, more = _taken_rows(tool, [*rows])
    return Imported(tool.kind, _judged(taken) if tool is BATCH else taken, [*notes, *more])


def _logs_in(folder: Path) -> list[Path]:
    """The logs of a folder and its subfolders: archives, or else files of JSON."""
    for ending in (".eval", ".json"):
        logs = [path for path in sorted(folder.rglob(f"*{ending}")) if path.is_file()]
        if logs:
            return logs
    raise UserError(f"{folder}: there is no log of Inspect in this folder (.eval); give a file.")


def _read(path: Path, sheet: str | None = None) -> tuple[Tool | None, Iterable[FileRow]]:
    """The tool that wrote a file, None for a table, and its rows; a log of Inspect is one."""
    with path.open("rb") as file:
        start = file.read(4096)
    if not start.strip():
        raise UserError(f"{path.name}: the file is empty; give results.")
    known = path.suffix in FILE_ENDINGS
    if path.suffix == ".eval" or (not known and zipfile.is_zipfile(path)):
        return INSPECT, [_archived_log(path)]
    if not known or (path.suffix in _TEXT_ENDINGS and b"\0" in start):
        raise UserError(
            f"{path.name}: this is no result file that is known here; give one that ends in .eval, "
            f"{', '.join(FILE_ENDINGS)}."
        )
    if _PROMPTFOO_TABLE in start.partition(b"\n")[0].decode("utf-8", "replace"):
        raise UserError(
            f"{path.name}: is a table of promptfoo, in which a row holds the texts of all providers "
            "and no assertion's score; take results.json, as written by promptfoo eval -o "
            "results.json."
        )
    rows: Iterable[FileRow] = _Rows(path, sheet if path.suffix in WORKBOOKS else None)
    if path.suffix == ".json":
        rows = [*_json_rows(path)]
        if rows and rows[0].has("eval.task"):
            return INSPECT, rows
    first = next(iter(rows), None)
    if first is None:
        raise UserError(f"{path.name}: there is no row in it; give results.")
    tool = next((tool for tool in TOOLS.values() if tool.wrote(first)), None)
    if tool is not None and tool.instead:
        raise UserError(f"{path.name}: holds {tool.kind}; {tool.instead}.")
    return tool, rows if tool is None else [*rows]


def _json_rows(path: Path) -> Iterable[FileRow]:
    """The rows of a JSON file that is a list, a tool's object with one, or a table of columns; a
    log of Inspect is one row."""
    content = read_json(path, path.name, limits=LIMITS, remedy="give the whole file")
    if not isinstance(content, dict):
        return _objects(path, content if isinstance(content, list) else [content])
    whole = FileRow(content, path.name, 1)
    if whole.has("eval.task") or any(tool.wrote(whole) for tool in TOOLS.values()):
        return [whole]
    if whole.has("columns") and whole.has("data"):
        return _of_columns(path, content["columns"], content["data"])
    for within in dict.fromkeys(within for tool in TOOLS.values() for within in tool.within):
        if isinstance(whole.value(within), list):
            return _objects(path, whole.value(within))
    there = ", ".join(f"'{key}'" for key in content)
    raise UserError(
        f"{path.name}: holds {there}, which no tool that is known here writes (Inspect, promptfoo, "
        "DeepEval, MLflow, Langfuse, OpenAI); give its rows as a list, one JSON object a line, or "
        "a table."
    )


def _objects(path: Path, values: Iterable[Any]) -> list[FileRow]:
    """Rows of a file, which know their places; `UserError` of one that is no object."""
    return [json_entry(row, path.name, "entry", i) for i, row in enumerate(values, start=1)]


def _of_columns(path: Path, columns: Any, data: Any) -> list[FileRow]:
    """Rows of a table as pandas splits it: names of columns, and a list of cells a row."""
    named = isinstance(columns, list) and all(isinstance(name, str) for name in columns)
    is_table = named and isinstance(data, list) and len(set(columns)) == len(columns)
    for cells in data if is_table else ():
        is_table = is_table and isinstance(cells, list) and len(cells) == len(columns)
    if not is_table:
        raise UserError(
            f"{path.name}: 'columns' must be different names, and 'data' a list of rows with a cell "
            "for each; give the whole file as its tool wrote it."
        )
    rows = [dict(zip(columns, cells, strict=True)) for cells in data]
    return _objects(path, rows)


# --- logs of Inspect ----------------------------------------------------------------------------


def _archived_log(path: Path) -> FileRow:
    """A log with its samples, as a file of JSON has it."""
    log: dict[str, Any] = {}
    samples = []
    for name, content in read_entries(path):
        if not name.startswith("samples/") and name not in ("header.json", _BEGUN):
            continue
        value = parse_json(content, f"{path.name}, {name}", shape={}, limits=LIMITS)
        if name == _BEGUN:
            log = {"status": "started", **value} | log
        elif name == "header.json":
            log = log | value
        else:
            samples.append(value)
    if not FileRow(log, path.name, 1).has("eval.task"):
        raise UserError(f"{path.name}: this is no log of Inspect; give one as Inspect wrote it.")
    return FileRow({**log, "samples": samples}, path.name, 1)


_BEGUN = "_journal/start.json"
"""The entry of an archive that stands for the header until the evaluation ends."""


def _sample_rows(logs: Sequence[FileRow]) -> tuple[list[FileRow], list[str]]:
    """Samples of logs, with names of their own, and lines on logs that are not whole. Samples of
    one name are of one group where they are of one task."""
    befores = names_within([Path(log.place) for log in logs])
    rows: list[FileRow] = []
    notes = []
    for log, before in zip(logs, befores, strict=True):
        samples = log.value("samples") or []
        if not isinstance(samples, list):
            raise UserError(
                f"{log.place}: its samples are no list; give a log as Inspect wrote it."
            )
        if fault := _fault(log):
            if not samples:
                raise UserError(f"{log.place}: {fault}, before any sample; run it again.")
            notes.append(f"{log.place}: {fault}; the samples that are there are taken")
        for row in _objects(Path(log.place), samples):
            name = str(row.value("id"))
            group = f"{log.value('eval.task')}/{name}"
            epoch = row.value("epoch")
            called = f"{before}{name}" if epoch in (None, 1) else f"{before}{name}#{epoch}"
            values = {"log": {"model": log.value("eval.model")}, "sample": row.values}
            rows.append(replace(row, values={**values, "name": called, "group": group}))
    if not rows:
        raise UserError(f"{logs[0].place}: there is no sample in this log; give another.")
    return rows, notes


def _fault(log: FileRow) -> str:
    """A clause on why an evaluation is not whole; empty where it is."""
    status = log.value("status")
    if status == "error":
        message = shown(str(log.value("error.message") or "none is given"))
        return f"the evaluation ended in an error ({message})"
    ends = {"cancelled": "the evaluation was cancelled", "started": "the evaluation has not ended"}
    return ends.get(str(status), "")


# --- rows by a declaration ----------------------------------------------------------------------


class _Score(NamedTuple):
    """One score of a row.

    Attributes:
        identity: what makes it another score than those of the same name: who gave it, its name,
            the part of it, and the judge's model or the like.
        apart: what tells it apart from others of its identity in one row.
        rater: the person.
    """

    identity: tuple[str, str, str, str]
    apart: str
    rater: str
    value: Any


def _taken_rows(tool: Tool, rows: Sequence[FileRow]) -> tuple[list[FileRow], list[str]]:
    """Rows of a tool with their columns as they are called here, and lines on these."""
    # 1. what each row holds
    if tool.encoded:
        rows = [
            replace(row, values={name: _decoded(cell) for name, cell in row.values.items()})
            for row in rows
        ]
    scores = [_distinct(_scores_of(tool, row)) for row in rows]
    # 2. a column for each score, so that no two are ever one, and none is another's
    crowded = set()
    for found in scores:
        counts = Counter(score.identity for score in found)
        crowded |= {identity for identity, count in counts.items() if count > 1}
    columns = _columns_of(scores, crowded, [*tool.fields])
    taken = {*tool.fields, *columns.values()}
    # 3. the rows, of which some may be about one text
    made: dict[Any, FileRow] = {}
    for row, found in zip(rows, scores, strict=True):
        values = _texts_of(tool, row)
        for name, cell in _others_of(tool, row).items():
            values[f"other/{name}" if name in taken else name] = cell
        for score in found:
            column = columns[_key(score, crowded)]
            if score.identity[0] == "human":
                dimension = dimension_of([column])
                labels = values.setdefault(column, {dimension: {}})
                labels[dimension][score.rater] = score.value
            else:
                values[column] = score.value
        key = row.identifier(tool.key) if tool.key else len(made)
        if key in made:
            values = _joined(made[key], row, values)
            row = made[key]
        made[key] = replace(row, values=values)
    rows = [replace(row, position=i) for i, row in enumerate(made.values(), start=1)]
    checks = [f"'{name}'" for (score, _), name in columns.items() if score[0] == "check"]
    notes = [f"computed without a model, so no judge's: {', '.join(checks)}"] if checks else []
    return rows, notes


def _joined(before: FileRow, row: FileRow, values: Row) -> dict[str, Any]:
    """Contents of two rows about one text; `UserError` where they differ."""
    for name, value in before.values.items():
        if values.get(name, value) != value:
            raise UserError(
                f"{row.place}: is about the text of {before.place}, and has another '{name}'; "
                "leave one of the two."
            )
    return {**before.values, **values}


def _texts_of(tool: Tool, row: FileRow) -> dict[str, Any]:
    """A row's texts and names."""
    values = {}
    for column, paths in tool.fields.items():
        value = _first(row, paths)
        encoded = tool.encoded or not isinstance(value, str)
        if column in ("source", "output") and encoded:
            value = _text_in(value, last=column == "output")
        if value is not None:
            values[column] = value
    return values


def _others_of(tool: Tool, row: FileRow) -> dict[str, Any]:
    """A row's further columns, which hold neither texts nor scores."""
    others = {name: cell for name, cell in row.values.items() if re.fullmatch(tool.others, name)}
    within = row.value(tool.within_row) if tool.within_row else None
    if isinstance(within, Mapping):
        others |= within
    for scores in tool.scores:
        if not scores.at:
            scored = _fields(scores, others)
            others = {name: cell for name, cell in others.items() if name not in scored}
    return others


def _fields(scores: ScorePlace, values: Row) -> dict[str, tuple[str, str]]:
    """Name of a field -> name and detail of the score that it holds."""
    fields = {}
    for field in values:
        if match := re.fullmatch(scores.columns, field):
            groups = match.groupdict()
            fields[field] = (groups["name"], groups.get("detail") or "")
    return fields


def _scores_of(tool: Tool, row: FileRow) -> list[_Score]:
    """The scores of a row, at the first place where one stands."""
    for scores in tool.scores:
        within = _first(row, scores.at) if scores.at else row.values
        entries: list[tuple[Any, str, str]] = []
        if isinstance(within, Mapping):
            for field, (name, detail) in _fields(scores, within).items():
                entries.append((within[field], name, detail))
        for entry in within if isinstance(within, list) else ():
            if isinstance(entry, Mapping):
                entries.append((entry, str(_first(_inner(row, entry), scores.name) or "score"), ""))
            elif isinstance(entry, str):
                entries.append((row.value(entry), entry, ""))
            else:
                raise UserError(
                    f"{row.place}: field '{scores.at}' holds {shown(entry)}; each entry must be a "
                    "score with its name."
                )
        found = []
        for entry, name, detail in entries:
            found += _read_score(tool, scores, row, entry, name, detail)
        if found:
            return found
    return []


def _read_score(
    tool: Tool, scores: ScorePlace, row: FileRow, entry: Any, name: str, detail: str
) -> list[_Score]:
    """The parts of one score; none of an entry that holds none."""
    inner = _inner(row, entry if isinstance(entry, Mapping) else {})
    if any(inner.value(path) is value for path, value in scores.void.items()):
        return []

    def said(paths: str) -> str:
        value = _first(inner, paths)
        value = _first(row, paths) if value is None else value
        return "" if value is None else str(value)

    giver = said(scores.giver) if scores.giver else name
    fitting = [role for role, known in scores.givers.items() if re.fullmatch(known, giver)]
    role = fitting[0] if fitting else ""
    value = _first(inner, scores.value) if isinstance(entry, Mapping) else entry
    parts: Mapping[str, Any] = {"": value}
    if isinstance(value, Mapping):
        parts = value
    elif isinstance(value, list):
        parts = {str(i) if len(value) > 1 else "": part for i, part in enumerate(value, start=1)}
    # people's scores of one name are of one column, whoever gave them
    detail = "" if role == "human" else detail or said(scores.detail)
    read = []
    for part, of_part in parts.items():
        if of_part is None or of_part != of_part or isinstance(of_part, Mapping | list):
            continue
        word = tool.words.get(of_part, of_part) if isinstance(of_part, str) else of_part
        identity = (role, name, part, detail)
        rater = said(scores.rater) if role == "human" else ""
        read.append(_Score(identity, said(scores.apart), rater, word))
    return read


def _distinct(scores: Sequence[_Score]) -> list[_Score]:
    """Scores of a row, of which no two are told by the same; of one person's two labels the later
    one counts."""
    distinct = {}
    counts: Counter[Any] = Counter()
    for score in scores:
        told = (score.identity, score.apart)
        counts[told] += 1
        number = str(counts[told])
        if score.identity[0] == "human":
            score = score._replace(apart="", rater=score.rater or number)
        elif counts[told] > 1:
            score = score._replace(apart=f"{score.apart} {number}".strip())
        distinct[score.identity, score.apart, score.rater] = score
    return [*distinct.values()]


def _key(score: _Score, crowded: set[Any]) -> tuple[tuple[str, str, str, str], str]:
    """The pair by which a score's column is told."""
    return score.identity, score.apart if score.identity in crowded else ""


def _columns_of(
    scores: Sequence[Sequence[_Score]], crowded: set[Any], taken: Sequence[str]
) -> dict[Any, str]:
    """Names of columns, by what each is told by. Where several would have one name, each says what
    tells it from the others."""
    wanted = {}
    for found in scores:
        for score in found:
            wanted[_key(score, crowded)] = "_".join(filter(None, score.identity[:3]))
    alike = Counter([*wanted.values(), *taken])
    names: dict[Any, str] = {}
    used = {*taken}
    for key, name in wanted.items():
        if alike[name] > 1:
            (_, own, part, detail), apart = key
            told = [said for said in (part, detail, apart) if said not in ("", own)]
            told = ["_".join(said.split())[:_SHOWN] for said in told]
            name = "/".join([name, *told])
        called = name
        number = 2
        while called in used:
            called = f"{name}/{number}"
            number += 1
        used.add(called)
        names[key] = called
    return names


def _inner(row: FileRow, values: Row) -> FileRow:
    return replace(row, values=values)


def _first(row: FileRow, paths: str) -> Any:
    """The value of the first path at which one stands that is not empty."""
    for path in paths.split("|") if paths else ():
        value = row.value(path)
        if value is not None and value != {} and value != []:
            return value
    return None


def _decoded(cell: Any) -> Any:
    """A cell that is written as JSON, in a table or within JSON, as what it stands for."""
    if not isinstance(cell, str) or cell[:1] not in ("{", "[", '"'):
        return cell
    try:
        return parse_json(cell, "", limits=LIMITS)
    except UserError:
        return cell


_HOLDING = ("content", "text", "messages", "message", "choices", "output", "answer", "response")
"""Names under which the text of a message, or of an answer, stands."""


def _text_in(value: Any, last: bool) -> str | None:
    """The text of a message, of the last or all of several, or of an object that has one; other
    objects as JSON."""
    if isinstance(value, str | None):
        decoded = _decoded(value)
        return value if decoded is value else _text_in(decoded, last)
    if isinstance(value, list):
        texts = [text for each in value if (text := _text_in(each, last))]
        return "\n\n".join(texts[-1:] if last else texts) or None
    if not isinstance(value, Mapping):
        return str(value)
    held = [name for name in _HOLDING if value.get(name)]
    if held or len(value) == 1:
        return _text_in(value[held[0]] if held else next(iter(value.values())), last)
    return json.dumps(value, ensure_ascii=False) if value else None


def _judged(rows: Sequence[FileRow]) -> list[FileRow]:
    """The rows of a batch, whose answers are the texts that are judged, or, where all are labels,
    the judge's about the requests."""
    answers = [row.values["output"] for row in rows if row.has("output")]
    if not answers:
        raise UserError(
            "These are requests of a batch without answers; name the file of those too."
        )
    if not is_label(answers):
        return [*rows]
    judged = []
    for row in rows:
        values = {"id": row.value("id"), "output": row.value("source")}
        judged.append(replace(row, values={**values, "judge_answer": row.value("output")}))
    return judged
