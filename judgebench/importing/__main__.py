"""The command line: `judgebench from FILE [out=FOLDER]`, results of another tool as data of
judgebench, and the command that measures their judge.

It reads logs of Inspect (.eval, .json), results of promptfoo (.json), test runs of DeepEval
(.json), samples of lm-eval (.jsonl), tables of MLflow (.json), batches of OpenAI's form (.jsonl,
requests, answers, or a file of each), and any .csv, .tsv, .jsonl, .json, .parquet or .xlsx with a
row for each text. It says in five lines how it took the file, and each line ends with what changes it:

  source=COLUMN   what a text answers to
  output=COLUMN   the judged text
  human=COLUMN    people's labels; [A,B] are columns of several people, none is none
  judge=COLUMN    the judge's score, word or answer
  system=COLUMN   what wrote the text; so too group=, id= (names of articles and texts), and
                  rater=, where each row is what one person gave
  context=COLUMN  a policy or a reference that goes with a text; reason=, why the judge said so
  sheet=NAME      of a workbook of Excel; else the first that holds something
  dimension=NAME  what people's labels are about
  ranges=[[1,5]]  the range of the judge's scores
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from judgebench.data.rows import FileRow, by_rater, in_words
from judgebench.importing.columns import (
    ROLES,
    Columns,
    check_told_apart,
    dimension_of,
    held,
    inside,
    judge_clause,
    judge_range,
    label_range,
    people_clause,
    quoted,
    table_columns,
    taken_lines,
)
from judgebench.importing.preferences import pairs_of
from judgebench.importing.tools import BATCH, batch_rows, read_results
from judgebench.runtime.errors import UserError
from judgebench.runtime.files import Input, atomic, check_outputs, user_path, writing
from judgebench.runtime.terminal import print_safely
from judgebench.runtime.workbook import sheet_lines
from judgebench.types import Row

_EXAMPLE = "judgebench from results.csv out=FOLDER"
_WORDS = (*ROLES, "sheet", "dimension", "ranges", "out")


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the files and prints the command; 0, or 2 after a user's mistake."""
    from judgebench.runtime.ending import exit_code

    return exit_code("judgebench.importing", arguments, partial(_work, arguments))


def _work(arguments: Sequence[str] | None) -> int:
    from judgebench.cli import words_of

    words = words_of(arguments, "judgebench.importing", "FILE out=FOLDER", __doc__, _refuse)
    given = {}
    files = []
    for word in words:
        key, equals, value = word.partition("=")
        if equals and key in _WORDS:
            given[key] = value
        elif equals and not user_path(word).exists():
            _refuse(f"{word}: there is no such word; there are {', '.join(_WORDS)}")
        else:
            files.append(user_path(word))
    if not files:
        _refuse("the file with the results is not named")
    folder = user_path(given.pop("out", f"outputs/from/{files[0].stem}"))
    print_safely(*write_results(files, folder, given))
    return 0


def _refuse(message: str) -> NoReturn:
    raise UserError(f"{message}; give them as {_EXAMPLE}.")


def write_results(files: Sequence[Path], folder: Path, given: Mapping[str, str]) -> list[str]:
    """Writes the data, the judge's answers and the command of result files into a folder; lines for
    people.

    Args:
        given: word of the command line -> column, or value.
    """
    # 1. rows and their columns
    name = " with ".join(file.name for file in files)
    kind, rows = read_results(files[0], given.get("sheet"))
    for file in files[1:]:
        other, more = read_results(file)
        if (kind, other) != (BATCH, BATCH):
            raise UserError(f"{name}: are no two files of one batch; give one file.")
        rows += more
    if kind == BATCH:
        rows = batch_rows(rows)
    roles = {role: column for role, column in given.items() if role in ROLES}
    ranges = given.get("ranges")
    if pairs := pairs_of(rows, held(rows), roles):
        rows = pairs.rows
        roles["output"] = pairs.output
        given = {"dimension": "preference", "ranges": f"[[{','.join(pairs.classes)}]]", **given}
        ranges = given["ranges"]
    columns = table_columns(name, rows, roles, "human" if pairs else "")
    asked = given.get("dimension", "").strip("[]").split(",")
    inner = inside([row.value(column) for row in rows for column in columns.human], asked)
    dimension = asked[0] or dimension_of(columns.human)
    # 2. texts and answers, and the range of these
    texts, answers = _texts(name, rows, columns, "" if inner.dimensions else dimension)
    labels = [row["human"] for row in texts if "human" in row]
    better = "" if ranges else "give 'ranges=[[WORST,BEST]]'"
    check_told_apart(name, columns, labels or [answer["text"] for answer in answers], better)
    human = label_range(labels)
    if human is not None and not human.whole:
        human = None
    judged = ranges or "none"
    if answers and ranges is None:
        ends, how = judge_range(name, [answer["text"] for answer in answers], human)
        ranges, judged = f"[{ends}]", f"{ends}{how}"
    # 3. the commands that measure the judge; where nobody has labelled a text, one for that first
    data, answered, command = [
        folder / file for file in ("data.jsonl", "answers.jsonl", "command.sh")
    ]
    run = ["python", "-m", "judgebench", f"data.path={quoted(str(data))}"]
    run.append("data=jsonl" if columns.human else "labels=labels_NAME.jsonl")
    run += [f"data.fields.{name}={name}" for name in _fields(texts, bool(answers))]
    if name != data.name:
        run.append(f"data.name={quoted(Path(name).stem)}")
    if human is not None and human.graded:
        run.append(f"data.scale={human}")
    elif pairs or (human is not None and ranges and given.get("ranges")):
        run.append(f"data.classes={ranges[1:-1]}")
    if answers:
        run += ["judge=replay", f"judge.path={quoted(str(answered))}", f"ranges={ranges}"]
        run.append(f"judge.title={quoted(str(columns.judge))}")
    commands = [shlex.join(run)]
    if not columns.human:
        page = ["judgebench", "label", str(data), "out=label.html"]
        # people choose among the judge's own words
        words = label_range([answer["text"] for answer in answers])
        if pairs or (ranges and words is not None and isinstance(words.entries[0], str)):
            page.append(f"classes={ranges[1:-1]}")
        commands.insert(0, shlex.join(page))
    # 4. the files, each whole or not there
    contents = {data: _lines(texts), command: "".join(f"{each}\n" for each in commands)}
    if answers:
        contents[answered] = _lines(answers)
    inputs = [Input(str(file), file) for file in files]
    check_outputs([(f"out={folder}", path) for path in contents], inputs)
    for path in (data, answered, command):
        known = contents.get(path, "").encode()
        if path.is_file() and path.read_bytes() != known:
            raise UserError(
                f"out={folder}: {path.name} is there with other rows; name a new folder."
            )
    with writing(f"out={folder}:", "; name another folder"):
        for path, content in contents.items():
            with atomic(path) as temporary:
                temporary.write_text(content, encoding="utf-8")
    left = len(rows) - len(texts) if columns.rater is None else 0
    people = people_clause(columns, ", ".join(inner.dimensions) or dimension, human, inner)
    unanswered = len(texts) - len(answers) if answers else 0
    lines = taken_lines(columns, people, judge_clause(columns, judged))
    if "sheet" not in given:
        lines += sheet_lines(files[0])
    if pairs:
        first, second = pairs.output.split(" or ")
        lines.insert(1, f"pairs: A is {first}, B is {second}; where people prefer A, a text passes")
    return [
        f"{name}: {kind}. Texts: {len(texts):,}; answers of the judge: {len(answers):,}; rows "
        f"without a text, left out: {left:,}; texts without an answer: {unanswered:,}.",
        *(f"  {line}" for line in lines),
        f"Written: {', '.join(map(str, contents))}",
        *commands,
    ]


