"""The command line: `judgebench from FILE [out=FOLDER]`, results of another tool as data of
judgebench, and the command that measures their judge.

It reads logs of Inspect (.eval, .json), results of promptfoo (.json), test runs of DeepEval
(.json), samples of lm-eval (.jsonl), tables of MLflow (.json), batches of OpenAI's form (.jsonl,
requests, answers, or a file of each), and any .csv, .tsv, .jsonl, .json or .parquet with a row for
each text. It says in five lines how it took the file, and each line ends with what changes it:

  source=COLUMN   what a text answers to
  output=COLUMN   the judged text
  human=COLUMN    people's labels; [A,B] are columns of several people, none is none
  judge=COLUMN    the judge's score, word or answer
  system=COLUMN   what wrote the text; so too group=, id= (names of articles and texts), and
                  rater=, where each row is what one person gave
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

from judgebench.data.rows import FileRow
from judgebench.importing.columns import (
    ROLES,
    Columns,
    LabelRange,
    dimension_of,
    is_label,
    label_range,
    quoted,
    table_columns,
    unquoted,
)
from judgebench.importing.own import judge_range
from judgebench.importing.tools import ToolResults, read_results, said_in
from judgebench.runtime.errors import UserError
from judgebench.runtime.files import Input, atomic, check_outputs, user_path
from judgebench.runtime.terminal import print_safely
from judgebench.types import Row

_EXAMPLE = "judgebench from results.csv out=FOLDER"
_WORDS = (*ROLES, "dimension", "ranges", "out")


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
        key, _, value = word.partition("=")
        if key in _WORDS and "=" in word:
            given[key] = value
        else:
            files.append(user_path(word))
    if not files:
        _refuse("the file with the results is not named")
    for file in files:
        if "=" in file.name and not file.exists():
            _refuse(f"{file}: there is no such word; there are {', '.join(_WORDS)}")
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
    results = _joined([read_results(file) for file in files], name)
    roles = {role: given[role] for role in ROLES if role in given}
    columns = _columns(name, results, roles)
    # 2. texts and answers
    named = given.get("dimension")
    dimension = named or dimension_of(columns.raters)
    alone = roles.get("output") == "none" or (results.batch and columns.judge is not None)
    output = columns.output or (alone and (columns.source or columns.id)) or None
    if output is None:
        raise UserError(
            f"{name}: no column looks like the judged texts; name it with output=COLUMN, which may "
            "be a path into objects, as output=answer.text, or give output=none where labels of "
            "people and judge alone count."
        )
    texts, answers, notes = _texts(name, results.rows, columns, dimension, output)
    human = label_range([row["human"] for row in texts if "human" in row])
    judged = None
    if answers:
        given_answers = [answer["text"] for answer in answers]
        judged = judge_range(name, given_answers, human, "ranges" in given)
    ranges = given.get("ranges") or (f"[{judged}]" if judged is not None else "[[1,5]]")
    # 3. the files, each whole or not there
    paths = [folder / file for file in ("data.jsonl", "answers.jsonl", "command.sh")]
    commands = _commands(paths, columns, human, ranges, bool(answers))
    check_outputs(
        [(f"out={folder}", path) for path in paths], [Input(str(file), file) for file in files]
    )
    written = [(paths[0], _lines(texts))]
    if answers:
        written.append((paths[1], _lines(answers)))
    written.append((paths[2], "".join(f"{command}\n" for command in commands)))
    for path, content in written:
        with atomic(path) as temporary:
            temporary.write_text(content, encoding="utf-8")
    # 4. how they were taken
    groups = len({row.get("group_id", row["source"]) for row in texts})
    counts = f"{len(texts):,} {'texts' if len(texts) > 1 else 'text'} of {groups:,}"
    return [
        f"{name}: {results.kind}, {counts} {'groups' if groups > 1 else 'group'}.",
        *_taken_lines(columns, dimension, texts, human, judged, ranges),
        *notes,
        f"Written: {', '.join(str(path) for path, _ in written)}",
        *commands,
    ]


def _lines(rows: Sequence[Row]) -> str:
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)


def _joined(results: Sequence[ToolResults], name: str) -> ToolResults:
    """The one file's results; of requests and answers of a batch, those of both by their names."""
    if len(results) == 1:
        return results[0]
    kinds = {each.kind for each in results}
    if not all(each.batch for each in results):
        raise UserError(
            f"{name}: holds {' and '.join(sorted(kinds))}, which are no two files of one batch; "
            "give one file."
        )
    joint: dict[str, FileRow] = {}
    for row in (row for each in results for row in each.rows):
        called = str(row.value("example_id"))
        there = {key: value for key, value in row.values.items() if value is not None}
        earlier = joint.get(called)
        values = {**earlier.values, **there} if earlier is not None else row.values
        joint[called] = FileRow(values, row.place, row.position)
    return ToolResults(results[0].kind, list(joint.values()), batch=True)


