"""Columns of a table: which holds what, by its name and by what stands in it; and the scale that
labels are on."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judgebench.data.classes import better_last
from judgebench.data.fields import USUAL
from judgebench.data.jsonl import SCALES
from judgebench.data.rows import FileRow
from judgebench.runtime.errors import UserError

_TEXTS = {role: USUAL[role] for role in ("source", "output")}
_NAMES = {
    "system": "system_id system model model_name model_id modell",
    "group": "group_id group doc_id document_id article_id conversation_id",
    "id": "example_id id item_id sample_id request_id custom_id trace_id uid uuid",
    "rater": "rater rater_id annotator annotator_id worker_id labeler",
}
_HUMAN = re.compile(
    r"(human|people|person|expert|manual|gold|annotat\w*|labell?er|mensch|thumbs?)s?(_\w+)?|"
    r"(rater|bewerter)_?\d+"
)
_JUDGE = re.compile(
    r"(judge|llm|ai|auto|evaluator|grader|ki)(_\w+)?|(gpt|claude|gemini)\w*_(score|rating|grade)|judge?ment|verdict|urteil"
)
_EITHER = re.compile(
    r"scores?|ratings?|grades?|stars|labels?|quality|pass(ed)?|correct|decision|result|"
    r"noten?|bewertung(en)?|punkte|sterne|qualitat|nota|puntuacion"
)
"""Names that columns have: of texts, and of what names them, the likeliest first; of people's
labels, of a judge's, and of one of both."""

ROLES = (*_TEXTS, *_NAMES, "human", "judge")
"""Words of the command line for what columns hold."""

_BAD = re.compile(
    r"hallucinat|toxic|harm|error|bias|contradict|unsafe|violat|offens|refus|spam|wrong|incorrect|"
    r"fail|hate|jailbr|leak|fehler"
)
"""Words in names of labels of which *yes* may be the bad one."""

_GENERAL = re.compile(
    r"(_?(human|people|expert|gold|manual)|_?(score|rating|grade|label|star)s?|_?(\d+|[a-z]$))+"
)
"""Names of labels that say nothing of what was rated."""

_LONGEST = 40
_MOST = 26
"""Characters of a label in words, and different words of a column."""


@dataclass(frozen=True)
class Columns:
    """Columns of a table by what they hold; None where it has none.

    Attributes:
        output: the texts; where there are none, what stands for them.
        human: one column, or one a rater; empty where nobody gave a label.
        unused: columns of labels or texts that repeat, or with a name as a judge's, that nothing is
            taken from.
    """

    output: str
    human: Sequence[str]
    unused: Sequence[str] = ()
    source: str | None = None
    system: str | None = None
    group: str | None = None
    id: str | None = None
    rater: str | None = None
    judge: str | None = None


def unquoted(word: str) -> str:
    """A word of a command line without blanks and quotation marks around it."""
    return re.sub(r"^\s*(['\"]?)(.*)\1\s*$", r"\2", word, flags=re.DOTALL)


