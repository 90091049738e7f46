"""A command about one's own file in short, written out: `data.path=FILE human=COLUMN judge=COLUMN`
becomes the settings that it stands for."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import chain
from typing import Any

from judgebench.config.choices import FOLDER, choices
from judgebench.data.rows import FILE_ENDINGS, FileRow, data_files, file_rows, local_path
from judgebench.importing.columns import (
    ROLES,
    Columns,
    LabelRange,
    dimension_of,
    label_range,
    numbers_of,
    quoted,
    table_columns,
    unquoted,
)
from judgebench.runtime.errors import UserError
from judgebench.runtime.secrets import masked_argument

_UNASKED = ("replay", "recorded", "panel")
"""Judges whose answers are known, so that no rubric is needed."""

_FIELDS = {"system": "system_id", "group": "group_id", "id": "example_id", "rater": "rater"}
"""Word of the command line -> the entry of `data.fields`."""


@dataclass
class FullCommand:
    """A command, written out.

    Attributes:
        arguments: of the command line.
        lines: what people are told: the command, and how the file was taken; empty where nothing
            was added.
    """

    arguments: list[str]
    lines: list[str] = field(default_factory=list)


def written_out(arguments: Sequence[str], module: str = "judgebench") -> FullCommand:
    """The command that a short one about one's own file stands for; any other as it is.
    `UserError` where columns cannot be told."""
    given = [_quoted_rubric(argument) for argument in arguments]
    words = {}
    for argument in given:
        if not argument.startswith("-"):
            key, _, value = argument.lstrip("+").partition("=")
            words[key] = value
    # 1. whether it is about one's own file, and anything in it is short
    roles = {role: words[role] for role in ROLES if role in words and role != "judge"}
    named = unquoted(words.get("judge", ""))
    column = bool(named) and named not in choices("judge") and not _several(words["judge"])
    if "data.path" not in words or words.get("data", "jsonl") != "jsonl" or _own_data(words):
        if roles:
            word = next(iter(roles))
            raise UserError(
                f"{word}={roles[word]}: a column of your own file; name the file with "
                "data.path=FILE, and no other data."
            )
        return FullCommand(given)
    kept = [argument for argument in given if argument.partition("=")[0] not in roles]
    rows = _rows(unquoted(words["data.path"]))
    if column and not roles and rows and not any(row.has(named) for row in rows):
        column = False  # a judge that there is not, which Hydra says
    if "data" in words and not roles and not column:
        return FullCommand(given)
    if column:
        roles["judge"] = words["judge"]
        kept = [argument for argument in kept if not argument.startswith("judge=")]
    # 2. how its file is taken, unless its fields are named
    added: list[str] = [] if "data" in words else ["data=jsonl"]
    how: list[str] = []
    if rows and not any(key.startswith("data.fields") for key in words):
        taken, how = _taken(words, roles, rows, column)
        set_already = {argument.partition("=")[0] for argument in kept}
        added += [override for override in taken if override.partition("=")[0] not in set_already]
    if column and module.endswith("calibrate"):
        added += ["assistant=none", "decoding=[greedy]"]
    place = 1 + next(i for i, argument in enumerate(kept) if "data.path=" in argument)
    whole = [*kept[:place], *added, *kept[place:]]
    command = shlex.join(["python", "-m", module, *map(masked_argument, whole)])
    lines = [f"This stands for: {command}"]
    if how:
        lines.append(f"Taken from {words['data.path']}: {'; '.join(how)}.")
    return FullCommand(whole, lines)


def _several(value: str) -> bool:
    """True of values of a sweep."""
    return "," in value and not value.startswith(("'", '"'))


def _quoted_rubric(argument: str) -> str:
    """An argument whose words are quoted as Hydra needs it, if it is a rubric."""
    key, _, value = argument.partition("=")
    if key != "rubric" or value in ("null", "") or value[0] in "'\"":
        return argument
    return f"rubric={quoted(value)}"


def _own_data(words: Mapping[str, str]) -> bool:
    """True where an experiment has data of its own, into which a path goes."""
    file = FOLDER / "exp" / f"{words.get('exp')}.yaml"
    if "data" in words or not file.is_file():
        return False
    chosen = re.search(r"^ *- override /data: (\w+)", file.read_text("utf-8"), re.MULTILINE)
    return chosen is not None and "path:" in (FOLDER / "data" / f"{chosen[1]}.yaml").read_text()


def _rows(path: str) -> list[FileRow]:
    """The rows of a file or folder; none where there is none, which is said elsewhere."""
    place = local_path(path)
    if not place.exists() or (place.is_file() and place.suffix not in FILE_ENDINGS):
        return []
    return list(chain.from_iterable(map(file_rows, data_files(place))))


def _taken(
    words: Mapping[str, str], roles: Mapping[str, str], rows: Sequence[FileRow], answered: bool
) -> tuple[list[str], list[str]]:
    """Overrides for a file's columns, and how each was taken, with what gives another."""
    path = words["data.path"]
    labelled = "labels" not in words  # else people's labels lie in a file of their own
    given = {**roles} if labelled else {"human": "none", **roles}
    columns = table_columns(path, rows, given, either="human" if labelled else "judge")
    if labelled and columns.human is None:
        raise UserError(
            f"{path}: no column looks like people's labels; name it with human=COLUMN, or label "
            "some texts first, as judgebench label FILE out=label.html."
        )
    alone = roles.get("output") == "none"
    if alone and columns.source is None and columns.id is not None:
        names = [row.value(columns.id) for row in rows]
        if not all(isinstance(name, str) for name in names):
            raise UserError(
                f"{path}: no column has texts, and the names in '{columns.id}' are numbers; "
                f"judgebench from {path} writes data of labels alone, and the command."
            )
    asked = not answered and words.get("judge") not in _UNASKED
    if "exp" in words and "judge" not in words:
        asked = False  # whatever the experiment asks has its own rubrics
    # 1. texts
    overrides, how = text_fields(path, columns, asked, alone)
    # 2. people's labels
    ends = None
    if columns.human is not None:
        labels = [row.value(name) for row in rows for name in columns.raters]
        fields, said, dimension = _human(columns, labels, words)
        overrides += fields
        how.append(said)
        ends = label_range(labels)
        if ends is not None and not ends.whole and not ends.worded:
            ends = None  # the scale is what scores span, which the run says
        if ends is not None and not ends.worded and ends.entries != (0, 1):
            overrides.append(f"data.scale={ends}")
            how.append(f"people's scale {ends} (data.scale=[LOW,HIGH])")
        if (
            asked
            and dimension is not None
            and not {"rubric", "prompt", "prompt.rubrics"} & {*words}
        ):
            collection = "summary" if columns.source else "text"
            shipped = files("judgebench.prompts") / "rubrics" / collection / f"{dimension}.txt"
            if not shipped.is_file():
                overrides.append(f"prompt.variants={{{dimension}:overall}}")
                how.append('asked about the text as a whole (rubric="WORDS")')
    # 3. the judge's answers, and the range that they are in
    if answered and columns.judge is not None:
        if columns.rater is not None:
            raise UserError(
                f"{path}: each row is what one rater gave (column '{columns.rater}'), so answers "
                f"of the judge repeat; judgebench from {path} writes a file of each, and the "
                "command. Where it names no rater, give rater=none."
            )
        overrides += answer_fields(path, columns)
        how.append(f"the judge's answers '{columns.judge}' (judge=COLUMN)")
        answers = [row.value(columns.judge) for row in rows]
        ends = judge_range(path, answers, ends, "ranges" in words)
    if not labelled:
        return overrides, how
    if ends is None and "data.classes" in words:
        return [*overrides, f"ranges=[{words['data.classes']}]"], [*how, "the judge says classes"]
    range_overrides, said = range_override(ends)
    return [*overrides, *range_overrides], [*how, said]