def _columns(name: str, results: ToolResults, roles: Mapping[str, str]) -> Columns:
    """The columns of results; `UserError` where it cannot be told which score is the judge's."""
    rows = results.rows
    given = dict(roles)
    if results.scores and "judge" not in given:
        scores = [score for score in results.scores if score not in given.values()]
        if len(scores) > 1:
            listed = ", ".join(f"'{score}'" for score in scores)
            raise UserError(
                f"{name}: has scores {listed}; say which is the judge's, as judge={scores[0]}."
            )
        given["judge"] = scores[0] if scores else "none"
    # 1. a score that is not asked for is nobody's
    others = set(results.scores) - {unquoted(word) for word in given.values()}
    if others:
        kept = []
        for row in rows:
            values = {key: value for key, value in row.values.items() if key not in others}
            kept.append(FileRow(values, row.place, row.position))
        rows = kept
    # 2. a model's answers in a batch are texts, or a judge's
    if results.batch and not {"judge", "output"} & set(given):
        answers = [row.value("answer") for row in rows if row.has("answer")]
        if answers and is_label(answers):
            raise UserError(
                f"{name}: it cannot be told whether the answers are judged texts or a judge's "
                "scores; give output=answer or judge=answer."
            )
    # 3. whoever scores is not who wrote the texts
    if results.batch and given.get("judge") == "answer":
        given = {"system": "none", "output": "none", **given}
    return table_columns(name, rows, given)


def _texts(
    name: str, rows: Sequence[FileRow], columns: Columns, dimension: str, output: str
) -> tuple[list[Row], list[Row], list[str]]:
    """Texts and answers in judgebench's own fields, and notes on what was left out."""
    texts: dict[Any, dict[str, Any]] = {}
    answers: dict[str, Row] = {}
    places: dict[str, str] = {}
    without = []
    for row in rows:
        if not row.has(output) or not _text_at(row, output).strip():
            without.append(row.place)
            continue
        # 1. the text; rows of several raters are about one
        text = _text_at(row, output)
        source = columns.source if columns.source and row.has(columns.source) else output
        values: dict[str, Any] = {"source": _text_at(row, source), "output": text}
        for role, field in (("group", "group_id"), ("system", "system_id")):
            column = getattr(columns, role)
            if column is not None and row.has(column):
                values[field] = row.identifier(column)
        called = f"row-{row.position}" if columns.id is None else row.identifier(columns.id)
        key: Any = called
        if columns.rater is not None and columns.id is None:
            key = tuple(values.values())
        known = texts.setdefault(key, {"example_id": called, **values})
        called = known["example_id"]
        if called in places and columns.rater is None:
            raise UserError(
                f"{row.place}: a text is called {called!r}, as in {places[called]}; name a column "
                "with a name of its own for each text, id=COLUMN, or id=none to number them."
            )
        # 2. people's labels
        labels = _labels(row, columns)
        if labels is not None:
            earlier = known.get("human", {}).get(dimension)
            if isinstance(earlier, dict) and isinstance(labels, dict):
                labels = {**earlier, **labels}
            objects = isinstance(labels, dict) and columns.rater is None and len(columns.raters) < 2
            known["human"] = labels if objects else {dimension: labels}
        # 3. the judge's answer
        if columns.judge is not None and row.has(columns.judge):
            answer = {"example_id": called, "text": _answer(row.value(columns.judge))}
            if answers.setdefault(called, answer) != answer:
                raise UserError(
                    f"{row.place}: the judge says {answer['text']!r} of a text of which it says "
                    f"{answers[called]['text']!r} in {places[called]}; leave one of the two."
                )
        places.setdefault(called, row.place)
    if not texts:
        raise UserError(
            f"{name}: no row has a text in '{output}'; name the column of the judged texts with "
            "output=COLUMN."
        )
    # 4. what was left out
    notes = []
    if without:
        notes.append(f"Rows without a text in '{output}', left out: {len(without)} ({without[0]}).")
    if columns.judge is not None and len(answers) < len(texts):
        notes.append(f"Texts without an answer of the judge: {len(texts) - len(answers)}.")
    return list(texts.values()), list(answers.values()), notes


