"""A command about one's own file in short, written out: `data.path=FILE human=COLUMN judge=COLUMN`
becomes the settings that it stands for. One grammar for all commands that read such a file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from judgebench.cards.card import JudgeCard
from judgebench.config.choices import choices
from judgebench.data.rows import FILE_ENDINGS, FileRow, data_files, file_rows, local_path
from judgebench.importing.columns import (
    ROLES,
    Columns,
    Inside,
    LabelRange,
    check_told_apart,
    dimension_of,
    inside,
    judge_clause,
    judge_range,
    label_range,
    people_clause,
    table_columns,
    taken_lines,
)
from judgebench.prompts.rubrics import load_rubrics
from judgebench.runtime.files import user_path
from judgebench.runtime.secrets import masked_argument
from judgebench.runtime.values import (
    as_word,
    carry,
    command_of,
    names_in,
    quoted,
    typed,
    unquoted,
    written,
)
from judgebench.runtime.workbook import sheet_lines
from judgebench.settings.fields import plain
from judgebench.words.errors import UserError

_UNASKED = ("replay", "recorded", "panel")
"""Judges whose answers are known, so that no rubric is needed."""

_TEXTS = ("rubric", "data.path", "judge.path", "card", "out", "rater")
"""Keys whose values are texts, which a user need not quote for Hydra."""

_FIELDS = {
    "source": "source",
    "output": "output",
    "system": "system_id",
    "group": "group_id",
    "id": "example_id",
    "rater": "rater",
    "context": "context",
}
"""Word of the command line -> the entry of `data.fields` that it stands for."""

_LOOKED_AT = 1_000
"""Rows by which columns are told where labels are not looked at, so that a file may be large."""


@dataclass
class _Taken:
    """Overrides, values and lines for people, which a file's columns stand for.

    Attributes:
        choices: overrides that say nothing of the file.
        values: key of the configuration -> its value, which the file may have named.
        how: lines for people.
    """

    choices: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    how: list[str] = field(default_factory=list)

    def add_sheet(self, sheet: str) -> None:
        """Names the sheet of texts, and of answers in the same file."""
        self.values["data.sheet"] = sheet
        if "judge=replay" in self.choices:
            self.values["judge.sheet"] = sheet
        elif "+judge.path" in self.values:
            self.values["+judge.sheet"] = sheet


def written_out(
    arguments: Sequence[str], module: str = "judgebench", config_name: str = "config"
) -> tuple[list[str], list[str]]:
    """The command that a short one about one's own file stands for, any other as it is; and lines
    on it for people, where something was added. `UserError` where columns cannot be told.

    Args:
        config_name: what the command composes: `config`, `gate`, `score` or `label`.
    """
    given = list(map(_with_marks, arguments))
    words = {}
    for argument in given:
        key, _, value = argument.lstrip("+").partition("=")
        if not argument.startswith("-"):
            words[key] = value
    # 1. whether it is about one's own file, and anything in it is short
    roles = {role: words.pop(role) for role in ROLES if role in words and role != "judge"}
    if config_name == "label" and "rater" in roles:  # who labels
        words["rater"] = roles.pop("rater")
    # an experiment has data of its own, and a second look those of a run
    if (
        "data.path" not in words
        or words.get("data", words.get("exp", "jsonl")) != "jsonl"
        or "disagreements" in words
    ):
        for role, column in roles.items():
            raise UserError(
                f"{role}={column}: a column of your own file; name the file with data.path=FILE, "
                "and no other data."
            )
        return given, []
    path = unquoted(words["data.path"])
    sheet = unquoted(words["sheet"]) if "sheet" in words else None
    rows = _rows(path, None if config_name in ("config", "gate") else _LOOKED_AT, sheet)
    word = words.get("judge", "")
    named = any(row.has(name) for row in rows for name in names_in(word))
    is_column = named or (rows and "data" not in words)
    if config_name != "config":
        is_column = not word.startswith("{")
    if word not in ("", *choices("judge")) and (roles or is_column):
        roles["judge"] = words.pop("judge")
    # 2. how its file is taken, unless its fields are named
    short = roles or sheet is not None
    fields_named = any(key.startswith("data.fields") for key in words)
    taken = _Taken()
    if config_name == "config":
        if "data" in words and not short:
            return given, []
        taken.choices.append("data=jsonl")
        if rows and not fields_named:
            _take(taken, path, words, roles, rows)
        if "judge=replay" in taken.choices and module.endswith("calibrate"):
            taken.choices += ["assistant=none", "decoding=[greedy]"]
    elif not rows or fields_named or not (short or _lacks(rows, config_name, words)):
        return given, []
    else:
        _take_for_card(taken, path, words, roles, rows, config_name)
    if sheet is None:
        taken.how += sheet_lines(local_path(path))
    else:
        taken.add_sheet(sheet)
    # 3. the whole command
    whole = _whole_command(given, taken, words, roles)
    shown = map(masked_argument, typed(whole))
    lines = [f"This stands for: {command_of(['python', '-m', *module.split(), *shown])}"]
    if taken.how:
        lines += [f"Taken from {path}:", *(f"  {line}" for line in taken.how)]
    return whole, lines


def _whole_command(
    given: Sequence[str], taken: _Taken, words: Mapping[str, str], roles: Mapping[str, str]
) -> list[str]:
    """The command with all that its short words (`roles`) stand for; what its other `words` say
    stays as they say it."""
    whole = []
    for argument in given:
        if argument.partition("=")[0] not in (*roles, "sheet"):
            whole.append(argument)
        if argument.startswith("data.path="):
            whole += [choice for choice in taken.choices if choice.partition("=")[0] not in words]
    values = {key: value for key, value in taken.values.items() if key.lstrip("+") not in words}
    if not values:
        return whole
    return carry(
        whole,
        values,
        [_with_marks(argument, (*ROLES, "sheet")) for argument in given],
    )


def _with_marks(argument: str, keys: Sequence[str] = _TEXTS) -> str:
    """An argument whose text stands in quotation marks, where it has one that needs them."""
    key, equals, value = argument.partition("=")
    if not equals or key.lstrip("+") not in keys or value[:1] in ("", "'", '"', "["):
        return argument
    if value in ("null", "none"):
        return argument
    # what some values refer to is Hydra's own, as of a sweep
    return f"{key}={quoted(value)}"


def _rows(path: str, most: int | None = None, sheet: str | None = None) -> list[FileRow]:
    """The rows of a file or folder, or the first; none where there is none, which is said
    elsewhere."""
    place = local_path(path)
    if (place.suffix not in FILE_ENDINGS and not place.is_dir()) or not place.exists():
        return []
    rows = (file_rows(file, sheet) for file in data_files(place))
    return list(islice(chain.from_iterable(rows), most))


def _lacks(rows: Sequence[FileRow], config_name: str, words: Mapping[str, str]) -> bool:
    """True of rows without a field that is read where none is named."""
    fields = ["source", "output"]
    if config_name == "gate" and "labels" not in words:
        fields.append("human")
    return any(not any(row.has(name) for row in rows) for name in fields)


def _texts(columns: Columns) -> Iterator[tuple[str, Any]]:
    """Keys of `data.fields` of texts and of their names, with the column of each."""
    for role, entry in _FIELDS.items():
        column = getattr(columns, role)
        if role == "source":
            column = column or columns.output
        if role == "context":
            column = list(columns.context) or None
        if column not in (None, entry) or (role == "rater" and column):
            yield f"data.fields.{entry}", column


def _take_labels(
    taken: _Taken,
    path: str,
    columns: Columns,
    rows: Sequence[FileRow],
    dimension: str,
    asked: Sequence[str] = (),
    remedy: str = "",
) -> tuple[list[Any], Inside]:
    """Takes the columns of people's labels, which are of a dimension, or hold those that are
    `asked` for or are there; the labels, and what is inside them."""
    labels = [row.value(name) for row in rows for name in columns.human]
    check_told_apart(path, columns, labels, remedy)
    objects = inside(labels, asked)
    first = next(iter(columns.human), "human")
    human: Any = [*columns.human] if len(columns.human) > 1 else first
    if objects.dimensions and any(isinstance(label, str) for label in labels):
        human = {name: f"{first}.{name}" for name in objects.dimensions}  # objects as JSON text
    elif not objects.dimensions:
        human = {dimension: human}
    if columns.human and human != "human":
        taken.values["data.fields.human"] = human
    return labels, objects


# --- a run --------------------------------------------------------------------------------------


def _take(
    taken: _Taken,
    path: str,
    words: Mapping[str, str],
    roles: Mapping[str, str],
    rows: Sequence[FileRow],
) -> None:
    """Takes a file's columns for a run: its texts, labels, ranges, and its judge or rubric."""
    labelled = "labels" not in words  # else people's labels lie in a file of their own
    unnamed = {} if labelled else {"human": "none"}
    if "judge" in words or "exp" in words:  # one of conf/judge
        unnamed["judge"] = "none"
    columns = table_columns(path, rows, {**unnamed, **roles}, "human")
    if labelled:
        _check_labelled(path, columns)
    if columns.judge is None and not {"judge", "exp", "human"} & {*words, *roles}:
        _check_giver(path, columns)
    # 1. texts and names
    taken.values |= dict(_texts(columns))
    # 2. people's labels, and their scale where it is plain
    one = unquoted(words.get("dimensions", "").strip("[]"))
    if not re.fullmatch(r"\w+", one):
        one = dimension_of(columns.human)
    asked = names_in(words.get("dimensions", "none"))
    better = "" if "data.classes" in words else "give 'data.classes=[WORST,BEST]'"
    labels, objects = _take_labels(taken, path, columns, rows, one, asked, better)
    dimensions = [*objects.dimensions] or [one]
    human = _range_of(labels, words.get("data.scale", "none"))
    if human is not None and human.graded:
        taken.values["data.scale"] = list(human.entries)
    # 3. the judge: its answers, or its rubric
    answers = []
    if columns.judge is not None:
        _take_answers(taken, path, columns)
        answers = [row.value(columns.judge) for row in rows if row.has(columns.judge)]
    elif words.get("judge") not in _UNASKED and ("judge" in words or "exp" not in words):
        if columns.source is None:
            taken.choices.append("data.rubrics=text")
        if "rubric" not in words:
            # a dimension without a rubric is asked about the text as a whole
            try:
                load_rubrics("summary" if columns.source else "text", dimensions)
            except UserError as error:
                taken.values |= error.give
    # 4. the range
    ranges = words.get("ranges")
    if ranges is None and "data.classes" in words:
        ranges = f"[{words['data.classes']}]"
        if labelled or answers:
            taken.choices.append(f"ranges={ranges}")
    if ranges is not None or not (labelled or answers):
        found = (ranges or "[[1,5]]").removeprefix("[").removesuffix("]")
    else:
        ends, how = judge_range(path, answers, human)
        found = f"{written(list(ends))}{how}"
        taken.values["ranges"] = [list(ends)]
    # 5. how it was taken, of what no override says otherwise
    people = f"labels={words.get('labels')}"
    if labelled:
        known = "data.classes" in words or "data.scale" in words
        people = people_clause(columns, ", ".join(dimensions), None if known else human, objects)
    judge = judge_clause(columns, found)
    if columns.judge is None:
        judge = (
            f"judge={words.get('judge', 'smollm2')}, range {found} "
            "(judge=COLUMN of its answers, 'ranges=[[WORST,BEST]]')"
        )
    taken.how += taken_lines(columns, people, judge)