def quoted(value: str) -> str:
    """A value as Hydra reads it: in quotation marks, unless it is a plain name or path."""
    if re.fullmatch(r"(?!(null|true|false)$)[\w./~+-]+", value, re.ASCII | re.IGNORECASE):
        return value
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def table_columns(
    file: str, rows: Sequence[FileRow], given: Mapping[str, str], either: str = ""
) -> Columns:
    """The columns of a file's rows; `UserError` where a column that is given is not there, or it
    cannot be told which holds the texts or a label.

    Args:
        given: word of the command line -> column, a path into it, a list of them, or `none`.
        either: `human` or `judge`, whose a column `score` is; empty where that cannot be told.
    """
    values: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in row.values.items():
            if value not in (None, "") and value == value:
                values.setdefault(name, []).append(value)
    if not values:
        raise UserError(f"{file}: there is no row in it; give a file with a row for each text.")
    # 1. columns that are given
    chosen: dict[str, Sequence[str]] = {}
    for role, word in given.items():
        names = word[1:-1].split(",") if word.startswith("[") else [word]
        chosen[role] = [unquoted(name) for name in names if name not in ("none", "null")]
        for name in chosen[role]:
            if not any(row.has(name) for row in rows):
                raise UserError(
                    f"{role}={word}: {file} has no column '{name}' in which something stands; it "
                    f"has {_listed(values)}."
                )
    # 2. texts, and names, of which each text may need its own
    plain = {_plain(name): name for name in reversed(list(values))}
    for role, usual in {**_TEXTS, **_NAMES}.items():
        taken = [name for names in chosen.values() for name in names]
        for likely in usual.split():
            name = plain.get(likely, "")
            if role in chosen or name in taken or not name:
                continue
            kinds = str if role in _TEXTS else str | int
            fits = all(isinstance(value, kinds) for value in values[name])
            if role not in _TEXTS:
                fits = fits and len(values[name]) == len(rows)
            if fits and (role != "id" or len(set(values[name])) == len(rows)):
                chosen[role] = [name]
    # 3. labels, which a wrong guess would turn into a wrong verdict
    taken = [name for names in chosen.values() for name in names]
    labels = [name for name in values if name not in taken and is_label(values[name])]
    unclear = [name for name in labels if _EITHER.fullmatch(_plain(name))]
    for role, pattern in (("human", _HUMAN), ("judge", _JUDGE)):
        fitting = [name for name in labels if pattern.fullmatch(_plain(name))]
        if role == either and not fitting:
            fitting = unclear
        if role in chosen:
            continue
        if len(fitting) > 1:
            first, second = fitting[:2]
            several = f", or human=[{','.join(fitting)}] where each is what one person gave"
            if fitting is unclear:
                several = f" judge={second}, or human={second} judge={first}{several}"
            raise UserError(
                f"{file}: {_listed(fitting)} may all be the {role}'s; give {role}={first}"
                f"{several if role == 'human' else ''}."
            )
        if not fitting and unclear and not either:
            raise UserError(
                f"{file}: it cannot be told whether people or a judge gave '{unclear[0]}'; give "
                f"human={unclear[0]} or judge={unclear[0]}, and human=none or judge=none where the "
                "file has nothing else of theirs."
            )
        chosen[role] = fitting
    # 4. what stands for texts where there are none
    if given.get("output") == "none":
        chosen["output"] = chosen.get("source") or chosen.get("id") or []
    if not chosen.get("output"):
        chats = [name for name, held in values.items() if isinstance(held[0], list)]
        if chats:
            raise UserError(
                f"{file}: '{chats[0]}' is a list; name what of it is judged, and what that answers "
                f"to, as output={chats[0]}.-1.content source={chats[0]}.-2.content for the last "
                "message of a chat and the one before."
            )
        pair = [name for name in values if re.search(r"_[ab12]$", _plain(name))][:2]
        if len(pair) == 2 and isinstance(values[pair[0]][0], str):
            source = (chosen.get("source") or ["SOURCE"])[0]
            raise UserError(
                f"{file}: {_listed(pair)} look like two texts of which people prefer one; such "
                "pairs are compared by python -m judgebench +exp=pairwise data=jsonl_pairs "
                f"data.path={file} 'data.fields={{source: {source}, first: {pair[0]}, second: "
                f"{pair[1]}, preference: COLUMN, first_system: null, second_system: null}}' "
                "'dimensions=[overall]'. Of "
                f"one text a row name it with output=COLUMN, as output={pair[0]}."
            )
        raise UserError(
            f"{file}: none of its columns ({_listed(values)}) looks like the judged texts; name it "
            "with output=COLUMN, which may be a path into objects, as output=answer.text, or give "
            "output=none where labels of people and judge alone count."
        )
    # 5. what nothing is taken from, though it looks as if it should be
    taken = [name for names in chosen.values() for name in names]
    unused = []
    for name, held in values.items():
        texts = [value for value in held if isinstance(value, str)]
        repeats = len(set(texts)) < len(texts) and sum(map(len, texts)) > _LONGEST * len(texts)
        judges = _JUDGE.fullmatch(_plain(name))
        if name not in taken and (is_label(held) or repeats or judges):
            unused.append(name)
    single = {role: names[0] for role, names in chosen.items() if names and role != "human"}
    return Columns(human=chosen["human"], unused=unused, **single)


def check_told_apart(file: str, columns: Columns, human: Sequence[Any], remedy: str = "") -> None:
    """Raises `UserError` where people's labels are numbers and words, or it cannot be told whether
    *yes* is good.

    Args:
        human: people's labels, one a text, or a list or object of raters'; without any, the
            judge's.
        remedy: what says which is better; empty where something has said it.
    """
    labels = _singly(human)
    numbers = [label for label in labels if _numbers([label])]
    if numbers and len(numbers) < len(labels):
        word = next(label for label in labels if label not in numbers)
        raise UserError(
            f"{file}: people's labels in {_listed(columns.human)} are numbers, and {word!r}; leave "
            "a cell empty where there is no label."
        )
    entries = {label.casefold() for label in labels}
    yes_or_no = entries <= {"yes", "no"} or entries <= {"true", "false"} or entries <= {"0", "1"}
    names = columns.human or [columns.judge or ""]
    if remedy and labels and yes_or_no and any(_BAD.search(_plain(name)) for name in names):
        raise UserError(
            f"{file}: {_listed(names)} is {' or '.join(sorted(entries))}, and it cannot be told "
            f"which of them is the better one; {remedy}."
        )