def text_fields(
    path: str, columns: Columns, asked: bool, alone: bool
) -> tuple[list[str], list[str]]:
    """Overrides for the columns of texts and of their names, and how they were taken.

    Args:
        asked: True where a model reads the texts.
        alone: True where labels alone count, as there are no texts.
    """
    output = columns.output
    if alone and not asked:
        output = columns.source or columns.id
    if output is None:
        raise UserError(
            f"{path}: no column looks like the judged texts; name it with output=COLUMN, and what "
            "they answer to with source=COLUMN (a path into objects is output=COLUMN.text), or give "
            "output=none where labels of people and judge alone count."
        )
    source = columns.source or output
    entries = {"source": source, "output": output}
    how = [f"texts '{output}' (output=COLUMN)", f"what they answer to '{source}' (source=COLUMN)"]
    if columns.source is None:
        how[1] = "without what they answer to (source=COLUMN)"
    if columns.output is None:
        how[0] = (
            f"labels alone, for no column has the judged texts, called '{output}' (output=COLUMN)"
        )
    for role, entry in _FIELDS.items():
        column = getattr(columns, role)
        if column is not None:
            entries[entry] = column
            how.append(f"{role} '{column}' ({role}=COLUMN)")
    overrides = []
    for entry, column in entries.items():
        if column != entry or entry == "rater":
            overrides.append(f"data.fields.{entry}={quoted(column)}")
    if columns.source is None and asked:
        overrides.append("data.rubrics=text")
    return overrides, how


