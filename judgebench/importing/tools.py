"""Readers of result files of other tools: a row for each judged text, with the columns that
`columns.ROLES` name.

The format is told by what stands in the file, not by its name. A table, or a format that is not
known, is read as it is.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judgebench.data.rows import FILE_ENDINGS, LIMITS, FileRow, existing, file_rows
from judgebench.runtime.errors import UserError, reason
from judgebench.runtime.parsing import read_json
from judgebench.types import Row

GRADES = {"C": "correct", "I": "incorrect"}
"""Inspect's letters; where P (partial) or N (none) are among them, all are numbers."""
_SHARES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}


@dataclass(frozen=True)
class ToolResults:
    """Rows of a result file.

    Attributes:
        kind: the tool, for people.
        scores: columns with scores of a judge, where the tool says which these are; empty of a
            table, whose columns are told by their names.
        batch: True of requests and answers of a batch, whose answers are in `answer`.
    """

    kind: str
    rows: Sequence[FileRow]
    scores: Sequence[str] = ()
    batch: bool = False


def read_results(path: Path) -> ToolResults:
    """The results in a file; `UserError` of one that is no result file, or broken."""
    existing(path, "FILE")
    with path.open("rb") as file:
        start = file.read(4096)
    if not start.strip():
        raise UserError(f"{path.name}: the file is empty; give results.")
    if zipfile.is_zipfile(path) or path.suffix == ".eval":
        return _inspect(path)
    if path.suffix in (".csv", ".tsv", ".parquet"):
        return ToolResults("a table", [_with_nulls(row) for row in file_rows(path)])
    if b"\0" in start or path.suffix not in FILE_ENDINGS:
        endings = ", ".join((".eval", *FILE_ENDINGS))
        raise UserError(
            f"{path.name}: this is no result file that is known here; give one that ends in "
            f"{endings}."
        )
    if path.suffix == ".jsonl":
        rows = list(file_rows(path))
        return _of_lines(path.name, rows)
    content = read_json(path, path.name, limits=LIMITS, remedy="give the whole file")
    if isinstance(content, list):
        return _of_lines(path.name, list(file_rows(path)))
    for known, read in _KNOWN:
        if not all(_at(content, key) is not None for key in known):
            continue
        try:
            return read(path, content)
        except (AttributeError, KeyError, TypeError) as error:
            raise UserError(
                f"{path.name}: has '{known[0]}' as a known tool writes it, and what stands in it is "
                f"of another form ({reason(error)}); give the whole file, as the tool wrote it."
            ) from error
    there = ", ".join(f"'{key}'" for key in content) if isinstance(content, Mapping) else "a value"
    raise UserError(
        f"{path.name}: holds {there}, which no tool that is known here writes (Inspect, promptfoo, "
        "DeepEval, MLflow); give its rows as a list, one JSON object a line, or a table."
    )


def _with_nulls(row: FileRow) -> FileRow:
    """A row in which a number that is none (NaN) is missing."""
    values = {name: None if value != value else value for name, value in row.values.items()}
    return FileRow(values, row.place, row.position)


def _at(content: Any, key: str) -> Any:
    """Value at a path of keys and places; None where there is none."""
    return FileRow(content, "", 0).value(key) if isinstance(content, Mapping) else None


def _rows(name: str, unit: str, values: Sequence[Row]) -> list[FileRow]:
    """Rows of a file, which know their places."""
    return [FileRow(row, f"{name} {unit} {i}", i) for i, row in enumerate(values, start=1)]


def _text(value: Any) -> str | None:
    """A text; of another value, how JSON writes it."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


# --- one JSON object ----------------------------------------------------------------------------


def _inspect(path: Path, content: Any = None) -> ToolResults:
    """ToolResults of an Inspect log, by Inspect's own reader."""
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
    values = []
    scorers: dict[str, list[Any]] = {}
    for sample in log.samples or ():
        read: dict[str, Any] = {
            "example_id": f"{sample.id}" if sample.epoch == 1 else f"{sample.id}#{sample.epoch}",
            "group_id": str(sample.id),
            "source": sample.input if isinstance(sample.input, str) else said_in(sample.input),
            "output": sample.output.completion,
            "system_id": log.eval.model,
        }
        for name, value in (sample.metadata or {}).items():
            read.setdefault(name, value)
        for scorer, score in (sample.scores or {}).items():
            parts = score.value if isinstance(score.value, Mapping) else {"": score.value}
            for part, value in parts.items():
                column = f"{scorer}.{part}" if part else scorer
                read[column] = value
                scorers.setdefault(column, []).append(value)
        values.append(read)
    # letters are words where two of them decide, else numbers
    for column, given in scorers.items():
        letters = set(map(str, given))
        table: Mapping[str, Any] = GRADES if letters <= set(GRADES) else _SHARES
        for read in values:
            if column in read and letters <= set(_SHARES):
                read[column] = table[str(read[column])]
    return ToolResults("a log of Inspect", _rows(path.name, "sample", values), list(scorers))


def said_in(messages: Any) -> str:
    """The words of a chat's messages, in their order."""
    texts = []
    for message in messages:
        content = getattr(message, "text", None)
        if isinstance(message, Mapping):
            content = message.get("content")
        if isinstance(content, list):
            content = "\n".join(str(part.get("text", "")) for part in content)
        if content:
            texts.append(str(content))
    return "\n\n".join(texts)