def _listed(names: Any) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _plain(name: str) -> str:
    """A column's name in small letters without accents, with one line for other signs."""
    folded = unicodedata.normalize("NFKD", re.sub(r"['’]s\b", "", name))
    words = re.sub(r"([a-z])([A-Z])", r"\1_\2", re.sub(r"[\u0300-\u036f]", "", folded))
    return re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")


def taken_lines(columns: Columns, people: str, judge: str) -> list[str]:
    """Lines on how a table was taken, each with what changes it.

    Args:
        people: where people's labels stand, see `people_clause`; judge: likewise.
    """
    names = [f"{role} {getattr(columns, role) or 'none'}" for role in _NAMES]
    lines = [
        f"texts: {columns.output} (output=COLUMN)",
        f"what they answer to: {columns.source or 'none, so that the texts alone count'} "
        "(source=COLUMN)",
        f"{', '.join(names)} (system=COLUMN, group=, id=, rater=)",
        f"people's labels: {people}",
        f"judge: {judge}",
    ]
    if columns.unused:
        lines.append(f"not used: {_listed(columns.unused)}")
    return lines


def people_clause(columns: Columns, dimension: str, human: LabelRange | None) -> str:
    """A clause on the columns of people's labels, and their range if they have a plain one."""
    if not columns.human:
        return "none (human=COLUMN)"
    if human is None:
        return f"{_listed(columns.human)} of {dimension} (human=COLUMN)"
    ends = "data.scale=[WORST,BEST]" if human.graded else "data.classes=[WORST,BEST]"
    return f"{_listed(columns.human)} of {dimension}, on {human} (human=COLUMN, {ends})"


def judge_clause(columns: Columns, found: str) -> str:
    """A clause on the column of the judge's answers, and their range, and how it was `found`."""
    return f"{columns.judge or 'no column'}, range {found} (judge=COLUMN, 'ranges=[[WORST,BEST]]')"


# --- labels -------------------------------------------------------------------------------------


def _singly(values: Sequence[Any]) -> list[str]:
    """Labels one by one, where some are a list of raters' or an object."""
    singly = []
    for value in values:
        inner = list(value.values()) if isinstance(value, Mapping) else value
        if isinstance(inner, list):
            singly += _singly(inner)
        elif inner not in (None, ""):
            singly.append(str(inner).strip())
    return singly


def _numbers(labels: Sequence[str]) -> set[float]:
    """Different labels as numbers, which may have decimal commas; empty where one is none."""
    try:
        return {float(re.sub(r"^(-?\d+),(\d+)$", r"\1.\2", label)) for label in labels}
    except ValueError:
        return set()


def is_label(values: Sequence[Any]) -> bool:
    """True where values are numbers, or a few short words."""
    labels = set(_singly(values))
    few = len(labels) <= _MOST and max(map(len, labels), default=0) <= _LONGEST
    return bool(_numbers([*labels]) or (few and labels))


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
        return f"[{','.join(quoted(str(entry)) for entry in self.entries)}]"


def label_range(values: Sequence[Any]) -> LabelRange | None:
    """The range of some labels: two words of which it is known which is better, or the narrowest
    usual scale that holds them; None where they are neither.

    Example:
        >>> str(label_range(["Pass", "Fail", "Pass"])), label_range([2, 3, 4, 1, 5]).whole
        ('[Fail,Pass]', True)
    """
    labels = _singly(values)
    numbers = _numbers(labels)
    if not numbers:
        pair = better_last(labels)
        return None if pair is None else LabelRange(pair, len(set(labels)) > 1)
    for low, high in SCALES:
        if low <= min(numbers) and max(numbers) <= high:
            return LabelRange((low, high), numbers == set(range(low, high + 1)))
    return None


def judge_range(file: str, answers: Sequence[Any], human: LabelRange | None) -> tuple[str, str]:
    """The range of a judge's answers as an override has it, and a clause on how it was found:
    people's, where it holds them, or the answers are free texts; else their own. `UserError` of
    scores, or words, on no usual scale."""
    own = label_range(answers) or label_range(final_words(answers))
    if own is None and answers and is_label(answers):
        labels = list(dict.fromkeys(_singly(answers)))
        words = [label for label in labels if not _numbers([label])]
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
            f"{file}: the judge's answers, as {_listed(labels[:3])}, are on no usual scale; {remedy}"
        )
    if own is None:
        return (str(human), "") if human else ("[1,5]", ", as labels have no plain scale")
    if human is not None and human.graded and not isinstance(own.entries[0], str):
        least, most = sorted(human.entries)
        if least <= own.entries[0] and own.entries[1] <= most:
            own = human
    return str(own), "" if own.whole else ", the narrowest usual one that holds its scores"


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
    name = _plain(names[0]) if len(names) == 1 else ""
    if not name or _GENERAL.fullmatch(name) or _EITHER.fullmatch(name):
        return "quality"
    return re.sub(r"^(human|people|expert|gold)_|_(score|rating|label|grade)s?$", "", name)
