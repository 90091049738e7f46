"""Columns of a table: which holds what, by its name and by what stands in it; and the scale that
labels are on."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judgebench.data.classes import better_last
from judgebench.data.dialogues import BEFORE, PARTS, REPLY, WHOLE, turns_of
from judgebench.data.fields import plain_name, usual_name
from judgebench.data.jsonl import SCALES
from judgebench.data.rows import FileRow, by_rater, in_words
from judgebench.importing.names import (
    BAD,
    EITHER,
    GENERAL,
    HUMAN,
    JUDGE,
    MODEL,
    MORE,
    NAMES,
    NO_LABEL,
    QUALITY,
    STEM,
    TEXTS,
    listed,
)
from judgebench.importing.preferences import pair_of, preference_columns
from judgebench.runtime.parsing import opened
from judgebench.runtime.values import as_word, command_of, names_in, quoted, written
from judgebench.words.errors import UserError

ROLES = (*TEXTS, *NAMES, *MORE, "human", "judge")
"""Words of the command line for what columns hold."""

_LONGEST = 40
_MOST = 26
_PROBED = 20
"""Characters of a label in words, different words of a column, and rows that are looked at."""


@dataclass(frozen=True)
class Columns:
    """Columns of a table by what they hold; None where it has none.

    Attributes:
        output: the texts; where there are none, what stands for them.
        human: one column, or one a rater; empty where nobody gave a label.
        unused: columns that nothing is taken from.
        context: further texts that the judged one may draw on, as a policy or a reference.
        reason: why the judge judged so.
        unique: a column that could be `id`, where there is none.
    """

    output: str
    human: Sequence[str]
    unused: Sequence[str] = ()
    context: Sequence[str] = ()
    reason: str | None = None
    unique: str | None = None
    source: str | None = None
    system: str | None = None
    group: str | None = None
    id: str | None = None
    rater: str | None = None
    judge: str | None = None


def table_columns(
    file: str, rows: Sequence[FileRow], given: Mapping[str, str], either: str = ""
) -> Columns:
    """The columns of a file's rows; `UserError` where a column that is given is not there, or it
    cannot be told which holds the texts or a label.

    Args:
        given: word of the command line -> column, a path into it, a list of them, or `none`.
        either: `human` or `judge`, whose a column `score` is; empty where that cannot be told.
    """
    table = _Table(file, rows, columns_held(rows))
    if not table.values:
        raise UserError(f"{file}: there is no row in it; give a file with a row for each text.")
    chosen = table.given(given)
    table.add_texts(chosen)
    table.add_dialogues(chosen, given)
    table.add_named(chosen)
    table.add_labels(chosen, given, either)
    # what stands for texts where there are none
    if given.get("output") == "none":
        chosen["output"] = chosen.get("source") or chosen.get("id") or []
    if not chosen.get("output"):
        raise table.without_texts(chosen)
    taken = [name for names in chosen.values() for name in names]
    unused = []
    for name in table.values:
        if not any(f"{each}.".startswith(f"{name}.") for each in taken):
            unused.append(name)
    single = {
        role: names[0]
        for role, names in chosen.items()
        if names and role not in ("human", "context")
    }
    return Columns(
        human=chosen["human"],
        context=chosen.get("context", ()),
        unused=unused,
        unique=None if "id" in single else table.unique(unused),
        **single,
    )


def columns_held(rows: Sequence[FileRow]) -> dict[str, list[Any]]:
    """Column -> what stands in it, of cells that are not empty."""
    values: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in row.values.items():
            if value not in (None, "") and value == value:
                values.setdefault(name, []).append(value)
    return values


Chosen = dict[str, Sequence[str]]
"""Role -> its columns."""


@dataclass(frozen=True)
class _Table:
    """A file's rows, and what stands in each column.

    Each method adds to the columns that are `chosen` already.
    """

    file: str
    rows: Sequence[FileRow]
    values: Mapping[str, Sequence[Any]]

    def given(self, given: Mapping[str, str]) -> Chosen:
        """Columns that are given by name; `UserError` of one that is not there."""
        chosen: Chosen = {}
        for role, word in given.items():
            chosen[role] = names_in(word)
            for name in chosen[role]:
                if not any(row.has(name) for row in self.rows):
                    raise UserError(
                        f"{role}={word}: {self.file} has no column '{name}' in which something "
                        f"stands; it has {listed(self.values)}."
                    )
        return chosen

    def add_texts(self, chosen: Chosen) -> None:
        """Texts, by their usual names."""
        for role, usual in TEXTS.items():
            for likely in usual.split():
                name = self._usual(chosen, role, likely, lambda held: _all_are(str, held))
                if name and not self._is_dialogue(name):
                    chosen[role] = [name]

    def add_dialogues(self, chosen: Chosen, given: Mapping[str, str]) -> None:
        """Of a column of messages that is given, or that has the texts where no other has, the last
        reply, and what came before it; of one that a text answers to, the whole."""
        chats = [name for name in self.values if self._is_dialogue(name)]
        # 1. of columns that are named
        for role, part in (("output", REPLY), ("source", WHOLE)):
            name = next(iter(chosen.get(role, ())), "")
            if self._is_dialogue(name):
                chosen[role] = [f"{name}.{part}"]
        # 2. the only one
        if "output" not in chosen and len(chats) == 1:
            chosen["output"] = [f"{chats[0]}.{REPLY}"]
        column, _, part = next(iter(chosen.get("output", ())), "").rpartition(".")
        before = f"{column}.{BEFORE}"
        others = [name for name in chats if name != column]
        if "source" in given:
            return
        if part == REPLY and any(row.has(before) for row in self.rows):
            chosen["source"] = [before]
        elif "source" not in chosen and others and "output" in chosen:
            chosen["source"] = [f"{others[0]}.{WHOLE}"]

    def add_named(self, chosen: Chosen) -> None:
        """Names of a text, of which each text may need its own, and what else is known."""
        rows = len(self.rows)
        for role, usual in NAMES.items():

            def fits(held: Sequence[Any], single: bool = role == "id") -> bool:
                whole = len(held) == rows and _all_are(str | int, held)
                return whole and (not single or len(set(held)) == rows)

            if name := self._usual(chosen, role, usual, fits):
                chosen[role] = [name]
        for role, usual in MORE.items():
            found = []
            for likely in usual.split():
                often = likely in ("context", "policy")

                def is_text(held: Sequence[Any], often: bool = often) -> bool:
                    repeats = is_label(held) and 2 * len(set(map(str, held))) <= len(held)
                    return _all_are(str, held) and (often or not repeats)

                name = self._usual(chosen, role, likely, is_text)
                found += [name] if name else []
            if role not in chosen:
                chosen[role] = found if role == "context" else found[:1]

    def add_labels(self, chosen: Chosen, given: Mapping[str, str], either: str) -> None:
        """Labels, which a wrong guess would turn into a wrong verdict; see `table_columns`."""
        free = [name for name in self.values if name not in _taken(chosen)]
        reasons = MORE["reason"].split()
        free = [name for name in free if plain_name(name) not in reasons]
        labels = [name for name in free if is_label(self.values[name])]
        unclear = [name for name in labels if EITHER.fullmatch(plain_name(name))]
        for role, pattern in (("human", HUMAN), ("judge", JUDGE)):
            fitting = [name for name in labels if pattern.fullmatch(plain_name(name))]
            if role == "human":  # a list of people is theirs, whatever it is called
                fitting += [n for n in unclear if _is_of_people(self.values[n][0])]
            if role == either and not fitting:
                fitting = unclear
            if role in chosen:
                continue
            if role == "human" and not fitting:
                self._check_stems(labels, unclear)
            if len(fitting) > 1:
                raise self._several(role, fitting, fitting is unclear)
            if not fitting and unclear and not either:
                raise UserError(
                    f"{self.file}: it cannot be told whether people or a judge gave "
                    f"'{unclear[0]}'; give {_word('human', unclear[0])} or "
                    f"{_word('judge', unclear[0])}, and "
                    "human=none or judge=none where the file has nothing else of theirs."
                )
            chosen[role] = fitting
            labels = [name for name in labels if name not in fitting]
            unclear = [name for name in unclear if name not in fitting]
        for name in chosen["human"]:
            for row in self.rows:
                label = row.value(name)
                if isinstance(label, str) and label.strip().casefold() in NO_LABEL:
                    raise UserError(
                        f"{row.place}: {label!r} stands among people's labels in '{name}'; leave "
                        "the cell empty where there is no label."
                    )

    def without_texts(self, chosen: Chosen) -> UserError:
        """The mistake where no column has the judged texts, with what may be meant."""
        chats = [name for name in self.values if self._is_dialogue(name)]
        if chats:
            return UserError(
                f"{self.file}: {listed(chats)} are dialogues; name the one whose last reply is "
                f"judged with {_word('output', chats[0])}; {_word('output', f'{chats[0]}.{WHOLE}')} judges all of it."
            )
        lists = [name for name, held in self.values.items() if isinstance(held[0], list)]
        if lists:
            return UserError(
                f"{self.file}: '{lists[0]}' is a list; name what of it is judged, and what that "
                f"answers to, as {_word('output', f'{lists[0]}.-1.content')} "
                f"{_word('source', f'{lists[0]}.-2.content')} for "
                "the last message of a chat and the one before."
            )
        if pair := pair_of(self.values):
            return self._pairs(pair, chosen)
        return UserError(
            f"{self.file}: none of its columns ({listed(self.values)}) looks like the judged "
            "texts; name it with output=COLUMN, which may be a path into objects, as "
            "output=answer.text, or give output=none where labels of people and judge alone count."
        )

    def unique(self, names: Sequence[str]) -> str | None:
        """The first of some columns that has a short name of its own for each row."""
        for name in names:
            held = self.values[name]
            if len(held) < len(self.rows) or not _all_are(str | int, held):
                continue
            words = [str(value) for value in held]
            short = all(" " not in word for word in words)
            short = short and max(map(len, words), default=0) <= _LONGEST
            decimals = any(re.fullmatch(r"-?\d*[.,]\d+", word) for word in words)
            differ = len(set(words)) == len(words)
            if differ and short and not decimals:
                return name
        return None

    def _usual(
        self, chosen: Chosen, role: str, usual: str, fits: Callable[[Sequence[Any]], bool]
    ) -> str | None:
        """The first column with a usual name that fits, and that nothing is taken from."""
        if role in chosen:
            return None
        return usual_name(self.values, usual, fits, _taken(chosen))

    def _is_dialogue(self, name: str) -> bool:
        """True of a column, or a path, whose values are lists of messages."""
        if name.rpartition(".")[2] in PARTS:
            return False
        values = filter(None, (row.value(name) for row in self.rows[:_PROBED])) if name else ()
        turns = [turns_of(value) for value in values]
        return bool(turns) and None not in turns

    def _several(self, role: str, fitting: Sequence[str], unclear: bool) -> UserError:
        first, second = fitting[:2]
        several = f", or {_word('human', fitting)} where each is what one person gave"
        if unclear:
            several = (
                f" {_word('judge', second)}, or {_word('human', second)} "
                f"{_word('judge', first)}{several}"
            )
        return UserError(
            f"{self.file}: {listed(fitting)} may all be the {role}'s; give {_word(role, first)}"
            f"{several if role == 'human' else ''}."
        )

    def _check_stems(self, labels: Sequence[str], unclear: Sequence[str]) -> None:
        """`UserError` where columns of one stem, as `rating_ann` and `rating_ben`, may be what
        several people gave."""
        stems: dict[str, list[str]] = {}
        for name in labels:
            found = STEM.fullmatch(plain_name(name))
            if found and not JUDGE.fullmatch(plain_name(name)):
                who = found["name"] or found["before"]
                if not QUALITY.fullmatch(who) and not re.fullmatch(rf"judge|llm|ai|{MODEL}", who):
                    stems.setdefault(found["stem"] or found["end"], []).append(name)
        for several in stems.values():
            if len(several) > 1 and not unclear:
                raise UserError(
                    f"{self.file}: {listed(several)} look like what {len(several)} people gave; "
                    f"give {_word('human', several)} where each is one person, "
                    f"{_word('human', several[0])} for one alone, or human=none."
                )

    def _pairs(self, pair: Sequence[str], chosen: Chosen) -> UserError:
        """A remedy for two texts a row, of which people prefer one."""
        source = (chosen.get("source") or ["SOURCE"])[0]
        preferences = preference_columns(self.values)
        if len(preferences) > 1:
            take = command_of(["judgebench", "from", self.file, "out=pairs"])
            return UserError(
                f"{self.file}: {listed(pair)} are two texts, and {listed(preferences)} say which "
                f"is better; {take} writes the command that measures the judge's by people's, "
                "without a model."
            )
        fields: dict[str, str | None] = {"source": source, "first": pair[0], "second": pair[1]}
        fields["preference"] = preferences[0] if preferences else "COLUMN"
        fields |= {"first_system": None, "second_system": None}
        command = command_of(
            [
                *("python", "-m", "judgebench", "+exp=pairwise", "data=jsonl_pairs"),
                *(f"data.path={quoted(self.file)}", f"data.fields={written(fields)}"),
                "dimensions=[overall]",
            ]
        )
        return UserError(
            f"{self.file}: {listed(pair)} look like two texts of which people prefer one; such "
            f"pairs are compared by {command}. Of one text a row name it with "
            f"output=COLUMN, as {_word('output', pair[0])}."
        )


def _word(key: str, value: Any) -> str:
    """A word of the command line, as a shell reads it."""
    return as_word(f"{key}={written(value)}")


def _all_are(kind: Any, held: Sequence[Any]) -> bool:
    return all(isinstance(value, kind) for value in held)


def _is_of_people(value: Any) -> bool:
    """True of a list of `{annotator, score}`."""
    return isinstance(opened(value) if isinstance(value, str) else value, list) and isinstance(
        by_rater(value), Mapping
    )


def _taken(chosen: Chosen) -> list[str]:
    return [name for names in chosen.values() for name in names]


def check_told_apart(file: str, columns: Columns, human: Sequence[Any], remedy: str = "") -> None:
    """Raises `UserError` where people's labels are numbers and words, or it cannot be told whether
    *yes* is good.

    Args:
        human: people's labels, one a text, or a list or object of raters'; without any, the
            judge's.
        remedy: what says which is better; empty where something has said it.
    """
    labels = singly(human)
    numbers = [label for label in labels if numbers_in([label])]
    if numbers and len(numbers) < len(labels):
        word = next(label for label in labels if label not in numbers)
        raise UserError(
            f"{file}: people's labels in {listed(columns.human)} are numbers, and {word!r}; leave "
            "a cell empty where there is no label."
        )
    entries = {label.casefold() for label in labels}
    yes_or_no = any(entries <= pair for pair in ({"yes", "no"}, {"true", "false"}, {"0", "1"}))
    names = columns.human or [columns.judge or ""]
    if remedy and labels and yes_or_no and any(BAD.search(plain_name(name)) for name in names):
        raise UserError(
            f"{file}: {listed(names)} is {' or '.join(sorted(entries))}, and it cannot be told "
            f"which of them is the better one; {remedy}."
        )


def taken_lines(columns: Columns, people: str, judge: str) -> list[str]:
    """Lines on how a table was taken, each with what changes it.

    Args:
        people: where people's labels stand, see `people_clause`; judge: likewise.
    """
    names = [f"{role} {getattr(columns, role) or 'none'}" for role in NAMES]
    if columns.unique:
        at = names.index("id none")
        names[at] += f" ('{columns.unique}' is unique: {_word('id', columns.unique)})"
    texts = f"texts: {columns.output} (output=COLUMN)"
    column, _, part = columns.output.rpartition(".")
    if part == REPLY:
        texts = (
            f"texts: {columns.output}, the last reply of each dialogue (output=COLUMN; "
            f"{_word('output', f'{column}.{WHOLE}')} judges all of it)"
        )
    lines = [
        texts,
        f"what they answer to: {columns.source or 'none, so that the texts alone count'} "
        "(source=COLUMN)",
        f"{', '.join(names)} (system=COLUMN, group=, id=, rater=)",
        f"people's labels: {people}",
        f"judge: {judge}",
    ]
    if columns.context or columns.reason:
        context = ", ".join(columns.context) or "none"
        lines.append(
            f"context {context}, reason {columns.reason or 'none'} (context=COLUMN, reason=)"
        )
    if columns.unused:
        lines.append(f"not used: {listed(columns.unused)}")
    return lines


@dataclass(frozen=True)
class Inside:
    """Contents of labels that are objects: scores of some raters, or of some dimensions.

    Attributes:
        raters, dimensions: names, of which one of both is empty; or both, where there are no
            objects.
        open: True where nothing but the names tells which they are.
    """

    raters: Sequence[str] = ()
    dimensions: Sequence[str] = ()
    open: bool = True


def inside(labels: Sequence[Any], dimensions: Sequence[str] = ()) -> Inside:
    """Reading of labels that are objects. They are dimensions where a value is a list or an object,
    most names are of what is rated (as tone, fluency), there is but one name, or their values are
    on different scales; else raters, who need not have rated everything.

    Args:
        dimensions: names that a user has given.

    Example:
        >>> inside([{"ann": 5, "ben": 4}, {"ann": 3}]).raters
        ['ann', 'ben']
        >>> inside([{"tone": 5, "clarity": 4}]).dimensions
        ['tone', 'clarity']
    """
    by_name: dict[str, list[Any]] = {}
    of_people = False
    for label in labels:
        of_people = of_people or _is_of_people(label)
        whole = by_rater(label)
        for name, value in whole.items() if isinstance(whole, Mapping) else ():
            by_name.setdefault(str(name), []).append(value)
    names = list(by_name)
    if not names or of_people:
        return Inside(raters=names, open=False)
    qualities = [name for name in names if QUALITY.fullmatch(plain_name(name))]
    nested = any(isinstance(value, list | Mapping) for held in by_name.values() for value in held)
    scales = {str(_kind(held)) for held in by_name.values()}
    rated = len(names) == 1 or nested or 2 * len(qualities) > len(names) or len(scales) > 1
    if {*dimensions} & {*names} or rated:
        return Inside(dimensions=names)
    return Inside(raters=names)


def _kind(values: Sequence[Any]) -> str:
    """A kind of labels: words, shares, grades or percentages."""
    numbers = numbers_in(singly(values))
    if not numbers:
        return "words"
    return "shares" if max(numbers) <= 1 else "grades" if max(numbers) <= 10 else "percentages"


def people_clause(
    columns: Columns, dimension: str, human: LabelRange | None, held: Inside | None = None
) -> str:
    """A clause on the columns of people's labels, what is `held` in each, and their range if they
    have a plain one."""
    if not columns.human:
        return "none (human=COLUMN)"
    named = f"{listed(columns.human)} of {dimension}"
    words = ["human=COLUMN"]
    if human is not None:
        named += f", on {human}"
        ends = "[WORST,BEST]"
        words.append(f"data.scale={ends}" if human.graded else f"data.classes={ends}")
    raters, dimensions = (held.raters, held.dimensions) if held else ((), ())
    if raters:
        named += f", by the raters {', '.join(raters)}"
    if held and held.open and raters:
        words.append(f"{_word('dimensions', raters)} where these are dimensions")
    elif len(dimensions) > 1:
        paths = [f"{columns.human[0]}.{name}" for name in dimensions]
        words.append(f"{_word('human', paths)} where these are raters")
    return f"{named} ({', '.join(words)})"


def judge_clause(columns: Columns, found: str) -> str:
    """A clause on the column of the judge's answers, and their range, and how it was `found`."""
    return f"{columns.judge or 'no column'}, range {found} (judge=COLUMN, 'ranges=[[WORST,BEST]]')"


