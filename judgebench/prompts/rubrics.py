"""Rubrics: template files, one a dimension, and the one place where their fields are filled."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from judgebench.errors import UserError
from judgebench.types import Example, Rubric, ScoreRange

_FIELD = re.compile(r"\{\{(\w+)\}\}|\{(min_range|max_range)\}")
_SOURCES = ("Document", "Dialogue")
_OUTPUTS = ("Summary", "Response")
_KNOWN = {*_SOURCES, *_OUTPUTS, "Fact"}


def load_rubrics(
    collection: str, dimensions: list[str], variants: Mapping[str, str] | None = None
) -> dict[str, Rubric]:
    """The rubric of each dimension.

    Args:
        collection: `summary`, `dialogue`, or a folder of the user's own with one `<dimension>.txt` a dimension.
        dimensions: which ones.
        variants: dimension -> name of another file for it, as `relevance: relevance_as_printed`.

    Raises:
        UserError: no such collection or rubric, or a template with an unknown field or without a judged text.
    """
    folder = _folder(collection)
    have = sorted(item.name.removesuffix(".txt") for item in folder.iterdir() if item.name.endswith(".txt"))
    rubrics = {}
    for dimension in dimensions:
        name = (variants or {}).get(dimension, dimension)
        if name not in have:
            raise UserError(
                f"dimensions: there is no rubric {name!r} in prompt.rubrics={collection}; it has {', '.join(have)}."
            )
        template = (folder / f"{name}.txt").read_text("utf-8").strip()
        fields = {field for field, _ in _FIELD.findall(template) if field}
        if unknown := sorted(fields - _KNOWN):
            raise UserError(
                f"Rubric {name}.txt in {collection} has the unknown field {{{{{unknown[0]}}}}}; known are "
                f"{', '.join(sorted(_KNOWN))}."
            )
        if not fields & set(_OUTPUTS):
            raise UserError(
                f"Rubric {name}.txt in {collection} has no {{{{Summary}}}} or {{{{Response}}}} to be judged."
            )
        rubrics[dimension] = Rubric(dimension, template)
    return rubrics


def fill(rubric: Rubric, score_range: ScoreRange, example: Example, source: str | None = None) -> tuple[str, str]:
    """The rubric about one example, cut before the first character that is the example's own.

    Every field is filled in one pass over the template: what an example says is never read as a template.

    Args:
        source: stands in for the example's source where it had to be shortened.

    Returns:
        The part that the example's whole group shares, and the rest.
    """
    values = {
        "min_range": score_range.text(score_range.minimum),
        "max_range": score_range.text(score_range.maximum),
        "Fact": example.context,
    }
    values |= dict.fromkeys(_SOURCES, example.source if source is None else source)
    values |= dict.fromkeys(_OUTPUTS, example.output)
    shared: list[str] = []
    own: list[str] = []
    part, at = shared, 0
    for match in _FIELD.finditer(rubric.template):
        name = match[1] or match[2]
        part.append(rubric.template[at : match.start()])
        if name in _OUTPUTS:
            part = own
        part.append(values[name])
        at = match.end()
    part.append(rubric.template[at:])
    return "".join(shared), "".join(own)


def _folder(collection: str) -> Traversable | Path:
    shipped = files("judgebench.prompts") / "rubrics" / collection
    if re.fullmatch(r"\w+", collection) and shipped.is_dir():
        return shipped
    own = Path(collection).expanduser()
    if own.is_dir():
        return own
    raise UserError(
        f"prompt.rubrics={collection}: there is no such collection; give summary, dialogue, or a folder with one "
        "<dimension>.txt a dimension."
    )
