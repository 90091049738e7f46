"""Readers of result files of other tools: a row for each judged text, with names of columns that
`table_columns` knows; scores are called `judge_NAME`.

The format is told by what stands in the file, not by its name. A table is read as it is.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from judgebench.data.rows import FILE_ENDINGS, LIMITS, FileRow, existing, file_rows
from judgebench.importing.columns import is_label
from judgebench.runtime.errors import UserError, reason
from judgebench.runtime.parsing import read_json
from judgebench.runtime.workbook import WORKBOOKS
from judgebench.types import Row

_GRADES = {"C": "correct", "I": "incorrect", "P": "partial", "N": "no answer"}
"""Letters of Inspect's grades."""


@dataclass(frozen=True)
class Tool:
    """A tool whose rows hold a text each.

    Attributes:
        kind: what it writes, for people.
        known: paths into a row by which it is known.
        fields: column -> path into a row, or several with `|` between them, of which the first
            that is there counts.
        scores: paths of a row's scores, of which the first that is there counts: an object name ->
            score, a list of `{name, score}`, names of other fields, or one score.
        within: the path of the rows in a file that is one object.
    """

    kind: str
    known: Sequence[str]
    fields: Mapping[str, str]
    scores: Sequence[str]
    within: str = ""


TOOLS = (
    Tool(
        "results of promptfoo",
        ("gradingResult", "promptIdx"),
        {
            "source": "prompt.raw",
            "output": "response.output",
            "system": "provider.label",
            "model": "provider.id",
            "group": "testIdx",
        },
        ("namedScores", "score"),
        "results.results",
    ),
    Tool(
        "a test run of DeepEval",
        ("actualOutput",),
        {"source": "input", "output": "actualOutput"},
        ("metricsData",),
        "testCases",
    ),
    Tool(
        "samples of lm-eval",
        ("doc_id", "filtered_resps"),
        {
            "id": "doc_id",
            "source": "arguments.gen_args_0.arg_0|arguments.0.0",
            "output": "filtered_resps.0",
        },
        ("metrics", "exact_match", "acc"),
    ),
)


def read_results(path: Path, sheet: str | None = None) -> tuple[str, list[FileRow]]:
    """The tool that wrote a file, for people, and its rows; `UserError` of one that is no result
    file, or broken.

    Args:
        sheet: of a workbook; None takes the first.
    """
    existing(path, "FILE")
    with path.open("rb") as file:
        start = file.read(4096)
    if not start.strip():
        raise UserError(f"{path.name}: the file is empty; give results.")
    if path.suffix in WORKBOOKS:
        return "a workbook of Excel", list(file_rows(path, sheet))
    if zipfile.is_zipfile(path) or path.suffix == ".eval":
        return "a log of Inspect", _rows(path, _inspect(path))
    if (path.suffix != ".parquet" and b"\0" in start) or path.suffix not in FILE_ENDINGS:
        raise UserError(
            f"{path.name}: this is no result file that is known here; give one that ends in .eval, "
            f"{', '.join(FILE_ENDINGS)}."
        )
    if path.suffix == ".json" and start.lstrip()[:1] != b"[":
        content = read_json(path, path.name, limits=LIMITS, remedy="give the whole file")
        if isinstance(content, Mapping):
            return _of_object(path, content)
    return _of_rows(path, list(file_rows(path)))


def _rows(path: Path, values: Iterable[Any]) -> list[FileRow]:
    """Rows of a file, which know their places; `UserError` of one that is no object."""
    rows = []
    for i, row in enumerate(values, start=1):
        place = f"{path.name} entry {i}"
        if not isinstance(row, Mapping):
            raise UserError(
                f"{place}: is no object, as in {{...}}; give the file as its tool wrote it."
            )
        rows.append(FileRow(row, place, i))
    return rows


def _of_object(path: Path, content: Row) -> tuple[str, list[FileRow]]:
    """The rows of a file that is one JSON object."""
    whole = FileRow(content, path.name, 1)
    if whole.has("eval.task"):
        return "a log of Inspect", _rows(path, _inspect(path))
    if whole.has("columns") and whole.has("data"):
        rows = []
        for number, cells in enumerate(content["data"], start=1):
            try:
                rows.append(dict(zip(content["columns"], cells, strict=True)))
            except (TypeError, ValueError) as error:
                raise UserError(
                    f"{path.name} row {number}: has not a cell for each of the table's columns; "
                    "give the whole file."
                ) from error
        return _of_rows(path, _rows(path, rows))
    for tool in TOOLS:
        results = whole.value(tool.within) if tool.within else None
        if isinstance(results, list):
            return _of_rows(path, _rows(path, results))
    there = ", ".join(f"'{key}'" for key in content)
    raise UserError(
        f"{path.name}: holds {there}, which no tool that is known here writes (Inspect, promptfoo, "
        "DeepEval, MLflow); give its rows as a list, one JSON object a line, or a table."
    )


