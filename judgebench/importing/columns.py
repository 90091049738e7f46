"""Columns of a table: which holds what, by its name and by what stands in it; and the scale that
labels are on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judgebench.data.classes import better_last
from judgebench.data.jsonl import SCALES
from judgebench.data.rows import FileRow
from judgebench.runtime.errors import UserError

ROLES: Mapping[str, Sequence[str]] = {
    "source": (
        "source",
        "article",
        "document",
        "input",
        "inputs",
        "question",
        "prompt",
        "query",
        "request",
        "user_input",
        "instruction",
        "dialogue",
        "context",
        "passage",
    ),
    "output": (
        "output",
        "outputs",
        "summary",
        "response",
        "answer",
        "reply",
        "completion",
        "actual_output",
        "generated_text",
        "prediction",
        "translation",
        "candidate",
        "text",
    ),
    "system": ("system_id", "system", "model", "model_name", "model_id"),
    "group": ("group_id", "group", "doc_id", "document_id", "article_id", "conversation_id"),
    "id": ("example_id", "id", "item_id", "sample_id", "request_id", "custom_id", "uid", "uuid"),
    "rater": ("rater", "rater_id", "annotator", "annotator_id", "worker_id", "labeler"),
    "human": (),
    "judge": (),
}
"""Word of the command line -> names that columns have for it, the likeliest first."""

_HUMAN = re.compile(r"(human|people|person|expert|manual|gold|annotat\w*|labell?er)s?(_\w+)?")
_JUDGE = re.compile(r"(judge|llm|ai|auto|evaluator|grader)(_\w+)?|judge?ment|verdict")
_EITHER = re.compile(
    r"scores?|ratings?|grades?|stars|labels?|quality|pass(ed)?|correct|decision|result"
)
"""Names of labels: of people's, of a judge's, and of one of both."""

_GENERAL = re.compile(
    r"(_?(human|people|expert|gold|manual)|_?(score|rating|grade|label|star)s?|_?(\d+|[a-z]$))+"
)
"""Names of labels that say nothing of what was rated."""

_LONGEST = 40
_MOST = 101
"""Characters of a label in words, and different labels of a column."""


@dataclass(frozen=True)
class Columns:
    """Columns of a table by what they hold; None where it has none.

    Attributes:
        human: one column; or a list, one a rater, as a command line writes it.
    """

    source: str | None = None
    output: str | None = None
    system: str | None = None
    group: str | None = None
    id: str | None = None
    rater: str | None = None
    human: str | None = None
    judge: str | None = None

    @property
    def raters(self) -> list[str]:
        """The columns of people's labels."""
        if self.human is None:
            return []
        if self.human.startswith("[") and self.human.endswith("]"):
            return [unquoted(name) for name in self.human[1:-1].split(",")]
        return [self.human]


def unquoted(word: str) -> str:
    """A word of a command line without blanks and quotation marks around it."""
    word = word.strip()
    if len(word) > 1 and word[0] == word[-1] and word[0] in "'\"":
        return word[1:-1]
    return word


def table_columns(
    file: str, rows: Sequence[FileRow], given: Mapping[str, str], either: str = ""
) -> Columns:
    """The columns of a file's rows; `UserError` where a column that is given is not there, and
    where it cannot be told which of several holds a label.

    Args:
        given: word of the command line -> column, a path into it, or `none`.
        either: `human` or `judge`, whose a column `score` is; empty where that cannot be told.
    """
    # 1. the columns in which something stands
    values: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in row.values.items():
            if value is not None and value != "":
                values.setdefault(name, []).append(value)
    if not rows or not values:
        raise UserError(f"{file}: there is no row in it; give a file with a row for each text.")
    # 2. those that are given
    columns: dict[str, str | None] = {}
    for role, word in given.items():
        columns[role] = None if word in ("none", "null", "") else unquoted(word)
        named = [columns[role]]
        if role == "human":
            named = [*Columns(human=columns[role]).raters]
        for column in named:
            if column is not None and not any(row.has(column) for row in rows):
                raise UserError(
                    f"{role}={word}: {file} has no column '{column}' in which something stands; it "
                    f"has {_listed(values)}."
                )
    # 3. texts and names, by the likeliest name
    plain = {_plain(name): name for name in reversed(list(values))}
    for role, usual in ROLES.items():
        if role in columns:
            continue
        taken = set(columns.values())
        for likely in usual:
            found = plain.get(likely)
            if found is not None and found not in taken and _holds(role, values[found], rows):
                columns[role] = found
                break
    # 4. labels, which a wrong guess would turn into a wrong verdict
    taken = {*columns.values(), *Columns(human=columns.get("human")).raters}
    labels = [name for name in values if name not in taken and is_label(values[name])]
    for role, pattern in (("human", _HUMAN), ("judge", _JUDGE)):
        if role not in columns:
            names = [name for name in labels if pattern.fullmatch(_plain(name))]
            columns[role] = _only(file, role, names)
            labels = [name for name in labels if name not in names]
    # 5. a label of one of both
    unclear = [name for name in labels if _EITHER.fullmatch(_plain(name))]
    missing = [role for role in ("human", "judge") if role not in given and columns[role] is None]
    if unclear and either in missing:
        columns[either] = _only(file, either, unclear)
    elif unclear and missing and not either:
        raise UserError(
            f"{file}: it cannot be told whether people or a judge gave '{unclear[0]}'; give "
            f"human={unclear[0]} or judge={unclear[0]}, and human=none or judge=none where the "
            "file has nothing else of theirs."
        )
    return Columns(**columns)


