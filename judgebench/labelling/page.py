"""The label page: one file that holds its texts, style and script, and loads nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from judgebench.data.classes import name_of
from judgebench.data.labels import content_digest
from judgebench.labelling.draw import Drawn, shown_order
from judgebench.runtime.errors import UserError, shown
from judgebench.runtime.fields import Count, Natural, Words, check_fields
from judgebench.runtime.files import user_path
from judgebench.runtime.parsing import read_text
from judgebench.types import Record, ScoreRange

_TAKEN = "urzs"  # keys of the page: unclear, reason, undo, save
_DIGITS = "1234567890"
_MOST_CLASSES = 9
_USUAL = ("fail", "pass")


@dataclass(frozen=True)
class PageSettings:
    """Keys of conf/label.yaml; `UserError` of values that cannot be."""

    out: Words
    n: Count
    seed: Natural
    rater: str | None
    dimension: Words
    rubric: str | None
    scale: Sequence[float] | None
    classes: Sequence[str | int | float | bool] | None
    disagreements: Count | None

    def __post_init__(self) -> None:
        check_fields(self, "")

    @property
    def kind(self) -> str:
        """The form of the labels: `scale` or `choices`."""
        return "choices" if self.scale is None else "scale"

    def choices(self) -> list[Record]:
        """The labels that a rater chooses from, worst first, each with its keys; `UserError` of more
        than there are keys."""
        if self.scale is not None and self.classes is not None:
            raise UserError("scale and classes are both given; labels are numbers or classes.")
        if self.scale is not None:
            return _numbers(self.scale)
        names = [name_of(name) for name in self.classes or _USUAL]
        different = {name.casefold() for name in names}
        if not 2 <= len(names) <= _MOST_CLASSES or len(different) < len(names) or "" in different:
            raise UserError(
                f"classes: {shown(names)} should be 2 to {_MOST_CLASSES} classes, worst first, each "
                "named once, as in classes=[fail,pass]."
            )
        letters = [name[0].lower() for name in names]
        are_keys = len(set(letters)) == len(letters) and not set(letters) & set(_TAKEN)
        are_keys = are_keys and not any(letter.isdigit() or letter.isspace() for letter in letters)
        choices = []
        for i, name in enumerate(names):
            keys = [letters[i]] if are_keys else []
            choices.append({"label": name, "keys": [*keys, _DIGITS[i]]})
        return choices

    def question(self) -> str:
        """The rubric: its text, that of a file, or a plain question by the choices."""
        if self.rubric is not None and self.rubric.strip():
            if self.rubric.strip().endswith(".txt"):
                path = user_path(self.rubric.strip())
                return read_text(path, f"rubric={path}", remedy="give the rubric's text, or a file")
            return self.rubric.strip()
        names = [str(choice["label"]) for choice in self.choices()]
        if self.scale is not None:
            return (
                f"How good is the text, from {names[0]} (worst) to {names[-1]} (best)?\n"
                f"Label its {self.dimension} by itself, and say unclear where you cannot tell."
            )
        return (
            f"Is the text good enough ({self.dimension})? From worst to best: {', '.join(names)}.\n"
            "Say unclear where you cannot tell."
        )


def _numbers(scale: Sequence[float]) -> list[Record]:
    """The numbers of a scale, each with its key."""
    parsed = ScoreRange.parse(list(scale))
    if parsed.labels:
        raise UserError(f"scale: {shown(list(scale))} must go from the lowest to the highest.")
    values = parsed.values
    if len(values) > len(_DIGITS):
        raise UserError(
            f"scale: {shown(list(scale))} has {len(values)} labels, and there are keys for "
            f"{len(_DIGITS)}; give a coarser one, as scale=[1,5], or classes=[poor,fair,good]."
        )
    are_digits = all(value in range(10) for value in values)
    choices = []
    for i, value in enumerate(values):
        number = int(value) if value.is_integer() else value
        key = str(number) if are_digits else _DIGITS[i]
        choices.append({"label": number, "keys": [key]})
    return choices


def page_of(
    drawn: Drawn, settings: PageSettings, more: Mapping[str, Any] | None = None
) -> tuple[str, int]:
    """The page as text, and how many times it shows a text.

    Args:
        more: of a second look, example_id -> titles and texts that are shown with it; None hides
            what judge and people have said.
    """
    # the report's page needs seconds to import
    from judgebench.report.html import content_policy
    from judgebench.report.render import TEMPLATES

    # 1. the data; who wrote a text is not in them
    groups: dict[tuple[str, str], int] = {}
    texts = []
    for example in drawn.examples:
        source = (example.source, example.context)
        text: Record = {
            "id": example.example_id,
            "digest": content_digest(example),
            "probability": drawn.probability[example.example_id],
            "group": groups.setdefault(source, len(groups)),
            "question": example.question,
            "output": example.output,
        }
        if more is not None:
            text["shown"] = more[example.example_id]
        texts.append(text)
    order = shown_order(len(texts), settings.seed)
    if more is not None:
        order = [(position, 0) for position in range(len(texts))]
    content: Record = {
        "seed": settings.seed,
        "dimension": settings.dimension,
        "rubric": settings.question(),
        "kind": settings.kind,
        "choices": settings.choices(),
        "groups": [{"source": source, "context": context} for source, context in groups],
        "texts": texts,
        "order": order,
        "second_look": more is not None,
    }
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
    rater = (settings.rater or "").strip() or None
    content = {"page": digest, "rater": rater, **content}
    # 2. the page
    style = _asset("label.css")
    script = _asset("label.js")
    page = TEMPLATES.from_string(_asset("label.html.j2")).render(
        policy=content_policy([style], [script]),
        style=Markup(style),
        script=Markup(script),
        data=_as_data(content),
        texts=len(texts),
    )
    return page, len(order)


def _as_data(content: Record) -> Markup:
    """JSON in ASCII, in which nothing ends its element or is markup.

    Example:
        >>> print(_as_data({"said": "</script><!--"}))
        {"said": "\\u003c/script\\u003e\\u003c!--"}
    """
    text = json.dumps(content, allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)


def _asset(name: str) -> str:
    text = (Path(__file__).parent / name).read_text(encoding="utf-8")
    return text.replace("\r\n", "\n")
