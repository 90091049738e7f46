"""A command about one's own file in short, written out: `data.path=FILE human=COLUMN judge=COLUMN`
becomes the settings that it stands for."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from itertools import chain

from judgebench.config.choices import choices
from judgebench.data.rows import FILE_ENDINGS, FileRow, data_files, file_rows, local_path
from judgebench.importing.columns import (
    ROLES,
    LabelRange,
    check_told_apart,
    dimension_of,
    inside,
    judge_clause,
    judge_range,
    label_range,
    people_clause,
    quoted,
    table_columns,
    taken_lines,
    unquoted,
)
from judgebench.prompts.rubrics import load_rubrics
from judgebench.runtime.errors import UserError
from judgebench.runtime.secrets import masked_argument
from judgebench.runtime.workbook import sheet_lines

_UNASKED = ("replay", "recorded", "panel")
"""Judges whose answers are known, so that no rubric is needed."""


def written_out(
    arguments: Sequence[str], module: str = "judgebench"
) -> tuple[list[str], list[str]]:
    """The command that a short one about one's own file stands for, any other as it is; and lines
    on it for people, where something was added. `UserError` where columns cannot be told."""
    given = list(arguments)
    words = {}
    for i, argument in enumerate(given):
        key, _, value = argument.lstrip("+").partition("=")
        texts = ("rubric", "data.path", "judge.path")
        if key in texts and value[:1] not in ("", "'", '"', "[") and value != "null":
            given[i] = f"{key}={quoted(value)}"
        if not argument.startswith("-"):
            words[key] = value
    # 1. whether it is about one's own file, and anything in it is short
    roles = {role: words.pop(role) for role in ROLES if role in words and role != "judge"}
    # an experiment has data of its own
    if "data.path" not in words or words.get("data", words.get("exp", "jsonl")) != "jsonl":
        for role, column in roles.items():
            raise UserError(
                f"{role}={column}: a column of your own file; name the file with data.path=FILE, "
                "and no other data."
            )
        return given, []
    sheet = unquoted(words["sheet"]) if "sheet" in words else None
    rows = _rows(unquoted(words["data.path"]), sheet)
    judge = unquoted(words.get("judge", ""))
    is_column = any(row.has(judge) for row in rows) or (rows and "data" not in words)
    if judge not in ("", *choices("judge")) and (roles or is_column):
        roles["judge"] = words.pop("judge")
    if "data" in words and not roles and sheet is None:
        return given, []
    # 2. how its file is taken, unless its fields are named
    added = ["data=jsonl"]
    how: list[str] = []
    if rows and not any(key.startswith("data.fields") for key in words):
        overrides, how = _taken(words, roles, rows)
        added += overrides
    if "judge=replay" in added and module.endswith("calibrate"):
        added += ["assistant=none", "decoding=[greedy]"]
    # 3. the whole command
    whole = []
    if sheet is not None:
        added.append(f"data.sheet={quoted(sheet)}")
        added += [f"judge.sheet={quoted(sheet)}"] if "judge=replay" in added else []
    else:
        how += sheet_lines(local_path(unquoted(words["data.path"])))
    for argument in given:
        key = argument.partition("=")[0]
        if key not in (*roles, "sheet"):
            whole.append(argument)
        if key == "data.path":
            whole += [override for override in added if override.partition("=")[0] not in words]
    command = shlex.join(["python", "-m", module, *map(masked_argument, whole)])
    lines = [f"This stands for: {command}"]
    if how:
        lines += [f"Taken from {words['data.path']}:", *(f"  {line}" for line in how)]
    return whole, lines


def _rows(path: str, sheet: str | None = None) -> list[FileRow]:
    """The rows of a file or folder; none where there is none, which is said elsewhere."""
    place = local_path(path)
    if (place.suffix not in FILE_ENDINGS and not place.is_dir()) or not place.exists():
        return []
    return list(chain.from_iterable(file_rows(file, sheet) for file in data_files(place)))


def _taken(
    words: Mapping[str, str], roles: Mapping[str, str], rows: Sequence[FileRow]
) -> tuple[list[str], list[str]]:
    """Overrides for a file's columns, and how each was taken."""
    path = words["data.path"]
    labelled = "labels" not in words  # else people's labels lie in a file of their own
    unnamed = {} if labelled else {"human": "none"}
    if "judge" in words or "exp" in words:  # one of conf/judge
        unnamed["judge"] = "none"
    columns = table_columns(path, rows, {**unnamed, **roles}, "human")
    if labelled and not columns.human:
        raise UserError(
            f"{path}: no column looks like people's labels; name it with human=COLUMN, or label "
            "some texts first, as judgebench label FILE out=label.html."
        )
    # a column that people may have filled as well as a judge
    if columns.judge is None and not {"judge", "exp", "human"} & {*words, *roles}:
        for name in (*columns.human, *columns.unused):
            if re.fullmatch(r"(?i)scores?|labels?", name):
                people = columns.human if name not in columns.human else ["COLUMN"]
                run = f"python -m judgebench data.path={path}"
                raise UserError(
                    f"{path}: it cannot be told whether people or a judge gave '{name}'. Where "
                    f"people did: {run} human={quoted(name)}. Where a judge did: {run} "
                    f"human={people[0]} judge={quoted(name)}; without a column of people's, label "
                    f"some texts first by judgebench label {path} out=label.html, and give "
                    "labels=labels_NAME.jsonl in place of human=."
                )
    # 1. texts and names
    overrides = []
    entries: dict[str, str | None] = {
        "source": columns.source or columns.output,
        "output": columns.output,
    }
    entries |= {"system_id": columns.system, "group_id": columns.group, "example_id": columns.id}
    for entry, column in entries.items():
        if column not in (None, entry):
            overrides.append(f"data.fields.{entry}={quoted(str(column))}")
    if columns.rater is not None:
        overrides.append(f"data.fields.rater={quoted(columns.rater)}")
    if columns.context:
        overrides.append(f"data.fields.context=[{', '.join(map(quoted, columns.context))}]")
    if columns.reason is not None and columns.judge is not None:
        overrides.append(f"data.fields.reason={quoted(columns.reason)}")
    # 2. people's labels, and their scale where it is plain
    labels = [row.value(name) for row in rows for name in columns.human]
    typed = unquoted(words.get("dimensions", "").strip("[]"))
    held = inside(labels, [unquoted(name) for name in typed.split(",")])
    dimension = typed if re.fullmatch(r"\w+", typed) else dimension_of(columns.human)
    if held.dimensions:
        dimension = ", ".join(held.dimensions)
        paths = {name: f"{columns.human[0]}.{name}" for name in held.dimensions}
        if any(isinstance(label, str) for label in labels):  # objects as JSON text
            pairs = [f"{quoted(name)}: {quoted(path)}" for name, path in paths.items()]
            overrides.append(f"data.fields.human={{{', '.join(pairs)}}}")
        elif columns.human != ["human"]:
            overrides.append(f"data.fields.human={quoted(columns.human[0])}")
    elif columns.human:
        listed = ", ".join(map(quoted, columns.human))
        entry = f"[{listed}]" if len(columns.human) > 1 else listed
        overrides.append(f"data.fields.human={{{dimension}: {entry}}}")
    better = "" if "data.classes" in words else "give 'data.classes=[WORST,BEST]'"
    check_told_apart(path, columns, labels, better)
    human = label_range(labels)
    number = r"\s*(-?\d+(?:\.\d+)?)\s*"
    if given_ends := re.fullmatch(rf"\[{number},{number}\]", words.get("data.scale", "")):
        human = LabelRange([json.loads(end) for end in given_ends.groups()], True)
    if human is not None and not human.whole:
        human = None  # the scale is what scores span, which the run says
    if human is not None and human.graded:
        overrides.append(f"data.scale={human}")
    # 3. the judge: its answers, or its rubric
    answers = []
    if columns.judge is not None:
        if columns.rater is not None:
            raise UserError(
                f"{path}: each row is what one rater gave (column '{columns.rater}'), so answers "
                f"of the judge repeat; judgebench from {path} writes a file of each, and the "
                "command. Where it names no rater, give rater=none."
            )
        answers = [row.value(columns.judge) for row in rows if row.has(columns.judge)]
        overrides += ["judge=replay", f"judge.path={path}"]
        overrides.append(f"judge.fields.text={quoted(columns.judge)}")
        overrides.append(f"judge.title={quoted(columns.judge)}")
        if columns.id is not None:
            overrides.append(f"judge.fields.example_id={quoted(columns.id)}")
        # rows are matched by their names, or their order
        overrides += ["judge.fields.group_id=null", "judge.fields.system_id=null"]
    elif words.get("judge") not in _UNASKED and ("judge" in words or "exp" not in words):
        collection = "summary" if columns.source else "text"
        if columns.source is None:
            overrides.append("data.rubrics=text")
        if "rubric" not in words:
            # a dimension without a rubric is asked about the text as a whole
            try:
                load_rubrics(collection, [dimension])
            except UserError as error:
                overrides += error.give
    # 4. the range
    named = words.get("ranges")
    if named is None and "data.classes" in words:
        named = f"[{words['data.classes']}]"
    if named is not None or not (labelled or answers):
        judged = named or "[[1,5]]"
        found = judged.removeprefix("[").removesuffix("]")
    else:
        ends, how = judge_range(path, answers, human)
        judged, found = f"[{ends}]", f"{ends}{how}"
    # 5. how it was taken, of what no override says otherwise
    people = people_clause(columns, dimension, human, held)
    if not labelled:
        people = f"labels={words['labels']}"
    elif "data.classes" in words or "data.scale" in words:
        people = people_clause(columns, dimension, None, held)
    judge = judge_clause(columns, found)
    if columns.judge is None:
        judge = (
            f"judge={words.get('judge', 'smollm2')}, range {found} "
            "(judge=COLUMN of its answers, 'ranges=[[WORST,BEST]]')"
        )
    if (labelled or answers) and "ranges" not in words:
        overrides.append(f"ranges={judged}")
    return overrides, taken_lines(columns, people, judge)