def _range_of(labels: Sequence[Any], scale: str) -> LabelRange | None:
    """The range of labels, as the command says it or they do; None where it is only what scores
    span, which the run says."""
    human = label_range(labels)
    with suppress(ValueError):
        given = [*map(json.loads, names_in(scale))]
        human = LabelRange(given, True) if len(given) == 2 else human
    return human if human and human.whole else None


def _take_answers(taken: _Taken, path: str, columns: Columns) -> None:
    """Takes the judge's column, and that of its reasons: its answers are read from the file."""
    _check_once(path, columns)
    taken.choices.append("judge=replay")
    values = taken.values
    values["judge.path"] = path
    for entry, name in _answers(columns).items():
        if name != entry:
            values[f"judge.fields.{entry}"] = name
    values["judge.title"] = columns.judge
    if columns.reason is not None:
        values["data.fields.reason"] = columns.reason


def _answers(columns: Columns) -> dict[str, Any]:
    """The fields of a judge's answers in the file of the texts."""
    names = {"example_id": columns.id or "example_id", "group_id": None, "system_id": None}
    # rows are matched by their names, or their order
    return {"text": columns.judge, **names}


def _check_labelled(path: str, columns: Columns) -> None:
    if not columns.human:
        page = command_of(["judgebench", "label", path, "out=label.html"])
        raise UserError(
            f"{path}: no column looks like people's labels; name it with human=COLUMN, or label "
            f"some texts first, as {page}."
        )


