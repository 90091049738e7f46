"""Rubrics: template files, one a dimension, and the one place where their fields are filled."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from pathlib import Path

from judgebench.runtime.files import user_path
from judgebench.runtime.parsing import read_text
from judgebench.types import FIRST, PLACES_OR_TIE, TIE, Example, Rubric, ScoreRange
from judgebench.words.errors import UserError

_FIELD = re.compile(r"\{\{(\w+)\}\}|\{(min_range|max_range|quarter_[0-4]|(?:low|high)_score)\}")
_NUMBERED = re.compile(r"\{(?:quarter_[0-4]|(?:low|high)_score)\}")
_TIES = re.compile(r"\{ties:([^{}]*)\}")
_NAMES_TIE = re.compile(rf"(?<![\w.,]){TIE:g}(?![\w%]|[.,]\d)")
_SOURCES = ("Document", "Dialogue")
_OUTPUTS = ("Summary", "Response")
_BOTH = (("Summary_1", "Summary_2"), ("Response_1", "Response_2"))
_COMPARED = tuple(field for both in _BOTH for field in both)
_KNOWN = {*_SOURCES, *_OUTPUTS, *_COMPARED, "Fact"}

REFERENCES = ("Reference_low", "Reference_high")
"""Fields that only the form of a rubric may have in which texts are compared with references."""
COT, WITH_REFERENCES = FORMS = ("cot", "references")
"""Forms of a rubric, each in a file `<dimension>.<form>.txt` in its folder: the judge thinks step
by step and ends with `Final Rating:`; the judge compares with a poor and a good reference."""

_LETTERS = "ABCDEFGH"  # of a multiple choice; the next one is a pronoun
_SCORE = r"(?P<score>[-−]?\d+(?:\.\d+)?)"
_BESIDE = re.compile(
    rf"(?<!\w)(?P<letter>[{_LETTERS}])(?: ?[)\].:=]{{1,2}} ?[\[(]?| - | ?\()(?:score |rating )?{_SCORE}"
    r"(?![\w/]|[.,]\d|%)"
)
_AT_THE_END = re.compile(
    rf"^[^\w\n]{{0,8}}(?P<letter>[{_LETTERS}])[)\].:](?: [^\n\d]*)?[ (\[=:–-]{_SCORE}(?: points?)?[^\w\n]*$",
    re.MULTILINE,
)
_MARKUP = re.compile(r"[*_`\"“”$]")

UNASKED = """What the judge was asked about DIMENSION is unknown; its scores are from {min_range} to {max_range}.

{{Document}}

{{Summary}}"""
"""A rubric in the place of that of a judge that nobody asks, as its answers are known."""

BRIEF = """WORDS

{{Document}}

{{Summary}}

Answer from {min_range} (the worst) to {max_range} (the best). Give the answer alone and no other text."""
"""A rubric around a user's own WORDS."""

_ANY = "overall"
"""The rubric of a collection that asks about a text as a whole."""

EXAMPLE_FIELD = re.compile(r"\{\{\w+\}\}")
"""The place of any of an example's texts in a rubric."""
JUDGED_FIELD = re.compile("|".join(rf"\{{\{{{name}\}}\}}" for name in (*_OUTPUTS, *_COMPARED)))
"""The place of a text to be judged, alone or against another."""


_HEADING = re.compile(r"[^\n]*:\s*\Z")


def before_judged(rubric: Rubric) -> str:
    r"""The template up to the heading of the judged text, or the first of two.

    Example:
        >>> before_judged(Rubric("fluency", "Source: {{Document}}\n\nText to rate: {{Summary}}"))
        'Source: {{Document}}\n\n'
    """
    place = JUDGED_FIELD.search(rubric.template)
    assert place is not None  # a rubric has one
    head = rubric.template[: place.start()]
    heading = _HEADING.search(head)
    return head[: heading.start()] if heading else head


def task_before(text: str) -> str:
    r"""Paragraphs of a rubric's template before the first text of the example, without a heading of
    what comes next; empty where there are none.

    Example:
        >>> task_before("Rate the text.\n\nThe source:\n\n{{Document}}\n\nThe text: {{Summary}}")
        'Rate the text.'
    """
    paragraphs = re.split(r"\n\s*\n", EXAMPLE_FIELD.split(text)[0].strip())
    while paragraphs and (not paragraphs[-1] or paragraphs[-1].endswith(":")):
        paragraphs.pop()
    return "\n\n".join(paragraphs)