# --- labels -------------------------------------------------------------------------------------


def singly(values: Sequence[Any]) -> list[str]:
    """Labels one by one, where some are a list of raters' or an object; signs as their words."""
    labels = []
    for value in map(by_rater, values):
        inner = list(value.values()) if isinstance(value, Mapping) else value
        if isinstance(inner, list):
            labels += singly(inner)
        elif inner not in (None, ""):
            labels.append(in_words(str(inner).strip()))
    return labels


def numbers_in(labels: Sequence[str]) -> set[float]:
    """Different labels as numbers, which may have decimal commas; empty where one is none."""
    try:
        return {float(re.sub(r"^(-?\d+),(\d+)$", r"\1.\2", label)) for label in labels}
    except ValueError:
        return set()


def is_label(values: Sequence[Any]) -> bool:
    """True where values are numbers, or a few short words."""
    labels = set(singly(values))
    few = len(labels) <= _MOST and max(map(len, labels), default=0) <= _LONGEST
    return bool(numbers_in([*labels]) or (few and labels))


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
    def graded(self) -> bool:
        """True of numbers that are no two classes, 0 and 1."""
        return not isinstance(self.entries[0], str) and self.entries != (0, 1)

    def __str__(self) -> str:
        return written(list(self.entries))


def label_range(values: Sequence[Any]) -> LabelRange | None:
    """The range of some labels: two words of which it is known which is better, or the narrowest
    usual scale that holds them; None where they are neither.

    Example:
        >>> str(label_range(["Pass", "Fail", "Pass"])), label_range([2, 3, 4, 1, 5]).whole
        ('[Fail,Pass]', True)
    """
    labels = singly(values)
    numbers = numbers_in(labels)
    if not numbers:
        pair = better_last(labels)
        return None if pair is None else LabelRange(pair, len(set(labels)) > 1)
    for low, high in SCALES:
        if low <= min(numbers) and max(numbers) <= high:
            return LabelRange((low, high), numbers == set(range(low, high + 1)))
    return None