def _promptfoo(path: Path, content: Any) -> ToolResults:
    values: list[dict[str, Any]] = []
    scores: dict[str, None] = {}
    for result in _at(content, "results.results"):
        row = FileRow(result, path.name, 0)
        provider = row.value("provider.label") or row.value("provider.id") or row.value("provider")
        named = row.value("namedScores") or {}
        metrics = {**named} if named else {"score": row.value("score")}
        scores |= dict.fromkeys(metrics)
        variables = row.value("vars") or row.value("testCase.vars") or {}
        group = str(row.value("testIdx") if row.has("testIdx") else len(values))
        values.append(
            {
                **variables,
                "example_id": f"{group}/{row.value('promptIdx') or 0}/{provider}",
                "group_id": group,
                "source": row.value("prompt.raw"),
                "output": _text(row.value("response.output")),
                "system_id": str(provider),
                **metrics,
            }
        )
    names = {each["example_id"] for each in values}
    if len(names) < len(values):  # asked repeatedly
        for i, each in enumerate(values):
            each["example_id"] = f"{each['example_id']}#{i}"
    return ToolResults("results of promptfoo", _rows(path.name, "result", values), list(scores))


def _deepeval(path: Path, content: Any) -> ToolResults:
    values = []
    scores: dict[str, None] = {}
    for case in content["testCases"]:
        metrics = {}
        for metric in case.get("metricsData") or ():
            metrics[metric["name"]] = metric.get("score")
        scores |= dict.fromkeys(metrics)
        values.append(
            {
                "source": case.get("input"),
                "output": case.get("actualOutput"),
                "context": _text(case.get("context")),
                **metrics,
            }
        )
    return ToolResults(
        "a test run of DeepEval", _rows(path.name, "test case", values), list(scores)
    )


def _mlflow(path: Path, content: Any) -> ToolResults:
    """ToolResults of a table that MLflow writes as columns and rows of values."""
    columns = content["columns"]
    values = []
    for number, cells in enumerate(content["data"], start=1):
        if len(cells) != len(columns):
            raise UserError(
                f"{path.name} row {number}: has {len(cells)} cells and the table {len(columns)} "
                "columns; give the whole file."
            )
        values.append(dict(zip(columns, cells, strict=True)))
    return ToolResults(
        "a table of MLflow", _rows(path.name, "row", values), _mlflow_scores(columns)
    )


def _mlflow_scores(columns: Sequence[str]) -> list[str]:
    """The columns of scores in a table of MLflow: `correctness/v1/score`, `correctness/value`."""
    scores = [name for name in columns if name.endswith(("/score", "/value"))]
    return [name for name in scores if not name.startswith("expected")]


def _mlflow_traces(name: str, rows: Sequence[FileRow]) -> ToolResults:
    """ToolResults of a table of traces, as `evaluate` of MLflow's `genai` gives it."""
    values = []
    for row in rows:
        request = row.value("request")
        if isinstance(request, Mapping) and len(request) == 1:
            request = next(iter(request.values()))
        texts = {"request": _text(request), "response": _text(row.value("response"))}
        values.append({**row.values, **texts, "id": row.value("trace_id")})
    scores = _mlflow_scores(list(rows[0].values))
    return ToolResults("a table of MLflow", _rows(name, "row", values), scores)


_KNOWN: Sequence[tuple[Sequence[str], Callable[[Path, Any], ToolResults]]] = (
    (("eval.task", "eval.model"), _inspect),
    (("results.results",), _promptfoo),
    (("testCases",), _deepeval),
    (("columns", "data"), _mlflow),
)
"""Keys of a file that is one JSON object -> what reads it."""


# --- rows ---------------------------------------------------------------------------------------


def _of_lines(name: str, rows: list[FileRow]) -> ToolResults:
    """ToolResults of rows, by the fields of the first."""
    if not rows:
        raise UserError(f"{name}: there is no row in it; give results.")
    first = rows[0]
    if first.has("custom_id") and (first.has("response") or first.has("body")):
        return ToolResults("a batch of OpenAI's form", [*_batch(rows)], batch=True)
    if first.has("doc") and first.has("filtered_resps"):
        return _lm_eval(name, rows)
    if first.has("trace_id") and first.has("request"):
        return _mlflow_traces(name, rows)
    return ToolResults("rows of JSON", rows, _mlflow_scores(list(first.values)))


def _batch(rows: Sequence[FileRow]) -> Iterator[FileRow]:
    """A row for each request of a batch: its messages as source, its answer as output."""
    for row in rows:
        body = "response.body" if row.has("response") else "body"
        choice = row.value(f"{body}.choices.0.message.content")
        messages = row.value(f"{body}.messages") or ()
        values = {
            "example_id": row.identifier("custom_id"),
            "source": said_in(messages) or None,
            "answer": choice,
            "system_id": row.value(f"{body}.model"),
        }
        yield FileRow(values, row.place, row.position)


def _lm_eval(name: str, rows: Sequence[FileRow]) -> ToolResults:
    """Samples of lm-eval: the first request as source, the filtered answer as output; metrics are
    the fields that it names."""
    values = []
    scores: dict[str, None] = {}
    for row in rows:
        metrics = {}
        for metric in row.value("metrics") or ():
            if row.has(metric):
                metrics[metric] = row.value(metric)
        scores |= dict.fromkeys(metrics)
        source = row.value("arguments.gen_args_0.arg_0") or row.value("arguments.0.0")
        values.append(
            {
                "example_id": str(row.value("doc_id")),
                "source": source,
                "output": _first_text(row.value("filtered_resps")),
                **metrics,
            }
        )
    filters = {row.value("filter") for row in rows}
    if len(filters) > 1:
        raise UserError(
            f"{name}: has answers of the filters {', '.join(map(str, sorted(filters)))}, several "
            "of each text; keep the rows of one."
        )
    return ToolResults("samples of lm-eval", _rows(name, "line", values), list(scores))


def _first_text(value: Any) -> str | None:
    """The first text in lists of lists."""
    while isinstance(value, list) and value:
        value = value[0]
    return _text(value)