def _check_once(path: str, columns: Columns) -> None:
    if columns.rater is not None:
        raise UserError(
            f"{path}: each row is what one rater gave (column '{columns.rater}'), so answers "
            f"of the judge repeat; judgebench from {as_word(path)} writes a file of each, and the "
            "command. Where it names no rater, give rater=none."
        )


def _check_giver(path: str, columns: Columns) -> None:
    """Asks whether people or a judge gave a column that both may have filled, with a command for
    each answer."""
    given = (*columns.human, *columns.unused)
    name = next((name for name in given if re.fullmatch(r"(?i)scores?|labels?", name)), None)
    if name is None:
        return
    people = columns.human[0] if columns.human and name not in columns.human else "COLUMN"
    run = ["python", "-m", "judgebench", f"data.path={quoted(path)}"]
    by_people = command_of([*run, f"human={quoted(name)}"])
    by_judge = command_of([*run, f"human={quoted(people)}", f"judge={quoted(name)}"])
    page = command_of(["judgebench", "label", path, "out=label.html"])
    raise UserError(
        f"{path}: it cannot be told whether people or a judge gave '{name}'. Where people did: "
        f"{by_people}. Where a judge did: {by_judge}; without a column of people's, label some "
        f"texts first by {page}, and give labels=labels_NAME.jsonl in place of human=."
    )


