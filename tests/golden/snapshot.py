"""What a run writes and shows, in files that a person can read, and what differs between two of them.

Numbers may differ by 1e-8 of their size, or by 1e-10: processors add up in different orders, and a quantile of an
interval takes that up. All other text must be the same. Masked is what differs between two runs of the same code:
seconds, versions, the commit, the platform. Of a page, rows of tables stand apart from headings, sentences and notes.
"""

import csv
import difflib
import hashlib
import io
import json
import math
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import yaml

from judgebench.runtime.parquet import read_table

RELATIVE, ABSOLUTE = 1e-8, 1e-10
"""Numbers this near to each other are the same; a correlation of 1e-17 is one of 0."""

_WIDTH = 118
_LONGEST = 60
_MASKED = (
    "packages",
    "python",
    "platform",
    "git_commit",
    "git_changed",
    "command",
    "date",
    "seconds",
    "float32_products",
)


def snapshot(folder: Path, printed: str, frozen: str = ".*") -> dict[str, str]:
    """Name -> content of a run's frozen files: those of its run folder that match `frozen`, and what it `printed`."""
    written = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    files = {"files.txt": "\n".join(written) + "\n", "terminal.txt": printed}
    for name in written:
        path = folder / name
        if not re.fullmatch(frozen, name) or path.name == "digests.json":
            continue
        if path.name == "environment.json":
            environment = json.loads(path.read_text("utf-8"))
            files[name] = as_json({key: "masked" if key in _MASKED else value for key, value in environment.items()})
        elif path.suffix == ".json":
            content = json.loads(path.read_text("utf-8"))
            files[name] = as_json(_masked(content) if name == "sweep.json" else content)  # of trials, by the real clock
        elif path.suffix == ".yaml":
            content = _masked(yaml.safe_load(path.read_text("utf-8")))
            if name.startswith("judge_card"):
                content["sha256"] = "masked"  # of all of it, the commit too
            files[f"{name.removesuffix('.yaml')}.json"] = as_json(content)
        elif path.suffix == ".parquet":
            files[name.replace(".parquet", ".csv")] = as_csv(read_table(path))
        elif path.suffix == ".html":
            rows, rest = page_text(path.read_text("utf-8"), folder)
            files |= {name.replace(".html", "_rows.txt"): rows, name.replace(".html", "_words.txt"): rest}
        elif name.startswith("tables/") or path.suffix == ".csv":
            files[name] = path.read_text("utf-8")
    return files


# --- the forms ----------------------------------------------------------------------------------------------------


def as_json(value: Any) -> str:
    """JSON in lines of at most 118 characters where its texts allow that, each object or list on lines of its own."""
    return "\n".join(_json_lines(value)) + "\n"


def _json_lines(value: Any, indent: str = "") -> Iterator[str]:
    whole = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or len(indent + whole) <= _WIDTH:
        yield indent + whole
        return
    named = isinstance(value, dict)
    items = (
        [(f"{json.dumps(key, ensure_ascii=False)}: ", item) for key, item in value.items()]
        if isinstance(value, dict)
        else [("", item) for item in value]
    )
    yield indent + ("{" if named else "[")
    line = ""
    for place, (key, item) in enumerate(items):
        end = "," if place < len(items) - 1 else ""
        text = key + json.dumps(item, ensure_ascii=False) + end
        short = not isinstance(item, dict | list)
        if line and (not short or len(f"{indent} {line} {text}") > _WIDTH):
            yield f"{indent} {line}"
            line = ""
        if short:
            line = f"{line} {text}".strip()
            continue
        first, *rest = _json_lines(item, indent + " ")
        *lines, last = [f"{indent} {key}{first.strip()}", *rest]
        yield from (*lines, last + end)
    if line:
        yield f"{indent} {line}"
    yield indent + ("}" if named else "]")


def as_csv(table: pa.Table) -> str:
    """A Parquet table: types, notes and columns of one value as comments, then the other columns as CSV.

    Texts of more than 60 characters are given by length and SHA-256; an empty cell is null, '' an empty text.
    """
    columns = {name: [_cell(value, kind) for value in table[name].to_pylist()] for name, kind in _kinds(table)}
    constant = {name: set(cells).pop() for name, cells in columns.items() if len(set(cells)) == 1}
    notes = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    lines = [f"# rows: {table.num_rows}", f"# notes: {json.dumps(notes, ensure_ascii=False)}"]
    lines += [
        f"# {name}: {kind}" + (f" = {constant[name]}" if name in constant else "") for name, kind in _kinds(table)
    ]
    varying = [name for name in columns if name not in constant]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(varying)
    writer.writerows(zip(*(columns[name] for name in varying), strict=True))
    return "\n".join(lines) + "\n" + text.getvalue()


def _kinds(table: pa.Table) -> list[tuple[str, pa.DataType]]:
    return list(zip(table.schema.names, table.schema.types, strict=True))