def _of_rows(path: Path, rows: list[FileRow]) -> tuple[str, list[FileRow]]:
    """Rows with their columns as they are called here, by what the first row has."""
    if not rows:
        raise UserError(f"{path.name}: there is no row in it; give results.")
    if rows[0].has("custom_id") and (rows[0].has("response") or rows[0].has("body")):
        return BATCH, rows
    for tool in TOOLS:
        if all(rows[0].has(field) for field in tool.known):
            return tool.kind, [replace(row, values=_of_tool(tool, row)) for row in rows]
    return "a table", [replace(row, values=_of_table(row.values)) for row in rows]


def _of_tool(tool: Tool, row: FileRow) -> Row:
    def first(paths: Iterable[str]) -> Any:
        there = [path for path in paths if row.has(path) and row.value(path) not in ({}, [])]
        return row.value(there[0]) if there else None

    values = {column: first(paths.split("|")) for column, paths in tool.fields.items()}
    scores = first(tool.scores)
    if scores is None:
        return values
    if not isinstance(scores, Mapping | list):
        scores = {"score": scores}
    for name in scores:
        if isinstance(name, Mapping):
            values[f"judge_{name.get('name')}"] = name.get("score")
        else:
            values[f"judge_{name}"] = row.value(name) if isinstance(scores, list) else scores[name]
    return values


def _of_table(values: Row) -> Row:
    """A row of a table, with scores of MLflow (`correctness/v1/score`) as such, and an object with
    one text as that."""
    row = {}
    for name, value in values.items():
        called, _, rest = name.partition("/")
        scored = rest.split("/")[-1] in ("score", "value") and not called.startswith("expected")
        if isinstance(value, Mapping) and len(value) == 1 and "trace_id" in values:
            value = next(iter(value.values()))
        row[f"judge_{called}" if scored else name] = value
    return row


def _inspect(path: Path) -> list[Row]:
    """Samples of an Inspect log, by Inspect's own reader."""
    try:
        from inspect_ai.log import read_eval_log
    except ImportError as error:
        raise UserError(
            f"{path.name}: a log of Inspect is read by Inspect itself, which is not installed; "
            "install it with `pip install 'judgebench[inspect]'`."
        ) from error
    try:
        log = read_eval_log(str(path))
    # its reader's, its format's and the archive's own errors have no common base
    except Exception as error:
        raise UserError(
            f"{path.name}: Inspect cannot read this log ({reason(error)}); give a whole one."
        ) from error
    rows: list[Row] = []
    for sample in log.samples or ():
        asked = sample.input
        row: dict[str, Any] = {
            **(sample.metadata or {}),
            "example_id": f"{sample.id}" if sample.epoch == 1 else f"{sample.id}#{sample.epoch}",
            "group_id": str(sample.id),
            "source": asked if isinstance(asked, str) else "\n\n".join(each.text for each in asked),
            "output": sample.output.completion,
            "system_id": log.eval.model,
        }
        for scorer, score in (sample.scores or {}).items():
            parts = score.value if isinstance(score.value, Mapping) else {"": score.value}
            for part, value in parts.items():
                grade = _GRADES.get(value, value) if isinstance(value, str) else value
                row[f"judge_{scorer}_{part}".rstrip("_")] = grade
        rows.append(row)
    return rows


# --- batches ------------------------------------------------------------------------------------

BATCH = "a batch of OpenAI's form"


def batch_rows(rows: Iterable[FileRow]) -> list[FileRow]:
    """A row for each request of a batch, of files of requests, of answers, or of both. An answer is
    the text that is judged, or, where all are labels, the judge's about the request."""
    # 1. requests and answers of one name
    asked: dict[str, str] = {}
    answers: dict[str, tuple[Any, Any]] = {}
    for row in rows:
        name = row.identifier("custom_id")
        messages = row.value("body.messages") or ()
        if messages:
            asked[name] = "\n\n".join(str(message.get("content")) for message in messages)
        if row.has("response"):
            answer = row.value("response.body.choices.0.message.content")
            answers[name] = (answer, row.value("response.body.model"))
    if not answers:
        raise UserError(
            "These are requests of a batch without answers; name the file of those too."
        )
    # 2. texts, or labels of texts
    judged = is_label([answer for answer, _ in answers.values()])
    joint = []
    for i, (name, (answer, model)) in enumerate(answers.items(), start=1):
        values = {"id": name, "source": asked.get(name), "output": answer, "model": model}
        if judged:
            values = {"id": name, "output": asked.get(name), "judge_answer": answer}
        joint.append(FileRow(values, f"request {name}", i))
    return joint
