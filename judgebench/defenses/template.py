"""Defenses by words around the prompt and around the judged text."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from judgebench.prompts.builder import Defense
from judgebench.prompts.rubrics import EXAMPLE_FIELD, JUDGED_FIELD
from judgebench.runtime.errors import UserError
from judgebench.types import Rubric

_FIELD = re.compile(r"\{(\w+)\}")
_SEPARATOR = re.compile(r"^---[ \t]*\r?\n", re.MULTILINE)
_PROMPT, _TEXTS, _TEXT = PLACES = ("prompt", "texts", "text")
_TASK, _MARKER = "task", "marker"
_RANGE = ("min_range", "max_range")
FIELDS = (*PLACES, _TASK, _MARKER, *_RANGE, "dimension")
"""What a template may name: what its words stand around (one of the first three a part), the task once more, a marker
that no text can know, the ends of the score range, the judged dimension."""


@dataclass(frozen=True)
class TemplateDefense(Defense):
    """Words around the whole prompt, around the texts to be judged together, and around each of them.

    Args:
        name: see `Defense`.
        prompt: with `{prompt}`, which is the rubric with all that it holds.
        texts: with `{texts}`: the judged text; where two are compared, both and what the rubric says between them.
        each: with `{text}`, which is each text to be judged.
        seed: of the markers.

    Each may also name `{task}`, what the rubric says before the first text of the example; `{marker}`, 12 hexadecimal
    digits that occur in no text; `{min_range}`, `{max_range}` and `{dimension}`. The marker is drawn from the seed, so
    that all groups share it; if a text holds it, its group gets the next one.

    Raises:
        UserError: a part without its place or with a second one, or a field that is not one of `FIELDS`.

    Example:
        >>> defense = TemplateDefense("mine", "Beware.\\n\\n{prompt}", each="<{text}>")
        >>> defense.rubric(Rubric("fluency", "Rate this: {{Summary}}"), []).template
        'Beware.\\n\\nRate this: <{{Summary}}>'
    """

    name: str
    prompt: str = "{prompt}"
    texts: str = "{texts}"
    each: str = "{text}"
    seed: int = 0

    def __post_init__(self) -> None:
        for place, part in zip(PLACES, (self.prompt, self.texts, self.each), strict=True):
            named = _FIELD.findall(part)
            if unknown := [field for field in named if field not in FIELDS]:
                known = ", ".join(f"{{{field}}}" for field in FIELDS)
                raise UserError(
                    f"defenses: the template of {self.name} has the unknown field {{{unknown[0]}}}; known are {known}."
                )
            if [field for field in named if field in PLACES] != [place]:
                raise UserError(
                    f"defenses: each part of the template of {self.name} must name one of {{prompt}}, {{texts}} and "
                    "{text}, once, and stand for it alone; parts are kept apart by a line of three dashes."
                )

    @classmethod
    def parse(cls, name: str, template: str, seed: int = 0) -> TemplateDefense:
        """From a template file: a part, or up to three kept apart by lines of three dashes, each with its place.

        Raises:
            UserError: as the class does, or two parts with one place.
        """
        parts: dict[str, str] = {}
        for part in map(_whole, _SEPARATOR.split(template)):
            place = next((field for field in _FIELD.findall(part) if field in PLACES), None)
            if place is None:
                raise UserError(
                    f"defenses: the template of {name} has a part without {{prompt}}, {{texts}} or {{text}}; put one "
                    "of them in the place of what its words stand around."
                )
            if place in parts:
                raise UserError(f"defenses: the template of {name} has two parts with {{{place}}}; keep one.")
            parts[place] = part
        around = {place: parts.get(place, f"{{{place}}}") for place in PLACES}
        return cls(name, around[_PROMPT], around[_TEXTS], around[_TEXT], seed)

    def rubric(self, rubric: Rubric, said: Sequence[str]) -> Rubric:
        """See `Defense.rubric`.

        Raises:
            UserError: the task is to be repeated, and the rubric says nothing before the example's first text.
        """
        asked = rubric.template
        values = {"dimension": rubric.dimension, **{name: f"{{{name}}}" for name in _RANGE}}
        used = {field for part in (self.prompt, self.texts, self.each) for field in _FIELD.findall(part)}
        if _TASK in used:
            values[_TASK] = self._task(rubric)
        if _MARKER in used:
            values[_MARKER] = self._marker([asked, *said])
        fields = list(JUDGED_FIELD.finditer(asked))
        first, last = fields[0].start(), fields[-1].end()
        wrapped = JUDGED_FIELD.sub(lambda match: _put(self.each, {**values, _TEXT: match[0]}), asked[first:last])
        texts = _put(self.texts, {**values, _TEXTS: wrapped})
        whole = _put(self.prompt, {**values, _PROMPT: asked[:first] + texts + asked[last:]})
        return replace(rubric, template=whole)

    def _task(self, rubric: Rubric) -> str:
        match = EXAMPLE_FIELD.search(rubric.template)
        paragraphs = re.split(r"\n\s*\n", rubric.template[: match.start() if match else None].strip())
        while paragraphs and (not paragraphs[-1] or paragraphs[-1].endswith(":")):
            paragraphs.pop()  # a heading of what comes next
        if not paragraphs:
            raise UserError(
                f"defenses: {self.name} repeats what the rubric of {rubric.dimension!r} says before the texts, and it "
                "says nothing there; put the task before them, or leave this defense out."
            )
        return "\n\n".join(paragraphs)

    def _marker(self, said: Sequence[str]) -> str:
        drawn = (hashlib.sha256(f"marker {self.seed} {draw}".encode()).hexdigest()[:12] for draw in itertools.count())
        return next(marker for marker in drawn if not any(marker in text.lower() for text in said))


NONE = TemplateDefense("none")
"""No defense: every prompt as the rubric has it."""


def _put(part: str, values: Mapping[str, str]) -> str:
    """Every field in one pass: what a rubric says is never read as a template."""
    return _FIELD.sub(lambda match: values[match[1]], part)


def _whole(text: str) -> str:
    """A part's text without the line end that editors put last."""
    return text.removesuffix("\n").removesuffix("\r")