@dataclass(frozen=True)
class Filled:
    """A rubric about one example, cut before the first character that is the example's own.

    Attributes:
        prefix: the part that the example's whole group shares.
        tail: the rest.
        said: [start, end) of each stretch of `prefix + tail` that is the example's text.
    """

    prefix: str
    tail: str
    said: tuple[tuple[int, int], ...]

    @property
    def text(self) -> str:
        return self.prefix + self.tail


def load_rubrics(
    collection: str | Mapping[str, str],
    dimensions: Sequence[str],
    variants: Mapping[str, str] | None = None,
) -> dict[str, Rubric]:
    """The rubric of each dimension.

    Args:
        collection: `summary`, `dialogue`, the CAP paper's `cap_summary` and `cap_dialogue`,
            `comparative_summary` and `comparative_dialogue`, which compare two texts, or a folder
            of the user's own with one `<dimension>.txt` a dimension; or the templates themselves by
            the names that such files would have, without `.txt`.
        variants: dimension -> name of another file for it, as `relevance: relevance_as_printed`.
    """
    if braced := [name for name in dimensions if "{" in name]:
        raise UserError(
            f"dimensions: {braced[0]!r} holds a brace, as the fields of templates do, so words that "
            "name it would be read as one; call it something else in the data."
        )
    # 1. name -> function that gives the rubric's text, of every file
    if isinstance(collection, Mapping):
        if not collection or not all(
            isinstance(text, str) for pair in collection.items() for text in pair
        ):
            raise UserError(
                "prompt.rubrics: templates are given as a mapping of names to texts, with at least "
                "one."
            )
        title = "text"
        texts = {name: partial(str, text) for name, text in collection.items()}
    else:
        title = str(collection)
        folder = collection_folder("judgebench.prompts", "rubrics", title)
        if folder is None:
            raise UserError(
                f"prompt.rubrics={collection}: there is no such collection; give summary, "
                "dialogue, or a folder with one <dimension>.txt a dimension."
            )
        templates = [item for item in folder.iterdir() if item.name.endswith(".txt")]
        texts = {
            item.name.removesuffix(".txt"): partial(
                read_text, item, f"Rubric {item.name} in {title}"
            )
            for item in templates
        }
    names = sorted(name for name in texts if not name.endswith(tuple(f".{form}" for form in FORMS)))
    # 2. the rubrics of the dimensions, with their forms
    variants = variants or {}
    if unknown := [dimension for dimension in variants if dimension not in {*names, *dimensions}]:
        raise UserError(
            f"prompt.variants: {unknown[0]!r} is not a judged dimension, nor a rubric of {title}."
        )
    if missing := [
        dimension for dimension in dimensions if variants.get(dimension, dimension) not in names
    ]:
        raise _no_rubrics(missing, variants, title, names)
    rubrics = {}
    for dimension in dimensions:
        name = variants.get(dimension, dimension)
        forms = {}
        for form in ("", *FORMS):
            file = f"{name}.{form}" if form else name
            if file in texts:
                references = REFERENCES if form == WITH_REFERENCES else ()
                forms[form] = _template(texts[file](), f"Rubric {file}.txt in {title}", references)
        rubrics[dimension] = Rubric(dimension, forms.pop(""), forms)
    return rubrics


def _no_rubrics(
    missing: Sequence[str], variants: Mapping[str, str], title: str, names: Sequence[str]
) -> UserError:
    """The mistake of dimensions without a rubric; what would be right is the rubric about a text as
    a whole."""
    sentences = []
    chosen = dict(variants)
    for dimension in missing:
        key = f"prompt.variants.{dimension}" if dimension in variants else "dimensions"
        name = variants.get(dimension, dimension)
        sentence = (
            f"{key}: there is no rubric {name!r} in prompt.rubrics={title}; it has "
            f"{', '.join(names)}"
        )
        if _ANY in names and dimension not in variants:
            chosen[dimension] = _ANY
            sentence += (
                f"; {_ANY} asks about a text as a whole, and words of your own are a file "
                f"FOLDER/{dimension}.txt with prompt.rubrics=FOLDER"
            )
        sentences.append(f"{sentence}.")
    known = {**dict.fromkeys(missing), **chosen}
    whole = None not in known.values() and all(name in names for name in known.values())
    return UserError(*sentences, give={"prompt.variants": known} if whole else {})