def _only(file: str, role: str, names: Sequence[str]) -> str | None:
    """The one column that holds labels of a role; `UserError` of several."""
    if len(names) < 2:
        return names[0] if names else None
    several = ""
    if role == "human":
        several = f", or human=[{','.join(names)}] where each is what one person gave"
    raise UserError(
        f"{file}: {_listed(names)} may all be the {role}'s; give {role}={names[0]}{several}."
    )


def _listed(names: Any) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _plain(name: str) -> str:
    """A column's name in small letters, with one line for other signs."""
    words = re.sub(r"([a-z])([A-Z])", r"\1_\2", name)
    return re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")


def _holds(role: str, values: Sequence[Any], rows: Sequence[FileRow]) -> bool:
    """True where values can be what a role needs: texts, names, or a name of its own in each
    row."""
    if role in ("source", "output"):
        return all(isinstance(value, str) for value in values)
    if not all(isinstance(value, str | int) for value in values) or len(values) < len(rows):
        return False
    return role != "id" or len(set(map(str, values))) == len(rows)


# --- labels -------------------------------------------------------------------------------------


def is_label(values: Sequence[Any]) -> bool:
    """True where values are numbers, or a few short words."""
    labels = _singly(values)
    if numbers_of(values):
        return True
    words = {str(label).casefold() for label in labels}
    return len(words) <= min(_MOST, 26) and max(map(len, words), default=_MOST) <= _LONGEST


def _singly(values: Sequence[Any]) -> list[Any]:
    """Labels one by one, where some are a list of raters' or an object."""
    singly: list[Any] = []
    for value in values:
        inner = value
        if isinstance(value, Mapping):
            inner = list(value.values())
        singly += _singly(inner) if isinstance(inner, list) else [inner]
    return [label for label in singly if label is not None and label != ""]


def numbers_of(values: Sequence[Any]) -> list[float]:
    """Labels as numbers; none where one is not a number."""
    numbers = [_number(label) for label in _singly(values)]
    return [] if None in numbers else [number for number in numbers if number is not None]


def _number(label: Any) -> float | None:
    if isinstance(label, bool):
        return None
    try:
        return float(label)
    except (TypeError, ValueError):
        return None


@dataclass(frozen=True)
class LabelRange:
    """A range of labels.

    Attributes:
        entries: the lowest and the highest number, or words, worst first.
        whole: each of its whole numbers, or words, was given and nothing between, so that it is
            plain.
    """

    entries: Sequence[Any]
    whole: bool

    @property
    def worded(self) -> bool:
        return isinstance(self.entries[0], str)

    @property
    def how(self) -> str:
        """A clause on how a range that is not plain was found; empty of one that is."""
        return "" if self.whole else ", the narrowest usual one that holds them"

    def __str__(self) -> str:
        return "[" + ",".join(map(quoted, map(str, self.entries))) + "]"


def label_range(values: Sequence[Any]) -> LabelRange | None:
    """The range of some labels: two words of which it is known which is better, or the narrowest
    usual scale that holds them; None where they are neither.

    Example:
        >>> str(label_range(["Pass", "Fail", "Pass"])), label_range([2, 3, 4, 1, 5]).whole
        ('[Fail,Pass]', True)
    """
    labels = _singly(values)
    different = set(numbers_of(values))
    if different:
        low, high = min(different), max(different)
        holding = [ends for ends in SCALES if ends[0] <= low and high <= ends[1]]
        if not holding:
            return None
        least, most = holding[0]
        return LabelRange(holding[0], different == set(range(least, most + 1)))
    words = [str(label).strip() for label in labels]
    pair = better_last(words)
    return None if pair is None else LabelRange(pair, len(set(words)) > 1)


def dimension_of(names: Sequence[str]) -> str:
    """The dimension that columns of labels are about: the one's own name, if that says one."""
    name = _plain(names[0]) if len(names) == 1 else ""
    if not name or _GENERAL.fullmatch(name) or _EITHER.fullmatch(name):
        return "quality"
    return re.sub(r"^(human|people|expert|gold)_|_(score|rating|label|grade)s?$", "", name)


def quoted(value: str) -> str:
    """A value as Hydra reads it from a command line: in quotation marks where it has other signs
    than names and paths have."""
    if re.fullmatch(r"[A-Za-z0-9_./~+-]+", value) and value.lower() not in (
        "null",
        "true",
        "false",
    ):
        return value
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