def judge_range(
    file: str, answers: Sequence[Any], human: LabelRange | None
) -> tuple[Sequence[Any], str]:
    """The ends of the range of a judge's answers, and a clause on how it was found:
    people's, where it holds them, or the answers are free texts; else their own. `UserError` of
    scores, or words, on no usual scale."""
    own = label_range(answers) or label_range(final_words(answers))
    if own is None and answers and is_label(answers):
        labels = list(dict.fromkeys(singly(answers)))
        words = [label for label in labels if not numbers_in([label])]
        remedy = (
            "name theirs, worst first, with 'ranges=[[WORST,...,BEST]]'; in a run "
            "'data.classes=[WORST,...,BEST]' names people's words and the judge's at once."
        )
        if words and len(words) < len(labels):
            remedy = (
                f"leave a cell empty where there is no answer, as for {words[0]!r}, or name the "
                "range with 'ranges=[[WORST,BEST]]': such answers then count as failed."
            )
        raise UserError(
            f"{file}: the judge's answers, as {listed(labels[:3])}, are on no usual scale; {remedy}"
        )
    if own is None:
        return (human.entries, "") if human else ((1, 5), ", as labels have no plain scale")
    if human is not None and human.graded and not isinstance(own.entries[0], str):
        least, most = sorted(human.entries)
        if least <= own.entries[0] and own.entries[1] <= most:
            own = human
    return own.entries, "" if own.whole else ", the narrowest usual one that holds its scores"