def are_comparative(rubrics: Mapping[str, Rubric]) -> bool:
    """True where the rubrics ask which of two texts is better."""
    compares = {
        dimension: bool(_fields(rubric.template) & set(_COMPARED))
        for dimension, rubric in rubrics.items()
    }
    if len(set(compares.values())) > 1:
        pair, alone = (
            next(name for name in compares if compares[name] == kind) for kind in (True, False)
        )
        raise UserError(
            f"prompt.rubrics: the rubric for {pair!r} compares two texts and that for {alone!r} "
            "judges one alone; a run does one of both."
        )
    return any(compares.values())


def names_tie(rubric: Rubric) -> bool:
    """True where a rubric that compares two texts says how a tie is answered: with `TIE`, in its
    own words."""
    return _NAMES_TIE.search(_with_ties(rubric.template, True)) is not None


def names_range(rubric: Rubric) -> bool:
    """True where a rubric says which scores there are, by a field that differs from range to
    range."""
    return any(scale for _, scale in _FIELD.findall(rubric.template))


def names_numbers(rubric: Rubric) -> bool:
    """True where a rubric, or a form of it, speaks of scores between the ends, which letters and
    words cannot fill."""
    return any(_NUMBERED.search(text) for text in (rubric.template, *rubric.forms.values()))


def fill(
    rubric: Rubric,
    score_range: ScoreRange,
    example: Example,
    source: str | None = None,
    output: str | None = None,
    order: str = "",
    more: Mapping[str, str] | None = None,
) -> Filled:
    """The rubric about one example.

    Every field is filled in one pass over the template: what an example says is never read as a
    template. What stands in `{ties:...}` is said where the range is `PLACES_OR_TIE`.

    Args:
        source, output: replace the example's source where it was shortened, its judged text where
            that was attacked.
        order: place of the judged text, where the rubric compares it with the example's rival.
        more: field -> text of further `{{fields}}`.
    """
    # 1. the text of every field
    judged = example.output if output is None else output
    two = (judged, example.rival) if order == FIRST else (example.rival, judged)
    about = [example.source if source is None else source, example.question]
    values = {
        **_of_range(score_range),
        "Fact": example.context,
        **(more or {}),
        **dict.fromkeys(_SOURCES, "\n\n".join(about) if example.question else about[0]),
        **dict.fromkeys(_OUTPUTS, judged),
    }
    for both in _BOTH:
        values |= dict(zip(both, two, strict=True))
    # 2. the template with its fields filled, and the spans of what the example says
    template = _with_ties(rubric.template, score_range == PLACES_OR_TIE)
    text = ""
    at = 0
    said = []
    to_judge = []  # where texts to be judged begin
    for match in _FIELD.finditer(template):
        name = match[1] or match[2]
        text += template[at : match.start()]
        span = (len(text), len(text) + len(values[name]))
        text += values[name]
        if match[1]:
            said.append(span)
        if name in (*_OUTPUTS, *_COMPARED):
            to_judge.append(span[0])
        at = match.end()
    text += template[at:]
    # 3. the prefix that texts of an article share ends where the judged text begins
    start = to_judge[0] if to_judge else len(text)
    return Filled(text[:start], text[start:], tuple(said))