# --- a card, and a page for labels --------------------------------------------------------------


def _take_for_card(
    taken: _Taken,
    path: str,
    words: Mapping[str, str],
    roles: Mapping[str, str],
    rows: Sequence[FileRow],
    config_name: str,
) -> None:
    """Takes a file's columns where a card, or a page, has all else: texts and their names, the
    labels of a gate, and a judge's answers."""
    labelled = config_name == "gate" and "labels" not in words
    unnamed = {"judge": "none"} if labelled else {"human": "none", "judge": "none"}
    kept = {**roles} if labelled else {**roles, "human": "none"}
    if config_name != "gate":
        kept |= {"rater": "none"}
    if config_name == "label":  # labellers see what they are asked to see
        unnamed |= {"context": "none", "reason": "none"}
    columns = table_columns(path, rows, {**unnamed, **kept}, "human")
    taken.values |= dict(_texts(columns))
    if config_name == "label" and columns.reason is not None:
        taken.values["data.fields.reason"] = columns.reason
    # 1. labels, of what the card is about
    card = None
    if "card" in words:
        with suppress(UserError):  # which the command says
            card = JudgeCard.read(user_path(unquoted(words["card"])))
    if labelled:
        _check_labelled(path, columns)
        dimension = card.dimension if card else dimension_of(columns.human)
        _take_labels(taken, path, columns, rows, dimension)
    # 2. the judge's answers
    if columns.judge is not None and config_name != "label":
        _check_once(path, columns)
        if card and not card.replayed:
            raise UserError(
                f"judge={roles['judge']}: the card's judge reads texts itself; leave it out, or "
                "name the card of a judge whose answers are a file."
            )
        taken.values["+judge.path"] = path
        taken.values["+judge.fields"] = _answers(columns)
    people = people_clause(columns, "the card's dimension", None)
    answered = columns.judge or ("none" if config_name == "label" else "the card's own")
    taken.how += taken_lines(columns, people, f"{answered} (judge=COLUMN)")


def file_words(config: DictConfig, labelled: bool = True) -> list[str]:
    """The words for the file and the columns that a composed configuration reads, which every
    command takes; of labels where they are asked for (`labelled`)."""
    data = plain(config.data)
    path = data.get("path")
    fields = data.get("fields") or {}
    if not path or "labels" not in data:  # no file of one's own
        return ["data.path=FILE"]
    words = {}
    # 1. texts and labels
    for role, entry in _FIELDS.items():
        column = fields.get(entry)
        if column not in (None, entry) or (role == "rater" and column and labelled):
            words[role] = column
    if fields.get("source") == fields.get("output"):
        words["source"] = "none"
    human = fields.get("human")
    if labelled and not config.get("labels") and human != "human":
        words["human"] = next(iter(human.values())) if isinstance(human, dict) else human
    # 2. the judge's answers
    judge = plain(config.get("judge")) or {}
    answers = judge.get("path") if "text" in (judge.get("fields") or {}) else None
    shown = [f"data.path={quoted(path)}"]
    if answers == path:
        words["judge"] = judge["fields"]["text"]
    elif answers:
        shown.append(f"+judge.path={quoted(answers)}")
    for role, column in words.items():
        text = column if role == "source" and column == "none" else written(column)
        if role == "judge" and text in choices(role):  # a column, and not that
            text = f"'{text}'"
        shown.append(f"{role}={text}")
    # 3. what the labels are
    for key in ("classes", "pass_from") if labelled else ():
        if data.get(key) is not None:
            shown.append(f"data.{key}={written(data[key])}")
    labels = config.get("labels") if labelled else None
    return [*shown, *([f"labels={written(plain(labels))}"] if labels else [])]


def score_command(config: DictConfig, card: Path) -> str:
    """The command that scores the texts of a composed configuration's file by a card."""
    words = [*card_words(config, card), *file_words(config, labelled=False), "out=scores.jsonl"]
    return command_of(["python", "-m", "judgebench", "score", *words])


def card_words(config: DictConfig, card: Path) -> list[str]:
    """The arguments by which a command takes a card; that of a class of the user's own is
    trusted."""
    target = str(config.judge.get("_target_", "judgebench."))
    trusted = config.get("trust_judge") or not target.startswith("judgebench.")
    return [f"card={quoted(str(card))}", *(["trust_judge=true"] if trusted else [])]