def _cell(value: Any, kind: pa.DataType) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        cells = [_cell(item, kind.value_type) or "null" for item in value]
        return _shortened(" ".join(cells)) if pa.types.is_string(kind.value_type) else " ".join(cells)
    if isinstance(value, float):
        return str(np.float32(value)) if pa.types.is_float32(kind) else repr(value)
    return _shortened(str(value)) or "''"


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST and "\n" not in text:
        return text
    return f"{len(text)} characters, sha256 {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _masked(config: Any) -> Any:
    """A configuration, card or record without the names of classes, which may move, and what varies by code."""
    if isinstance(config, dict):
        return {
            key: "masked" if key in (*_MASKED, "digest", "created") else _masked(value)
            for key, value in config.items()
            if key != "_target_"
        }
    return [_masked(item) for item in config] if isinstance(config, list) else config


_BLOCK = re.compile(
    "p|h[1-6]|li|d[tdl]|[uo]l|div|section|header|footer|main|nav|figure|figcaption|table|caption|thead|tbody|tr|summary|"
    "details|pre|blockquote|title|button|label|option|select|form|fieldset|legend"
)
"""Elements that stand on lines of their own."""


class _Page(HTMLParser):
    """Text of a page: one line for each paragraph, heading and row of a table."""

    SKIPPED = frozenset(("script", "style", "svg", "template"))

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._text: list[str] = []
        self._cells: list[str] | None = None
        self._mark = ""
        self._skipping = 0

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        if tag in self.SKIPPED:
            self._skipping += 1
        elif tag == "br":
            self._text.append(" ")
        elif tag == "tr":
            self._end_line()
            self._cells = []
        elif tag in ("td", "th"):
            self._text = []
        elif _BLOCK.fullmatch(tag) and self._cells is None:
            self._end_line()
            if re.fullmatch("h[1-6]", tag):
                self._mark = "#" * int(tag[1]) + " "
            elif tag == "li":
                self._mark = "- "
        if self._cells is not None and "best" in (given.get("class") or "").split():
            self._text.append("*")

    def handle_endtag(self, tag: str) -> None:
        if tag in self.SKIPPED:
            self._skipping -= 1
        elif tag in ("td", "th") and self._cells is not None:
            self._cells.append(_squeezed("".join(self._text)))
            self._text = []
        elif tag == "tr" and self._cells is not None:
            self.lines.append("| " + " | ".join(self._cells))
            self._cells, self._text = None, []
        elif tag == "pre":
            self.lines += [line for line in "".join(self._text).splitlines() if "_target_:" not in line]
            self._text = []
        elif _BLOCK.fullmatch(tag) and self._cells is None:
            self._end_line(" | " if tag == "dt" else "")

    def handle_data(self, data: str) -> None:
        if not self._skipping:
            self._text.append(data)

    def _end_line(self, end: str = "") -> None:
        if text := _squeezed("".join(self._text)):
            self.lines.append(self._mark + text)
            self._mark = f"{text}{end}" if end else ""
            if end:
                self.lines.pop()
        self._text = []


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def page_text(html: str, folder: Path) -> tuple[str, str]:
    """Rows of the tables of a page, each table under its heading; and all other text of it.

    `*` stands before what is underlined as the best.
    """
    page = _Page()
    page.feed(html)
    environments = [json.loads(file.read_text("utf-8")) for file in sorted(folder.rglob("environment.json"))]
    varying = {"Python", "code", "date", "command"}.union(
        *({*known["seconds"], *known["packages"]} for known in environments)
    )
    rows, words, heading = [], [], ""
    for line in page.lines:
        first, *rest = line.removeprefix("| ").split(" | ")
        if line.startswith("#"):
            heading = line
        if line.startswith("| "):
            rows += [heading] * bool(heading)
            heading = ""
        (rows if line.startswith("| ") else words).append(f"{first} | masked" if rest and first in varying else line)
    return "\n".join(rows) + "\n", "\n".join(words) + "\n"


# --- what differs -------------------------------------------------------------------------------------------------

_NUMBER = re.compile(r"((?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.]))")


def differences(name: str, old: str, new: str) -> list[str]:
    """Where two contents of the frozen file `name` differ: a line for each place, with what was there and what is."""
    if name.endswith(".json"):  # a value a line; keys may stand in any order
        old, new = (json.dumps(json.loads(text), indent=1, sort_keys=True, ensure_ascii=False) for text in (old, new))
    was, now = old.splitlines(), new.splitlines()
    if len(was) == len(now):
        lines = enumerate(zip(was, now, strict=True), 1)
        return [f"line {place}:\n  was {one}\n  is  {other}" for place, (one, other) in lines if not same(one, other)]
    return list(difflib.unified_diff(was, now, "was", "is", lineterm="", n=1))[2:]


def same(old: str, new: str) -> bool:
    """Whether two texts are the same but for numbers that differ by rounding in their last digits."""
    was, now = _NUMBER.split(old), _NUMBER.split(new)
    return was[::2] == now[::2] and all(map(_same_number, was[1::2], now[1::2]))


def _same_number(old: str, new: str) -> bool:
    return math.isclose(float(old), float(new), rel_tol=RELATIVE, abs_tol=ABSOLUTE)