def choices_of(text: str, score_range: ScoreRange) -> dict[str, float]:
    """Letter of a multiple choice -> the score of the range that it stands for; empty where the
    rubric's own text defines none.

    A rubric defines letters by saying of each, from A on, its score: in one line each (`A) 5`, `(B)
    4 - good`, `C. Fair (3)`) or in a sentence (`A = 5, B = 4, C = 3`). Letters without numbers
    define nothing: whether A is the best or the worst would be a guess.

    Example:
        >>> choices_of("Answer with A (5), B (3) or C (1).", ScoreRange(1, 5))
        {'A': 5.0, 'B': 3.0, 'C': 1.0}
        >>> choices_of("A) good B) fair C) poor. 1 is the lowest score.", ScoreRange(1, 5))
        {}
    """
    if score_range.worded:  # its letters are the scores
        return {}
    # 1. the scores that each letter may stand for
    values_of: dict[str, set[float]] = {}
    # what stands next to the letter says more than what ends its line
    for pattern in (_AT_THE_END, _BESIDE):
        here: dict[str, set[float]] = {}
        for match in pattern.finditer(_MARKUP.sub("", text)):
            here.setdefault(match["letter"], set()).add(float(match["score"].replace("−", "-")))
        values_of |= here
    # 2. a definition: letters from A on, one score each, each score once and in the range
    scores = {letter: min(values) for letter, values in sorted(values_of.items())}
    different = set(scores.values())
    defined = (
        len(scores) > 1
        and "".join(scores) == _LETTERS[: len(scores)]
        and all(len(values) == 1 for values in values_of.values())
        and len(different) == len(scores)
        and different <= set(score_range.values)
    )
    return scores if defined else {}


def reference_score(score_range: ScoreRange, side: str) -> float:
    """The number that a `low` or `high` reference is said to have, a quarter of the range from its
    end (CAP: 2, 4)."""
    quarter = (score_range.maximum - score_range.minimum) / 4
    return score_range.mirrored(
        score_range.minimum + quarter if side == "low" else score_range.maximum - quarter
    )


@cache
def _of_range(score_range: ScoreRange) -> dict[str, str]:
    """The fields that a range fills."""
    return {
        "min_range": score_range.text(score_range.minimum),
        "max_range": score_range.text(score_range.maximum),
        **{f"quarter_{i}": _quarter(score_range, i) for i in range(5)},
        **{f"{side}_score": f"{reference_score(score_range, side):g}" for side in ("low", "high")},
    }


@cache
def _with_ties(template: str, allowed: bool) -> str:
    return _TIES.sub(r"\1" if allowed else "", template)


def _quarter(score_range: ScoreRange, i: int) -> str:
    """The range's worst end (0), its quarters, its best (4), with at least one decimal: CAP's 1.0,
    2.0, ... 5.0."""
    value = score_range.minimum + (score_range.maximum - score_range.minimum) * i / 4
    text = f"{score_range.mirrored(value):z.6f}".rstrip("0")
    return f"{text}0" if text.endswith(".") else text


def _template(text: str, where: str, references: Sequence[str]) -> str:
    """A template whose fields are known, which names a text to be judged, or two, and all
    `references`."""
    template = text.strip()
    fields = _fields(template)
    possible = sorted({*_KNOWN, *references})
    judged = fields & set(_OUTPUTS)
    compared = fields & set(_COMPARED)
    fault = None
    if unknown := sorted(fields.difference(possible)):
        fault = (
            f"has the unknown field {{{{{unknown[0]}}}}}; known are {', '.join(possible)}; the "
            "score range is {min_range} to {max_range}, in single braces"
        )
    elif not compared and not judged:
        fault = "has no {{Summary}} or {{Response}} to be judged"
    elif compared and (judged or compared not in [set(both) for both in _BOTH]):
        fault = (
            "must compare {{Summary_1}} with {{Summary_2}}, or {{Response_1}} with {{Response_2}}, "
            "and name no other text to be judged"
        )
    elif missing := [name for name in references if name not in fields]:
        fault = f"has no {{{{{missing[0]}}}}}; it must name both references"
    if fault:
        raise UserError(f"{where} {fault}.")
    return template


def _fields(template: str) -> set[str]:
    return {field for field, _ in _FIELD.findall(template) if field}


def collection_folder(package: str, folder: str, collection: str) -> Path | None:
    """The folder of a collection of templates: one of those in a package's folder by its name, or
    the user's own by its path."""
    shipped = Path(str(files(package) / folder / collection))
    if re.fullmatch(r"\w+", collection) and shipped.is_dir():
        return shipped
    path = user_path(collection)
    return path if collection.strip() and path.is_dir() else None