_VERDICT = re.compile(
    r"\b(?:verdict|decision|judge?ment|rating|score|grade|label|answer|result|urteil|note)\b"
    r"[\s*_\"'`]{0,6}(?:[:=>]|\bis\b)[\s*_\"'`(\[]{0,6}([^\W\d_]+|-?\d+(?:\.\d+)?)\b",
    re.IGNORECASE,
)


def final_words(answers: Sequence[Any]) -> list[str]:
    """The words or numbers that free texts end their reasons in, as `Verdict: PASS`; none where
    fewer than half have one.

    Example:
        >>> final_words(["It is short. Verdict: PASS", "Verdict: FAIL, as it is long"])
        ['PASS', 'FAIL']
    """
    texts = [answer for answer in answers if isinstance(answer, str)]
    found = [match[-1] for text in texts if (match := _VERDICT.findall(text))]
    return found if 2 * len(found) >= len(answers) else []


def dimension_of(names: Sequence[str]) -> str:
    """The dimension that columns of labels are about: the one's own name, if that says one."""
    name = plain_name(names[0]) if len(names) == 1 else ""
    if not name or GENERAL.fullmatch(name) or EITHER.fullmatch(name):
        return "quality"
    return re.sub(r"^(human|people|expert|gold)_|_(score|rating|label|grade)s?$", "", name)