def _fields(texts: Sequence[Row], answered: bool) -> list[str]:
    """Fields of the texts that a run must be told of: further texts, reasons, and groups of several
    sources."""
    given = {name for text in texts for name in text}
    named = ["context"] if "context" in given else []
    named += ["reason"] if "reason" in given and answered else []
    sources: dict[Any, set[Any]] = {}
    for text in texts:
        about = (text["source"], text.get("context"))
        sources.setdefault(text.get("group_id"), set()).add(about)
    several = any(len(held) > 1 for group, held in sources.items() if group is not None)
    return [*named, "group_id"] if several else named


def _lines(rows: Sequence[Row]) -> str:
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)


def _texts(
    name: str, rows: Sequence[FileRow], columns: Columns, dimension: str
) -> tuple[list[Row], list[Row]]:
    """Texts and answers in judgebench's own fields; rows of several raters are about one text.
    Without a `dimension`, labels are objects of dimensions."""
    texts: dict[Any, dict[str, Any]] = {}
    answers: dict[str, str] = {}
    for row in rows:
        if not row.has(columns.output) or not row.text(columns.output).strip():
            continue
        # 1. the text
        text = {"output": row.text(columns.output)}
        source = columns.source if columns.source and row.has(columns.source) else columns.output
        text["source"] = row.text(source)
        for role in ("group", "system"):
            column = getattr(columns, role)
            if column is not None and row.has(column):
                text[f"{role}_id"] = row.identifier(column)
        if any(map(row.has, columns.context)):
            text["context"] = row.text(columns.context)
        if columns.reason is not None and row.has(columns.reason):
            text["reason"] = row.text(columns.reason)
        called = f"row-{row.position}" if columns.id is None else row.identifier(columns.id)
        key = called if columns.id or columns.rater is None else tuple(text.values())
        if key in texts and columns.rater is None:
            raise UserError(
                f"{row.place}: a text is called {called!r}, as one before; name a column with a "
                "name of its own for each text, id=COLUMN, or id=none to number them."
            )
        known = texts.setdefault(key, {"example_id": called, **text})
        # 2. people's labels
        labels = {c: by_rater(row.value(c)) for c in columns.human if row.has(c)}
        if columns.rater is not None:
            labels = {row.identifier(columns.rater): label for label in labels.values()}
            labels = {**known.get("human", {}).get(dimension, {}), **labels}
        elif len(columns.human) == 1:
            labels = next(iter(labels.values()), {})
        if labels != {}:
            known["human"] = {dimension: labels} if dimension else labels
        # 3. the judge's answer
        if columns.judge is not None and row.has(columns.judge):
            value = row.value(columns.judge)
            answer = str(value).lower() if isinstance(value, bool) else in_words(str(value))
            if answers.setdefault(known["example_id"], answer) != answer:
                raise UserError(
                    f"{row.place}: the judge says {answer!r} of a text of which it says "
                    f"{answers[known['example_id']]!r} before; leave one of the two."
                )
    if not texts:
        raise UserError(
            f"{name}: no row has a text in '{columns.output}'; name the column of the judged texts "
            "with output=COLUMN."
        )
    answered: list[Row] = [
        {"example_id": called, "text": answer} for called, answer in answers.items()
    ]
    return list(texts.values()), answered


if __name__ == "__main__":
    sys.exit(main())