def _human(
    columns: Columns, labels: Sequence[Any], words: Mapping[str, str]
) -> tuple[list[str], str, str | None]:
    """Overrides for people's labels, how they were taken, and the dimension, None where there are
    several."""
    names = columns.raters
    called = ", ".join(f"'{name}'" for name in names)
    objects = [label for label in labels if isinstance(label, Mapping)]
    if objects and len(names) == 1:
        dimensions = list(dict.fromkeys(chain.from_iterable(objects)))
        overrides = [] if names == ["human"] else [f"data.fields.human={quoted(names[0])}"]
        said = f"people's labels {called} of {', '.join(dimensions)} (human=COLUMN)"
        return overrides, said, dimensions[0] if len(dimensions) == 1 else None
    asked = unquoted(words.get("dimensions", "").strip("[]"))
    dimension = asked if re.fullmatch(r"\w+", asked) else dimension_of(names)
    listed = ", ".join(map(quoted, names))
    entry = f"[{listed}]" if len(names) > 1 else listed
    said = f"people's labels {called} of {dimension} (human=COLUMN, dimensions=[NAME])"
    return [f"data.fields.human={{{dimension}: {entry}}}"], said, dimension


def answer_fields(path: str, columns: Columns) -> list[str]:
    """Overrides for a judge whose answers are a column of the file of texts."""
    name = "null" if columns.id is None else quoted(columns.id)
    overrides = ["judge=replay", f"judge.path={path}"]
    overrides.append(f"judge.fields.text={quoted(str(columns.judge))}")
    if columns.id is not None:
        overrides.append(f"judge.fields.example_id={name}")
    # rows are matched by their names, or their order
    return [*overrides, "judge.fields.group_id=null", "judge.fields.system_id=null"]


def judge_range(
    path: str, answers: Sequence[Any], human: LabelRange | None, named: bool = False
) -> LabelRange | None:
    """The range of a judge's answers: people's, where it holds them; else their own; None where
    they are free texts. `UserError` of scores that are on no usual scale, unless it is `named`."""
    own = label_range(answers)
    scores = numbers_of(answers)
    if own is None and scores and not named:
        raise UserError(
            f"{path}: the judge's scores go from {min(scores):g} to {max(scores):g}, which is no "
            "usual scale; name it with 'ranges=[[LOW,HIGH]]'."
        )
    if own is None or human is None or own.worded or human.worded:
        return own or human
    low, high = own.entries
    least, most = human.entries
    return human if least <= low and high <= most else own


def range_override(ends: LabelRange | None) -> tuple[list[str], str]:
    """The override of a range that labels have, and how it was taken."""
    if ends is None:
        return [], "labels have no plain scale, so the judge's range is 1-5 (ranges=[[LOW,HIGH]])"
    return [f"ranges=[{ends}]"], f"the judge's range {ends}{ends.how} (ranges=[[LOW,HIGH]])"