def _text_at(row: FileRow, column: str) -> str:
    """A text, a number as a text, or what stands in the messages of a chat."""
    value = row.value(column)
    if isinstance(value, list) and all(isinstance(part, Mapping) for part in value):
        return said_in(value)
    return str(value) if isinstance(value, int | float) else row.text(column)


def _labels(row: FileRow, columns: Columns) -> Any:
    """People's labels of a row: one, or by rater; None where nobody gave one."""
    names = [name for name in columns.raters if row.has(name)]
    if not names:
        return None
    if len(columns.raters) > 1:
        return {name: row.value(name) for name in names}
    if columns.rater is not None:
        return {row.identifier(columns.rater): row.value(names[0])}
    return row.value(names[0])


def _answer(value: Any) -> str:
    """An answer of a judge as a text."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.15g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _taken_lines(
    columns: Columns,
    dimension: str,
    texts: Sequence[Row],
    human: LabelRange | None,
    judged: LabelRange | None,
    ranges: str,
) -> list[str]:
    """Five lines on how a file was taken, each with what changes it."""
    rated = sum("human" in row for row in texts)
    people = "none, so that people must label some"
    if columns.human is not None:
        plain = f", {human}" if human is not None and human.whole else ""
        people = f"'{columns.human}' of {dimension}, {rated:,} texts{plain}"
    judge = "none"
    if columns.judge is not None:
        judge = f"'{columns.judge}', range {ranges[1:-1]}"
        if judged is None:
            judge = f"'{columns.judge}', free texts, range {ranges[1:-1]}"
        elif f"[{judged}]" == ranges:
            judge += judged.how
    systems = len({row.get("system_id") for row in texts})
    names = [f"system '{columns.system}' ({systems})" if columns.system else "one system"]
    for role in ("group", "id", "rater"):
        column = getattr(columns, role)
        names.append(f"{role} '{column}'" if column else f"no {role}")
    source = f"'{columns.source}'" if columns.source else "none, so that labels alone count"
    output = f"'{columns.output}'" if columns.output else "none, so that labels alone count"
    return [
        f"  source  {source}; source=COLUMN changes it",
        f"  output  {output}; output=COLUMN changes it",
        f"  people  {people}; human=COLUMN changes it, dimension=NAME calls it",
        f"  judge   {judge}; judge=COLUMN changes it, 'ranges=[[LOW,HIGH]]' the range",
        f"  names   {', '.join(names)}; system=COLUMN, group=, id=, rater= change them",
    ]


def _commands(
    paths: Sequence[Path], columns: Columns, human: LabelRange | None, ranges: str, answered: bool
) -> list[str]:
    """The commands that measure the judge; where nobody has labelled a text, the labelling one
    first."""
    data, answers, _ = paths
    given = ["data=jsonl", f"data.path={quoted(str(data))}"]
    commands = []
    if columns.human is None:
        commands.append(shlex.join(["judgebench", "label", str(data), "out=label.html"]))
        given = [given[1], "labels=labels.jsonl"]
    elif human is not None and human.whole and not human.worded and human.entries != (0, 1):
        given.append(f"data.scale={human}")
    if answered:
        given += ["judge=replay", f"judge.path={quoted(str(answers))}", f"ranges={ranges}"]
    commands.append(shlex.join(["python", "-m", "judgebench", *given]))
    return commands


if __name__ == "__main__":
    sys.exit(main())
