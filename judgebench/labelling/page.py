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
from judgebench.runtime.files import user_path
from judgebench.runtime.parsing import read_text
from judgebench.settings.fields import Count, Natural, Words, check_fields
from judgebench.types import Record, ScoreRange
from judgebench.words.errors import UserError, shown
from judgebench.words.pages import content_policy, page_templates

_HERE = Path(__file__).parent
_TAKEN = "urzs"  # keys of the page: unclear, reason, undo, save
_UNCLEAR = "unclear"
_KEYS = "1234567890"
_USUAL = ("fail", "pass")


@dataclass(frozen=True)
class PageSettings:
    """Keys of conf/label.yaml; `UserError` of values that cannot be."""

    out: Words | None
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

    def choices(self) -> list[Record]:
        """The labels that a rater chooses from, worst first, each with its key: a digit or the first
        letter of its class, else its place; `UserError` of labels that cannot be."""
        # 1. the labels
        if self.scale is None:
            labels: list[Any] = [name_of(name) for name in self.classes or _USUAL]
            signs = [label[:1].lower() for label in labels]
        else:
            parsed = ScoreRange.parse(list(self.scale))
            labels = [int(value) if value.is_integer() else value for value in parsed.values]
            if parsed.reversed:
                labels.reverse()
            signs = list(map(str, labels))
        names = {str(label).casefold() for label in labels}
        if not (2 <= len(labels) == len(names) <= len(_KEYS)) or "" in names:
            raise UserError(
                f"{'classes' if self.scale is None else 'scale'}: {len(labels)} labels, from "
                f"{shown(labels[0])} on; give 2 to {len(_KEYS)}, for which there are keys, the worst "
                "first and each once, as classes=[fail,pass], scale=[1,5] or, where 1 is the best, "
                "scale=[6,1]."
            )
        if _UNCLEAR in names:
            raise UserError(
                f"classes: '{_UNCLEAR}' is what the page calls a text that a rater cannot label; name "
                "the class otherwise, as classes=[fail,undecided,pass]."
            )
        # 2. their keys: no sign twice, none of the page's own, each one letter or digit
        free = set(signs) - set(_TAKEN)
        joint = "".join(signs)
        are_keys = joint.isalnum() and len(free) == len(signs) == len(joint)
        keys = signs if are_keys else _KEYS
        return [{"label": label, "key": keys[i]} for i, label in enumerate(labels)]

    def question(self) -> str:
        """The rubric: its text, that of a file, or a plain question."""
        rubric = (self.rubric or "").strip()
        if rubric.endswith(".txt"):
            return read_text(user_path(rubric), f"rubric={rubric}", remedy="name a file, or ask")
        labels = ", ".join(str(choice["label"]) for choice in self.choices())
        usual = f"How good is the text ({self.dimension})? From worst to best: {labels}."
        return rubric or usual


def page_of(drawn: Drawn, settings: PageSettings, more: Mapping[str, Any] | None = None) -> str:
    """The page as text.

    Args:
        more: of a second look, example_id -> titles and texts that are shown with it; None hides
            what judge and people have said.
    """
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
        elif example.reason:
            text["shown"] = [("The judge's reason", example.reason)]
        texts.append(text)
    order = shown_order(len(texts), settings.seed)
    if more is not None:
        order = [(position, 0) for position in range(len(texts))]
    content: Record = {
        "seed": settings.seed,
        "dimension": settings.dimension,
        "rubric": settings.question(),
        "kind": "choices" if settings.scale is None else "scale",
        "choices": settings.choices(),
        "groups": [{"source": source, "context": context} for source, context in groups],
        "texts": texts,
        "order": order,
        "second_look": more is not None,
    }
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
    content |= {"page": digest, "rater": settings.rater}
    # 2. the page
    style = _asset("label.css")
    script = _asset("label.js")
    page: str = (
        page_templates(_HERE)
        .get_template("label.html.j2")
        .render(
            policy=content_policy([style], [script]),
            style=Markup(style),
            script=Markup(script),
            data=_as_data(content),
            texts=len(texts),
        )
    )
    return page


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
    text = (_HERE / name).read_text(encoding="utf-8")
    return text.replace("\r\n", "\n")
